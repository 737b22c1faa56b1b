/* SPDX-License-Identifier: BSD-3-Clause */
/* Times, and their percentiles. */
#ifndef KVL_PERFTEST_SAMPLES_H
#define KVL_PERFTEST_SAMPLES_H

#include <stddef.h>

typedef struct {
    double *values; /* seconds */
    size_t count, capacity;
    double sum;
} perf_samples_t;

/* Cannot fail: without memory for more it keeps a share of the samples. */
void perf_samples_add(perf_samples_t *samples, double seconds);
/* in microseconds; @a percent 0..100; 0 if there are none; sorts */
double perf_samples_us(perf_samples_t *samples, double percent);
void perf_samples_cleanup(perf_samples_t *samples);

#endif
