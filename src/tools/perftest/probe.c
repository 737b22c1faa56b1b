/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perftest/probe.h"

#define BATCHES     16u /* different ones */
#define ABSENT      8u  /* every so manieth key is not there */
#define VALUE_BYTES 64u

static bool is_there(size_t index)
{
    return index % ABSENT != ABSENT - 1;
}

int perf_probe_init(perf_probe_t *probe, perf_client_t *client)
{
    size_t count = (size_t)BATCHES * client->options->batch, there = 0;
    perf_items_t values;
    int status;

    *probe = (perf_probe_t){.client = client};
    if (perf_items_init_keys(&probe->items, count)) {
        return -1;
    }
    status = perf_items_init(&values, client, count, VALUE_BYTES, 1);
    for (size_t i = 0; status == 0 && i < count; i++) {
        if (is_there(i)) {
            values.items[there] = values.items[i];
            there++;
        }
    }
    for (size_t first = 0; status == 0 && first < there; first += client->options->batch) {
        size_t rest = there - first;

        status = perf_client_do(client, KVL_CACHE_PUT, &values.items[first],
                                rest < client->options->batch ? rest : client->options->batch);
    }
    perf_items_cleanup(&values);
    return status;
}

void perf_probe_cleanup(perf_probe_t *probe)
{
    if (probe->items.count > 0) {
        perf_client_forget(probe->client, probe->items.count);
    }
    perf_items_cleanup(&probe->items);
}

static void count_answers(perf_probe_t *probe, const kvl_batch_t *batch, size_t first)
{
    for (size_t i = 0; i < kvl_batch_count(batch); i++) {
        kvl_status_t expected = is_there(first + i) ? KVL_OK : KVL_ERR_NOT_FOUND;

        probe->wrong += kvl_batch_item(batch, i, NULL) != expected;
        probe->asked++;
    }
}

int perf_probe_run(perf_probe_t *probe, uint64_t batches, double seconds, perf_samples_t *samples,
                   perf_progress_t *progress)
{
    const size_t size = probe->client->options->batch;
    double until      = seconds > 0 ? perf_now() + seconds : 0;

    for (uint64_t done = 0; done < batches && (until == 0 || perf_now() < until); done++) {
        if (perf_stopped()) {
            return perf_fail("stopped by a signal");
        }
        size_t first = probe->next;
        double begin = perf_now();
        kvl_batch_t *batch =
            perf_client_batch(probe->client, KVL_CACHE_EXISTS, &probe->items.items[first], size);

        if (batch == NULL) {
            return -1;
        }
        perf_samples_add(samples, perf_now() - begin);
        count_answers(probe, batch, first);
        kvl_batch_release(batch);
        probe->next = (first + size) % probe->items.count;
        perf_progress_show(progress, (double)done / (double)batches, 0);
    }
    return 0;
}
