/* SPDX-License-Identifier: BSD-3-Clause */
/* A CUDA driver without a GPU: libfakecuda.so, which tests load where kvlane takes the driver from.
 *
 * Two devices. Their memory is mapped so that the CPU may not touch it; the driver's calls reach it by a second
 * mapping. What is put in a stream is done bit by bit when somebody asks for an event behind it, so that who does
 * not ask finds nothing done. A call that needs a context and comes from a thread without one fails, and counts.
 *
 * The hooks below are its own; a real driver has none of them. */
#ifndef KVL_TEST_FAKE_CUDA_H
#define KVL_TEST_FAKE_CUDA_H

typedef struct {
    unsigned strays;          /* calls from a thread that had no context, or another device's */
    unsigned retained;        /* primary contexts */
    unsigned copies, batches; /* of memory; calls for many */
    unsigned flawed;          /* copies whose host side was not registered */
    unsigned threads;         /* that had copies made */
    unsigned pinned;          /* ranges of host memory that are registered now */
    unsigned events;          /* that there are now */
    unsigned flushes;
} fakecuda_counts_t;

/* Of memory allocated from now on: the CPU may not touch it; may, as if a NIC could; may, but what it writes goes
 * astray, and it finds nothing, as between a GPU and a NIC that a broken bridge connects. */
typedef enum { FAKECUDA_CLOSED, FAKECUDA_OPEN, FAKECUDA_ASTRAY } fakecuda_mode_t;

/* "fakecuda_mode" */
typedef void (*fakecuda_mode_func_t)(fakecuda_mode_t mode);
/* "fakecuda_counts" */
typedef void (*fakecuda_counts_func_t)(fakecuda_counts_t *counts);
/* "fakecuda_fail": after @a skip copies more the next @a count fail */
typedef void (*fakecuda_fail_func_t)(unsigned skip, unsigned count);

#endif
