/* SPDX-License-Identifier: BSD-3-Clause */
#include "conform/scene.h"

#include "lane/endpoint.h"

#include <stdio.h>
#include <string.h>

/* Requests that make no sense, or ask for what cannot be. */

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
    CHECK_EQ(scene.raw.terms.value_max, 15u << 20); /* the self-tests have the rest */
    CHECK_EQ(raw_reserve(&scene.raw, "k", (15u << 20) + 1).status, KVL_ERR_NO_SPACE);
    CHECK_EQ(raw_reserve(&scene.raw, "k", UINT64_MAX).status, KVL_ERR_NO_SPACE);
    CHECK_EQ(raw_reserve(&scene.raw, "k", UINT64_MAX - 63).status, KVL_ERR_NO_SPACE);
    out = raw_reserve(&scene.raw, "k", 8u << 20);
    CHECK_EQ(out.status, KVL_OK);
    CHECK_EQ(raw_reserve(&scene.raw, "k", 15u << 20).status, KVL_ERR_BUSY); /* that lease is in the way */
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
