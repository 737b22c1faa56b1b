/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/alloc.h"
#include "base/log.h"
#include "link/private.h"

#include <string.h>
#include <sys/mman.h>

/* Over shared memory each endpoint has a mapping of its own of the peer's regions, and the first touch
 * of each page in each of them costs a page fault: bytes move at 2 GB/s instead of 15. A thread of the
 * link fills the mappings in small steps once it is up, up to a bound, since page tables cost memory too
 * (2 MiB a GiB). It touches nothing but the mappings, and is gone before the first key is destroyed.
 * Whatever goes wrong does not matter: then the faults come later. */

#define STEP_BYTES (UINT64_C(4) << 20)
#define ALL_BYTES  (UINT64_C(32) << 30)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; older kernels answer EINVAL */
#endif

static void *prefault_main(void *arg)
{
    kvl_prefault_t *prefault = arg;
    uint64_t bytes = 0, at;
    unsigned i;

    for (i = 0; i < prefault->count; i++) {
        const kvl_iov_t *range = &prefault->ranges[i];

        for (at = 0; at < range->length && bytes < ALL_BYTES; at += STEP_BYTES, bytes += STEP_BYTES) {
            uint64_t left = range->length - at;

            if (atomic_load(&prefault->stop) ||
                madvise((char *)range->address + at, left < STEP_BYTES ? left : STEP_BYTES,
                        MADV_POPULATE_WRITE)) {
                return NULL;
            }
        }
    }
    return NULL;
}

static void prefault_collect(kvl_link_t *link)
{
    kvl_prefault_t *prefault = &link->prefault;
    unsigned line, i;

    for (i = 0; i < link->region_count; i++) {
        const kvl_remote_region_t *region = &link->regions[i].region;

        for (line = 1; line < link->line_count; line++) { /* line 0 is ctrl, which has no keys */
            kvl_endpoint_t *endpoint = &link->lines[line].endpoint;
            void *address;

            if (region->slot < endpoint->rkey_count && endpoint->rkeys[region->slot] &&
                kvl_rkey_pointer(endpoint->rkeys[region->slot], region->base[endpoint->rail],
                                 &address) == KVL_OK &&
                !((uintptr_t)address & 4095)) {
                prefault->ranges[prefault->count++] = (kvl_iov_t){address, region->length};
            }
        }
    }
}

void kvl_link_prefault_start(kvl_link_t *link)
{
    kvl_prefault_t *prefault = &link->prefault;

    if (!link->info.shared_memory || link->put_mode != KVL_MODE_IS_ONESIDED || !link->region_count) {
        return;
    }
    prefault->count  = 0;
    prefault->ranges = kvl_calloc((size_t)link->region_count * link->line_count, sizeof(*prefault->ranges));
    if (!prefault->ranges) {
        return;
    }
    prefault_collect(link);
    atomic_store(&prefault->stop, false);
    prefault->running = !pthread_create(&prefault->thread, NULL, prefault_main, prefault);
}

void kvl_link_prefault_stop(kvl_link_t *link)
{
    kvl_prefault_t *prefault = &link->prefault;

    if (prefault->running) {
        atomic_store(&prefault->stop, true);
        pthread_join(prefault->thread, NULL);
        prefault->running = false;
    }
    kvl_free(prefault->ranges);
    prefault->ranges = NULL;
}
