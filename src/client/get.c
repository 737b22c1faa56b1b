/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/job.h"

#include "base/error.h"
#include "lane/stage.h"

#include <inttypes.h>
#include <string.h>

/* get: LOOKUP -> move -> RELEASE. A small value comes inside the answer. An item is OK only if all
 * its bytes were in while the lease still stood: after that moment the node may have used the slot
 * for something else. RELEASEs of a turn leave together and have no answer. */

static bool lookup_add(kvl_wbuf_t *w, kvl_flight_t *flight)
{
    const kvl_entry_t *entry = &flight->job->entries[flight->index];
    kvl_lookup_t item        = {.index = flight->place, .key = {entry->key, entry->key_length}};

    return kvl_put_lookup(w, &item);
}

/* a small one: its copy to a device is waited for */
static kvl_status_t entry_to_device(const kvl_entry_t *entry, const uint8_t *bytes)
{
    uint8_t stage[KVL_INLINE_CAP];
    kvl_status_t status, settled;

    if (entry->length > sizeof(stage)) {
        return kvl_error(KVL_ERR_PROTOCOL, "FOUND: %" PRIu64 " bytes inside of the message", entry->length);
    }
    memcpy(stage, bytes, entry->length);
    status  = kvl_stage_copy(stage, entry->pieces, 0, entry->length, entry->device, KVL_TO_DEVICE);
    settled = kvl_device_settle(entry->device, KVL_TO_DEVICE);
    return status == KVL_OK ? settled : status;
}

static kvl_status_t entry_scatter(const kvl_entry_t *entry, const uint8_t *bytes)
{
    uint32_t i;

    if (entry->device) {
        return entry_to_device(entry, bytes);
    }
    for (i = 0; i < entry->piece_count; i++) {
        memcpy(entry->pieces[i].address, bytes, entry->pieces[i].length);
        bytes += entry->pieces[i].length;
    }
    return KVL_OK;
}

/* all bytes are here: do they belong to the value for sure? */
static void get_finish(kvl_flight_t *flight)
{
    kvl_job_t *job  = flight->job;
    uint64_t length = job->entries[flight->index].length;

    if (kvl_now_ns() < flight->lease_end_ns) {
        kvl_flight_end(flight, KVL_OK, length, NULL);
        return;
    }
    kvl_flight_end(flight, job->stop != KVL_OK ? job->stop : KVL_ERR_LEASE, length,
                   "the lease ran out while its bytes moved; get it again, or raise the node's "
                   "KVLANE_LEASE_MAX");
}

static void get_moved(kvl_move_t *move, kvl_status_t status)
{
    kvl_flight_t *flight = kvl_container(move, kvl_flight_t, move);
    kvl_job_t *job       = flight->job;
    kvl_cache_t *cache   = job->cache;
    bool up              = kvl_link_state(cache->link) == KVL_LINK_UP;

    cache->moving--;
    if (up) {
        kvl_lease_back(cache, &flight->lease, false);
    }
    if (status == KVL_OK) {
        get_finish(flight);
    } else if (!up) {
        kvl_flight_restart(flight); /* down() follows and says what becomes of it */
    } else {
        kvl_flight_end(flight, job->stop != KVL_OK ? job->stop : status, 0,
                       "its bytes could not be moved");
    }
}

static void get_wrong_length(kvl_flight_t *flight, uint64_t stored)
{
    char why[128];

    snprintf(why, sizeof(why),
             "%" PRIu64 " bytes are stored, its segments hold %" PRIu64
             "; get it with the stored length",
             stored, flight->job->entries[flight->index].length);
    kvl_flight_end(flight, KVL_ERR_LENGTH, stored, why);
}

static void found_item(kvl_flight_t *flight, const kvl_found_t *item,
                       const kvl_remote_region_t *region)
{
    const kvl_entry_t *entry = &flight->job->entries[flight->index];

    if (item->status != KVL_OK) {
        kvl_flight_refused(flight, (kvl_status_t)item->status, KVL_NODE_SAYS);
        return;
    }
    if (item->length != entry->length) {
        if (!item->has_inline) {
            kvl_lease_back(flight->job->cache, &item->lease, false);
        }
        get_wrong_length(flight, item->length);
        return;
    }
    if (item->has_inline) {
        kvl_status_t status = entry_scatter(entry, item->bytes);

        kvl_flight_end(flight, status, item->length, status == KVL_OK ? NULL : kvl_error_text());
        return;
    }
    flight->lease           = item->lease;
    flight->job->backoff_ns = 0;
    kvl_flight_move(flight, KVL_MOVE_GET, region, get_moved);
}

static kvl_status_t found_read(kvl_ask_t *ask, kvl_rbuf_t *body)
{
    const kvl_remote_region_t *region = NULL;
    kvl_found_t item;
    kvl_flight_t *flight;

    if (kvl_get_found(body, &item) != KVL_OK || kvl_status_check(item.status) != KVL_OK ||
        kvl_ask_peek(ask, item.index, &flight) != KVL_OK) {
        return KVL_ERR_PROTOCOL;
    }
    if (item.status == KVL_OK && !item.length) {
        return kvl_error(KVL_ERR_PROTOCOL, "FOUND: item %u has 0 bytes", item.index);
    }
    if (item.status == KVL_OK && !item.has_inline) {
        region = kvl_lease_region(ask->cache->link, &item.lease, item.length);
        if (!region) {
            return KVL_ERR_PROTOCOL;
        }
    }
    kvl_ask_take(ask, item.index);
    if (flight) {
        flight->lease_end_ns = ask->lease_end_ns;
        found_item(flight, &item, region);
    } else if (item.status == KVL_OK && !item.has_inline) {
        kvl_lease_back(ask->cache, &item.lease, false);
    }
    return KVL_OK;
}

static const kvl_ask_kind_t lookup_kind = {
    .request = KVL_MSG_LOOKUP,
    .answer  = KVL_MSG_FOUND,
    .add     = lookup_add,
    .read    = found_read,
    .lost    = kvl_flight_lost,
};

unsigned kvl_get_run(kvl_job_t *job)
{
    return kvl_ask_run(job, &lookup_kind);
}
