/* SPDX-License-Identifier: BSD-3-Clause */
/* The agent's own memory, registered with kvlane. */
#ifndef KVL_PLUGIN_NIXL_MEMORY_H
#define KVL_PLUGIN_NIXL_MEMORY_H

#include "nixl/report.h"

#include <kvlane/memory.h>

#include <memory>

namespace kvlane_nixl {

struct Region {
    kvl_region_t *handle;
    uintptr_t address;
    size_t length;
    std::string exported; /* what others import, if there are others */
    bool released = false;
};

struct LocalMemory final : Metadata {
    explicit LocalMemory(std::shared_ptr<Region> it) : Metadata(true), region(std::move(it)) {}
    const std::shared_ptr<Region> region;
};

/* DRAM, and VRAM where kvlane was built with CUDA */
Memories memories();

/* What is not SUCCESS was told. */
Status region_register(kvl_engine_t *engine, const std::string &agent, const BlobDescriptor &memory, Memory kind,
                       std::shared_ptr<Region> &out);
/* A peer may be reading or writing it at this moment: that ends soon, or is ended. NIXL's user takes the memory
 * back whatever is returned, so it is waited for. */
Status region_release(const std::string &agent, Region &region);

} /* namespace kvlane_nixl */

#endif
