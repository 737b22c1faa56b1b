/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/job.h"

#include "base/alloc.h"
#include "base/error.h"

#include <string.h>

/* The cache object: its life, and calls that wait. Batches are in submit.c and conductor.c.
 * Teardown: close (no new batches, those under way are canceled), drain (until none is open), then
 * the link says goodbye and closes, then everything is freed. */

static void cache_free_pools(kvl_cache_t *cache)
{
    kvl_list_t *node;

    while ((node = kvl_list_pop_front(&cache->idle_flights)) != NULL) {
        kvl_free(kvl_container(node, kvl_flight_t, link));
    }
    while ((node = kvl_list_pop_front(&cache->idle_asks)) != NULL) {
        kvl_free(kvl_container(node, kvl_ask_t, link));
    }
}

static void cache_evicted(kvl_tenant_t *tenant)
{
    kvl_cache_destroy(kvl_container(tenant, kvl_cache_t, tenant));
}

static void cache_init(kvl_cache_t *cache, kvl_engine_t *engine)
{
    cache->engine      = engine;
    cache->settings    = kvl_engine_settings(engine);
    cache->poller.func = kvl_conductor_poll;
    cache->tenant      = (kvl_tenant_t){.name = "cache", .close = cache_evicted};
    cache->random      = kvl_engine_nonce(engine) | 1;
    kvl_list_init(&cache->jobs);
    kvl_list_init(&cache->runnable);
    kvl_list_init(&cache->paused);
    kvl_list_init(&cache->commits);
    kvl_list_init(&cache->idle_flights);
    kvl_list_init(&cache->idle_asks);
    kvl_list_init(&cache->waiters);
}

/* under the token */
static kvl_status_t cache_open(kvl_cache_t *cache, const char *nodes)
{
    kvl_link_params_t params = {
        .engine = cache->engine, .address = nodes, .ops = &kvl_conductor_link_ops, .arg = cache};
    kvl_status_t status = kvl_timers_reserve(kvl_engine_timers(cache->engine), 1);

    if (status != KVL_OK) {
        return kvl_error(status, "cache: no memory for its timer");
    }
    status = kvl_link_create(&params, &cache->link);
    if (status != KVL_OK) {
        kvl_timers_unreserve(kvl_engine_timers(cache->engine), 1);
        return status;
    }
    kvl_engine_add_poller(cache->engine, &cache->poller);
    kvl_engine_add_tenant(cache->engine, &cache->tenant);
    kvl_link_want(cache->link); /* in the background; a failure is told to the batches */
    return KVL_OK;
}

kvl_status_t kvl_cache_create(kvl_engine_t *engine, const char *nodes, kvl_cache_t **cache_p)
{
    kvl_cache_t *cache;
    kvl_status_t status;

    if (!engine || !nodes || !cache_p) {
        return kvl_error(KVL_ERR_INVALID, "cache: %s is NULL",
                         !engine  ? "engine"
                         : !nodes ? "nodes"
                                  : "cache_p");
    }
    if (strpbrk(nodes, ", ;")) {
        return kvl_error(KVL_ERR_INVALID,
                         "cache: nodes \"%s\" looks like a list; this version takes "
                         "one \"host:port\"",
                         nodes);
    }
    cache = kvl_calloc(1, sizeof(*cache));
    if (!cache) {
        return kvl_error(KVL_ERR_NO_MEMORY, "cache: out of memory");
    }
    cache_init(cache, engine);
    kvl_engine_enter(engine);
    status = cache_open(cache, nodes);
    kvl_engine_leave(engine);
    if (status != KVL_OK) {
        kvl_free(cache);
        return status;
    }
    *cache_p = cache;
    return KVL_OK;
}

/* ---- calls that wait ---- */

static kvl_status_t cache_connect_until(kvl_cache_t *cache, int64_t until_ns)
{
    kvl_waiter_t waiter = {.status = KVL_ERR_TIMEOUT, .text = "still connecting"};
    kvl_status_t status;

    kvl_engine_enter(cache->engine);
    status = kvl_link_want(cache->link);
    /* in a pause between attempts: what the next one says counts, not what the last one said */
    if (status != KVL_INPROGRESS && kvl_link_state(cache->link) != KVL_LINK_DOWN) {
        kvl_engine_leave(cache->engine);
        return status;
    }
    if (status != KVL_INPROGRESS) { /* unless there is no next one in time */
        waiter.status = status;
        snprintf(waiter.text, sizeof(waiter.text), "%s", kvl_link_cause(cache->link));
    }
    kvl_list_push_back(&cache->waiters, &waiter.link);
    kvl_engine_leave(cache->engine);
    kvl_engine_wait(cache->engine, &waiter.flag, until_ns);
    kvl_engine_enter(cache->engine); /* also: whoever set the flag is through with the waiter */
    kvl_list_remove(&waiter.link);
    kvl_engine_leave(cache->engine);
    return waiter.status == KVL_OK ? KVL_OK
                                   : kvl_error(waiter.status, "cache: not connected to %s: %s",
                                               kvl_link_address(cache->link), waiter.text);
}

/* the deadline of a call that waits */
static kvl_status_t cache_until(kvl_cache_t *cache, const char *call, int64_t timeout_ms,
                                int64_t *until_p)
{
    kvl_batch_params_t params = {.timeout_ms = timeout_ms};
    kvl_status_t status;

    if (!cache) {
        return kvl_error(KVL_ERR_INVALID, "%s: cache is NULL", call);
    }
    status = kvl_engine_may_wait(cache->engine, call);
    return status == KVL_OK ? kvl_batch_deadline(cache->engine, &params, until_p) : status;
}

kvl_status_t kvl_cache_connect(kvl_cache_t *cache, int64_t timeout_ms)
{
    int64_t until_ns;
    kvl_status_t status = cache_until(cache, "kvl_cache_connect", timeout_ms, &until_ns);

    return status == KVL_OK ? cache_connect_until(cache, until_ns) : status;
}

typedef struct {
    kvl_call_t call;
    _Atomic int flag;
    kvl_cache_t *cache;
    kvl_status_t status;
    uint64_t values[KVL_WIRE_STATS];
} stat_call_t;

static bool stat_answer(kvl_call_t *call, const kvl_msg_head_t *head, kvl_rbuf_t *body)
{
    stat_call_t *stat = kvl_container(call, stat_call_t, call);
    size_t count      = 0;

    stat->status = (kvl_status_t)head->status;
    if (body && stat->status == KVL_OK &&
        (head->type != KVL_MSG_STAT_OK || kvl_get_stats(body, stat->values, &count) != KVL_OK)) {
        kvl_link_protocol_error(stat->cache->link, "STAT_OK does not hold what it should");
        stat->status = KVL_ERR_PROTOCOL;
    }
    atomic_store_explicit(&stat->flag, 1, memory_order_release);
    kvl_engine_notify(stat->cache->engine, false);
    return true;
}

/* under the token */
static kvl_status_t stat_send(stat_call_t *stat, int64_t until_ns)
{
    kvl_link_t *link = stat->cache->link;

    if (!kvl_cache_is_up(stat->cache)) {
        return kvl_error(KVL_ERR_UNREACHABLE, "cache: not connected to %s: %s",
                         kvl_link_address(link), kvl_link_cause(link));
    }
    if (!kvl_link_call_begin(link)) {
        return KVL_ERR_NO_MEMORY;
    }
    return kvl_link_call_send(link, KVL_MSG_STAT, &stat->call, until_ns);
}

kvl_status_t kvl_cache_stat(kvl_cache_t *cache, int64_t timeout_ms, kvl_node_stat_t *stat_p)
{
    stat_call_t stat = {.call = {.answer = stat_answer}, .cache = cache};
    int64_t until_ns;
    kvl_status_t status = cache_until(cache, "kvl_cache_stat", timeout_ms, &until_ns);

    if (status == KVL_OK && !stat_p) {
        status = kvl_error(KVL_ERR_INVALID, "kvl_cache_stat: stat_p is NULL");
    }
    if (status == KVL_OK) {
        status = cache_connect_until(cache, until_ns);
    }
    if (status != KVL_OK) {
        return status;
    }
    kvl_engine_enter(cache->engine);
    status = stat_send(&stat, until_ns);
    kvl_engine_leave(cache->engine);
    if (status != KVL_INPROGRESS) {
        return status;
    }
    kvl_engine_wait(cache->engine, &stat.flag, until_ns);
    kvl_engine_enter(cache->engine);
    if (!atomic_load(&stat.flag)) {
        kvl_link_call_end(cache->link, &stat.call);
        stat.status = KVL_ERR_TIMEOUT;
    }
    kvl_engine_leave(cache->engine);
    if (stat.status != KVL_OK) {
        return kvl_error(stat.status, "cache: %s did not tell its state: %s",
                         kvl_link_address(cache->link), kvl_status_string(stat.status));
    }
    /* values come in the order of the fields; those that the node does not know stay 0 */
    _Static_assert(sizeof(*stat_p) <= sizeof(stat.values), "a field more than STAT_OK carries");
    memcpy(stat_p, stat.values, sizeof(*stat_p));
    return KVL_OK;
}

kvl_status_t kvl_cache_session(kvl_cache_t *cache, kvl_session_info_t *info_p)
{
    const kvl_hello_ok_t *terms;
    kvl_session_info_t info = {0};
    kvl_mode_t put, get;

    if (!cache || !info_p) {
        return kvl_error(KVL_ERR_INVALID, "kvl_cache_session: %s is NULL", cache ? "info_p" : "cache");
    }
    kvl_engine_enter(cache->engine);
    if (!kvl_cache_is_up(cache)) {
        kvl_link_state_t state = kvl_link_state(cache->link);

        kvl_engine_leave(cache->engine);
        return kvl_error(KVL_ERR_UNREACHABLE, "cache: no session with %s (%s)",
                         kvl_link_address(cache->link), kvl_link_state_name(state));
    }
    terms             = kvl_link_terms(cache->link);
    info.depth        = terms->depth;
    info.sg_endpoints = terms->sg_endpoints;
    info.data_depth   = terms->data_depth;
    kvl_link_info(cache->link, info.transport, &put, &get);
    snprintf(info.put_mode, sizeof(info.put_mode), "%s", kvl_mode_name(put));
    snprintf(info.get_mode, sizeof(info.get_mode), "%s", kvl_mode_name(get));
    snprintf(info.node_version, sizeof(info.node_version), "%.31s", terms->name);
    kvl_engine_leave(cache->engine);
    *info_p = info;
    return KVL_OK;
}

kvl_status_t kvl_cache_rails(kvl_cache_t *cache, kvl_rail_stat_t *stats, size_t *count_p)
{
    size_t room, count;
    unsigned i;

    if (!cache || !count_p || (!stats && *count_p)) {
        return kvl_error(KVL_ERR_INVALID, "kvl_cache_rails: %s is NULL",
                         !cache     ? "cache"
                         : !count_p ? "count_p"
                                    : "stats");
    }
    room     = *count_p;
    count    = kvl_engine_rails(cache->engine);
    *count_p = count;
    if (room < count) {
        return kvl_error(KVL_ERR_LIMIT, "kvl_cache_rails: there are %zu rails, room is for %zu", count, room);
    }
    kvl_engine_enter(cache->engine);
    for (i = 0; i < count; i++) {
        kvl_link_rail_stat(cache->link, i, &stats[i]);
    }
    kvl_engine_leave(cache->engine);
    return KVL_OK;
}

/* ---- submit ---- */

/* Who destroys the cache meanwhile waits for the last one that is in it. */
static void submit_failed(kvl_cache_t *cache)
{
    kvl_engine_t *engine = cache->engine;

    kvl_engine_enter(engine);
    if (atomic_fetch_sub(&cache->open, 1) == 1 && atomic_load(&cache->closing)) {
        atomic_store(&cache->quiet, 1);
        kvl_engine_notify(engine, false);
    }
    kvl_engine_leave(engine);
}

kvl_status_t kvl_cache_submit(kvl_cache_t *cache, kvl_cache_op_t op, const kvl_item_t *items,
                              size_t count, const kvl_batch_params_t *params, kvl_batch_t **batch_p)
{
    kvl_status_t status;
    kvl_job_t *job;

    if (!cache || !batch_p) {
        return kvl_error(KVL_ERR_INVALID, "cache: %s is NULL", cache ? "batch_p" : "cache");
    }
    atomic_fetch_add(&cache->open, 1);
    if (atomic_load(&cache->closing)) {
        status = kvl_error(KVL_ERR_CLOSED, "cache: it is being destroyed");
    } else {
        status = kvl_job_create(cache, op, items, count, params, &job);
    }
    if (status != KVL_OK) {
        submit_failed(cache);
        return status;
    }
    kvl_job_hold(job, 1);
    *batch_p = &job->batch; /* before the engine can call back */
    kvl_engine_post(cache->engine, &job->work);
    return KVL_INPROGRESS;
}

/* ---- the end ---- */

static void cache_link_closed(kvl_link_t *link, void *arg)
{
    kvl_cache_t *cache = arg;

    (void)link;
    atomic_store_explicit(&cache->closed, 1, memory_order_release);
    kvl_engine_notify(cache->engine, false);
}

static void cache_close(kvl_cache_t *cache)
{
    kvl_list_t *node;

    atomic_store(&cache->closing, true);
    for (node = cache->jobs.next; node != &cache->jobs; node = node->next) {
        kvl_job_stop(kvl_container(node, kvl_job_t, link), KVL_ERR_CANCELED);
    }
    if (!atomic_load(&cache->open)) {
        atomic_store(&cache->quiet, 1);
    }
}

void kvl_cache_destroy(kvl_cache_t *cache)
{
    kvl_engine_t *engine;

    if (!cache || !kvl_engine_may_end(cache->engine, "kvl_cache_destroy")) {
        return;
    }
    engine = cache->engine;
    kvl_engine_enter(engine);
    cache_close(cache);
    kvl_engine_leave(engine);
    kvl_engine_wait(engine, &cache->quiet, KVL_TIME_MAX);
    kvl_engine_enter(engine);
    kvl_link_close(cache->link, cache_link_closed, cache);
    kvl_engine_leave(engine);
    kvl_engine_wait(engine, &cache->closed, KVL_TIME_MAX);
    kvl_engine_enter(engine);
    kvl_timer_cancel(kvl_engine_timers(engine), &cache->retry);
    kvl_timers_unreserve(kvl_engine_timers(engine), 1);
    kvl_engine_remove_poller(engine, &cache->poller);
    kvl_engine_remove_tenant(engine, &cache->tenant);
    kvl_link_destroy(cache->link);
    cache_free_pools(cache);
    kvl_engine_leave(engine);
    kvl_free(cache);
}
