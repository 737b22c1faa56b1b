/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "nixl/memory.h"

#include <unistd.h>

namespace kvlane_nixl {

namespace {

constexpr int BUSY_ROUNDS    = 5000;
constexpr useconds_t BUSY_US = 1000;

/* Is it what it is said to be? Host memory needs no proof: kvlane moves a GPU's memory under that name, too. */
std::string memory_doubt(const BlobDescriptor &memory, Memory kind)
{
    kvl_memory_t found;

    if (kind == DRAM) {
        return "";
    }
    if (kind != VRAM) {
        return "memory of type " + std::to_string(kind) + " cannot be registered; host memory (DRAM) and a GPU's (VRAM) can";
    }
    if (kvl_memory_query(reinterpret_cast<void *>(memory.address), memory.length, &found) != KVL_OK) {
        return kvl_error_text();
    }
    if (found.kind == KVL_MEMORY_HOST) {
        return "registered as VRAM, but host memory: register it as DRAM";
    }
    if (found.device != static_cast<int64_t>(memory.device)) {
        return "registered as memory of GPU " + std::to_string(memory.device) + ", but of GPU " +
               std::to_string(found.device);
    }
    return "";
}

} /* namespace */

Memories memories()
{
#ifdef KVL_HAVE_CUDA
    return {DRAM, VRAM};
#else
    return {DRAM};
#endif
}

Status region_register(kvl_engine_t *engine, const std::string &agent, const BlobDescriptor &memory, Memory kind,
                       std::shared_ptr<Region> &out)
{
    auto region       = std::make_shared<Region>();
    std::string doubt = memory_doubt(memory, kind);
    kvl_status_t status;

    if (!doubt.empty()) {
        complain(agent, doubt);
        return kind == DRAM || kind == VRAM ? INVALID_PARAM : NOT_SUPPORTED;
    }
    region->address = memory.address;
    region->length  = memory.length;
    status = kvl_region_register(engine, reinterpret_cast<void *>(memory.address), memory.length, &region->handle);
    if (status != KVL_OK) {
        complain(agent, kvl_error_text());
        return status_of(status);
    }
    out = region;
    return SUCCESS;
}

Status region_release(const std::string &agent, Region &region)
{
    kvl_status_t status = KVL_OK;
    int round;

    region.released = true;
    for (round = 0; round < BUSY_ROUNDS; round++) {
        status = kvl_region_release(region.handle);
        if (status != KVL_ERR_BUSY) {
            break;
        }
        usleep(BUSY_US);
    }
    if (status != KVL_OK) {
        complain(agent, std::string(kvl_error_text()) + "; it stays registered");
    }
    return status_of(status);
}

} /* namespace kvlane_nixl */
