/* SPDX-License-Identifier: BSD-3-Clause */
#include "conform/raw.h"

#include "shim/shim.h"

#include "lane/endpoint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define LIMIT_NS (10 * KVL_SECOND)

typedef struct {
    kvl_req_t req;
    bool done;
    kvl_status_t status;
} wait_t;

static void wait_done(kvl_req_t *req, kvl_status_t status)
{
    wait_t *wait = kvl_container(req, wait_t, req);

    wait->done   = true;
    wait->status = status;
}

static void raw_progress(raw_t *raw)
{
    struct timespec pause = {0, 50000};
    unsigned lane, n = 0;

    for (lane = 0; lane < RAW_LANES; lane++) {
        n += kvl_worker_progress(raw->lanes[lane].worker);
    }
    if (!n) {
        nanosleep(&pause, NULL);
    }
}

/* the status of a post, or of its end; an endpoint that fails ends it too */
static kvl_status_t raw_wait(raw_t *raw, wait_t *wait, kvl_status_t posted)
{
    int64_t end = kvl_now_ns() + LIMIT_NS;

    while (posted == KVL_INPROGRESS && !wait->done) {
        raw_progress(raw);
        REQUIRE(kvl_now_ns() < end);
    }
    return posted == KVL_INPROGRESS ? wait->status : posted;
}

static kvl_status_t raw_am(void *arg, const kvl_am_t *am)
{
    raw_t *raw             = ((raw_lane_t *)arg)->raw;
    raw_message_t *message = &raw->messages[raw->count];

    if (raw->count == RAW_MESSAGES || !am->data || am->length > sizeof(message->data) ||
        am->header_length > sizeof(message->head)) {
        return KVL_OK;
    }
    raw->count++;
    message->am     = am->id;
    message->length = am->length;
    memcpy(message->data, am->data, am->length);
    message->head_length = am->header_length;
    memcpy(message->head, am->header, am->header_length);
    return KVL_OK;
}

static void raw_failed(kvl_ep_t *ep, kvl_status_t status, void *arg)
{
    (void)ep;
    (void)status;
    ((raw_lane_t *)arg)->failed = true;
}

void raw_open(raw_t *raw, const char *rails, const char *address)
{
    kvl_context_params_t context = {.device = NULL};
    kvl_worker_params_t worker   = {.am_count = KVL_AM_COUNT, .am = raw_am, .endpoints = 8};
    char device[64];
    unsigned lane;

    memset(raw, 0, sizeof(*raw));
    kvl_timers_init(&raw->timers);
    raw->messages = calloc(RAW_MESSAGES, sizeof(*raw->messages));
    REQUIRE(kvl_config_create(&raw->config) == KVL_OK);
    REQUIRE(kvl_config_set(raw->config, "KVLANE_RAILS", rails) == KVL_OK);
    REQUIRE(kvl_addr_parse(address, &raw->addr) == KVL_OK);
    context.config = raw->config;
    context.device = kvl_addr_device(&raw->addr, device, sizeof(device)) == KVL_OK ? device : NULL;
    REQUIRE(kvl_context_create(&context, &raw->context) == KVL_OK);
    REQUIRE(getrandom(&raw->nonce, sizeof(raw->nonce), 0) == sizeof(raw->nonce));
    raw->nonce = (raw->nonce | 0x100) & ~UINT64_C(0xff);
    for (lane = 0; lane < RAW_LANES; lane++) {
        raw->lanes[lane].raw = raw;
        worker.client_id     = raw->nonce | lane;
        worker.arg           = &raw->lanes[lane];
        worker.timers        = &raw->timers;
        REQUIRE(kvl_worker_create(raw->context, &worker, &raw->lanes[lane].worker) == KVL_OK);
    }
}

static void raw_disconnect(raw_t *raw, unsigned lane)
{
    kvl_ep_t *ep = raw->lanes[lane].ep;
    wait_t wait  = {.req.done = wait_done};

    if (ep) {
        raw_wait(raw, &wait, kvl_ep_close(ep, true, &wait.req));
        while (kvl_ep_pending(ep)) {
            raw_progress(raw);
        }
        kvl_ep_destroy(ep);
        raw->lanes[lane].ep = NULL;
    }
}

void raw_close(raw_t *raw)
{
    unsigned lane;

    for (lane = 0; lane < RAW_LANES; lane++) {
        raw_disconnect(raw, lane);
    }
    for (lane = 0; lane < RAW_LANES; lane++) {
        kvl_worker_destroy(raw->lanes[lane].worker);
    }
    kvl_context_destroy(raw->context);
    kvl_config_destroy(raw->config);
    kvl_timers_cleanup(&raw->timers);
    free(raw->messages);
}

void raw_connect(raw_t *raw, unsigned lane)
{
    kvl_ep_params_t params = {
        .worker = raw->lanes[lane].worker, .failed = raw_failed, .arg = &raw->lanes[lane]};

    raw->lanes[lane].failed = false;
    REQUIRE(kvl_ep_connect(&params, &raw->addr, &raw->lanes[lane].ep) == KVL_OK);
}

/* ---- messages ---- */

kvl_wbuf_t *raw_begin(raw_t *raw)
{
    kvl_wbuf_init(&raw->w, raw->buffer, sizeof(raw->buffer));
    return &raw->w;
}

static void raw_post(raw_t *raw, unsigned lane, const kvl_am_send_t *send)
{
    wait_t wait = {.req.done = wait_done};

    /* whether it arrives is not our matter: a node that closed us is right to drop it */
    (void)raw_wait(raw, &wait, kvl_ep_am(raw->lanes[lane].ep, send, &wait.req));
}

void raw_bytes(raw_t *raw, unsigned lane, unsigned am, const void *bytes, size_t length)
{
    kvl_iov_t iov      = {(void *)bytes, length};
    kvl_am_send_t send = {.id = am, .iov = &iov, .iov_count = length > 0, .eager = true};

    raw_post(raw, lane, &send);
}

uint64_t raw_send(raw_t *raw, kvl_msg_type_t type)
{
    size_t length = kvl_wbuf_finish(&raw->w, type, ++raw->request, KVL_OK);

    REQUIRE(length > 0);
    raw_bytes(raw, KVL_LANE_CTRL, KVL_AM_CTRL, raw->buffer, length);
    return raw->request;
}

void raw_data(raw_t *raw, unsigned lane, const kvl_data_head_t *head, const void *bytes,
              size_t length)
{
    uint8_t bytes_of_head[KVL_DATA_HEAD_SIZE];
    kvl_iov_t iov      = {(void *)bytes, length};
    kvl_am_send_t send = {.id            = head->kind,
                          .header        = bytes_of_head,
                          .header_length = sizeof(bytes_of_head),
                          .iov           = &iov,
                          .iov_count     = length > 0};

    kvl_put_data_head(bytes_of_head, head);
    raw_post(raw, lane, &send);
}

raw_message_t *raw_take(raw_t *raw)
{
    static raw_message_t taken;
    int64_t end            = kvl_now_ns() + LIMIT_NS;
    raw_message_t *message = raw->messages;

    while (!raw->count) {
        raw_progress(raw);
        if (kvl_now_ns() > end || (!raw->count && raw->lanes[KVL_LANE_CTRL].failed)) {
            return NULL;
        }
    }
    taken = *message;
    raw->count--;
    memmove(message, message + 1, raw->count * sizeof(*message));
    if (taken.am == KVL_AM_CTRL || taken.am == KVL_AM_EP_HELLO) {
        REQUIRE(kvl_wire_open(&taken.body, taken.data, taken.length, &taken.msg) == KVL_OK);
    }
    return &taken;
}

raw_message_t *raw_answer(raw_t *raw, kvl_msg_type_t type, uint64_t request)
{
    raw_message_t *message = raw_take(raw);

    CHECK_MSG(message != NULL, "no answer; %s expected", kvl_msg_name(type));
    REQUIRE(message != NULL);
    CHECK_STR_EQ(kvl_msg_name(message->msg.type), kvl_msg_name(type));
    REQUIRE(message->msg.type == type && message->msg.request == request);
    return message;
}

bool raw_is_closed(raw_t *raw, unsigned lane)
{
    int64_t end = kvl_now_ns() + LIMIT_NS;

    while (!raw->lanes[lane].failed && kvl_now_ns() < end) {
        raw_progress(raw);
    }
    return raw->lanes[lane].failed;
}

void raw_step(raw_t *raw, unsigned ms)
{
    int64_t end = kvl_now_ns() + ms * KVL_MS;

    while (kvl_now_ns() < end) {
        raw_progress(raw);
    }
}

void raw_sync(raw_t *raw)
{
    raw_begin(raw);
    raw_answer(raw, KVL_MSG_PONG, raw_send(raw, KVL_MSG_PING));
}

/* ---- handshake ---- */

kvl_hello_t raw_hello(const raw_t *raw)
{
    return (kvl_hello_t){.version_min  = KVL_WIRE_VERSION_MIN,
                         .version_max  = KVL_WIRE_VERSION,
                         .nonce        = raw->nonce,
                         .depth        = 8,
                         .sg_endpoints = 2,
                         .data_depth   = 8,
                         .inline_max   = 1024,
                         .transport    = raw->transport,
                         .pid          = (uint32_t)getpid(),
                         .name         = "raw"};
}

void raw_login(raw_t *raw)
{
    kvl_hello_t hello = raw_hello(raw);
    raw_message_t *message;

    raw_connect(raw, KVL_LANE_CTRL);
    kvl_put_hello(raw_begin(raw), &hello);
    message = raw_answer(raw, KVL_MSG_HELLO_OK, raw_send(raw, KVL_MSG_HELLO));
    REQUIRE(kvl_get_hello_ok(&message->body, &raw->terms) == KVL_OK);
    if (!raw->transport) {
        REQUIRE(kvl_get_region(&message->body, &raw->region) == KVL_OK);
        raw->region.rkey = NULL;
    }
}

void raw_bind(raw_t *raw, unsigned lane)
{
    kvl_ep_hello_t hello = {.session = raw->terms.session, .lane = (uint8_t)lane};
    size_t length;

    raw_connect(raw, lane);
    kvl_put_ep_hello(raw_begin(raw), &hello);
    length = kvl_wbuf_finish(&raw->w, KVL_MSG_EP_HELLO, ++raw->request, KVL_OK);
    raw_bytes(raw, lane, KVL_AM_EP_HELLO, raw->buffer, length);
    raw_answer(raw, KVL_MSG_EP_OK, raw->request);
}

/* ---- requests ---- */

static kvl_wire_key_t wire_key(const char *key)
{
    return (kvl_wire_key_t){(const uint8_t *)key, (uint8_t)strlen(key)};
}

kvl_reserved_t raw_reserve(raw_t *raw, const char *key, uint64_t length)
{
    kvl_reserve_t item = {.index = 9, .key = wire_key(key), .length = length};
    kvl_reserved_t out;
    raw_message_t *message;

    kvl_put_ttl(raw_begin(raw), 10000);
    kvl_put_reserve(&raw->w, &item);
    message = raw_answer(raw, KVL_MSG_RESERVED, raw_send(raw, KVL_MSG_RESERVE));
    REQUIRE(kvl_get_reserved(&message->body, &out) == KVL_OK && out.index == 9);
    return out;
}

static kvl_answer_t raw_one_answer(raw_t *raw, kvl_msg_type_t type, uint64_t request)
{
    raw_message_t *message = raw_answer(raw, type, request);
    kvl_answer_t out;

    REQUIRE(kvl_get_answer(&message->body, &out) == KVL_OK);
    REQUIRE(kvl_wire_close(&message->body) == KVL_OK && out.index == 9);
    return out;
}

kvl_status_t raw_commit(raw_t *raw, const kvl_wire_lease_t *lease, uint64_t length, uint32_t ops)
{
    kvl_commit_t item = {.index      = 9,
                         .lease      = lease->id,
                         .generation = lease->generation,
                         .length     = length,
                         .ops        = ops};

    kvl_put_commit(raw_begin(raw), &item);
    return (kvl_status_t)raw_one_answer(raw, KVL_MSG_COMMITTED, raw_send(raw, KVL_MSG_COMMIT))
        .status;
}

kvl_found_t raw_lookup(raw_t *raw, const char *key)
{
    kvl_lookup_t item = {.index = 9, .key = wire_key(key)};
    kvl_found_t out;
    raw_message_t *message;

    kvl_put_ttl(raw_begin(raw), 10000);
    kvl_put_lookup(&raw->w, &item);
    message = raw_answer(raw, KVL_MSG_FOUND, raw_send(raw, KVL_MSG_LOOKUP));
    REQUIRE(kvl_get_found(&message->body, &out) == KVL_OK && out.index == 9);
    return out;
}

kvl_status_t raw_exists(raw_t *raw, const char *key, uint64_t *length_p)
{
    kvl_lookup_t item = {.index = 9, .key = wire_key(key)};
    kvl_answer_t out;

    kvl_put_lookup(raw_begin(raw), &item);
    out       = raw_one_answer(raw, KVL_MSG_EXISTS_OK, raw_send(raw, KVL_MSG_EXISTS));
    *length_p = out.length;
    return (kvl_status_t)out.status;
}

void raw_give_back(raw_t *raw, kvl_msg_type_t type, const kvl_wire_lease_t *lease)
{
    kvl_commit_t item = {.lease = lease->id, .generation = lease->generation};

    kvl_put_commit(raw_begin(raw), &item);
    raw_send(raw, type);
}

kvl_status_t raw_get(raw_t *raw, unsigned lane, const kvl_data_head_t *head,
                     raw_message_t **reply_p)
{
    kvl_data_head_t reply;

    raw_data(raw, lane, head, NULL, 0);
    *reply_p = raw_take(raw);
    REQUIRE(*reply_p != NULL && (*reply_p)->am == KVL_AM_GET_REPLY);
    REQUIRE(kvl_get_data_head((*reply_p)->head, (*reply_p)->head_length, &reply) == KVL_OK);
    REQUIRE(reply.op == head->op);
    return (kvl_status_t)reply.status;
}
