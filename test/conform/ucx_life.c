/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints are born, refused, broken and closed; each request is done exactly once. */
#include "conform/pair.h"

#include "shim/shim.h"

#include <arpa/inet.h>
#include <kvlane/engine.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define OPS   16
#define PIECE (PAIR_DATA / OPS)

TEST(ucx_life, carries_the_client_id_to_the_listener)
{
    pair_t pair;
    char text[80];

    REQUIRE(pair_open(&pair, "tcp", NULL) == KVL_OK);
    REQUIRE(pair_connect(&pair, 1) == KVL_OK);
    CHECK(pair.client_ids[0] == 0xfedcba9876543210);
    kvl_ep_peer(pair.b[0], text, sizeof(text));
    CHECK(strncmp(text, "127.0.0.1:", 10) == 0);
    CHECK(kvl_ep_worker(pair.b[0]) == pair.worker_b);
    kvl_ep_set_arg(pair.b[0], text);
    CHECK(kvl_ep_arg(pair.b[0]) == text);
    kvl_ep_set_arg(pair.b[0], &pair);
    pair_close(&pair);
}

TEST(ucx_life, fails_to_connect_where_nobody_listens)
{
    pair_t pair;
    kvl_ep_t *ep = NULL;
    waiter_t flush;
    kvl_status_t status;

    REQUIRE(pair_open(&pair, "tcp", NULL) == KVL_OK);
    kvl_ucx_listener_destroy(pair.listener);
    pair.listener          = NULL;
    kvl_ep_params_t params = {.worker = pair.worker_a, .arg = &pair};
    status                 = kvl_ep_connect(&params, &pair.addr, &ep);
    if (status == KVL_OK) {
        waiter_init(&flush);
        status = pair_wait(&pair, &flush, kvl_ep_flush(ep, &flush.req));
        pair_end(&pair, ep);
    }
    CHECK_MSG(kvl_status_group(status) == KVL_GROUP_PEER, "%s", kvl_status_string(status));
    pair_close(&pair);
}

static void expect_conn(pair_t *pair)
{
    REQUIRE(pair_until(pair, &pair->conn_count, 1));
    pair->conn_count = 0;
}

TEST(ucx_life, tells_a_client_that_it_was_rejected)
{
    pair_t pair;
    waiter_t flush;

    REQUIRE(pair_open(&pair, "shm", NULL) == KVL_OK);
    REQUIRE(pair_connect(&pair, 1) == KVL_OK);
    for (int i = 0; i < 10; i++) {
        kvl_ep_params_t params = {.worker = pair.worker_a, .arg = &pair};
        kvl_ep_t *ep;

        REQUIRE(kvl_ep_connect(&params, &pair.addr, &ep) == KVL_OK);
        expect_conn(&pair);
        waiter_init(&flush);
        kvl_conn_reject(pair.conns[0]);
        CHECK_EQ(pair_wait(&pair, &flush, kvl_ep_flush(ep, &flush.req)), KVL_ERR_REFUSED);
        pair_end(&pair, ep);
    }
    CHECK_EQ(pair_flush(&pair, pair.a[0]), KVL_OK);
    pair_close(&pair);
}

TEST(ucx_life, rejects_what_waits_when_the_listener_goes)
{
    pair_t pair;
    kvl_ep_t *ep;
    waiter_t flush;

    REQUIRE(pair_open(&pair, "tcp", NULL) == KVL_OK);
    kvl_ep_params_t params = {.worker = pair.worker_a, .arg = &pair};
    REQUIRE(kvl_ep_connect(&params, &pair.addr, &ep) == KVL_OK);
    expect_conn(&pair);
    kvl_ucx_listener_destroy(pair.listener);
    pair.listener = NULL;
    waiter_init(&flush);
    CHECK_EQ(pair_wait(&pair, &flush, kvl_ep_flush(ep, &flush.req)), KVL_ERR_REFUSED);
    pair_end(&pair, ep);
    pair_close(&pair);
}

static int dial(const pair_t *pair)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    REQUIRE(fd >= 0);
    REQUIRE(connect(fd, (const struct sockaddr *)&pair->addr.storage, pair->addr.length) == 0);
    return fd;
}

/* A client that connects, waits, and goes on only when nobody listens any more. UCX's tcp listener
 * leaves its connections behind when it is destroyed, with a pointer to itself. */
TEST(ucx_life, survives_connections_that_go_on_after_the_listener_went)
{
    /* what UCX's connection manager sends first: length, status, then that many bytes */
    static const uint8_t request[16 + 64] = {64};
    pair_t pair;
    int fds[20], i;

    REQUIRE(pair_open(&pair, "tcp", NULL) == KVL_OK);
    for (i = 0; i < 20; i++) {
        fds[i] = dial(&pair);
    }
    pair_spin_ms(&pair, 50);
    kvl_ucx_listener_destroy(pair.listener);
    pair.listener = NULL;
    for (i = 0; i < 20; i++) {
        CHECK(send(fds[i], request, sizeof(request), MSG_NOSIGNAL) == sizeof(request));
    }
    pair_spin_ms(&pair, 50);
    CHECK_EQ(pair.conn_count, 0); /* nobody is told */
    for (i = 0; i < 20; i++) {
        close(fds[i]);
    }
    pair_close(&pair);
}

/* The client is gone before its request is looked at: accepting or rejecting it harms nobody. */
TEST(ucx_life, survives_a_request_whose_client_is_gone)
{
    pair_t pair;

    REQUIRE(pair_open(&pair, "tcp", NULL) == KVL_OK);
    for (int i = 0; i < 6; i++) {
        kvl_ep_params_t params = {.worker = pair.worker_a, .arg = &pair};
        kvl_ep_t *ep;

        REQUIRE(kvl_ep_connect(&params, &pair.addr, &ep) == KVL_OK);
        expect_conn(&pair);
        pair_end(&pair, ep);
        pair_spin_ms(&pair, 10);
        params.worker = pair.worker_b;
        if (i % 2) {
            kvl_conn_reject(pair.conns[0]);
        } else if (kvl_ep_accept(&params, pair.conns[0], &ep) == KVL_OK) {
            pair_spin_ms(&pair, 10);
            pair_end(&pair, ep);
        }
    }
    CHECK_EQ(pair_connect(&pair, 1), KVL_OK);
    pair_close(&pair);
}

TEST(ucx_life, tells_once_that_the_peer_closed)
{
    pair_t pair;
    waiter_t op;
    kvl_am_send_t send = {.id = 1, .header = "h", .header_length = 1, .eager = true};

    REQUIRE(pair_open(&pair, "shm", NULL) == KVL_OK);
    REQUIRE(pair_connect(&pair, 2) == KVL_OK);
    pair_end(&pair, pair.b[0]);
    pair.b[0] = NULL;
    for (int i = 0; i < 200 && pair.failed_a == 0; i++) {
        pair_spin_ms(&pair, 5);
    }
    CHECK_EQ(pair.failed_a, 1);
    CHECK_EQ(pair.failed_status, KVL_ERR_PEER);
    waiter_init(&op);
    CHECK(pair_wait(&pair, &op, kvl_ep_am(pair.a[0], &send, &op.req)) < 0);
    CHECK_EQ(pair_flush(&pair, pair.a[1]), KVL_OK); /* its neighbour lives */
    pair_spin_ms(&pair, 20);
    CHECK_EQ(pair.failed_a, 1);
    pair_close(&pair);
}

static void closes_gracefully(const char *rails)
{
    pair_t pair;
    waiter_t op, close;
    char *source       = malloc(PAIR_DATA);
    kvl_iov_t iov      = {source, PAIR_DATA};
    kvl_am_send_t send = {.id = 3, .header = "h", .header_length = 1, .iov = &iov, .iov_count = 1};

    REQUIRE(pair_open(&pair, rails, NULL) == KVL_OK);
    REQUIRE(pair_connect(&pair, 1) == KVL_OK);
    pair_fill(source, PAIR_DATA, 77);
    waiter_init(&op);
    waiter_init(&close);
    op.status = kvl_ep_am(pair.a[0], &send, &op.req);
    CHECK_EQ(op.status, KVL_INPROGRESS);
    CHECK_EQ(pair_wait(&pair, &close, kvl_ep_close(pair.a[0], false, &close.req)), KVL_OK);
    CHECK_EQ(pair_wait(&pair, &op, KVL_INPROGRESS), KVL_OK);
    REQUIRE(pair_until_int(&pair, &pair.arrived[0].recv.done, 1));
    CHECK_EQ(pair.arrived[0].recv.done, 1); /* it may hear of the close before the last bytes */
    CHECK(pair.arrived[0].recv.status != KVL_OK || pair_same(pair.data, PAIR_DATA, 77));
    CHECK_EQ(kvl_ep_pending(pair.a[0]), 0);
    CHECK_EQ(pair.failed_a, 0);
    kvl_ep_destroy(pair.a[0]);
    pair.a[0] = NULL;
    pair_close(&pair);
    free(source);
}

TEST(ucx_life, waits_for_its_requests_in_a_graceful_close)
{
    closes_gracefully("tcp");
    closes_gracefully("shm");
}

/* KIND_AM: messages of registered memory whose handle is not given; KIND_AM_MEM: it is. */
typedef enum { KIND_PUT, KIND_AM, KIND_AM_MEM } kind_t;

typedef struct {
    pair_t pair;
    kvl_mem_t *arena, *pool;
    kvl_rkey_t *rkey;
    char *source;
    waiter_t ops[OPS];
    kvl_iov_t iov[OPS];
    kvl_status_t posted[OPS];
} storm_t;

static void storm_open(storm_t *storm, const char *rails)
{
    pair_t *pair = &storm->pair;
    char packed[1024];
    size_t length = sizeof(packed);

    REQUIRE(pair_open(pair, rails, NULL) == KVL_OK);
    REQUIRE(pair_connect(pair, 1) == KVL_OK);
    storm->source = calloc(1, PAIR_DATA);
    REQUIRE(kvl_mem_create(pair->context_b, pair->data, PAIR_DATA, &storm->arena) == KVL_OK);
    REQUIRE(kvl_mem_create(pair->context_a, storm->source, PAIR_DATA, &storm->pool) == KVL_OK);
    REQUIRE(kvl_mem_pack(storm->arena, 0, packed, &length) == KVL_OK);
    REQUIRE(kvl_rkey_unpack(pair->a[0], packed, length,
                            (uintptr_t)kvl_mem_address(storm->arena), PAIR_DATA, &storm->rkey) == KVL_OK);
}

static void storm_post(storm_t *storm, kind_t kind)
{
    storm->pair.recv_mem = kind == KIND_AM_MEM ? storm->arena : NULL;
    for (size_t i = 0; i < OPS; i++) {
        kvl_rma_t rma      = {.address = storm->source + i * PIECE,
                              .length  = PIECE,
                              .mem     = storm->pool,
                              .remote  = (uintptr_t)storm->pair.data + i * PIECE,
                              .rkey    = storm->rkey};
        kvl_am_send_t send = {.id            = 3,
                              .header        = "h",
                              .header_length = 1,
                              .iov           = &storm->iov[i],
                              .iov_count     = 1,
                              .mem           = kind == KIND_AM_MEM ? storm->pool : NULL};
        kvl_ep_t *ep       = storm->pair.a[0];

        storm->iov[i] = (kvl_iov_t){rma.address, rma.length};
        waiter_init(&storm->ops[i]);
        storm->posted[i] = kind == KIND_PUT ? kvl_ep_put(ep, &rma, &storm->ops[i].req)
                                            : kvl_ep_am(ep, &send, &storm->ops[i].req);
    }
}

static void storm_check(storm_t *storm)
{
    for (size_t i = 0; i < OPS; i++) {
        CHECK_EQ(storm->ops[i].done, storm->posted[i] == KVL_INPROGRESS);
        CHECK(storm->posted[i] == KVL_INPROGRESS || storm->posted[i] == KVL_OK);
    }
}

static void storm_close(storm_t *storm)
{
    kvl_mem_destroy(storm->arena);
    kvl_mem_destroy(storm->pool);
    pair_close(&storm->pair);
    free(storm->source);
}

/* The initiator gives up with everything in flight. The target must not run on meanwhile with
 * emulated puts in its socket (1.13 would abort): it closes first, as the node does. */
static void storm_initiator_closes(const char *rails, kind_t kind, int steps)
{
    storm_t storm;

    storm_open(&storm, rails);
    storm_post(&storm, kind);
    for (int i = 0; i < steps; i++) {
        pair_step(&storm.pair);
    }
    kvl_rkey_destroy(storm.rkey);
    if (kind == KIND_PUT) {
        pair_end(&storm.pair, storm.pair.b[0]);
        storm.pair.b[0] = NULL;
    }
    pair_end(&storm.pair, storm.pair.a[0]);
    storm.pair.a[0] = NULL;
    storm_check(&storm);
    if (storm.pair.b[0]) {
        pair_end(&storm.pair, storm.pair.b[0]);
        storm.pair.b[0] = NULL;
    }
    for (size_t i = 0; i < storm.pair.arrived_count; i++) {
        arrived_t *arrived = &storm.pair.arrived[i];

        CHECK(!arrived->rendezvous || arrived->recv.status != KVL_INPROGRESS);
        CHECK(arrived->recv.done <= 1);
    }
    storm_close(&storm);
}

static void storm_target_closes(const char *rails, kind_t kind, int steps)
{
    storm_t storm;

    storm_open(&storm, rails);
    storm_post(&storm, kind);
    for (int i = 0; i < steps; i++) {
        pair_step(&storm.pair);
    }
    pair_end(&storm.pair, storm.pair.b[0]);
    storm.pair.b[0] = NULL;
    kvl_rkey_destroy(storm.rkey);
    pair_end(&storm.pair, storm.pair.a[0]);
    storm.pair.a[0] = NULL;
    storm_check(&storm);
    for (size_t i = 0; i < storm.pair.arrived_count; i++) {
        CHECK(storm.pair.arrived[i].recv.status != KVL_INPROGRESS);
    }
    storm_close(&storm);
}

TEST(ucx_life, gives_up_a_graceful_close_when_forced)
{
    pair_t pair;
    waiter_t op, close, unused;
    char *source       = calloc(1, PAIR_DATA);
    kvl_iov_t iov      = {source, PAIR_DATA};
    kvl_am_send_t send = {.id = 3, .header = "h", .header_length = 1, .iov = &iov, .iov_count = 1};

    REQUIRE(pair_open(&pair, "tcp", NULL) == KVL_OK);
    REQUIRE(pair_connect(&pair, 1) == KVL_OK);
    waiter_init(&op);
    waiter_init(&close);
    waiter_init(&unused);
    CHECK_EQ(kvl_ep_am(pair.a[0], &send, &op.req), KVL_INPROGRESS);
    CHECK_EQ(kvl_ep_close(pair.a[0], false, &close.req), KVL_INPROGRESS);
    CHECK_EQ(kvl_ep_close(pair.a[0], false, &unused.req), KVL_ERR_CLOSED);
    kvl_worker_progress(pair.worker_a); /* the peer does not move */
    CHECK_EQ(op.done + close.done, 0);
    CHECK_EQ(kvl_ep_close(pair.a[0], true, &unused.req), KVL_OK);
    REQUIRE(pair_until_int(&pair, &close.done, 1) && pair_until_int(&pair, &op.done, 1));
    CHECK_EQ(close.status, KVL_OK);
    CHECK_EQ(op.done + close.done + unused.done, 2);
    CHECK_EQ(kvl_ep_pending(pair.a[0]), 0);
    kvl_ep_destroy(pair.a[0]);
    pair.a[0] = NULL;
    pair_close(&pair);
    free(source);
}

TEST(ucx_life, ends_each_put_once_when_forced)
{
    for (int steps = 0; steps < 12; steps += 3) {
        storm_initiator_closes("tcp", KIND_PUT, steps);
        storm_initiator_closes("shm", KIND_PUT, steps);
    }
}

TEST(ucx_life, ends_each_message_once_when_forced)
{
    for (int steps = 0; steps < 60; steps += 5) {
        kind_t kind = steps / 5 % 2 ? KIND_AM : KIND_AM_MEM;

        storm_initiator_closes("tcp", kind, steps);
        storm_initiator_closes("shm", kind, steps);
    }
}

TEST(ucx_life, ends_each_put_once_when_the_target_closes)
{
    for (int steps = 0; steps < 12; steps += 3) {
        storm_target_closes("tcp", KIND_PUT, steps);
        storm_target_closes("shm", KIND_PUT, steps);
    }
}

TEST(ucx_life, ends_each_op_once_over_verbs)
{
    pair_needs_rdma();
    for (int steps = 0; steps < 10; steps += 5) {
        storm_initiator_closes("rdma", KIND_PUT, steps);
        storm_target_closes("rdma", KIND_PUT, steps);
        storm_initiator_closes("rdma", steps % 2 ? KIND_AM : KIND_AM_MEM, steps);
        storm_target_closes("rdma", steps % 2 ? KIND_AM : KIND_AM_MEM, steps);
    }
}

TEST(ucx_life, ends_each_message_once_when_the_target_closes)
{
    for (int steps = 0; steps < 60; steps += 5) {
        kind_t kind = steps / 5 % 2 ? KIND_AM : KIND_AM_MEM;

        storm_target_closes("tcp", kind, steps);
        storm_target_closes("shm", kind, steps);
    }
}

static void cycles(const char *rails, int count)
{
    pair_t pair;
    int before = 0;

    REQUIRE(pair_open(&pair, rails, NULL) == KVL_OK);
    for (int i = 0; i < count; i++) {
        REQUIRE(pair_connect(&pair, 1) == KVL_OK);
        pair_end(&pair, pair.a[0]);
        pair_end(&pair, pair.b[0]);
        pair.a[0] = pair.b[0] = NULL;
        pair.ep_count         = 0;
        if (i == 20) {
            before = pair_open_fds();
        }
    }
    pair_spin_ms(&pair, 50);
    CHECK_MSG(pair_open_fds() <= before, "%d files, %d before", pair_open_fds(), before);
    pair_close(&pair);
}

TEST(ucx_life, connects_and_closes_200_times_over_tcp)
{
    cycles("tcp", 200);
}

TEST(ucx_life, connects_and_closes_200_times_over_shared_memory)
{
    cycles("shm", 200);
}

static int garbage_socket(const pair_t *pair)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    REQUIRE(fd >= 0);
    REQUIRE(connect(fd, (const struct sockaddr *)&pair->addr.storage, pair->addr.length) == 0);
    return fd;
}

TEST(ucx_life, serves_on_after_garbage_at_the_port)
{
    pair_t pair;
    char noise[4096];

    pair_fill(noise, sizeof(noise), 3);
    REQUIRE(pair_open(&pair, "tcp", NULL) == KVL_OK);
    for (int i = 0; i < 100; i++) {
        int fd = garbage_socket(&pair);

        CHECK(i % 4 == 0 || write(fd, noise, (size_t)(i * 37) % sizeof(noise) + 1) > 0);
        pair_step(&pair);
        close(fd);
    }
    pair_spin_ms(&pair, 50);
    CHECK_EQ(pair.conn_count, 0);
    CHECK_EQ(pair_connect(&pair, 1), KVL_OK);
    pair_close(&pair);
}

TEST(ucx_life, wakes_a_sleeper)
{
    pair_t pair;

    REQUIRE(pair_open(&pair, "tcp", NULL) == KVL_OK);
    while (kvl_worker_arm(pair.worker_a) == KVL_ERR_BUSY) {
        kvl_worker_progress(pair.worker_a);
    }
    CHECK(kvl_worker_fd(pair.worker_a) >= 0);
    kvl_worker_wake(pair.worker_a);
    CHECK_EQ(kvl_worker_arm(pair.worker_a), KVL_ERR_BUSY);
    pair_close(&pair);
}
