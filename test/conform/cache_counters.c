/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/fault.h"
#include "conform/stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Counters of rails and lanes: what was moved is known, so the numbers are. */

#define HALF   (32u << 20)
#define ITEMS  20
#define LENGTH 100000

static stage_t stage;

static void open_on(const char *rails)
{
    stage_params_t params = {.rails = rails};

    stage_open(&stage, &params);
    CHECK_EQ(kvl_cache_connect(stage.cache, 0), KVL_OK);
}

static kvl_rail_stat_t stat_now(void)
{
    kvl_rail_stat_t stats[16] = {0};
    size_t count              = 16;

    REQUIRE(kvl_cache_rails(stage.cache, stats, &count) == KVL_OK);
    REQUIRE(count == 1);
    return stats[0];
}

static uint64_t errors(const kvl_rail_stat_t *stat)
{
    const kvl_lane_stat_t *lanes[] = {&stat->ctrl, &stat->data, &stat->sg};
    uint64_t sum                   = 0;

    for (unsigned i = 0; i < 3; i++) {
        sum += lanes[i]->errors_rail + lanes[i]->errors_peer + lanes[i]->errors_item +
               lanes[i]->errors_batch;
    }
    return sum;
}

/* three segments: the sg lane */
static void move_segments(kvl_cache_op_t op, size_t at)
{
    kvl_segment_t segments[3];
    kvl_item_t item = {"three", 5, segments, 3};

    for (size_t i = 0; i < 3; i++) {
        segments[i] = (kvl_segment_t){.address = stage.pool + at + i * 50000, .length = 30000};
    }
    CHECK_EQ(stage_run(&stage, op, &item, 1, NULL, NULL), KVL_OK);
}

BOTH(cache_rails, count_what_was_moved_and_no_errors)
{
    kvl_rail_stat_t before, after;
    char key[8];

    open_on(rails);
    before = stat_now();
    CHECK_STR_EQ(before.state, "up");
    CHECK(before.name[0] && before.ups == 1 && before.fails == 0 && before.registrations > 0);
    for (int i = 0; i < ITEMS; i++) {
        snprintf(key, sizeof(key), "key%d", i);
        CHECK_EQ(stage_put(&stage, key, 0, LENGTH), KVL_OK);
        CHECK_EQ(stage_get(&stage, key, HALF, LENGTH), KVL_OK);
    }
    move_segments(KVL_CACHE_PUT, 0);
    move_segments(KVL_CACHE_GET, HALF);
    after = stat_now();
    CHECK_EQ(after.data.bytes - before.data.bytes, 2 * ITEMS * LENGTH);
    CHECK_EQ(after.data.completions - before.data.completions, 2 * ITEMS);
    CHECK_EQ(after.sg.bytes - before.sg.bytes, 2L * 3 * 30000);
    CHECK(after.data.ops == after.data.completions && after.sg.ops == after.sg.completions);
    CHECK(after.ctrl.ops - before.ctrl.ops >= 2 * ITEMS && after.ctrl.bytes > before.ctrl.bytes);
    CHECK_EQ(errors(&after), 0);
    CHECK_EQ(after.retries, 0);
    CHECK_EQ(after.fails, 0);
    CHECK_EQ(after.registrations, before.registrations); /* none on the data path */
    stage_close(&stage);
}

BOTH(cache_rails, count_errors_by_cause_and_outlive_a_reset)
{
    kvl_rail_stat_t before, after;

    open_on(rails);
    CHECK_EQ(stage_put(&stage, "first", 0, LENGTH), KVL_OK);
    before = stat_now();
    kvl_fault_setup("ep.complete:fail@1", 1);
    CHECK(stage_put(&stage, "second", 0, LENGTH) != KVL_OK);
    kvl_fault_setup(NULL, 0);
    CHECK_EQ(kvl_cache_connect(stage.cache, 0), KVL_OK);
    CHECK_EQ(stage_put(&stage, "third", 0, LENGTH), KVL_OK);
    after = stat_now();
    CHECK(after.data.errors_rail >= 1);
    CHECK_EQ(after.data.errors_peer + after.data.errors_item, 0);
    CHECK(after.data.bytes >= before.data.bytes + LENGTH);
    CHECK(after.ctrl.ops > before.ctrl.ops);
    CHECK(after.ups >= before.ups);
    stage_close(&stage);
}

TEST(cache_rails, are_there_without_a_session_and_need_room)
{
    kvl_rail_stat_t stats[2];
    kvl_engine_t *engine;
    kvl_cache_t *cache;
    size_t count = 0;

    setenv("KVLANE_RAILS", "tcp", 1);
    REQUIRE(kvl_engine_create(&(kvl_engine_params_t){.address = "127.0.0.1:9"}, &engine) == KVL_OK);
    unsetenv("KVLANE_RAILS");
    REQUIRE(kvl_cache_create(engine, "127.0.0.1:9", &cache) == KVL_OK);
    CHECK_EQ(kvl_cache_rails(cache, NULL, &count), KVL_ERR_LIMIT);
    REQUIRE(count == 1);
    CHECK_EQ(kvl_cache_rails(cache, stats, &count), KVL_OK);
    CHECK_STR_EQ(stats[0].name, "lo");
    CHECK_STR_EQ(stats[0].state, "off");
    CHECK_EQ(stats[0].data.ops + stats[0].sg.ops, 0);
    CHECK_EQ(kvl_cache_rails(NULL, stats, &count), KVL_ERR_INVALID);
    CHECK_EQ(kvl_cache_rails(cache, stats, NULL), KVL_ERR_INVALID);
    CHECK_EQ(kvl_cache_rails(cache, NULL, &count), KVL_ERR_INVALID);
    kvl_cache_destroy(cache);
    kvl_engine_destroy(engine);
}
