/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake/client/fake.h"

#include <string.h>

/* deadline, cancel, a link that goes down, a peer that lies */

TEST(deadline, ends_what_is_not_under_way_at_once)
{
    fake_t *fake       = fake_open(false);
    kvl_batch_t *batch = fake_submit(fake, KVL_CACHE_GET, 2, 4096, 100);

    fake_pass(fake, 99 * KVL_MS);
    CHECK_EQ(kvl_batch_test(batch), KVL_INPROGRESS);
    fake_pass(fake, 1 * KVL_MS);
    CHECK_EQ(kvl_batch_test(batch), KVL_ERR_TIMEOUT);
    CHECK_EQ(kvl_batch_item(batch, 1, NULL), KVL_ERR_TIMEOUT);
    CHECK(strstr(kvl_batch_cause(batch), "waits for the connection") != NULL);
    kvl_batch_release(batch);
    fake_close(fake);
}

TEST(deadline, gives_back_leases_that_come_too_late)
{
    fake_t *fake     = fake_open(true);
    kvl_batch_t *put = fake_submit(fake, KVL_CACHE_PUT, 2, 4096, 100);
    kvl_batch_t *get = fake_submit(fake, KVL_CACHE_GET, 2, 4096, 100);

    fake_pass(fake, 100 * KVL_MS);
    CHECK_EQ(kvl_batch_test(put), KVL_ERR_TIMEOUT);
    CHECK_EQ(kvl_batch_test(get), KVL_ERR_TIMEOUT);
    kvl_batch_release(put);
    kvl_batch_release(get);
    fake_reserved(fake_take(fake, KVL_MSG_RESERVE), KVL_OK);
    fake_found(fake_take(fake, KVL_MSG_LOOKUP), KVL_OK, 4096);
    CHECK_EQ(fake->move_count, 0);
    fake_turn(fake);
    CHECK_EQ(fake_take(fake, KVL_MSG_RELEASE)->count, 2);
    CHECK_EQ(fake_take(fake, KVL_MSG_ABORT)->count, 2);
    fake_close(fake);
}

TEST(deadline, waits_for_moves_and_then_resets_the_link)
{
    fake_t *fake       = fake_open(true);
    kvl_batch_t *batch = fake_submit(fake, KVL_CACHE_GET, 2, 4096, 100);

    fake_found(fake_take(fake, KVL_MSG_LOOKUP), KVL_OK, 4096);
    fake->moves_busy = true;
    fake_pass(fake, 100 * KVL_MS);
    CHECK_EQ(fake->canceled_moves, 2);
    CHECK_EQ(kvl_batch_test(batch), KVL_INPROGRESS); /* memory may still be touched */
    fake_pass(fake, 19 * KVL_MS);
    CHECK_EQ(fake->resets, 0);
    fake_pass(fake, 1 * KVL_MS);
    CHECK_EQ(fake->resets, 1);
    CHECK_EQ(kvl_batch_test(batch), KVL_INPROGRESS);
    CHECK(atomic_load(&fake->region.users) > 0);
    fake_down(fake, KVL_ERR_CANCELED);
    fake_turn(fake);
    CHECK_EQ(kvl_batch_test(batch), KVL_ERR_TIMEOUT);
    CHECK(strstr(kvl_batch_cause(batch), "waits for its bytes to move") != NULL);
    CHECK_EQ(atomic_load(&fake->region.users), 0);
    kvl_batch_release(batch);
    fake_close(fake);
}

TEST(deadline, spares_the_link_when_moves_come_back)
{
    fake_t *fake       = fake_open(true);
    kvl_batch_t *batch = fake_submit(fake, KVL_CACHE_PUT, 2, 4096, 100);

    fake_reserved(fake_take(fake, KVL_MSG_RESERVE), KVL_OK);
    fake->moves_busy = true;
    fake_pass(fake, 100 * KVL_MS);
    fake_moved(fake, KVL_ERR_TIMEOUT);
    fake_moved(fake, KVL_OK); /* its bytes are there, but it is too late to commit */
    fake_turn(fake);
    CHECK_EQ(kvl_batch_test(batch), KVL_ERR_TIMEOUT);
    CHECK_EQ(fake->resets, 0);
    fake_turn(fake);
    CHECK_EQ(fake_take(fake, KVL_MSG_ABORT)->count, 2);
    kvl_batch_release(batch);
    fake_close(fake);
}

TEST(deadline, lets_a_commit_be_answered_a_moment_longer)
{
    fake_t *fake       = fake_open(true);
    kvl_batch_t *batch = fake_submit(fake, KVL_CACHE_PUT, 2, 4096, 100);
    fake_message_t *message;

    fake_reserved(fake_take(fake, KVL_MSG_RESERVE), KVL_OK);
    fake_moved(fake, KVL_OK);
    fake_moved(fake, KVL_OK);
    fake_turn(fake);
    message = fake_take(fake, KVL_MSG_COMMIT);
    fake_pass(fake, 100 * KVL_MS);
    CHECK_EQ(kvl_batch_test(batch), KVL_INPROGRESS);
    fake_answered_one(message, KVL_MSG_COMMITTED, 1, KVL_OK, 0);
    fake_pass(fake, 20 * KVL_MS);
    CHECK_EQ(kvl_batch_test(batch), KVL_ERR_TIMEOUT);
    CHECK_EQ(kvl_batch_item(batch, 0, NULL), KVL_ERR_AMBIGUOUS);
    CHECK_EQ(kvl_batch_item(batch, 1, NULL), KVL_OK);
    fake_answered_one(message, KVL_MSG_COMMITTED, 0, KVL_OK, 0); /* for nobody */
    kvl_batch_release(batch);
    fake_close(fake);
}

TEST(deadline, makes_small_puts_and_removes_ambiguous)
{
    fake_t *fake        = fake_open(true);
    kvl_batch_t *put    = fake_submit(fake, KVL_CACHE_PUT, 1, 64, 100);
    kvl_batch_t *remove = fake_submit(fake, KVL_CACHE_REMOVE, 1, 0, 100);
    kvl_batch_t *exists = fake_submit(fake, KVL_CACHE_EXISTS, 1, 0, 100);

    fake_pass(fake, 100 * KVL_MS);
    CHECK_EQ(kvl_batch_test(exists), KVL_ERR_TIMEOUT);
    CHECK_EQ(kvl_batch_item(exists, 0, NULL), KVL_ERR_TIMEOUT);
    CHECK_EQ(kvl_batch_test(put), KVL_INPROGRESS);
    fake_pass(fake, 20 * KVL_MS);
    CHECK_EQ(kvl_batch_test(put), KVL_ERR_TIMEOUT);
    CHECK_EQ(kvl_batch_item(put, 0, NULL), KVL_ERR_AMBIGUOUS);
    CHECK_EQ(kvl_batch_item(remove, 0, NULL), KVL_ERR_AMBIGUOUS);
    kvl_batch_release(put);
    kvl_batch_release(remove);
    kvl_batch_release(exists);
    fake_close(fake);
}

TEST(cancel, ends_a_batch_in_each_phase)
{
    fake_t *fake = fake_open(true);
    kvl_batch_t *batch;
    int phase;

    for (phase = 0; phase < 3; phase++) {
        batch = fake_submit(fake, KVL_CACHE_PUT, 1, 4096, 1000);
        if (phase > 0) {
            fake_reserved(fake_take(fake, KVL_MSG_RESERVE), KVL_OK);
        } else {
            fake_take(fake, KVL_MSG_RESERVE);
        }
        kvl_batch_cancel(batch);
        if (phase == 2) {
            fake_moved(fake, KVL_OK); /* READY when the cancel arrives */
        }
        fake_turn(fake);
        if (phase == 1) {
            CHECK_EQ(kvl_batch_test(batch), KVL_INPROGRESS);
            fake_moved(fake, KVL_ERR_CANCELED);
            fake_turn(fake);
        }
        CHECK_EQ(kvl_batch_test(batch), KVL_ERR_CANCELED);
        CHECK(strstr(kvl_batch_cause(batch), "canceled by the caller") != NULL);
        kvl_batch_release(batch);
        fake_turn(fake);
        if (phase > 0) {
            fake_take(fake, KVL_MSG_ABORT);
        }
    }
    CHECK_EQ(fake->resets, 0);
    fake_close(fake);
}

TEST(cancel, by_destroy_reaches_every_batch)
{
    fake_t *fake       = fake_open(false);
    kvl_batch_t *batch = fake_submit(fake, KVL_CACHE_PUT, 3, 4096, 1000);

    fake_close(fake);
    CHECK_EQ(kvl_batch_test(batch), KVL_ERR_CANCELED);
    kvl_batch_release(batch);
}

/* ---- the link ---- */

TEST(link_down, by_a_reset_of_another_batch_starts_over)
{
    fake_t *fake     = fake_open(true);
    kvl_batch_t *get = fake_submit(fake, KVL_CACHE_GET, 2, 4096, 1000);
    kvl_batch_t *put;

    fake_found(fake_take(fake, KVL_MSG_LOOKUP), KVL_OK, 4096);
    fake_moved(fake, KVL_OK); /* item 0 is done: never again */
    fake_turn(fake);
    fake_pass(fake, KVL_MS);
    put = fake_submit(fake, KVL_CACHE_PUT, 3, 4096, 1000);
    fake_take(fake, KVL_MSG_RELEASE);
    fake_reserved(fake_take(fake, KVL_MSG_RESERVE), KVL_OK);
    fake_moved(fake, KVL_OK); /* get item 1 */
    fake_moved(fake, KVL_OK); /* put item 0: its commit is sent */
    fake_turn(fake);
    fake_pass(fake, KVL_MS);
    fake_take(fake, KVL_MSG_COMMIT);
    fake_take(fake, KVL_MSG_RELEASE);
    fake_moved(fake, KVL_OK); /* put item 1: moved, not committed; item 2 is moving */
    fake_down(fake, KVL_ERR_CANCELED);
    fake_turn(fake);
    CHECK_EQ(kvl_batch_test(put), KVL_INPROGRESS);
    CHECK_EQ(fake->count, 0);
    fake_up(fake);
    fake_turn(fake);
    CHECK_EQ(fake->messages[fake->first].count, 2);
    CHECK_EQ(fake->messages[fake->first].items[0].key[1], '1');
    fake_reserved(fake_take(fake, KVL_MSG_RESERVE), KVL_OK);
    fake_moved(fake, KVL_OK);
    fake_moved(fake, KVL_OK);
    fake_turn(fake);
    fake_answered(fake_take(fake, KVL_MSG_COMMIT), KVL_MSG_COMMITTED, KVL_OK);
    fake_turn(fake);
    CHECK_EQ(kvl_batch_test(get), KVL_OK);
    CHECK_EQ(kvl_batch_test(put), KVL_ERR_AMBIGUOUS);
    CHECK_EQ(kvl_batch_item(put, 0, NULL), KVL_ERR_AMBIGUOUS);
    CHECK_EQ(kvl_batch_item(put, 1, NULL), KVL_OK);
    CHECK_EQ(kvl_batch_item(put, 2, NULL), KVL_OK);
    kvl_batch_release(get);
    kvl_batch_release(put);
    fake_close(fake);
}

TEST(link_down, by_the_peer_fails_everything)
{
    fake_t *fake     = fake_open(true);
    kvl_batch_t *put = fake_submit(fake, KVL_CACHE_PUT, 3, 4096, 1000);
    kvl_batch_t *exists, *late;

    fake_reserved(fake_take(fake, KVL_MSG_RESERVE), KVL_OK);
    fake_moved(fake, KVL_OK);
    fake_turn(fake);
    fake_pass(fake, KVL_MS);
    exists = fake_submit(fake, KVL_CACHE_EXISTS, 2, 0, 1000);
    fake_down(fake, KVL_ERR_PEER);
    fake_turn(fake);
    CHECK_EQ(kvl_batch_test(put), KVL_ERR_PEER);
    CHECK_EQ(kvl_batch_item(put, 0, NULL), KVL_ERR_AMBIGUOUS); /* its commit was sent */
    CHECK_EQ(kvl_batch_item(put, 1, NULL), KVL_ERR_PEER);
    CHECK_EQ(kvl_batch_test(exists), KVL_ERR_PEER);
    CHECK(strstr(kvl_batch_cause(put), "the peer is gone") != NULL);
    late = fake_submit(fake, KVL_CACHE_PUT, 3, 4096, 1000);
    CHECK_EQ(kvl_batch_test(late), KVL_ERR_UNREACHABLE); /* at once, while it is known to be down */
    CHECK(strstr(kvl_batch_cause(late), "nobody there") != NULL);
    kvl_batch_release(put);
    kvl_batch_release(exists);
    kvl_batch_release(late);
    fake_close(fake);
}

TEST(link_down, while_connecting_fails_who_waits)
{
    fake_t *fake       = fake_open(false);
    kvl_batch_t *batch = fake_submit(fake, KVL_CACHE_PUT, 3, 4096, 1000);

    CHECK_EQ(kvl_batch_test(batch), KVL_INPROGRESS);
    fake_down(fake, KVL_ERR_UNREACHABLE);
    fake_turn(fake);
    CHECK_EQ(kvl_batch_test(batch), KVL_ERR_UNREACHABLE);
    kvl_batch_release(batch);
    CHECK_EQ(kvl_cache_connect(fake->cache, 10), KVL_ERR_UNREACHABLE);
    fake_close(fake);
}

/* ---- lies ---- */

TEST(peer, that_names_memory_it_never_exported_is_cut_off)
{
    static const kvl_wire_lease_t leases[] = {
        {.id = 1, .region = 8, .offset = 0},                 /* no such region */
        {.id = 1, .region = 7, .offset = (1u << 20) - 4095}, /* one byte too far */
        {.id = 1, .region = 7, .offset = UINT64_MAX - 100},  /* wraps */
    };
    fake_t *fake = fake_open(true);
    size_t i;

    for (i = 0; i < 3; i++) {
        kvl_batch_t *put  = fake_submit(fake, KVL_CACHE_PUT, 1, 4096, 1000);
        kvl_batch_t *get  = fake_submit(fake, KVL_CACHE_GET, 1, 4096, 1000);
        kvl_found_t found = {.status = KVL_OK, .length = 4096, .lease = leases[i]};

        fake_reserved_one(fake_take(fake, KVL_MSG_RESERVE), 0, KVL_OK, &leases[i]);
        fake_found_one(fake_take(fake, KVL_MSG_LOOKUP), 0, &found);
        CHECK_EQ(fake->protocol_errors, 2 * (i + 1));
        CHECK_EQ(fake->move_count, 0);
        fake_down(fake, KVL_ERR_PROTOCOL);
        fake_turn(fake);
        CHECK_EQ(kvl_batch_test(put), KVL_ERR_PROTOCOL);
        CHECK_EQ(kvl_batch_test(get), KVL_ERR_PROTOCOL);
        kvl_batch_release(put);
        kvl_batch_release(get);
        fake_up(fake);
    }
    fake_close(fake);
}

TEST(peer, that_answers_what_was_not_asked_is_cut_off)
{
    fake_t *fake            = fake_open(true);
    kvl_batch_t *put        = fake_submit(fake, KVL_CACHE_PUT, 2, 4096, 1000);
    fake_message_t *message = fake_take(fake, KVL_MSG_RESERVE);
    kvl_batch_t *exists;

    fake_reserved_one(message, 1, KVL_OK, NULL);
    fake_reserved_one(message, 1, KVL_OK, NULL); /* twice */
    CHECK_EQ(fake->protocol_errors, 1);
    CHECK(message->call == NULL);
    fake_down(fake, KVL_ERR_PROTOCOL);
    fake_up(fake);
    fake_turn(fake);
    kvl_batch_release(put);
    exists  = fake_submit(fake, KVL_CACHE_EXISTS, 2, 0, 1000);
    message = fake_take(fake, KVL_MSG_EXISTS);
    fake_answered_one(message, KVL_MSG_EXISTS_OK, 2, KVL_OK, 0); /* of two: 0 and 1 */
    CHECK_EQ(fake->protocol_errors, 2);
    fake_down(fake, KVL_ERR_PROTOCOL);
    fake_up(fake);
    fake_turn(fake);
    CHECK_EQ(kvl_batch_test(exists), KVL_ERR_PROTOCOL);
    kvl_batch_release(exists);
    exists  = fake_submit(fake, KVL_CACHE_EXISTS, 2, 0, 1000);
    message = fake_take(fake, KVL_MSG_EXISTS);
    fake_answered_one(message, KVL_MSG_REMOVED, 0, KVL_OK, 0); /* another question's answer */
    CHECK_EQ(fake->protocol_errors, 3);
    fake_down(fake, KVL_ERR_PROTOCOL);
    fake_up(fake);
    fake_turn(fake);
    kvl_batch_release(exists);
    exists  = fake_submit(fake, KVL_CACHE_EXISTS, 2, 0, 1000);
    message = fake_take(fake, KVL_MSG_EXISTS);
    fake_answered_one(message, KVL_MSG_EXISTS_OK, 0, (kvl_status_t)12345, 0); /* no such status */
    CHECK_EQ(fake->protocol_errors, 4);
    fake_down(fake, KVL_ERR_PROTOCOL);
    fake_turn(fake);
    kvl_batch_release(exists);
    fake_close(fake);
}

TEST(peer, that_answers_with_the_wrong_type_loses_commits_as_ambiguous)
{
    fake_t *fake       = fake_open(true);
    kvl_batch_t *batch = fake_submit(fake, KVL_CACHE_PUT, 1, 4096, 1000);

    fake_reserved(fake_take(fake, KVL_MSG_RESERVE), KVL_OK);
    fake_moved(fake, KVL_OK);
    fake_turn(fake);
    fake_answered(fake_take(fake, KVL_MSG_COMMIT), KVL_MSG_EXISTS_OK, KVL_OK);
    CHECK_EQ(fake->protocol_errors, 1);
    fake_down(fake, KVL_ERR_PROTOCOL);
    fake_turn(fake);
    CHECK_EQ(kvl_batch_item(batch, 0, NULL), KVL_ERR_AMBIGUOUS);
    kvl_batch_release(batch);
    fake_close(fake);
}
