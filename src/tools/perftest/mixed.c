/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perftest/mover.h"
#include "tools/perftest/probe.h"

#include <time.h>

/* mixed: how long a batch of lookups takes, first at an idle node, then while another client moves
 * pages. Items, bytes, seconds and percentiles of the result are the other client's. */

#define SECONDS   5.0 /* each part, at most, without -T */
#define SETTLE_MS 300

static int probe_part(perf_probe_t *probe, const char *what, double *p50_p, double *p99_p)
{
    const perf_options_t *options = probe->client->options;
    perf_samples_t samples        = {0};
    perf_progress_t progress;
    int status;

    perf_progress_begin(&progress, options, what);
    status = perf_probe_run(probe, options->items / options->batch,
                            options->seconds_max > 0 ? options->seconds_max : SECONDS, &samples,
                            &progress);
    perf_progress_end(&progress);
    *p50_p = perf_samples_us(&samples, 50);
    *p99_p = perf_samples_us(&samples, 99);
    perf_samples_cleanup(&samples);
    return status;
}

static int warm_up(perf_probe_t *probe)
{
    double ignored;

    return probe_part(probe, "mixed, warm-up", &ignored, &ignored);
}

static int beside_mover(perf_client_t *client, perf_probe_t *probe, perf_result_t *result)
{
    const struct timespec settle = {.tv_nsec = SETTLE_MS * 1000000l};
    perf_child_t mover           = {0};
    double server_cpu;
    int status;

    if (perf_mover_start(&mover, client)) {
        perf_child_stop(&mover);
        return -1;
    }
    nanosleep(&settle, NULL);
    server_cpu = perf_side_cpu(&client->side);
    status = probe_part(probe, "mixed, beside pages", &result->bulk_p50_us, &result->bulk_p99_us);
    if (status == 0) {
        status             = perf_mover_finish(&mover, result);
        result->cpu_server = server_cpu < 0 ? -1 : perf_side_cpu(&client->side) - server_cpu;
    }
    return perf_child_stop(&mover) ? -1 : status;
}

int perf_run_mixed(const perf_options_t *options, perf_result_t *result)
{
    perf_client_t client;
    perf_probe_t probe;
    int status;

    if (perf_client_open(&client, options, "auto")) {
        return -1;
    }
    perf_client_describe(&client, KVL_CACHE_PUT, result);
    result->endpoints = options->segments > 1 ? client.session.sg_endpoints : 1;
    status            = perf_probe_init(&probe, &client);
    if (status == 0) {
        perf_client_settle(&client);
        status = warm_up(&probe);
    }
    if (status == 0) {
        status = probe_part(&probe, "mixed, idle", &result->idle_p50_us, &result->idle_p99_us);
    }
    if (status == 0) {
        status = beside_mover(&client, &probe, result);
    }
    result->has_exists   = true;
    result->failed_items = probe.wrong;
    perf_probe_cleanup(&probe);
    return perf_client_close(&client) ? -1 : status;
}
