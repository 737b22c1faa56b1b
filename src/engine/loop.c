/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "engine/private.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Who drives the engine, and how one turn goes.
 *
 * The token (owned, owner) says who is in. Three kinds of threads take it:
 * - the progress thread, which keeps it while nobody else wants it, also while it sleeps in epoll;
 * - a guest in kvl_engine_wait(), which drives the engine itself until its flag is set. Meanwhile
 *   the progress thread parks. It looks a millisecond later whether guests still come; so a caller
 *   that submits and waits in a loop hardly ever pays for waking it. Who calls kvl_engine_progress() in a
 *   loop is such a guest too, for one turn each time;
 * - anybody for a moment (kvl_engine_enter): whoever drives gives way between two turns. Who comes gives way
 *   in his turn when the last one is TURN_NS old: else many who look often would stop the engine.
 * Lost wake-ups: a sleeper sets `sleeping`, then looks at inbox and `wanting` once more; the others
 * write first and look at `sleeping` after. Both orders are sequentially consistent. */

#define PARK_NS   KVL_MS
#define SLEEP_MAX KVL_SECOND
#define TURN_NS   (5 * KVL_MS)
#define LOOK_NS   (KVL_MS / 5) /* who looks twice in this time means to go on */
#define YIELD_NS  KVL_MS /* who gives way looks again, ... */
#define YIELD_MAX 100    /* ... so often at most */

static uintptr_t self_id(void)
{
    static _Thread_local char mark;

    return (uintptr_t)&mark;
}

void kvl_engine_wake(kvl_engine_t *engine)
{
    uint64_t one = 1;

    if (atomic_load(&engine->sleeping)) {
        ssize_t n = write(engine->wake_fd, &one, sizeof(one));

        (void)n; /* a full counter is readable too */
    }
}

void kvl_engine_post(kvl_engine_t *engine, kvl_work_t *work)
{
    kvl_inbox_push(&engine->inbox, &work->node);
    atomic_thread_fence(memory_order_seq_cst);
    kvl_engine_wake(engine);
}

bool kvl_engine_is_inside(kvl_engine_t *engine)
{
    return atomic_load_explicit(&engine->owner, memory_order_relaxed) == self_id();
}

/* under lock */
static void token_take(kvl_engine_t *engine)
{
    engine->owned = true;
    atomic_store_explicit(&engine->owner, self_id(), memory_order_relaxed);
}

static void token_drop(kvl_engine_t *engine)
{
    atomic_store_explicit(&engine->owner, 0, memory_order_relaxed);
    engine->owned = false;
    if (atomic_load(&engine->wanting) || atomic_load(&engine->sleepers) || engine->parked) {
        pthread_cond_broadcast(&engine->changed);
    }
}

/* under lock: is a turn due that somebody can do? Never asked for by who turns. */
static bool turn_is_due(const kvl_engine_t *engine)
{
    return (engine->guests || (engine->has_thread && !atomic_load(&engine->stop))) &&
           kvl_now_ns() - atomic_load_explicit(&engine->turned_ns, memory_order_relaxed) > TURN_NS;
}

/* under lock: lets go of it until the next change, or a moment later */
static void changed_wait(kvl_engine_t *engine, int64_t ns)
{
    int64_t at            = kvl_time_add(kvl_now_ns(), ns);
    struct timespec until = {.tv_sec = at / KVL_SECOND, .tv_nsec = at % KVL_SECOND};

    pthread_cond_timedwait(&engine->changed, &engine->lock, &until);
}

void kvl_engine_enter(kvl_engine_t *engine)
{
    unsigned yields = 0;

    if (kvl_engine_is_inside(engine)) {
        engine->inside_depth++;
        return;
    }
    pthread_mutex_lock(&engine->lock);
    atomic_fetch_add(&engine->wanting, 1);
    while (engine->owned || (yields < YIELD_MAX && turn_is_due(engine))) {
        if (engine->owned) {
            kvl_engine_wake(engine);
            pthread_cond_wait(&engine->changed, &engine->lock);
        } else {
            yields++;
            pthread_cond_broadcast(&engine->changed);
            changed_wait(engine, YIELD_NS);
        }
    }
    atomic_fetch_sub(&engine->wanting, 1);
    token_take(engine);
    pthread_mutex_unlock(&engine->lock);
    engine->now_ns = kvl_now_ns();
}

void kvl_engine_leave(kvl_engine_t *engine)
{
    if (engine->inside_depth) {
        engine->inside_depth--;
        return;
    }
    pthread_mutex_lock(&engine->lock);
    token_drop(engine);
    pthread_mutex_unlock(&engine->lock);
}

kvl_status_t kvl_engine_may_wait(kvl_engine_t *engine, const char *call)
{
    if (engine->pid != getpid()) {
        return kvl_error(KVL_ERR_INVALID, "%s: its engine is the parent's, of no use in a child of fork()",
                         call);
    }
    if (kvl_engine_is_inside(engine)) {
        return kvl_error(KVL_ERR_INVALID, "%s: it waits, so it can't be called from a callback", call);
    }
    return KVL_OK;
}

bool kvl_engine_may_end(kvl_engine_t *engine, const char *call)
{
    if (kvl_engine_may_wait(engine, call) != KVL_OK) {
        kvl_error_log("%s; nothing is done", kvl_error_text());
        return false;
    }
    return true;
}

bool kvl_engine_is_foreign(kvl_engine_t *engine, const char *call)
{
    if (engine->pid != getpid()) {
        kvl_error_log("%s: its engine is the parent's; nothing is done", call);
        return true;
    }
    return false;
}

static unsigned engine_inbox(kvl_engine_t *engine)
{
    kvl_inbox_node_t *node;
    unsigned n = 0;

    if (kvl_inbox_empty(&engine->inbox)) {
        return 0;
    }
    node = kvl_inbox_take(&engine->inbox);
    while (node) {
        kvl_work_t *work = kvl_container(node, kvl_work_t, node);

        node = node->next; /* the work may free itself */
        work->func(work);
        n++;
    }
    return n;
}

/* ctrl goes first and in between: a bulk message must not delay a lookup by more than itself */
static unsigned engine_workers(kvl_engine_t *engine)
{
    unsigned i, n = 0;

    for (i = 0; i < engine->rail_count; i++) {
        kvl_worker_t **workers = engine->rails[i].workers;

        n += kvl_worker_progress(workers[KVL_LANE_CTRL]);
        n += kvl_worker_progress(workers[KVL_LANE_DATA]);
        n += kvl_worker_progress(workers[KVL_LANE_CTRL]);
        n += kvl_worker_progress(workers[KVL_LANE_SG]);
    }
    return n;
}

static unsigned engine_pollers(kvl_engine_t *engine)
{
    kvl_list_t *node = engine->pollers.next;
    unsigned n = 0;

    /* a poller may remove itself and others meanwhile: kvl_engine_remove_poller() moves next_poller */
    for (; node != &engine->pollers; node = engine->next_poller) {
        kvl_poller_t *poller = kvl_container(node, kvl_poller_t, link);

        engine->next_poller = node->next;
        n += poller->func(poller);
    }
    engine->next_poller = NULL;
    return n;
}

/* true: sleeping is safe; false: something is there to do */
bool kvl_engine_arm(kvl_engine_t *engine)
{
    unsigned rail, lane;

    for (rail = 0; rail < engine->rail_count; rail++) {
        for (lane = 0; lane < KVL_LANE_COUNT; lane++) {
            if (kvl_worker_arm(engine->rails[rail].workers[lane]) != KVL_OK) {
                return false;
            }
        }
    }
    return true;
}

static void engine_epoll(kvl_engine_t *engine, int64_t timeout_ns)
{
    struct epoll_event events[8];
    struct timespec timeout = {.tv_sec = timeout_ns / KVL_SECOND, .tv_nsec = timeout_ns % KVL_SECOND};
    uint64_t count;
    ssize_t n;

    epoll_pwait2(engine->epoll_fd, events, 8, &timeout, NULL);
    n = read(engine->wake_fd, &count, sizeof(count));
    (void)n;
}

static void engine_sleep(kvl_engine_t *engine, int64_t until_ns)
{
    int64_t next = kvl_timers_next(&engine->timers);

    next = next < until_ns ? next : until_ns;
    if (next <= engine->now_ns || !kvl_engine_arm(engine)) {
        return;
    }
    next = next - engine->now_ns < SLEEP_MAX ? next - engine->now_ns : SLEEP_MAX;
    atomic_store(&engine->sleeping, true);
    if (kvl_inbox_empty(&engine->inbox) && !atomic_load(&engine->wanting) &&
        !atomic_load(&engine->stop) &&
        !(engine->thread_drives && (atomic_load(&engine->sleepers) || atomic_load(&engine->asked)))) {
        engine_epoll(engine, next);
        atomic_store_explicit(&engine->turned_ns, kvl_now_ns(), memory_order_relaxed);
    }
    atomic_store(&engine->sleeping, false);
    engine->idle_since_ns = 0;
}

unsigned kvl_engine_work(kvl_engine_t *engine)
{
    kvl_device_t *device = atomic_load_explicit(&engine->device, memory_order_acquire);
    unsigned n;

    kvl_device_enter(device); /* for UCX */
    engine->now_ns = kvl_now_ns();
    atomic_store_explicit(&engine->turned_ns, engine->now_ns, memory_order_relaxed);
    n = engine_inbox(engine);
    n += engine_workers(engine);
    n += kvl_timers_run(&engine->timers, engine->now_ns);
    n += engine_pollers(engine);
    n += engine->renewing ? kvl_engine_renew_step(engine) : 0;
    kvl_device_leave(device);
    return n;
}

void kvl_engine_turn(kvl_engine_t *engine, bool may_sleep, int64_t until_ns)
{
    if (kvl_engine_work(engine)) {
        engine->idle_since_ns = 0;
        return;
    }
    if (!may_sleep) {
        return;
    }
    engine->idle_since_ns = engine->idle_since_ns ? engine->idle_since_ns : engine->now_ns;
    if (engine->now_ns - engine->idle_since_ns < engine->settings->spin_ns) {
        sched_yield();
        return;
    }
    engine_sleep(engine, until_ns);
}

/* ---- guests ---- */

/* Drives until the flag is set, time is over, or somebody wants in. Holds the token, not the lock. */
static void guest_drive(kvl_engine_t *engine, _Atomic int *flag, int64_t until_ns)
{
    engine->idle_since_ns = 0;
    do {
        kvl_engine_turn(engine, true, until_ns);
    } while (!atomic_load_explicit(flag, memory_order_acquire) && !atomic_load(&engine->wanting) &&
             engine->now_ns < until_ns);
}

/* under lock: the token is somebody else's; sleep until something changes. Asks the progress
 * thread, if it is the one, to give way. */
static void guest_sleep(kvl_engine_t *engine, _Atomic int *flag, int64_t until_ns)
{
    struct timespec until = {.tv_sec = until_ns / KVL_SECOND, .tv_nsec = until_ns % KVL_SECOND};

    atomic_fetch_add(&engine->sleepers, 1);
    kvl_engine_wake(engine);
    if (!atomic_load(flag)) { /* who sets it looks at sleepers afterwards (kvl_engine_notify) */
        pthread_cond_timedwait(&engine->changed, &engine->lock, &until);
    }
    atomic_fetch_sub(&engine->sleepers, 1);
}

bool kvl_engine_wait(kvl_engine_t *engine, _Atomic int *flag, int64_t until_ns)
{
    bool inside = kvl_engine_is_inside(engine);

    if (atomic_load_explicit(flag, memory_order_acquire) || inside) {
        return atomic_load_explicit(flag, memory_order_acquire); /* inside a callback: cannot wait */
    }
    pthread_mutex_lock(&engine->lock);
    engine->guests++;
    while (!atomic_load_explicit(flag, memory_order_acquire) && kvl_now_ns() < until_ns) {
        if (engine->owned || (atomic_load(&engine->wanting) && !turn_is_due(engine))) {
            guest_sleep(engine, flag, until_ns);
            continue;
        }
        token_take(engine);
        pthread_mutex_unlock(&engine->lock);
        guest_drive(engine, flag, until_ns);
        pthread_mutex_lock(&engine->lock);
        token_drop(engine);
    }
    engine->guests--;
    engine->visits++;
    if (engine->parked) {
        pthread_cond_broadcast(&engine->changed);
    }
    pthread_mutex_unlock(&engine->lock);
    return atomic_load_explicit(flag, memory_order_acquire);
}

void kvl_engine_notify(kvl_engine_t *engine, bool event_fd)
{
    uint64_t one = 1;

    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&engine->sleepers)) {
        pthread_mutex_lock(&engine->lock);
        pthread_cond_broadcast(&engine->changed);
        pthread_mutex_unlock(&engine->lock);
    }
    if (event_fd && atomic_load_explicit(&engine->event_used, memory_order_relaxed)) {
        ssize_t n = write(engine->event_fd, &one, sizeof(one));

        (void)n; /* a full counter is readable too */
    }
}

unsigned kvl_engine_look(kvl_engine_t *engine)
{
    int64_t now_ns = kvl_now_ns();
    unsigned n     = 0;

    if (now_ns - atomic_exchange(&engine->looked_ns, now_ns) > LOOK_NS) {
        return 0; /* seldom: the thread does it better */
    }
    pthread_mutex_lock(&engine->lock);
    engine->visits++;
    if (engine->owned || atomic_load(&engine->wanting)) {
        atomic_store(&engine->asked, true);
        kvl_engine_wake(engine);
        pthread_mutex_unlock(&engine->lock);
        return 0;
    }
    token_take(engine);
    pthread_mutex_unlock(&engine->lock);
    n = kvl_engine_work(engine);
    pthread_mutex_lock(&engine->lock);
    token_drop(engine);
    pthread_mutex_unlock(&engine->lock);
    return n;
}

/* ---- the progress thread ---- */

/* Somebody drives, or is about to. */
static bool thread_is_spare(const kvl_engine_t *engine)
{
    return engine->owned || engine->guests || (atomic_load(&engine->wanting) && !turn_is_due(engine));
}

/* under lock: waits until no guest came for a while; work in the inbox ends it at once. Who drives for
 * long is not looked at every PARK_NS: he says when he leaves (parked). */
static void thread_park(kvl_engine_t *engine)
{
    unsigned visits;

    do {
        visits = engine->visits;
        changed_wait(engine, PARK_NS);
        if (engine->visits == visits && thread_is_spare(engine) && !atomic_load(&engine->stop)) {
            engine->parked = true;
            pthread_cond_wait(&engine->changed, &engine->lock);
            engine->parked = false;
        }
    } while (!atomic_load(&engine->stop) &&
             (thread_is_spare(engine) || (engine->visits != visits && kvl_inbox_empty(&engine->inbox))));
}

static void *thread_main(void *arg)
{
    kvl_engine_t *engine = arg;

    pthread_mutex_lock(&engine->lock);
    while (!atomic_load(&engine->stop)) {
        if (thread_is_spare(engine)) {
            thread_park(engine);
            continue;
        }
        token_take(engine);
        pthread_mutex_unlock(&engine->lock);
        engine->thread_drives = true;
        do {
            kvl_engine_turn(engine, true, KVL_TIME_MAX);
        } while (!atomic_load(&engine->stop) && !atomic_load(&engine->wanting) &&
                 !atomic_load(&engine->sleepers) && !atomic_load(&engine->asked));
        engine->thread_drives = false;
        pthread_mutex_lock(&engine->lock);
        token_drop(engine);
        if (atomic_exchange(&engine->asked, false)) {
            thread_park(engine);
        }
    }
    pthread_mutex_unlock(&engine->lock);
    return NULL;
}

kvl_status_t kvl_engine_thread_start(kvl_engine_t *engine)
{
    int error;

    engine->has_thread = true; /* the thread reads it */
    error              = pthread_create(&engine->thread, NULL, thread_main, engine);
    if (error) {
        engine->has_thread = false;
        return kvl_error(KVL_ERR_LIMIT, "engine: cannot start its thread (%s)", strerror(error));
    }
    return KVL_OK;
}

void kvl_engine_thread_stop(kvl_engine_t *engine)
{
    if (!engine->has_thread) {
        return;
    }
    atomic_store(&engine->stop, true);
    kvl_engine_wake(engine);
    pthread_mutex_lock(&engine->lock);
    pthread_cond_broadcast(&engine->changed);
    pthread_mutex_unlock(&engine->lock);
    pthread_join(engine->thread, NULL);
    engine->has_thread = false;
}
