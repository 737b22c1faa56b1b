/* SPDX-License-Identifier: BSD-3-Clause */
#include "conform/stage.h"

#include <stdio.h>
#include <string.h>

#define HALF (32u << 20) /* puts come from the lower half of the pool, gets go to the upper */

static stage_t stage;

static void open_on(const char *rails)
{
    stage_params_t params = {.rails = rails};

    stage_open(&stage, &params);
}

/* a segment list over [at, at + sum) of the pool with holes between the pieces; returns the count */
static size_t split(kvl_segment_t *segments, size_t at, size_t sum, size_t pieces, size_t hole)
{
    size_t i, done = 0;

    for (i = 0; i < pieces; i++) {
        size_t length = i + 1 < pieces ? sum / pieces : sum - done;

        segments[i] = (kvl_segment_t){.address = stage.pool + at + done + i * hole,
                                      .length  = length,
                                      .region  = i % 2 ? stage.region : NULL};
        done += length;
    }
    return pieces;
}

static void segments_fill(const kvl_segment_t *segments, size_t count, uint64_t seed)
{
    size_t i;

    for (i = 0; i < count; i++) {
        fill(segments[i].address, segments[i].length, seed + i);
    }
}

/* the value as it should be: bytes of the put's segments, one after the other */
static size_t gather(const kvl_segment_t *segments, size_t count, uint8_t *out)
{
    size_t i, at = 0;

    for (i = 0; i < count; i++) {
        memcpy(out + at, segments[i].address, segments[i].length);
        at += segments[i].length;
    }
    return at;
}

static uint8_t sent[9u << 20], got[9u << 20];

static void round_trip(size_t sum, size_t put_pieces, size_t get_pieces, size_t hole)
{
    kvl_segment_t from[KVL_SEGMENTS_MAX], to[KVL_SEGMENTS_MAX];
    kvl_item_t item = {"the key", 7, from, put_pieces};

    split(from, 0, sum, put_pieces, hole);
    split(to, HALF, sum, get_pieces, hole);
    segments_fill(from, put_pieces, sum);
    segments_fill(to, get_pieces, ~sum);
    gather(from, put_pieces, sent);
    CHECK_EQ(stage_run(&stage, KVL_CACHE_PUT, &item, 1, NULL, NULL), KVL_OK);
    segments_fill(from, put_pieces, 99); /* quiet: nobody reads it any more */
    item.segments      = to;
    item.segment_count = get_pieces;
    CHECK_EQ(stage_run(&stage, KVL_CACHE_GET, &item, 1, NULL, NULL), KVL_OK);
    gather(to, get_pieces, got);
    CHECK_MSG(memcmp(sent, got, sum) == 0, "%zu bytes, %zu segments put, %zu got: wrong bytes", sum,
              put_pieces, get_pieces);
}

BOTH(cache, moves_values_of_every_size)
{
    static const size_t sizes[] = {
        1,    2,    63,    64,    65,    1000,   1023,    1024,          1025,    4096,    8191,
        8192, 8193, 65535, 65536, 65537, 262056, 1 << 20, (1 << 20) + 7, 2883584, 4 << 20, 8 << 20};
    size_t i;

    open_on(rails);
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        round_trip(sizes[i], 1, 1, 0);
    }
    stage_close(&stage);
}

BOTH(cache, moves_values_of_many_segments_split_anew)
{
    static const size_t cases[][4] = {
        /* bytes, segments of put and of get, hole */
        {2, 2, 1, 1},
        {100, 7, 3, 5},
        {1024, 1024, 1, 3},
        {1024, 1, 1024, 3},
        {4296 * 61, 61, 61, 64},
        {4296 * 61, 61, 13, 64},
        {4096 * 1024, 1024, 1024, 512},
        {65536 * 16, 16, 16, 4096},
        {1000003, 17, 19, 1},
        {1000003, 1, 1000, 1},
        {8 << 20, 1024, 5, 100},
        {4096 * 64, 64, 64, 0},
        {12345, 64, 64, 0},
    };
    size_t i;

    open_on(rails);
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        round_trip(cases[i][0], cases[i][1], cases[i][2], cases[i][3]);
    }
    stage_close(&stage);
}

enum { BATCH = 200 };

typedef struct {
    char keys[BATCH][16];
    kvl_segment_t segments[BATCH][3];
    kvl_item_t items[BATCH];
    kvl_status_t statuses[BATCH];
    uint64_t lengths[BATCH];
} order_t;

static size_t item_length(size_t i)
{
    return 1 + (i * i * 131 + i * 7919) % 60000;
}

static void order_init(order_t *order, size_t base, size_t pieces)
{
    size_t i, at = base;

    for (i = 0; i < BATCH; i++) {
        size_t count = item_length(i) < pieces ? 1 : pieces;

        split(order->segments[i], at, item_length(i), count, 16);
        at += item_length(i) + 64;
        order->items[i] =
            (kvl_item_t){order->keys[i], (size_t)snprintf(order->keys[i], 16, "item %zu", i),
                         order->segments[i], count};
    }
}

BOTH(cache, puts_gets_asks_and_removes_in_batches)
{
    static order_t put, get;
    size_t i;

    open_on(rails);
    order_init(&put, 0, 3);
    order_init(&get, HALF, 2);
    for (i = 0; i < BATCH; i++) {
        segments_fill(put.segments[i], put.items[i].segment_count, i * 10);
    }
    CHECK_EQ(stage_run(&stage, KVL_CACHE_EXISTS, put.items, BATCH, put.statuses, NULL),
             KVL_ERR_NOT_FOUND);
    CHECK_EQ(put.statuses[BATCH - 1], KVL_ERR_NOT_FOUND);
    CHECK_EQ(stage_run(&stage, KVL_CACHE_PUT, put.items, BATCH, NULL, NULL), KVL_OK);
    CHECK_EQ(stage_run(&stage, KVL_CACHE_EXISTS, put.items, BATCH, NULL, put.lengths), KVL_OK);
    CHECK_EQ(stage_run(&stage, KVL_CACHE_GET, get.items, BATCH, NULL, get.lengths), KVL_OK);
    for (i = 0; i < BATCH; i++) {
        gather(put.segments[i], put.items[i].segment_count, sent);
        gather(get.segments[i], get.items[i].segment_count, got);
        CHECK_MSG(memcmp(sent, got, item_length(i)) == 0, "item %zu: wrong bytes", i);
        CHECK_EQ(put.lengths[i], item_length(i));
        CHECK_EQ(get.lengths[i], item_length(i));
    }
    CHECK_EQ(stage_run(&stage, KVL_CACHE_REMOVE, put.items, BATCH / 2, NULL, NULL), KVL_OK);
    CHECK_EQ(stage_run(&stage, KVL_CACHE_GET, get.items, BATCH, get.statuses, NULL),
             KVL_ERR_NOT_FOUND);
    for (i = 0; i < BATCH; i++) {
        CHECK_EQ(get.statuses[i], i < BATCH / 2 ? KVL_ERR_NOT_FOUND : KVL_OK);
    }
    CHECK_EQ(stage_run(&stage, KVL_CACHE_REMOVE, put.items, BATCH, put.statuses, NULL),
             KVL_ERR_NOT_FOUND);
    CHECK_EQ(put.statuses[0], KVL_ERR_NOT_FOUND);
    CHECK_EQ(put.statuses[BATCH - 1], KVL_OK);
    stage_close(&stage);
}

BOTH(cache, reports_another_stored_length_and_touches_nothing)
{
    static const size_t sizes[] = {10, 5000};
    size_t i;

    open_on(rails);
    for (i = 0; i < 2; i++) {
        kvl_segment_t segment = {.address = stage.pool + HALF, .length = sizes[i] - 1};
        kvl_item_t item       = {"key", 3, &segment, 1};
        uint64_t length;

        CHECK_EQ(stage_put(&stage, "key", 0, sizes[i]), KVL_OK);
        fill(stage.pool + HALF, 6000, 5);
        CHECK_EQ(stage_run(&stage, KVL_CACHE_GET, &item, 1, NULL, &length), KVL_ERR_LENGTH);
        CHECK_EQ(length, sizes[i]);
        segment.length = sizes[i] + 1;
        CHECK_EQ(stage_run(&stage, KVL_CACHE_GET, &item, 1, NULL, &length), KVL_ERR_LENGTH);
        CHECK_EQ(length, sizes[i]);
        CHECK_EQ(differs(stage.pool + HALF, 6000, 5), 6000);
    }
    stage_close(&stage);
}

BOTH(cache, overwrites)
{
    static const size_t sizes[] = {10, 70000, 70000, 3, 123456};
    size_t i;

    open_on(rails);
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        fill(stage.pool, sizes[i], i);
        CHECK_EQ(stage_put(&stage, "the same", 0, sizes[i]), KVL_OK);
        CHECK_EQ(stage_get(&stage, "the same", HALF, sizes[i]), KVL_OK);
        CHECK_EQ(differs(stage.pool + HALF, sizes[i], i), sizes[i]);
    }
    stage_close(&stage);
}

BOTH(cache, stores_one_of_two_values_of_one_key_in_a_batch)
{
    kvl_segment_t segments[2];
    kvl_item_t items[2] = {{"twin", 4, &segments[0], 1}, {"twin", 4, &segments[1], 1}};
    size_t size;

    open_on(rails);
    for (size = 50; size < 1000000; size *= 50) {
        segments[0] = (kvl_segment_t){.address = stage.pool, .length = size};
        segments[1] = (kvl_segment_t){.address = stage.pool + size, .length = size};
        fill(stage.pool, size, 1);
        fill(stage.pool + size, size, 2);
        CHECK_EQ(stage_run(&stage, KVL_CACHE_PUT, items, 2, NULL, NULL), KVL_OK);
        CHECK_EQ(stage_get(&stage, "twin", HALF, size), KVL_OK);
        CHECK(differs(stage.pool + HALF, size, 1) == size ||
              differs(stage.pool + HALF, size, 2) == size);
    }
    stage_close(&stage);
}

BOTH(cache, takes_keys_of_any_bytes)
{
    uint8_t key[KVL_KEY_MAX];
    kvl_segment_t segment;
    kvl_item_t item = {key, 0, &segment, 1};
    size_t i;

    open_on(rails);
    memset(key, 0, sizeof(key));
    key[254] = 0xff;
    for (i = 1; i <= KVL_KEY_MAX; i += 127) { /* 1, 128, 255: each a prefix of the next */
        segment         = (kvl_segment_t){.address = stage.pool, .length = 100 + i};
        item.key_length = i;
        fill(stage.pool, 100 + i, i);
        CHECK_EQ(stage_run(&stage, KVL_CACHE_PUT, &item, 1, NULL, NULL), KVL_OK);
    }
    for (i = 1; i <= KVL_KEY_MAX; i += 127) {
        segment         = (kvl_segment_t){.address = stage.pool + HALF, .length = 100 + i};
        item.key_length = i;
        CHECK_EQ(stage_run(&stage, KVL_CACHE_GET, &item, 1, NULL, NULL), KVL_OK);
        CHECK_EQ(differs(stage.pool + HALF, 100 + i, i), 100 + i);
    }
    stage_close(&stage);
}

/* what can be had is had, what can't is refused: no batch waits for space that never comes */
BOTH(cache, stores_a_value_as_long_as_the_node)
{
    enum { NODE = 1u << 20 };
    stage_params_t params = {.rails = rails, .node_bytes = NODE};
    kvl_node_stat_t stat;
    size_t length, longest;

    stage_open(&stage, &params);
    REQUIRE(kvl_cache_stat(stage.cache, 5000, &stat) == KVL_OK);
    longest = (size_t)stat.bytes_total;
    CHECK(longest <= NODE && longest >= NODE / 16 * 15);
    for (length = longest - 1; length <= longest; length++) {
        fill(stage.pool, length, length);
        CHECK_EQ(stage_put(&stage, "long", 0, length), KVL_OK);
        CHECK_EQ(stage_get(&stage, "long", 2 * NODE, length), KVL_OK);
        CHECK_EQ(differs(stage.pool + 2 * NODE, length, length), length);
    }
    CHECK_EQ(stage_put(&stage, "longer", 0, longest + 1), KVL_ERR_NO_SPACE);
    stage_close(&stage);
}
