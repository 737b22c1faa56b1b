/* SPDX-License-Identifier: BSD-3-Clause */
/* Brings memory in: threads of their own touch every page once, without changing it, while its owner
 * goes on. Else the first use of each page would pay for a page fault: 2 GB/s instead of 14 over shared
 * memory. A node fills its slabs, a link the mappings that its endpoints have of them. */
#ifndef KVL_ENGINE_FILL_H
#define KVL_ENGINE_FILL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KVL_FILL_THREADS 8

typedef struct {
    char *address;
    size_t length;
} kvl_fill_range_t;

/* zeroed memory is an idle one */
typedef struct {
    /* constant after start */
    kvl_fill_range_t *ranges;
    unsigned count, capacity;
    uint64_t max_bytes;  /* stops there: page tables cost memory too; 0: no bound */
    const char *name;    /* whose memory it is, when the log is to tell of each tenth; NULL: it is not */
    unsigned threads;    /* most of them; 0: half of the CPUs that the process may use */
    uint64_t total_bytes;
    pthread_t thread[KVL_FILL_THREADS];
    unsigned started;
    /* atomic */
    _Atomic bool stop;
    _Atomic uint64_t next;       /* step that nobody has taken */
    _Atomic uint64_t done_bytes; /* that are in */
} kvl_fill_t;

/* A range that cannot be noted for lack of memory comes in as it is used. */
void kvl_fill_add(kvl_fill_t *fill, void *address, size_t length);
void kvl_fill_start(kvl_fill_t *fill);
void kvl_fill_stop(kvl_fill_t *fill); /* waits for the threads; also if they never started */

#endif
