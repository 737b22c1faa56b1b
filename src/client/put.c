/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/job.h"

#include "base/error.h"

#include <string.h>

/* put: RESERVE -> move -> COMMIT. A small value rides in RESERVE and is visible with its answer, so
 * such a RESERVE is a commit too: without an answer nobody knows, and it is never sent twice. COMMITs
 * of all batches of the cache leave together (kvl_conductor_poll). */

/* ---- RESERVE ---- */

/* the value in one piece, for the message; nothing keeps it */
static const uint8_t *entry_gather(const kvl_entry_t *entry, uint8_t *scratch)
{
    size_t at = 0;
    uint32_t i;

    if (entry->piece_count == 1) {
        return entry->pieces[0].address;
    }
    for (i = 0; i < entry->piece_count; i++) {
        memcpy(scratch + at, entry->pieces[i].address, entry->pieces[i].length);
        at += entry->pieces[i].length;
    }
    return scratch;
}

static bool reserve_add(kvl_wbuf_t *w, kvl_flight_t *flight)
{
    const kvl_entry_t *entry = &flight->job->entries[flight->index];
    uint8_t scratch[KVL_INLINE_CAP];
    kvl_reserve_t item = {.index      = flight->place,
                          .key        = {entry->key, entry->key_length},
                          .length     = entry->length,
                          .has_inline = flight->small};

    flight->inlined = flight->small;
    if (flight->inlined) {
        item.bytes = entry_gather(entry, scratch);
    }
    return kvl_put_reserve(w, &item);
}

static void put_moved(kvl_move_t *move, kvl_status_t status)
{
    kvl_flight_t *flight = kvl_container(move, kvl_flight_t, move);
    kvl_job_t *job       = flight->job;
    kvl_cache_t *cache   = job->cache;

    cache->moving--;
    kvl_flight_uncount(flight);
    if (status == KVL_OK && job->stop == KVL_OK) {
        kvl_commit_ready(flight);
        return;
    }
    if (kvl_link_state(cache->link) != KVL_LINK_UP) {
        kvl_flight_restart(flight); /* down() follows and says what becomes of it */
        return;
    }
    kvl_lease_back(cache, &flight->lease, true);
    kvl_flight_end(flight, job->stop != KVL_OK ? job->stop : status, 0,
                   "its bytes could not be moved; nothing was stored");
}

static kvl_status_t reserve_read(kvl_ask_t *ask, kvl_rbuf_t *body)
{
    const kvl_remote_region_t *region = NULL;
    kvl_reserved_t item;
    kvl_flight_t *flight;

    if (kvl_get_reserved(body, &item) != KVL_OK || kvl_status_check(item.status) != KVL_OK ||
        kvl_ask_peek(ask, item.index, &flight) != KVL_OK) {
        return KVL_ERR_PROTOCOL;
    }
    if (flight && !flight->inlined && item.status == KVL_OK) {
        region = kvl_lease_region(ask->cache->link, &item.lease,
                                  flight->job->entries[flight->index].length);
        if (!region) {
            return KVL_ERR_PROTOCOL;
        }
    }
    kvl_ask_take(ask, item.index);
    if (!flight) {
        if (item.status == KVL_OK && item.lease.id) {
            kvl_lease_back(ask->cache, &item.lease, true);
        }
    } else if (item.status != KVL_OK) {
        kvl_flight_refused(flight, (kvl_status_t)item.status, KVL_NODE_SAYS);
    } else if (flight->inlined) {
        kvl_flight_end(flight, KVL_OK, 0, NULL);
    } else {
        flight->lease           = item.lease;
        flight->job->backoff_ns = 0;
        kvl_flight_move(flight, KVL_MOVE_PUT, region, put_moved);
    }
    return KVL_OK;
}

static const kvl_ask_kind_t reserve_kind = {
    .request = KVL_MSG_RESERVE,
    .answer  = KVL_MSG_RESERVED,
    .add     = reserve_add,
    .read    = reserve_read,
    .lost    = kvl_flight_lost,
};

unsigned kvl_put_run(kvl_job_t *job)
{
    return kvl_ask_run(job, &reserve_kind);
}

/* ---- COMMIT ---- */

static bool commit_add(kvl_wbuf_t *w, kvl_flight_t *flight)
{
    kvl_commit_t item = {.index      = flight->place,
                         .lease      = flight->lease.id,
                         .generation = flight->lease.generation,
                         .length     = flight->job->entries[flight->index].length};
    kvl_mode_t put_mode, get_mode;
    char transport[64];

    kvl_link_info(flight->job->cache->link, transport, &put_mode, &get_mode);
    if (put_mode == KVL_MODE_IS_MESSAGE || flight->move.remote->by_message) {
        /* may still be on their way: the node waits for them */
        item.ops = flight->move.ops_total;
    }
    return kvl_put_commit(w, &item);
}

static kvl_status_t commit_read(kvl_ask_t *ask, kvl_rbuf_t *body)
{
    kvl_answer_t item;
    kvl_flight_t *flight;

    if (kvl_get_answer(body, &item) != KVL_OK || kvl_status_check(item.status) != KVL_OK ||
        kvl_ask_peek(ask, item.index, &flight) != KVL_OK) {
        return KVL_ERR_PROTOCOL;
    }
    kvl_ask_take(ask, item.index);
    if (flight) {
        kvl_flight_end(flight, (kvl_status_t)item.status, 0,
                       item.status == KVL_ERR_LEASE
                           ? "the node took the slot back before the commit"
                           : "the node did not accept the commit");
    }
    return KVL_OK;
}

static void commit_lost(kvl_flight_t *flight, kvl_lost_t how, kvl_status_t status)
{
    kvl_cache_t *cache = flight->job->cache;

    if (how == KVL_LOST_REFUSED) {
        kvl_flight_end(flight, status, 0, kvl_error_text());
    } else if (how == KVL_LOST_UNKNOWN) {
        kvl_flight_end(flight, KVL_ERR_AMBIGUOUS, 0,
                       "the connection ended before the commit was "
                       "answered; read the key to know");
    } else { /* never sent: the lease still stands, or down() follows */
        kvl_commit_ready(flight);
        kvl_cache_hold(cache);
    }
}

static const kvl_ask_kind_t commit_kind = {
    .request = KVL_MSG_COMMIT,
    .answer  = KVL_MSG_COMMITTED,
    .add     = commit_add,
    .read    = commit_read,
    .lost    = commit_lost,
};

void kvl_commit_ready(kvl_flight_t *flight)
{
    kvl_cache_t *cache = flight->job->cache;

    flight->state = KVL_FLIGHT_READY;
    kvl_list_push_back(&cache->commits, &flight->ready);
    cache->commit_urgent |= !flight->job->window && !flight->job->small && !flight->job->todo;
}

/* moves READY flights into one message; returns the latest deadline among them */
static int64_t commit_fill(kvl_cache_t *cache, kvl_ask_t *ask, kvl_wbuf_t *w)
{
    int64_t deadline_ns = 0;

    while (!kvl_list_empty(&cache->commits)) {
        kvl_flight_t *flight = kvl_container(cache->commits.next, kvl_flight_t, ready);

        if (!kvl_ask_add(ask, w, flight)) {
            break;
        }
        kvl_list_remove(&flight->ready);
        flight->state = KVL_FLIGHT_COMMITTING;
        if (flight->job->batch.deadline_ns > deadline_ns) {
            deadline_ns = flight->job->batch.deadline_ns;
        }
    }
    return deadline_ns;
}

unsigned kvl_commit_run(kvl_cache_t *cache)
{
    unsigned sent = 0;
    char transport[64];
    kvl_mode_t get_mode;

    if (kvl_list_empty(&cache->commits)) {
        return 0;
    }
    kvl_link_info(cache->link, transport, &cache->put_mode, &get_mode);
    while (!kvl_list_empty(&cache->commits)) {
        kvl_ask_t *ask = kvl_ask_get(cache, &commit_kind);
        kvl_wbuf_t *w  = ask ? kvl_link_call_begin(cache->link) : NULL;

        if (!w) {
            if (ask) {
                kvl_ask_put(ask);
            }
            kvl_cache_hold(cache);
            break;
        }
        if (kvl_ask_send(ask, commit_fill(cache, ask, w)) != KVL_INPROGRESS) {
            break;
        }
        sent++;
    }
    return sent;
}
