/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake/client/fake.h"

#include "base/alloc.h"
#include "base/fault.h"

#include <stdio.h>

/* a node that answers everything, until the batch is complete */
static void serve(fake_t *fake, kvl_batch_t *batch)
{
    unsigned i;

    for (i = 0; i < 500 && kvl_batch_test(batch) == KVL_INPROGRESS; i++) {
        while (fake->move_count) {
            fake_moved(fake, KVL_OK);
        }
        while (fake->count) {
            fake_message_t *message = &fake->messages[fake->first % FAKE_MESSAGES];

            fake_take(fake, message->type);
            switch (message->type) {
            case KVL_MSG_RESERVE:
                fake_reserved(message, KVL_OK);
                break;
            case KVL_MSG_LOOKUP:
                fake_found(message, KVL_OK, 4096);
                break;
            case KVL_MSG_COMMIT:
                fake_answered(message, KVL_MSG_COMMITTED, KVL_OK);
                break;
            case KVL_MSG_EXISTS:
                fake_answered(message, KVL_MSG_EXISTS_OK, KVL_OK);
                break;
            default:
                break;
            }
        }
        fake_pass(fake, KVL_MS);
    }
}

static kvl_status_t serve_one(fake_t *fake, kvl_cache_op_t op)
{
    kvl_segment_t segment = {.address = fake->memory, .length = 4096};
    kvl_item_t items[3]   = {{"a", 1, &segment, 1}, {"b", 1, &segment, 1}, {"c", 1, &segment, 1}};
    kvl_batch_t *batch    = NULL;
    kvl_status_t status   = kvl_cache_submit(fake->cache, op, items, 3, NULL, &batch);

    if (status != KVL_INPROGRESS) {
        CHECK(batch == NULL);
        return status;
    }
    serve(fake, batch);
    status = kvl_batch_test(batch);
    kvl_batch_release(batch);
    return status;
}

TEST(memory, may_fail_at_any_allocation)
{
    static const kvl_cache_op_t ops[] = {KVL_CACHE_PUT, KVL_CACHE_GET, KVL_CACHE_EXISTS};
    unsigned nth, i, failed = 0;

    for (nth = 1; nth <= 20; nth++) {
        fake_t *fake = fake_open(true);
        char rule[32];

        snprintf(rule, sizeof(rule), "alloc:fail@%u", nth);
        CHECK_EQ(kvl_fault_setup(rule, 0), KVL_OK);
        for (i = 0; i < 3; i++) {
            kvl_status_t status = serve_one(fake, ops[i]);

            CHECK_MSG(status == KVL_OK || status == KVL_ERR_NO_MEMORY, "allocation %u: %s", nth,
                      kvl_status_name(status));
            failed += status != KVL_OK;
        }
        kvl_fault_setup(NULL, 0);
        fake_close(fake);
    }
    CHECK(failed > 0);
}

TEST(memory, that_stays_away_ends_the_batch)
{
    fake_t *fake = fake_open(true);

    CHECK_EQ(kvl_fault_setup("alloc:fail@2+", 0), KVL_OK);
    CHECK_EQ(serve_one(fake, KVL_CACHE_PUT), KVL_ERR_NO_MEMORY);
    kvl_fault_setup(NULL, 0);
    CHECK_EQ(serve_one(fake, KVL_CACHE_PUT), KVL_OK); /* and harms nobody after */
    fake_close(fake);
}

TEST(memory, is_one_block_per_batch_when_warm)
{
    fake_t *fake = fake_open(true);
    uint64_t hits;
    int round;

    for (round = 0; round < 3; round++) {
        CHECK_EQ(kvl_fault_setup("alloc:fail@1000000", 0), KVL_OK); /* counts */
        CHECK_EQ(serve_one(fake, KVL_CACHE_PUT), KVL_OK);
        CHECK_EQ(serve_one(fake, KVL_CACHE_GET), KVL_OK);
        hits = kvl_fault_hits(KVL_FAULT_ALLOC);
        CHECK(round == 0 || hits == 2);
    }
    kvl_fault_setup(NULL, 0);
    fake_close(fake);
}

TEST(memory, of_a_large_batch_is_one_block)
{
    enum { ITEMS = 16, SEGMENTS = 1024 };
    fake_t *fake = fake_open(true);
    static kvl_segment_t segments[ITEMS * SEGMENTS];
    kvl_item_t items[ITEMS];
    kvl_batch_t *batch = NULL;
    int i;

    for (i = 0; i < ITEMS * SEGMENTS; i++) {
        segments[i] = (kvl_segment_t){.address = fake->memory + i * 64, .length = 32};
    }
    for (i = 0; i < ITEMS; i++) {
        items[i] = (kvl_item_t){"key", 3, segments + i * SEGMENTS, SEGMENTS};
    }
    CHECK_EQ(kvl_fault_setup("alloc:fail@1000000", 0), KVL_OK);
    CHECK_EQ(kvl_cache_submit(fake->cache, KVL_CACHE_PUT, items, ITEMS, NULL, &batch),
             KVL_INPROGRESS);
    CHECK_EQ(kvl_fault_hits(KVL_FAULT_ALLOC), 1);
    kvl_fault_setup(NULL, 0);
    CHECK_EQ(atomic_load(&fake->region.users), ITEMS * SEGMENTS);
    kvl_batch_cancel(batch);
    fake_turn(fake);
    CHECK_EQ(kvl_batch_release(batch), KVL_OK);
    fake_close(fake);
}
