/* SPDX-License-Identifier: BSD-3-Clause */
#include "conform/raw.h"
#include "conform/stage.h"

#include "lane/endpoint.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Clients that lie, over real UCX. Each time the node refuses, counts it, and goes on serving others: an
 * honest client puts and gets after every lie. */

typedef struct {
    stage_t stage;
    raw_t raw;
    uint64_t refused; /* as of the last look */
} scene_t;

static void scene_open(scene_t *scene, const char *rails)
{
    stage_params_t params = {.rails = rails, .node_bytes = 16u << 20, .pool_bytes = 1u << 20};

    stage_open(&scene->stage, &params);
    raw_open(&scene->raw, rails, scene->stage.address);
    scene->refused = 0;
}

static void scene_close(scene_t *scene)
{
    raw_close(&scene->raw);
    stage_close(&scene->stage);
}

/* a fresh connection for the next lie */
static void scene_again(scene_t *scene)
{
    raw_close(&scene->raw);
    raw_open(&scene->raw, scene->stage.params.rails, scene->stage.address);
}

static kvl_node_stat_t scene_stat(scene_t *scene)
{
    kvl_node_stat_t stat;

    kvl_node_stat(scene->stage.node, &stat);
    return stat;
}

static void serves_others(scene_t *scene)
{
    stage_t *stage = &scene->stage;

    fill(stage->pool, 20000, 42);
    CHECK_EQ(stage_put(stage, "honest", 0, 20000), KVL_OK);
    memset(stage->pool, 0, 20000);
    CHECK_EQ(stage_get(stage, "honest", 0, 20000), KVL_OK);
    CHECK_EQ(differs(stage->pool, 20000, 42), 20000);
}

/* waits: what the raw client did last may still be on its way */
static void has_counted(scene_t *scene)
{
    int64_t end = kvl_now_ns() + 10 * KVL_SECOND;

    while (scene_stat(scene).refused_messages <= scene->refused && kvl_now_ns() < end) {
        raw_step(&scene->raw, 1);
    }
    CHECK(scene_stat(scene).refused_messages > scene->refused);
    scene->refused = scene_stat(scene).refused_messages;
}

/* the lie ended the session, was counted, and hurt nobody else */
static void is_thrown_out(scene_t *scene)
{
    CHECK(raw_is_closed(&scene->raw, KVL_LANE_CTRL));
    has_counted(scene);
    serves_others(scene);
}

static kvl_wire_key_t wire_key(const char *key)
{
    return (kvl_wire_key_t){(const uint8_t *)key, (uint8_t)strlen(key)};
}

/* ---- before HELLO, and HELLO ---- */

typedef struct {
    const char *bytes;
    size_t length;
} bytes_t;

BOTH(node_hello, throws_out_what_is_no_hello)
{
    static const bytes_t lies[] = {
        {"", 0},
        {"GET / HTTP/1.1\r\n\r\n", 18},
        {"\x4c\x4b\x01", 3},                                                      /* cut */
        {"\x4c\x4b\x09\x01\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24},         /* version 9 */
        {"\x4c\x4b\x01\xff\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24},         /* type 255 */
        {"\x4c\x4b\x01\x0c\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24},         /* RESERVE */
        {"\x4c\x4b\x01\x01\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\xff\xff\xff\xff", 24}, /* body 4 GiB */
    };
    scene_t scene;
    size_t i;

    scene_open(&scene, rails);
    for (i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        raw_connect(&scene.raw, KVL_LANE_CTRL);
        raw_bytes(&scene.raw, KVL_LANE_CTRL, KVL_AM_CTRL, lies[i].bytes, lies[i].length);
        has_counted(&scene);
        scene_again(&scene);
    }
    serves_others(&scene);
    scene_close(&scene);
}

static void lie_hello(scene_t *scene, const kvl_hello_t *hello, kvl_status_t status)
{
    raw_t *raw = &scene->raw;
    raw_message_t *message;

    raw_connect(raw, KVL_LANE_CTRL);
    kvl_put_hello(raw_begin(raw), hello);
    message = raw_answer(raw, KVL_MSG_REFUSE, raw_send(raw, KVL_MSG_HELLO));
    if (status) {
        CHECK_EQ(message->msg.status, status);
    }
    has_counted(scene);
    scene_again(scene);
}

BOTH(node_hello, refuses_versions_numbers_and_names_that_do_not_fit)
{
    kvl_hello_t hello;
    scene_t scene;

    scene_open(&scene, rails);
    hello             = raw_hello(&scene.raw);
    hello.version_min = hello.version_max = 77;
    lie_hello(&scene, &hello, KVL_ERR_VERSION);
    hello       = raw_hello(&scene.raw);
    hello.nonce = hello.nonce ^ UINT64_C(0x10000);
    lie_hello(&scene, &hello, KVL_ERR_INVALID);
    hello              = raw_hello(&scene.raw);
    hello.sg_endpoints = 65535;
    lie_hello(&scene, &hello, KVL_ERR_INVALID);
    hello       = raw_hello(&scene.raw);
    hello.depth = 0;
    lie_hello(&scene, &hello, KVL_OK);
    hello           = raw_hello(&scene.raw);
    hello.transport = 1;
    lie_hello(&scene, &hello, KVL_ERR_REFUSED);
    serves_others(&scene);
    scene_close(&scene);
}

BOTH(node_hello, throws_out_who_says_it_twice)
{
    kvl_hello_t hello;
    scene_t scene;

    scene_open(&scene, rails);
    raw_login(&scene.raw);
    hello = raw_hello(&scene.raw);
    kvl_put_hello(raw_begin(&scene.raw), &hello);
    raw_send(&scene.raw, KVL_MSG_HELLO);
    is_thrown_out(&scene);
    scene_close(&scene);
}

BOTH(node_ep_hello, refuses_sessions_and_places_that_are_not_the_clients)
{
    static const kvl_ep_hello_t lies[] = {
        {.session = 12345, .lane = KVL_LANE_DATA},         /* no such session */
        {.session = 0, .lane = KVL_LANE_DATA, .index = 1}, /* no such place; 0: the own session */
        {.session = 0, .lane = KVL_LANE_SG, .index = 0},   /* another lane than it came on */
    };
    scene_t scene;
    size_t i, length;

    scene_open(&scene, rails);
    for (i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        kvl_ep_hello_t hello = lies[i];

        raw_login(&scene.raw);
        hello.session = hello.session ? hello.session : scene.raw.terms.session;
        raw_connect(&scene.raw, KVL_LANE_DATA);
        kvl_put_ep_hello(raw_begin(&scene.raw), &hello);
        length = kvl_wbuf_finish(&scene.raw.w, KVL_MSG_EP_HELLO, 1, KVL_OK);
        raw_bytes(&scene.raw, KVL_LANE_DATA, KVL_AM_EP_HELLO, scene.raw.buffer, length);
        raw_answer(&scene.raw, KVL_MSG_REFUSE, 1);
        has_counted(&scene);
        scene_again(&scene);
    }
    serves_others(&scene);
    scene_close(&scene);
}

/* ---- requests that make no sense ---- */

/* a RESERVE of one item as bytes, for the next lie to spoil */
static size_t valid_reserve(raw_t *raw)
{
    kvl_reserve_t item = {.index = 1, .key = wire_key("a key"), .length = 5000};

    kvl_put_ttl(raw_begin(raw), 1000);
    kvl_put_reserve(&raw->w, &item);
    return kvl_wbuf_finish(&raw->w, KVL_MSG_RESERVE, ++raw->request, KVL_OK);
}

static void lie_bytes(scene_t *scene, size_t length)
{
    raw_bytes(&scene->raw, KVL_LANE_CTRL, KVL_AM_CTRL, scene->raw.buffer, length);
    is_thrown_out(scene);
    scene_again(scene);
    raw_login(&scene->raw);
}

BOTH(node_message, throws_out_bad_heads_and_cut_bodies)
{
    scene_t scene;
    uint8_t *bytes;
    size_t length;

    scene_open(&scene, rails);
    raw_login(&scene.raw);
    bytes  = scene.raw.buffer;
    length = valid_reserve(&scene.raw);
    lie_bytes(&scene, length - 1); /* cut: the head says more */
    length   = valid_reserve(&scene.raw);
    bytes[0] = 'X'; /* magic */
    lie_bytes(&scene, length);
    length   = valid_reserve(&scene.raw);
    bytes[2] = 99; /* version */
    lie_bytes(&scene, length);
    length   = valid_reserve(&scene.raw);
    bytes[4] = 2; /* count: one more than there is */
    lie_bytes(&scene, length);
    length   = valid_reserve(&scene.raw);
    bytes[4] = 0; /* count: none */
    lie_bytes(&scene, length);
    length   = valid_reserve(&scene.raw);
    bytes[4] = bytes[5] = 0xff; /* count: over the limit */
    lie_bytes(&scene, length);
    length = valid_reserve(&scene.raw);
    memset(bytes + 8, 0, 8); /* request 0: nobody could be answered */
    lie_bytes(&scene, length);
    length    = valid_reserve(&scene.raw);
    bytes[16] = 1; /* a status in a request */
    lie_bytes(&scene, length);
    length        = valid_reserve(&scene.raw);
    bytes[24 + 6] = 0; /* key length 0 */
    lie_bytes(&scene, length);
    length        = valid_reserve(&scene.raw);
    bytes[24 + 6] = 255; /* key length: past the end */
    lie_bytes(&scene, length);
    length        = valid_reserve(&scene.raw);
    bytes[length] = 0; /* a byte too many, and the head knows of it */
    bytes[20]     = (uint8_t)(bytes[20] + 1);
    lie_bytes(&scene, length + 1);
    serves_others(&scene);
    scene_close(&scene);
}

BOTH(node_message, throws_out_types_that_no_client_sends)
{
    static const uint8_t types[] = {KVL_MSG_HELLO_OK, KVL_MSG_RESERVED, KVL_MSG_COMMITTED,
                                    KVL_MSG_STAT_OK,  KVL_MSG_XFER_FIN, KVL_MSG_EP_HELLO,
                                    KVL_MSG_PONG,     KVL_MSG_REFUSE};
    scene_t scene;
    size_t i;

    scene_open(&scene, rails);
    for (i = 0; i < sizeof(types); i++) {
        raw_login(&scene.raw);
        raw_begin(&scene.raw);
        raw_send(&scene.raw, types[i]);
        is_thrown_out(&scene);
        scene_again(&scene);
    }
    scene_close(&scene);
}

BOTH(node_message, throws_out_active_messages_of_the_wrong_kind)
{
    scene_t scene;
    unsigned am;

    scene_open(&scene, rails);
    for (am = KVL_AM_EP_HELLO; am < KVL_AM_COUNT; am++) { /* on ctrl, after HELLO */
        raw_login(&scene.raw);
        raw_bytes(&scene.raw, KVL_LANE_CTRL, am, "rubbish", 7);
        is_thrown_out(&scene);
        scene_again(&scene);
    }
    for (am = KVL_AM_CTRL; am < KVL_AM_COUNT; am++) { /* on data, head missing or cut */
        raw_login(&scene.raw);
        raw_bind(&scene.raw, KVL_LANE_DATA);
        raw_bytes(&scene.raw, KVL_LANE_DATA, am, "rubbish", 7);
        is_thrown_out(&scene);
        scene_again(&scene);
    }
    scene_close(&scene);
}

BOTH(node_reserve, refuses_lengths_that_cannot_be)
{
    kvl_reserve_t item  = {.index = 1, .key = wire_key("k"), .length = 1025, .has_inline = true};
    uint8_t bytes[2000] = {1};
    kvl_reserved_t out;
    scene_t scene;

    scene_open(&scene, rails);
    raw_login(&scene.raw);
    CHECK_EQ(scene.raw.terms.value_max, 16u << 20);
    CHECK_EQ(raw_reserve(&scene.raw, "k", (16u << 20) + 1).status, KVL_ERR_NO_SPACE);
    CHECK_EQ(raw_reserve(&scene.raw, "k", UINT64_MAX).status, KVL_ERR_NO_SPACE);
    CHECK_EQ(raw_reserve(&scene.raw, "k", UINT64_MAX - 63).status, KVL_ERR_NO_SPACE);
    out = raw_reserve(&scene.raw, "k", 16u << 20); /* the scratch of this session is in the way */
    CHECK_EQ(out.status, KVL_ERR_BUSY);
    out = raw_reserve(&scene.raw, "k", 8u << 20);
    CHECK_EQ(out.status, KVL_OK);
    CHECK(out.lease.region == scene.raw.region.id &&
          out.lease.offset + (8u << 20) <= scene.raw.region.length);
    /* a value inside that is longer than agreed */
    item.bytes = bytes;
    kvl_put_ttl(raw_begin(&scene.raw), 1000);
    kvl_put_reserve(&scene.raw.w, &item);
    raw_send(&scene.raw, KVL_MSG_RESERVE);
    is_thrown_out(&scene);
    scene_close(&scene);
}

/* ---- leases of others, of before, of nobody ---- */

BOTH(node_commit, refuses_leases_that_are_not_the_clients)
{
    kvl_wire_lease_t lease, lie, read;
    uint64_t length;
    scene_t scene;
    raw_t other;

    scene_open(&scene, rails);
    raw_open(&other, rails, scene.stage.address);
    raw_login(&scene.raw);
    raw_login(&other);
    lease = raw_reserve(&scene.raw, "k", 5000).lease;
    CHECK_EQ(raw_commit(&other, &lease, 5000, 0), KVL_ERR_LEASE);
    has_counted(&scene);
    lie = lease;
    lie.generation ^= 1;
    CHECK_EQ(raw_commit(&scene.raw, &lie, 5000, 0), KVL_ERR_LEASE);
    has_counted(&scene);
    lie    = lease;
    lie.id = 0;
    CHECK_EQ(raw_commit(&scene.raw, &lie, 5000, 0), KVL_ERR_LEASE);
    has_counted(&scene);
    lie.id = UINT64_MAX;
    CHECK_EQ(raw_commit(&scene.raw, &lie, 5000, 0), KVL_ERR_LEASE);
    has_counted(&scene);
    raw_give_back(&other, KVL_MSG_ABORT, &lease);
    has_counted(&scene);
    raw_give_back(&other, KVL_MSG_RELEASE, &lease);
    has_counted(&scene);
    raw_give_back(&scene.raw, KVL_MSG_RELEASE, &lease); /* it is no read lease */
    has_counted(&scene);
    CHECK_EQ(raw_exists(&other, "k", &length), KVL_ERR_NOT_FOUND);
    CHECK_EQ(raw_commit(&scene.raw, &lease, 5000, 0), KVL_OK); /* after all that it stands */
    CHECK_EQ(raw_commit(&scene.raw, &lease, 5000, 0), KVL_ERR_LEASE);
    has_counted(&scene);
    CHECK_EQ(raw_exists(&other, "k", &length), KVL_OK);
    CHECK_EQ(length, 5000);

    read = raw_lookup(&other, "k").lease;
    CHECK_EQ(raw_commit(&other, &read, 5000, 0), KVL_ERR_LEASE); /* a read lease */
    has_counted(&scene);
    raw_give_back(&scene.raw, KVL_MSG_RELEASE, &read);
    has_counted(&scene);
    raw_give_back(&other, KVL_MSG_RELEASE, &read);
    raw_sync(&other);
    CHECK_EQ(scene_stat(&scene).leases, 0);
    serves_others(&scene);
    raw_close(&other);
    scene_close(&scene);
}

BOTH(node_commit, refuses_a_length_that_was_not_reserved)
{
    kvl_wire_lease_t lease;
    uint64_t length;
    scene_t scene;

    scene_open(&scene, rails);
    raw_login(&scene.raw);
    lease = raw_reserve(&scene.raw, "k", 5000).lease;
    CHECK_EQ(raw_commit(&scene.raw, &lease, 5001, 0), KVL_ERR_LENGTH);
    CHECK_EQ(raw_exists(&scene.raw, "k", &length), KVL_ERR_NOT_FOUND);
    CHECK_EQ(scene_stat(&scene).leases, 0);
    serves_others(&scene);
    scene_close(&scene);
}

/* ---- data ops ---- */

static kvl_data_head_t put_head(const kvl_wire_lease_t *lease, uint64_t offset, uint64_t length)
{
    return (kvl_data_head_t){.kind       = KVL_AM_PUT,
                             .op         = 1,
                             .token      = lease->id,
                             .generation = lease->generation,
                             .offset     = offset,
                             .length     = length};
}

BOTH(node_put, drops_what_is_not_the_clients_or_lies_outside)
{
    uint8_t poison[3000], good[5000];
    kvl_wire_lease_t lease, lie;
    kvl_data_head_t head;
    raw_message_t *reply;
    kvl_found_t found;
    scene_t scene;
    raw_t other;

    memset(poison, 0xee, sizeof(poison));
    fill(good, sizeof(good), 3);
    scene_open(&scene, rails);
    raw_open(&other, rails, scene.stage.address);
    raw_login(&scene.raw);
    raw_bind(&scene.raw, KVL_LANE_DATA);
    raw_login(&other);
    raw_bind(&other, KVL_LANE_DATA);
    lease = raw_reserve(&scene.raw, "k", 5000).lease;

    head = put_head(&lease, 0, 3000); /* of another session */
    raw_data(&other, KVL_LANE_DATA, &head, poison, 3000);
    has_counted(&scene);
    lie = lease;
    lie.generation++;
    head = put_head(&lie, 0, 3000);
    raw_data(&scene.raw, KVL_LANE_DATA, &head, poison, 3000);
    has_counted(&scene);
    lie = lease;
    lie.id ^= UINT64_C(1) << 40;
    head = put_head(&lie, 0, 3000);
    raw_data(&scene.raw, KVL_LANE_DATA, &head, poison, 3000);
    has_counted(&scene);
    head = put_head(&lease, 0, 3000); /* by region, where only the scratch may be reached so */
    head.scope  = 1;
    head.token  = scene.raw.region.id;
    head.offset = lease.offset;
    raw_data(&scene.raw, KVL_LANE_DATA, &head, poison, 3000);
    has_counted(&scene);

    /* the honest bytes: nothing of the above is in them */
    head = put_head(&lease, 0, 5000);
    raw_data(&scene.raw, KVL_LANE_DATA, &head, good, 5000);
    CHECK_EQ(raw_commit(&scene.raw, &lease, 5000, 1), KVL_OK);
    found = raw_lookup(&scene.raw, "k");
    CHECK_EQ(found.length, 5000);
    head      = put_head(&found.lease, 0, 5000);
    head.kind = KVL_AM_GET;
    CHECK_EQ(raw_get(&scene.raw, KVL_LANE_DATA, &head, &reply), KVL_OK);
    CHECK_EQ(differs(reply->data, 5000, 3), 5000);
    serves_others(&scene);
    raw_close(&other);
    scene_close(&scene);
}

BOTH(node_put, spoils_the_value_if_its_bytes_lie_outside_or_come_twice)
{
    static const struct {
        uint64_t offset, length;
    } lies[] = {{2001, 3000}, {5000, 1}, {UINT64_MAX - 1, 1}, {UINT64_MAX - 3000, 3000}, {0, 3000}};
    uint8_t poison[3000] = {0xee};
    kvl_wire_lease_t lease;
    kvl_data_head_t head;
    uint64_t length;
    scene_t scene;
    size_t i;

    scene_open(&scene, rails);
    raw_login(&scene.raw);
    raw_bind(&scene.raw, KVL_LANE_DATA);
    for (i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        lease = raw_reserve(&scene.raw, "k", 5000).lease;
        head  = put_head(&lease, 0, 3000);
        raw_data(&scene.raw, KVL_LANE_DATA, &head, poison, 3000);
        head = put_head(&lease, lies[i].offset, lies[i].length);
        raw_data(&scene.raw, KVL_LANE_DATA, &head, poison, lies[i].length);
        has_counted(&scene);
        CHECK_EQ(raw_commit(&scene.raw, &lease, 5000, 2), KVL_ERR_RANGE);
        CHECK_EQ(raw_exists(&scene.raw, "k", &length), KVL_ERR_NOT_FOUND);
    }
    CHECK_EQ(scene_stat(&scene).leases, 0);
    serves_others(&scene);
    scene_close(&scene);
}

BOTH(node_put, throws_out_heads_that_contradict_themselves)
{
    uint8_t bytes[100] = {1};
    kvl_wire_lease_t lease;
    kvl_data_head_t head;
    scene_t scene;
    unsigned i;

    scene_open(&scene, rails);
    for (i = 0; i < 5; i++) {
        raw_login(&scene.raw);
        raw_bind(&scene.raw, KVL_LANE_DATA);
        lease = raw_reserve(&scene.raw, "k", 5000).lease;
        head  = put_head(&lease, 0, 100);
        switch (i) {
        case 0:
            head.length = 99; /* brings more than it says */
            break;
        case 1:
            head.length = 0;
            break;
        case 2:
            head.length = UINT64_MAX;
            break;
        case 3:
            head.offset = UINT64_MAX - 10; /* wraps */
            break;
        default:
            head.scope = 7;
            break;
        }
        raw_data(&scene.raw, KVL_LANE_DATA, &head, bytes, 100);
        is_thrown_out(&scene);
        scene_again(&scene);
    }
    scene_close(&scene);
}

BOTH(node_get, refuses_what_is_not_the_clients_or_lies_outside)
{
    kvl_wire_lease_t lease, write;
    kvl_data_head_t head;
    raw_message_t *reply;
    scene_t scene;
    raw_t other;

    scene_open(&scene, rails);
    serves_others(&scene); /* stores "honest", 20000 bytes */
    raw_open(&other, rails, scene.stage.address);
    raw_login(&scene.raw);
    raw_bind(&scene.raw, KVL_LANE_DATA);
    raw_login(&other);
    raw_bind(&other, KVL_LANE_DATA);
    lease = raw_lookup(&other, "honest").lease;

    head      = put_head(&lease, 0, 1000);
    head.kind = KVL_AM_GET;
    CHECK_EQ(raw_get(&scene.raw, KVL_LANE_DATA, &head, &reply), KVL_ERR_LEASE);
    CHECK_EQ(reply->length, 0);
    has_counted(&scene);
    CHECK_EQ(raw_get(&other, KVL_LANE_DATA, &head, &reply), KVL_OK);
    CHECK_EQ(differs(reply->data, 1000, 42), 1000);
    head.offset = 19001;
    CHECK_EQ(raw_get(&other, KVL_LANE_DATA, &head, &reply), KVL_ERR_RANGE);
    has_counted(&scene);
    head.offset = UINT64_MAX - 1000;
    CHECK_EQ(raw_get(&other, KVL_LANE_DATA, &head, &reply), KVL_ERR_RANGE);
    has_counted(&scene);
    head.offset = 0;
    head.length = UINT64_MAX;
    CHECK_EQ(raw_get(&other, KVL_LANE_DATA, &head, &reply), KVL_ERR_RANGE);
    has_counted(&scene);
    head.length = 1000;
    head.generation++;
    CHECK_EQ(raw_get(&other, KVL_LANE_DATA, &head, &reply), KVL_ERR_LEASE);
    has_counted(&scene);
    head.scope  = 1; /* by region: the memory of others */
    head.token  = other.region.id;
    head.offset = 0;
    CHECK(raw_get(&other, KVL_LANE_DATA, &head, &reply) != KVL_OK);
    CHECK_EQ(reply->length, 0);
    has_counted(&scene);
    write     = raw_reserve(&other, "w", 5000).lease; /* what lay there before is not for him */
    head      = put_head(&write, 0, 1000);
    head.kind = KVL_AM_GET;
    CHECK_EQ(raw_get(&other, KVL_LANE_DATA, &head, &reply), KVL_ERR_LEASE);
    has_counted(&scene);
    serves_others(&scene);
    raw_close(&other);
    scene_close(&scene);
}

/* ---- order, death, and too much of everything ---- */

BOTH(node_commit, waits_for_bytes_that_it_overtook)
{
    uint8_t good[5000];
    kvl_wire_lease_t lease;
    kvl_data_head_t head;
    kvl_commit_t commit;
    raw_message_t *message;
    kvl_answer_t answer;
    uint64_t request, length;
    scene_t scene;

    fill(good, sizeof(good), 3);
    scene_open(&scene, rails);
    raw_login(&scene.raw);
    raw_bind(&scene.raw, KVL_LANE_DATA);
    lease  = raw_reserve(&scene.raw, "k", 5000).lease;
    commit = (kvl_commit_t){
        .index = 4, .lease = lease.id, .generation = lease.generation, .length = 5000, .ops = 2};
    kvl_put_commit(raw_begin(&scene.raw), &commit);
    request = raw_send(&scene.raw, KVL_MSG_COMMIT);
    CHECK_EQ(raw_exists(&scene.raw, "k", &length), KVL_ERR_NOT_FOUND); /* and no answer yet */
    head = put_head(&lease, 2000, 3000);
    raw_data(&scene.raw, KVL_LANE_DATA, &head, good + 2000, 3000);
    CHECK_EQ(raw_exists(&scene.raw, "k", &length), KVL_ERR_NOT_FOUND);
    head = put_head(&lease, 0, 2000);
    raw_data(&scene.raw, KVL_LANE_DATA, &head, good, 2000);
    message = raw_answer(&scene.raw, KVL_MSG_COMMITTED, request);
    REQUIRE(kvl_get_answer(&message->body, &answer) == KVL_OK);
    CHECK_EQ(answer.index, 4);
    CHECK_EQ(answer.status, KVL_OK);
    CHECK_EQ(raw_exists(&scene.raw, "k", &length), KVL_OK);
    scene_close(&scene);
}

BOTH(node_session, gives_the_leases_of_a_dead_client_back)
{
    uint64_t used;
    int64_t end = kvl_now_ns() + 20 * KVL_SECOND;
    scene_t scene;
    unsigned i;

    scene_open(&scene, rails);
    serves_others(&scene);
    used = scene_stat(&scene).bytes_used;
    raw_login(&scene.raw);
    raw_bind(&scene.raw, KVL_LANE_DATA);
    for (i = 0; i < 50; i++) {
        raw_reserve(&scene.raw, "k", 100000);
        raw_lookup(&scene.raw, "honest");
    }
    CHECK_EQ(scene_stat(&scene).leases, 100);
    CHECK(scene_stat(&scene).bytes_used > used + 50 * 100000);
    scene_again(&scene); /* without a goodbye */
    /* this process lives: over shared memory its slots may stay in quarantine, but counted */
    while ((scene_stat(&scene).sessions > 1 ||
            (scene_stat(&scene).leases && !scene_stat(&scene).quarantined_slots)) &&
           kvl_now_ns() < end) {
        raw_step(&scene.raw, 1);
    }
    CHECK_EQ(scene_stat(&scene).sessions, 1);
    if (strcmp(rails, "tcp") == 0) {
        CHECK_EQ(scene_stat(&scene).leases, 0);
        CHECK_EQ(scene_stat(&scene).bytes_used, used);
        CHECK_EQ(scene_stat(&scene).quarantined_slots, 0);
    } else if (scene_stat(&scene).leases) {
        CHECK_EQ(scene_stat(&scene).quarantined_slots, 51); /* and the scratch */
    }
    serves_others(&scene);
    scene_close(&scene);
}

BOTH(node_reserve, answers_in_several_messages_when_one_is_too_short)
{
    uint8_t value[1000] = {7};
    unsigned i, got = 0;
    uint64_t request;
    scene_t scene;
    raw_t *raw = &scene.raw;

    scene_open(&scene, rails);
    raw_login(raw);
    for (i = 0; i < 200; i++) {
        char key[16];
        kvl_reserve_t item = {
            .index = (uint16_t)i, .length = 1000, .has_inline = true, .bytes = value};

        snprintf(key, sizeof(key), "k%u", i);
        if (i % 50 == 0) {
            kvl_put_ttl(raw_begin(raw), 1000);
        }
        item.key = wire_key(key);
        REQUIRE(kvl_put_reserve(&raw->w, &item));
        if (i % 50 == 49) {
            raw_answer(raw, KVL_MSG_RESERVED, raw_send(raw, KVL_MSG_RESERVE));
        }
    }
    kvl_put_ttl(raw_begin(raw), 1000);
    for (i = 0; i < 200; i++) {
        char key[16];
        kvl_lookup_t item = {.index = (uint16_t)(1000 + i)};

        snprintf(key, sizeof(key), "k%u", i);
        item.key = wire_key(key);
        REQUIRE(kvl_put_lookup(&raw->w, &item));
    }
    request = raw_send(raw, KVL_MSG_LOOKUP);
    for (i = 0; got < 200; i++) { /* 200 values of 1000 bytes do not fit 64 KiB */
        raw_message_t *message = raw_answer(raw, KVL_MSG_FOUND, request);
        kvl_found_t found;

        CHECK(message->length <= KVL_WIRE_MAX);
        for (; message->body.left; got++) {
            REQUIRE(kvl_get_found(&message->body, &found) == KVL_OK);
            CHECK_EQ(found.index, 1000 + got);
            CHECK(found.has_inline && found.length == 1000 && found.bytes[0] == 7);
        }
    }
    CHECK(i >= 4);
    scene_close(&scene);
}

static int dial(const char *address)
{
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_port   = htons((uint16_t)atoi(strchr(address, ':') + 1))};
    int fd                = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (struct sockaddr *)&in, sizeof(in)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

TEST(node_listener, survives_garbage_half_handshakes_and_a_thousand_connects)
{
    static const char garbage[4096] = "GET / HTTP/1.1\r\nHost: kvlane\r\n\r\n";
    int fds[100], i;
    scene_t scene;

    scene_open(&scene, "tcp");
    for (i = 0; i < 100; i++) { /* they stay */
        fds[i] = dial(scene.stage.address);
        if (fds[i] >= 0 && i % 2) {
            CHECK(send(fds[i], garbage, i % 3 ? sizeof(garbage) : 5, MSG_NOSIGNAL) > 0);
        }
    }
    serves_others(&scene);
    for (i = 0; i < 1000; i++) {
        int fd = dial(scene.stage.address);

        if (fd >= 0) {
            (void)!send(fd, garbage, (size_t)(i % 64), MSG_NOSIGNAL);
            close(fd);
        }
    }
    serves_others(&scene);
    for (i = 0; i < 100; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
    serves_others(&scene);
    scene_close(&scene);
}
