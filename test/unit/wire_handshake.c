/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/shim.h"

#include "base/error.h"
#include "wire/wire.h"

#include <string.h>

/* clang-format off */
static const uint8_t hello_bytes[] = {
    'L', 'K', 1, 1, 0, 0, 0, 0,                     /* magic, version, HELLO, no items */
    5, 0, 0, 0, 0, 0, 0, 0,                         /* request */
    0, 0, 0, 0, 85, 0, 0, 0,                        /* status, body */
    1, 1,                                           /* version_min, version_max */
    0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, /* nonce */
    8, 0, 0x02, 0x01, 4, 0,                         /* depth, sg_endpoints, data_depth */
    2, 1,                                           /* mode, transport */
    0, 4, 0, 0,                                     /* inline_max */
    0x67, 0x12, 0, 0,                               /* pid 4711 */
    99, 0, 0, 0, 0, 0, 0, 0,                        /* pid_start */
    0xfc, 0xff, 0xff, 0xef, 0, 0, 0, 0,             /* pid_ns 4026531836 */
    'b', 'o', 'o', 't', '-', 'i', 'd', '-', 'i', 's', '-', 'h', 'e', 'r', 'e', '!',
    8, 'e', 'n', 'g', 'i', 'n', 'e', ' ', '0',      /* name */
    2, 0,                                           /* retired_count */
    3, 0, 0, 0, 0, 0, 0, 0,                         /* retired[0] */
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, /* retired[1] */
};
/* clang-format on */

static kvl_hello_t hello_value(void)
{
    kvl_hello_t m = {.version_min   = 1,
                     .version_max   = 1,
                     .nonce         = UINT64_C(0x1122334455667788),
                     .depth         = 8,
                     .sg_endpoints  = 258,
                     .data_depth    = 4,
                     .mode          = 2,
                     .transport     = 1,
                     .inline_max    = 1024,
                     .pid           = 4711,
                     .pid_start     = 99,
                     .pid_ns        = UINT64_C(4026531836),
                     .name          = "engine 0",
                     .retired_count = 2,
                     .retired       = {3, UINT64_MAX}};

    memcpy(m.boot_id, "boot-id-is-here!", 16);
    return m;
}

/* clang-format off */
static const uint8_t hello_ok_bytes[] = {
    'L', 'K', 1, 2, 2, 0, 0, 0,          /* HELLO_OK, two regions */
    5, 0, 0, 0, 0, 0, 0, 0,              /* request */
    0, 0, 0, 0, 109, 0, 0, 0,            /* status, body */
    1,                                   /* version */
    7, 0, 0, 0, 0, 0, 0, 0,              /* session */
    8, 0, 4, 0, 16, 0,                   /* depth, sg_endpoints, data_depth */
    0, 4, 0, 0,                          /* inline_max */
    0xc0, 0xd4, 1, 0,                    /* lease_max_ms 120000 */
    0, 0, 0x80, 0, 0, 0, 0, 0,           /* chunk_bytes 8 MiB */
    0, 0, 0, 0, 1, 0, 0, 0,              /* value_max 4 GiB */
    2, 0, 0, 0,                          /* scratch_region */
    0, 0x10, 0, 0, 0, 0, 0, 0,           /* scratch_offset 4096 */
    0, 0, 1, 0,                          /* scratch_length 65536 */
    3, 'k', 'v', 'l',                    /* name */
    2, 0, 0, 0, 0,                       /* region 2 on rail 0 */
    0, 0, 0, 0, 0, 0x7f, 0, 0,           /* base 0x7f0000000000 */
    0, 0, 2, 0, 0, 0, 0, 0,              /* length 131072 */
    0, 0,                                /* no rkey */
    3, 0, 0, 0, 1,                       /* region 3 on rail 1 */
    0, 0xf0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, /* base 2^64 - 4096 */
    0xff, 0x0f, 0, 0, 0, 0, 0, 0,        /* length 4095: ends at 2^64 - 1 */
    4, 0, 0xde, 0xad, 0xbe, 0xef,        /* rkey */
};
/* clang-format on */

static kvl_hello_ok_t hello_ok_value(void)
{
    return (kvl_hello_ok_t){.version        = 1,
                            .session        = 7,
                            .depth          = 8,
                            .sg_endpoints   = 4,
                            .data_depth     = 16,
                            .inline_max     = 1024,
                            .lease_max_ms   = 120000,
                            .chunk_bytes    = 8388608,
                            .value_max      = UINT64_C(4294967296),
                            .scratch_region = 2,
                            .scratch_offset = 4096,
                            .scratch_length = 65536,
                            .name           = "kvl"};
}

static void open_message(kvl_rbuf_t *r, const uint8_t *bytes, size_t size)
{
    kvl_msg_head_t head;

    REQUIRE(kvl_wire_open(r, bytes, size, &head) == KVL_OK);
}

static void check_fault(kvl_status_t st, const char *part)
{
    CHECK_EQ(st, KVL_ERR_PROTOCOL);
    CHECK_MSG(strstr(kvl_error_text(), part) != NULL, "\"%s\" does not say \"%s\"",
              kvl_error_text(), part);
}

TEST(wire_hello, has_the_bytes_written_by_hand)
{
    kvl_hello_t m = hello_value();
    uint8_t data[512];
    kvl_wbuf_t w;

    kvl_wbuf_init(&w, data, sizeof(data));
    CHECK(kvl_put_hello(&w, &m));
    REQUIRE(kvl_wbuf_finish(&w, KVL_MSG_HELLO, 5, KVL_OK) == sizeof(hello_bytes));
    CHECK_MEM_EQ(data, hello_bytes, sizeof(hello_bytes));
}

TEST(wire_hello, reads_back_every_field)
{
    kvl_hello_t m, want = hello_value();
    kvl_rbuf_t r;

    open_message(&r, hello_bytes, sizeof(hello_bytes));
    REQUIRE(kvl_get_hello(&r, &m) == KVL_OK);
    CHECK_EQ(kvl_wire_close(&r), KVL_OK);
    CHECK(m.version_min == 1 && m.version_max == 1 && m.nonce == want.nonce);
    CHECK(m.depth == 8 && m.sg_endpoints == 258 && m.data_depth == 4);
    CHECK(m.mode == 2 && m.transport == 1 && m.inline_max == 1024);
    CHECK(m.pid == 4711 && m.pid_start == 99 && m.pid_ns == want.pid_ns);
    CHECK_MEM_EQ(m.boot_id, want.boot_id, 16);
    CHECK_STR_EQ(m.name, "engine 0");
    CHECK_EQ(m.retired_count, 2);
    CHECK(m.retired[0] == 3 && m.retired[1] == UINT64_MAX);
}

/* reads the HELLO with one byte changed */
static kvl_status_t hello_changed(size_t at, uint8_t byte)
{
    static uint8_t changed[sizeof(hello_bytes)];
    kvl_hello_t m;
    kvl_rbuf_t r;

    memcpy(changed, hello_bytes, sizeof(changed));
    changed[at] = byte;
    open_message(&r, changed, sizeof(changed));
    return kvl_get_hello(&r, &m);
}

TEST(wire_hello, names_the_field_that_is_wrong)
{
    check_fault(hello_changed(24, 0), "hello: version_min");
    check_fault(hello_changed(24, 2), "hello: version_min");
    check_fault(hello_changed(34, 0), "hello: depth");
    check_fault(hello_changed(40, 3), "hello: mode");
    check_fault(hello_changed(41, 2), "hello: transport");
    check_fault(hello_changed(82, 255), "hello: name");
    check_fault(hello_changed(91, 17), "hello: retired_count");
    CHECK_EQ(hello_bytes[91], 2); /* the offsets above are those meant */
    CHECK_EQ(hello_bytes[82], 8);
}

TEST(wire_hello, skips_what_a_newer_version_appended)
{
    static uint8_t longer[sizeof(hello_bytes) + 3];
    kvl_hello_t m;
    kvl_rbuf_t r;

    memcpy(longer, hello_bytes, sizeof(hello_bytes));
    longer[20] += 3;
    open_message(&r, longer, sizeof(longer));
    CHECK_EQ(kvl_get_hello(&r, &m), KVL_OK);
    check_fault(kvl_wire_close(&r), "hello: body");
    longer[25] = 2; /* version_max */
    open_message(&r, longer, sizeof(longer));
    CHECK_EQ(kvl_get_hello(&r, &m), KVL_OK);
    CHECK_EQ(kvl_wire_close(&r), KVL_OK);
}

TEST(wire_hello_ok, has_the_bytes_written_by_hand)
{
    kvl_hello_ok_t m    = hello_ok_value();
    kvl_wire_region_t a = {.id = 2, .base = UINT64_C(0x7f0000000000), .length = 131072};
    kvl_wire_region_t b = {.id          = 3,
                           .rail        = 1,
                           .base        = UINT64_MAX - 4095,
                           .length      = 4095,
                           .rkey_length = 4,
                           .rkey        = (const uint8_t *)"\xde\xad\xbe\xef"};
    uint8_t data[512];
    kvl_wbuf_t w;

    kvl_wbuf_init(&w, data, sizeof(data));
    CHECK(kvl_put_hello_ok(&w, &m));
    CHECK(kvl_put_region(&w, &a));
    CHECK(kvl_put_region(&w, &b));
    REQUIRE(kvl_wbuf_finish(&w, KVL_MSG_HELLO_OK, 5, KVL_OK) == sizeof(hello_ok_bytes));
    CHECK_MEM_EQ(data, hello_ok_bytes, sizeof(hello_ok_bytes));
}

TEST(wire_hello_ok, reads_back_every_field)
{
    kvl_hello_ok_t m;
    kvl_wire_region_t region;
    kvl_rbuf_t r;

    open_message(&r, hello_ok_bytes, sizeof(hello_ok_bytes));
    REQUIRE(kvl_get_hello_ok(&r, &m) == KVL_OK);
    CHECK(m.version == 1 && m.session == 7 && m.depth == 8 && m.sg_endpoints == 4);
    CHECK(m.data_depth == 16 && m.inline_max == 1024 && m.lease_max_ms == 120000);
    CHECK(m.chunk_bytes == 8388608 && m.value_max == UINT64_C(4294967296));
    CHECK(m.scratch_region == 2 && m.scratch_offset == 4096 && m.scratch_length == 65536);
    CHECK_STR_EQ(m.name, "kvl");
    REQUIRE(kvl_get_region(&r, &region) == KVL_OK);
    CHECK(region.id == 2 && region.rail == 0 && region.base == UINT64_C(0x7f0000000000));
    CHECK(region.length == 131072 && region.rkey_length == 0);
    REQUIRE(kvl_get_region(&r, &region) == KVL_OK);
    CHECK(region.id == 3 && region.rail == 1 && region.base == UINT64_MAX - 4095);
    CHECK_EQ(region.rkey_length, 4);
    CHECK_MEM_EQ(region.rkey, "\xde\xad\xbe\xef", 4);
    CHECK_EQ(kvl_wire_close(&r), KVL_OK);
}

/* reads the HELLO_OK and its regions with one byte changed */
static kvl_status_t hello_ok_changed(size_t at, uint8_t byte)
{
    static uint8_t changed[sizeof(hello_ok_bytes)];
    kvl_hello_ok_t m;
    kvl_wire_region_t region;
    kvl_rbuf_t r;
    kvl_status_t st;

    memcpy(changed, hello_ok_bytes, sizeof(changed));
    changed[at] = byte;
    open_message(&r, changed, sizeof(changed));
    st = kvl_get_hello_ok(&r, &m);
    while (st == KVL_OK && r.left > 0) {
        st = kvl_get_region(&r, &region);
    }
    return st == KVL_OK ? kvl_wire_close(&r) : st;
}

TEST(wire_hello_ok, names_the_field_that_is_wrong)
{
    CHECK_EQ(hello_ok_changed(24, 1), KVL_OK);
    check_fault(hello_ok_changed(24, 0), "hello_ok: version");
    check_fault(hello_ok_changed(24, 2), "hello_ok: version");
    check_fault(hello_ok_changed(33, 0), "hello_ok: depth");
    check_fault(hello_ok_changed(49, 0), "hello_ok: chunk_bytes");
    check_fault(hello_ok_changed(98, 0), "hello_ok: region length");
    check_fault(hello_ok_changed(120, 0x10), "hello_ok: region length: wraps");
    check_fault(hello_ok_changed(127, 5), "hello_ok: rkey:");
    check_fault(hello_ok_changed(128, 5), "hello_ok: rkey_length");
    check_fault(hello_ok_changed(5, 2), "hello_ok: count"); /* 514 regions */
}

TEST(wire_region, stops_at_the_most_regions)
{
    static uint8_t data[KVL_WIRE_MAX];
    kvl_wire_region_t region = {.length = 1};
    kvl_wbuf_t w;
    int i;

    kvl_wbuf_init(&w, data, sizeof(data));
    for (i = 0; i < 256; i++) {
        CHECK(kvl_put_region(&w, &region));
    }
    CHECK(!kvl_put_region(&w, &region));
}

TEST(wire_text, is_cut_and_printable)
{
    /* REFUSE with "a<newline>b<escape><0xff>" */
    /* clang-format off */
    static const uint8_t refuse[30] = {'L', 'K', 1, 3, [16] = 0x69, 0xfe, 0xff, 0xff, 6,
                                       [24] = 5, 'a', '\n', 'b', 0x1b, 0xff};
    /* clang-format on */
    char text[KVL_WIRE_TEXT_MAX + 1] = "", long_text[400];
    uint8_t data[512];
    kvl_rbuf_t r;
    kvl_wbuf_t w;

    open_message(&r, refuse, sizeof(refuse));
    CHECK_EQ(kvl_get_text(&r, text), KVL_OK);
    CHECK_STR_EQ(text, "a?b??");

    memset(long_text, 'x', sizeof(long_text));
    long_text[399] = '\0';
    kvl_wbuf_init(&w, data, sizeof(data));
    CHECK(kvl_put_text(&w, long_text));
    REQUIRE(kvl_wbuf_finish(&w, KVL_MSG_REFUSE, 1, KVL_ERR_LIMIT) == 24 + 1 + 255);
    open_message(&r, data, 24 + 1 + 255);
    CHECK_EQ(kvl_get_text(&r, text), KVL_OK);
    CHECK_EQ(strlen(text), 255);
}

TEST(wire_ep_hello, has_the_bytes_written_by_hand)
{
    /* clang-format off */
    static const uint8_t bytes[] = {'L', 'K', 1, 4, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                    11,  0,   0, 0,                 /* body */
                                    7,   0,   0, 0, 0, 0, 0, 0x80,  /* session */
                                    2,   0x39, 0x30};               /* lane, index 12345 */
    kvl_ep_hello_t m = {.session = UINT64_C(0x8000000000000007), .lane = 2, .index = 12345};
    /* clang-format on */
    uint8_t data[64];
    kvl_rbuf_t r;
    kvl_wbuf_t w;

    kvl_wbuf_init(&w, data, sizeof(data));
    CHECK(kvl_put_ep_hello(&w, &m));
    REQUIRE(kvl_wbuf_finish(&w, KVL_MSG_EP_HELLO, 6, KVL_OK) == sizeof(bytes));
    CHECK_MEM_EQ(data, bytes, sizeof(bytes));
    memset(&m, 0, sizeof(m));
    open_message(&r, bytes, sizeof(bytes));
    REQUIRE(kvl_get_ep_hello(&r, &m) == KVL_OK);
    CHECK(m.session == UINT64_C(0x8000000000000007) && m.lane == 2 && m.index == 12345);
    data[32] = 3;
    open_message(&r, data, sizeof(bytes));
    check_fault(kvl_get_ep_hello(&r, &m), "ep_hello: lane");
    data[32] = 0;
    open_message(&r, data, sizeof(bytes));
    check_fault(kvl_get_ep_hello(&r, &m), "ep_hello: lane");
}

TEST(wire_selftest, has_the_bytes_written_by_hand)
{
    /* clang-format off */
    static const uint8_t bytes[] = {'L', 'K', 1, 7, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                    21,  0,   0, 0,                /* body */
                                    1,                             /* step */
                                    42,  0,   0, 0, 0, 0, 0, 0,    /* seed */
                                    0,   0,   1, 0,                /* length */
                                    0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01}; /* hash */
    kvl_selftest_t m = {
        .step = 1, .seed = 42, .length = 65536, .hash = UINT64_C(0x0123456789abcdef)};
    /* clang-format on */
    uint8_t data[64];
    kvl_rbuf_t r;
    kvl_wbuf_t w;

    kvl_wbuf_init(&w, data, sizeof(data));
    CHECK(kvl_put_selftest(&w, &m));
    REQUIRE(kvl_wbuf_finish(&w, KVL_MSG_SELFTEST_OK, 6, KVL_OK) == sizeof(bytes));
    CHECK_MEM_EQ(data, bytes, sizeof(bytes));
    memset(&m, 0, sizeof(m));
    open_message(&r, bytes, sizeof(bytes));
    REQUIRE(kvl_get_selftest(&r, &m) == KVL_OK);
    CHECK(m.step == 1 && m.seed == 42 && m.length == 65536);
    CHECK(m.hash == UINT64_C(0x0123456789abcdef));
    data[24] = 2;
    open_message(&r, data, sizeof(bytes));
    check_fault(kvl_get_selftest(&r, &m), "selftest_ok: step");
}
