/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perftest/channel.h"
#include "tools/perftest/raw_ucp.h"

#include <kvlane/engine.h>

#include <poll.h>
#include <string.h>

/* The responder of the plain loops: progresses all the time, receives messages into its pool,
 * answers pings, and answers questions on the control connection between stretches. */

#define LOOK_EVERY 512 /* turns between looks at the control connection */
#define ARRIVE_S   30.0
#define START_S    60

typedef struct {
    perf_raw_t raw;
    perf_channel_t control;
    bool open;
    unsigned idle; /* turns in a row */
} responder_t;

/* ---- messages ---- */

static void message_received(void *request, ucs_status_t status, size_t length, void *arg)
{
    perf_raw_t *raw = arg;

    (void)length;
    raw->outstanding--;
    if (status == UCS_OK) {
        raw->received++;
    } else {
        raw->refused++;
    }
    ucp_request_free(request);
}

/* a rendezvous message: into its slot */
static ucs_status_t receive_large(perf_raw_t *raw, void *descriptor, void *slot, size_t length)
{
    ucp_request_param_t param;
    ucs_status_ptr_t request;

    perf_raw_param(raw, &param);
    param.cb.recv_am = message_received;
    request          = ucp_am_recv_data_nbx(raw->worker, descriptor, slot, length, &param);
    if (UCS_PTR_IS_PTR(request)) {
        raw->outstanding++;
        return UCS_INPROGRESS;
    }
    if (UCS_PTR_IS_ERR(request)) {
        raw->refused++;
    } else {
        raw->received++;
    }
    return UCS_OK;
}

static ucs_status_t data_arrived(void *arg, const void *header, size_t header_length, void *data,
                                 size_t length, const ucp_am_recv_param_t *param)
{
    perf_raw_t *raw = arg;
    perf_raw_header_t place;
    void *slot;

    if (header_length != sizeof(place) || length != raw->pool.segment_bytes) {
        raw->refused++;
        return param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV ? UCS_ERR_REJECTED : UCS_OK;
    }
    memcpy(&place, header, sizeof(place));
    slot = perf_pool_at(&raw->pool, place.item % raw->pool.slots, 0);
    if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
        return receive_large(raw, data, slot, length);
    }
    memcpy(slot, data, length);
    raw->received++;
    return UCS_OK;
}

static ucs_status_t ping_arrived(void *arg, const void *header, size_t header_length, void *data,
                                 size_t length, const ucp_am_recv_param_t *param)
{
    static const uint64_t pong = 1;
    perf_raw_t *raw            = arg;
    ucp_request_param_t send;

    (void)header;
    (void)header_length;
    (void)data;
    (void)length;
    (void)param;
    if (raw->ep != NULL) {
        perf_raw_param(raw, &send);
        perf_raw_posted(
            raw, "pong",
            ucp_am_send_nbx(raw->ep, PERF_RAW_AM_PONG, NULL, 0, &pong, sizeof(pong), &send));
    }
    return UCS_OK;
}

static int set_handler(perf_raw_t *raw, unsigned id, ucp_am_recv_callback_t handler)
{
    ucp_am_handler_param_t param = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                      UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id  = id,
        .cb  = handler,
        .arg = raw,
    };
    ucs_status_t status = ucp_worker_set_am_recv_handler(raw->worker, &param);

    return status == UCS_OK ? 0 : perf_fail("handler: %s", ucs_status_string(status));
}

/* ---- questions ---- */

static void answer_start(responder_t *responder, size_t slots, size_t bytes)
{
    char address[PERF_LINE_MAX / 2 - 128], rkey[PERF_LINE_MAX / 2 - 128], local[160];
    perf_raw_t *raw = &responder->raw;

    perf_socket_address(responder->control.fd, local, sizeof(local));
    perf_watchdog("the start of UCX", START_S);
    if (perf_raw_settings(local[0] != '\0' ? local : "127.0.0.1:1") ||
        perf_raw_open(raw, slots, bytes, true)) {
        perf_channel_send(&responder->control, "error: it could not start UCX");
        return;
    }
    responder->open = true;
    perf_watchdog_off();
    if (set_handler(raw, PERF_RAW_AM_DATA, data_arrived) ||
        set_handler(raw, PERF_RAW_AM_PING, ping_arrived) ||
        perf_raw_address(raw, address, sizeof(address)) || perf_raw_rkey(raw, rkey, sizeof(rkey))) {
        perf_channel_send(&responder->control, "error: it could not start UCX");
        return;
    }
    perf_channel_send(&responder->control, "started %llu %s %s",
                      (unsigned long long)(uintptr_t)raw->pool.base, rkey, address);
}

static void answer_prepare(responder_t *responder, uint64_t first, uint64_t count)
{
    const perf_pool_t *pool = &responder->raw.pool;

    for (uint64_t i = first; i < first + count; i++) {
        perf_pool_fill(pool, i % pool->slots, i);
    }
    perf_channel_send(&responder->control, "ok");
}

/* @a messages: number of data messages that must have come since the start; 0 with puts */
static void answer_verify(responder_t *responder, uint64_t first, uint64_t count, uint64_t messages)
{
    perf_raw_t *raw = &responder->raw;
    double until    = perf_now() + ARRIVE_S;
    uint64_t wrong  = 0;

    while (raw->received + raw->refused < messages && perf_now() < until) {
        ucp_worker_progress(raw->worker);
    }
    if (raw->received < messages) {
        perf_channel_send(&responder->control,
                          "error: %llu of %llu messages came, %llu were refused",
                          (unsigned long long)raw->received, (unsigned long long)messages,
                          (unsigned long long)raw->refused);
        return;
    }
    for (uint64_t i = first; i < first + count; i++) {
        wrong += perf_pool_check(&raw->pool, i % raw->pool.slots, i);
    }
    perf_channel_send(&responder->control, "verified %llu %llu",
                      (unsigned long long)(count * raw->pool.segment_bytes),
                      (unsigned long long)wrong);
}

/* -1: the client has gone */
static int answer(responder_t *responder)
{
    static char line[PERF_LINE_MAX];
    unsigned long long a, b, c;
    int got = perf_channel_receive(&responder->control, 0, line, sizeof(line));

    if (got <= 0) {
        return got;
    }
    if (sscanf(line, "start %llu %llu", &a, &b) == 2 && !responder->open && a > 0 && b > 0) {
        answer_start(responder, a, b);
    } else if (strncmp(line, "connect ", 8) == 0 && responder->open) {
        perf_channel_send(&responder->control, perf_raw_connect(&responder->raw, line + 8)
                                                   ? "error: no endpoint"
                                                   : "ok");
    } else if (sscanf(line, "prepare %llu %llu", &a, &b) == 2 && responder->open) {
        answer_prepare(responder, a, b);
    } else if (sscanf(line, "verify %llu %llu %llu", &a, &b, &c) == 3 && responder->open) {
        answer_verify(responder, a, b, c);
    } else if (strcmp(line, "cpu") == 0) {
        perf_channel_send(&responder->control, "cpu %.9f", perf_cpu_self());
    } else if (strcmp(line, "bye") == 0) {
        return -1;
    } else {
        perf_channel_send(&responder->control, "error: unknown question");
    }
    return 0;
}

/* Progresses, and looks at the control connection now and then. */
static int respond_turns(responder_t *responder)
{
    if (!responder->open) {
        struct pollfd poller = {.fd = responder->control.fd, .events = POLLIN};

        poll(&poller, 1, 200);
        return answer(responder);
    }
    for (unsigned turn = 0; turn < LOOK_EVERY; turn++) {
        if (ucp_worker_progress(responder->raw.worker) == 0) {
            perf_raw_idle(++responder->idle);
        } else {
            responder->idle = 0;
        }
    }
    return answer(responder);
}

int perf_raw_respond(int fd)
{
    static responder_t responder;

    perf_channel_init(&responder.control, fd);
    while (!perf_stopped() && respond_turns(&responder) == 0) {
    }
    perf_watchdog("the end of UCX", START_S);
    if (responder.open) {
        perf_raw_close(&responder.raw);
    }
    perf_channel_close(&responder.control);
    perf_watchdog_off();
    return 0;
}
