/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake/client/fake.h"

#include <string.h>

TEST(get, looks_up_moves_and_releases)
{
    fake_t *fake       = fake_open(true);
    kvl_batch_t *batch = fake_submit(fake, KVL_CACHE_GET, 3, 4096, 1000);
    fake_message_t *message;
    uint64_t length = 0;

    fake_found(fake_take(fake, KVL_MSG_LOOKUP), KVL_OK, 4096);
    REQUIRE(fake->move_count == 3);
    CHECK_EQ(fake->moves[2]->dir, KVL_MOVE_GET);
    fake_moved(fake, KVL_OK);
    fake_moved(fake, KVL_OK);
    fake_moved(fake, KVL_OK);
    fake_turn(fake);
    CHECK_EQ(kvl_batch_test(batch), KVL_OK);
    CHECK_EQ(kvl_batch_item(batch, 2, &length), KVL_OK);
    CHECK_EQ(length, 4096);
    message = fake_take(fake, KVL_MSG_RELEASE);
    CHECK_EQ(message->count, 3);
    CHECK(message->call == NULL);
    CHECK_EQ(message->items[2].lease, 102);
    kvl_batch_release(batch);
    fake_close(fake);
}

TEST(get, scatters_a_value_that_came_inside_the_answer)
{
    fake_t *fake             = fake_open(true);
    kvl_segment_t segments[] = {{.address = fake->memory + 10, .length = 3},
                                {.address = fake->memory, .length = 1},
                                {.address = fake->memory + 20, .length = 2}};
    kvl_item_t item          = {"key", 3, segments, 3};
    kvl_found_t found        = {
               .status = KVL_OK, .length = 6, .has_inline = true, .bytes = (const uint8_t *)"abcdef"};
    kvl_batch_t *batch;

    REQUIRE(kvl_cache_submit(fake->cache, KVL_CACHE_GET, &item, 1, NULL, &batch) == KVL_INPROGRESS);
    fake_turn(fake);
    fake_found_one(fake_take(fake, KVL_MSG_LOOKUP), 0, &found);
    fake_turn(fake);
    CHECK_EQ(kvl_batch_test(batch), KVL_OK);
    CHECK_MEM_EQ(fake->memory, "d\0\0\0\0\0\0\0\0\0abc\0\0\0\0\0\0\0ef", 22);
    kvl_batch_release(batch);
    fake_close(fake);
}

TEST(get, reports_the_stored_length_and_moves_nothing)
{
    fake_t *fake            = fake_open(true);
    kvl_batch_t *batch      = fake_submit(fake, KVL_CACHE_GET, 2, 4096, 1000);
    fake_message_t *message = fake_take(fake, KVL_MSG_LOOKUP);
    kvl_found_t shorter     = {
            .status = KVL_OK, .length = 3, .has_inline = true, .bytes = (const uint8_t *)"abc"};
    kvl_found_t longer = {.status = KVL_OK, .length = 5000};
    uint64_t length;

    fake_found_one(message, 0, &longer);
    fake_found_one(message, 1, &shorter);
    CHECK_EQ(fake->move_count, 0);
    fake_turn(fake);
    CHECK_EQ(kvl_batch_test(batch), KVL_ERR_LENGTH);
    CHECK_EQ(kvl_batch_item(batch, 0, &length), KVL_ERR_LENGTH);
    CHECK_EQ(length, 5000);
    CHECK_EQ(kvl_batch_item(batch, 1, &length), KVL_ERR_LENGTH);
    CHECK_EQ(length, 3);
    CHECK(strstr(kvl_batch_cause(batch), "5000 bytes are stored") != NULL);
    CHECK_EQ(fake->memory[0], 0);
    CHECK_EQ(fake_take(fake, KVL_MSG_RELEASE)->count, 1);
    kvl_batch_release(batch);
    fake_close(fake);
}

TEST(get, is_not_ok_after_the_lease_ran_out)
{
    fake_t *fake = fake_open(true);
    kvl_batch_t *batch;

    fake->terms.lease_max_ms = 50;
    batch                    = fake_submit(fake, KVL_CACHE_GET, 2, 4096, 1000);
    CHECK_EQ(fake->messages[fake->first].ttl_ms, 50);
    fake_pass(fake, 10 * KVL_MS); /* the lease counts from the moment of sending */
    fake_found(fake_take(fake, KVL_MSG_LOOKUP), KVL_OK, 4096);
    fake_pass(fake, 39 * KVL_MS);
    fake_moved(fake, KVL_OK);
    fake_pass(fake, 1 * KVL_MS);
    fake_moved(fake, KVL_OK);
    fake_turn(fake);
    CHECK_EQ(kvl_batch_item(batch, 0, NULL), KVL_OK);
    CHECK_EQ(kvl_batch_item(batch, 1, NULL), KVL_ERR_LEASE);
    kvl_batch_release(batch);
    fake_close(fake);
}

TEST(get, isolates_misses)
{
    fake_t *fake            = fake_open(true);
    kvl_batch_t *batch      = fake_submit(fake, KVL_CACHE_GET, 2, 4096, 1000);
    fake_message_t *message = fake_take(fake, KVL_MSG_LOOKUP);
    kvl_found_t miss        = {.status = KVL_ERR_NOT_FOUND};
    kvl_found_t hit         = {.status = KVL_OK, .length = 4096};

    fake_found_one(message, 1, &hit);
    fake_found_one(message, 0, &miss);
    fake_moved(fake, KVL_OK);
    fake_turn(fake);
    CHECK_EQ(kvl_batch_test(batch), KVL_ERR_NOT_FOUND);
    CHECK_EQ(kvl_batch_item(batch, 1, NULL), KVL_OK);
    CHECK(strstr(kvl_batch_cause(batch), "item 0 (key \"k0\"): not found") != NULL);
    kvl_batch_release(batch);
    fake_close(fake);
}

TEST(query, answers_by_index_in_any_order)
{
    fake_t *fake            = fake_open(true);
    kvl_batch_t *batch      = fake_submit(fake, KVL_CACHE_EXISTS, 3, 0, 1000);
    fake_message_t *message = fake_take(fake, KVL_MSG_EXISTS);
    uint64_t length;

    CHECK_EQ(message->count, 3);
    fake_answered_one(message, KVL_MSG_EXISTS_OK, 2, KVL_OK, 77);
    fake_answered_one(message, KVL_MSG_EXISTS_OK, 0, KVL_ERR_NOT_FOUND, 0);
    fake_turn(fake);
    CHECK_EQ(kvl_batch_test(batch), KVL_INPROGRESS);
    fake_answered_one(message, KVL_MSG_EXISTS_OK, 1, KVL_OK, 5);
    fake_turn(fake);
    CHECK_EQ(kvl_batch_test(batch), KVL_ERR_NOT_FOUND);
    CHECK_EQ(kvl_batch_item(batch, 2, &length), KVL_OK);
    CHECK_EQ(length, 77);
    kvl_batch_release(batch);
    fake_close(fake);
}

TEST(query, goes_in_messages_of_bounded_size)
{
    fake_t *fake       = fake_open(true);
    kvl_batch_t *batch = fake_submit(fake, KVL_CACHE_REMOVE, 3000, 0, 1000);
    unsigned messages = 0, keys = 0;

    CHECK_EQ(fake->count, 2); /* at most two under way */
    while (fake->count) {
        fake_message_t *message = fake_take(fake, KVL_MSG_REMOVE);

        keys += message->count;
        messages++;
        fake_answered(message, KVL_MSG_REMOVED, KVL_OK);
        fake_turn(fake);
    }
    CHECK_EQ(keys, 3000);
    CHECK_EQ(messages, 3);
    CHECK_EQ(kvl_batch_test(batch), KVL_OK);
    kvl_batch_release(batch);
    fake_close(fake);
}
