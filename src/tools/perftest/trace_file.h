/* SPDX-License-Identifier: BSD-3-Clause */
/* A request trace: JSON lines {"timestamp": ms, "input_length": tokens, "output_length": tokens,
 * "hash_ids": [block, ...]}; equal ids are equal blocks of a prefix. */
#ifndef KVL_PERFTEST_TRACE_FILE_H
#define KVL_PERFTEST_TRACE_FILE_H

#include "tools/perftest/perftest.h"

typedef struct {
    uint64_t *ids; /* of all requests, one after the other */
    size_t *ends;  /* index behind the last id of each request */
    size_t requests, id_capacity, request_capacity;
    size_t longest; /* most ids of one request */
} perf_trace_t;

/* Reads at most @a limit requests (0: all). Zeroed memory is accepted by cleanup. */
int perf_trace_read(perf_trace_t *trace, const char *path, uint64_t limit);
void perf_trace_cleanup(perf_trace_t *trace);

#endif
