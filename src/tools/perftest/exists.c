/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perftest/probe.h"

/* exists: how long a batch of lookups takes while the node does nothing else. */

static int measure(perf_client_t *client, perf_probe_t *probe, perf_result_t *result)
{
    const perf_options_t *options = client->options;
    uint64_t batches              = options->items / options->batch;
    perf_samples_t samples = {0}, warmup = {0};
    uint64_t warm =
        options->warmup == UINT64_MAX ? batches / 10 + 1 : options->warmup / options->batch;
    perf_progress_t progress;
    double client_cpu, server_cpu;
    int status;

    perf_progress_begin(&progress, options, "exists");
    status       = perf_probe_run(probe, warm, 0, &warmup, &progress);
    probe->asked = 0;
    server_cpu   = perf_side_cpu(&client->side);
    client_cpu   = perf_cpu_self();
    if (status == 0) {
        status = perf_probe_run(probe, batches, options->seconds_max, &samples, &progress);
    }
    result->cpu_client = perf_cpu_self() - client_cpu;
    result->cpu_server = server_cpu < 0 ? -1 : perf_side_cpu(&client->side) - server_cpu;
    perf_progress_end(&progress);
    result->items        = probe->asked;
    result->failed_items = probe->wrong;
    result->seconds      = samples.sum;
    result->p50_us       = perf_samples_us(&samples, 50);
    result->p99_us       = perf_samples_us(&samples, 99);
    perf_samples_cleanup(&samples);
    perf_samples_cleanup(&warmup);
    return status;
}

int perf_run_exists(const perf_options_t *options, perf_result_t *result)
{
    perf_client_t client;
    perf_probe_t probe;
    int status;

    if (perf_client_open(&client, options, "auto")) {
        return -1;
    }
    perf_client_describe(&client, KVL_CACHE_EXISTS, result);
    result->endpoints = 1;
    status            = perf_probe_init(&probe, &client);
    if (status == 0) {
        status = measure(&client, &probe, result);
    }
    perf_probe_cleanup(&probe);
    return perf_client_close(&client) ? -1 : status;
}
