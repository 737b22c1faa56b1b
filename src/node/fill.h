/* SPDX-License-Identifier: BSD-3-Clause */
/* Brings the node's memory in: a thread of its own touches every page once, without changing it, while
 * the node serves already. Else the first put into each page would pay for the page fault. */
#ifndef KVL_NODE_FILL_H
#define KVL_NODE_FILL_H

#include "node/slab.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct {
    /* constant after start */
    struct {
        char *address;
        size_t length;
    } ranges[KVL_SLABS_MAX];
    unsigned count;
    pthread_t thread;
    bool started;
    _Atomic bool stop; /* atomic */
} kvl_fill_t;

/* zeroed memory is an idle one */
void kvl_fill_add(kvl_fill_t *fill, void *address, size_t length);
void kvl_fill_start(kvl_fill_t *fill);
void kvl_fill_stop(kvl_fill_t *fill); /* waits for the thread; also if it never started */

#endif
