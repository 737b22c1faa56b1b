/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/fill.h"

#include "base/alloc.h"
#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

/* madvise(MADV_POPULATE_WRITE) faults pages in for writing and leaves their bytes alone, also those
 * that somebody writes at this moment. Where the kernel is older, or memory is short, nothing is lost
 * but time: the faults come later, one by one. */

/* How long stopping, or whoever maps memory meanwhile, may have to wait. The threads must not have a
 * lower priority than others: they would wait for them. */
#define STEP_BYTES (UINT64_C(2) << 20)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* the range of a step, its first byte and its length; false: there is no such step */
static bool fill_step(const kvl_fill_t *fill, uint64_t step, char **address_p, size_t *length_p)
{
    unsigned i;

    if (fill->max_bytes && step >= fill->max_bytes / STEP_BYTES) {
        return false;
    }
    for (i = 0; i < fill->count; i++) {
        const kvl_fill_range_t *range = &fill->ranges[i];
        uint64_t steps                = (range->length + STEP_BYTES - 1) / STEP_BYTES;

        if (step < steps) {
            size_t left = range->length - step * STEP_BYTES;

            *address_p = range->address + step * STEP_BYTES;
            *length_p  = left < STEP_BYTES ? left : STEP_BYTES;
            return true;
        }
        step -= steps;
    }
    return false;
}

static void fill_done(kvl_fill_t *fill, size_t length)
{
    uint64_t before = atomic_fetch_add(&fill->done_bytes, length), total = fill->total_bytes;
    unsigned tenth  = (unsigned)((before + length) / ((total + 9) / 10));

    if (fill->name && (tenth > before / ((total + 9) / 10) || before + length == total)) {
        kvl_info("%s: %" PRIu64 " of %" PRIu64 " MiB of memory are in", fill->name, (before + length) >> 20,
                 total >> 20);
    }
}

static void *fill_main(void *arg)
{
    kvl_fill_t *fill = arg;
    size_t length;
    char *address;

    while (!atomic_load(&fill->stop) && fill_step(fill, atomic_fetch_add(&fill->next, 1), &address, &length)) {
        if (madvise(address, length, MADV_POPULATE_WRITE)) {
            kvl_debug("fill: memory comes in as it is used (%s)", strerror(errno));
            return NULL;
        }
        fill_done(fill, length);
    }
    return NULL;
}

static unsigned fill_threads(const kvl_fill_t *fill)
{
    cpu_set_t cpus;
    unsigned half = sched_getaffinity(0, sizeof(cpus), &cpus) ? 1 : ((unsigned)CPU_COUNT(&cpus) + 1) / 2;
    unsigned most = fill->threads ? fill->threads : half;

    return most < KVL_FILL_THREADS ? most : KVL_FILL_THREADS;
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
    unsigned threads = fill_threads(fill), i;

    fill->total_bytes = 0;
    for (i = 0; i < fill->count; i++) {
        fill->total_bytes += fill->ranges[i].length;
    }
    if (fill->max_bytes && fill->total_bytes > fill->max_bytes) {
        fill->total_bytes = fill->max_bytes;
    }
    atomic_store(&fill->stop, false);
    atomic_store(&fill->next, 0);
    atomic_store(&fill->done_bytes, 0);
    for (fill->started = 0; fill->total_bytes && fill->started < threads; fill->started++) {
        if (pthread_create(&fill->thread[fill->started], NULL, fill_main, fill)) {
            break;
        }
    }
}

void kvl_fill_stop(kvl_fill_t *fill)
{
    atomic_store(&fill->stop, true);
    while (fill->started) {
        pthread_join(fill->thread[--fill->started], NULL);
    }
    kvl_free(fill->ranges);
    fill->ranges = NULL;
    fill->count = fill->capacity = 0;
}
