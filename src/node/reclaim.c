/* SPDX-License-Identifier: BSD-3-Clause */
#include "node/store_private.h"

/* Making room. The values that are first to go lie anywhere in memory, so evicting them one by one may
 * free much and still leave no room for a long value. So a window is made: around one of the first
 * values to go, its neighbours are taken in, free ones first, then the older side, until it is long
 * enough. Of some windows the one whose youngest value is oldest is evicted. If all values are of one
 * length this is plain LRU: the first window is one value, and is taken at once. */

#define WINDOWS    8          /* are compared */
#define CANDIDATES 64         /* are tried to find them */
#define STEPS      (1u << 18) /* neighbours looked at, in all: bounds the time of one put */
#define NEVER      UINT64_MAX

typedef struct {
    kvl_block_id_t first, last;
    uint64_t youngest; /* tick; NEVER: no window */
    bool alone;        /* one value makes it */
} window_t;

/* what it costs to take a block into the window: 0 if it is free, else the tick of its value */
static uint64_t block_cost(const kvl_store_t *store, kvl_block_id_t block)
{
    const kvl_value_t *value;

    if (block == KVL_BLOCK_NONE) {
        return NEVER;
    }
    value = kvl_slabs_owner(&store->slabs, block);
    if (!value) {
        return 0;
    }
    return kvl_evict_may(value) ? value->tick : NEVER;
}

/* false: a lease, a slab's end or the end of patience is in the way */
static bool window_make(const kvl_store_t *store, const kvl_value_t *value, uint64_t length,
                        unsigned *steps, window_t *window)
{
    uint64_t bytes        = kvl_slabs_bytes(&store->slabs, value->block);
    kvl_block_id_t before = kvl_slabs_before(&store->slabs, value->block);
    kvl_block_id_t after  = kvl_slabs_after(&store->slabs, value->block);

    *window = (window_t){value->block, value->block, value->tick, true};
    while (bytes < length) {
        uint64_t cost_before = block_cost(store, before);
        uint64_t cost_after  = block_cost(store, after);
        uint64_t cost        = cost_before < cost_after ? cost_before : cost_after;

        if (cost == NEVER || !*steps) {
            return false;
        }
        --*steps;
        window->alone    = window->alone && cost == 0;
        window->youngest = cost > window->youngest ? cost : window->youngest;
        if (cost_before < cost_after) {
            window->first = before;
            bytes += kvl_slabs_bytes(&store->slabs, before);
            before = kvl_slabs_before(&store->slabs, before);
        } else {
            window->last = after;
            bytes += kvl_slabs_bytes(&store->slabs, after);
            after = kvl_slabs_after(&store->slabs, after);
        }
    }
    return true;
}

static window_t window_choose(const kvl_store_t *store, uint64_t length)
{
    const kvl_evict_ops_t *ops = store->evict.ops;
    window_t best              = {.youngest = NEVER};
    unsigned steps = STEPS, tried = 0, made = 0;
    const kvl_value_t *value = ops->next(&store->evict, NULL);

    while (value && steps && tried++ < CANDIDATES && made < WINDOWS) {
        window_t window;

        if (window_make(store, value, length, &steps, &window)) {
            made++;
            best = window.youngest < best.youngest ? window : best;
            if (window.alone) {
                break;
            }
        }
        value = ops->next(&store->evict, value);
    }
    return best;
}

static bool block_is_free(const kvl_store_t *store, kvl_block_id_t block)
{
    return block != KVL_BLOCK_NONE && !kvl_slabs_owner(&store->slabs, block);
}

/* empties the window; returns the free block that it became a part of */
static kvl_block_id_t window_evict(kvl_store_t *store, const window_t *window)
{
    const kvl_slabs_t *slabs = &store->slabs;
    uint64_t end = kvl_slabs_offset(slabs, window->last) + kvl_slabs_bytes(slabs, window->last);
    kvl_block_id_t at = window->first, free_block = at;

    /* a freed block merges with its free neighbours: go on behind what it became */
    while (at != KVL_BLOCK_NONE && kvl_slabs_offset(slabs, at) < end) {
        kvl_value_t *value = kvl_slabs_owner(slabs, at);

        free_block = at;
        if (value) {
            kvl_block_id_t before = kvl_slabs_before(slabs, at);

            free_block = block_is_free(store, before) ? before : at;
            kvl_value_hide(store, value);
            store->stats.evictions++;
        }
        at = kvl_slabs_after(slabs, free_block);
    }
    return free_block;
}

kvl_status_t kvl_reclaim_slot(kvl_store_t *store, uint64_t length, kvl_value_t *value)
{
    kvl_status_t status = kvl_slabs_alloc(&store->slabs, length, value, &value->block);
    window_t window;

    if (status == KVL_ERR_BUSY) {
        window = window_choose(store, length);
        if (window.youngest != NEVER) {
            status = kvl_slabs_alloc_in(&store->slabs, window_evict(store, &window), length, value,
                                        &value->block);
        }
    }
    if (status == KVL_OK) {
        value->address = store->bases[kvl_slabs_slab(&store->slabs, value->block)] +
                         kvl_slabs_offset(&store->slabs, value->block);
    }
    return status;
}
