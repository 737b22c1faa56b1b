/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake/client/fake.h"

#include <string.h>

TEST(put, reserves_moves_and_commits)
{
    fake_t *fake            = fake_open(true);
    kvl_batch_t *batch      = fake_submit(fake, KVL_CACHE_PUT, 2, 4096, 1000);
    fake_message_t *message = fake_take(fake, KVL_MSG_RESERVE);

    CHECK_EQ(message->count, 2);
    CHECK_EQ(message->items[1].length, 4096);
    CHECK_EQ(message->ttl_ms, 2000); /* the deadline and a margin */
    fake_reserved(message, KVL_OK);
    REQUIRE(fake->move_count == 2);
    fake_turn(fake);
    CHECK_EQ(fake->count, 0);
    fake_moved(fake, KVL_OK);
    fake_moved(fake, KVL_OK);
    fake_turn(fake);
    message = fake_take(fake, KVL_MSG_COMMIT); /* both in one message */
    CHECK_EQ(message->count, 2);
    CHECK_EQ(message->items[0].lease, 100);
    CHECK_EQ(message->items[1].lease, 101);
    CHECK_EQ(message->items[1].generation, 5);
    CHECK_EQ(message->items[1].length, 4096);
    CHECK_EQ(message->items[1].ops, 1);
    CHECK_EQ(kvl_batch_test(batch), KVL_INPROGRESS);
    fake_answered(message, KVL_MSG_COMMITTED, KVL_OK);
    fake_turn(fake);
    CHECK_EQ(kvl_batch_test(batch), KVL_OK);
    CHECK_EQ(fake->count, 0);
    kvl_batch_release(batch);
    fake_close(fake);
}

TEST(put, sends_small_values_inside_the_request)
{
    fake_t *fake = fake_open(true);
    kvl_batch_t *batch;
    fake_message_t *message;

    memcpy(fake->memory, "0123456789abcdef", 16);
    batch   = fake_submit(fake, KVL_CACHE_PUT, 1, 64, 1000);
    message = fake_take(fake, KVL_MSG_RESERVE);
    CHECK(message->items[0].has_inline);
    CHECK_MEM_EQ(message->items[0].bytes, "0123456789abcdef", 16);
    fake_reserved(message, KVL_OK);
    fake_turn(fake);
    CHECK_EQ(kvl_batch_test(batch), KVL_OK);
    CHECK_EQ(fake->move_count, 0);
    kvl_batch_release(batch);
    batch = fake_submit(fake, KVL_CACHE_PUT, 1, 65, 1000); /* one byte more than inline_max */
    CHECK(!fake_take(fake, KVL_MSG_RESERVE)->items[0].has_inline);
    kvl_batch_cancel(batch);
    fake_turn(fake);
    kvl_batch_release(batch);
    fake_close(fake);
}

TEST(put, looks_ahead_by_a_bounded_number_of_leases)
{
    fake_t *fake       = fake_open(true);
    kvl_batch_t *batch = fake_submit(fake, KVL_CACHE_PUT, 1000, 4096, 1000);
    unsigned asked = 0, first = fake->messages[0].count;

    CHECK_EQ(first, 4); /* depth: the first move starts soon */
    while (fake->count) {
        asked += fake_take(fake, KVL_MSG_RESERVE)->count;
    }
    CHECK_EQ(asked, 4 + 32); /* depth + max(2 * depth, 32) */
    fake_turn(fake);
    CHECK_EQ(fake->count, 0);
    kvl_batch_cancel(batch);
    fake_turn(fake);
    CHECK_EQ(kvl_batch_test(batch), KVL_ERR_CANCELED);
    kvl_batch_release(batch);
    fake_close(fake);
}

TEST(put, refills_in_chunks_as_moves_end)
{
    fake_t *fake       = fake_open(true);
    kvl_batch_t *batch = fake_submit(fake, KVL_CACHE_PUT, 100, 4096, 1000);
    unsigned i, messages = 0, commits = 0;

    for (i = 0; i < 2000 && kvl_batch_test(batch) == KVL_INPROGRESS; i++) {
        while (fake->count) {
            fake_message_t *message = &fake->messages[fake->first % FAKE_MESSAGES];

            if (message->type == KVL_MSG_RESERVE) {
                fake_reserved(fake_take(fake, KVL_MSG_RESERVE), KVL_OK);
                messages++;
            } else {
                fake_answered(fake_take(fake, KVL_MSG_COMMIT), KVL_MSG_COMMITTED, KVL_OK);
                commits++;
            }
        }
        CHECK(fake->move_count <= 36);
        if (fake->move_count) {
            fake_moved(fake, KVL_OK);
        }
        fake_turn(fake);
    }
    CHECK_EQ(kvl_batch_test(batch), KVL_OK);
    CHECK(messages <= 2 + 100 / 8); /* quarters of the look-ahead, not one by one */
    kvl_batch_release(batch);
    fake_close(fake);
}

TEST(put, bounds_the_bytes_it_reserves)
{
    fake_t *fake          = fake_open(true);
    kvl_segment_t segment = {.address = fake->memory, .length = 16u << 20};
    kvl_item_t items[64];
    kvl_batch_t *batch;
    unsigned i, asked = 0;

    fake->region.length = 16u << 20; /* never touched */
    for (i = 0; i < 64; i++) {
        items[i] = (kvl_item_t){"key", 3, &segment, 1};
    }
    REQUIRE(kvl_cache_submit(fake->cache, KVL_CACHE_PUT, items, 64, NULL, &batch) ==
            KVL_INPROGRESS);
    fake_turn(fake);
    while (fake->count) {
        asked += fake_take(fake, KVL_MSG_RESERVE)->count;
    }
    CHECK_EQ(asked, 4 + 4 / 2 + 1); /* enough for depth, no more */
    kvl_batch_cancel(batch);
    fake_turn(fake);
    kvl_batch_release(batch);
    fake_close(fake);
}

TEST(put, tries_again_while_the_node_is_full)
{
    fake_t *fake       = fake_open(true);
    kvl_batch_t *batch = fake_submit(fake, KVL_CACHE_PUT, 1, 4096, 1000);
    int i;

    for (i = 0; i < 12; i++) {
        int64_t pause = i < 6 ? KVL_MS << i : 50 * KVL_MS, passed = 0;

        fake_reserved(fake_take(fake, KVL_MSG_RESERVE), KVL_ERR_BUSY);
        fake_turn(fake);
        CHECK_EQ(fake->count, 0);
        while (!fake->count && passed < 10 * pause) {
            fake_pass(fake, pause / 4);
            passed += pause / 4;
        }
        CHECK(passed >= pause / 2 && passed <= pause * 7 / 4); /* half to one and a half */
    }
    CHECK_EQ(kvl_batch_test(batch), KVL_INPROGRESS);
    fake_reserved(fake_take(fake, KVL_MSG_RESERVE), KVL_OK);
    fake_moved(fake, KVL_OK);
    fake_turn(fake);
    fake_answered(fake_take(fake, KVL_MSG_COMMIT), KVL_MSG_COMMITTED, KVL_OK);
    fake_turn(fake);
    CHECK_EQ(kvl_batch_test(batch), KVL_OK);
    kvl_batch_release(batch);
    fake_close(fake);
}

TEST(put, fails_one_item_and_leaves_its_neighbours)
{
    fake_t *fake            = fake_open(true);
    kvl_batch_t *batch      = fake_submit(fake, KVL_CACHE_PUT, 3, 4096, 1000);
    fake_message_t *message = fake_take(fake, KVL_MSG_RESERVE);

    fake_reserved_one(message, 1, KVL_ERR_NO_SPACE, NULL);
    fake_reserved_one(message, 2, KVL_OK, NULL);
    fake_reserved_one(message, 0, KVL_OK, NULL);
    fake_moved(fake, KVL_ERR_RAIL); /* item 2 */
    fake_moved(fake, KVL_OK);
    fake_turn(fake);
    fake_answered(fake_take(fake, KVL_MSG_COMMIT), KVL_MSG_COMMITTED, KVL_OK);
    message = fake_take(fake, KVL_MSG_ABORT); /* the lease of item 2 */
    CHECK_EQ(message->count, 1);
    CHECK_EQ(message->items[0].lease, 102);
    fake_turn(fake);
    CHECK_EQ(kvl_batch_test(batch), KVL_ERR_RAIL);
    CHECK_EQ(kvl_batch_item(batch, 0, NULL), KVL_OK);
    CHECK_EQ(kvl_batch_item(batch, 1, NULL), KVL_ERR_NO_SPACE);
    CHECK_EQ(kvl_batch_item(batch, 2, NULL), KVL_ERR_RAIL);
    CHECK(strstr(kvl_batch_cause(batch), "item 2 (key \"k2\")") != NULL);
    kvl_batch_release(batch);
    fake_close(fake);
}

TEST(put, whose_commit_is_refused_is_not_stored)
{
    fake_t *fake       = fake_open(true);
    kvl_batch_t *batch = fake_submit(fake, KVL_CACHE_PUT, 1, 4096, 1000);

    fake_reserved(fake_take(fake, KVL_MSG_RESERVE), KVL_OK);
    fake_moved(fake, KVL_OK);
    fake_turn(fake);
    fake_answered(fake_take(fake, KVL_MSG_COMMIT), KVL_MSG_COMMITTED, KVL_ERR_LEASE);
    fake_turn(fake);
    CHECK_EQ(kvl_batch_test(batch), KVL_ERR_LEASE);
    kvl_batch_release(batch);
    batch = fake_submit(fake, KVL_CACHE_PUT, 1, 4096, 1000);
    fake_refuse(fake_take(fake, KVL_MSG_RESERVE), KVL_ERR_LIMIT);
    fake_turn(fake);
    CHECK_EQ(kvl_batch_test(batch), KVL_ERR_LIMIT);
    CHECK(strstr(kvl_batch_cause(batch), "because the test wants it") != NULL);
    kvl_batch_release(batch);
    fake_close(fake);
}

TEST(put, sends_again_what_could_not_be_sent)
{
    fake_t *fake = fake_open(true);
    kvl_batch_t *batch;

    fake->send_failures = 2;
    batch               = fake_submit(fake, KVL_CACHE_PUT, 1, 4096, 1000);
    CHECK_EQ(fake->count, 0);
    fake_pass(fake, 2 * KVL_MS);
    CHECK_EQ(fake->count, 0);
    fake_pass(fake, 2 * KVL_MS);
    fake_reserved(fake_take(fake, KVL_MSG_RESERVE), KVL_OK);
    fake_moved(fake, KVL_OK);
    fake->send_failures = 1; /* a commit that never left may be sent again */
    fake_turn(fake);
    CHECK_EQ(fake->count, 0);
    fake_pass(fake, 2 * KVL_MS);
    fake_answered(fake_take(fake, KVL_MSG_COMMIT), KVL_MSG_COMMITTED, KVL_OK);
    fake_turn(fake);
    CHECK_EQ(kvl_batch_test(batch), KVL_OK);
    kvl_batch_release(batch);
    fake->send_failures = 100;
    batch               = fake_submit(fake, KVL_CACHE_PUT, 1, 4096, 1000);
    while (kvl_batch_test(batch) == KVL_INPROGRESS) {
        fake_pass(fake, KVL_MS);
    }
    CHECK_EQ(kvl_batch_test(batch), KVL_ERR_RAIL);
    CHECK_EQ(fake->send_failures, 100 - 11);
    kvl_batch_release(batch);
    fake_close(fake);
}

TEST(put, commits_leave_together_and_the_last_at_once)
{
    fake_t *fake       = fake_open(true);
    kvl_batch_t *batch = fake_submit(fake, KVL_CACHE_PUT, 4, 4096, 1000);
    fake_message_t *commit;

    fake_reserved(fake_take(fake, KVL_MSG_RESERVE), KVL_OK);
    fake_moved(fake, KVL_OK);
    fake_turn(fake);
    fake_moved(fake, KVL_OK);
    fake_turn(fake);
    CHECK_EQ(fake->count, 0); /* others still move */
    fake_pass(fake, KVL_MS);
    commit = fake_take(fake, KVL_MSG_COMMIT); /* but not for long */
    CHECK_EQ(commit->count, 2);
    fake_answered(commit, KVL_MSG_COMMITTED, KVL_OK);
    fake_moved(fake, KVL_OK);
    fake_turn(fake);
    CHECK_EQ(fake->count, 0);
    fake_moved(fake, KVL_OK);
    fake_turn(fake);
    commit = fake_take(fake, KVL_MSG_COMMIT); /* no time passed: it was the last */
    CHECK_EQ(commit->count, 2);
    fake_answered(commit, KVL_MSG_COMMITTED, KVL_OK);
    fake_turn(fake);
    CHECK_EQ(kvl_batch_test(batch), KVL_OK);
    kvl_batch_release(batch);
    fake_close(fake);
}
