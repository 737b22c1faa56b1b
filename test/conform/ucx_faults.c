/* SPDX-License-Identifier: BSD-3-Clause */
/* The fault table reaches every call into UCP, and each failure is clean. */
#include "conform/pair.h"

#include "shim/shim.h"

#include "base/alloc.h"
#include "base/fault.h"

#include <kvlane/engine.h>
#include <stdlib.h>
#include <string.h>

/* One whole story: open, connect, register, put, message, flush, close. Any step may fail; what
 * was built is taken down. Returns the first failure. */
typedef struct {
    pair_t pair;
    kvl_mem_t *arena;
    kvl_rkey_t *rkey;
    waiter_t op;
    char source[65536];
} story_t;

static kvl_status_t story_move(story_t *story)
{
    pair_t *pair       = &story->pair;
    kvl_iov_t iov      = {story->source, sizeof(story->source)};
    kvl_am_send_t send = {.id = 3, .header = "h", .header_length = 1, .iov = &iov, .iov_count = 1};
    kvl_rma_t rma      = {.address = story->source,
                          .length  = sizeof(story->source),
                          .remote  = (uintptr_t)kvl_mem_address(story->arena),
                          .rkey    = story->rkey};
    kvl_status_t status;

    waiter_init(&story->op);
    status = pair_wait(pair, &story->op, kvl_ep_put(pair->a[0], &rma, &story->op.req));
    if (status == KVL_OK) {
        waiter_init(&story->op);
        status = pair_wait(pair, &story->op, kvl_ep_get(pair->a[0], &rma, &story->op.req));
    }
    if (status == KVL_OK) {
        status = pair_flush(pair, pair->a[0]);
    }
    if (status == KVL_OK) {
        waiter_init(&story->op);
        status = pair_wait(pair, &story->op, kvl_ep_am(pair->a[0], &send, &story->op.req));
    }
    if (status == KVL_OK && !pair_until(pair, &pair->arrived_count, 1)) {
        status = KVL_ERR_TIMEOUT;
    }
    if (status == KVL_OK && pair->arrived[0].recv.status == KVL_INPROGRESS) {
        pair_until_int(pair, &pair->arrived[0].recv.done, 1);
    }
    return status == KVL_OK ? pair->arrived[0].recv.status : status;
}

static kvl_status_t story_memory(story_t *story)
{
    char packed[1024];
    size_t length = sizeof(packed);
    kvl_ep_info_t info;
    kvl_status_t status = kvl_mem_create(story->pair.context_b, NULL, PAIR_DATA, &story->arena);

    if (status == KVL_OK) {
        status = kvl_mem_pack(story->arena, 0, packed, &length);
    }
    if (status == KVL_OK) {
        status = kvl_rkey_unpack(story->pair.a[0], packed, length,
                            (uintptr_t)kvl_mem_address(story->arena), PAIR_DATA, &story->rkey);
    }
    if (status == KVL_OK) {
        status = kvl_ep_info(story->pair.a[0], &info);
    }
    return status;
}

static kvl_status_t story_run(const char *rails)
{
    story_t *story      = calloc(1, sizeof(*story));
    kvl_status_t status = pair_open(&story->pair, rails, NULL);

    if (status == KVL_OK) {
        status = pair_connect(&story->pair, 1);
        if (status == KVL_OK) {
            status = story_memory(story);
        }
        if (status == KVL_OK) {
            status = story_move(story);
        }
        kvl_rkey_destroy(story->rkey);
        kvl_mem_destroy(story->arena);
        kvl_fault_setup(NULL, 0);
        pair_close(&story->pair);
    }
    kvl_fault_setup(NULL, 0);
    free(story);
    return status;
}

/* Fails the n-th hit of a point for each n (or each stride-th n), until a story runs to its end
 * without reaching n. */
static void fail_each(const char *point, const char *rails, int stride)
{
    int before = 0, n, failed = 0;
    char rule[64];

    CHECK_EQ(story_run(rails), KVL_OK);
    for (n = 1; n < 500; n += stride) {
        kvl_status_t status;

        snprintf(rule, sizeof(rule), "%s:fail@%d", point, n);
        REQUIRE(kvl_fault_setup(rule, 1) == KVL_OK);
        status = story_run(rails);
        if (status == KVL_OK) {
            break;
        }
        failed++;
        CHECK_MSG(status < 0, "%s: %s", rule, kvl_status_string(status));
        if (failed == 3) {
            before = pair_open_fds();
        }
    }
    CHECK_MSG(n < 500, "%s fails without an end", point);
    CHECK(failed > 0);
    CHECK(failed <= 3 || pair_open_fds() <= before);
}

TEST(ucx_faults, fails_cleanly_at_each_call_into_ucp_over_tcp)
{
    fail_each("ucp", "tcp", 1);
}

TEST(ucx_faults, fails_cleanly_at_each_call_into_ucp_over_shared_memory)
{
    fail_each("ucp", "shm", 1);
}

TEST(ucx_faults, fails_cleanly_at_each_call_into_ucp_over_verbs)
{
    pair_needs_rdma();
    fail_each("ucp", "rdma", 7);
}

TEST(ucx_faults, fails_cleanly_at_each_allocation)
{
    fail_each("alloc", "tcp", 1);
}

TEST(ucx_faults, fails_at_its_named_points)
{
    static const char *const points[] = {"ep.put",   "ep.get",     "ep.am",
                                         "ep.flush", "ep.connect", "mem.register"};
    char rule[64];

    CHECK_EQ(story_run("tcp"), KVL_OK);
    for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
        snprintf(rule, sizeof(rule), "%s:fail@1", points[i]);
        REQUIRE(kvl_fault_setup(rule, 1) == KVL_OK);
        CHECK(story_run("tcp") < 0);
    }
}

typedef struct {
    pair_t pair;
    kvl_iov_t iov;
    char bytes[64];
} single_t;

static void single_open(single_t *single)
{
    REQUIRE(pair_open(&single->pair, "tcp", NULL) == KVL_OK);
    REQUIRE(pair_connect(&single->pair, 1) == KVL_OK);
    single->iov = (kvl_iov_t){single->bytes, sizeof(single->bytes)};
    memset(single->bytes, 5, sizeof(single->bytes));
}

static kvl_status_t single_post(single_t *single, waiter_t *op, bool eager)
{
    kvl_am_send_t send = {.id            = 3,
                          .header        = "h",
                          .header_length = 1,
                          .iov           = &single->iov,
                          .iov_count     = 1,
                          .eager         = eager};

    waiter_init(op);
    return kvl_ep_am(single->pair.a[0], &send, &op->req);
}

static void single_close(single_t *single)
{
    kvl_fault_setup(NULL, 0);
    pair_close(&single->pair);
}

TEST(ucx_faults, delays_a_completion_also_an_inline_one)
{
    single_t single;
    waiter_t op;
    int64_t start;

    single_open(&single);
    REQUIRE(kvl_fault_setup("ep.complete:delay=30ms", 1) == KVL_OK);
    start = kvl_now_ns();
    CHECK_EQ(single_post(&single, &op, false), KVL_INPROGRESS);
    CHECK_EQ(kvl_ep_pending(single.pair.a[0]), 1);
    CHECK_EQ(pair_wait(&single.pair, &op, KVL_INPROGRESS), KVL_OK);
    CHECK(kvl_now_ns() - start >= 30 * KVL_MS);
    CHECK_EQ(kvl_ep_pending(single.pair.a[0]), 0);
    single_close(&single);
}

TEST(ucx_faults, leaves_control_messages_alone)
{
    single_t single;
    waiter_t op;

    single_open(&single);
    REQUIRE(kvl_fault_setup("ep.complete:delay=10s,ep.am:fail", 1) == KVL_OK);
    CHECK_EQ(pair_wait(&single.pair, &op, single_post(&single, &op, true)), KVL_OK);
    CHECK_EQ(pair_flush(&single.pair, single.pair.a[0]), KVL_OK);
    single_close(&single);
}

TEST(ucx_faults, ends_delayed_requests_of_a_closed_endpoint)
{
    single_t single;
    waiter_t op;

    single_open(&single);
    REQUIRE(kvl_fault_setup("ep.complete:delay=30ms", 1) == KVL_OK);
    CHECK_EQ(single_post(&single, &op, false), KVL_INPROGRESS);
    pair_end(&single.pair, single.pair.a[0]);
    single.pair.a[0] = NULL;
    CHECK_EQ(op.done, 1);
    single_close(&single);
}

TEST(ucx_faults, turns_a_completion_into_a_rail_fault)
{
    single_t single;
    waiter_t op;

    single_open(&single);
    REQUIRE(kvl_fault_setup("ep.complete:fail@1", 1) == KVL_OK);
    CHECK_EQ(pair_wait(&single.pair, &op, single_post(&single, &op, false)), KVL_ERR_RAIL);
    REQUIRE(pair_until(&single.pair, &single.pair.arrived_count, 1));
    CHECK_EQ(pair_wait(&single.pair, &op, single_post(&single, &op, false)), KVL_OK);
    single_close(&single);
}

TEST(ucx_faults, drops_a_message)
{
    single_t single;
    waiter_t op;

    single_open(&single);
    REQUIRE(kvl_fault_setup("ep.am:drop@1", 1) == KVL_OK);
    CHECK_EQ(pair_wait(&single.pair, &op, single_post(&single, &op, false)), KVL_OK);
    CHECK_EQ(pair_wait(&single.pair, &op, single_post(&single, &op, false)), KVL_OK);
    REQUIRE(pair_until(&single.pair, &single.pair.arrived_count, 1));
    pair_spin_ms(&single.pair, 10);
    CHECK_EQ(single.pair.arrived_count, 1);
    single_close(&single);
}

TEST(ucx_faults, delays_a_connection)
{
    pair_t pair;
    int64_t start;

    REQUIRE(pair_open(&pair, "tcp", NULL) == KVL_OK);
    REQUIRE(kvl_fault_setup("ep.connect:delay=60ms", 1) == KVL_OK);
    start = kvl_now_ns();
    CHECK_EQ(pair_connect(&pair, 1), KVL_OK);
    CHECK(kvl_now_ns() - start >= 60 * KVL_MS);
    kvl_fault_setup(NULL, 0);
    pair_close(&pair);
}
