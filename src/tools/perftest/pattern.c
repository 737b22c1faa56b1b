/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perftest/pattern.h"

#include <string.h>

/* splitmix64 */
static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

typedef struct {
    uint64_t first, step;
} wave_t;

static wave_t wave_of(uint64_t seed)
{
    return (wave_t){.first = mix(seed), .step = mix(~seed) | 1};
}

static uint64_t wave_word(const wave_t *wave, uint64_t index)
{
    return wave->first + index * wave->step;
}

static unsigned char wave_byte(const wave_t *wave, uint64_t offset)
{
    return (unsigned char)(wave_word(wave, offset / 8) >> (8 * (offset % 8)));
}

void perf_pattern_fill(void *memory, uint64_t seed, uint64_t offset, size_t length)
{
    const wave_t wave  = wave_of(seed);
    unsigned char *at  = memory;
    unsigned char *end = at + length;
    uint64_t word;

    for (; at < end && offset % 8 != 0; at++, offset++) {
        *at = wave_byte(&wave, offset);
    }
    word = wave_word(&wave, offset / 8);
    for (; end - at >= 8; at += 8, offset += 8, word += wave.step) {
        memcpy(at, &word, 8);
    }
    for (; at < end; at++, offset++) {
        *at = wave_byte(&wave, offset);
    }
}

static uint64_t count_wrong(const unsigned char *at, const wave_t *wave, uint64_t offset,
                            size_t length)
{
    uint64_t wrong = 0;

    for (size_t i = 0; i < length; i++) {
        wrong += at[i] != wave_byte(wave, offset + i);
    }
    return wrong;
}

uint64_t perf_pattern_check(const void *memory, uint64_t seed, uint64_t offset, size_t length)
{
    const wave_t wave       = wave_of(seed);
    const unsigned char *at = memory;
    size_t head             = (8 - offset % 8) % 8;
    uint64_t wrong, word, found;

    head  = head < length ? head : length;
    wrong = count_wrong(at, &wave, offset, head);
    at += head;
    offset += head;
    length -= head;
    word = wave_word(&wave, offset / 8);
    for (; length >= 8; at += 8, offset += 8, length -= 8, word += wave.step) {
        memcpy(&found, at, 8);
        if (found != word) {
            wrong += count_wrong(at, &wave, offset, 8);
        }
    }
    return wrong + count_wrong(at, &wave, offset, length);
}
