/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake/client/fake.h"

#include <string.h>

typedef struct {
    kvl_batch_t batch;
    kvl_result_t results[4];
    unsigned cancels, destroys, calls;
    kvl_status_t seen;
} owner_t;

static void owner_cancel(kvl_batch_t *batch)
{
    kvl_container(batch, owner_t, batch)->cancels++;
}

static void owner_destroy(kvl_batch_t *batch)
{
    kvl_container(batch, owner_t, batch)->destroys++;
}

static const kvl_batch_ops_t owner_ops = {.cancel = owner_cancel, .destroy = owner_destroy};

static void owner_callback(kvl_batch_t *batch, void *arg)
{
    owner_t *owner = arg;

    owner->calls++;
    owner->seen = kvl_batch_test(batch);
}

static void owner_init(owner_t *owner, fake_t *fake, bool callback)
{
    kvl_batch_params_t params = {.callback = callback ? owner_callback : NULL, .arg = owner};

    memset(owner, 0, sizeof(*owner));
    kvl_batch_init(&owner->batch, fake->engine, &owner_ops, &params, 0, owner->results, 4);
}

static void end_all(owner_t *owner, kvl_status_t a, kvl_status_t b, kvl_status_t c, kvl_status_t d)
{
    kvl_status_t ends[4] = {a, b, c, d};
    size_t i;

    for (i = 0; i < 4; i++) {
        if (kvl_batch_end(&owner->batch, i, ends[i], i)) {
            kvl_batch_blame(&owner->batch, "item %zu", i);
        }
    }
    CHECK(kvl_batch_is_over(&owner->batch));
    kvl_batch_complete(&owner->batch);
}

TEST(batch, is_in_progress_until_complete)
{
    fake_t *fake = fake_open(true);
    owner_t owner;
    uint64_t length = 77;

    owner_init(&owner, fake, false);
    CHECK_EQ(kvl_batch_test(&owner.batch), KVL_INPROGRESS);
    CHECK_EQ(kvl_batch_item(&owner.batch, 0, &length), KVL_INPROGRESS);
    CHECK_EQ(length, 77);
    CHECK_EQ(kvl_batch_release(&owner.batch), KVL_ERR_BUSY);
    CHECK_STR_EQ(kvl_batch_cause(&owner.batch), "");
    end_all(&owner, KVL_OK, KVL_OK, KVL_OK, KVL_OK);
    CHECK_EQ(kvl_batch_test(&owner.batch), KVL_OK);
    CHECK_EQ(kvl_batch_wait(&owner.batch, -1), KVL_OK);
    CHECK_EQ(kvl_batch_item(&owner.batch, 3, &length), KVL_OK);
    CHECK_EQ(length, 3);
    CHECK_EQ(kvl_batch_item(&owner.batch, 4, &length), KVL_ERR_INVALID);
    CHECK_EQ(fake->notified, 1);
    CHECK_EQ(owner.destroys, 0);
    CHECK_EQ(kvl_batch_release(&owner.batch), KVL_OK);
    CHECK_EQ(owner.destroys, 1);
    fake_close(fake);
}

TEST(batch, reports_the_worst_group_and_its_first_failure)
{
    static const kvl_status_t cases[][5] = {
        {KVL_OK, KVL_ERR_NOT_FOUND, KVL_ERR_LENGTH, KVL_OK, KVL_ERR_NOT_FOUND},
        {KVL_ERR_NOT_FOUND, KVL_ERR_RAIL, KVL_ERR_LENGTH, KVL_OK, KVL_ERR_RAIL},
        {KVL_ERR_RAIL, KVL_ERR_PEER, KVL_ERR_UNREACHABLE, KVL_OK, KVL_ERR_PEER},
        {KVL_ERR_PEER, KVL_ERR_AMBIGUOUS, KVL_ERR_TIMEOUT, KVL_ERR_CANCELED, KVL_ERR_TIMEOUT},
    };
    static const char *const causes[] = {"item 1", "item 1", "item 1", "item 2"};
    fake_t *fake                      = fake_open(true);
    owner_t owner;
    size_t i;

    for (i = 0; i < 4; i++) {
        const kvl_status_t *c = cases[i];

        owner_init(&owner, fake, false);
        end_all(&owner, c[0], c[1], c[2], c[3]);
        CHECK_EQ(kvl_batch_test(&owner.batch), c[4]);
        CHECK_STR_EQ(kvl_batch_cause(&owner.batch), causes[i]);
        kvl_batch_release(&owner.batch);
    }
    fake_close(fake);
}

TEST(batch, keeps_the_status_of_the_whole_over_items)
{
    fake_t *fake = fake_open(true);
    owner_t owner;

    owner_init(&owner, fake, false);
    CHECK(kvl_batch_fail(&owner.batch, KVL_ERR_TIMEOUT));
    kvl_batch_blame(&owner.batch, "too late");
    end_all(&owner, KVL_ERR_AMBIGUOUS, KVL_OK, KVL_ERR_TIMEOUT, KVL_ERR_PEER);
    CHECK_EQ(kvl_batch_test(&owner.batch), KVL_ERR_TIMEOUT);
    CHECK_STR_EQ(kvl_batch_cause(&owner.batch), "too late");
    kvl_batch_release(&owner.batch);
    fake_close(fake);
}

TEST(batch, calls_back_once_and_then_makes_no_event)
{
    fake_t *fake = fake_open(true);
    owner_t owner;

    owner_init(&owner, fake, true);
    end_all(&owner, KVL_OK, KVL_OK, KVL_ERR_LENGTH, KVL_OK);
    CHECK_EQ(owner.calls, 1);
    CHECK_EQ(owner.seen, KVL_ERR_LENGTH);
    CHECK_EQ(fake->notified, 0);
    kvl_batch_release(&owner.batch);
    CHECK_EQ(owner.destroys, 1);
    fake_close(fake);
}

TEST(batch_cancel, reaches_the_owner_once)
{
    fake_t *fake = fake_open(true);
    owner_t owner;

    owner_init(&owner, fake, false);
    kvl_batch_cancel(&owner.batch);
    kvl_batch_cancel(&owner.batch);
    CHECK_EQ(owner.cancels, 0); /* on the engine's thread only */
    fake_turn(fake);
    CHECK_EQ(owner.cancels, 1);
    kvl_batch_cancel(&owner.batch);
    fake_turn(fake);
    CHECK_EQ(owner.cancels, 1);
    end_all(&owner, KVL_OK, KVL_OK, KVL_OK, KVL_OK);
    kvl_batch_release(&owner.batch);
    CHECK_EQ(owner.destroys, 1);
    fake_close(fake);
}

TEST(batch_cancel, on_its_way_keeps_a_released_batch)
{
    fake_t *fake = fake_open(true);
    owner_t owner;

    owner_init(&owner, fake, false);
    kvl_batch_cancel(&owner.batch);
    end_all(&owner, KVL_OK, KVL_OK, KVL_OK, KVL_OK);
    kvl_batch_release(&owner.batch);
    CHECK_EQ(owner.destroys, 0);
    fake_turn(fake);
    CHECK_EQ(owner.cancels, 0); /* too late */
    CHECK_EQ(owner.destroys, 1);
    fake_close(fake);
}

TEST(batch_deadline, comes_from_params_or_settings)
{
    fake_t *fake              = fake_open(true);
    kvl_batch_params_t params = {0};
    int64_t at                = 0;

    CHECK_EQ(kvl_batch_deadline(fake->engine, NULL, &at), KVL_OK);
    CHECK_EQ(at, fake_now_ns + 30 * KVL_SECOND);
    params.timeout_ms = 5;
    CHECK_EQ(kvl_batch_deadline(fake->engine, &params, &at), KVL_OK);
    CHECK_EQ(at, fake_now_ns + 5000000);
    params.timeout_ms = INT64_MAX;
    CHECK_EQ(kvl_batch_deadline(fake->engine, &params, &at), KVL_OK);
    CHECK_EQ(at, INT64_MAX);
    params.timeout_ms = -1;
    CHECK_EQ(kvl_batch_deadline(fake->engine, &params, &at), KVL_ERR_INVALID);
    CHECK(strstr(kvl_error_text(), "timeout_ms is -1") != NULL);
    fake_close(fake);
}

TEST(key_text, is_printable_and_cut)
{
    char text[KVL_KEY_TEXT], longest[256];

    CHECK_STR_EQ(kvl_key_text((const uint8_t *)"page-1", 6, text), "page-1");
    CHECK_STR_EQ(kvl_key_text((const uint8_t *)"a\0\"\n", 4, text), "a\\x00\\x22\\x0a");
    memset(longest, 'x', sizeof(longest));
    kvl_key_text((const uint8_t *)longest, 255, text);
    CHECK(strlen(text) < KVL_KEY_TEXT);
    CHECK_STR_EQ(text + strlen(text) - 4, "x...");
    memset(longest, 1, sizeof(longest));
    kvl_key_text((const uint8_t *)longest, 255, text);
    CHECK(strlen(text) < KVL_KEY_TEXT);
    CHECK_STR_EQ(text + strlen(text) - 7, "\\x01...");
}
