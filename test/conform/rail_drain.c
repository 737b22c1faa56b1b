/* SPDX-License-Identifier: BSD-3-Clause */
#include "conform/stage.h"

#include <kvlane/transport.h>

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Rails that are taken out of use and back while batches run: loopback and the first interface beside it, which both
 * lead to this host. */

#define HALF   (32u << 20)
#define ITEMS  8
#define LENGTH (256u << 10)

static stage_t stage;
static char second[IFNAMSIZ];

/* the first that is up and has an IPv4 address */
static bool find_second(void)
{
    struct ifaddrs *list;

    second[0] = '\0';
    REQUIRE(getifaddrs(&list) == 0);
    for (const struct ifaddrs *at = list; at && !second[0]; at = at->ifa_next) {
        if (at->ifa_addr && at->ifa_addr->sa_family == AF_INET && !(at->ifa_flags & IFF_LOOPBACK) &&
            (at->ifa_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING)) {
            snprintf(second, sizeof(second), "%s", at->ifa_name);
        }
    }
    freeifaddrs(list);
    return second[0] != '\0';
}

static kvl_rail_stat_t stat_of(const char *rail)
{
    kvl_rail_stat_t stats[16] = {0};
    size_t count              = 16;

    REQUIRE(kvl_cache_rails(stage.cache, stats, &count) == KVL_OK);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(stats[i].name, rail) == 0) {
            return stats[i];
        }
    }
    CHECK_MSG(false, "no rail %s", rail);
    return stats[0];
}

static uint64_t bytes_of(const kvl_rail_stat_t *stat)
{
    return stat->data.bytes + stat->sg.bytes;
}

/* Puts and gets, every byte of which is compared. */
static void move_all(uint64_t seed)
{
    char keys[ITEMS][16];
    kvl_segment_t from[ITEMS][2], to[ITEMS][2];
    kvl_item_t puts[ITEMS], gets[ITEMS];

    for (unsigned i = 0; i < ITEMS; i++) {
        size_t length = (size_t)snprintf(keys[i], sizeof(keys[i]), "key %u", i);

        for (unsigned j = 0; j < 2; j++) {
            size_t at  = (2 * i + j) * (size_t)LENGTH;
            from[i][j] = (kvl_segment_t){.address = stage.pool + at, .length = LENGTH};
            to[i][j]   = (kvl_segment_t){.address = stage.pool + HALF + at, .length = LENGTH};
        }
        puts[i] = (kvl_item_t){keys[i], length, from[i], 2};
        gets[i] = (kvl_item_t){keys[i], length, to[i], 2};
    }
    fill(stage.pool, 2 * ITEMS * (size_t)LENGTH, seed);
    memset(stage.pool + HALF, 0, 2 * ITEMS * (size_t)LENGTH);
    CHECK_EQ(stage_run(&stage, KVL_CACHE_PUT, puts, ITEMS, NULL, NULL), KVL_OK);
    CHECK_EQ(stage_run(&stage, KVL_CACHE_GET, gets, ITEMS, NULL, NULL), KVL_OK);
    CHECK_EQ(differs(stage.pool + HALF, 2 * ITEMS * (size_t)LENGTH, seed),
             2 * ITEMS * (size_t)LENGTH);
}

/* moves on and on until the rail is in that state; fails after 20 s */
static void move_until(const char *rail, const char *state)
{
    time_t end = time(NULL) + 20;

    do {
        move_all((uint64_t)end);
    } while (strcmp(stat_of(rail).state, state) != 0 && time(NULL) < end);
    CHECK_STR_EQ(stat_of(rail).state, state);
}

static void open_two(void)
{
    static char rails[64];
    stage_params_t params = {.rails = rails};

    KEEPS("UCX is loaded");
    if (!find_second()) {
        SKIP("no second interface here");
    }
    snprintf(rails, sizeof(rails), "lo,%s", second);
    stage_open(&stage, &params);
    CHECK_EQ(kvl_cache_connect(stage.cache, 0), KVL_OK);
    move_until("lo", "up");
    move_until(second, "up");
}

static void no_harm(const char *rail)
{
    kvl_rail_stat_t stat = stat_of(rail);

    CHECK_EQ(stat.fails, 0);
    CHECK_EQ(stat.retries, 0);
    CHECK_EQ(stat.data.errors_rail + stat.data.errors_peer + stat.data.errors_item +
                 stat.data.errors_batch,
             0);
    CHECK_EQ(stat.sg.errors_rail + stat.sg.errors_peer + stat.sg.errors_item + stat.sg.errors_batch,
             0);
}

TEST(rail_drain, takes_a_rail_out_of_use_and_add_brings_it_back)
{
    kvl_rail_stat_t before, after;

    open_two();
    before = stat_of(second);
    CHECK(bytes_of(&before) > 0);
    CHECK_EQ(kvl_rail_drain(stage.engine, second), KVL_OK);
    move_until(second, "drained");
    no_harm(second);
    no_harm("lo");
    before = stat_of(second);
    move_all(3);
    after = stat_of(second);
    CHECK_EQ(bytes_of(&after), bytes_of(&before));
    CHECK_EQ(kvl_rail_drain(stage.engine, second), KVL_OK); /* it is */
    CHECK_EQ(kvl_rail_drain(stage.engine, "lo"), KVL_ERR_BUSY);
    CHECK_HAS(kvl_error_text(), "the last one");
    CHECK_EQ(kvl_rail_add(stage.engine, second), KVL_OK);
    move_until(second, "up");
    before = stat_of(second);
    CHECK_EQ(before.ups, 2);
    for (int i = 0; i < 4; i++) {
        move_all(4);
    }
    after = stat_of(second);
    CHECK(bytes_of(&after) > bytes_of(&before));
    no_harm(second);
    stage_close(&stage);
}

#define PIECES 48

/* a batch that takes its time, and is not waited for */
static kvl_batch_t *submit_long(kvl_cache_op_t op)
{
    static char keys[PIECES][16];
    static kvl_segment_t segments[PIECES];
    static kvl_item_t items[PIECES];
    kvl_batch_t *batch = NULL;

    for (unsigned i = 0; i < PIECES; i++) {
        size_t length = (size_t)snprintf(keys[i], sizeof(keys[i]), "long %u", i);

        segments[i] =
            (kvl_segment_t){.address = stage.pool + i * 2 * (size_t)LENGTH, .length = 2 * LENGTH};
        items[i] = (kvl_item_t){keys[i], length, &segments[i], 1};
    }
    CHECK_EQ(kvl_cache_submit(stage.cache, op, items, PIECES, NULL, &batch), KVL_INPROGRESS);
    REQUIRE(batch != NULL);
    return batch;
}

TEST(rail_drain, lets_what_is_under_way_end_well)
{
    open_two();
    for (unsigned round = 0; round < 10; round++) {
        kvl_batch_t *batch = submit_long(round % 2 ? KVL_CACHE_GET : KVL_CACHE_PUT);

        CHECK_EQ(kvl_rail_drain(stage.engine, round % 4 < 2 ? second : "lo"), KVL_OK);
        CHECK_EQ(kvl_batch_wait(batch, -1), KVL_OK);
        CHECK_EQ(kvl_batch_release(batch), KVL_OK);
        move_until(round % 4 < 2 ? second : "lo", "drained");
        batch = submit_long(KVL_CACHE_GET);
        CHECK_EQ(kvl_rail_add(stage.engine, round % 4 < 2 ? second : "lo"), KVL_OK);
        CHECK_EQ(kvl_batch_wait(batch, -1), KVL_OK);
        CHECK_EQ(kvl_batch_release(batch), KVL_OK);
        move_until(round % 4 < 2 ? second : "lo", "up");
    }
    no_harm(second);
    no_harm("lo");
    stage_close(&stage);
}

TEST(rail_drain, moves_the_ctrl_lane_as_well)
{
    uint64_t messages;

    open_two();
    messages = stat_of("lo").ctrl.ops;
    CHECK(messages > stat_of(second).ctrl.ops); /* the node's address is there */
    CHECK_EQ(kvl_rail_drain(stage.engine, "lo"), KVL_OK);
    move_until("lo", "drained");
    messages = stat_of("lo").ctrl.ops;
    move_all(5);
    CHECK_EQ(stat_of("lo").ctrl.ops, messages);
    no_harm("lo");
    CHECK_EQ(kvl_rail_add(stage.engine, "lo"), KVL_OK);
    move_until("lo", "up");
    stage_close(&stage);
}

TEST(rail_drain, stays_so_when_the_link_comes_anew)
{
    open_two();
    CHECK_EQ(kvl_rail_drain(stage.engine, second), KVL_OK);
    move_until(second, "drained");
    kvl_node_destroy(stage.node);
    stage.node = NULL;
    stage_start_node(&stage);
    CHECK_EQ(kvl_cache_connect(stage.cache, 0), KVL_OK);
    move_until(second, "drained");
    CHECK_EQ(kvl_rail_add(stage.engine, second), KVL_OK);
    move_until(second, "up");
    stage_close(&stage);
}

TEST(rail_drain, refuses_what_makes_no_sense)
{
    kvl_engine_t *engine = NULL;
    kvl_listener_t *listener;

    open_two();
    CHECK_EQ(kvl_rail_drain(NULL, "lo"), KVL_ERR_INVALID);
    CHECK_EQ(kvl_rail_drain(stage.engine, NULL), KVL_ERR_INVALID);
    CHECK_EQ(kvl_rail_add(stage.engine, "nowhere0"), KVL_ERR_NO_DEVICE);
    CHECK_HAS(kvl_error_text(), "it uses: lo, ");
    CHECK_EQ(kvl_rail_add(stage.engine, "lo"), KVL_OK); /* it is not drained */
    engine = stage_engine(&stage, "127.0.0.1:0");
    REQUIRE(kvl_listen(engine, "127.0.0.1:0", NULL, NULL, &listener) == KVL_OK);
    CHECK_EQ(kvl_rail_drain(engine, "lo"), KVL_ERR_UNSUPPORTED);
    kvl_listener_destroy(listener);
    kvl_engine_destroy(engine);
    stage_close(&stage);
}
