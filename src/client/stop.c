/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/job.h"

/* The early end of a job: deadline or cancel. Everything it still has with the link is called back or
 * given back; it completes (conductor.c) once nothing is left. Bound: deadline + quiesce time + what
 * a reset of the link takes. */

static kvl_flight_t *flight_find(const kvl_job_t *job, uint32_t index)
{
    kvl_list_t *node;

    for (node = job->flights.next; node != &job->flights; node = node->next) {
        kvl_flight_t *flight = kvl_container(node, kvl_flight_t, link);

        if (flight->index == index) {
            return flight;
        }
    }
    return NULL;
}

static const char *entry_phase(const kvl_job_t *job, uint32_t index)
{
    static const char *const phases[] = {
        [KVL_FLIGHT_ASKED]      = "waits for the node's answer",
        [KVL_FLIGHT_MOVING]     = "waits for its bytes to move",
        [KVL_FLIGHT_READY]      = "waits to be committed",
        [KVL_FLIGHT_COMMITTING] = "waits for the answer to its commit",
    };
    const kvl_flight_t *flight = flight_find(job, index);

    if (flight) {
        return phases[flight->state];
    }
    if (job->entries[index].state == KVL_ENTRY_FLYING) {
        return "waits for the node's answer";
    }
    if (!kvl_cache_is_up(job->cache)) {
        return "waits for the connection";
    }
    if (job->batch.gated) {
        return "waits for the stream or event of its device";
    }
    return job->backoff_ns ? "waits for space at the node" : "waits for its turn";
}

static void job_blame(kvl_job_t *job, kvl_status_t status)
{
    char key[KVL_KEY_TEXT];
    uint32_t i = 0;

    while (i + 1 < job->batch.count && job->entries[i].state == KVL_ENTRY_DONE) {
        i++;
    }
    kvl_batch_blame(
        &job->batch, "%s, %zu of %zu items unfinished at %s: item %u (key \"%s\") %s%s",
        status == KVL_ERR_TIMEOUT ? "the deadline passed" : "canceled by the caller",
        job->batch.left, job->batch.count, kvl_link_address(job->cache->link), i,
        kvl_key_text(job->entries[i].key, job->entries[i].key_length, key), entry_phase(job, i),
        status == KVL_ERR_TIMEOUT
            ? "; see how the node does, or give it more time (timeout_ms, KVLANE_TIMEOUT)"
            : "");
}

static void flight_stop(kvl_flight_t *flight, kvl_status_t status)
{
    kvl_cache_t *cache = flight->job->cache;

    switch (flight->state) {
    case KVL_FLIGHT_ASKED:
        if (!flight->inlined) {
            kvl_ask_detach(flight);
            kvl_flight_end(flight, status, 0, NULL);
        }
        break; /* inlined: as good as a commit */
    case KVL_FLIGHT_MOVING:
        if (kvl_link_state(cache->link) == KVL_LINK_UP) {
            kvl_mover_cancel(kvl_link_mover(cache->link), &flight->move, status);
        }
        break;
    case KVL_FLIGHT_READY:
        kvl_lease_back(cache, &flight->lease, true);
        kvl_flight_end(flight, status, 0, NULL);
        break;
    case KVL_FLIGHT_COMMITTING:
    default:
        break; /* an answer may still come in time */
    }
}

/* the quiesce time is over */
static void job_settle(kvl_timer_t *timer)
{
    kvl_job_t *job     = kvl_container(timer, kvl_job_t, deadline);
    kvl_cache_t *cache = job->cache;
    kvl_list_t *node, *next;
    bool busy = false;

    kvl_query_stop(job, true);
    for (node = job->flights.next; node != &job->flights; node = next) {
        kvl_flight_t *flight = kvl_container(node, kvl_flight_t, link);

        next = node->next;
        if (flight->state == KVL_FLIGHT_MOVING) {
            busy = busy || kvl_move_busy(&flight->move);
        } else if (flight->ask) {
            kvl_ask_detach(flight);
            kvl_flight_end(flight, KVL_ERR_AMBIGUOUS, 0,
                           "its commit was not answered in time; read "
                           "the key to know");
        }
    }
    if (busy) {
        kvl_link_reset(cache->link, job->batch.cause);
    }
    if (!kvl_list_empty(&job->flights)) {
        kvl_timer_set(kvl_engine_timers(cache->engine), &job->deadline,
                      kvl_time_add(kvl_now_ns(), cache->settings->quiesce_ns + KVL_MS), job_settle);
    }
}

void kvl_job_stop(kvl_job_t *job, kvl_status_t status)
{
    kvl_cache_t *cache = job->cache;
    kvl_list_t *node, *next;

    if (job->stop != KVL_OK || kvl_batch_is_over(&job->batch)) {
        return;
    }
    job->stop = status;
    if (kvl_batch_fail(&job->batch, status)) {
        job_blame(job, status);
    }
    kvl_job_end_todo(job, status, NULL);
    for (node = job->flights.next; node != &job->flights; node = next) {
        next = node->next;
        flight_stop(kvl_container(node, kvl_flight_t, link), status);
    }
    kvl_query_stop(job, false);
    kvl_timer_set(kvl_engine_timers(cache->engine), &job->deadline,
                  kvl_time_add(kvl_now_ns(), cache->settings->quiesce_ns), job_settle);
    kvl_job_wake(job);
}

void kvl_job_deadline(kvl_timer_t *timer)
{
    kvl_job_stop(kvl_container(timer, kvl_job_t, deadline), KVL_ERR_TIMEOUT);
}

void kvl_job_cancel(kvl_batch_t *batch)
{
    kvl_job_stop(kvl_container(batch, kvl_job_t, batch), KVL_ERR_CANCELED);
}
