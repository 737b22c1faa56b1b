/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KVL_PERFTEST_REPORT_H
#define KVL_PERFTEST_REPORT_H

#include "tools/perftest/perftest.h"

/* On stdout: a line of JSON, of CSV, or of a table; the head comes with the @a first one. */
void perf_report(const perf_options_t *options, const perf_result_t *result, bool first);

static inline double perf_gbps(const perf_result_t *result)
{
    return result->seconds > 0 ? (double)result->bytes / PERF_GB / result->seconds : 0;
}

/* Is the result none to believe, though the test ended? Then @a text says why. */
bool perf_result_is_wrong(const perf_result_t *result, char *text, size_t size);

/* For -J: a line for a test that has no result. */
void perf_report_failure(const char *test, const char *why);

#endif
