/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "engine/engine.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "engine/private.h"
#include "wire/wire.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* Create and destroy, and what others ask of an engine. The loop is in loop.c, memory in region.c.
 * An engine outlives what is on it: kvl_engine_destroy() has the tenants close themselves first. */

static kvl_status_t engine_am(void *arg, const kvl_am_t *am)
{
    kvl_endpoint_t *endpoint = am->ep ? kvl_ep_arg(am->ep) : NULL;
    kvl_engine_t *engine     = arg;

    if (!endpoint) {
        return KVL_OK; /* out of a socket whose endpoint is gone: nobody wants it */
    }
    engine->rails[endpoint->rail].watch[endpoint->lane].heard += endpoint->shared_memory;
    return endpoint->ops->am(endpoint, am);
}

static kvl_status_t engine_fds(kvl_engine_t *engine)
{
    struct epoll_event event = {.events = EPOLLIN};
    unsigned rail, lane;

    engine->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    engine->wake_fd  = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    engine->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (engine->settings->progress == KVL_PROGRESS_CALLER) {
        engine->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    }
    if (engine->epoll_fd < 0 || engine->wake_fd < 0 || engine->event_fd < 0 ||
        epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, engine->wake_fd, &event)) {
        return kvl_error(KVL_ERR_LIMIT, "engine: no file descriptor left (%s); raise `ulimit -n`",
                         strerror(errno));
    }
    if (engine->settings->progress == KVL_PROGRESS_CALLER &&
        (engine->timer_fd < 0 ||
         epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, engine->timer_fd, &event) ||
         epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, engine->event_fd, &event))) {
        return kvl_error(KVL_ERR_LIMIT, "engine: no file descriptor left (%s); raise `ulimit -n`",
                         strerror(errno));
    }
    for (rail = 0; rail < engine->rail_count; rail++) {
        for (lane = 0; lane < KVL_LANE_COUNT; lane++) {
            int fd = kvl_worker_fd(engine->rails[rail].workers[lane]);

            if (epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, fd, &event)) {
                return kvl_error(KVL_ERR_RAIL, "engine: cannot watch a worker's events (%s)",
                                 strerror(errno));
            }
        }
    }
    return KVL_OK;
}

kvl_status_t kvl_engine_worker_create(kvl_engine_t *engine, unsigned rail, unsigned lane,
                                      kvl_worker_t **worker_p)
{
    kvl_worker_params_t params = {.client_id = KVL_CLIENT_ID(engine->nonce, rail, lane),
                                  .am_count  = KVL_AM_COUNT,
                                  .am        = engine_am,
                                  .arg       = engine,
                                  .timers    = &engine->timers,
                                  .endpoints = engine->settings->sg_endpoints};

    return kvl_worker_create(lane == KVL_LANE_CTRL ? engine->rails[rail].ctrl_context
                                                   : engine->rails[rail].context,
                             &params, worker_p);
}

static kvl_status_t engine_workers(kvl_engine_t *engine, unsigned rail)
{
    kvl_status_t status = KVL_OK;
    unsigned lane;

    for (lane = 0; status == KVL_OK && lane < KVL_LANE_COUNT; lane++) {
        status = kvl_engine_worker_create(engine, rail, lane, &engine->rails[rail].workers[lane]);
    }
    return status;
}

static kvl_status_t engine_rails(kvl_engine_t *engine, const char *address)
{
    kvl_status_t status = kvl_engine_rails_open(engine, address);
    unsigned rail;

    if (status == KVL_OK) {
        status = kvl_engine_may_pin(engine, 0, "engine: queues of RDMA");
    }
    for (rail = 0; status == KVL_OK && rail < engine->rail_count; rail++) {
        status = engine_workers(engine, rail);
    }
    return status;
}

/* client ids carry the nonce in their high 56 bits: it names this engine to its peers */
static kvl_status_t engine_nonce(uint64_t *nonce_p)
{
    uint64_t nonce = 0;

    while ((nonce & ~UINT64_C(0xff)) == 0) {
        if (getrandom(&nonce, sizeof(nonce), 0) != (ssize_t)sizeof(nonce)) {
            return kvl_error(KVL_ERR_UNSUPPORTED, "engine: no random numbers (%s)", strerror(errno));
        }
    }
    *nonce_p = nonce & ~UINT64_C(0xff);
    return KVL_OK;
}

/* UCX serves the connections of all its users in one thread of the process. A child of fork() has no such
 * thread while UCX believes that it has: an engine made there would wait for answers in vain. */
static _Atomic unsigned engines_open; /* made by this process, or inherited from the one that forked it */
static _Atomic pid_t engines_pid;

static kvl_status_t engines_allow(void)
{
    if (atomic_load(&engines_open) && atomic_load(&engines_pid) != getpid()) {
        return kvl_error(KVL_ERR_UNSUPPORTED,
                         "engine: this process was forked while process %d had an engine, and UCX does not work in "
                         "such a child; exec first, or fork before the first engine is made or after the last is "
                         "destroyed",
                         (int)atomic_load(&engines_pid));
    }
    return KVL_OK;
}

static void engine_cleanup(kvl_engine_t *engine)
{
    unsigned rail, lane;

    kvl_engine_device_close(engine);
    kvl_engine_release_regions(engine);
    for (rail = 0; rail < KVL_RAILS_MAX; rail++) {
        for (lane = 0; lane < KVL_LANE_COUNT; lane++) {
            if (engine->rails[rail].workers[lane]) {
                kvl_worker_destroy(engine->rails[rail].workers[lane]);
            }
        }
    }
    kvl_engine_rails_close(engine);
    if (engine->epoll_fd >= 0) {
        close(engine->epoll_fd);
    }
    if (engine->wake_fd >= 0) {
        close(engine->wake_fd);
    }
    if (engine->event_fd >= 0) {
        close(engine->event_fd);
    }
    if (engine->timer_fd >= 0) {
        close(engine->timer_fd);
    }
    kvl_timers_cleanup(&engine->timers);
    pthread_cond_destroy(&engine->changed);
    pthread_mutex_destroy(&engine->lock);
    pthread_mutex_destroy(&engine->region_lock);
    pthread_mutex_destroy(&engine->device_lock);
    kvl_config_destroy(engine->config);
    kvl_free(engine);
    atomic_fetch_sub(&engines_open, 1);
}

static void engine_init(kvl_engine_t *engine)
{
    pthread_condattr_t attr;

    atomic_store(&engines_pid, getpid());
    atomic_fetch_add(&engines_open, 1);
    engine->epoll_fd = engine->wake_fd = engine->event_fd = engine->timer_fd = -1;
    kvl_timers_init(&engine->timers);
    kvl_list_init(&engine->pollers);
    kvl_list_init(&engine->printers);
    kvl_list_init(&engine->tenants);
    kvl_list_init(&engine->regions);
    kvl_inbox_init(&engine->inbox);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&engine->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&engine->lock, NULL);
    pthread_mutex_init(&engine->region_lock, NULL);
    pthread_mutex_init(&engine->device_lock, NULL);
    engine->now_ns = kvl_now_ns();
    engine->pid    = getpid();
    engine->numa_node = -1;
}

kvl_status_t kvl_engine_create(const kvl_engine_params_t *params, kvl_engine_t **engine_p)
{
    kvl_engine_t *engine;
    kvl_status_t status;

    if (!engine_p) {
        return kvl_error(KVL_ERR_INVALID, "engine: engine_p is NULL");
    }
    status = kvl_ucx_check();
    if (status == KVL_OK) {
        status = engines_allow();
    }
    if (status != KVL_OK) {
        return status;
    }
    engine = kvl_calloc(1, sizeof(*engine));
    if (!engine) {
        return kvl_error(KVL_ERR_NO_MEMORY, "engine: out of memory");
    }
    engine_init(engine);
    status = kvl_config_copy(params ? params->config : NULL, &engine->config);
    if (status == KVL_OK) {
        engine->settings = kvl_config_settings(engine->config);
        kvl_config_apply_process(engine->config);
        status = kvl_device_library(engine->settings->cuda_library);
    }
    if (status == KVL_OK) {
        status = engine_nonce(&engine->nonce);
        engine->last_region_id = (uint32_t)(engine->nonce >> 32);
    }
    if (status == KVL_OK) {
        status = engine_rails(engine, params ? params->address : NULL);
    }
    if (status == KVL_OK) {
        status = engine_fds(engine);
    }
    if (status == KVL_OK) {
        kvl_engine_watch(engine);
    }
    if (status == KVL_OK && engine->settings->progress == KVL_PROGRESS_THREAD) {
        status = kvl_engine_thread_start(engine);
    }
    if (status != KVL_OK) {
        engine_cleanup(engine);
        return status;
    }
    *engine_p = engine;
    return KVL_OK;
}

static kvl_tenant_t *engine_tenant(kvl_engine_t *engine)
{
    kvl_tenant_t *tenant = NULL;

    kvl_engine_enter(engine);
    if (!kvl_list_empty(&engine->tenants)) {
        tenant = kvl_container(engine->tenants.next, kvl_tenant_t, link);
    }
    kvl_engine_leave(engine);
    return tenant;
}

void kvl_engine_destroy(kvl_engine_t *engine)
{
    kvl_tenant_t *tenant;

    if (!engine || !kvl_engine_may_end(engine, "kvl_engine_destroy")) {
        return;
    }
    while ((tenant = engine_tenant(engine)) != NULL) {
        kvl_info("engine: destroyed while a %s is open on it, which is closed", tenant->name);
        tenant->close(tenant);
    }
    kvl_engine_thread_stop(engine);
    engine_cleanup(engine);
}

const char *kvl_version(void)
{
    return PACKAGE_VERSION;
}

const kvl_settings_t *kvl_engine_settings(const kvl_engine_t *engine)
{
    return engine->settings;
}

const kvl_config_t *kvl_engine_config(const kvl_engine_t *engine)
{
    return engine->config;
}

kvl_timers_t *kvl_engine_timers(kvl_engine_t *engine)
{
    return &engine->timers;
}

uint64_t kvl_engine_nonce(const kvl_engine_t *engine)
{
    return engine->nonce;
}

unsigned kvl_engine_rails(const kvl_engine_t *engine)
{
    return engine->rail_count;
}

kvl_context_t *kvl_engine_context(kvl_engine_t *engine, unsigned rail)
{
    return engine->rails[rail].context;
}

kvl_worker_t *kvl_engine_worker(kvl_engine_t *engine, unsigned rail, kvl_lane_kind_t lane)
{
    return engine->rails[rail].workers[lane];
}

int64_t kvl_engine_now(const kvl_engine_t *engine)
{
    return engine->now_ns;
}

void kvl_engine_add_poller(kvl_engine_t *engine, kvl_poller_t *poller)
{
    kvl_list_push_back(&engine->pollers, &poller->link);
}

void kvl_engine_remove_poller(kvl_engine_t *engine, kvl_poller_t *poller)
{
    if (engine->next_poller == &poller->link) {
        engine->next_poller = poller->link.next;
    }
    kvl_list_remove(&poller->link);
}

void kvl_engine_add_tenant(kvl_engine_t *engine, kvl_tenant_t *tenant)
{
    kvl_list_push_back(&engine->tenants, &tenant->link);
}

void kvl_engine_remove_tenant(kvl_engine_t *engine, kvl_tenant_t *tenant)
{
    (void)engine;
    kvl_list_remove(&tenant->link);
}

void kvl_engine_add_printer(kvl_engine_t *engine, kvl_printer_t *printer)
{
    kvl_list_push_back(&engine->printers, &printer->link);
}

void kvl_engine_remove_printer(kvl_engine_t *engine, kvl_printer_t *printer)
{
    (void)engine;
    kvl_list_remove(&printer->link);
}

static void engine_print_text(kvl_engine_t *engine, FILE *stream)
{
    fprintf(stream, "engine\n  ucx          %s (%s)\n  rails        %u\n  workers      %u (one per "
                    "lane and rail: ctrl, data, sg)\n",
            kvl_ucx_version(), kvl_ucx_path(), engine->rail_count,
            engine->rail_count * KVL_LANE_COUNT);
    kvl_engine_rails_print(engine, stream, 0);
    kvl_engine_devices_print(engine, stream, 0);
}

void kvl_engine_print(kvl_engine_t *engine, FILE *stream, int json)
{
    kvl_list_t *node;

    if (!engine || !stream) {
        return;
    }
    kvl_engine_enter(engine);
    if (json) {
        fprintf(stream, "{\"rails\": %u, \"workers\": %u, ", engine->rail_count,
                engine->rail_count * KVL_LANE_COUNT);
        kvl_engine_rails_print(engine, stream, json);
        fprintf(stream, "\"devices\": [");
        kvl_engine_devices_print(engine, stream, json);
        fprintf(stream, "], \"parts\": [");
    } else {
        engine_print_text(engine, stream);
    }
    for (node = engine->printers.next; node != &engine->printers; node = node->next) {
        kvl_printer_t *printer = kvl_container(node, kvl_printer_t, link);

        printer->func(printer, stream, json);
        if (json && node->next != &engine->printers) {
            fprintf(stream, ", ");
        }
    }
    if (json) {
        fprintf(stream, "]}\n");
    }
    kvl_engine_leave(engine);
}
