/* SPDX-License-Identifier: BSD-3-Clause */
#include "conform/pair.h"
#include "shim/shim.h"

/* What kvlane keeps from UCX, or UCX from. */

/* what comes of it: test/system/trouble_reset.c, trouble_events.c */
TEST(ucx_guards, have_the_sends_and_sockets_of_ucx_led_through_kvlane)
{
    pair_t pair;

#if !defined(__x86_64__) && !defined(__aarch64__)
    SKIP("only on x86_64 and aarch64");
#endif
    REQUIRE(pair_open(&pair, "tcp", NULL) == KVL_OK);
    CHECK(kvl_ucx_sends_guarded());
    CHECK(kvl_ucx_events_guarded());
    pair_close(&pair);
}

/* UCX counts in 8 bits how many hold an endpoint, and each flush of its worker does */
TEST(ucx_guards, bound_the_flushes_of_a_worker_that_are_under_way)
{
    enum { FLUSHES = 400 };
    static waiter_t flushes[FLUSHES];
    kvl_status_t statuses[FLUSHES];
    kvl_ep_params_t params = {.arg = flushes};
    pair_t pair;
    unsigned i, done = 0;

    /* to a peer that does not move */
    REQUIRE(pair_open(&pair, "tcp", NULL) == KVL_OK);
    params.worker = pair.worker_a;
    REQUIRE(kvl_ep_connect(&params, &pair.addr, &pair.a[0]) == KVL_OK);
    for (i = 0; i < FLUSHES; i++) {
        waiter_init(&flushes[i]);
        statuses[i] = kvl_worker_flush(pair.worker_a, &flushes[i].req);
        done += statuses[i] != KVL_INPROGRESS;
    }
    CHECK_EQ(done, 0);
    pair_end(&pair, pair.a[0]);
    pair.a[0] = NULL;
    for (i = 0; i < FLUSHES; i++) {
        (void)pair_wait(&pair, &flushes[i], statuses[i]);
        CHECK_EQ(flushes[i].done, 1);
    }
    pair_close(&pair);
}

/* By where UCX's side of a worker lies in it, which no header tells. */
TEST(ucx_guards, keep_the_number_of_a_closed_socket_until_its_worker_was_progressed)
{
    pair_t pair;
    unsigned i, most = 0;
    waiter_t closed;
    kvl_status_t status;

    REQUIRE(pair_open(&pair, "tcp", NULL) == KVL_OK);
    REQUIRE(pair_connect(&pair, 1) == KVL_OK);
    CHECK_EQ(kvl_ucx_events_held(), 0);
    waiter_init(&closed);
    status = kvl_ep_close(pair.a[0], true, &closed.req);
    for (i = 0; i < 1000; i++) { /* UCX does not close it at once */
        most = kvl_ucx_events_held() > most ? kvl_ucx_events_held() : most;
        pair_step(&pair);
    }
    CHECK_EQ(pair_wait(&pair, &closed, status), KVL_OK);
    CHECK(most > 0);
    CHECK_EQ(kvl_ucx_events_held(), 0);
    kvl_ep_destroy(pair.a[0]);
    pair.a[0] = NULL;
    pair_close(&pair);
}

/* One that stands still keeps no others'. */
TEST(ucx_guards, keep_no_files_for_a_worker_that_stands_still)
{
    static pair_t still, busy;
    int before = 0;
    unsigned i;

    REQUIRE(pair_open(&still, "tcp", NULL) == KVL_OK);
    REQUIRE(pair_connect(&still, 1) == KVL_OK);
    for (i = 0; i < 30; i++) {
        REQUIRE(pair_open(&busy, "tcp", NULL) == KVL_OK);
        REQUIRE(pair_connect(&busy, 4) == KVL_OK);
        pair_close(&busy);
        if (i == 5) {
            before = pair_open_fds();
        }
    }
    CHECK_MSG(pair_open_fds() <= before + 8, "%d files after 6 rounds, %d after 30", before, pair_open_fds());
    pair_close(&still);
}
