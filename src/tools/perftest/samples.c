/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perftest/samples.h"

#include <stdlib.h>

void perf_samples_add(perf_samples_t *samples, double seconds)
{
    size_t capacity = samples->capacity == 0 ? 1024 : 2 * samples->capacity;
    double *values;

    samples->sum += seconds;
    if (samples->count == samples->capacity) {
        values = realloc(samples->values, capacity * sizeof(*values));
        if (values == NULL) {
            samples->count /= 2;
            return;
        }
        samples->values   = values;
        samples->capacity = capacity;
    }
    samples->values[samples->count++] = seconds;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

double perf_samples_us(perf_samples_t *samples, double percent)
{
    size_t index;

    if (samples->count == 0) {
        return 0;
    }
    qsort(samples->values, samples->count, sizeof(*samples->values), compare);
    index = (size_t)(percent / 100 * (double)(samples->count - 1) + 0.5);
    return samples->values[index] * 1e6;
}

void perf_samples_cleanup(perf_samples_t *samples)
{
    free(samples->values);
    *samples = (perf_samples_t){0};
}
