/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/job.h"

#include "base/error.h"
#include "base/log.h"

/* Owns a job from the inbox to its completion, on the engine thread.
 *
 *   attached -> running -> complete
 *            -> stopping (deadline, cancel, link down for good) -> complete
 *
 * Running: events (answers, moves done) change counts and wake the job; the poller then sends what
 * the window allows, commits and returns of all jobs together. Stopping: nothing new; what is not
 * under way ends at once; a commit that was sent has until the end of the quiesce time to be
 * answered; moves are canceled, and if one is still at UCP after the quiesce time, the link is reset.
 * Completion happens in the poller only, when no flight and no query is left: no callback of a caller
 * runs in the middle of a change.
 *
 * The link went down: a peer's fault fails everything that is not ended. A reset of our own (another
 * job ran out of time) is no fault of this job: it starts over, but for commits that were sent. */

#define GATHER_NS (KVL_MS / 2)

bool kvl_cache_is_up(const kvl_cache_t *cache)
{
    return kvl_link_state(cache->link) == KVL_LINK_UP && kvl_link_want(cache->link) == KVL_OK;
}

/* ---- completion ---- */

static void job_complete(kvl_job_t *job)
{
    kvl_cache_t *cache   = job->cache;
    kvl_timers_t *timers = kvl_engine_timers(cache->engine);

    kvl_timer_cancel(timers, &job->deadline);
    if (job->timers_reserved) {
        kvl_timers_unreserve(timers, 1);
    }
    kvl_list_remove(&job->link);
    kvl_list_remove(&job->run);
    kvl_job_hold(job, -1);
    kvl_batch_complete(&job->batch); /* the job may be gone now */
    if (atomic_fetch_sub(&cache->open, 1) == 1 && atomic_load(&cache->closing)) {
        atomic_store_explicit(&cache->quiet, 1, memory_order_release);
        kvl_engine_notify(cache->engine, false);
    }
}

static bool job_is_over(const kvl_job_t *job)
{
    return kvl_batch_is_over(&job->batch) && kvl_list_empty(&job->flights) &&
           kvl_list_empty(&job->queries);
}

static void job_fail(kvl_job_t *job, kvl_status_t status, const char *text)
{
    if (kvl_batch_fail(&job->batch, status)) {
        kvl_batch_blame(&job->batch, "%s: %s", kvl_status_string(status), text);
    }
    if (job->stop == KVL_OK) {
        job->stop = status;
    }
    kvl_job_end_todo(job, status, text);
    kvl_job_wake(job);
}

/* ---- running ---- */

/* work of the caller's on the device comes first */
static bool job_is_admitted(kvl_job_t *job)
{
    kvl_status_t status = kvl_batch_admits(&job->batch);

    if (status == KVL_INPROGRESS) {
        kvl_job_pause(job, kvl_now_ns() + KVL_GATE_NS);
    } else if (status != KVL_OK) {
        job_fail(job, status, kvl_error_text());
    }
    return status == KVL_OK;
}

static unsigned job_run(kvl_job_t *job, bool up)
{
    if (job_is_over(job)) {
        job_complete(job);
        return 1;
    }
    if (!up || job->stop != KVL_OK || !job->todo) {
        return 0; /* up(), an answer or a move wakes it again */
    }
    if (kvl_now_ns() < job->pause_until_ns) {
        kvl_job_pause(job, job->pause_until_ns);
        return 0;
    }
    if (job->batch.gated && !job_is_admitted(job)) {
        return 0;
    }
    switch (job->op) {
    case KVL_CACHE_PUT:
        return kvl_put_run(job);
    case KVL_CACHE_GET:
        return kvl_get_run(job);
    default:
        return kvl_query_run(job);
    }
}

/* Worth to wait for more? One message for many commits and returns costs both sides a fraction of one
 * for each, and while something moves there will be more. The last of a batch does not wait. */
static bool cache_gathers(kvl_cache_t *cache)
{
    bool waits  = !kvl_list_empty(&cache->commits) || cache->reads.count || cache->writes.count;
    int64_t now = kvl_now_ns();

    if (waits && !cache->gather_since_ns) {
        cache->gather_since_ns = now;
    }
    if (waits && cache->moving && !cache->commit_urgent && now < cache->gather_since_ns + GATHER_NS) {
        kvl_cache_retry_at(cache, cache->gather_since_ns + GATHER_NS);
        return true;
    }
    cache->gather_since_ns = 0;
    cache->commit_urgent   = false;
    return false;
}

unsigned kvl_conductor_poll(kvl_poller_t *poller)
{
    kvl_cache_t *cache = kvl_container(poller, kvl_cache_t, poller);
    kvl_list_t turn, *node;
    unsigned n = 0;
    bool up, back = cache->reads.count || cache->writes.count;

    if (kvl_list_empty(&cache->runnable) && kvl_list_empty(&cache->commits) && !back) {
        return 0;
    }
    up = kvl_cache_is_up(cache);
    if (up && kvl_now_ns() >= cache->hold_until_ns && !cache_gathers(cache)) {
        n += kvl_commit_run(cache);
        n += kvl_lease_send(cache);
    }
    kvl_list_init(&turn);
    kvl_list_splice_back(&turn, &cache->runnable);
    while ((node = kvl_list_pop_front(&turn)) != NULL) {
        job_run(kvl_container(node, kvl_job_t, run), up);
        n++;
    }
    return n;
}

void kvl_cache_retry_at(kvl_cache_t *cache, int64_t at_ns)
{
    if (!kvl_timer_armed(&cache->retry) || cache->retry.at_ns > at_ns) {
        kvl_timer_set(kvl_engine_timers(cache->engine), &cache->retry, at_ns, kvl_conductor_retry);
    }
}

void kvl_conductor_retry(kvl_timer_t *timer)
{
    kvl_cache_t *cache = kvl_container(timer, kvl_cache_t, retry);

    kvl_list_splice_back(&cache->runnable, &cache->paused);
}

void kvl_cache_hold(kvl_cache_t *cache)
{
    cache->hold_until_ns = kvl_now_ns() + KVL_MS;
    kvl_cache_retry_at(cache, cache->hold_until_ns);
}

/* ---- start ---- */

void kvl_conductor_attach(kvl_work_t *work)
{
    kvl_job_t *job       = kvl_container(work, kvl_job_t, work);
    kvl_cache_t *cache   = job->cache;
    kvl_timers_t *timers = kvl_engine_timers(cache->engine);
    kvl_status_t status;

    kvl_list_push_back(&cache->jobs, &job->link);
    kvl_job_wake(job);
    status = kvl_timers_reserve(timers, 1);
    if (status != KVL_OK) {
        job_fail(job, status, "no memory for the batch's timer");
        return;
    }
    job->timers_reserved = true;
    kvl_timer_set(timers, &job->deadline, job->batch.deadline_ns, kvl_job_deadline);
    if (atomic_load(&cache->closing)) {
        job_fail(job, KVL_ERR_CANCELED, "its cache is being destroyed");
        return;
    }
    status = kvl_link_want(cache->link);
    if (status != KVL_OK && status != KVL_INPROGRESS) {
        job_fail(job, status, kvl_error_text());
    }
}

/* ---- the link ---- */

static void waiters_tell(kvl_cache_t *cache, kvl_status_t status, const char *text)
{
    kvl_list_t *node;

    while ((node = kvl_list_pop_front(&cache->waiters)) != NULL) {
        kvl_waiter_t *waiter = kvl_container(node, kvl_waiter_t, link);

        waiter->status = status;
        snprintf(waiter->text, sizeof(waiter->text), "%s", text);
        atomic_store_explicit(&waiter->flag, 1, memory_order_release);
    }
    kvl_engine_notify(cache->engine, false);
}

static void conductor_fail_all(kvl_cache_t *cache, kvl_status_t status, const char *text)
{
    kvl_list_t *node;

    for (node = cache->jobs.next; node != &cache->jobs; node = node->next) {
        job_fail(kvl_container(node, kvl_job_t, link), status, text);
    }
    waiters_tell(cache, status, text);
}

static void conductor_up(kvl_link_t *link, void *arg)
{
    kvl_cache_t *cache = arg;
    kvl_list_t *node;

    (void)link;
    for (node = cache->jobs.next; node != &cache->jobs; node = node->next) {
        kvl_job_wake(kvl_container(node, kvl_job_t, link));
    }
    waiters_tell(cache, KVL_OK, "");
}

static void conductor_down(kvl_link_t *link, kvl_status_t status, const char *text, void *arg)
{
    kvl_cache_t *cache = arg;
    kvl_list_t *node;

    cache->reads.count = cache->writes.count = 0; /* leases ended with the session */
    while ((node = kvl_list_pop_front(&cache->commits)) != NULL) {
        kvl_flight_restart(kvl_container(node, kvl_flight_t, ready));
    }
    if (status != KVL_ERR_CANCELED) {
        conductor_fail_all(cache, status, text);
        return;
    }
    status = kvl_link_want(link); /* a reset of our own: connect again, work waits for up() */
    if (status != KVL_OK && status != KVL_INPROGRESS) {
        conductor_fail_all(cache, status, kvl_error_text());
    }
}

const kvl_link_ops_t kvl_conductor_link_ops = {
    .up   = conductor_up,   /* engine thread */
    .down = conductor_down, /* engine thread; every call and move was completed before */
};
