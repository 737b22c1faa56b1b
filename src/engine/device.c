/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/error.h"
#include "base/log.h"
#include "engine/private.h"

#include <inttypes.h>

/* What an engine needs once it has device memory: stages, from its first region of that on to its end. The progress
 * thread, and whoever drives the engine, has the first device's context current while it turns: UCX may touch device
 * memory too. */

static kvl_status_t stages_make(kvl_engine_t *engine, kvl_device_t *device)
{
    kvl_region_t *region;
    kvl_status_t status = kvl_region_alloc(engine, engine->settings->stage_bytes, &region);

    if (status != KVL_OK) {
        return kvl_error(status, "device memory: %" PRIu64 " bytes to go through (KVLANE_STAGE_SIZE) are not to be had: %s",
                         engine->settings->stage_bytes, kvl_error_text());
    }
    status = kvl_device_pin(device, region->address, region->length);
    if (status != KVL_OK) {
        kvl_region_release(region);
        return status;
    }
    status = kvl_stages_init(&engine->stages, region->address, region->length, region->mems);
    if (status != KVL_OK) {
        kvl_device_unpin(device, region->address);
        kvl_region_release(region);
        return status;
    }
    engine->stage_region = region;
    atomic_store_explicit(&engine->device, device, memory_order_release);
    return KVL_OK;
}

kvl_status_t kvl_engine_device_use(kvl_engine_t *engine, kvl_device_t *device)
{
    kvl_status_t status = KVL_OK;

    pthread_mutex_lock(&engine->device_lock);
    if (!engine->stage_region) {
        status = stages_make(engine, device);
    }
    pthread_mutex_unlock(&engine->device_lock);
    return status;
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
