/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KVL_PERFTEST_PROGRESS_H
#define KVL_PERFTEST_PROGRESS_H

#include "tools/perftest/perftest.h"

/* A line on a terminal for what takes over 2 s: what, share done (0..1), and GB/s so far. */
typedef struct {
    const char *what;
    double started, shown;
    bool on, used;
} perf_progress_t;

void perf_progress_begin(perf_progress_t *progress, const perf_options_t *options,
                         const char *what);
void perf_progress_show(perf_progress_t *progress, double share, double gbps);
void perf_progress_end(perf_progress_t *progress);

#endif
