/* SPDX-License-Identifier: BSD-3-Clause */
/* The second client of the mixed test: a process that puts and gets pages without a pause. */
#ifndef KVL_PERFTEST_MOVER_H
#define KVL_PERFTEST_MOVER_H

#include "tools/perftest/client.h"

/* Starts it and waits until it moves. */
int perf_mover_start(perf_child_t *mover, perf_client_t *client);
/* Tells it to end; fills in what it moved: items, bytes, seconds, gbps, p50, p99, CPU, verified,
 * wrong. */
int perf_mover_finish(perf_child_t *mover, perf_result_t *result);

/* the process itself (--mover) */
int perf_mover_main(const perf_options_t *options);

#endif
