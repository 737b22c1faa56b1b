/* SPDX-License-Identifier: BSD-3-Clause */
#include "conform/stage.h"

#include <stdio.h>
#include <string.h>

#define HALF (32u << 20)

/* Batches that end early: lost messages, slow and failing ops, a node that goes away. A rule of the
 * fault table acts on node and client alike: they are one process here. */

static stage_t stage;

static void open_on(const char *rails, const char *fault)
{
    stage_params_t params = {.rails = rails, .fault = fault};

    stage_open(&stage, &params);
    CHECK_EQ(kvl_cache_connect(stage.cache, 0), KVL_OK);
}

static kvl_batch_t *submit(kvl_cache_op_t op, size_t count, size_t length, int64_t timeout_ms)
{
    static char keys[64][8];
    static kvl_segment_t segments[64];
    static kvl_item_t items[64];
    kvl_batch_params_t params = {.timeout_ms = timeout_ms};
    kvl_batch_t *batch        = NULL;
    size_t i;

    for (i = 0; i < count; i++) {
        size_t at   = (op == KVL_CACHE_GET ? HALF : 0) + i * length;
        segments[i] = (kvl_segment_t){.address = stage.pool + at, .length = length};
        items[i] =
            (kvl_item_t){keys[i], (size_t)snprintf(keys[i], 8, "key%zu", i), &segments[i], 1};
    }
    CHECK_MSG(kvl_cache_submit(stage.cache, op, items, count, &params, &batch) == KVL_INPROGRESS,
              "submit: %s", kvl_error_text());
    REQUIRE(batch != NULL);
    return batch;
}

static kvl_status_t finish(kvl_batch_t *batch, kvl_status_t *first)
{
    kvl_status_t status = kvl_batch_wait(batch, -1);

    CHECK(status == KVL_OK || kvl_batch_cause(batch)[0]);
    if (first) {
        *first = kvl_batch_item(batch, 0, NULL);
    }
    CHECK_EQ(kvl_batch_release(batch), KVL_OK);
    return status;
}

/* the same cache works on: nothing is left of what went wrong */
static void works(void)
{
    fill(stage.pool, 100000, 42);
    CHECK_EQ(stage_put(&stage, "after", 0, 100000), KVL_OK);
    CHECK_EQ(stage_get(&stage, "after", HALF, 100000), KVL_OK);
    CHECK_EQ(differs(stage.pool + HALF, 100000, 42), 100000);
}

BOTH(cache_timeout, when_a_reserve_gets_no_answer)
{
    kvl_status_t first;

    open_on(rails, "node.reserve:drop@1");
    CHECK_EQ(finish(submit(KVL_CACHE_PUT, 2, 100000, 200), &first), KVL_ERR_TIMEOUT);
    CHECK_EQ(first, KVL_ERR_TIMEOUT);
    works();
    stage_close(&stage);
}

BOTH(cache_timeout, when_a_lookup_gets_no_answer)
{
    open_on(rails, "node.lookup:drop@1");
    CHECK_EQ(finish(submit(KVL_CACHE_GET, 2, 100000, 200), NULL), KVL_ERR_TIMEOUT);
    works();
    stage_close(&stage);
}

BOTH(cache_timeout, leaves_a_commit_without_answer_ambiguous)
{
    kvl_status_t first;

    open_on(rails, "node.commit:drop@1");
    CHECK_EQ(finish(submit(KVL_CACHE_PUT, 1, 100000, 200), &first), KVL_ERR_TIMEOUT);
    CHECK_EQ(first, KVL_ERR_AMBIGUOUS);
    works();
    stage_close(&stage);
}

BOTH(cache_timeout, while_bytes_move_leaves_memory_alone)
{
    kvl_batch_t *batch;
    kvl_status_t status;
    uint8_t *buffer;

    open_on(rails, NULL);
    fill(stage.pool, 16u << 20, 1);
    CHECK_EQ(finish(submit(KVL_CACHE_PUT, 8, 2u << 20, 5000), NULL), KVL_OK);
    stage_close(&stage);
    open_on(rails, "ep.complete:delay=400ms");
    fill(stage.pool, 16u << 20, 1);
    batch  = submit(KVL_CACHE_PUT, 8, 2u << 20, 150);
    status = finish(batch, NULL);
    CHECK_EQ(status, KVL_ERR_TIMEOUT);
    buffer = stage.pool;
    memset(buffer, 0xee, 16u << 20); /* poison: none of it may ever be stored */
    batch = submit(KVL_CACHE_EXISTS, 8, 2u << 20, 5000);
    CHECK_EQ(kvl_batch_wait(batch, -1), KVL_ERR_NOT_FOUND);
    kvl_batch_release(batch);
    stage_close(&stage);
}

BOTH(cache_cancel, ends_a_batch_that_moves)
{
    kvl_batch_t *batch;
    size_t i;

    open_on(rails, "ep.complete:delay=300ms");
    for (i = 0; i < 3; i++) {
        batch = submit(KVL_CACHE_PUT, 16, 1u << 20, 10000);
        kvl_batch_wait(batch, (int64_t)i * 20);
        kvl_batch_cancel(batch);
        CHECK_EQ(finish(batch, NULL), KVL_ERR_CANCELED);
    }
    batch = submit(KVL_CACHE_EXISTS, 16, 1u << 20, 5000);
    CHECK_EQ(finish(batch, NULL), KVL_ERR_NOT_FOUND);
    stage_close(&stage);
}

BOTH(cache_cancel, of_one_batch_lets_another_end_well)
{
    kvl_batch_t *canceled, *other;

    open_on(rails, "ep.complete:delay=100ms");
    fill(stage.pool, 4u << 20, 3);
    canceled = submit(KVL_CACHE_PUT, 16, 256u << 10, 10000);
    other    = submit(KVL_CACHE_PUT, 4, 256u << 10, 10000);
    kvl_batch_wait(canceled, 30);
    kvl_batch_cancel(canceled);
    CHECK_EQ(finish(canceled, NULL), KVL_ERR_CANCELED);
    CHECK_EQ(finish(other, NULL), KVL_OK); /* starts over after the reset */
    CHECK_EQ(finish(submit(KVL_CACHE_GET, 4, 256u << 10, 10000), NULL), KVL_OK);
    CHECK_EQ(differs(stage.pool + HALF, 1u << 20, 3), 1u << 20);
    stage_close(&stage);
}

BOTH(cache_fault, of_one_op_fails_its_item_or_the_peer_and_nothing_after)
{
    static const char *const faults[] = {
        "ep.put:fail@2",       "ep.get:fail@2",      "ep.am:fail@3",
        "ep.flush:fail@9",     "ep.complete:fail@4", "ctrl.send:fail@12",
        "node.reserve:fail@1", "node.lookup:fail@1", "node.commit:fail@1"};
    size_t i;
    int round;

    for (i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        stage_params_t params = {
            .rails = rails, .fault = faults[i], .settings = {{"KVLANE_CONNECT_TIMEOUT", "1s"}}};

        stage_open(&stage, &params);
        kvl_cache_connect(stage.cache, 0);
        for (round = 0; round < 3; round++) { /* whatever the status: it comes, and clean */
            finish(submit(KVL_CACHE_PUT, 8, 100000, 1000), NULL);
            finish(submit(KVL_CACHE_GET, 8, 100000, 1000), NULL);
        }
        CHECK_EQ(kvl_cache_connect(stage.cache, 0), KVL_OK);
        works();
        stage_close(&stage);
    }
}

BOTH(cache_peer, that_is_not_there_fails_fast)
{
    kvl_batch_t *batch;

    open_on(rails, NULL);
    stage_kill_node(&stage);
    batch = submit(KVL_CACHE_PUT, 1, 5000, 10000);
    kvl_batch_wait(batch, -1);
    CHECK_EQ(kvl_status_group(kvl_batch_test(batch)), KVL_GROUP_PEER);
    kvl_batch_release(batch);
    stage_close(&stage);
}

BOTH(cache_peer, that_comes_back_is_used_again)
{
    int round, tries;

    open_on(rails, NULL);
    for (round = 0; round < 3; round++) {
        kvl_status_t status = KVL_ERR_PEER;

        works();
        stage_kill_node(&stage);
        finish(submit(KVL_CACHE_PUT, 1, 5000, 10000), NULL);
        stage_start_node(&stage);
        for (tries = 0; tries < 100 && status != KVL_OK; tries++) {
            kvl_batch_t *batch = submit(KVL_CACHE_PUT, 1, 5000, 10000);

            status = finish(batch, NULL);
            CHECK(status == KVL_OK || kvl_status_group(status) == KVL_GROUP_PEER);
            if (status != KVL_OK) {
                batch = submit(KVL_CACHE_EXISTS, 1, 5000, 100);
                kvl_batch_wait(batch, -1);
                kvl_batch_release(batch);
                kvl_cache_connect(stage.cache, 2000);
            }
        }
        CHECK_EQ(status, KVL_OK);
    }
    stage_close(&stage);
}

BOTH(cache_space, waits_for_leases_and_tells_what_can_never_fit)
{
    stage_params_t params = {.rails = rails, .node_bytes = 16u << 20};
    kvl_status_t first;
    int round;

    stage_open(&stage, &params);
    CHECK_EQ(finish(submit(KVL_CACHE_PUT, 1, 30u << 20, 5000), &first), KVL_ERR_NO_SPACE);
    for (round = 0; round < 5; round++) { /* four times the node's memory: the oldest go */
        CHECK_EQ(finish(submit(KVL_CACHE_PUT, 64, 256u << 10, 20000), NULL), KVL_OK);
    }
    works();
    stage_close(&stage);
}
