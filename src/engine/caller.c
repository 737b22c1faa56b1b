/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/private.h"

#include <sys/timerfd.h>
#include <unistd.h>

/* What the application does for the engine, or is told by it: KVLANE_PROGRESS=caller, turns in place of the
 * progress thread, and the event fd. */

static void caller_rearm(kvl_engine_t *engine)
{
    int64_t next = kvl_timers_next(&engine->timers);
    struct itimerspec spec = {{0, 0}, {0, 0}};

    if (next != KVL_TIME_MAX) {
        next                  = next > 0 ? next : 1;
        spec.it_value.tv_sec  = next / KVL_SECOND;
        spec.it_value.tv_nsec = next % KVL_SECOND;
    }
    timerfd_settime(engine->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

unsigned kvl_engine_progress(kvl_engine_t *engine)
{
    unsigned n;
    uint64_t count;
    ssize_t got;

    if (!engine || kvl_engine_is_inside(engine)) {
        return 0;
    }
    if (engine->has_thread) {
        return kvl_engine_look(engine);
    }
    kvl_engine_enter(engine);
    got = read(engine->wake_fd, &count, sizeof(count));
    (void)got;
    do {
        n = kvl_engine_work(engine);
    } while (!n && engine->timer_fd >= 0 && !kvl_engine_arm(engine));
    if (!n && engine->timer_fd >= 0) {
        atomic_store(&engine->sleeping, true); /* posts write the wake fd from now on */
        caller_rearm(engine);
    }
    kvl_engine_leave(engine);
    return n;
}

int kvl_engine_event_fd(kvl_engine_t *engine)
{
    if (!engine) {
        return -1;
    }
    atomic_store(&engine->event_used, true);
    return engine->timer_fd >= 0 ? engine->epoll_fd : engine->event_fd;
}

void kvl_engine_clear_event(kvl_engine_t *engine)
{
    uint64_t count;

    if (engine) {
        ssize_t n = read(engine->event_fd, &count, sizeof(count));

        (void)n;
    }
}
