/* SPDX-License-Identifier: BSD-3-Clause */
/* The timed loop that all moving tests share. Items are numbered from 0. A stretch is a run of
 * items, at most a pool's worth: it is prepared, moved batch by batch, and verified; only the
 * batches are timed. */
#ifndef KVL_PERFTEST_LOOP_H
#define KVL_PERFTEST_LOOP_H

#include "tools/perftest/perftest.h"
#include "tools/perftest/progress.h"

/* Each returns 0 or -1 (said). */
typedef struct {
    /* before a stretch: fill or poison buffers; NULL: nothing to do */
    int (*prepare)(void *arg, uint64_t first, uint64_t count);
    /* one batch: submit until complete */
    int (*batch)(void *arg, uint64_t first, uint64_t count);
    /* after a stretch: count verified and wrong bytes; NULL: nothing to do */
    int (*verify)(void *arg, uint64_t first, uint64_t count, perf_result_t *result);
    /* CPU seconds that the other side has used so far; negative: unknown; NULL: nobody there */
    double (*server_cpu)(void *arg);
} perf_loop_ops_t;

typedef struct {
    const perf_loop_ops_t *ops;
    void *arg;
    uint64_t stretch; /* items, 1 or more */
} perf_loop_t;

/* Warms up, runs, fills in result: items, bytes, seconds, percentiles, CPU, verified, wrong. */
int perf_loop_run(const perf_loop_t *loop, const perf_options_t *options, perf_result_t *result);

#endif
