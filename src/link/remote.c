/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/alloc.h"
#include "base/error.h"
#include "link/private.h"

#include <string.h>

/* The peer's regions: noted from HELLO_OK or imported later, unpacked for each endpoint, dropped with the
 * connection or one by one. */

static kvl_status_t region_key(kvl_link_t *link, kvl_link_region_t *region,
                               const kvl_wire_region_t *wire, unsigned rail)
{
    uint8_t *key = kvl_malloc(wire->rkey_length ? wire->rkey_length : 1);

    if (!key) {
        return kvl_error(KVL_ERR_NO_MEMORY, "link %s: out of memory", link->address);
    }
    memcpy(key, wire->rkey, wire->rkey_length);
    kvl_free(region->rkey[rail]);
    region->rkey[rail]        = key;
    region->rkey_length[rail] = wire->rkey_length;
    region->region.base[rail] = wire->base;
    return KVL_OK;
}

static void region_free(kvl_link_region_t *region)
{
    unsigned rail;

    for (rail = 0; rail < KVL_RAILS_MAX; rail++) {
        kvl_free(region->rkey[rail]);
    }
    *region = (kvl_link_region_t){.used = false};
}

static void regions_free(kvl_link_region_t *region, size_t count)
{
    size_t i;

    for (i = 0; i < count; i++) {
        region_free(&region[i]);
    }
}

/* @a count places in a row; they never move, others keep pointers to them */
static kvl_link_region_t *regions_place(kvl_link_t *link, size_t count)
{
    unsigned i, run = 0;

    if (!link->regions) {
        link->regions = kvl_calloc(KVL_WIRE_REGIONS_MAX, sizeof(*link->regions));
        if (!link->regions) {
            kvl_error(KVL_ERR_NO_MEMORY, "link %s: out of memory", link->address);
            return NULL;
        }
    }
    for (i = 0; i < KVL_WIRE_REGIONS_MAX && run < count; i++) {
        run = link->regions[i].used ? 0 : run + 1;
    }
    if (run < count) {
        kvl_error(KVL_ERR_LIMIT, "link %s: more than %u regions, or slices of regions, of one peer", link->address,
                  KVL_WIRE_REGIONS_MAX);
        return NULL;
    }
    if (link->region_count < i) {
        link->region_count = i;
    }
    return &link->regions[i - count];
}

/* the records of one region */
static kvl_status_t region_add(kvl_link_t *link, const kvl_wire_region_t *records, size_t count,
                               kvl_link_region_t **region_p)
{
    kvl_link_region_t *region;
    kvl_status_t status;
    size_t i;

    if (!kvl_region_slices_fit(records, count)) {
        return kvl_error(KVL_ERR_PROTOCOL, "region %u: its slices do not follow each other",
                         (unsigned)records->id);
    }
    region = regions_place(link, count);
    if (!region) {
        return link->regions ? KVL_ERR_LIMIT : KVL_ERR_NO_MEMORY;
    }
    for (i = 0; i < count; i++) {
        region[i] = (kvl_link_region_t){.region       = {.id   = records[i].id,
                                                         .slot = (unsigned)(&region[i] - link->regions)},
                                        .slice_length = records[i].length};
        status    = region_key(link, &region[i], &records[i], 0);
        if (status != KVL_OK) {
            regions_free(region, i);
            return status;
        }
        region[i].used = true;
        region->region.length += records[i].length;
    }
    region->region.by_message  = !records->rkey_length; /* device memory, say */
    region->slices             = (unsigned)count;
    region->region.slice_bytes = count > 1 ? records->length : 0;
    *region_p                  = region;
    return KVL_OK;
}

static kvl_status_t regions_add(kvl_link_t *link, const kvl_wire_region_t *records, size_t count)
{
    kvl_status_t status = KVL_OK;
    size_t i, slices;

    for (i = 0; status == KVL_OK && i < count; i += slices) {
        kvl_link_region_t *region;

        for (slices = 1; i + slices < count && records[i + slices].id == records[i].id; slices++) {
        }
        status = region_add(link, &records[i], slices, &region);
    }
    return status;
}

kvl_status_t kvl_link_regions_read(kvl_link_t *link, kvl_rbuf_t *body, size_t count)
{
    kvl_wire_region_t *records = kvl_calloc(count ? count : 1, sizeof(*records));
    kvl_status_t status        = KVL_OK;
    size_t i;

    if (!records) {
        return kvl_error(KVL_ERR_NO_MEMORY, "link %s: out of memory", link->address);
    }
    for (i = 0; status == KVL_OK && i < count; i++) {
        status = kvl_get_region(body, &records[i]);
    }
    if (status == KVL_OK) {
        status = regions_add(link, records, count);
    }
    kvl_free(records);
    return status;
}

kvl_status_t kvl_link_region_key(kvl_link_t *link, const kvl_wire_region_t *wire, unsigned rail)
{
    unsigned i;

    for (i = 0; i < link->region_count; i++) {
        kvl_link_region_t *region = &link->regions[i];

        if (region->used && region->region.id == wire->id && region->region.base[0] == wire->base &&
            region->slice_length == wire->length) {
            return region_key(link, region, wire, rail);
        }
    }
    return kvl_error(KVL_ERR_PROTOCOL, "a key for region %u, which HELLO_OK did not have",
                     (unsigned)wire->id);
}

void kvl_link_drop_regions(kvl_link_t *link)
{
    regions_free(link->regions, link->region_count);
    link->region_count = 0;
}

/* Memory that UCX did not allocate is not shared, also where the transport is shared memory: RMA for it
 * would be emulated by hidden messages, and a peer that dies in the middle of those takes this process
 * along. Our own messages do not. */
static kvl_status_t region_judge(kvl_link_t *link, const kvl_endpoint_t *endpoint,
                                 kvl_link_region_t *region)
{
    kvl_remote_region_t *remote = &region->region;
    void *address;

    if (!link->info.shared_memory ||
        kvl_rkey_pointer(endpoint->rkeys[remote->slot], remote->base[endpoint->rail], &address) ==
            KVL_OK) {
        return KVL_OK;
    }
    while (!region->slices) {
        region--;
    }
    region->region.by_message = true;
    if (kvl_engine_settings(link->engine)->mode == KVL_MODE_ONESIDED) {
        return kvl_error(KVL_ERR_UNSUPPORTED,
                         "KVLANE_MODE=onesided, but region %u of %s is not in memory that UCX shares; "
                         "use kvl_region_alloc() there, or KVLANE_MODE=auto",
                         (unsigned)remote->id, link->address);
    }
    return KVL_OK;
}

kvl_status_t kvl_link_unpack(kvl_link_t *link, kvl_endpoint_t *endpoint, kvl_link_region_t *region)
{
    unsigned slot = region->region.slot, rail = endpoint->rail;
    kvl_status_t status;

    if (slot >= endpoint->rkey_count) {
        kvl_rkey_t **grown = kvl_realloc(endpoint->rkeys, (slot + 1) * sizeof(*grown));

        if (!grown) {
            return kvl_error(KVL_ERR_NO_MEMORY, "link %s: out of memory", link->address);
        }
        memset(grown + endpoint->rkey_count, 0, (slot + 1 - endpoint->rkey_count) * sizeof(*grown));
        endpoint->rkeys      = grown;
        endpoint->rkey_count = slot + 1;
    }
    if (!region->rkey_length[rail] ||
        (link->put_mode == KVL_MODE_IS_MESSAGE && link->get_mode == KVL_MODE_IS_MESSAGE)) {
        return KVL_OK; /* by messages only */
    }
    status = kvl_rkey_unpack(endpoint->ep, region->rkey[rail], region->rkey_length[rail],
                             region->region.base[rail], region->slice_length,
                             &endpoint->rkeys[slot]);
    return status == KVL_OK ? region_judge(link, endpoint, region) : status;
}

const kvl_remote_region_t *kvl_link_region(const kvl_link_t *link, uint32_t id)
{
    unsigned i;

    for (i = 0; i < link->region_count; i++) {
        if (link->regions[i].slices && link->regions[i].region.id == id) {
            return &link->regions[i].region;
        }
    }
    return NULL;
}

static kvl_status_t region_unpack(kvl_link_t *link, kvl_link_region_t *region)
{
    kvl_status_t status = KVL_OK;
    unsigned i, j;

    for (i = 1; status == KVL_OK && i < link->line_count; i++) {
        for (j = 0; status == KVL_OK && j < region->slices; j++) {
            if (link->lines[i].endpoint.ep && !link->lines[i].closing) {
                status = kvl_link_unpack(link, &link->lines[i].endpoint, &region[j]);
            }
        }
    }
    return status;
}

kvl_status_t kvl_link_import(kvl_link_t *link, const kvl_wire_region_t *slices, size_t count,
                             const kvl_remote_region_t **region_p)
{
    kvl_link_region_t *region = NULL;
    kvl_status_t status;

    if (link->state != KVL_LINK_UP) {
        return kvl_error(KVL_ERR_UNREACHABLE, "link %s: not connected", link->address);
    }
    if (!slices->rkey_length && kvl_engine_settings(link->engine)->mode == KVL_MODE_ONESIDED) {
        return kvl_error(KVL_ERR_UNSUPPORTED, "KVLANE_MODE=onesided, but region %u of %s is device memory, which is "
                         "reached by messages; use KVLANE_MODE=auto", (unsigned)slices->id, link->address);
    }
    status = region_add(link, slices, count, &region);
    if (status == KVL_OK) {
        status = region_unpack(link, region);
    }
    if (status == KVL_OK) {
        *region_p = &region->region;
    } else if (region) {
        kvl_link_forget(link, &region->region);
    }
    return status;
}

void kvl_link_forget(kvl_link_t *link, const kvl_remote_region_t *remote)
{
    kvl_link_region_t *region = kvl_container(remote, kvl_link_region_t, region);
    unsigned i, slot;

    if (!link->region_count || !region->used) {
        return; /* the link went down meanwhile and dropped it */
    }
    for (i = 1; i < link->line_count; i++) {
        kvl_endpoint_t *endpoint = &link->lines[i].endpoint;

        for (slot = remote->slot; slot < remote->slot + region->slices && slot < endpoint->rkey_count; slot++) {
            kvl_rkey_destroy(endpoint->rkeys[slot]);
            endpoint->rkeys[slot] = NULL;
        }
    }
    regions_free(region, region->slices);
}
