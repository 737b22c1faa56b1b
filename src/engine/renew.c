/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/error.h"
#include "base/log.h"
#include "engine/private.h"

#include <sys/epoll.h>

/* A stuck worker is replaced (watch.c says when). Contexts, registered memory and what a node stores stay.
 *
 *   renewing   links and servers see kvl_engine_is_renewing() in their pollers: they close every endpoint
 *              and open none
 *   renewed    once no endpoint is left on the stuck workers, or all are closed and RENEW_GRACE is over, each
 *              is replaced. That ends whatever UCX did not: it drops nothing that was meant for a dead
 *              peer's full queue in shared memory. A listener goes with its worker and comes back at the
 *              same address; peers connect again by themselves
 *   lost       that did not come to an end in RENEW_TIMEOUT: most likely only a new process helps, see
 *              kvl_engine_is_lost(); it is tried on all the same, as files or memory may be there again */

#define RENEW_TIMEOUT (15 * KVL_SECOND)
#define RENEW_GRACE   (100 * KVL_MS)
#define RENEW_AGAIN   (50 * KVL_MS) /* between two tries without memory, files, or the port */

void kvl_engine_renew(kvl_engine_t *engine)
{
    if (!engine->renewing) {
        engine->renewing          = true;
        engine->renew_began_ns = kvl_now_ns();
        engine->renew_next_ns     = 0;
    }
}

bool kvl_engine_is_renewing(const kvl_engine_t *engine)
{
    return engine->renewing;
}

bool kvl_engine_is_lost(kvl_engine_t *engine)
{
    return atomic_load(&engine->lost);
}

static bool worker_is_unused(const kvl_engine_t *engine, const kvl_worker_t *worker)
{
    return !kvl_worker_endpoints(worker) ||
           (!kvl_worker_open_endpoints(worker) &&
            engine->now_ns > kvl_time_add(engine->renew_began_ns, RENEW_GRACE));
}

static bool is_unused(const kvl_engine_t *engine)
{
    unsigned rail, lane;

    for (rail = 0; rail < engine->rail_count; rail++) {
        for (lane = 0; lane < KVL_LANE_COUNT; lane++) {
            if (engine->rails[rail].watch[lane].stuck &&
                !worker_is_unused(engine, engine->rails[rail].workers[lane])) {
                return false;
            }
        }
    }
    return true;
}

static kvl_status_t worker_replace(kvl_engine_t *engine, unsigned rail, unsigned lane)
{
    struct epoll_event event = {.events = EPOLLIN};
    kvl_worker_t **worker_p  = &engine->rails[rail].workers[lane];
    kvl_worker_t *worker;
    kvl_status_t status = kvl_engine_worker_create(engine, rail, lane, &worker);

    if (status != KVL_OK) {
        return status;
    }
    if (epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, kvl_worker_fd(worker), &event)) {
        kvl_worker_destroy(worker);
        return kvl_error(KVL_ERR_LIMIT, "engine: cannot watch a new worker's events");
    }
    if (engine->listener && rail == 0 && lane == KVL_LANE_CTRL) {
        kvl_engine_listen_stop(engine);
        engine->listen_func(NULL, 0, engine->listen_arg);
    }
    epoll_ctl(engine->epoll_fd, EPOLL_CTL_DEL, kvl_worker_fd(*worker_p), NULL);
    kvl_worker_destroy(*worker_p);
    *worker_p                        = worker;
    engine->rails[rail].watch[lane] = (kvl_watch_t){.heard = 0};
    return KVL_OK;
}

static kvl_status_t workers_replace(kvl_engine_t *engine)
{
    kvl_status_t status = KVL_OK;
    unsigned rail, lane;

    for (rail = 0; rail < engine->rail_count; rail++) {
        for (lane = 0; status == KVL_OK && lane < KVL_LANE_COUNT; lane++) {
            if (engine->rails[rail].watch[lane].stuck) {
                status = worker_replace(engine, rail, lane);
            }
        }
    }
    if (status == KVL_OK && engine->listen_func && !engine->listener) {
        status = kvl_engine_listen_again(engine);
    }
    return status;
}

unsigned kvl_engine_renew_step(kvl_engine_t *engine)
{
    int64_t now         = engine->now_ns;
    kvl_status_t status = KVL_INPROGRESS;

    if (now >= engine->renew_next_ns && is_unused(engine)) {
        status = workers_replace(engine);
    }
    if (status == KVL_OK) {
        engine->renewing = false;
        atomic_store(&engine->lost, false);
        kvl_info("engine: all lanes work again");
        return 1;
    }
    if (status != KVL_INPROGRESS) {
        engine->renew_next_ns = kvl_time_add(now, RENEW_AGAIN);
    }
    if (now > kvl_time_add(engine->renew_began_ns, RENEW_TIMEOUT) && !atomic_load(&engine->lost)) {
        kvl_error_log("engine: a stuck lane cannot be started anew (%s): only a new process helps",
                      status == KVL_INPROGRESS ? "its endpoints do not close" : kvl_error_text());
        atomic_store(&engine->lost, true);
        kvl_engine_notify(engine, false);
    }
    return 0;
}
