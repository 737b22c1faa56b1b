/* SPDX-License-Identifier: BSD-3-Clause */
/* A client of the node under test, and prebuilt items for its batches. */
#ifndef KVL_PERFTEST_CLIENT_H
#define KVL_PERFTEST_CLIENT_H

#include "tools/perftest/pool.h"
#include "tools/perftest/side.h"

#include <kvlane/cache.h>

typedef struct {
    const perf_options_t *options;
    perf_side_t side;
    kvl_config_t *config;
    kvl_engine_t *engine;
    kvl_cache_t *cache;
    kvl_session_info_t session;
    uint64_t node_bytes;
} perf_client_t;

/* Initialises, finds or starts the node, connects. @a sg: KVLANE_SG unless the user set it. On
 * failure it is closed already. */
int perf_client_open(perf_client_t *client, const perf_options_t *options, const char *sg);
/* -1 (said) if the node was started from here and did not end well */
int perf_client_close(perf_client_t *client);
/* Both sides fault memory in by a thread of their own once they are connected. Waits until that is
 * over, as far as can be seen: neither side uses more than a tenth of a core. */
void perf_client_settle(perf_client_t *client);

/* perf_pool_slots() at this node; 0 is said. */
size_t perf_client_slots(const perf_client_t *client);

/* transport, mode, lanes, depth and endpoints of a result */
void perf_client_describe(perf_client_t *client, kvl_cache_op_t op, perf_result_t *result);

/* Submits and waits. The complete batch, to be released; NULL (said) if it could not be submitted
 * or a signal came. */
kvl_batch_t *perf_client_batch(perf_client_t *client, kvl_cache_op_t op, const kvl_item_t *items,
                               size_t count);
/* Same, and every item must be KVL_OK. */
int perf_client_do(perf_client_t *client, kvl_cache_op_t op, const kvl_item_t *items, size_t count);

/* Items over the slots of a pool; item i has the segments of slot i. */
typedef struct {
    kvl_item_t *items;
    size_t count;
    perf_pool_t pool;
    kvl_region_t *region;
    kvl_segment_t *segments;
    char (*keys)[48];
} perf_items_t;

/* Makes a pool, touches and registers it. Zeroed memory is accepted by cleanup. */
int perf_items_init(perf_items_t *items, perf_client_t *client, size_t count, size_t segment_bytes,
                    unsigned segments);
/* Keys only. */
int perf_items_init_keys(perf_items_t *items, size_t count);
/* the key of number @a n of this run */
void perf_items_set_key(perf_items_t *items, size_t index, uint64_t n);
/* Fills all slots, item i with seed i, and puts them. */
int perf_items_put(perf_items_t *items, perf_client_t *client);
void perf_items_cleanup(perf_items_t *items);

/* Forgets keys [0, count) of this run at the node, as far as they are there. */
void perf_client_forget(perf_client_t *client, size_t count);

#endif
