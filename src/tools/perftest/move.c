/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perftest/client.h"
#include "tools/perftest/corrupt.h"
#include "tools/perftest/loop.h"

/* put, get, sg_put, sg_get: items move between a pool here and as many keys at the node.
 *
 * put: item i is written from slot i % slots with the bytes of seed i, so that each round differs
 * from the one before; after a round all its keys are read back into a second pool and compared.
 * get: the keys are written once (key k: seed k); before a round the pool is poisoned, after it
 * compared. */

typedef struct {
    perf_client_t client;
    perf_items_t items;
    perf_items_t back; /* put: what is read back; one batch */
} move_t;

static double move_server_cpu(void *arg)
{
    move_t *move = arg;

    return perf_side_cpu(&move->client.side);
}

static int move_batch(move_t *move, kvl_cache_op_t op, uint64_t first, uint64_t count)
{
    return perf_client_do(&move->client, op, &move->items.items[first % move->items.count], count);
}

/* ---- put ---- */

static int put_prepare(void *arg, uint64_t first, uint64_t count)
{
    move_t *move = arg;

    for (uint64_t i = first; i < first + count; i++) {
        perf_pool_fill(&move->items.pool, i % move->items.count, i);
        perf_corrupt(move->client.options, &move->items.pool, i % move->items.count, i);
    }
    return 0;
}

static int put_batch(void *arg, uint64_t first, uint64_t count)
{
    return move_batch(arg, KVL_CACHE_PUT, first, count);
}

static int put_verify(void *arg, uint64_t first, uint64_t count, perf_result_t *result)
{
    move_t *move       = arg;
    perf_items_t *back = &move->back;

    for (uint64_t done = 0; done < count; done += back->count) {
        uint64_t some = count - done < back->count ? count - done : back->count;

        for (uint64_t i = 0; i < some; i++) {
            perf_items_set_key(back, i, (first + done + i) % move->items.count);
            perf_pool_poison(&back->pool, i, first + done + i);
        }
        if (perf_client_do(&move->client, KVL_CACHE_GET, back->items, some)) {
            return -1;
        }
        for (uint64_t i = 0; i < some; i++) {
            result->wrong_bytes += perf_pool_check(&back->pool, i, first + done + i);
            result->verified_bytes += perf_pool_item_bytes(&back->pool);
        }
    }
    return 0;
}

static const perf_loop_ops_t put_ops = {
    .prepare    = put_prepare,
    .batch      = put_batch,
    .verify     = put_verify,
    .server_cpu = move_server_cpu,
};

/* ---- get ---- */

static int get_prepare(void *arg, uint64_t first, uint64_t count)
{
    move_t *move = arg;

    for (uint64_t i = first; i < first + count; i++) {
        perf_pool_poison(&move->items.pool, i % move->items.count, i % move->items.count);
    }
    return 0;
}

static int get_batch(void *arg, uint64_t first, uint64_t count)
{
    return move_batch(arg, KVL_CACHE_GET, first, count);
}

static int get_verify(void *arg, uint64_t first, uint64_t count, perf_result_t *result)
{
    move_t *move            = arg;
    const perf_pool_t *pool = &move->items.pool;

    for (uint64_t i = first; i < first + count; i++) {
        size_t slot = i % move->items.count;

        perf_corrupt(move->client.options, pool, slot, i);
        result->wrong_bytes += perf_pool_check(pool, slot, slot);
        result->verified_bytes += perf_pool_item_bytes(pool);
    }
    return 0;
}

static const perf_loop_ops_t get_ops = {
    .prepare    = get_prepare,
    .batch      = get_batch,
    .verify     = get_verify,
    .server_cpu = move_server_cpu,
};

/* ---- both ---- */

static int move_open(move_t *move, const perf_options_t *options, kvl_cache_op_t op)
{
    size_t slots;

    /* sg_put and sg_get take the sg lane, put and get the data lane, whatever the items look like */
    if (perf_client_open(&move->client, options,
                         options->test->name[0] == 's' ? "always" : "never")) {
        return -1;
    }
    slots = perf_client_slots(&move->client);
    if (slots == 0) {
        goto err_close;
    }
    if (perf_items_init(&move->items, &move->client, slots, options->size, options->segments) ||
        (op == KVL_CACHE_PUT && options->verify &&
         perf_items_init(&move->back, &move->client,
                         options->batch < slots ? options->batch : slots, options->size,
                         options->segments)) ||
        (op == KVL_CACHE_GET && perf_items_put(&move->items, &move->client))) {
        goto err_items;
    }
    perf_client_settle(&move->client);
    return 0;

err_items:
    perf_items_cleanup(&move->back);
    perf_items_cleanup(&move->items);
err_close:
    perf_client_close(&move->client);
    return -1;
}

static int move_close(move_t *move)
{
    perf_client_forget(&move->client, move->items.count);
    perf_items_cleanup(&move->back);
    perf_items_cleanup(&move->items);
    return perf_client_close(&move->client);
}

static int move_run(const perf_options_t *options, kvl_cache_op_t op, const perf_loop_ops_t *ops,
                    perf_result_t *result)
{
    move_t move      = {0};
    perf_loop_t loop = {.ops = ops, .arg = &move};
    int status;

    if (move_open(&move, options, op)) {
        return -1;
    }
    perf_client_describe(&move.client, op, result);
    result->endpoints = options->test->name[0] == 's' ? move.client.session.sg_endpoints : 1;
    loop.stretch      = move.items.count;
    status            = perf_loop_run(&loop, options, result);
    return move_close(&move) ? -1 : status;
}

int perf_run_put(const perf_options_t *options, perf_result_t *result)
{
    return move_run(options, KVL_CACHE_PUT, &put_ops, result);
}

int perf_run_get(const perf_options_t *options, perf_result_t *result)
{
    return move_run(options, KVL_CACHE_GET, &get_ops, result);
}
