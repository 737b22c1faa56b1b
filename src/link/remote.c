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

kvl_status_t kvl_link_region_add(kvl_link_t *link, const kvl_wire_region_t *wire,
                               kvl_link_region_t **region_p)
{
    kvl_link_region_t *region = NULL, *grown;
    kvl_status_t status;
    unsigned i;

    for (i = 0; i < link->region_count && !region; i++) {
        if (!link->regions[i].used) {
            region = &link->regions[i];
        }
    }
    if (!region) {
        if (link->region_count == KVL_WIRE_REGIONS_MAX) {
            return kvl_error(KVL_ERR_LIMIT, "link %s: more than %u regions of one peer", link->address,
                             KVL_WIRE_REGIONS_MAX);
        }
        if (!link->regions) { /* never moves: others keep pointers into it */
            grown = kvl_calloc(KVL_WIRE_REGIONS_MAX, sizeof(*grown));
            if (!grown) {
                return kvl_error(KVL_ERR_NO_MEMORY, "link %s: out of memory", link->address);
            }
            link->regions = grown;
        }
        region = &link->regions[link->region_count++];
    }
    *region = (kvl_link_region_t){.region = {.id     = wire->id,
                                             .slot   = (unsigned)(region - link->regions),
                                             .length = wire->length}};
    status  = region_key(link, region, wire, 0);
    if (status == KVL_OK) {
        region->used = true;
        *region_p    = region;
    }
    return status;
}

kvl_status_t kvl_link_region_key(kvl_link_t *link, const kvl_wire_region_t *wire, unsigned rail)
{
    unsigned i;

    for (i = 0; i < link->region_count; i++) {
        kvl_link_region_t *region = &link->regions[i];

        if (region->used && region->region.id == wire->id && region->region.length == wire->length) {
            return region_key(link, region, wire, rail);
        }
    }
    return kvl_error(KVL_ERR_PROTOCOL, "a key for region %u, which HELLO_OK did not have",
                     (unsigned)wire->id);
}

static void region_free(kvl_link_region_t *region)
{
    unsigned rail;

    for (rail = 0; rail < KVL_RAILS_MAX; rail++) {
        kvl_free(region->rkey[rail]);
    }
    *region = (kvl_link_region_t){.used = false};
}

void kvl_link_drop_regions(kvl_link_t *link)
{
    unsigned i;

    for (i = 0; i < link->region_count; i++) {
        region_free(&link->regions[i]);
    }
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
    remote->by_message = true;
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
                             region->region.base[rail], region->region.length,
                             &endpoint->rkeys[slot]);
    return status == KVL_OK ? region_judge(link, endpoint, region) : status;
}

const kvl_remote_region_t *kvl_link_region(const kvl_link_t *link, uint32_t id)
{
    unsigned i;

    for (i = 0; i < link->region_count; i++) {
        if (link->regions[i].used && link->regions[i].region.id == id) {
            return &link->regions[i].region;
        }
    }
    return NULL;
}

kvl_status_t kvl_link_import(kvl_link_t *link, const kvl_wire_region_t *wire,
                             const kvl_remote_region_t **region_p)
{
    kvl_link_region_t *region = NULL;
    kvl_status_t status;
    unsigned i;

    if (link->state != KVL_LINK_UP) {
        return kvl_error(KVL_ERR_UNREACHABLE, "link %s: not connected", link->address);
    }
    status = kvl_link_region_add(link, wire, &region);
    for (i = 1; status == KVL_OK && i < link->line_count; i++) {
        if (link->lines[i].endpoint.ep && !link->lines[i].closing) {
            status = kvl_link_unpack(link, &link->lines[i].endpoint, region);
        }
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
    unsigned i;

    if (!link->region_count || !region->used) {
        return; /* the link went down meanwhile and dropped it */
    }
    for (i = 1; i < link->line_count; i++) {
        kvl_endpoint_t *endpoint = &link->lines[i].endpoint;

        if (remote->slot < endpoint->rkey_count) {
            kvl_rkey_destroy(endpoint->rkeys[remote->slot]);
            endpoint->rkeys[remote->slot] = NULL;
        }
    }
    region_free(region);
}
