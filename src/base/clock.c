/* SPDX-License-Identifier: BSD-3-Clause */
/* Timers: a binary heap of pointers, the earliest deadline at 0. A timer knows its place (slot - 1),
 * so that cancel and move need no search. The engine thread owns all of it; a callback finds its
 * timer idle and may set, cancel or free any timer, its own too. */
#include "base/clock.h"

#include "base/alloc.h"
#include "base/error.h"

#include <assert.h>
#include <string.h>
#include <time.h>

#define TIMERS_FIRST_CAPACITY 16

int64_t kvl_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * KVL_SECOND + now.tv_nsec;
}

static void timers_place(kvl_timers_t *timers, size_t at, kvl_timer_t *timer)
{
    timers->heap[at] = timer;
    timer->slot      = at + 1;
}

/* moves @a timer, which belongs at @a at or above, to its place */
static void timers_up(kvl_timers_t *timers, size_t at, kvl_timer_t *timer)
{
    while (at > 0) {
        size_t parent = (at - 1) / 2;

        if (timers->heap[parent]->at_ns <= timer->at_ns) {
            break;
        }
        timers_place(timers, at, timers->heap[parent]);
        at = parent;
    }
    timers_place(timers, at, timer);
}

/* moves @a timer, which belongs at @a at or below, to its place */
static void timers_down(kvl_timers_t *timers, size_t at, kvl_timer_t *timer)
{
    for (;;) {
        size_t child = 2 * at + 1;

        if (child >= timers->count) {
            break;
        }
        if (child + 1 < timers->count &&
            timers->heap[child + 1]->at_ns < timers->heap[child]->at_ns) {
            child++;
        }
        if (timer->at_ns <= timers->heap[child]->at_ns) {
            break;
        }
        timers_place(timers, at, timers->heap[child]);
        at = child;
    }
    timers_place(timers, at, timer);
}

static void timers_sift(kvl_timers_t *timers, size_t at, kvl_timer_t *timer)
{
    timers_up(timers, at, timer);
    timers_down(timers, timer->slot - 1, timer);
}

static kvl_status_t timers_grow(kvl_timers_t *timers, size_t capacity)
{
    kvl_timer_t **heap;

    if (capacity <= timers->capacity) {
        return KVL_OK;
    }
    if (capacity < 2 * timers->capacity) {
        capacity = 2 * timers->capacity;
    }
    if (capacity < TIMERS_FIRST_CAPACITY) {
        capacity = TIMERS_FIRST_CAPACITY;
    }
    heap = kvl_realloc(timers->heap, capacity * sizeof(*heap));
    if (!heap) {
        return kvl_error(KVL_ERR_NO_MEMORY, "timers: no memory for %zu timers", capacity);
    }
    timers->heap     = heap;
    timers->capacity = capacity;
    return KVL_OK;
}

void kvl_timers_init(kvl_timers_t *timers)
{
    memset(timers, 0, sizeof(*timers));
}

void kvl_timers_cleanup(kvl_timers_t *timers)
{
    size_t i;

    for (i = 0; i < timers->count; i++) {
        timers->heap[i]->slot = 0;
    }
    kvl_free(timers->heap);
    kvl_timers_init(timers);
}

kvl_status_t kvl_timers_reserve(kvl_timers_t *timers, size_t count)
{
    kvl_status_t st = timers_grow(timers, timers->count + timers->reserved + count);

    if (st == KVL_OK) {
        timers->reserved += count;
    }
    return st;
}

void kvl_timers_unreserve(kvl_timers_t *timers, size_t count)
{
    assert(timers->reserved >= count);
    timers->reserved -= count;
}

kvl_status_t kvl_timer_set(kvl_timers_t *timers, kvl_timer_t *timer, int64_t at_ns,
                           kvl_timer_func_t func)
{
    if (!kvl_timer_armed(timer)) {
        /* not into the room of those that reserved, as long as there is memory */
        kvl_status_t st = timers_grow(timers, timers->count + 1 + timers->reserved);

        if (st != KVL_OK && timers->count == timers->capacity) {
            return st;
        }
        timers_place(timers, timers->count++, timer);
    }
    timer->at_ns = at_ns;
    timer->func  = func;
    timers_sift(timers, timer->slot - 1, timer);
    return KVL_OK;
}

void kvl_timer_cancel(kvl_timers_t *timers, kvl_timer_t *timer)
{
    size_t at = timer->slot - 1;
    kvl_timer_t *last;

    if (!kvl_timer_armed(timer)) {
        return;
    }
    assert(timers->heap[at] == timer);
    last        = timers->heap[--timers->count];
    timer->slot = 0;
    if (last != timer) {
        timers_sift(timers, at, last);
    }
}

unsigned kvl_timers_run(kvl_timers_t *timers, int64_t now_ns)
{
    /* a callback that arms itself for the past must not keep us here for ever */
    size_t most  = timers->count;
    unsigned ran = 0;

    while (ran < most && timers->count > 0 && timers->heap[0]->at_ns <= now_ns) {
        kvl_timer_t *timer = timers->heap[0];

        kvl_timer_cancel(timers, timer);
        ran++;
        timer->func(timer);
    }
    return ran;
}

int64_t kvl_timers_next(const kvl_timers_t *timers)
{
    return timers->count > 0 ? timers->heap[0]->at_ns : KVL_TIME_MAX;
}
