/* SPDX-License-Identifier: BSD-3-Clause */
/* Every byte, over real UCX: puts, gets and messages over tcp and over shared memory. */
#include "conform/pair.h"

#include "shim/shim.h"

#include <kvlane/engine.h>

#include <stdlib.h>
#include <string.h>

static const size_t sizes[] = {1, 7, 4296, 65536, 1048579, 2883584};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

typedef struct {
    kvl_mem_t *arena, *pool;
    kvl_rkey_t *rkey;
    char *buffer;
} window_t;

static void window_open(pair_t *pair, window_t *window)
{
    char packed[1024];
    size_t length = sizeof(packed);

    window->buffer = malloc(PAIR_DATA);
    REQUIRE(kvl_mem_create(pair->context_b, NULL, PAIR_DATA, &window->arena) == KVL_OK);
    REQUIRE(kvl_mem_create(pair->context_a, window->buffer, PAIR_DATA, &window->pool) == KVL_OK);
    REQUIRE(kvl_mem_pack(window->arena, 0, packed, &length) == KVL_OK);
    REQUIRE(kvl_rkey_unpack(pair->a[0], packed, length,
                            (uintptr_t)kvl_mem_address(window->arena), PAIR_DATA, &window->rkey) == KVL_OK);
}

static void window_close(window_t *window)
{
    kvl_rkey_destroy(window->rkey);
    kvl_mem_destroy(window->arena);
    kvl_mem_destroy(window->pool);
    free(window->buffer);
}

static kvl_rma_t window_rma(const window_t *window, size_t offset, size_t length)
{
    return (kvl_rma_t){.address = window->buffer + offset,
                       .length  = length,
                       .mem     = window->pool,
                       .remote  = (uintptr_t)kvl_mem_address(window->arena) + offset,
                       .rkey    = window->rkey};
}

static void move_put_get(const char *rails)
{
    pair_t pair;
    window_t window;
    waiter_t op;

    REQUIRE(pair_open(&pair, rails, NULL) == KVL_OK);
    REQUIRE(pair_connect(&pair, 1) == KVL_OK);
    window_open(&pair, &window);
    memset(kvl_mem_address(window.arena), 0, PAIR_DATA);
    for (size_t i = 0; i < SIZES; i++) {
        kvl_rma_t rma = window_rma(&window, 3 * i, sizes[i]);
        char *remote  = (char *)kvl_mem_address(window.arena) + 3 * i;

        pair_fill(rma.address, rma.length, (unsigned)i);
        waiter_init(&op);
        CHECK_EQ(pair_wait(&pair, &op, kvl_ep_put(pair.a[0], &rma, &op.req)), KVL_OK);
        CHECK_EQ(pair_flush(&pair, pair.a[0]), KVL_OK);
        CHECK(pair_same(remote, rma.length, (unsigned)i));
        pair_fill(remote, rma.length, 100 + (unsigned)i);
        waiter_init(&op);
        CHECK_EQ(pair_wait(&pair, &op, kvl_ep_get(pair.a[0], &rma, &op.req)), KVL_OK);
        CHECK(pair_same(rma.address, rma.length, 100 + (unsigned)i));
    }
    CHECK_EQ(kvl_ep_pending(pair.a[0]), 0);
    window_close(&window);
    pair_close(&pair);
}

TEST(ucx_move, puts_and_gets_every_byte_over_tcp)
{
    move_put_get("tcp");
}

TEST(ucx_move, puts_and_gets_every_byte_over_shared_memory)
{
    move_put_get("shm");
}

/* pieces of odd lengths, apart here and in a row there */
static void move_pieces(const char *rails, bool takes)
{
    static const size_t lengths[] = {1, 4296, 63, 7777};
    pair_t pair;
    window_t window;
    waiter_t op;
    kvl_ep_info_t info;
    kvl_iov_t iov[4];
    kvl_rma_t rma;
    size_t at = 0;

    REQUIRE(pair_open(&pair, rails, NULL) == KVL_OK);
    REQUIRE(pair_connect(&pair, 1) == KVL_OK);
    REQUIRE(kvl_ep_info(pair.a[0], &info) == KVL_OK); /* a link does: only then it is known */
    window_open(&pair, &window);
    for (unsigned i = 0; i < 4; i++) {
        iov[i] = (kvl_iov_t){window.buffer + at, lengths[i]};
        at += lengths[i] + 100;
        pair_fill(iov[i].address, iov[i].length, i);
    }
    rma           = window_rma(&window, 5, at - 400);
    rma.iov       = iov;
    rma.iov_count = 4;
    waiter_init(&op);
    CHECK_EQ(pair_wait(&pair, &op, kvl_ep_put(pair.a[0], &rma, &op.req)), takes ? KVL_OK : KVL_ERR_UNSUPPORTED);
    if (takes) {
        CHECK_EQ(pair_flush(&pair, pair.a[0]), KVL_OK);
        for (unsigned i = 0; i < 4; i++) {
            memset(iov[i].address, 0, iov[i].length);
        }
        waiter_init(&op);
        CHECK_EQ(pair_wait(&pair, &op, kvl_ep_get(pair.a[0], &rma, &op.req)), KVL_OK);
        for (unsigned i = 0; i < 4; i++) {
            CHECK(pair_same(iov[i].address, iov[i].length, i));
        }
    }
    CHECK_EQ(kvl_ep_pending(pair.a[0]), 0);
    window_close(&window);
    pair_close(&pair);
}

TEST(ucx_move, takes_pieces_in_one_op_over_shared_memory_alone)
{
    move_pieces("shm", true);
    move_pieces("tcp", false);
}

TEST(ucx_move, puts_and_gets_every_byte_over_verbs)
{
    pair_needs_rdma();
    move_put_get("rdma");
}

static void move_messages(const char *rails, bool eager, size_t pieces, size_t into)
{
    pair_t pair;
    waiter_t op;
    char *source = malloc(PAIR_DATA), header[56];
    kvl_iov_t iov[61];

    memset(header, 0x5a, sizeof(header));
    REQUIRE(pair_open(&pair, rails, NULL) == KVL_OK);
    REQUIRE(pair_connect(&pair, 1) == KVL_OK);
    pair.iov_count = into;
    for (size_t i = 0; i < SIZES; i++) {
        size_t length = eager && sizes[i] > 65536 ? 60000 : sizes[i];
        size_t count = length < pieces ? 1 : pieces, at = 0;
        kvl_am_send_t send = {.id            = 1 + (unsigned)i % 5,
                              .header        = header,
                              .header_length = sizeof(header),
                              .iov           = iov,
                              .iov_count     = count,
                              .eager         = eager};
        arrived_t *arrived = &pair.arrived[i];

        pair_fill(source, length, (unsigned)i);
        for (size_t k = 0; k < count; k++) {
            size_t piece = k + 1 == count ? length - at : length / count;

            iov[k] = (kvl_iov_t){source + at, piece};
            at += piece;
        }
        memset(pair.data, 0, PAIR_DATA);
        waiter_init(&op);
        CHECK_EQ(pair_wait(&pair, &op, kvl_ep_am(pair.a[0], &send, &op.req)), KVL_OK);
        REQUIRE(pair_until(&pair, &pair.arrived_count, i + 1));
        if (arrived->recv.status == KVL_INPROGRESS) {
            REQUIRE(pair_until_int(&pair, &arrived->recv.done, 1));
        }
        CHECK_EQ(arrived->recv.status, KVL_OK);
        CHECK_EQ(arrived->id, send.id);
        CHECK_EQ(arrived->length, length);
        CHECK_EQ(arrived->header_length, sizeof(header));
        CHECK_MEM_EQ(arrived->header, header, sizeof(header));
        CHECK(arrived->known);
        CHECK(!(eager && arrived->rendezvous));
        if (arrived->rendezvous) {
            CHECK_EQ(arrived->recv.req.received, length);
        }
        CHECK(pair_same(pair.data, length, (unsigned)i));
    }
    pair_close(&pair);
    free(source);
}

TEST(ucx_move, sends_control_messages_eagerly)
{
    move_messages("tcp", true, 1, 1);
    move_messages("shm", true, 1, 1);
}

TEST(ucx_move, sends_one_range_over_tcp)
{
    move_messages("tcp", false, 1, 1);
}

TEST(ucx_move, sends_one_range_over_shared_memory)
{
    move_messages("shm", false, 1, 1);
}

TEST(ucx_move, sends_many_pieces_over_tcp)
{
    move_messages("tcp", false, 61, 1);
}

TEST(ucx_move, sends_many_pieces_over_shared_memory)
{
    move_messages("shm", false, 61, 1);
}

TEST(ucx_move, sends_messages_over_verbs)
{
    pair_needs_rdma();
    move_messages("rdma", true, 1, 1);
    move_messages("rdma", false, 1, 1);
    move_messages("rdma", false, 61, 1);
    move_messages("rdma", false, 7, 3);
}

TEST(ucx_move, receives_into_pieces)
{
    move_messages("tcp", false, 1, 3);
    move_messages("shm", false, 7, 3);
}

TEST(ucx_move, sends_a_header_alone)
{
    pair_t pair;
    waiter_t op;
    kvl_am_send_t send = {.id = 4, .header = "header", .header_length = 6};

    REQUIRE(pair_open(&pair, "tcp", NULL) == KVL_OK);
    REQUIRE(pair_connect(&pair, 1) == KVL_OK);
    waiter_init(&op);
    CHECK_EQ(pair_wait(&pair, &op, kvl_ep_am(pair.a[0], &send, &op.req)), KVL_OK);
    REQUIRE(pair_until(&pair, &pair.arrived_count, 1));
    CHECK_EQ(pair.arrived[0].length, 0);
    CHECK_MEM_EQ(pair.arrived[0].header, "header", 6);
    pair_close(&pair);
}

/* A rendezvous message that nobody receives ends at its sender with an error, and the endpoint
 * carries on. */
static void move_refused(const char *rails)
{
    pair_t pair;
    waiter_t op;
    char *source       = calloc(1, PAIR_DATA);
    kvl_iov_t iov      = {source, PAIR_DATA};
    kvl_am_send_t send = {.id = 3, .header = "h", .header_length = 1, .iov = &iov, .iov_count = 1};

    REQUIRE(pair_open(&pair, rails, NULL) == KVL_OK);
    REQUIRE(pair_connect(&pair, 1) == KVL_OK);
    pair.iov_count = 0;
    for (int i = 0; i < 3; i++) {
        waiter_init(&op);
        CHECK(pair_wait(&pair, &op, kvl_ep_am(pair.a[0], &send, &op.req)) < 0);
        CHECK(pair.arrived[i].rendezvous);
    }
    pair.iov_count = 1;
    pair_fill(source, PAIR_DATA, 9);
    waiter_init(&op);
    CHECK_EQ(pair_wait(&pair, &op, kvl_ep_am(pair.a[0], &send, &op.req)), KVL_OK);
    REQUIRE(pair_until(&pair, &pair.arrived_count, 4));
    REQUIRE(pair_until_int(&pair, &pair.arrived[3].recv.done, 1));
    CHECK(pair_same(pair.data, PAIR_DATA, 9));
    CHECK_EQ(pair.failed_a + pair.failed_b, 0);
    pair_close(&pair);
    free(source);
}

TEST(ucx_move, refuses_a_rendezvous_to_its_sender)
{
    move_refused("tcp");
    move_refused("shm");
}

TEST(ucx_move, tells_the_transport_and_what_it_can_do)
{
    pair_t pair;
    kvl_ep_info_t info;

    REQUIRE(pair_open(&pair, "shm", NULL) == KVL_OK);
    REQUIRE(pair_connect(&pair, 1) == KVL_OK);
    REQUIRE(kvl_ep_info(pair.a[0], &info) == KVL_OK);
    CHECK_STR_EQ(info.transport, "posix");
    CHECK(info.put_onesided && info.shared_memory && info.iov_is_fast);
    CHECK(strstr(info.detail, "posix/memory") != NULL);
    CHECK(info.get_onesided);
    pair_close(&pair);

    REQUIRE(pair_open(&pair, "tcp", NULL) == KVL_OK);
    REQUIRE(pair_connect(&pair, 1) == KVL_OK);
    REQUIRE(kvl_ep_info(pair.a[0], &info) == KVL_OK);
    CHECK_STR_EQ(info.transport, "tcp");
    CHECK(!info.put_onesided && !info.get_onesided && !info.shared_memory);
    CHECK_STR_EQ(info.detail, "tcp/lo");
    pair_close(&pair);
}

TEST(ucx_move, reads_and_writes_by_itself_over_verbs)
{
    pair_t pair;
    kvl_ep_info_t info;

    pair_needs_rdma();
    REQUIRE(pair_open(&pair, "rdma", NULL) == KVL_OK);
    REQUIRE(pair_connect(&pair, 1) == KVL_OK);
    REQUIRE(kvl_ep_info(pair.a[0], &info) == KVL_OK);
    CHECK_MSG(strncmp(info.transport, "rc_", 3) == 0, "%s (%s)", info.transport, info.detail);
    CHECK(info.put_onesided && info.get_onesided && !info.shared_memory);
    pair_close(&pair);
}

TEST(ucx_move, shows_shared_memory_to_the_peer)
{
    pair_t pair;
    window_t window;
    void *pointer = NULL;

    REQUIRE(pair_open(&pair, "shm", NULL) == KVL_OK);
    REQUIRE(pair_connect(&pair, 1) == KVL_OK);
    window_open(&pair, &window);
    strcpy((char *)kvl_mem_address(window.arena) + 100, "seen");
    REQUIRE(kvl_rkey_pointer(window.rkey, (uintptr_t)kvl_mem_address(window.arena) + 100,
                             &pointer) == KVL_OK);
    CHECK_STR_EQ((char *)pointer, "seen");
    window_close(&window);
    pair_close(&pair);

    REQUIRE(pair_open(&pair, "tcp", NULL) == KVL_OK);
    REQUIRE(pair_connect(&pair, 1) == KVL_OK);
    window_open(&pair, &window);
    CHECK_EQ(kvl_rkey_pointer(window.rkey, (uintptr_t)kvl_mem_address(window.arena), &pointer),
             KVL_ERR_UNSUPPORTED);
    window_close(&window);
    pair_close(&pair);
}

TEST(ucx_move, says_how_long_a_packed_key_is)
{
    pair_t pair;
    kvl_mem_t *mem;
    char packed[1024];
    size_t length = 0, needed;

    REQUIRE(pair_open(&pair, "shm", NULL) == KVL_OK);
    REQUIRE(kvl_mem_create(pair.context_b, NULL, 65536, &mem) == KVL_OK);
    CHECK_EQ(kvl_mem_pack(mem, 0, packed, &length), KVL_ERR_LIMIT);
    needed = length;
    CHECK(needed > 0 && needed < sizeof(packed));
    length = sizeof(packed);
    CHECK_EQ(kvl_mem_pack(mem, 0, packed, &length), KVL_OK);
    CHECK_EQ(length, needed);
    CHECK_EQ(kvl_mem_length(mem), 65536);
    kvl_mem_destroy(mem);
    pair_close(&pair);
}
