/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KVL_PERFTEST_PLOT_H
#define KVL_PERFTEST_PLOT_H

#include "tools/perftest/perftest.h"

/* GB/s over sizes, a line per test. */
typedef struct {
    const char *test;
    uint64_t size;
    double gbps;
} perf_point_t;

/* Before anything is measured: can it be drawn? Leaves no file behind. */
int perf_plot_check(const char *path);

/* Draws into a PNG with gnuplot. Points of a test are neighbours. */
int perf_plot(const char *path, const perf_point_t *points, size_t count);

#endif
