/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/shim.h"

#include "base/error.h"
#include "wire/wire.h"

#include <string.h>

/* PING, request 0x0102030405060708 */
/* clang-format off */
static const uint8_t ping[24] = {
    'L',  'K',                                      /* magic */
    1,    8,                                        /* version, type */
    0,    0,                                        /* count */
    0,    0,                                        /* reserved */
    0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, /* request */
    0,    0,    0,    0,                            /* status */
    0,    0,    0,    0,                            /* body */
};
/* clang-format on */

static kvl_status_t open_bytes(const void *data, size_t size)
{
    kvl_rbuf_t r;
    kvl_msg_head_t head;

    return kvl_wire_open(&r, data, size, &head);
}

/* opens a PING with one byte changed */
static kvl_status_t open_changed(size_t at, uint8_t byte)
{
    uint8_t changed[24];

    memcpy(changed, ping, sizeof(ping));
    changed[at] = byte;
    return open_bytes(changed, sizeof(changed));
}

static void check_fault(kvl_status_t st, const char *part)
{
    CHECK_EQ(st, KVL_ERR_PROTOCOL);
    CHECK_MSG(strstr(kvl_error_text(), part) != NULL, "\"%s\" does not say \"%s\"",
              kvl_error_text(), part);
}

TEST(wire_finish, writes_the_head_in_little_endian)
{
    uint8_t data[64];
    kvl_wbuf_t w;

    kvl_wbuf_init(&w, data, sizeof(data));
    CHECK_EQ(kvl_wbuf_room(&w), 40);
    CHECK_EQ(kvl_wbuf_finish(&w, KVL_MSG_PING, UINT64_C(0x0102030405060708), KVL_OK), 24);
    CHECK_MEM_EQ(data, ping, sizeof(ping));
}

TEST(wire_open, reads_the_head)
{
    /* COMMITTED, no items, KVL_ERR_TIMEOUT = -401 = 0xfffffe6f */
    static const uint8_t committed[24] = {'L', 'K', 1, 17, [8] = 9, [16] = 0x6f, 0xfe, 0xff, 0xff};
    kvl_rbuf_t r;
    kvl_msg_head_t head;

    REQUIRE(kvl_wire_open(&r, committed, sizeof(committed), &head) == KVL_OK);
    CHECK_EQ(head.version, 1);
    CHECK_EQ(head.type, KVL_MSG_COMMITTED);
    CHECK_EQ(head.count, 0);
    CHECK_EQ(head.request, 9);
    CHECK_EQ(head.status, KVL_ERR_TIMEOUT);
    CHECK_EQ(head.body, 0);
    CHECK_EQ(kvl_wire_close(&r), KVL_OK);
}

TEST(wire_open, names_the_field_that_is_wrong)
{
    check_fault(open_changed(0, 'X'), "magic");
    check_fault(open_changed(3, 0), "type");
    check_fault(open_changed(3, KVL_MSG_LAST + 1), "type");
    check_fault(open_changed(3, 255), "type");
    check_fault(open_changed(4, 1), "ping: count");
    check_fault(open_changed(6, 1), "reserved");
    check_fault(open_changed(7, 1), "reserved");
    check_fault(open_changed(16, 1), "status"); /* above 0 */
    check_fault(open_changed(19, 0xff), "ping: status");
    check_fault(open_changed(20, 1), "ping: body");
    check_fault(open_changed(23, 0x80), "ping: body");
}

TEST(wire_open, refuses_every_length_but_the_right_one)
{
    uint8_t longer[25] = {0};
    size_t size;

    for (size = 0; size < sizeof(ping); size++) {
        CHECK_EQ(open_bytes(ping, size), KVL_ERR_PROTOCOL);
    }
    memcpy(longer, ping, sizeof(ping));
    check_fault(open_bytes(longer, sizeof(longer)), "body");
    check_fault(open_bytes(NULL, 0), "magic");
}

TEST(wire_open, tells_a_foreign_version_apart)
{
    CHECK_EQ(open_changed(2, 0), KVL_ERR_VERSION);
    CHECK_EQ(open_changed(2, 2), KVL_ERR_VERSION);
    CHECK(strstr(kvl_error_text(), "version 2") != NULL);
}

TEST(wire_open, limits_the_items_of_a_message)
{
    static const uint8_t exists[24] = {'L', 'K', 1, 20, 0x00, 0x10}; /* 4096 items */
    static const uint8_t more[24]   = {'L', 'K', 1, 20, 0x01, 0x10};

    CHECK_EQ(open_bytes(exists, sizeof(exists)), KVL_OK);
    check_fault(open_bytes(more, sizeof(more)), "exists: count");
}

/* a message of @a type whose body is @a size - 24 zeros */
static kvl_status_t open_long(kvl_msg_type_t type, size_t size)
{
    static uint8_t data[KVL_WIRE_NOTIFY_MAX + 1];
    size_t body = size - 24;

    memset(data, 0, sizeof(data));
    memcpy(data, ping, 4);
    data[3]  = (uint8_t)type;
    data[20] = (uint8_t)body;
    data[21] = (uint8_t)(body >> 8);
    data[22] = (uint8_t)(body >> 16);
    return open_bytes(data, size);
}

TEST(wire_open, limits_the_length_by_type)
{
    CHECK_EQ(open_long(KVL_MSG_RESERVE, 65536), KVL_OK);
    check_fault(open_long(KVL_MSG_RESERVE, 65537), "reserve: body");
    CHECK_EQ(open_long(KVL_MSG_XFER_FIN, 1048576 + 4352), KVL_OK);
    check_fault(open_long(KVL_MSG_XFER_FIN, 1048576 + 4353), "xfer_fin: body");
}

TEST(wire_finish, gives_nothing_that_the_other_side_would_refuse)
{
    static uint8_t data[KVL_WIRE_NOTIFY_MAX + 64];
    static uint8_t note[1 << 20];
    kvl_xfer_fin_t fin = {
        .has_notification = true, .notification_length = KVL_WIRE_MAX, .notification = note};
    kvl_wbuf_t w;

    kvl_wbuf_init(&w, data, sizeof(data));
    CHECK(kvl_put_xfer_fin(&w, &fin));
    CHECK_EQ(kvl_wbuf_finish(&w, KVL_MSG_RESERVE, 1, KVL_OK), 0);
    CHECK_EQ(kvl_wbuf_finish(&w, KVL_MSG_XFER_FIN, 1, KVL_OK), 24 + 17 + 65536);
}

TEST(wire_init, remembers_a_buffer_too_small_for_the_head)
{
    uint8_t data[23];
    kvl_wbuf_t w;

    kvl_wbuf_init(&w, data, sizeof(data));
    CHECK_EQ(kvl_wbuf_room(&w), 0);
    CHECK(!kvl_put_ttl(&w, 1));
    CHECK_EQ(kvl_wbuf_finish(&w, KVL_MSG_PING, 1, KVL_OK), 0);
}

TEST(wire_put, of_a_body_that_does_not_fit_is_remembered)
{
    uint8_t data[27];
    kvl_wbuf_t w;

    kvl_wbuf_init(&w, data, sizeof(data));
    CHECK(!kvl_put_ttl(&w, 1));
    CHECK_EQ(kvl_wbuf_finish(&w, KVL_MSG_LOOKUP, 1, KVL_OK), 0);
}

TEST(wire_put, of_an_item_that_does_not_fit_changes_nothing)
{
    uint8_t data[24 + 14 + 13];
    kvl_answer_t answer = {.index = 1};
    kvl_wbuf_t w;

    kvl_wbuf_init(&w, data, sizeof(data));
    CHECK(kvl_put_answer(&w, &answer));
    CHECK(!kvl_put_answer(&w, &answer));
    CHECK_EQ(w.count, 1);
    CHECK_EQ(kvl_wbuf_room(&w), 13);
    CHECK_EQ(kvl_wbuf_finish(&w, KVL_MSG_REMOVED, 1, KVL_OK), 38);
    CHECK_EQ(data[4], 1);
}

TEST(wire_put, stops_at_the_most_items)
{
    static uint8_t data[KVL_WIRE_MAX];
    kvl_answer_t answer = {0};
    kvl_wbuf_t w;
    int i;

    kvl_wbuf_init(&w, data, sizeof(data));
    for (i = 0; i < 4096; i++) {
        CHECK(kvl_put_answer(&w, &answer));
    }
    CHECK(!kvl_put_answer(&w, &answer));
    CHECK_EQ(kvl_wbuf_finish(&w, KVL_MSG_REMOVED, 1, KVL_OK), 24 + 4096 * 14);
}

TEST(wire_close, finds_what_was_not_read)
{
    /* EXISTS with two keys "a" and "b" */
    static const uint8_t exists[32] = {'L', 'K', 1,   20, 2, [20] = 8, [24] = 0,
                                       0,   1,   'a', 1,  0, 1,        'b'};
    kvl_rbuf_t r;
    kvl_msg_head_t head;
    kvl_lookup_t item;
    uint32_t ttl_ms;

    REQUIRE(kvl_wire_open(&r, exists, sizeof(exists), &head) == KVL_OK);
    CHECK_EQ(kvl_get_lookup(&r, &item), KVL_OK);
    check_fault(kvl_wire_close(&r), "exists: count");
    CHECK_EQ(kvl_get_lookup(&r, &item), KVL_OK);
    CHECK_EQ(kvl_wire_close(&r), KVL_OK);
    check_fault(kvl_get_lookup(&r, &item), "exists: count");

    REQUIRE(kvl_wire_open(&r, exists, sizeof(exists), &head) == KVL_OK);
    r.left = 0;
    CHECK_EQ(kvl_get_ttl(&r, &ttl_ms), KVL_OK);
    check_fault(kvl_wire_close(&r), "exists: body");
}

TEST(wire_get, fails_on_after_its_first_fault)
{
    static const uint8_t exists[28] = {'L', 'K', 1, 20, 2, [20] = 4, [24] = 0, 0, 0, 0};
    kvl_rbuf_t r;
    kvl_msg_head_t head;
    kvl_lookup_t item = {.index = 77};

    REQUIRE(kvl_wire_open(&r, exists, sizeof(exists), &head) == KVL_OK);
    check_fault(kvl_get_lookup(&r, &item), "key length");
    check_fault(kvl_get_lookup(&r, &item), "key length");
    check_fault(kvl_wire_close(&r), "key length");
    CHECK_EQ(item.index, 77);
}

TEST(wire_name, names_every_type)
{
    unsigned type;

    CHECK_STR_EQ(kvl_msg_name(KVL_MSG_HELLO_OK), "hello_ok");
    CHECK_STR_EQ(kvl_msg_name(KVL_MSG_XFER_OK), "xfer_ok");
    CHECK_STR_EQ(kvl_msg_name(0), "unknown");
    CHECK_STR_EQ(kvl_msg_name(KVL_MSG_LAST + 1), "unknown");
    CHECK_STR_EQ(kvl_msg_name(4000000000u), "unknown");
    for (type = 1; type <= KVL_MSG_LAST; type++) {
        CHECK(strcmp(kvl_msg_name(type), "unknown") != 0);
    }
}
