/* SPDX-License-Identifier: BSD-3-Clause */
/* Monotonic time, and timers: a pairing of deadline and callback that one thread runs. */
#ifndef KVL_BASE_CLOCK_H
#define KVL_BASE_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kvlane/status.h>

#define KVL_US       INT64_C(1000)
#define KVL_MS       INT64_C(1000000)
#define KVL_SECOND   INT64_C(1000000000)
#define KVL_TIME_MAX INT64_MAX

/* CLOCK_MONOTONIC in nanoseconds */
int64_t kvl_now_ns(void);

/* a + b for b >= 0 without overflow */
static inline int64_t kvl_time_add(int64_t a_ns, int64_t b_ns)
{
    return a_ns > KVL_TIME_MAX - b_ns ? KVL_TIME_MAX : a_ns + b_ns;
}

typedef struct kvl_timer kvl_timer_t;
typedef void (*kvl_timer_func_t)(kvl_timer_t *timer);

/* Owned by the caller, embedded in his object; zeroed memory is an idle timer. */
struct kvl_timer {
    int64_t at_ns;
    kvl_timer_func_t func;
    size_t slot; /* place in the heap + 1; 0: idle */
};

/* binary heap, engine thread only */
typedef struct {
    kvl_timer_t **heap;
    size_t count, capacity;
    size_t reserved; /* capacity never falls below */
} kvl_timers_t;

void kvl_timers_init(kvl_timers_t *timers);
void kvl_timers_cleanup(kvl_timers_t *timers); /* armed timers become idle */
/* Adds room for @a count more timers. An object reserves for its timers when it is created and
 * gives the room back when it is destroyed, so that arming in between cannot fail. */
kvl_status_t kvl_timers_reserve(kvl_timers_t *timers, size_t count);
void kvl_timers_unreserve(kvl_timers_t *timers, size_t count);
/* Arms, or moves an armed timer; also from inside a callback. Cannot fail within the reserved room;
 * beyond, it grows the heap, or returns KVL_ERR_NO_MEMORY and the timer is as before. */
kvl_status_t kvl_timer_set(kvl_timers_t *timers, kvl_timer_t *timer, int64_t at_ns,
                           kvl_timer_func_t func);
void kvl_timer_cancel(kvl_timers_t *timers, kvl_timer_t *timer); /* idle timers too */
static inline bool kvl_timer_armed(const kvl_timer_t *timer)
{
    return timer->slot != 0;
}
/* Runs what is due at @a now_ns, each after it was made idle; returns how many ran, at most as many
 * as were armed at the start. */
unsigned kvl_timers_run(kvl_timers_t *timers, int64_t now_ns);
/* the next deadline; KVL_TIME_MAX if none */
int64_t kvl_timers_next(const kvl_timers_t *timers);

#endif
