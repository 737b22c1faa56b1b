/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/job.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"

#include <inttypes.h>

/* One entry on its way. A flight lives from its RESERVE or LOOKUP until its entry ended or goes back
 * to TODO; while it is MOVING the mover owns flight->move, so it may not end before done() fired.
 * Also here: what happens to leases, which every flight ends by giving back or committing. */

kvl_flight_t *kvl_flight_get(kvl_job_t *job, uint32_t index, bool small)
{
    kvl_cache_t *cache = job->cache;
    kvl_list_t *node   = kvl_list_pop_front(&cache->idle_flights);
    kvl_flight_t *flight =
        node ? kvl_container(node, kvl_flight_t, link) : kvl_malloc(sizeof(*flight));

    if (!flight) {
        return NULL;
    }
    *flight = (kvl_flight_t){
        .job = job, .index = index, .state = KVL_FLIGHT_ASKED, .small = small, .counted = true};
    kvl_list_init(&flight->ready);
    kvl_list_push_back(&job->flights, &flight->link);
    kvl_job_take(job, index);
    if (small) {
        job->small++;
    } else {
        job->window++;
        job->window_bytes += job->entries[index].length;
    }
    return flight;
}

void kvl_flight_uncount(kvl_flight_t *flight)
{
    kvl_job_t *job = flight->job;

    if (!flight->counted) {
        return;
    }
    flight->counted = false;
    if (flight->small) {
        job->small--;
    } else {
        job->window--;
        job->window_bytes -= job->entries[flight->index].length;
    }
    kvl_job_wake(job);
}

void kvl_flight_put(kvl_flight_t *flight)
{
    kvl_cache_t *cache = flight->job->cache;

    kvl_flight_uncount(flight);
    kvl_job_wake(flight->job);
    kvl_list_remove(&flight->ready);
    kvl_list_remove(&flight->link);
    kvl_list_push_front(&cache->idle_flights, &flight->link);
}

void kvl_flight_end(kvl_flight_t *flight, kvl_status_t status, uint64_t stored, const char *why)
{
    kvl_job_end(flight->job, flight->index, status, stored, why);
    kvl_flight_put(flight);
}

void kvl_flight_restart(kvl_flight_t *flight)
{
    kvl_job_restart(flight->job, flight->index);
    kvl_flight_put(flight);
}

void kvl_flight_refused(kvl_flight_t *flight, kvl_status_t status, const char *reason)
{
    kvl_job_t *job = flight->job;
    char why[128];

    switch (status) {
    case KVL_ERR_BUSY: /* no slot is free now; leases end, so one may be soon */
        kvl_job_back_off(job);
        kvl_flight_restart(flight);
        return;
    case KVL_ERR_NOT_FOUND:
        kvl_flight_end(flight, status, 0, "the node does not have it (any more); compute it again");
        return;
    case KVL_ERR_NO_SPACE:
        snprintf(why, sizeof(why),
                 "%" PRIu64 " bytes; give the node more memory or split the value",
                 job->entries[flight->index].length);
        kvl_flight_end(flight, status, 0, why);
        return;
    default:
        kvl_flight_end(flight, status, 0, reason);
    }
}

void kvl_flight_lost(kvl_flight_t *flight, kvl_lost_t how, kvl_status_t status)
{
    if (how == KVL_LOST_REFUSED) {
        kvl_flight_refused(flight, status, kvl_error_text());
    } else if (how == KVL_LOST_UNKNOWN && flight->inlined) {
        kvl_flight_end(flight, KVL_ERR_AMBIGUOUS, 0,
                       "the connection ended after its bytes were sent; "
                       "read the key to know");
    } else {
        kvl_flight_restart(flight); /* the lease, if there is one, ends with the session */
    }
}

/* ---- moving ---- */

void kvl_flight_move(kvl_flight_t *flight, kvl_move_dir_t dir, const kvl_remote_region_t *region,
                     void (*done)(kvl_move_t *move, kvl_status_t status))
{
    kvl_job_t *job     = flight->job;
    kvl_entry_t *entry = &job->entries[flight->index];
    uint64_t at        = flight->lease.offset;
    uint32_t i;

    for (i = 0; i < entry->piece_count; i++) {
        entry->pieces[i].remote_offset = at;
        at += entry->pieces[i].length;
    }
    flight->state = KVL_FLIGHT_MOVING;
    job->cache->moving++;
    flight->ask   = NULL;
    flight->move =
        (kvl_move_t){.dir    = dir,
                     .lane   = kvl_lane_choose(job->cache->settings->sg, entry->piece_count, entry->device != NULL),
                     .pieces = entry->pieces,
                     .piece_count  = entry->piece_count,
                     .device       = entry->device,
                     .remote       = region,
                     .token        = flight->lease.id,
                     .generation   = flight->lease.generation,
                     .value_offset = flight->lease.offset,
                     .done         = done};
    kvl_mover_submit(kvl_link_mover(job->cache->link), &job->flow, &flight->move);
}

/* ---- leases ---- */

const kvl_remote_region_t *kvl_lease_region(kvl_link_t *link, const kvl_wire_lease_t *lease,
                                            uint64_t length)
{
    const kvl_remote_region_t *region = kvl_link_region(link, lease->region);

    if (!region) {
        kvl_error(KVL_ERR_PROTOCOL,
                  "lease %" PRIu64 " names region %" PRIu32 ", which the node never "
                  "exported",
                  lease->id, lease->region);
        return NULL;
    }
    if (lease->offset > region->length || length > region->length - lease->offset) {
        kvl_error(KVL_ERR_PROTOCOL,
                  "lease %" PRIu64 ": %" PRIu64 " bytes at offset %" PRIu64 " lie "
                  "outside of region %" PRIu32,
                  lease->id, length, lease->offset, lease->region);
        return NULL;
    }
    return region;
}

void kvl_lease_back(kvl_cache_t *cache, const kvl_wire_lease_t *lease, bool write)
{
    kvl_back_list_t *list = write ? &cache->writes : &cache->reads;

    if (list->count == KVL_BACK_MAX) {
        kvl_lease_send(cache);
    }
    if (list->count == KVL_BACK_MAX) {
        kvl_debug("cache %s: lease %" PRIu64 " is left to run out: no control buffer",
                  kvl_link_address(cache->link), lease->id);
        return;
    }
    list->leases[list->count++] = (kvl_back_t){lease->id, lease->generation};
}

static unsigned back_list_send(kvl_cache_t *cache, kvl_back_list_t *list, kvl_msg_type_t type)
{
    kvl_wbuf_t *w;
    unsigned i;

    if (!list->count) {
        return 0;
    }
    w = kvl_link_call_begin(cache->link);
    if (!w) {
        kvl_cache_hold(cache);
        return 0;
    }
    for (i = 0; i < list->count; i++) {
        kvl_commit_t item = {.index      = (uint16_t)i,
                             .lease      = list->leases[i].id,
                             .generation = list->leases[i].generation};

        kvl_put_commit(w, &item);
    }
    list->count = 0;
    kvl_link_call_send(cache->link, type, NULL, KVL_TIME_MAX);
    return 1;
}

unsigned kvl_lease_send(kvl_cache_t *cache)
{
    unsigned sent = 0;

    if (kvl_cache_is_up(cache)) {
        sent += back_list_send(cache, &cache->reads, KVL_MSG_RELEASE);
        sent += back_list_send(cache, &cache->writes, KVL_MSG_ABORT);
    }
    return sent;
}
