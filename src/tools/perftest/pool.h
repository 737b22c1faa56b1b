/* SPDX-License-Identifier: BSD-3-Clause */
/* A pool of items in memory, larger than the last-level cache, touched before use. Segment s of
 * all items lies in layer s, as the layers of a KV cache do, so that the segments of one item are
 * never neighbours. */
#ifndef KVL_PERFTEST_POOL_H
#define KVL_PERFTEST_POOL_H

#include "tools/perftest/perftest.h"

typedef struct {
    unsigned char *base;
    size_t bytes; /* of the mapping, or of what the caller brought */
    size_t slots;
    size_t segment_bytes;
    unsigned segments;
    size_t layer_stride; /* bytes from a segment to the next one of the same item */
    bool owned;
} perf_pool_t;

/* Number of items of the pool of a test: as many as make it larger than the last-level cache, at
 * least a batch, and no more than the node can hold besides what is under way. 0: none fits. */
size_t perf_pool_slots(const perf_options_t *options, uint64_t node_bytes);

/* bytes that a pool of this form needs */
size_t perf_pool_bytes(size_t slots, size_t segment_bytes, unsigned segments);

int perf_pool_create(perf_pool_t *pool, size_t slots, size_t segment_bytes, unsigned segments,
                     bool shared);
/* in memory of the caller's, perf_pool_bytes() long */
void perf_pool_place(perf_pool_t *pool, void *base, size_t slots, size_t segment_bytes,
                     unsigned segments);
void perf_pool_destroy(perf_pool_t *pool);

static inline unsigned char *perf_pool_at(const perf_pool_t *pool, size_t slot, unsigned segment)
{
    return pool->base + segment * pool->layer_stride + slot * pool->segment_bytes;
}

static inline uint64_t perf_pool_item_bytes(const perf_pool_t *pool)
{
    return (uint64_t)pool->segment_bytes * pool->segments;
}

void perf_pool_fill(const perf_pool_t *pool, size_t slot, uint64_t seed);
/* bytes that no item has there, so that a read that brought nothing is seen */
void perf_pool_poison(const perf_pool_t *pool, size_t slot, uint64_t seed);
/* number of wrong bytes */
uint64_t perf_pool_check(const perf_pool_t *pool, size_t slot, uint64_t seed);

#endif
