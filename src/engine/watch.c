/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/error.h"
#include "base/log.h"
#include "engine/private.h"

/* Senders share one queue in a receiver's shared memory. One that is stopped or killed between taking
 * its place in it and filling it leaves a hole, and UCX reads nothing behind a hole: the worker says
 * that there is work (arming is refused), and progress does none. Nobody gets through on that lane until
 * the sender goes on, which a dead one never does. So each lane is looked at now and then: one that says
 * for a whole second that there is work, does none, and neither sends nor hears anything is stuck, and gets
 * a new worker (renew.c). The same is seen when a peer died whose queue was full: UCX tries for ever to end
 * what was meant for it, also when its endpoint is closed. */

#define WATCH_PAUSE  KVL_SECOND     /* nothing is suspected */
#define WATCH_AGAIN  (100 * KVL_MS) /* something is */
#define WATCH_ROUNDS 10
#define WATCH_DRAIN  256 /* what is there is done first; this often */
#define WATCH_ARMS   8   /* arming is refused for each event of connections and timers too, but once */

static bool worker_arms(kvl_worker_t *worker)
{
    unsigned i;

    for (i = 0; i < WATCH_ARMS; i++) {
        if (kvl_worker_arm(worker) == KVL_OK) {
            return true;
        }
    }
    return false;
}

/* Nothing to do and yet not free to sleep? So is one with something to send to a peer that does not read:
 * that is the peer's trouble. */
static bool worker_is_suspect(kvl_worker_t *worker)
{
    unsigned i;

    for (i = 0; i < WATCH_DRAIN; i++) {
        if (!kvl_worker_progress(worker)) {
            return !worker_arms(worker) && !kvl_worker_sends(worker);
        }
    }
    return false;
}

/* true if it is suspect, or stuck */
static bool worker_look(kvl_engine_t *engine, kvl_engine_rail_t *rail, unsigned lane)
{
    kvl_watch_t *watch = &rail->watch[lane];

    if (watch->stuck) {
        return true;
    }
    if (!worker_is_suspect(rail->workers[lane]) || watch->heard != watch->seen) {
        watch->seen   = watch->heard;
        watch->rounds = 0;
        return false;
    }
    if (++watch->rounds > WATCH_ROUNDS) {
        kvl_warn("engine: lane %s: stuck: a peer was killed or stopped in the middle of messages over "
                 "shared memory; the lane starts anew",
                 kvl_lane_name((kvl_lane_kind_t)lane));
        watch->stuck = true;
        kvl_engine_renew(engine);
    }
    return true;
}

static void watch_due(kvl_timer_t *timer)
{
    kvl_engine_t *engine = kvl_container(timer, kvl_engine_t, watch_timer);
    unsigned rail, lane;
    bool suspect = false;

    for (rail = 0; rail < engine->rail_count; rail++) {
        for (lane = 0; lane < KVL_LANE_COUNT; lane++) {
            suspect |= worker_look(engine, &engine->rails[rail], lane);
        }
    }
    if (engine->listener) {
        kvl_ucx_listener_sweep(engine->listener);
    }
    (void)kvl_timer_set(&engine->timers, &engine->watch_timer,
                        kvl_time_add(kvl_now_ns(), suspect ? WATCH_AGAIN : WATCH_PAUSE), watch_due);
}

void kvl_engine_watch(kvl_engine_t *engine)
{
    (void)kvl_timer_set(&engine->timers, &engine->watch_timer,
                        kvl_time_add(kvl_now_ns(), WATCH_PAUSE), watch_due);
}
