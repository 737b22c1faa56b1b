/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perftest/client.h"

#include "tools/perftest/progress.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define START_S   60
#define LOOK_MS   200 /* between looks at the stop flag */
#define SETTLE_MS 50
#define SETTLED   4 /* quiet pauses in a row */
#define SETTLE_S  20
#define REMOVE    1024 /* keys a batch */

/* ---- life ---- */

static int open_engine(perf_client_t *client, const char *sg)
{
    kvl_engine_params_t params = {.address = client->side.address};
    kvl_status_t status        = kvl_config_create(&client->config);

    if (status == KVL_OK && getenv("KVLANE_SG") == NULL) {
        status = kvl_config_set(client->config, "KVLANE_SG", sg);
    }
    if (status == KVL_OK) {
        params.config = client->config;
        status        = kvl_engine_create(&params, &client->engine);
    }
    return status == KVL_OK ? 0 : perf_refused(status);
}

static int open_cache(perf_client_t *client)
{
    kvl_node_stat_t stat;

    if (kvl_cache_create(client->engine, client->side.address, &client->cache) != KVL_OK ||
        kvl_cache_connect(client->cache, 0) != KVL_OK ||
        kvl_cache_session(client->cache, &client->session) != KVL_OK ||
        kvl_cache_stat(client->cache, 0, &stat) != KVL_OK) {
        return perf_fail("%s: %s", client->side.address, kvl_error_text());
    }
    client->node_bytes = stat.bytes_total;
    return 0;
}

void perf_client_settle(perf_client_t *client)
{
    const struct timespec pause = {.tv_nsec = SETTLE_MS * 1000000l};
    double until = perf_now() + SETTLE_S, used, before = -1;
    unsigned quiet = 0;
    perf_progress_t progress;

    perf_progress_begin(&progress, client->options, "memory comes in");
    while (quiet < SETTLED && perf_now() < until && !perf_stopped()) {
        double server = perf_side_cpu(&client->side);

        used   = perf_cpu_self() + (server < 0 ? 0 : server);
        quiet  = before >= 0 && used - before < 0.1e-3 * SETTLE_MS ? quiet + 1 : 0;
        before = used;
        perf_progress_show(&progress, 1 - (until - perf_now()) / SETTLE_S, 0);
        nanosleep(&pause, NULL);
    }
    perf_progress_end(&progress);
}

int perf_client_open(perf_client_t *client, const perf_options_t *options, const char *sg)
{
    int status;

    *client = (perf_client_t){.options = options};
    perf_watchdog("the start", START_S);
    status = perf_side_open(&client->side, options, PERF_PEER_NODE);
    if (status == 0 && (open_engine(client, sg) || open_cache(client))) {
        perf_client_close(client);
        status = -1;
    }
    perf_watchdog_off();
    return status;
}

int perf_client_close(perf_client_t *client)
{
    kvl_cache_destroy(client->cache);
    kvl_engine_destroy(client->engine);
    kvl_config_destroy(client->config);
    client->cache  = NULL;
    client->engine = NULL;
    client->config = NULL;
    return perf_side_close(&client->side);
}

size_t perf_client_slots(const perf_client_t *client)
{
    size_t slots = perf_pool_slots(client->options, client->node_bytes);

    if (slots == 0) {
        perf_fail("the node has %llu bytes; that is too little for items of %llu bytes: give it "
                  "more memory (-m)",
                  (unsigned long long)client->node_bytes,
                  (unsigned long long)perf_item_bytes(client->options));
    }
    return slots;
}

void perf_client_describe(perf_client_t *client, kvl_cache_op_t op, perf_result_t *result)
{
    const kvl_session_info_t *session = &client->session;

    snprintf(result->transport, sizeof(result->transport), "%s", session->transport);
    snprintf(result->mode, sizeof(result->mode), "%s",
             op == KVL_CACHE_GET ? session->get_mode : session->put_mode);
    result->depth = session->depth;
    snprintf(
        result->lanes, sizeof(result->lanes),
        "ctrl: 1 endpoint; data: 1 endpoint of depth %u, sg: %u endpoints of depth 1, over %s; "
        "put %s, get %s; items under way: %u",
        session->data_depth, session->sg_endpoints, session->transport, session->put_mode,
        session->get_mode, session->depth);
}

/* ---- batches ---- */

kvl_batch_t *perf_client_batch(perf_client_t *client, kvl_cache_op_t op, const kvl_item_t *items,
                               size_t count)
{
    kvl_batch_t *batch;

    if (kvl_cache_submit(client->cache, op, items, count, NULL, &batch) != KVL_INPROGRESS) {
        perf_fail("%s", kvl_error_text());
        return NULL;
    }
    while (kvl_batch_wait(batch, LOOK_MS) == KVL_INPROGRESS) {
        if (perf_stopped()) {
            kvl_batch_cancel(batch);
            kvl_batch_wait(batch, -1);
            kvl_batch_release(batch);
            perf_fail("stopped by a signal");
            return NULL;
        }
    }
    return batch;
}

int perf_client_do(perf_client_t *client, kvl_cache_op_t op, const kvl_item_t *items, size_t count)
{
    kvl_batch_t *batch = perf_client_batch(client, op, items, count);
    kvl_status_t status;

    if (batch == NULL) {
        return -1;
    }
    status = kvl_batch_test(batch);
    if (status != KVL_OK) {
        perf_fail("batch of %zu: %s: %s", count, kvl_status_name(status), kvl_batch_cause(batch));
    }
    kvl_batch_release(batch);
    return status == KVL_OK ? 0 : -1;
}

/* ---- items ---- */

int perf_items_init_keys(perf_items_t *items, size_t count)
{
    *items       = (perf_items_t){.count = count};
    items->items = calloc(count, sizeof(*items->items));
    items->keys  = calloc(count, sizeof(*items->keys));
    if (items->items == NULL || items->keys == NULL) {
        return perf_fail("no memory for %zu items", count);
    }
    for (size_t i = 0; i < count; i++) {
        perf_items_set_key(items, i, i);
    }
    return 0;
}

/* tells the keys of this run from those of others at the same node */
static uint64_t run_id(void)
{
    static uint64_t id;

    if (id == 0 && getrandom(&id, sizeof(id), 0) != (ssize_t)sizeof(id)) {
        id = (uint64_t)getpid();
    }
    return id;
}

void perf_items_set_key(perf_items_t *items, size_t index, uint64_t n)
{
    char *key = items->keys[index];

    snprintf(key, sizeof(*items->keys), "perftest/%016llx/%llu", (unsigned long long)run_id(),
             (unsigned long long)n);
    items->items[index].key        = key;
    items->items[index].key_length = strlen(key);
}

static int items_segments(perf_items_t *items)
{
    const perf_pool_t *pool = &items->pool;
    kvl_segment_t *at;

    items->segments = calloc(items->count * pool->segments, sizeof(*items->segments));
    if (items->segments == NULL) {
        return perf_fail("no memory for %zu segments", items->count * pool->segments);
    }
    at = items->segments;
    for (size_t i = 0; i < items->count; i++) {
        items->items[i].segments      = at;
        items->items[i].segment_count = pool->segments;
        for (unsigned s = 0; s < pool->segments; s++) {
            *at++ = (kvl_segment_t){.address = perf_pool_at(pool, i, s),
                                    .length  = pool->segment_bytes,
                                    .region  = items->region};
        }
    }
    return 0;
}

int perf_items_init(perf_items_t *items, perf_client_t *client, size_t count, size_t segment_bytes,
                    unsigned segments)
{
    if (perf_items_init_keys(items, count) ||
        perf_pool_create(&items->pool, count, segment_bytes, segments, false)) {
        return -1;
    }
    if (kvl_region_register(client->engine, items->pool.base, items->pool.bytes, &items->region) !=
        KVL_OK) {
        return perf_fail("%s", kvl_error_text());
    }
    return items_segments(items);
}

int perf_items_put(perf_items_t *items, perf_client_t *client)
{
    const unsigned batch = client->options->batch;

    for (size_t first = 0; first < items->count; first += batch) {
        size_t rest = items->count - first, some = rest < batch ? rest : batch;

        for (size_t i = first; i < first + some; i++) {
            perf_pool_fill(&items->pool, i, i);
        }
        if (perf_client_do(client, KVL_CACHE_PUT, &items->items[first], some)) {
            return -1;
        }
    }
    return 0;
}

void perf_items_cleanup(perf_items_t *items)
{
    if (items->region != NULL && kvl_region_release(items->region) != KVL_OK) {
        perf_note("%s", kvl_error_text());
    }
    perf_pool_destroy(&items->pool);
    free(items->items);
    free(items->keys);
    free(items->segments);
    *items = (perf_items_t){0};
}

void perf_client_forget(perf_client_t *client, size_t count)
{
    perf_items_t keys;

    if (perf_items_init_keys(&keys, count < REMOVE ? count : REMOVE) == 0) {
        for (size_t first = 0; first < count && !perf_stopped(); first += keys.count) {
            size_t some = count - first < keys.count ? count - first : keys.count;
            kvl_batch_t *batch;

            for (size_t i = 0; i < some; i++) {
                perf_items_set_key(&keys, i, first + i);
            }
            batch = perf_client_batch(client, KVL_CACHE_REMOVE, keys.items, some);
            if (batch == NULL) {
                break;
            }
            kvl_batch_release(batch);
        }
    }
    perf_items_cleanup(&keys);
}
