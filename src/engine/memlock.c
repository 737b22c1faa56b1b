/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/limits.h"
#include "engine/private.h"

/* Asked before anything is pinned on a rail of RDMA: what the driver says of a limit is one errno, or a line of
 * UCX's in the log, when half of the work is done. */

static unsigned engine_pinning_rails(const kvl_engine_t *engine)
{
    unsigned rails = 0, i;

    for (i = 0; i < engine->rail_count; i++) {
        rails += kvl_context_pins(engine->rails[i].context);
    }
    return rails;
}

kvl_status_t kvl_engine_may_pin(const kvl_engine_t *engine, uint64_t bytes, const char *what)
{
    unsigned rails = engine_pinning_rails(engine);
    uint64_t all   = bytes + KVL_LOCKING_QUEUES;
    kvl_locking_t locking;
    const kvl_list_t *node;

    if (!rails) {
        return KVL_OK;
    }
    for (node = engine->regions.next; node != &engine->regions; node = node->next) {
        const kvl_region_t *region = kvl_container(node, const kvl_region_t, link);

        all += region->device ? 0 : region->length;
    }
    kvl_locking_look(&locking);
    all = all > locking.pinned / rails ? all - locking.pinned / rails : 0; /* what is still to come */
    return kvl_locking_check(&locking, all > bytes ? all : bytes, rails, what);
}
