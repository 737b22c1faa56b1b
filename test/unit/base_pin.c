/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/shim.h"

#include "base/clock.h"
#include "base/pin.h"

#include <kvlane/status.h>

#include <pthread.h>
#include <string.h>
#include <time.h>

#define LIMIT 1000u

/* one that takes in a thread of its own */
typedef struct {
    pthread_t thread;
    uint64_t bytes;
    int64_t wait_ns;
    kvl_status_t status;
} taker_t;

static void *taker_main(void *arg)
{
    taker_t *taker = arg;

    taker->status = kvl_pin_take(taker->bytes, LIMIT, kvl_time_add(kvl_now_ns(), taker->wait_ns));
    return NULL;
}

/* returns when @a waiting threads wait */
static void taker_start(taker_t *taker, unsigned waiting)
{
    const struct timespec moment = {.tv_nsec = 200000};

    CHECK_EQ(pthread_create(&taker->thread, NULL, taker_main, taker), 0);
    while (kvl_pin_waiting() < waiting) {
        nanosleep(&moment, NULL); /* another thread's state: nothing to wait on */
    }
}

static kvl_status_t taker_end(taker_t *taker)
{
    CHECK_EQ(pthread_join(taker->thread, NULL), 0);
    return taker->status;
}

TEST(pin_take, counts_and_refuses_what_can_never_fit)
{
    uint64_t before = kvl_pin_used();

    CHECK_EQ(before, 0);
    CHECK_EQ(kvl_pin_take(UINT64_C(1) << 60, 0, 0), KVL_OK); /* no limit */
    kvl_pin_give(UINT64_C(1) << 60);
    CHECK_EQ(kvl_pin_take(LIMIT, LIMIT, 0), KVL_OK);
    CHECK_EQ(kvl_pin_used(), LIMIT);
    kvl_pin_give(LIMIT);
    CHECK_EQ(kvl_pin_take(LIMIT + 1, LIMIT, KVL_TIME_MAX), KVL_ERR_LIMIT); /* at once */
    CHECK_EQ(kvl_pin_used(), 0);
}

TEST(pin_take, says_limit_need_use_and_the_way_out_when_the_time_is_up)
{
    CHECK_EQ(kvl_pin_take(700, LIMIT, 0), KVL_OK);
    CHECK_EQ(kvl_pin_take(301, LIMIT, kvl_now_ns() + 5 * KVL_MS), KVL_ERR_LIMIT);
    CHECK_STR_EQ(kvl_error_text(), "KVLANE_PIN_MAX is 1000 bytes: 301 more do not fit to the 700 that this process "
                                   "has registered and did not give back in time; release regions, or raise it");
    CHECK_EQ(kvl_pin_used(), 700);
    CHECK_EQ(kvl_pin_waiting(), 0);
    CHECK_EQ(kvl_pin_take(300, LIMIT, 0), KVL_OK); /* exactly full */
    kvl_pin_give(1000);
}

TEST(pin_take, waits_for_what_is_given_back)
{
    taker_t taker = {.bytes = 800, .wait_ns = 60 * KVL_SECOND};

    CHECK_EQ(kvl_pin_take(500, LIMIT, 0), KVL_OK);
    CHECK_EQ(kvl_pin_take(500, LIMIT, 0), KVL_OK);
    taker_start(&taker, 1);
    kvl_pin_give(500); /* not enough */
    CHECK_EQ(kvl_pin_waiting(), 1);
    CHECK_EQ(kvl_pin_used(), 500);
    kvl_pin_give(500);
    CHECK_EQ(taker_end(&taker), KVL_OK);
    CHECK_EQ(kvl_pin_used(), 800);
    kvl_pin_give(800);
}

/* the small one would fit, but the large one came first; when that gives up, the small one goes on */
TEST(pin_take, serves_in_the_order_of_their_coming)
{
    taker_t large = {.bytes = 900, .wait_ns = 60 * KVL_SECOND}, small = {.bytes = 100, .wait_ns = 60 * KVL_SECOND};
    taker_t hasty = {.bytes = 900, .wait_ns = 20 * KVL_MS}, after = {.bytes = 100, .wait_ns = 60 * KVL_SECOND};

    CHECK_EQ(kvl_pin_take(200, LIMIT, 0), KVL_OK);
    taker_start(&large, 1);
    taker_start(&small, 2);
    CHECK_EQ(kvl_pin_used(), 200);
    kvl_pin_give(200);
    CHECK_EQ(taker_end(&large), KVL_OK);
    CHECK_EQ(taker_end(&small), KVL_OK);
    CHECK_EQ(kvl_pin_used(), 1000);
    kvl_pin_give(800);
    CHECK_EQ(pthread_create(&hasty.thread, NULL, taker_main, &hasty), 0);
    CHECK_EQ(taker_end(&hasty), KVL_ERR_LIMIT);
    CHECK_EQ(pthread_create(&after.thread, NULL, taker_main, &after), 0);
    CHECK_EQ(taker_end(&after), KVL_OK);
    kvl_pin_give(300);
    CHECK_EQ(kvl_pin_used(), 0);
}

enum { TAKERS = 8, ROUNDS = 200 };

static void *churn_main(void *arg)
{
    uint64_t bytes = *(const uint64_t *)arg;
    unsigned i;

    for (i = 0; i < ROUNDS; i++) {
        CHECK_EQ(kvl_pin_take(bytes, LIMIT, KVL_TIME_MAX), KVL_OK);
        CHECK(kvl_pin_used() <= LIMIT);
        kvl_pin_give(bytes);
    }
    return NULL;
}

TEST(pin_take, never_passes_the_limit)
{
    pthread_t threads[TAKERS];
    uint64_t bytes[TAKERS];
    unsigned i;

    for (i = 0; i < TAKERS; i++) {
        bytes[i] = 130 * (i + 1) % LIMIT;
        CHECK_EQ(pthread_create(&threads[i], NULL, churn_main, &bytes[i]), 0);
    }
    for (i = 0; i < TAKERS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    CHECK_EQ(kvl_pin_used(), 0);
}
