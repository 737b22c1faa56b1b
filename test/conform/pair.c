/* SPDX-License-Identifier: BSD-3-Clause */
#include "conform/pair.h"

#include "shim/shim.h"

#include "base/error.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#define PAIR_LIMIT_NS (20 * KVL_SECOND)

static void waiter_done(kvl_req_t *req, kvl_status_t status)
{
    waiter_t *waiter = kvl_container(req, waiter_t, req);

    waiter->done++;
    waiter->status = status;
}

void waiter_init(waiter_t *waiter)
{
    memset(waiter, 0, sizeof(*waiter));
    waiter->req.done = waiter_done;
    waiter->status   = KVL_INPROGRESS;
}

void pair_fill(void *data, size_t length, unsigned seed)
{
    unsigned char *bytes = data;

    for (size_t i = 0; i < length; i++) {
        bytes[i] = (unsigned char)(i * 7 + (i >> 8) * 13 + (i >> 16) * 31 + seed);
    }
}

bool pair_same(const void *data, size_t length, unsigned seed)
{
    const unsigned char *bytes = data;

    for (size_t i = 0; i < length; i++) {
        if (bytes[i] != (unsigned char)(i * 7 + (i >> 8) * 13 + (i >> 16) * 31 + seed)) {
            return false;
        }
    }
    return true;
}

static size_t pair_split(pair_t *pair, size_t length)
{
    size_t first = length / 5, second = length / 3;

    if (pair->iov_count == 1) {
        pair->iov[0] = (kvl_iov_t){pair->data, length};
        return 1;
    }
    pair->iov[0] = (kvl_iov_t){pair->data, first};
    pair->iov[1] = (kvl_iov_t){pair->data + first, second};
    pair->iov[2] = (kvl_iov_t){pair->data + first + second, length - first - second};
    return 3;
}

static kvl_status_t pair_am(void *arg, const kvl_am_t *am)
{
    pair_t *pair       = arg;
    arrived_t *arrived = &pair->arrived[pair->arrived_count];

    if (pair->arrived_count == PAIR_AMS || am->length > PAIR_DATA) {
        return KVL_OK;
    }
    pair->arrived_count++;
    arrived->id            = am->id;
    arrived->header_length = am->header_length;
    memcpy(arrived->header, am->header, am->header_length);
    arrived->length     = am->length;
    arrived->known      = am->ep != NULL;
    arrived->rendezvous = am->data == NULL;
    waiter_init(&arrived->recv);
    if (am->data) {
        memcpy(pair->data, am->data, am->length);
        arrived->recv.status = KVL_OK;
        return KVL_OK;
    }
    if (pair->iov_count == 0) {
        return KVL_OK;
    }
    arrived->recv.status = kvl_am_recv(am, pair->worker_b, pair->iov, pair_split(pair, am->length),
                                       pair->recv_mem, &arrived->recv.req);
    return arrived->recv.status;
}

static kvl_status_t pair_am_a(void *arg, const kvl_am_t *am)
{
    (void)arg;
    (void)am;
    return KVL_OK;
}

static void pair_conn(kvl_conn_t *conn, uint64_t client_id, void *arg)
{
    pair_t *pair = arg;

    REQUIRE(pair->conn_count < PAIR_EPS);
    pair->client_ids[pair->conn_count] = client_id;
    pair->conns[pair->conn_count++]    = conn;
}

static void pair_failed_a(kvl_ep_t *ep, kvl_status_t status, void *arg)
{
    pair_t *pair = arg;

    CHECK(kvl_ep_arg(ep) == arg);
    pair->failed_a++;
    pair->failed_status = status;
}

static void pair_failed_b(kvl_ep_t *ep, kvl_status_t status, void *arg)
{
    pair_t *pair = arg;

    (void)ep;
    pair->failed_b++;
    pair->failed_status = status;
}

static kvl_status_t pair_config(pair_t *pair, const char *rails, const char *options)
{
    kvl_status_t status = kvl_config_create(&pair->config);
    char *copy, *rest, *token, *value;

    if (status != KVL_OK) {
        return status;
    }
    status = kvl_config_set(pair->config, "KVLANE_RAILS", rails);
    copy   = strdup(options ? options : "");
    for (token = strtok_r(copy, " ", &rest); status == KVL_OK && token;
         token = strtok_r(NULL, " ", &rest)) {
        value    = strchr(token, '=');
        *value++ = '\0';
        status   = kvl_config_set(pair->config, token, value);
    }
    free(copy);
    return status;
}

void pair_needs_rdma(void)
{
    if (!getenv("KVL_TEST_RDMA")) {
        SKIP("KVL_TEST_RDMA names no verbs device's address");
    }
}

/* Where rails of this kind listen: address with port 0, and tcp device. */
static void pair_place(const char *rails, char *address, char *device, size_t size)
{
    const char *place = strcmp(rails, "rdma") == 0 ? getenv("KVL_TEST_RDMA") : "127.0.0.1,lo";
    const char *comma = strchr(place, ',');

    snprintf(address, size, "%.*s:0", (int)(comma - place), place);
    snprintf(device, size, "%s", comma + 1);
}

static kvl_status_t pair_start(pair_t *pair, const char *rails)
{
    char address[64], device[64];
    kvl_context_params_t context = {.config = pair->config, .device = device};
    kvl_worker_params_t worker   = {
          .client_id = 0xfedcba9876543210, .am_count = 6, .arg = pair, .timers = &pair->timers};
    kvl_status_t status;

    pair_place(rails, address, device, sizeof(address));
    status = kvl_context_create(&context, &pair->context_a);
    if (status != KVL_OK) {
        return status;
    }
    status = kvl_context_create(&context, &pair->context_b);
    if (status != KVL_OK) {
        return status;
    }
    worker.am = pair_am_a;
    status    = kvl_worker_create(pair->context_a, &worker, &pair->worker_a);
    if (status != KVL_OK) {
        return status;
    }
    worker.am = pair_am;
    status    = kvl_worker_create(pair->context_b, &worker, &pair->worker_b);
    if (status != KVL_OK) {
        return status;
    }
    status = kvl_addr_parse(address, &pair->addr);
    if (status != KVL_OK) {
        return status;
    }
    status = kvl_ucx_listen(pair->worker_b, &pair->addr, pair_conn, pair, &pair->listener);
    if (status == KVL_OK) {
        kvl_ucx_listener_addr(pair->listener, &pair->addr);
    }
    return status;
}

kvl_status_t pair_open(pair_t *pair, const char *rails, const char *options)
{
    static bool started;
    kvl_status_t status;

    if (!started) {
        KEEPS("UCX opens files of its own when it is first used");
        started = true;
    }
    memset(pair, 0, sizeof(*pair));
    kvl_timers_init(&pair->timers);
    pair->iov_count = 1;
    pair->data      = calloc(1, PAIR_DATA);
    status          = pair_config(pair, rails, options);
    if (status == KVL_OK) {
        status = pair_start(pair, rails);
    }
    if (status != KVL_OK) {
        pair_close(pair);
    }
    return status;
}

static void pair_end_all(pair_t *pair)
{
    for (size_t i = 0; i < PAIR_EPS; i++) {
        pair_end(pair, pair->a[i]);
        pair_end(pair, pair->b[i]);
        pair->a[i] = pair->b[i] = NULL;
    }
    pair->ep_count = 0;
}

void pair_close(pair_t *pair)
{
    waiter_t flush;

    pair_end_all(pair);
    kvl_ucx_listener_destroy(pair->listener);
    for (int side = 0; side < 2; side++) {
        kvl_worker_t *worker = side ? pair->worker_b : pair->worker_a;

        if (worker && pair->worker_b) {
            waiter_init(&flush);
            pair_wait(pair, &flush, kvl_worker_flush(worker, &flush.req));
        }
    }
    kvl_worker_destroy(pair->worker_a);
    kvl_worker_destroy(pair->worker_b);
    kvl_context_destroy(pair->context_a);
    kvl_context_destroy(pair->context_b);
    kvl_timers_cleanup(&pair->timers);
    kvl_config_destroy(pair->config);
    free(pair->data);
    memset(pair, 0, sizeof(*pair));
}

void pair_step(pair_t *pair)
{
    kvl_worker_progress(pair->worker_a);
    kvl_worker_progress(pair->worker_b);
    kvl_timers_run(&pair->timers, kvl_now_ns());
}

void pair_spin_ms(pair_t *pair, int ms)
{
    int64_t end = kvl_now_ns() + ms * KVL_MS;

    do {
        pair_step(pair);
    } while (kvl_now_ns() < end);
}

bool pair_until(pair_t *pair, const size_t *value, size_t count)
{
    int64_t end = kvl_now_ns() + PAIR_LIMIT_NS;

    while (*value < count && kvl_now_ns() < end) {
        pair_step(pair);
    }
    return *value >= count;
}

bool pair_until_int(pair_t *pair, const int *value, int count)
{
    int64_t end = kvl_now_ns() + PAIR_LIMIT_NS;

    while (*(const volatile int *)value < count && kvl_now_ns() < end) {
        pair_step(pair);
    }
    return *value >= count;
}

kvl_status_t pair_wait(pair_t *pair, waiter_t *waiter, kvl_status_t posted)
{
    if (posted != KVL_INPROGRESS) {
        CHECK_EQ(waiter->done, 0);
        return waiter->status = posted;
    }
    CHECK_MSG(pair_until_int(pair, &waiter->done, 1), "not done after 20 s");
    CHECK_EQ(waiter->done, 1);
    return waiter->status;
}

kvl_status_t pair_flush(pair_t *pair, kvl_ep_t *ep)
{
    waiter_t flush;

    waiter_init(&flush);
    return pair_wait(pair, &flush, kvl_ep_flush(ep, &flush.req));
}

/* The request at the listener, or the refusal at the client. */
static kvl_status_t pair_await_conn(pair_t *pair)
{
    int64_t end     = kvl_now_ns() + PAIR_LIMIT_NS;
    unsigned failed = pair->failed_a;

    while (pair->conn_count == 0 && pair->failed_a == failed && kvl_now_ns() < end) {
        pair_step(pair);
    }
    return pair->conn_count           ? KVL_OK
           : pair->failed_a != failed ? pair->failed_status
                                      : KVL_ERR_TIMEOUT;
}

kvl_status_t pair_connect(pair_t *pair, size_t count)
{
    kvl_ep_params_t a   = {.worker = pair->worker_a, .failed = pair_failed_a, .arg = pair};
    kvl_ep_params_t b   = {.worker = pair->worker_b, .failed = pair_failed_b, .arg = pair};
    size_t first        = pair->ep_count;
    kvl_status_t status = KVL_OK;

    for (size_t i = 0; i < count && status == KVL_OK; i++) {
        status = kvl_ep_connect(&a, &pair->addr, &pair->a[first + i]);
        if (status == KVL_OK) {
            status = pair_await_conn(pair);
        }
        if (status == KVL_OK) {
            pair->conn_count = 0;
            status           = kvl_ep_accept(&b, pair->conns[0], &pair->b[first + i]);
        }
        if (status == KVL_OK) {
            status = pair_flush(pair, pair->a[first + i]);
        }
        if (status == KVL_OK) {
            pair->ep_count++;
        }
    }
    return status;
}

void pair_end(pair_t *pair, kvl_ep_t *ep)
{
    int64_t end = kvl_now_ns() + PAIR_LIMIT_NS;
    waiter_t close;

    if (!ep) {
        return;
    }
    waiter_init(&close);
    CHECK_EQ(pair_wait(pair, &close, kvl_ep_close(ep, true, &close.req)), KVL_OK);
    while (kvl_ep_pending(ep) > 0 && kvl_now_ns() < end) {
        pair_step(pair);
    }
    CHECK_EQ(kvl_ep_pending(ep), 0);
    kvl_ep_destroy(ep);
}

int pair_open_fds(void)
{
    DIR *dir  = opendir("/proc/self/fd");
    int count = 0;

    while (dir && readdir(dir)) {
        count++;
    }
    closedir(dir);
    return count;
}
