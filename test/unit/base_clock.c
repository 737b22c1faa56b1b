/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/shim.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/list.h"

#include <string.h>

typedef struct {
    kvl_timer_t timer;
    kvl_timers_t *timers;
    kvl_timer_t *other;
    int64_t again_ns; /* armed again for this time by the callback, if above 0 */
    int runs;
} alarm_t;

static int64_t last_run_ns;

static void alarm_run(kvl_timer_t *timer)
{
    alarm_t *alarm = kvl_container(timer, alarm_t, timer);

    CHECK(!kvl_timer_armed(timer));
    CHECK(timer->at_ns >= last_run_ns);
    last_run_ns = timer->at_ns;
    alarm->runs++;
    if (alarm->other) {
        kvl_timer_cancel(alarm->timers, alarm->other);
    }
    if (alarm->again_ns > 0) {
        CHECK_EQ(kvl_timer_set(alarm->timers, timer, alarm->again_ns, alarm_run), KVL_OK);
    }
}

static void alarm_set(kvl_timers_t *timers, alarm_t *alarm, int64_t at_ns)
{
    alarm->timers = timers;
    CHECK_EQ(kvl_timer_set(timers, &alarm->timer, at_ns, alarm_run), KVL_OK);
}

static void setup(kvl_timers_t *timers)
{
    last_run_ns = 0;
    kvl_timers_init(timers);
}

TEST(clock_now, never_goes_back)
{
    int64_t a = kvl_now_ns(), b = kvl_now_ns();

    CHECK(a > 0 && b >= a);
}

TEST(clock_add, stops_at_the_end_of_time)
{
    CHECK(kvl_time_add(5, 7) == 12);
    CHECK(kvl_time_add(KVL_TIME_MAX - 1, 1) == KVL_TIME_MAX);
    CHECK(kvl_time_add(KVL_TIME_MAX - 1, 2) == KVL_TIME_MAX);
    CHECK(kvl_time_add(KVL_TIME_MAX, KVL_TIME_MAX) == KVL_TIME_MAX);
}

TEST(timers_run, runs_what_is_due_in_order_and_no_more)
{
    static const int64_t at[] = {50, 10, 40, 20, 30};
    alarm_t alarms[5]         = {0};
    kvl_timers_t timers;
    int i;

    setup(&timers);
    CHECK(kvl_timers_next(&timers) == KVL_TIME_MAX);
    for (i = 0; i < 5; i++) {
        alarm_set(&timers, &alarms[i], at[i]);
    }
    CHECK_EQ(kvl_timers_next(&timers), 10);
    CHECK_EQ(kvl_timers_run(&timers, 9), 0);
    CHECK_EQ(kvl_timers_run(&timers, 30), 3);
    CHECK_EQ(alarms[1].runs + alarms[3].runs + alarms[4].runs, 3);
    CHECK_EQ(kvl_timers_next(&timers), 40);
    CHECK_EQ(kvl_timers_run(&timers, 1000), 2);
    CHECK_EQ(kvl_timers_run(&timers, 1000), 0);
    kvl_timers_cleanup(&timers);
}

TEST(timer_set, moves_an_armed_timer)
{
    alarm_t a = {0}, b = {0};
    kvl_timers_t timers;

    setup(&timers);
    alarm_set(&timers, &a, 10);
    alarm_set(&timers, &b, 20);
    alarm_set(&timers, &a, 30);
    CHECK_EQ(kvl_timers_next(&timers), 20);
    alarm_set(&timers, &a, 5);
    CHECK_EQ(kvl_timers_next(&timers), 5);
    CHECK_EQ(kvl_timers_run(&timers, 100), 2);
    CHECK_EQ(a.runs, 1);
    kvl_timers_cleanup(&timers);
}

TEST(timer_set, works_inside_its_own_callback)
{
    alarm_t alarm = {.again_ns = 20};
    kvl_timers_t timers;

    setup(&timers);
    alarm_set(&timers, &alarm, 10);
    CHECK_EQ(kvl_timers_run(&timers, 15), 1);
    CHECK_EQ(kvl_timers_next(&timers), 20);
    alarm.again_ns = 0;
    CHECK_EQ(kvl_timers_run(&timers, 20), 1);
    CHECK_EQ(alarm.runs, 2);
    CHECK(!kvl_timer_armed(&alarm.timer));
    kvl_timers_cleanup(&timers);
}

TEST(timers_run, returns_although_a_timer_rearms_for_the_past)
{
    alarm_t alarm = {.again_ns = 10};
    kvl_timers_t timers;

    setup(&timers);
    alarm_set(&timers, &alarm, 10);
    CHECK_EQ(kvl_timers_run(&timers, 50), 1);
    CHECK(kvl_timer_armed(&alarm.timer));
    kvl_timers_cleanup(&timers);
    CHECK(!kvl_timer_armed(&alarm.timer));
}

TEST(timer_cancel, works_on_idle_timers_and_inside_callbacks)
{
    alarm_t a = {0}, b = {0};
    kvl_timers_t timers;

    setup(&timers);
    kvl_timer_cancel(&timers, &a.timer);
    a.other = &b.timer;
    alarm_set(&timers, &a, 10);
    alarm_set(&timers, &b, 11);
    CHECK_EQ(kvl_timers_run(&timers, 50), 1);
    CHECK_EQ(b.runs, 0);
    kvl_timers_cleanup(&timers);
}

TEST(timer_set, fails_without_memory_and_leaves_the_timer_idle)
{
    alarm_t alarm = {0};
    kvl_timers_t timers;

    setup(&timers);
    kvl_fault_setup("alloc:fail@1+", 0);
    CHECK_EQ(kvl_timer_set(&timers, &alarm.timer, 1, alarm_run), KVL_ERR_NO_MEMORY);
    CHECK_EQ(kvl_timers_reserve(&timers, 1), KVL_ERR_NO_MEMORY);
    kvl_fault_setup(NULL, 0);
    CHECK(!kvl_timer_armed(&alarm.timer));
    kvl_timers_cleanup(&timers);
}

TEST(timers_reserve, makes_room_so_that_arming_cannot_fail)
{
    static alarm_t alarms[100];
    kvl_timers_t timers;
    int i;

    setup(&timers);
    memset(alarms, 0, sizeof(alarms));
    for (i = 0; i < 100; i++) {
        CHECK_EQ(kvl_timers_reserve(&timers, 1), KVL_OK);
    }
    kvl_fault_setup("alloc:fail@1+", 0);
    for (i = 0; i < 100; i++) {
        alarm_set(&timers, &alarms[i], 100 - i);
    }
    kvl_fault_setup(NULL, 0);
    kvl_timers_unreserve(&timers, 100);
    CHECK_EQ(kvl_timers_run(&timers, 100), 100);
    kvl_timers_cleanup(&timers);
}

#define MODEL_TIMERS 40
#define MODEL_STEPS  5000

static uint32_t model_random;

static unsigned model_pick(unsigned below)
{
    model_random = model_random * 1664525u + 1013904223u;
    return (model_random >> 8) % below;
}

/* the earliest armed deadline, found by looking at all */
static int64_t model_next(const int64_t *at)
{
    int64_t next = KVL_TIME_MAX;
    int i;

    for (i = 0; i < MODEL_TIMERS; i++) {
        next = at[i] > 0 && at[i] < next ? at[i] : next;
    }
    return next;
}

static unsigned model_run(int64_t *at, int64_t now)
{
    unsigned i, due = 0;

    for (i = 0; i < MODEL_TIMERS; i++) {
        if (at[i] > 0 && at[i] <= now) {
            at[i] = 0;
            due++;
        }
    }
    return due;
}

TEST(timers_run, agrees_with_a_plain_model)
{
    static alarm_t alarms[MODEL_TIMERS];
    int64_t at[MODEL_TIMERS] = {0};
    kvl_timers_t timers;
    int64_t now = 1;
    int step;

    setup(&timers);
    memset(alarms, 0, sizeof(alarms));
    model_random = 1;
    for (step = 0; step < MODEL_STEPS; step++) {
        unsigned i = model_pick(MODEL_TIMERS), what = model_pick(8);

        if (what == 0) {
            last_run_ns = 0;
            now += model_pick(40);
            CHECK_EQ(kvl_timers_run(&timers, now), model_run(at, now));
        } else if (what < 3) {
            kvl_timer_cancel(&timers, &alarms[i].timer);
            at[i] = 0;
        } else {
            at[i] = now + 1 + model_pick(100);
            alarm_set(&timers, &alarms[i], at[i]);
        }
        CHECK_EQ(kvl_timers_next(&timers), model_next(at));
    }
    kvl_timers_cleanup(&timers);
}
