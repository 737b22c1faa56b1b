/* SPDX-License-Identifier: BSD-3-Clause */
/* Lookups: batches of exists on keys of which every eighth is not there. */
#ifndef KVL_PERFTEST_PROBE_H
#define KVL_PERFTEST_PROBE_H

#include "tools/perftest/client.h"
#include "tools/perftest/loop.h"
#include "tools/perftest/samples.h"

typedef struct {
    perf_client_t *client;
    perf_items_t items;
    size_t next;
    uint64_t asked, wrong; /* keys; answers otherwise than they had to be */
} perf_probe_t;

/* Puts the keys that are there. Zeroed memory is accepted by cleanup. */
int perf_probe_init(perf_probe_t *probe, perf_client_t *client);
void perf_probe_cleanup(perf_probe_t *probe);
/* Batches, until @a batches are done or @a seconds have passed (0: no limit). */
int perf_probe_run(perf_probe_t *probe, uint64_t batches, double seconds, perf_samples_t *samples,
                   perf_progress_t *progress);

#endif
