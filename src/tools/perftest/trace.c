/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perftest/client.h"
#include "tools/perftest/corrupt.h"
#include "tools/perftest/loop.h"
#include "tools/perftest/samples.h"
#include "tools/perftest/trace_file.h"

#include <stdlib.h>

/* trace: replays the requests of a trace one after the other, as fast as it goes. Of each request
 * all blocks are looked up; those of the prefix that is there are got (hits); of the rest, those
 * that are missing are put. A block's bytes follow from its id, so that every hit is verified. The
 * blocks of a request use neighbouring slots of a pool; the next request uses the next ones. */

typedef struct {
    perf_client_t client;
    perf_trace_t trace;
    perf_items_t items;
    perf_result_t *result;
    perf_samples_t requests, lookups, gets, puts;
    size_t next; /* slot */
    bool *there; /* answers of one lookup */
    double cpu;  /* of this process, timed parts */
} replay_t;

/* ---- one request ---- */

/* Times one operation on @a count items; the complete batch, or NULL (said). */
static kvl_batch_t *timed_batch(replay_t *replay, kvl_cache_op_t op, const kvl_item_t *items,
                                size_t count, double *seconds_p)
{
    double cpu = perf_cpu_self(), begin = perf_now();
    kvl_batch_t *batch = perf_client_batch(&replay->client, op, items, count);

    *seconds_p += perf_now() - begin;
    replay->cpu += perf_cpu_self() - cpu;
    return batch;
}

static int look_up(replay_t *replay, const kvl_item_t *items, size_t count, double *seconds_p)
{
    kvl_batch_t *batch = timed_batch(replay, KVL_CACHE_EXISTS, items, count, seconds_p);

    if (batch == NULL) {
        return -1;
    }
    for (size_t i = 0; i < count; i++) {
        kvl_status_t status = kvl_batch_item(batch, i, NULL);

        replay->there[i] = status == KVL_OK;
        if (status != KVL_OK && status != KVL_ERR_NOT_FOUND) {
            perf_fail("lookup: %s: %s", kvl_status_name(status), kvl_batch_cause(batch));
            kvl_batch_release(batch);
            return -1;
        }
    }
    kvl_batch_release(batch);
    return 0;
}

static void verify_hit(replay_t *replay, size_t slot, uint64_t id)
{
    const perf_pool_t *pool = &replay->items.pool;

    perf_corrupt(replay->client.options, pool, slot, replay->result->hits);
    replay->result->wrong_bytes += perf_pool_check(pool, slot, id);
    replay->result->verified_bytes += perf_pool_item_bytes(pool);
}

/* Gets blocks [0, count); how many of them came in *got_p: a block may be evicted meanwhile. */
static int get_hits(replay_t *replay, size_t slot, const uint64_t *ids, size_t count, size_t *got_p,
                    double *seconds_p)
{
    const bool verify = replay->client.options->verify;
    kvl_batch_t *batch;

    *got_p = 0;
    if (count == 0) {
        return 0;
    }
    for (size_t i = 0; verify && i < count; i++) {
        perf_pool_poison(&replay->items.pool, slot + i, ids[i]);
    }
    batch = timed_batch(replay, KVL_CACHE_GET, &replay->items.items[slot], count, seconds_p);
    if (batch == NULL) {
        return -1;
    }
    for (size_t i = 0; i < count; i++) {
        kvl_status_t status = kvl_batch_item(batch, i, NULL);

        if (status == KVL_OK) {
            replay->result->hits++;
            ++*got_p;
            if (verify) {
                verify_hit(replay, slot + i, ids[i]);
            }
        } else if (status != KVL_ERR_NOT_FOUND) {
            perf_fail("get: %s: %s", kvl_status_name(status), kvl_batch_cause(batch));
            kvl_batch_release(batch);
            return -1;
        } else {
            replay->there[i] = false;
        }
    }
    kvl_batch_release(batch);
    return 0;
}

/* Puts what is missing of blocks [0, count). */
static int put_misses(replay_t *replay, size_t slot, const uint64_t *ids, size_t count,
                      size_t *put_p, double *seconds_p)
{
    kvl_item_t *missing = calloc(count, sizeof(*missing));
    kvl_batch_t *batch  = NULL;
    kvl_status_t status = KVL_OK;

    *put_p = 0;
    if (missing == NULL) {
        return perf_fail("no memory for %zu blocks", count);
    }
    for (size_t i = 0; i < count; i++) {
        if (!replay->there[i]) {
            perf_pool_fill(&replay->items.pool, slot + i, ids[i]);
            missing[(*put_p)++] = replay->items.items[slot + i];
        }
    }
    if (*put_p > 0) {
        batch  = timed_batch(replay, KVL_CACHE_PUT, missing, *put_p, seconds_p);
        status = batch == NULL ? KVL_ERR_CANCELED : kvl_batch_test(batch);
    }
    if (batch != NULL) {
        if (status != KVL_OK) {
            perf_fail("put: %s: %s", kvl_status_name(status), kvl_batch_cause(batch));
        }
        kvl_batch_release(batch);
    }
    free(missing);
    return status == KVL_OK ? 0 : -1;
}

static int replay_request(replay_t *replay, const uint64_t *ids, size_t count)
{
    double lookup = 0, get = 0, put = 0;
    size_t slot, prefix = 0, got, stored;

    slot         = replay->next + count > replay->items.count ? 0 : replay->next;
    replay->next = slot + count;
    for (size_t i = 0; i < count; i++) {
        perf_items_set_key(&replay->items, slot + i, ids[i]);
    }
    if (look_up(replay, &replay->items.items[slot], count, &lookup)) {
        return -1;
    }
    while (prefix < count && replay->there[prefix]) {
        prefix++;
    }
    if (get_hits(replay, slot, ids, prefix, &got, &get) ||
        put_misses(replay, slot, ids, count, &stored, &put)) {
        return -1;
    }
    perf_samples_add(&replay->lookups, lookup);
    if (prefix > 0) {
        perf_samples_add(&replay->gets, get);
    }
    if (stored > 0) {
        perf_samples_add(&replay->puts, put);
    }
    perf_samples_add(&replay->requests, lookup + get + put);
    replay->result->requests++;
    replay->result->blocks += count;
    replay->result->items += got + stored;
    return 0;
}

/* ---- the whole ---- */

static int replay_all(replay_t *replay)
{
    const perf_options_t *options = replay->client.options;
    perf_trace_t *trace           = &replay->trace;
    perf_progress_t progress;
    size_t at  = 0;
    int status = 0;

    perf_progress_begin(&progress, options, "trace");
    for (size_t r = 0; status == 0 && r < trace->requests && !perf_stopped(); r++) {
        if (options->seconds_max > 0 && replay->requests.sum >= options->seconds_max) {
            break;
        }
        if (trace->ends[r] > at) {
            status = replay_request(replay, &trace->ids[at], trace->ends[r] - at);
        }
        at = trace->ends[r];
        perf_progress_show(&progress, (double)r / (double)trace->requests,
                           (double)replay->result->items *
                               (double)perf_pool_item_bytes(&replay->items.pool) / PERF_GB /
                               replay->requests.sum);
    }
    perf_progress_end(&progress);
    return status == 0 && perf_stopped() ? perf_fail("stopped by a signal") : status;
}

static void replay_result(replay_t *replay)
{
    perf_result_t *result = replay->result;

    result->has_trace     = true;
    result->bytes         = result->items * perf_pool_item_bytes(&replay->items.pool);
    result->seconds       = replay->requests.sum;
    result->p50_us        = perf_samples_us(&replay->requests, 50);
    result->p99_us        = perf_samples_us(&replay->requests, 99);
    result->lookup_p50_us = perf_samples_us(&replay->lookups, 50);
    result->lookup_p99_us = perf_samples_us(&replay->lookups, 99);
    result->get_p50_us    = perf_samples_us(&replay->gets, 50);
    result->get_p99_us    = perf_samples_us(&replay->gets, 99);
    result->put_p50_us    = perf_samples_us(&replay->puts, 50);
    result->put_p99_us    = perf_samples_us(&replay->puts, 99);
    result->cpu_client    = replay->cpu;
}

static int replay_init(replay_t *replay)
{
    const perf_options_t *options = replay->client.options;
    size_t slots                  = perf_pool_slots(options, replay->client.node_bytes);

    slots         = slots < replay->trace.longest ? replay->trace.longest : slots;
    replay->there = calloc(replay->trace.longest, sizeof(*replay->there));
    if (replay->there == NULL) {
        return perf_fail("no memory for %zu blocks", replay->trace.longest);
    }
    return perf_items_init(&replay->items, &replay->client, slots, options->size,
                           options->segments);
}

static void replay_cleanup(replay_t *replay)
{
    perf_samples_cleanup(&replay->requests);
    perf_samples_cleanup(&replay->lookups);
    perf_samples_cleanup(&replay->gets);
    perf_samples_cleanup(&replay->puts);
    free(replay->there);
    perf_items_cleanup(&replay->items); /* before its engine */
    perf_trace_cleanup(&replay->trace);
}

int perf_run_trace(const perf_options_t *given, perf_result_t *result)
{
    perf_options_t options = *given;
    replay_t replay        = {.result = result};
    double server_cpu;
    int status;

    options.items = UINT64_MAX; /* the pool's size does not hang on it */
    if (perf_trace_read(&replay.trace, options.trace, options.requests) ||
        perf_client_open(&replay.client, &options, "auto")) {
        perf_trace_cleanup(&replay.trace);
        return -1;
    }
    perf_client_describe(&replay.client, KVL_CACHE_GET, result);
    result->endpoints = options.segments > 1 ? replay.client.session.sg_endpoints : 1;
    result->batch     = (unsigned)replay.trace.longest;
    status            = replay_init(&replay);
    if (status == 0) {
        perf_client_settle(&replay.client);
        server_cpu = perf_side_cpu(&replay.client.side);
        status     = replay_all(&replay);
        replay_result(&replay);
        result->cpu_server = server_cpu < 0 ? -1 : perf_side_cpu(&replay.client.side) - server_cpu;
    }
    replay_cleanup(&replay);
    return perf_client_close(&replay.client) ? -1 : status;
}
