/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perftest/perftest.h"

#include <string.h>

#define PAGE (UINT64_C(11) << 18) /* 2.75 MiB */

/* defaults: bytes of a segment, segments of an item, items of a batch */
static const perf_test_t tests[] = {
    {"memcpy", "copies within this process: the limit of shared memory", PERF_PEER_NONE,
     perf_run_memcpy, PAGE, 1, 16, false},
    {"raw_am", "plain UCP: active messages into posted buffers", PERF_PEER_RAW, perf_run_raw, PAGE,
     1, 16, false},
    {"raw_put", "plain UCP: contiguous puts", PERF_PEER_RAW, perf_run_raw, PAGE, 1, 16, false},
    {"raw_get", "plain UCP: contiguous gets", PERF_PEER_RAW, perf_run_raw, PAGE, 1, 16, false},
    {"am_lat", "plain UCP: round trip of a small active message", PERF_PEER_RAW, perf_run_raw, 8, 1,
     1, true},
    {"put", "items to the node, on the data lane", PERF_PEER_NODE, perf_run_put, PAGE, 1, 16,
     false},
    {"get", "items from the node, on the data lane", PERF_PEER_NODE, perf_run_get, PAGE, 1, 16,
     false},
    {"sg_put", "items of many segments to the node, on the sg lane", PERF_PEER_NODE, perf_run_put,
     4296, 61, 32, false},
    {"sg_get", "items of many segments from the node, on the sg lane", PERF_PEER_NODE, perf_run_get,
     4296, 61, 32, false},
    {"exists", "lookups", PERF_PEER_NODE, perf_run_exists, 1, 1, 128, true},
    {"mixed", "lookups, idle and while another client puts and gets pages", PERF_PEER_NODE,
     perf_run_mixed, PAGE, 1, 128, true},
    {"retrieve", "a cached prefix: lookup, then get page by page", PERF_PEER_NODE,
     perf_run_retrieve, 0, 0, 8, false},
    {"trace", "a trace of requests: misses are put, hits are got", PERF_PEER_NODE, perf_run_trace,
     4096, 16, 1, true},
};

#define TESTS (sizeof(tests) / sizeof(tests[0]))

const perf_test_t *perf_test_find(const char *name)
{
    for (size_t i = 0; i < TESTS; i++) {
        if (strcmp(tests[i].name, name) == 0) {
            return &tests[i];
        }
    }
    return NULL;
}

void perf_test_list(FILE *stream)
{
    for (size_t i = 0; i < TESTS; i++) {
        fprintf(stream, "  %-9s  %s\n", tests[i].name, tests[i].doc);
    }
}
