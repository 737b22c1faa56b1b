/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perftest/pool.h"

#include "tools/perftest/pattern.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define POOL_BYTES   (UINT64_C(256) << 20)
#define SLOTS_MAX    UINT64_C(32768)     /* a pool of tiny items need not outgrow the cache */
#define SEGMENTS_MAX (UINT64_C(1) << 22) /* segments in all: each takes a descriptor */
#define LAYER_ALIGN  ((size_t)64)
#define NODE_SHARE   0.5 /* of the node's memory, for the items of a test */

static uint64_t least_bytes(void)
{
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);

    return cache > 0 && (uint64_t)cache * 5 / 4 > POOL_BYTES ? (uint64_t)cache * 5 / 4 : POOL_BYTES;
}

size_t perf_pool_slots(const perf_options_t *options, uint64_t node_bytes)
{
    uint64_t item  = perf_item_bytes(options);
    uint64_t slots = least_bytes() / item + 1;
    uint64_t fit   = (uint64_t)((double)node_bytes * NODE_SHARE) / item;

    slots = slots > SLOTS_MAX ? SLOTS_MAX : slots;
    slots = slots > SEGMENTS_MAX / options->segments ? SEGMENTS_MAX / options->segments : slots;
    slots = slots < options->batch ? options->batch : slots;
    slots = slots > options->items ? options->items : slots;
    return slots > fit ? fit : slots;
}

static size_t layer_stride(size_t slots, size_t segment_bytes)
{
    /* a gap, so that even the segments of the only item are no neighbours */
    return (slots * segment_bytes + 2 * LAYER_ALIGN - 1) / LAYER_ALIGN * LAYER_ALIGN;
}

size_t perf_pool_bytes(size_t slots, size_t segment_bytes, unsigned segments)
{
    return layer_stride(slots, segment_bytes) * segments;
}

void perf_pool_place(perf_pool_t *pool, void *base, size_t slots, size_t segment_bytes,
                     unsigned segments)
{
    *pool = (perf_pool_t){
        .base          = base,
        .bytes         = perf_pool_bytes(slots, segment_bytes, segments),
        .slots         = slots,
        .segment_bytes = segment_bytes,
        .segments      = segments,
        .layer_stride  = layer_stride(slots, segment_bytes),
    };
}

int perf_pool_create(perf_pool_t *pool, size_t slots, size_t segment_bytes, unsigned segments,
                     bool shared)
{
    size_t bytes = perf_pool_bytes(slots, segment_bytes, segments);
    void *base   = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        (shared ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS, -1, 0);

    if (base == MAP_FAILED) {
        *pool = (perf_pool_t){0};
        return perf_fail("pool of %zu bytes: %s", bytes, strerror(errno));
    }
    memset(base, 0x5a, bytes);
    perf_pool_place(pool, base, slots, segment_bytes, segments);
    pool->owned = true;
    return 0;
}

void perf_pool_destroy(perf_pool_t *pool)
{
    if (pool->owned) {
        munmap(pool->base, pool->bytes);
    }
    *pool = (perf_pool_t){0};
}

void perf_pool_fill(const perf_pool_t *pool, size_t slot, uint64_t seed)
{
    for (unsigned s = 0; s < pool->segments; s++) {
        perf_pattern_fill(perf_pool_at(pool, slot, s), seed, (uint64_t)s * pool->segment_bytes,
                          pool->segment_bytes);
    }
}

void perf_pool_poison(const perf_pool_t *pool, size_t slot, uint64_t seed)
{
    perf_pool_fill(pool, slot, ~seed);
}

uint64_t perf_pool_check(const perf_pool_t *pool, size_t slot, uint64_t seed)
{
    uint64_t wrong = 0;

    for (unsigned s = 0; s < pool->segments; s++) {
        wrong += perf_pattern_check(perf_pool_at(pool, slot, s), seed,
                                    (uint64_t)s * pool->segment_bytes, pool->segment_bytes);
    }
    return wrong;
}
