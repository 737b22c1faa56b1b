/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/error.h"
#include "base/log.h"
#include "engine/private.h"

/* Senders share one queue in a receiver's shared memory. One that is killed between taking its place in
 * it and filling it leaves a hole that UCX waits for without end: the worker says that there is work
 * (arming is refused), and progress does none. Nobody gets through on that lane any more. It cannot be
 * mended from outside of UCX, but it must not go unseen: the engine is lost, its owner is told, and
 * kvlaned ends so that its supervisor starts it again. */

#define WATCH_PAUSE  KVL_SECOND
#define WATCH_ROUNDS 5 /* pauses without any progress while there is work */

static void worker_look(kvl_engine_t *engine, kvl_rail_t *rail, unsigned lane)
{
    kvl_watch_t *watch = &rail->watch[lane];

    if (watch->events != watch->seen || kvl_worker_arm(rail->workers[lane]) == KVL_OK) {
        watch->seen   = watch->events;
        watch->rounds = 0;
        return;
    }
    if (++watch->rounds != WATCH_ROUNDS) {
        return;
    }
    kvl_error_log("engine: lane %s: its queue in shared memory is stuck: a peer was killed while it wrote "
                  "into it; nothing gets through until this process starts again",
                  kvl_lane_name((kvl_lane_kind_t)lane));
    atomic_store(&engine->lost, true);
    kvl_engine_notify(engine, false);
}

static void watch_due(kvl_timer_t *timer)
{
    kvl_engine_t *engine = kvl_container(timer, kvl_engine_t, watch_timer);
    unsigned rail, lane;

    for (rail = 0; rail < engine->rail_count; rail++) {
        for (lane = 0; lane < KVL_LANE_COUNT; lane++) {
            worker_look(engine, &engine->rails[rail], lane);
        }
    }
    kvl_engine_watch(engine);
}

void kvl_engine_watch(kvl_engine_t *engine)
{
    (void)kvl_timer_set(&engine->timers, &engine->watch_timer,
                        kvl_time_add(kvl_now_ns(), WATCH_PAUSE), watch_due);
}

bool kvl_engine_is_lost(kvl_engine_t *engine)
{
    return atomic_load(&engine->lost);
}
