/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "base/pin.h"
#include "engine/numa.h"
#include "engine/private.h"
#include "wire/wire.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Regions: one handle, one registration per rail, all rails or none. Registration is slow, so it
 * takes region_lock and not the engine's token: traffic goes on meanwhile. Its bytes are counted before, and
 * given back when the last registration is gone; once, since all rails pin the same pages. */

static void region_unmap(kvl_region_t *region)
{
    unsigned rail;

    for (rail = 0; rail < KVL_RAILS_MAX; rail++) {
        kvl_mem_destroy(region->mems[rail]);
        region->mems[rail] = NULL;
    }
}

static kvl_status_t region_map(kvl_region_t *region)
{
    kvl_engine_t *engine = region->engine;
    kvl_status_t status  = kvl_engine_may_pin(engine, region->length, "region");
    unsigned rail;

    for (rail = 0; status == KVL_OK && rail < engine->rail_count; rail++) {
        status = kvl_mem_create(engine->rails[rail].context, region->address, region->length, &region->mems[rail]);
        if (status == KVL_OK) {
            region->address = kvl_mem_address(region->mems[rail]); /* allocated: now it has one */
        }
    }
    if (status != KVL_OK) {
        region_unmap(region);
    }
    return status;
}

/* Device memory: with all rails, if each may reach it by itself; else it goes through stages, which needs none. */
static void region_map_device(kvl_region_t *region)
{
    kvl_engine_t *engine = region->engine;
    kvl_status_t status  = KVL_OK;
    unsigned rail;

    for (rail = 0; rail < engine->rail_count; rail++) {
        if (!kvl_context_takes_devices(engine->rails[rail].context) ||
            engine->settings->gpudirect == KVL_GPUDIRECT_OFF) {
            return;
        }
    }
    for (rail = 0; status == KVL_OK && rail < engine->rail_count; rail++) {
        status = kvl_mem_create_device(engine->rails[rail].context, region->address, region->length,
                                       &region->mems[rail]);
    }
    if (status != KVL_OK) {
        kvl_warn("%s: it goes through host memory; for %s and rails to reach it by themselves see "
                 "nvidia_peermem, or dmabuf", kvl_error_text(), kvl_device_name(region->device));
        region_unmap(region);
    }
}

/* UCX allocates it: on the engine's NUMA node, and in huge pages where the system gives them for the asking. */
static kvl_status_t region_alloc(kvl_region_t *region)
{
    kvl_engine_t *engine = region->engine;
    int node             = engine->numa_node;
    kvl_numa_t before    = {.changed = false};
    kvl_status_t status;
    int why = 0;

    if (node >= 0 && !kvl_numa_enter(&before, node)) { /* RDMA touches it at once */
        why = errno;
    }
    status = region_map(region);
    kvl_numa_leave(&before);
    if (node >= 0 && !why && status == KVL_OK && !kvl_numa_bind(node, region->address, region->length)) {
        why = errno;
    }
    if (why) {
        kvl_warn("region: memory cannot be bound to NUMA node %d (%s): it comes from where it is used; "
                 "KVLANE_NUMA_NODE=off if that is well", node, strerror(why));
        engine->numa_node = -1;
    }
    if (status == KVL_OK) {
        (void)madvise(region->address, region->length, MADV_HUGEPAGE);
    }
    return status;
}

/* The first touch of shared memory can fail, and then it kills (SIGBUS): touch all of it where it can be
 * told. Memory that UCX had from the heap is not zero yet. */
static kvl_status_t region_zero(const kvl_region_t *region)
{
    size_t page     = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)region->address + page - 1) / page * page;
    uintptr_t end   = ((uintptr_t)region->address + region->length) / page * page;

    if (first < end && madvise((void *)first, end - first, MADV_POPULATE_WRITE) && errno != EINVAL) {
        return kvl_error(KVL_ERR_NO_MEMORY, "region: %zu bytes of shared memory are not to be had (%s): "
                         "ask for less, or enlarge /dev/shm", region->length, strerror(errno));
    }
    memset(region->address, 0, region->length);
    return KVL_OK;
}

/* In a callback it does not wait: the engine would stand still, and with it whoever is to release. */
static kvl_status_t region_pin(kvl_engine_t *engine, size_t length)
{
    int64_t wait_ns = kvl_engine_is_inside(engine) ? 0 : engine->settings->timeout_ns;

    return kvl_pin_take(length, engine->settings->pin_max, kvl_time_add(kvl_now_ns(), wait_ns));
}

/* what counts against limits of locked memory */
static size_t region_pinned(const kvl_region_t *region)
{
    return region->device ? 0 : region->length;
}

/* @a device: of device memory at @a address */
static kvl_status_t region_create(kvl_engine_t *engine, void *address, size_t length, kvl_device_t *device,
                                  kvl_region_t **region_p)
{
    kvl_region_t *region;
    kvl_status_t status;

    status = device ? KVL_OK : region_pin(engine, length);
    if (status != KVL_OK) {
        return status;
    }
    region = kvl_calloc(1, sizeof(*region));
    if (!region) {
        kvl_pin_give(device ? 0 : length);
        return kvl_error(KVL_ERR_NO_MEMORY, "region: out of memory");
    }
    region->engine  = engine;
    region->address = address;
    region->length  = length;
    region->device  = device;
    pthread_mutex_lock(&engine->region_lock);
    if (device) {
        region_map_device(region);
    } else {
        status = address ? region_map(region) : region_alloc(region);
    }
    if (status == KVL_OK) {
        engine->last_region_id += engine->last_region_id == UINT32_MAX ? 2 : 1; /* 0 is none */
        region->id = engine->last_region_id;
        kvl_list_push_back(&engine->regions, &region->link);
    }
    pthread_mutex_unlock(&engine->region_lock);
    if (status != KVL_OK) {
        kvl_pin_give(region_pinned(region));
        kvl_free(region);
        return status;
    }
    *region_p = region;
    return KVL_OK;
}

static kvl_status_t range_find(const void *address, size_t length, kvl_device_t **device_p)
{
    if (!address || !length || (uintptr_t)address + length < (uintptr_t)address) {
        return kvl_error(KVL_ERR_INVALID, "region: %zu bytes at %p is no range of memory", length, address);
    }
    return kvl_device_find(address, length, device_p);
}

kvl_status_t kvl_memory_query(const void *address, size_t length, kvl_memory_t *memory_p)
{
    kvl_device_t *device;
    kvl_status_t status = memory_p ? range_find(address, length, &device)
                                   : kvl_error(KVL_ERR_INVALID, "kvl_memory_query: memory_p is NULL");

    if (status == KVL_OK) {
        *memory_p = device ? (kvl_memory_t){KVL_MEMORY_CUDA, (int)kvl_device_number(device)}
                           : (kvl_memory_t){KVL_MEMORY_HOST, -1};
    }
    return status;
}

kvl_status_t kvl_region_register(kvl_engine_t *engine, void *address, size_t length,
                                 kvl_region_t **region_p)
{
    kvl_device_t *device;
    kvl_status_t status;

    if (!engine || !region_p) {
        return kvl_error(KVL_ERR_INVALID, "region: engine or region_p is NULL");
    }
    status = range_find(address, length, &device);
    if (status == KVL_OK && device) {
        status = kvl_engine_device_use(engine, device);
    }
    return status == KVL_OK ? region_create(engine, address, length, device, region_p) : status;
}

kvl_status_t kvl_region_alloc_untouched(kvl_engine_t *engine, size_t length, kvl_region_t **region_p)
{
    if (!engine || !region_p || !length) {
        return kvl_error(KVL_ERR_INVALID, "region: engine or region_p is NULL, or length is 0");
    }
    return region_create(engine, NULL, length, NULL, region_p);
}

kvl_status_t kvl_region_alloc(kvl_engine_t *engine, size_t length, kvl_region_t **region_p)
{
    kvl_region_t *region;
    kvl_status_t status = kvl_region_alloc_untouched(engine, length, region_p ? &region : NULL);

    if (status != KVL_OK) {
        return status;
    }
    status = region_zero(region);
    if (status != KVL_OK) {
        kvl_region_release(region);
        return status;
    }
    *region_p = region;
    return KVL_OK;
}

void *kvl_region_address(const kvl_region_t *region)
{
    return region ? region->address : NULL;
}

size_t kvl_region_length(const kvl_region_t *region)
{
    return region ? region->length : 0;
}

static void region_destroy(kvl_region_t *region)
{
    kvl_list_remove(&region->link);
    region_unmap(region);
    kvl_pin_give(region_pinned(region));
    kvl_free(region);
}

kvl_status_t kvl_region_release(kvl_region_t *region)
{
    kvl_engine_t *engine;

    if (!region) {
        return KVL_OK;
    }
    engine = region->engine;
    if (kvl_engine_is_foreign(engine, "kvl_region_release")) {
        return KVL_OK;
    }
    /* the token too: no message-mode op of a peer may find it while it goes */
    kvl_engine_enter(engine);
    if (atomic_load(&region->users)) {
        kvl_engine_leave(engine);
        return kvl_error(KVL_ERR_BUSY, "region %" PRIu32 ": a batch or a peer still uses it; wait for "
                         "the batch, or cancel it", region->id);
    }
    pthread_mutex_lock(&engine->region_lock);
    region_destroy(region);
    pthread_mutex_unlock(&engine->region_lock);
    kvl_engine_leave(engine);
    return KVL_OK;
}

unsigned kvl_region_slices(const kvl_region_t *region)
{
    return region->device ? 1 : kvl_mem_slices(region->mems[0]);
}

kvl_status_t kvl_region_record(const kvl_region_t *region, unsigned rail, unsigned slice,
                               uint8_t rkey[KVL_WIRE_RKEY_MAX], kvl_wire_region_t *record)
{
    const kvl_mem_t *mem = region->mems[rail];
    size_t rkey_length   = KVL_WIRE_RKEY_MAX;
    kvl_status_t status;
    size_t length;
    void *base;

    if (region->device) { /* without a key: peers reach it by messages, and we know how */
        *record = (kvl_wire_region_t){.id     = region->id,
                                      .rail   = (uint8_t)rail,
                                      .base   = (uintptr_t)region->address,
                                      .length = region->length,
                                      .rkey   = rkey};
        return KVL_OK;
    }
    status = kvl_mem_pack(mem, slice, rkey, &rkey_length);
    if (status == KVL_OK) {
        kvl_mem_slice(mem, slice, &base, &length);
        *record = (kvl_wire_region_t){.id          = region->id,
                                      .rail        = (uint8_t)rail,
                                      .base        = (uintptr_t)base,
                                      .length      = length,
                                      .rkey_length = (uint16_t)rkey_length,
                                      .rkey        = rkey};
    }
    return status;
}

kvl_mem_t *kvl_region_mem(const kvl_region_t *region, unsigned rail, const void *address, size_t length)
{
    kvl_mem_t *mem = region->mems[rail];

    return length <= kvl_mem_left(mem, address) ? mem : NULL;
}

/* Writes the blob, if it fits; @a length_p: room, then the length it takes. */
static kvl_status_t region_blob(const kvl_region_t *region, kvl_region_blob_t *out,
                                uint8_t (*rkeys)[KVL_WIRE_RKEY_MAX], void *blob, size_t *length_p)
{
    size_t room = *length_p;
    unsigned i;

    out->nonce = kvl_engine_nonce(region->engine);
    out->count = kvl_region_slices(region);
    for (i = 0; i < out->count; i++) {
        kvl_status_t status = kvl_region_record(region, 0, i, rkeys[i], &out->slices[i]);

        if (status != KVL_OK) {
            return status;
        }
    }
    *length_p = kvl_region_blob_size(out);
    if (room < *length_p || !blob) {
        return kvl_error(KVL_ERR_LIMIT, "region %" PRIu32 ": its blob takes %zu bytes, %zu given",
                         region->id, *length_p, room);
    }
    kvl_put_region_blob(blob, room, out);
    return KVL_OK;
}

kvl_status_t kvl_region_export(kvl_region_t *region, void *blob, size_t *length_p)
{
    uint8_t(*rkeys)[KVL_WIRE_RKEY_MAX];
    kvl_region_blob_t out;
    kvl_status_t status;
    unsigned slices;

    if (!region || !length_p) {
        return kvl_error(KVL_ERR_INVALID, "kvl_region_export: region or length_p is NULL");
    }
    slices = kvl_region_slices(region);
    if (slices > KVL_WIRE_REGIONS_MAX) {
        return kvl_error(KVL_ERR_LIMIT, "region %" PRIu32 ": %u slices, over %u; KVLANE_REG_SLICE makes them longer",
                         region->id, slices, KVL_WIRE_REGIONS_MAX);
    }
    rkeys = kvl_malloc(slices * sizeof(*rkeys));
    if (!rkeys) {
        return kvl_error(KVL_ERR_NO_MEMORY, "region: out of memory");
    }
    status = region_blob(region, &out, rkeys, blob, length_p);
    kvl_free(rkeys);
    if (status != KVL_OK) {
        return status;
    }
    kvl_engine_enter(region->engine);
    region->exported = true;
    kvl_engine_leave(region->engine);
    return KVL_OK;
}

kvl_region_t *kvl_region_find(kvl_engine_t *engine, const void *address, size_t length)
{
    uintptr_t first = (uintptr_t)address;
    kvl_region_t *found = NULL;
    kvl_list_t *node;

    pthread_mutex_lock(&engine->region_lock);
    for (node = engine->regions.next; node != &engine->regions && !found; node = node->next) {
        kvl_region_t *region = kvl_container(node, kvl_region_t, link);
        uintptr_t base = (uintptr_t)region->address;

        if (first >= base && first - base <= region->length &&
            length <= region->length - (first - base)) {
            found = region;
        }
    }
    pthread_mutex_unlock(&engine->region_lock);
    return found;
}

kvl_region_t *kvl_region_by_id(kvl_engine_t *engine, uint64_t id)
{
    kvl_region_t *found = NULL;
    kvl_list_t *node;

    pthread_mutex_lock(&engine->region_lock);
    for (node = engine->regions.next; node != &engine->regions && !found; node = node->next) {
        kvl_region_t *region = kvl_container(node, kvl_region_t, link);

        if (region->id == id && region->exported) {
            found = region;
        }
    }
    pthread_mutex_unlock(&engine->region_lock);
    return found;
}

void kvl_engine_release_regions(kvl_engine_t *engine)
{
    while (!kvl_list_empty(&engine->regions)) {
        region_destroy(kvl_container(engine->regions.next, kvl_region_t, link));
    }
}
