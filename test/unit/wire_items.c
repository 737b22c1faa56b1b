/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/shim.h"

#include "base/error.h"
#include "wire/wire.h"

#include <string.h>

static void check_fault(kvl_status_t st, const char *part)
{
    CHECK_EQ(st, KVL_ERR_PROTOCOL);
    CHECK_MSG(strstr(kvl_error_text(), part) != NULL, "\"%s\" does not say \"%s\"",
              kvl_error_text(), part);
}

static void open_message(kvl_rbuf_t *r, const void *bytes, size_t size)
{
    kvl_msg_head_t head;

    REQUIRE(kvl_wire_open(r, bytes, size, &head) == KVL_OK);
}

/* opens @a bytes with one of them changed */
static void open_changed(kvl_rbuf_t *r, const uint8_t *bytes, size_t size, size_t at, uint8_t byte)
{
    static uint8_t changed[256];

    REQUIRE(size <= sizeof(changed));
    memcpy(changed, bytes, size);
    changed[at] = byte;
    open_message(r, changed, size);
}

/* clang-format off */
static const uint8_t reserve_bytes[] = {
    'L', 'K', 1, 12, 2, 0, 0, 0,   /* RESERVE, two items */
    9, 0, 0, 0, 0, 0, 0, 0,        /* request */
    0, 0, 0, 0, 38, 0, 0, 0,       /* status, body */
    0x30, 0x75, 0, 0,              /* ttl 30000 ms */
    1, 0, 3, 'a', 'b', 'c',        /* index, key */
    0, 0, 0x10, 0, 0, 0, 0, 0, 0,  /* length 1 MiB, not inline */
    0, 1, 2, 'k', '2',             /* index 256, key */
    5, 0, 0, 0, 0, 0, 0, 0, 1,     /* length 5, inline */
    'h', 'e', 'l', 'l', 'o',
};
/* clang-format on */

TEST(wire_reserve, has_the_bytes_written_by_hand)
{
    kvl_reserve_t a = {.index = 1, .key = {(const uint8_t *)"abc", 3}, .length = 1 << 20};
    kvl_reserve_t b = {.index      = 256,
                       .key        = {(const uint8_t *)"k2", 2},
                       .length     = 5,
                       .has_inline = true,
                       .bytes      = (const uint8_t *)"hello"};
    uint8_t data[128];
    kvl_wbuf_t w;

    kvl_wbuf_init(&w, data, sizeof(data));
    CHECK(kvl_put_ttl(&w, 30000));
    CHECK(kvl_put_reserve(&w, &a));
    CHECK(kvl_put_reserve(&w, &b));
    REQUIRE(kvl_wbuf_finish(&w, KVL_MSG_RESERVE, 9, KVL_OK) == sizeof(reserve_bytes));
    CHECK_MEM_EQ(data, reserve_bytes, sizeof(reserve_bytes));
}

TEST(wire_reserve, reads_back_and_points_into_the_message)
{
    kvl_reserve_t m;
    uint32_t ttl_ms;
    kvl_rbuf_t r;

    open_message(&r, reserve_bytes, sizeof(reserve_bytes));
    CHECK_EQ(r.left, 2);
    REQUIRE(kvl_get_ttl(&r, &ttl_ms) == KVL_OK);
    CHECK_EQ(ttl_ms, 30000);
    REQUIRE(kvl_get_reserve(&r, &m) == KVL_OK);
    CHECK(m.index == 1 && m.key.length == 3 && m.length == 1 << 20 && !m.has_inline && !m.bytes);
    CHECK(m.key.data == reserve_bytes + 31);
    CHECK_EQ(r.left, 1);
    REQUIRE(kvl_get_reserve(&r, &m) == KVL_OK);
    CHECK(m.index == 256 && m.key.length == 2 && m.length == 5 && m.has_inline);
    CHECK(m.bytes == reserve_bytes + sizeof(reserve_bytes) - 5);
    CHECK_EQ(kvl_wire_close(&r), KVL_OK);
    check_fault(kvl_get_reserve(&r, &m), "reserve: count");
}

/* reads the RESERVE with one byte changed */
static kvl_status_t reserve_changed(size_t at, uint8_t byte)
{
    kvl_reserve_t m;
    uint32_t ttl_ms;
    kvl_rbuf_t r;
    kvl_status_t st;

    open_changed(&r, reserve_bytes, sizeof(reserve_bytes), at, byte);
    st = kvl_get_ttl(&r, &ttl_ms);
    while (st == KVL_OK && r.left > 0) {
        st = kvl_get_reserve(&r, &m);
    }
    return st == KVL_OK ? kvl_wire_close(&r) : st;
}

TEST(wire_reserve, names_the_field_that_is_wrong)
{
    check_fault(reserve_changed(30, 0), "reserve: key length");
    check_fault(reserve_changed(30, 200), "reserve: key:");
    check_fault(reserve_changed(36, 0), "reserve: length: 0");
    check_fault(reserve_changed(42, 2), "reserve: has_inline");
    check_fault(reserve_changed(42, 1), "reserve: inline bytes");
    check_fault(reserve_changed(48, 6), "reserve: inline bytes");
    check_fault(reserve_changed(55, 0xff), "reserve: inline bytes");
    check_fault(reserve_changed(48, 4), "reserve: body");
    check_fault(reserve_changed(4, 1), "reserve: body");
    check_fault(reserve_changed(4, 3), "reserve: index");
}

TEST(wire_reserve, does_not_fit_when_its_inline_bytes_do_not)
{
    static const uint8_t bytes[64];
    uint8_t data[24 + 4 + 2 + 2 + 9 + 10];
    kvl_reserve_t m = {.key = {bytes, 1}, .length = 11, .has_inline = true, .bytes = bytes};
    kvl_wbuf_t w;

    kvl_wbuf_init(&w, data, sizeof(data));
    CHECK(kvl_put_ttl(&w, 1));
    CHECK(!kvl_put_reserve(&w, &m));
    m.length = UINT64_MAX;
    CHECK(!kvl_put_reserve(&w, &m));
    m.length = UINT64_MAX - 12;
    CHECK(!kvl_put_reserve(&w, &m));
    m.length = 10;
    CHECK(kvl_put_reserve(&w, &m));
    CHECK_EQ(kvl_wbuf_room(&w), 0);
}

/* clang-format off */
static const uint8_t reserved_bytes[] = {
    'L', 'K', 1, 13, 1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 30, 0, 0, 0,
    3, 0,                       /* index */
    0x98, 0xff, 0xff, 0xff,     /* KVL_ERR_NO_SPACE = -104 */
    1, 2, 3, 4, 5, 6, 7, 8,     /* lease id */
    9, 0, 0, 0,                 /* generation */
    10, 0, 0, 0,                /* region */
    0, 0, 0, 0, 0, 1, 0, 0,     /* offset 2^40 */
};
/* clang-format on */

TEST(wire_reserved, has_the_bytes_written_by_hand)
{
    kvl_reserved_t m = {.index  = 3,
                        .status = KVL_ERR_NO_SPACE,
                        .lease  = {UINT64_C(0x0807060504030201), 9, 10, UINT64_C(1) << 40}};
    uint8_t data[128];
    kvl_rbuf_t r;
    kvl_wbuf_t w;

    kvl_wbuf_init(&w, data, sizeof(data));
    CHECK(kvl_put_reserved(&w, &m));
    REQUIRE(kvl_wbuf_finish(&w, KVL_MSG_RESERVED, 9, KVL_OK) == sizeof(reserved_bytes));
    CHECK_MEM_EQ(data, reserved_bytes, sizeof(reserved_bytes));
    memset(&m, 0, sizeof(m));
    open_message(&r, reserved_bytes, sizeof(reserved_bytes));
    REQUIRE(kvl_get_reserved(&r, &m) == KVL_OK);
    CHECK(m.index == 3 && m.status == KVL_ERR_NO_SPACE);
    CHECK(m.lease.id == UINT64_C(0x0807060504030201) && m.lease.generation == 9);
    CHECK(m.lease.region == 10 && m.lease.offset == UINT64_C(1) << 40);
    open_changed(&r, reserved_bytes, sizeof(reserved_bytes), 29, 0); /* above 0 */
    check_fault(kvl_get_reserved(&r, &m), "reserved: status");
}

/* clang-format off */
static const uint8_t found_bytes[] = {
    'L', 'K', 1, 15, 2, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 80, 0, 0, 0,
    1, 0, 0, 0, 0, 0,                 /* index, KVL_OK */
    2, 0, 0, 0, 0, 0, 0, 0, 1,        /* length 2, inline */
    'h', 'i',
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* no lease */
    2, 0, 0, 0, 0, 0,                 /* index, KVL_OK */
    0, 0, 1, 0, 0, 0, 0, 0, 0,        /* length 65536, not inline */
    7, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, /* lease */
};
/* clang-format on */

TEST(wire_found, has_the_bytes_written_by_hand)
{
    kvl_found_t a = {.index = 1, .length = 2, .has_inline = true, .bytes = (const uint8_t *)"hi"};
    kvl_found_t b = {.index = 2, .length = 65536, .lease = {7, 8, 9, 512}};
    uint8_t data[128];
    kvl_wbuf_t w;

    kvl_wbuf_init(&w, data, sizeof(data));
    CHECK(kvl_put_found(&w, &a));
    CHECK(kvl_put_found(&w, &b));
    REQUIRE(kvl_wbuf_finish(&w, KVL_MSG_FOUND, 9, KVL_OK) == sizeof(found_bytes));
    CHECK_MEM_EQ(data, found_bytes, sizeof(found_bytes));
}

TEST(wire_found, reads_back_every_field)
{
    kvl_found_t m;
    kvl_rbuf_t r;

    open_message(&r, found_bytes, sizeof(found_bytes));
    REQUIRE(kvl_get_found(&r, &m) == KVL_OK);
    CHECK(m.index == 1 && m.status == KVL_OK && m.length == 2 && m.has_inline);
    CHECK_MEM_EQ(m.bytes, "hi", 2);
    REQUIRE(kvl_get_found(&r, &m) == KVL_OK);
    CHECK(m.index == 2 && m.length == 65536 && !m.has_inline && !m.bytes);
    CHECK(m.lease.id == 7 && m.lease.generation == 8 && m.lease.region == 9);
    CHECK_EQ(m.lease.offset, 512);
    CHECK_EQ(kvl_wire_close(&r), KVL_OK);
}

TEST(wire_found, refuses_inline_bytes_of_an_item_that_failed)
{
    uint8_t failed[sizeof(found_bytes)];
    kvl_found_t m;
    kvl_rbuf_t r;

    memcpy(failed, found_bytes, sizeof(failed));
    memset(failed + 26, 0xff, 4);
    open_message(&r, failed, sizeof(failed));
    check_fault(kvl_get_found(&r, &m), "found: has_inline");
    open_changed(&r, found_bytes, sizeof(found_bytes), 30, 90);
    check_fault(kvl_get_found(&r, &m), "found: inline bytes");
}

TEST(wire_commit, has_the_bytes_written_by_hand)
{
    /* clang-format off */
    static const uint8_t bytes[] = {
        'L', 'K', 1, 16, 1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 26, 0, 0, 0,
        4, 0,                           /* index */
        0xff, 0, 0, 0, 0, 0, 0, 1,      /* lease */
        2, 0, 0, 0,                     /* generation */
        0, 0, 0, 0, 1, 0, 0, 0,         /* length 4 GiB */
        3, 0, 0, 0,                     /* ops */
    };
    /* clang-format on */
    kvl_commit_t m = {.index      = 4,
                      .lease      = UINT64_C(0x01000000000000ff),
                      .generation = 2,
                      .length     = UINT64_C(1) << 32,
                      .ops        = 3};
    uint8_t data[64];
    kvl_rbuf_t r;
    kvl_wbuf_t w;

    kvl_wbuf_init(&w, data, sizeof(data));
    CHECK(kvl_put_commit(&w, &m));
    REQUIRE(kvl_wbuf_finish(&w, KVL_MSG_COMMIT, 9, KVL_OK) == sizeof(bytes));
    CHECK_MEM_EQ(data, bytes, sizeof(bytes));
    memset(&m, 0, sizeof(m));
    open_message(&r, bytes, sizeof(bytes));
    REQUIRE(kvl_get_commit(&r, &m) == KVL_OK);
    CHECK(m.index == 4 && m.lease == UINT64_C(0x01000000000000ff) && m.generation == 2);
    CHECK(m.length == UINT64_C(1) << 32 && m.ops == 3);
}

TEST(wire_lookup, has_the_bytes_written_by_hand)
{
    /* clang-format off */
    static const uint8_t bytes[] = {'L', 'K', 1, 14, 1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                    10,  0,   0, 0,       /* body */
                                    0xff, 0xff, 0, 0,     /* ttl 65535 */
                                    0xff, 0xff,           /* index */
                                    3,   'k', 0, 0xff};   /* a key is bytes, not text */
    kvl_lookup_t m = {.index = 65535, .key = {(const uint8_t *)"k\0\xff", 3}};
    /* clang-format on */
    uint8_t data[64];
    uint32_t ttl_ms;
    kvl_rbuf_t r;
    kvl_wbuf_t w;

    kvl_wbuf_init(&w, data, sizeof(data));
    CHECK(kvl_put_ttl(&w, 65535));
    CHECK(kvl_put_lookup(&w, &m));
    REQUIRE(kvl_wbuf_finish(&w, KVL_MSG_LOOKUP, 9, KVL_OK) == sizeof(bytes));
    CHECK_MEM_EQ(data, bytes, sizeof(bytes));
    open_message(&r, bytes, sizeof(bytes));
    CHECK_EQ(kvl_get_ttl(&r, &ttl_ms), KVL_OK);
    REQUIRE(kvl_get_lookup(&r, &m) == KVL_OK);
    CHECK(m.index == 65535 && m.key.length == 3);
    CHECK_MEM_EQ(m.key.data, "k\0\xff", 3);
}

TEST(wire_answer, has_the_bytes_written_by_hand)
{
    /* clang-format off */
    static const uint8_t bytes[] = {
        'L', 'K', 1, 17, 1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 14, 0, 0, 0,
        4, 0,                        /* index */
        0x96, 0xff, 0xff, 0xff,      /* KVL_ERR_LEASE = -106 */
        0, 1, 0, 0, 0, 0, 0, 0,      /* length 256 */
    };
    /* clang-format on */
    kvl_answer_t m = {.index = 4, .status = KVL_ERR_LEASE, .length = 256};
    uint8_t data[64];
    kvl_rbuf_t r;
    kvl_wbuf_t w;

    kvl_wbuf_init(&w, data, sizeof(data));
    CHECK(kvl_put_answer(&w, &m));
    REQUIRE(kvl_wbuf_finish(&w, KVL_MSG_COMMITTED, 9, KVL_OK) == sizeof(bytes));
    CHECK_MEM_EQ(data, bytes, sizeof(bytes));
    memset(&m, 0, sizeof(m));
    open_message(&r, bytes, sizeof(bytes));
    REQUIRE(kvl_get_answer(&r, &m) == KVL_OK);
    CHECK(m.index == 4 && m.status == KVL_ERR_LEASE && m.length == 256);
}
