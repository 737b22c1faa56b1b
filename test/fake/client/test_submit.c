/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake/client/fake.h"

#include <string.h>

/* wrong arguments: nothing is taken, and the text names the item and the field */

typedef struct {
    fake_t *fake;
    kvl_segment_t segments[2];
    kvl_item_t items[2];
} order_t;

static void order_init(order_t *order)
{
    order->fake        = fake_open(true);
    order->segments[0] = (kvl_segment_t){.address = order->fake->memory, .length = 100};
    order->segments[1] = (kvl_segment_t){.address = order->fake->memory + 200, .length = 50};
    order->items[0]    = (kvl_item_t){"a", 1, order->segments, 2};
    order->items[1]    = (kvl_item_t){"b", 1, order->segments, 1};
}

static void refused(order_t *order, kvl_cache_op_t op, size_t count, kvl_status_t status,
                    const char *text)
{
    kvl_batch_t *batch = NULL;

    CHECK_EQ(kvl_cache_submit(order->fake->cache, op, order->items, count, NULL, &batch), status);
    CHECK(batch == NULL);
    CHECK_MSG(strstr(kvl_error_text(), text) != NULL, "no \"%s\" in \"%s\"", text,
              kvl_error_text());
    CHECK_EQ(atomic_load(&order->fake->region.users), 0);
}

TEST(submit, names_what_is_wrong_with_a_key)
{
    order_t order;

    order_init(&order);
    order.items[1].key_length = 0;
    refused(&order, KVL_CACHE_PUT, 2, KVL_ERR_INVALID, "item 1: key_length is 0");
    order.items[1].key_length = 256;
    refused(&order, KVL_CACHE_EXISTS, 2, KVL_ERR_INVALID, "item 1: key_length is 256");
    order.items[1].key = NULL;
    refused(&order, KVL_CACHE_REMOVE, 2, KVL_ERR_INVALID, "item 1: key is NULL");
    fake_close(order.fake);
}

TEST(submit, names_what_is_wrong_with_a_segment)
{
    order_t order;
    kvl_region_t other;

    order_init(&order);
    other                        = order.fake->region;
    order.items[0].segment_count = 0;
    refused(&order, KVL_CACHE_GET, 2, KVL_ERR_INVALID, "item 0: segment_count is 0");
    order.items[0].segment_count = 1025;
    refused(&order, KVL_CACHE_GET, 2, KVL_ERR_INVALID, "item 0: segment_count is 1025");
    order.items[0].segment_count = 2;
    order.segments[1].length     = 0;
    refused(&order, KVL_CACHE_PUT, 2, KVL_ERR_INVALID, "item 0: segment 1: length is 0");
    order.segments[1].length = SIZE_MAX;
    refused(&order, KVL_CACHE_PUT, 2, KVL_ERR_INVALID, "item 0: segment 1: length");
    order.segments[1].length  = 50;
    order.segments[1].address = NULL;
    refused(&order, KVL_CACHE_PUT, 2, KVL_ERR_INVALID, "item 0: segment 1: address is NULL");
    order.segments[1].address = order.fake->memory + (1u << 20) - 49;
    refused(&order, KVL_CACHE_PUT, 2, KVL_ERR_INVALID, "item 0: segment 1: no region");
    order.segments[1].region = &order.fake->region;
    refused(&order, KVL_CACHE_PUT, 2, KVL_ERR_INVALID, "outside of region 1");
    order.segments[1].address = order.fake->memory + 1;
    other.engine              = NULL;
    order.segments[1].region  = &other;
    refused(&order, KVL_CACHE_PUT, 2, KVL_ERR_INVALID, "another engine");
    fake_close(order.fake);
}

TEST(submit, names_what_is_wrong_with_the_batch)
{
    order_t order;
    kvl_batch_t *batch        = NULL;
    kvl_batch_params_t params = {.timeout_ms = -5};

    order_init(&order);
    refused(&order, KVL_CACHE_PUT, 0, KVL_ERR_INVALID, "count is 0");
    refused(&order, KVL_CACHE_PUT, 65537, KVL_ERR_LIMIT, "65537 items");
    refused(&order, (kvl_cache_op_t)9, 1, KVL_ERR_INVALID, "operation 9");
    CHECK_EQ(kvl_cache_submit(order.fake->cache, KVL_CACHE_PUT, NULL, 1, NULL, &batch),
             KVL_ERR_INVALID);
    CHECK_EQ(kvl_cache_submit(order.fake->cache, KVL_CACHE_PUT, order.items, 1, &params, &batch),
             KVL_ERR_INVALID);
    CHECK_EQ(kvl_cache_submit(order.fake->cache, KVL_CACHE_PUT, order.items, 1, NULL, NULL),
             KVL_ERR_INVALID);
    CHECK_EQ(kvl_cache_submit(NULL, KVL_CACHE_PUT, order.items, 1, NULL, &batch), KVL_ERR_INVALID);
    CHECK(batch == NULL);
    fake_close(order.fake);
}

TEST(submit, copies_items_and_holds_regions)
{
    order_t order;
    kvl_batch_t *batch;
    char key[2] = "a";
    const fake_message_t *message;

    order_init(&order);
    order.items[0].key = key;
    REQUIRE(kvl_cache_submit(order.fake->cache, KVL_CACHE_PUT, order.items, 2, NULL, &batch) ==
            KVL_INPROGRESS);
    CHECK_EQ(atomic_load(&order.fake->region.users), 3);
    key[0]                   = 'z';
    order.segments[0].length = 7;
    fake_turn(order.fake);
    message = fake_take(order.fake, KVL_MSG_RESERVE);
    CHECK_EQ(message->count, 2);
    CHECK_EQ(message->items[0].key[0], 'a');
    CHECK_EQ(message->items[0].length, 150);
    CHECK_EQ(message->items[1].length, 100);
    kvl_batch_cancel(batch);
    fake_turn(order.fake);
    CHECK_EQ(kvl_batch_release(batch), KVL_OK);
    CHECK_EQ(atomic_load(&order.fake->region.users), 0);
    fake_close(order.fake);
}

TEST(submit, merges_neighbours)
{
    order_t order;
    kvl_batch_t *batch;

    order_init(&order);
    order.segments[1].address = order.fake->memory + 100;
    REQUIRE(kvl_cache_submit(order.fake->cache, KVL_CACHE_PUT, order.items, 2, NULL, &batch) ==
            KVL_INPROGRESS);
    fake_turn(order.fake);
    fake_reserved(fake_take(order.fake, KVL_MSG_RESERVE), KVL_OK);
    REQUIRE(order.fake->move_count == 2);
    CHECK_EQ(order.fake->moves[0]->piece_count, 1);
    CHECK_EQ(order.fake->moves[0]->pieces[0].length, 150);
    CHECK_EQ(order.fake->moves[0]->lane, KVL_LANE_DATA);
    CHECK_EQ(order.fake->moves[1]->pieces[0].remote_offset, 4096);
    fake_down(order.fake, KVL_ERR_PEER);
    fake_turn(order.fake);
    CHECK_EQ(kvl_batch_test(batch), KVL_ERR_PEER);
    kvl_batch_release(batch);
    fake_close(order.fake);
}

TEST(submit, sets_the_pieces_of_many_segments_to_the_lease)
{
    order_t order;
    kvl_batch_t *batch;

    order_init(&order);
    REQUIRE(kvl_cache_submit(order.fake->cache, KVL_CACHE_PUT, order.items + 0, 1, NULL, &batch) ==
            KVL_INPROGRESS);
    fake_turn(order.fake);
    fake_reserved(fake_take(order.fake, KVL_MSG_RESERVE), KVL_OK);
    REQUIRE(order.fake->move_count == 1);
    CHECK_EQ(order.fake->moves[0]->piece_count, 2);
    CHECK_EQ(order.fake->moves[0]->lane, KVL_LANE_SG);
    CHECK_EQ(order.fake->moves[0]->pieces[1].remote_offset, 100);
    CHECK_EQ(order.fake->moves[0]->token, 100);
    CHECK_EQ(order.fake->moves[0]->generation, 5);
    fake_down(order.fake, KVL_ERR_PEER);
    fake_turn(order.fake);
    kvl_batch_release(batch);
    fake_close(order.fake);
}
