/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perftest/client.h"
#include "tools/perftest/corrupt.h"
#include "tools/perftest/loop.h"

#include <stdlib.h>

/* retrieve: what an engine does with a prompt whose prefix is cached. The prefix's pages are looked
 * up in one go, in batches, until the first that is missing; then they are got page by page into a
 * pool, a segment per layer. A node that can't hold them all has the first ones; page i is then
 * page i % slots again. */

#define LOOKUP_BATCH 512u

typedef struct {
    perf_client_t client;
    perf_items_t items;  /* the pages that the node has, and the pool they are got into */
    kvl_item_t *lookups; /* one per page of the prefix */
    uint64_t pages;
} retrieve_t;

/* ---- the two parts ---- */

/* Pages of the prefix that are there, and how long it took to ask. */
static int look_up(retrieve_t *retrieve, uint64_t *found_p, double *seconds_p)
{
    uint64_t found = 0;
    bool missed    = false;

    *seconds_p = 0;
    while (found < retrieve->pages && !missed) {
        uint64_t rest      = retrieve->pages - found;
        size_t count       = rest < LOOKUP_BATCH ? (size_t)rest : LOOKUP_BATCH;
        double begin       = perf_now();
        kvl_batch_t *batch = perf_client_batch(&retrieve->client, KVL_CACHE_EXISTS,
                                               &retrieve->lookups[found], count);

        if (batch == NULL) {
            return -1;
        }
        *seconds_p += perf_now() - begin;
        for (size_t i = 0; i < count && !missed; i++) {
            missed = kvl_batch_item(batch, i, NULL) != KVL_OK;
            found += !missed;
        }
        kvl_batch_release(batch);
    }
    *found_p = found;
    return 0;
}

static int fetch_prepare(void *arg, uint64_t first, uint64_t count)
{
    retrieve_t *retrieve = arg;
    size_t slots         = retrieve->items.count;

    for (uint64_t i = first; i < first + count; i++) {
        perf_pool_poison(&retrieve->items.pool, i % slots, i % slots);
    }
    return 0;
}

static int fetch_batch(void *arg, uint64_t first, uint64_t count)
{
    retrieve_t *retrieve = arg;

    return perf_client_do(&retrieve->client, KVL_CACHE_GET,
                          &retrieve->items.items[first % retrieve->items.count], count);
}

static int fetch_verify(void *arg, uint64_t first, uint64_t count, perf_result_t *result)
{
    retrieve_t *retrieve    = arg;
    const perf_pool_t *pool = &retrieve->items.pool;

    for (uint64_t i = first; i < first + count; i++) {
        size_t slot = i % retrieve->items.count;

        perf_corrupt(retrieve->client.options, pool, slot, i);
        result->wrong_bytes += perf_pool_check(pool, slot, slot);
        result->verified_bytes += perf_pool_item_bytes(pool);
    }
    return 0;
}

static double fetch_cpu(void *arg)
{
    retrieve_t *retrieve = arg;

    return perf_side_cpu(&retrieve->client.side);
}

static const perf_loop_ops_t fetch_ops = {
    .prepare    = fetch_prepare,
    .batch      = fetch_batch,
    .verify     = fetch_verify,
    .server_cpu = fetch_cpu,
};

/* ---- the whole ---- */

static int retrieve_init(retrieve_t *retrieve, const perf_options_t *options)
{
    size_t slots = perf_client_slots(&retrieve->client);

    if (slots == 0) {
        return -1;
    }
    if (slots < retrieve->pages) {
        perf_note("%llu pages; %zu different ones are stored, and got again and again (a pool, and "
                  "half of the node's memory, hold no more)",
                  (unsigned long long)retrieve->pages, slots);
    }
    retrieve->lookups = calloc(retrieve->pages, sizeof(*retrieve->lookups));
    if (retrieve->lookups == NULL) {
        return perf_fail("no memory for %llu pages", (unsigned long long)retrieve->pages);
    }
    if (perf_items_init(&retrieve->items, &retrieve->client, slots, options->size,
                        options->segments)) {
        return -1;
    }
    for (uint64_t i = 0; i < retrieve->pages; i++) {
        retrieve->lookups[i] = retrieve->items.items[i % slots];
    }
    return perf_items_put(&retrieve->items, &retrieve->client);
}

static int retrieve_run(retrieve_t *retrieve, perf_options_t *options, perf_result_t *result)
{
    perf_loop_t loop = {.ops = &fetch_ops, .arg = retrieve, .stretch = retrieve->items.count};
    uint64_t found, ignored;
    double warm;

    /* the first lookup pays for first uses */
    if (look_up(retrieve, &ignored, &warm) || look_up(retrieve, &found, &result->lookup_seconds)) {
        return -1;
    }
    if (found < retrieve->pages) {
        perf_note("%llu of %llu pages are there", (unsigned long long)found,
                  (unsigned long long)retrieve->pages);
        result->failed_items = retrieve->pages - found;
    }
    options->items = found;
    if (found > 0 && perf_loop_run(&loop, options, result)) {
        return -1;
    }
    result->seconds += result->lookup_seconds;
    result->tokens       = result->items * options->page_tokens; /* what -T let through */
    result->tokens       = result->tokens > options->tokens ? options->tokens : result->tokens;
    result->tokens_per_s = result->seconds > 0 ? (double)result->tokens / result->seconds : 0;
    result->has_retrieve = true;
    return 0;
}

int perf_run_retrieve(const perf_options_t *given, perf_result_t *result)
{
    perf_options_t options = *given;
    retrieve_t retrieve    = {0};
    int status;

    retrieve.pages = (options.tokens + options.page_tokens - 1) / options.page_tokens;
    options.items  = retrieve.pages;
    options.batch  = options.batch > options.items ? (unsigned)options.items : options.batch;
    result->batch  = options.batch;
    if (perf_client_open(&retrieve.client, &options, "auto")) {
        return -1;
    }
    perf_client_describe(&retrieve.client, KVL_CACHE_GET, result);
    result->endpoints = options.segments > 1 ? retrieve.client.session.sg_endpoints : 1;
    status            = retrieve_init(&retrieve, &options);
    if (status == 0) {
        perf_client_settle(&retrieve.client);
        status = retrieve_run(&retrieve, &options, result);
    }
    if (retrieve.items.count > 0) {
        perf_client_forget(&retrieve.client, retrieve.items.count);
    }
    free(retrieve.lookups);
    perf_items_cleanup(&retrieve.items);
    return perf_client_close(&retrieve.client) ? -1 : status;
}
