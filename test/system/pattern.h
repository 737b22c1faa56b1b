/* SPDX-License-Identifier: BSD-3-Clause */
/* Values whose every byte says which put they came from: the first 8 bytes name key and generation,
 * the others follow from them and from their place. Shared by the tests and their client program. */
#ifndef KVL_SYSTEM_PATTERN_H
#define KVL_SYSTEM_PATTERN_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <kvlane/cache.h>

#define PATTERN_KEYS     64
#define PATTERN_SEGMENTS 61

static inline uint64_t pattern_name(uint32_t key, uint32_t generation)
{
    return ((uint64_t)generation << 32 | key) ^ UINT64_C(0x6b766c616e652121);
}

static inline uint64_t pattern_word(uint64_t name, uint64_t place)
{
    uint64_t x = name;

    if (place == 0) {
        return name;
    }
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    x ^= x >> 32;
    return x + place * UINT64_C(0x9e3779b97f4a7c15);
}

static inline void pattern_fill(void *memory, size_t length, uint32_t key, uint32_t generation)
{
    uint64_t name  = pattern_name(key, generation);
    uint64_t first = pattern_word(name, 1) - UINT64_C(0x9e3779b97f4a7c15);
    uint8_t *bytes = memory;
    size_t i;

    for (i = 0; i + 8 <= length; i += 8) {
        uint64_t word = i ? first + i / 8 * UINT64_C(0x9e3779b97f4a7c15) : name;

        memcpy(bytes + i, &word, 8);
    }
    if (i < length) {
        uint64_t word = pattern_word(name, i / 8);

        memcpy(bytes + i, &word, length - i);
    }
}

/* The first byte that is not of this put; length if there is none. */
static inline size_t pattern_differs(const void *memory, size_t length, uint32_t key,
                                     uint32_t generation)
{
    uint64_t name        = pattern_name(key, generation);
    uint64_t first       = pattern_word(name, 1) - UINT64_C(0x9e3779b97f4a7c15);
    const uint8_t *bytes = memory;
    size_t i;

    for (i = 0; i + 8 <= length; i += 8) {
        uint64_t word = i ? first + i / 8 * UINT64_C(0x9e3779b97f4a7c15) : name, seen;

        memcpy(&seen, bytes + i, 8);
        if (seen != word) {
            break;
        }
    }
    for (; i < length; i++) {
        uint64_t word = pattern_word(name, i / 8);

        if (bytes[i] != (uint8_t)(word >> (8 * (i % 8)))) {
            return i;
        }
    }
    return length;
}

/* The generation that the first bytes claim (length >= 8); the rest is for pattern_differs(). */
static inline uint32_t pattern_claims(const void *memory)
{
    uint64_t name;

    memcpy(&name, memory, 8);
    return (uint32_t)((name ^ UINT64_C(0x6b766c616e652121)) >> 32);
}

/* ---- the keys that many clients put and get at once ---- */

/* from inside the message to several megabytes, one and many segments */
static inline size_t pattern_length(uint32_t key)
{
    static const size_t lengths[] = {
        100, 1000, 5000, 40000, 61 * 4296, 200000, 1 << 20, 2752512,
    };

    return lengths[key % 8];
}

static inline size_t pattern_segments(uint32_t key)
{
    return key % 8 == 4 ? PATTERN_SEGMENTS : 1;
}

typedef struct {
    char key[16];
    kvl_segment_t segments[PATTERN_SEGMENTS];
} pattern_item_t;

/* The item of a key at @a memory, which holds pattern_length(key) bytes; @a space of item stays. */
static inline kvl_item_t pattern_item(pattern_item_t *space, uint32_t key, uint8_t *memory)
{
    size_t length = pattern_length(key), count = pattern_segments(key), each = length / count, i;

    for (i = 0; i < count; i++) {
        space->segments[i] = (kvl_segment_t){.address = memory + i * each, .length = each};
    }
    snprintf(space->key, sizeof(space->key), "k%04u", (unsigned)key);
    return (kvl_item_t){space->key, strlen(space->key), space->segments, count};
}

#endif
