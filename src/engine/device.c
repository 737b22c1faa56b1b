/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/error.h"
#include "base/log.h"
#include "engine/private.h"

#include <inttypes.h>

/* What an engine needs once it has device memory: stages, from its first region of that on to its end, and what is
 * known of the path between each device and each rail. A path is direct once a self-test of it passed (link/selftest.c)
 * and goes through stages before, and for good after one that did not. The progress
 * thread, and whoever drives the engine, has the first device's context current while it turns: UCX may touch device
 * memory too. */

typedef struct {
    kvl_region_t *region;
    kvl_stages_t stages;
} made_t;

static kvl_status_t stages_make(kvl_engine_t *engine, kvl_device_t *device, made_t *made)
{
    kvl_region_t *region;
    kvl_status_t status = kvl_region_alloc(engine, engine->settings->stage_bytes, &region);

    if (status != KVL_OK) {
        return kvl_error(status, "device memory: %" PRIu64 " bytes to go through (KVLANE_STAGE_SIZE) are not to be had: %s",
                         engine->settings->stage_bytes, kvl_error_text());
    }
    status = kvl_device_pin(device, region->address, region->length);
    if (status != KVL_OK) {
        goto err_release;
    }
    status = kvl_stages_init(&made->stages, region->address, region->length, region->mems);
    if (status != KVL_OK) {
        goto err_unpin;
    }
    made->region = region;
    return KVL_OK;

err_unpin:
    kvl_device_unpin(device, region->address);
err_release:
    kvl_region_release(region);
    return status;
}

static void stages_unmake(kvl_device_t *device, made_t *made)
{
    kvl_device_unpin(device, made->region->address);
    kvl_stages_cleanup(&made->stages);
    kvl_region_release(made->region);
}

/* Made without the lock, for that may wait for the engine, which may be waiting for the lock in a callback; who made
 * them for nothing gives them back. */
kvl_status_t kvl_engine_device_use(kvl_engine_t *engine, kvl_device_t *device)
{
    unsigned number = kvl_device_number(device);
    made_t made     = {.region = NULL};

    if (!atomic_load_explicit(&engine->device, memory_order_acquire)) {
        kvl_status_t status = stages_make(engine, device, &made);

        if (status != KVL_OK) {
            return status;
        }
    }
    pthread_mutex_lock(&engine->device_lock);
    if (!engine->stage_region) {
        engine->stage_region = made.region;
        engine->stages       = made.stages;
        made.region          = NULL;
        atomic_store_explicit(&engine->device, device, memory_order_release);
    }
    if (!atomic_load(&engine->devices[number])) {
        atomic_store_explicit(&engine->devices[number], device, memory_order_release);
        atomic_fetch_add_explicit(&engine->device_count, 1, memory_order_release);
    }
    pthread_mutex_unlock(&engine->device_lock);
    if (made.region) {
        stages_unmake(device, &made);
    }
    return KVL_OK;
}

void kvl_engine_device_close(kvl_engine_t *engine)
{
    if (engine->stage_region) {
        kvl_device_unpin(atomic_load(&engine->device), engine->stage_region->address);
        kvl_stages_cleanup(&engine->stages);
    }
}

kvl_stages_t *kvl_engine_stages(kvl_engine_t *engine)
{
    return &engine->stages;
}

/* ---- paths ---- */

unsigned kvl_engine_device_count(const kvl_engine_t *engine)
{
    return atomic_load_explicit(&engine->device_count, memory_order_acquire);
}

const uint32_t *kvl_engine_direct(const kvl_engine_t *engine)
{
    return engine->direct;
}

kvl_device_t *kvl_engine_device_untested(kvl_engine_t *engine, unsigned rail)
{
    unsigned i;

    if (!kvl_engine_device_count(engine) || engine->settings->gpudirect == KVL_GPUDIRECT_OFF) {
        return NULL;
    }
    for (i = 0; i < KVL_DEVICES_MAX; i++) {
        kvl_device_t *device = atomic_load_explicit(&engine->devices[i], memory_order_acquire);

        if (device && !(engine->tested[i] >> rail & 1)) {
            return device;
        }
    }
    return NULL;
}

void kvl_engine_device_path(kvl_engine_t *engine, const kvl_device_t *device, unsigned rail, kvl_path_t path)
{
    unsigned number = kvl_device_number(device);

    engine->tested[number] |= 1u << rail;
    engine->failed[number] |= (uint32_t)(path == KVL_PATH_FAILED) << rail;
    engine->direct[number] |= (uint32_t)(path == KVL_PATH_DIRECT) << rail;
    if (path == KVL_PATH_DIRECT) {
        kvl_info("rail %s: %s: straight to and from its memory; the self-test passed",
                 kvl_engine_rail_name(engine, rail), kvl_device_name(device));
    }
}

static const char *path_name(const kvl_engine_t *engine, unsigned device, unsigned rail)
{
    if (engine->direct[device] >> rail & 1) {
        return "direct";
    }
    if (engine->settings->gpudirect == KVL_GPUDIRECT_OFF) {
        return "through host memory (KVLANE_GPUDIRECT=off)";
    }
    if (!kvl_context_takes_devices(engine->rails[rail].context)) {
        return "through host memory (UCX does not take device memory there)";
    }
    if (engine->failed[device] >> rail & 1) {
        return "through host memory (its self-test failed)";
    }
    return engine->tested[device] >> rail & 1 ? "through host memory (its self-test is under way, or took the connection along)"
                                              : "through host memory (not tested yet)";
}

void kvl_engine_devices_print(const kvl_engine_t *engine, FILE *stream, int json)
{
    const char *comma = "";
    unsigned i, rail;

    for (i = 0; i < KVL_DEVICES_MAX; i++) {
        const kvl_device_t *device = atomic_load_explicit(&engine->devices[i], memory_order_acquire);

        for (rail = 0; device && rail < engine->rail_count; rail++, comma = ", ") {
            fprintf(stream, json ? "%s{\"device\": \"%s\", \"rail\": \"%s\", \"path\": \"%s\"}" : "%.0s  %-12s %s: %s\n",
                    comma, kvl_device_name(device), kvl_engine_rail_name(engine, rail), path_name(engine, i, rail));
        }
    }
}
