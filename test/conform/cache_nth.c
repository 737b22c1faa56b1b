/* SPDX-License-Identifier: BSD-3-Clause */
#include "conform/stage.h"

#include "base/alloc.h"
#include "base/fault.h"

#include <stdio.h>
#include <string.h>

/* The n-th allocation, or the n-th call into UCP, of a whole life (engine, cache, put, get, goodbye; or
 * a node's) fails, for each n. Whatever comes of it: a clean status, no hang, nothing left behind.
 *
 * The cache's node is another process: connections of one process that break off and begin again by the
 * hundred crash UCX (1.13.1 and 1.22) in its own thread. */

typedef struct {
    kvl_engine_t *engine;
    kvl_region_t *region;
    kvl_cache_t *cache;
    kvl_config_t *config;
    const char *address;
} life_t;

static kvl_status_t life_open(life_t *life)
{
    kvl_engine_params_t engine = {.config = life->config, .address = life->address};
    kvl_status_t status        = kvl_engine_create(&engine, &life->engine);

    if (status == KVL_OK) {
        status = kvl_region_alloc(life->engine, 1u << 20, &life->region);
    }
    return status == KVL_OK ? kvl_cache_create(life->engine, life->address, &life->cache) : status;
}

static kvl_status_t life_run(life_t *life, kvl_cache_op_t op)
{
    uint8_t *pool             = kvl_region_address(life->region);
    kvl_segment_t segments[3] = {
        {pool, 50000, NULL}, {pool + 60000, 3000, NULL}, {pool + 70000, 10, NULL}};
    kvl_item_t items[3] = {{"a", 1, segments, 2}, {"b", 1, segments, 1}, {"c", 1, segments + 2, 1}};
    kvl_batch_params_t params = {.timeout_ms = 300};
    kvl_batch_t *batch        = NULL;
    kvl_status_t status       = kvl_cache_submit(life->cache, op, items, 3, &params, &batch);

    if (status != KVL_INPROGRESS) {
        return status;
    }
    status = kvl_batch_wait(batch, -1);
    CHECK(status != KVL_INPROGRESS);
    CHECK_EQ(kvl_batch_release(batch), KVL_OK);
    return status;
}

static void life_close(life_t *life)
{
    kvl_cache_destroy(life->cache);
    CHECK_EQ(kvl_region_release(life->region), KVL_OK);
    kvl_engine_destroy(life->engine);
}

/* true if the rule took effect */
static bool life_fails(const stage_t *stage, const char *point, unsigned nth,
                       kvl_fault_point_t counter)
{
    stage_params_t params = {.rails    = stage->params.rails,
                             .settings = {{"KVLANE_CONNECT_TIMEOUT", "300ms"},
                                          {"KVLANE_SG_ENDPOINTS", "2"},
                                          {"KVLANE_TIMEOUT", "300ms"}}};
    life_t life           = {.address = stage->address};
    char fault[64];
    kvl_status_t status;
    bool reached;

    snprintf(fault, sizeof(fault), "%s:fail@%u", point, nth);
    params.fault = fault;
    life.config  = stage_config(&params, NULL);
    CHECK_EQ(kvl_fault_setup(NULL, 0),
             KVL_OK); /* the engine installs the rule, and counts from 0 */
    status = life_open(&life);
    if (status == KVL_OK) {
        fill(kvl_region_address(life.region), 1u << 17, nth);
        status = life_run(&life, KVL_CACHE_PUT);
        if (status == KVL_OK) {
            memset(kvl_region_address(life.region), 0, 1u << 17);
            status = life_run(&life, KVL_CACHE_GET);
        }
        if (status == KVL_OK) {
            CHECK_EQ(differs(kvl_region_address(life.region), 50000, nth), 50000);
        }
    }
    reached = kvl_fault_hits(counter) >= nth;
    life_close(&life);
    kvl_fault_setup(NULL, 0);
    kvl_config_destroy(life.config);
    return reached;
}

static void each(const char *rails, const char *point, kvl_fault_point_t counter)
{
    stage_t stage = {.params = {.rails = rails}};
    unsigned nth  = 1;
    long live;

    stage_start_elsewhere(&stage);
    live = kvl_live_objects();
    while (nth < 2000 && life_fails(&stage, point, nth, counter)) {
        CHECK_MSG(kvl_live_objects() == live, "%s %u: %ld blocks left behind", point, nth,
                  kvl_live_objects() - live);
        live = kvl_live_objects();
        nth++;
    }
    CHECK(nth > 20);
    CHECK(nth < 2000);
    stage_end_elsewhere(&stage);
}

/* a node that comes and goes, without a client */
static bool node_fails(const char *rails, const char *point, unsigned nth, kvl_fault_point_t counter)
{
    stage_params_t params = {.rails = rails};
    kvl_node_t *node      = NULL;
    char fault[64];
    bool reached;

    snprintf(fault, sizeof(fault), "%s:fail@%u", point, nth);
    params.fault = fault;
    kvl_config_t *config = stage_config(&params, NULL);
    kvl_node_params_t in = {.config = config, .listen = "127.0.0.1:0", .memory_bytes = 8u << 20};
    CHECK_EQ(kvl_fault_setup(NULL, 0), KVL_OK);
    if (kvl_node_create(&in, &node) == KVL_OK) {
        kvl_node_destroy(node);
    }
    reached = kvl_fault_hits(counter) >= nth;
    kvl_fault_setup(NULL, 0);
    kvl_config_destroy(config);
    return reached;
}

static void each_node(const char *rails, const char *point, kvl_fault_point_t counter)
{
    unsigned nth = 1;
    long live    = kvl_live_objects();

    while (nth < 500 && node_fails(rails, point, nth, counter)) {
        CHECK_MSG(kvl_live_objects() == live, "node %s %u: %ld blocks left behind", point, nth,
                  kvl_live_objects() - live);
        live = kvl_live_objects();
        nth++;
    }
    CHECK(nth > 5);
    CHECK(nth < 500);
}

BOTH(node_nth, allocation_and_call_into_ucp_may_fail)
{
    each_node(rails, "alloc", KVL_FAULT_ALLOC);
    each_node(rails, "ucp", KVL_FAULT_UCP);
}

BOTH(cache_nth, allocation_may_fail)
{
    each(rails, "alloc", KVL_FAULT_ALLOC);
}

BOTH(cache_nth, call_into_ucp_may_fail)
{
    each(rails, "ucp", KVL_FAULT_UCP);
}
