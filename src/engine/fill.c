/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/fill.h"

#include "base/alloc.h"
#include "base/log.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* madvise(MADV_POPULATE_WRITE) faults pages in for writing and leaves their bytes alone, also those
 * that somebody writes at this moment. Where the kernel is older, or memory is short, nothing is lost
 * but time: the faults come later, one by one. */

/* How long stopping, or whoever maps memory meanwhile, may have to wait. The thread must not have a
 * lower priority than others: they would wait for it. */
#define STEP_BYTES (UINT64_C(2) << 20)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

static void *fill_main(void *arg)
{
    kvl_fill_t *fill = arg;
    uint64_t bytes   = 0;
    unsigned i;

    for (i = 0; i < fill->count; i++) {
        size_t at, left;

        for (at = 0; at < fill->ranges[i].length; at += STEP_BYTES, bytes += STEP_BYTES) {
            left = fill->ranges[i].length - at;
            if (atomic_load(&fill->stop) || (fill->max_bytes && bytes >= fill->max_bytes)) {
                return NULL;
            }
            if (madvise(fill->ranges[i].address + at, left < STEP_BYTES ? left : STEP_BYTES,
                        MADV_POPULATE_WRITE)) {
                kvl_debug("fill: memory comes in as it is used (%s)", strerror(errno));
                return NULL;
            }
        }
    }
    return NULL;
}

void kvl_fill_add(kvl_fill_t *fill, void *address, size_t length)
{
    if (fill->count == fill->capacity) {
        unsigned capacity       = fill->capacity ? 2 * fill->capacity : 16;
        kvl_fill_range_t *grown = kvl_realloc(fill->ranges, capacity * sizeof(*grown));

        if (!grown) {
            return;
        }
        fill->ranges   = grown;
        fill->capacity = capacity;
    }
    fill->ranges[fill->count++] = (kvl_fill_range_t){address, length};
}

void kvl_fill_start(kvl_fill_t *fill)
{
    atomic_store(&fill->stop, false);
    fill->started = fill->count && pthread_create(&fill->thread, NULL, fill_main, fill) == 0;
}

void kvl_fill_stop(kvl_fill_t *fill)
{
    if (fill->started) {
        atomic_store(&fill->stop, true);
        pthread_join(fill->thread, NULL);
        fill->started = false;
    }
    kvl_free(fill->ranges);
    fill->ranges = NULL;
    fill->count = fill->capacity = 0;
}
