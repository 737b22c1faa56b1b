/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perftest/mover.h"

#include "tools/perftest/corrupt.h"
#include "tools/perftest/samples.h"

#include <signal.h>
#include <string.h>

#define BATCH     16u
#define START_MS  60000
#define FINISH_MS 60000

/* ---- the parent's side ---- */

int perf_mover_start(perf_child_t *mover, perf_client_t *client)
{
    const perf_options_t *options = client->options;
    char size[64], batch[16], corrupt[32], line[256];
    const char *argv[] = {options->argv[0],
                          "--child",
                          "--mover",
                          "-t",
                          "mixed",
                          "-s",
                          size,
                          "-b",
                          batch,
                          options->verify ? "-V" : "-q",
                          "--corrupt",
                          corrupt,
                          client->side.address,
                          NULL};
    int got;

    snprintf(size, sizeof(size), "%llu:%u", (unsigned long long)options->size, options->segments);
    snprintf(batch, sizeof(batch), "%u", BATCH);
    snprintf(corrupt, sizeof(corrupt), "%llu", (unsigned long long)options->corrupt);
    if (perf_child_start(mover, argv, -1)) {
        return -1;
    }
    got = perf_channel_receive(&mover->output, START_MS, line, sizeof(line));
    if (got != 1 || strcmp(line, "moving") != 0) {
        return perf_fail("the second client did not start");
    }
    return 0;
}

int perf_mover_finish(perf_child_t *mover, perf_result_t *result)
{
    unsigned long long items, bytes, verified, wrong;
    char line[512];

    kill(mover->pid, SIGUSR1);
    if (perf_channel_receive(&mover->output, FINISH_MS, line, sizeof(line)) != 1 ||
        sscanf(line, "moved %llu %llu %lf %lf %lf %lf %llu %llu", &items, &bytes, &result->seconds,
               &result->p50_us, &result->p99_us, &result->cpu_client, &verified, &wrong) != 8) {
        return perf_fail("the second client failed");
    }
    result->items          = items;
    result->bytes          = bytes;
    result->verified_bytes = verified;
    result->wrong_bytes    = wrong;
    return 0;
}

/* ---- the process ---- */

static volatile sig_atomic_t winding_down;

static void wind_down(int signal_number)
{
    (void)signal_number;
    winding_down = 1;
}

/* Round and round: a batch is put from its slots, and got back into the slots of a second pool. */
typedef struct {
    perf_client_t client;
    perf_items_t source, target;
    perf_samples_t samples;
    uint64_t moved; /* items */
    size_t reached; /* slots that were got at least once */
    double cpu;
} mover_t;

static int mover_step(mover_t *mover, kvl_cache_op_t op, const perf_items_t *items, size_t first,
                      size_t count)
{
    double begin = perf_now();

    if (perf_client_do(&mover->client, op, &items->items[first], count)) {
        return -1;
    }
    perf_samples_add(&mover->samples, perf_now() - begin);
    mover->moved += count;
    return 0;
}

static int mover_loop(mover_t *mover, unsigned batch)
{
    const size_t slots = mover->source.count;
    double cpu         = perf_cpu_self();
    size_t first       = 0;

    while (!winding_down && !perf_stopped()) {
        size_t count = slots - first < batch ? slots - first : batch;

        if (mover_step(mover, KVL_CACHE_PUT, &mover->source, first, count) ||
            mover_step(mover, KVL_CACHE_GET, &mover->target, first, count)) {
            return -1;
        }
        first          = first + count == slots ? 0 : first + count;
        mover->reached = first > mover->reached ? first : mover->reached;
        mover->reached = first == 0 ? slots : mover->reached;
    }
    mover->cpu = perf_cpu_self() - cpu;
    return 0;
}

static void mover_report(mover_t *mover)
{
    uint64_t verified = 0, wrong = 0;

    for (size_t i = 0; mover->client.options->verify && i < mover->reached; i++) {
        perf_corrupt(mover->client.options, &mover->target.pool, i, i);
        wrong += perf_pool_check(&mover->target.pool, i, i);
        verified += perf_pool_item_bytes(&mover->target.pool);
    }
    printf("moved %llu %llu %.9f %.3f %.3f %.9f %llu %llu\n", (unsigned long long)mover->moved,
           (unsigned long long)(mover->moved * perf_pool_item_bytes(&mover->source.pool)),
           mover->samples.sum, perf_samples_us(&mover->samples, 50),
           perf_samples_us(&mover->samples, 99), mover->cpu, (unsigned long long)verified,
           (unsigned long long)wrong);
    fflush(stdout);
}

static int mover_items(mover_t *mover, const perf_options_t *options)
{
    size_t slots = perf_client_slots(&mover->client);

    if (slots == 0) {
        return -1;
    }
    if (perf_items_init(&mover->source, &mover->client, slots, options->size, options->segments) ||
        perf_items_init(&mover->target, &mover->client, slots, options->size, options->segments)) {
        return -1;
    }
    for (size_t i = 0; i < slots; i++) {
        perf_pool_fill(&mover->source.pool, i, i);
        perf_pool_poison(&mover->target.pool, i, i);
    }
    return 0;
}

int perf_mover_main(const perf_options_t *options)
{
    struct sigaction action = {.sa_handler = wind_down};
    mover_t mover           = {0};
    int status;

    sigaction(SIGUSR1, &action, NULL);
    if (perf_client_open(&mover.client, options, "auto")) {
        return -1;
    }
    status = mover_items(&mover, options);
    if (status == 0) {
        perf_client_settle(&mover.client);
        printf("moving\n");
        fflush(stdout);
        status = mover_loop(&mover, options->batch);
    }
    if (status == 0 && !perf_stopped()) {
        mover_report(&mover);
    }
    if (mover.source.count > 0) {
        perf_client_forget(&mover.client, mover.source.count);
    }
    perf_items_cleanup(&mover.target);
    perf_items_cleanup(&mover.source);
    perf_samples_cleanup(&mover.samples);
    return perf_client_close(&mover.client) ? -1 : status;
}
