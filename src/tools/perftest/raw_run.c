/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perftest/corrupt.h"
#include "tools/perftest/loop.h"
#include "tools/perftest/raw_ucp.h"
#include "tools/perftest/samples.h"
#include "tools/perftest/side.h"

#include <kvlane/engine.h>

#include <stdlib.h>
#include <string.h>

/* raw_am, raw_put, raw_get, am_lat: what plain UCP does between two processes with contiguous
 * buffers of the same sizes, a window of as many ops as kvlane's depth, and the same settings of
 * UCX. Each batch ends with its last completion and a flush. */

#define START_S 60

typedef struct {
    const perf_options_t *options;
    perf_side_t side;
    perf_raw_t raw;
    uint64_t remote;            /* the other side's pool */
    uint64_t messages;          /* data messages sent so far */
    perf_raw_header_t *headers; /* of a window; must stay until the send completes */
} run_t;

/* ---- ops ---- */

static int wait_window(run_t *run)
{
    return perf_raw_wait(&run->raw, run->options->depth - 1);
}

static int am_batch(void *arg, uint64_t first, uint64_t count)
{
    run_t *run      = arg;
    perf_raw_t *raw = &run->raw;
    ucp_request_param_t param;

    perf_raw_param(raw, &param);
    for (uint64_t i = first; i < first + count; i++) {
        /* one header per slot: a slot's send is complete before it is used again */
        perf_raw_header_t *header = &run->headers[i % raw->pool.slots];

        header->item = i;
        if (wait_window(run) ||
            perf_raw_posted(raw, "ucp_am_send_nbx",
                            ucp_am_send_nbx(raw->ep, PERF_RAW_AM_DATA, header, sizeof(*header),
                                            perf_pool_at(&raw->pool, i % raw->pool.slots, 0),
                                            raw->pool.segment_bytes, &param))) {
            return -1;
        }
    }
    run->messages += count;
    return perf_raw_wait(raw, 0) || perf_raw_flush(raw) ? -1 : 0;
}

static int rma_batch(run_t *run, bool put, uint64_t first, uint64_t count)
{
    perf_raw_t *raw = &run->raw;
    ucp_request_param_t param;

    perf_raw_param(raw, &param);
    if (put) {
        /* else 1.13.1 emulates large puts on shared memory */
        param.op_attr_mask |= UCP_OP_ATTR_FLAG_MULTI_SEND;
    }
    for (uint64_t i = first; i < first + count; i++) {
        size_t slot     = i % raw->pool.slots;
        void *local     = perf_pool_at(&raw->pool, slot, 0);
        uint64_t remote = run->remote + slot * raw->pool.segment_bytes;
        size_t bytes    = raw->pool.segment_bytes;

        if (wait_window(run) ||
            perf_raw_posted(raw, put ? "ucp_put_nbx" : "ucp_get_nbx",
                            put ? ucp_put_nbx(raw->ep, local, bytes, remote, raw->rkey, &param)
                                : ucp_get_nbx(raw->ep, local, bytes, remote, raw->rkey, &param))) {
            return -1;
        }
    }
    return perf_raw_wait(raw, 0) || perf_raw_flush(raw) ? -1 : 0;
}

static int put_batch(void *arg, uint64_t first, uint64_t count)
{
    return rma_batch(arg, true, first, count);
}

static int get_batch(void *arg, uint64_t first, uint64_t count)
{
    return rma_batch(arg, false, first, count);
}

/* ---- bytes ---- */

static int fill_here(void *arg, uint64_t first, uint64_t count)
{
    run_t *run              = arg;
    const perf_pool_t *pool = &run->raw.pool;

    for (uint64_t i = first; i < first + count; i++) {
        perf_pool_fill(pool, i % pool->slots, i);
        perf_corrupt(run->options, pool, i % pool->slots, i);
    }
    return 0;
}

static int verify_there(void *arg, uint64_t first, uint64_t count, perf_result_t *result)
{
    run_t *run = arg;
    unsigned long long verified, wrong;
    char question[96], rest[96];

    snprintf(question, sizeof(question), "verify %llu %llu %llu", (unsigned long long)first,
             (unsigned long long)count, (unsigned long long)run->messages);
    if (perf_side_ask(&run->side, question, "verified", rest, sizeof(rest))) {
        return -1;
    }
    if (sscanf(rest, "%llu %llu", &verified, &wrong) != 2) {
        return perf_fail("the other side verified nothing");
    }
    result->verified_bytes += verified;
    result->wrong_bytes += wrong;
    return 0;
}

static int fill_there(void *arg, uint64_t first, uint64_t count)
{
    run_t *run              = arg;
    const perf_pool_t *pool = &run->raw.pool;
    char question[96], rest[96];

    for (uint64_t i = first; i < first + count; i++) {
        perf_pool_poison(pool, i % pool->slots, i);
    }
    snprintf(question, sizeof(question), "prepare %llu %llu", (unsigned long long)first,
             (unsigned long long)count);
    return perf_side_ask(&run->side, question, "ok", rest, sizeof(rest));
}

static int verify_here(void *arg, uint64_t first, uint64_t count, perf_result_t *result)
{
    run_t *run              = arg;
    const perf_pool_t *pool = &run->raw.pool;

    for (uint64_t i = first; i < first + count; i++) {
        perf_corrupt(run->options, pool, i % pool->slots, i);
        result->wrong_bytes += perf_pool_check(pool, i % pool->slots, i);
        result->verified_bytes += perf_pool_item_bytes(pool);
    }
    return 0;
}

static double run_cpu(void *arg)
{
    run_t *run = arg;

    return perf_side_cpu(&run->side);
}

static const perf_loop_ops_t am_ops  = {fill_here, am_batch, verify_there, run_cpu};
static const perf_loop_ops_t put_ops = {fill_here, put_batch, verify_there, run_cpu};
static const perf_loop_ops_t get_ops = {fill_there, get_batch, verify_here, run_cpu};

/* ---- latency ---- */

static ucs_status_t pong_arrived(void *arg, const void *header, size_t header_length, void *data,
                                 size_t length, const ucp_am_recv_param_t *param)
{
    perf_raw_t *raw = arg;

    (void)header;
    (void)header_length;
    (void)data;
    (void)length;
    (void)param;
    raw->pongs++;
    return UCS_OK;
}

static int ping(void *arg, uint64_t first, uint64_t count)
{
    run_t *run      = arg;
    perf_raw_t *raw = &run->raw;
    ucp_request_param_t param;
    uint64_t expected = raw->pongs + count;

    (void)first;
    perf_raw_param(raw, &param);
    for (uint64_t i = 0; i < count; i++) {
        if (perf_raw_posted(raw, "ucp_am_send_nbx",
                            ucp_am_send_nbx(raw->ep, PERF_RAW_AM_PING, NULL, 0, raw->pool.base,
                                            raw->pool.segment_bytes, &param))) {
            return -1;
        }
    }
    return perf_raw_wait_count(raw, &raw->pongs, expected);
}

static const perf_loop_ops_t ping_ops = {.batch = ping, .server_cpu = run_cpu};

/* ---- life ---- */

static int introduce(run_t *run, uint64_t slots)
{
    static char line[PERF_LINE_MAX], rest[PERF_LINE_MAX], rkey[PERF_LINE_MAX];
    unsigned long long remote;
    int used;

    snprintf(line, sizeof(line), "start %llu %llu", (unsigned long long)slots,
             (unsigned long long)perf_item_bytes(run->options));
    if (perf_side_ask(&run->side, line, "started", rest, sizeof(rest))) {
        return -1;
    }
    if (sscanf(rest, "%llu %16383s %n", &remote, rkey, &used) != 2) {
        return perf_fail("the other side's address is damaged");
    }
    run->remote = remote;
    if (perf_raw_connect(&run->raw, rest + used) || perf_raw_import(&run->raw, rkey)) {
        return -1;
    }
    strcpy(line, "connect ");
    if (perf_raw_address(&run->raw, line + 8, sizeof(line) - 8) ||
        perf_side_ask(&run->side, line, "ok", rest, sizeof(rest))) {
        return -1;
    }
    return perf_raw_flush(&run->raw);
}

static int open_raw(run_t *run, uint64_t slots)
{
    ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                      UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id  = PERF_RAW_AM_PONG,
        .cb  = pong_arrived,
        .arg = &run->raw,
    };
    char local[160];

    perf_socket_address(run->side.control.fd, local, sizeof(local));
    run->headers = calloc(slots, sizeof(*run->headers));
    if (run->headers == NULL) {
        return perf_fail("no memory for %llu headers", (unsigned long long)slots);
    }
    if (perf_raw_settings(local[0] != '\0' ? local : "127.0.0.1:1") ||
        perf_raw_open(&run->raw, slots, perf_item_bytes(run->options), false)) {
        return -1;
    }
    if (ucp_worker_set_am_recv_handler(run->raw.worker, &handler) != UCS_OK) {
        return perf_fail("handler of pongs");
    }
    return introduce(run, slots);
}

static void describe(run_t *run, perf_result_t *result)
{
    perf_raw_transport(&run->raw, result->transport, sizeof(result->transport));
    snprintf(result->mode, sizeof(result->mode), "%s",
             strncmp(run->options->test->name, "raw_", 4) == 0 ? run->options->test->name + 4
                                                               : "am");
    snprintf(result->lanes, sizeof(result->lanes), "1 endpoint, a window of %u over %s",
             run->options->depth, result->transport);
    result->depth     = run->options->depth;
    result->endpoints = 1;
}

static const perf_loop_ops_t *ops_of(const char *test)
{
    return strcmp(test, "raw_am") == 0    ? &am_ops
           : strcmp(test, "raw_put") == 0 ? &put_ops
           : strcmp(test, "raw_get") == 0 ? &get_ops
                                          : &ping_ops;
}

int perf_run_raw(const perf_options_t *options, perf_result_t *result)
{
    run_t run        = {.options = options};
    perf_loop_t loop = {.ops = ops_of(options->test->name), .arg = &run};
    int status;

    loop.stretch = perf_pool_slots(options, options->node_bytes);
    if (loop.stretch == 0) {
        return perf_fail("-m %llu: too little for items of %llu bytes",
                         (unsigned long long)options->node_bytes,
                         (unsigned long long)perf_item_bytes(options));
    }
    perf_watchdog("the start", START_S);
    if (perf_side_open(&run.side, options, PERF_PEER_RAW)) {
        return -1;
    }
    status = open_raw(&run, loop.stretch);
    perf_watchdog_off();
    if (status == 0) {
        describe(&run, result);
        status = perf_loop_run(&loop, options, result);
    }
    perf_raw_close(&run.raw);
    free(run.headers);
    return perf_side_close(&run.side) ? -1 : status;
}
