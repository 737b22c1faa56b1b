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

/* clang-format off */
static const uint8_t head_bytes[56] = {
    5, 1, 0, 0,                                     /* GET_REPLY, region, reserved */
    0x94, 0xff, 0xff, 0xff,                         /* KVL_ERR_RANGE = -108 */
    1, 0, 0, 0, 0, 0, 0, 0,                         /* op */
    0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, /* token */
    3, 0, 0, 0, 0, 0, 0, 0,                         /* transfer */
    0, 0x10, 0, 0, 0, 0, 0, 0,                      /* offset 4096 */
    0, 0, 0, 0, 1, 0, 0, 0,                         /* length 4 GiB */
    0xff, 0xff, 0xff, 0xff,                         /* generation */
    0, 0, 0, 0,                                     /* reserved */
};
/* clang-format on */

TEST(wire_data_head, has_the_bytes_written_by_hand)
{
    kvl_data_head_t m = {.kind       = KVL_AM_GET_REPLY,
                         .scope      = 1,
                         .status     = KVL_ERR_RANGE,
                         .op         = 1,
                         .token      = UINT64_C(0x1122334455667788),
                         .generation = UINT32_MAX,
                         .transfer   = 3,
                         .offset     = 4096,
                         .length     = UINT64_C(1) << 32};
    uint8_t out[KVL_DATA_HEAD_SIZE];

    kvl_put_data_head(out, &m);
    CHECK_MEM_EQ(out, head_bytes, sizeof(out));
    memset(&m, 0, sizeof(m));
    REQUIRE(kvl_get_data_head(head_bytes, sizeof(head_bytes), &m) == KVL_OK);
    CHECK(m.kind == 5 && m.scope == 1 && m.status == KVL_ERR_RANGE && m.op == 1);
    CHECK(m.token == UINT64_C(0x1122334455667788) && m.generation == UINT32_MAX);
    CHECK(m.transfer == 3 && m.offset == 4096 && m.length == UINT64_C(1) << 32);
}

static kvl_status_t head_changed(size_t at, uint8_t byte)
{
    uint8_t changed[sizeof(head_bytes)];
    kvl_data_head_t m;

    memcpy(changed, head_bytes, sizeof(changed));
    changed[at] = byte;
    return kvl_get_data_head(changed, sizeof(changed), &m);
}

TEST(wire_data_head, names_the_field_that_is_wrong)
{
    uint8_t longer[57] = {0};
    kvl_data_head_t m;
    size_t size;

    check_fault(head_changed(0, KVL_AM_EP_HELLO), "data head: kind");
    check_fault(head_changed(0, KVL_AM_COUNT), "data head: kind");
    check_fault(head_changed(0, KVL_AM_PUT), "data head: status");
    check_fault(head_changed(0, KVL_AM_GET), "data head: status");
    check_fault(head_changed(1, 2), "data head: scope");
    check_fault(head_changed(2, 1), "data head: ranges");
    check_fault(head_changed(7, 0), "data head: status");
    check_fault(head_changed(55, 1), "data head: reserved");
    for (size = 0; size < sizeof(head_bytes); size++) {
        CHECK_EQ(kvl_get_data_head(head_bytes, size, &m), KVL_ERR_PROTOCOL);
    }
    memcpy(longer, head_bytes, sizeof(head_bytes));
    check_fault(kvl_get_data_head(longer, sizeof(longer), &m), "data head: body");
}

TEST(wire_data_head, refuses_an_empty_op_and_one_that_wraps)
{
    kvl_data_head_t m = {.kind = KVL_AM_PUT, .offset = UINT64_MAX - 7, .length = 8}, got;
    uint8_t out[KVL_DATA_HEAD_SIZE];

    kvl_put_data_head(out, &m);
    check_fault(kvl_get_data_head(out, sizeof(out), &got), "data head: length: wraps");
    m.length = 7;
    kvl_put_data_head(out, &m);
    CHECK_EQ(kvl_get_data_head(out, sizeof(out), &got), KVL_OK);
    m.length = 0;
    kvl_put_data_head(out, &m);
    check_fault(kvl_get_data_head(out, sizeof(out), &got), "data head: length: 0");
    /* but a reply that failed carries no bytes */
    m.kind   = KVL_AM_GET_REPLY;
    m.status = KVL_ERR_LEASE;
    kvl_put_data_head(out, &m);
    CHECK_EQ(kvl_get_data_head(out, sizeof(out), &got), KVL_OK);
}

/* clang-format off */
static const uint8_t ranges_bytes[56 + 24] = {
    3, 1, 2, 0,                                     /* PUT, region, two ranges */
    0, 0, 0, 0,                                     /* KVL_OK */
    1, 0, 0, 0, 0, 0, 0, 0,                         /* op */
    9, 0, 0, 0, 0, 0, 0, 0,                         /* token */
    3, 0, 0, 0, 0, 0, 0, 0,                         /* transfer */
    0, 0, 0, 0, 0, 0, 0, 0,                         /* offset: that of none */
    0x2c, 1, 0, 0, 0, 0, 0, 0,                      /* length 300 */
    0, 0, 0, 0,                                     /* generation */
    0, 0, 0, 0,                                     /* reserved */
    0, 0x10, 0, 0, 0, 0, 0, 0, 200, 0, 0, 0,        /* 200 at 4096 */
    1, 0, 0, 0, 1, 0, 0, 0, 100, 0, 0, 0,           /* 100 at 4 GiB + 1 */
};
/* clang-format on */

TEST(wire_data_ranges, have_the_bytes_written_by_hand)
{
    kvl_data_head_t m = {.kind = KVL_AM_PUT, .scope = 1, .op = 1, .token = 9, .transfer = 3, .length = 300,
                         .ranges = 2};
    kvl_wire_range_t first = {4096, 200}, second = {(UINT64_C(1) << 32) + 1, 100}, got;
    uint8_t out[KVL_DATA_HEAD_MAX];

    CHECK_EQ(ranges_bytes[0], KVL_AM_PUT);
    kvl_put_data_head(out, &m);
    kvl_put_data_range(out, 0, &first);
    kvl_put_data_range(out, 1, &second);
    CHECK_MEM_EQ(out, ranges_bytes, sizeof(ranges_bytes));
    memset(&m, 0, sizeof(m));
    REQUIRE(kvl_get_data_head(ranges_bytes, sizeof(ranges_bytes), &m) == KVL_OK);
    CHECK(m.ranges == 2 && m.length == 300);
    got = kvl_get_data_range(&m, 1);
    CHECK(got.offset == (UINT64_C(1) << 32) + 1 && got.length == 100);
}

static kvl_status_t ranges_changed(size_t at, uint8_t byte, size_t size)
{
    uint8_t changed[sizeof(ranges_bytes) + 1] = {0};
    kvl_data_head_t m;

    memcpy(changed, ranges_bytes, sizeof(ranges_bytes));
    changed[at] = byte;
    return kvl_get_data_head(changed, size, &m);
}

TEST(wire_data_ranges, are_refused_if_anything_about_them_is_wrong)
{
    const size_t all = sizeof(ranges_bytes);
    size_t size;

    check_fault(ranges_changed(0, KVL_AM_GET_REPLY, all), "data head: ranges");
    check_fault(ranges_changed(1, 0, all), "data head: ranges");  /* of a lease */
    check_fault(ranges_changed(2, 1, all), "data head: ranges");
    check_fault(ranges_changed(2, 3, all), "data head: ranges");
    check_fault(ranges_changed(2, 65, all), "data head: ranges");
    check_fault(ranges_changed(32, 1, all), "data head: ranges"); /* an offset too */
    check_fault(ranges_changed(40, 0x2d, all), "data head: ranges"); /* not the sum */
    check_fault(ranges_changed(64, 199, all), "data head: ranges");
    check_fault(ranges_changed(64, 0, all), "data head: ranges");
    for (size = 56; size < all; size++) {
        CHECK_EQ(ranges_changed(0, KVL_AM_PUT, size), KVL_ERR_PROTOCOL);
    }
    check_fault(ranges_changed(0, KVL_AM_PUT, all + 1), "data head: body");
}

TEST(wire_data_ranges, are_not_for_long_ops)
{
    uint8_t out[56 + 24];
    unsigned more;

    for (more = 0; more < 2; more++) {
        kvl_wire_range_t first = {0, 65536 - 100}, second = {1 << 20, 100 + more};
        kvl_data_head_t m = {.kind = KVL_AM_GET, .scope = 1, .token = 1, .length = 65536 + more, .ranges = 2}, got;

        kvl_put_data_head(out, &m);
        kvl_put_data_range(out, 0, &first);
        kvl_put_data_range(out, 1, &second);
        CHECK_EQ(kvl_get_data_head(out, sizeof(out), &got), more ? KVL_ERR_PROTOCOL : KVL_OK);
    }
}

/* clang-format off */
static const uint8_t blob_bytes[] = {
    'K', 'V', 'L', 'R', 1,                          /* magic, version */
    0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, /* nonce */
    6, 0, 0, 0, 2,                                  /* id, rail */
    0, 0x10, 0, 0, 0, 0, 0, 0,                      /* base 4096 */
    0, 0x20, 0, 0, 0, 0, 0, 0,                      /* length 8192 */
    3, 0, 1, 2, 3,                                  /* rkey */
    0x40, 0x10, 0xf0, 0x11, 0xb8, 0x3d, 0x19, 0x74, /* XXH3 of the above */
};
/* clang-format on */

static kvl_region_blob_t blob_value(void)
{
    return (kvl_region_blob_t){.nonce  = UINT64_C(0x1122334455667788),
                               .count  = 1,
                               .slices = {{.id          = 6,
                                           .rail        = 2,
                                           .base        = 4096,
                                           .length      = 8192,
                                           .rkey_length = 3,
                                           .rkey        = (const uint8_t *)"\x01\x02\x03"}}};
}

TEST(wire_region_blob, has_the_bytes_written_by_hand)
{
    kvl_region_blob_t m = blob_value();
    uint8_t data[sizeof(blob_bytes)];

    CHECK_EQ(kvl_put_region_blob(data, sizeof(data) - 1, &m), 0);
    REQUIRE(kvl_put_region_blob(data, sizeof(data), &m) == sizeof(blob_bytes));
    CHECK_MEM_EQ(data, blob_bytes, sizeof(blob_bytes));
    memset(&m, 0, sizeof(m));
    REQUIRE(kvl_get_region_blob(blob_bytes, sizeof(blob_bytes), &m) == KVL_OK);
    CHECK(m.nonce == UINT64_C(0x1122334455667788) && m.count == 1 && m.slices[0].id == 6 && m.slices[0].rail == 2);
    CHECK(m.slices[0].base == 4096 && m.slices[0].length == 8192 && m.slices[0].rkey_length == 3);
    CHECK(m.slices[0].rkey == blob_bytes + sizeof(blob_bytes) - 11);
}

static kvl_status_t blob_changed(size_t at, uint8_t byte)
{
    static uint8_t changed[sizeof(blob_bytes)];
    kvl_region_blob_t m;

    memcpy(changed, blob_bytes, sizeof(changed));
    changed[at] = byte;
    return kvl_get_region_blob(changed, sizeof(changed), &m);
}

TEST(wire_region_blob, names_the_field_that_is_wrong)
{
    kvl_region_blob_t m;

    check_fault(blob_changed(0, 'k'), "region blob: magic");
    CHECK_EQ(blob_changed(4, 2), KVL_ERR_VERSION);
    check_fault(blob_changed(27, 0), "region blob: region length");
    check_fault(blob_changed(34, 12), "region blob: rkey:");
    check_fault(blob_changed(34, 4), "region blob: hash: runs");
    check_fault(blob_changed(34, 2), "region blob: base: runs"); /* of another slice, which is not there */
    check_fault(blob_changed(35, 0x7f), "region blob: rkey_length");
    check_fault(kvl_get_region_blob(NULL, 0, &m), "region blob: magic");
}

/* writes a blob of the slices [4096, +100), [4196, +100), [4296, +7), one of them changed, and reads it */
static kvl_status_t blob_sliced(unsigned slice, const kvl_wire_region_t *changed, kvl_region_blob_t *out)
{
    static uint8_t data[256];
    kvl_region_blob_t m = {.nonce  = 1,
                           .count  = 3,
                           .slices = {{.id = 6, .base = 4096, .length = 100},
                                      {.id = 6, .base = 4196, .length = 100},
                                      {.id = 6, .base = 4296, .length = 7}}};
    size_t size;

    m.slices[slice] = *changed;
    size            = kvl_put_region_blob(data, sizeof(data), &m);
    CHECK_EQ(size, 5 + 8 + 3 * 23 + 8);
    CHECK_EQ(size, kvl_region_blob_size(&m));
    return kvl_get_region_blob(data, size, out);
}

TEST(wire_region_blob, has_slices_that_follow_each_other)
{
    static const kvl_wire_region_t wrong[][2] = {
        {{.id = 0}, {.id = 6, .base = 4197, .length = 100}},  /* a gap */
        {{.id = 0}, {.id = 6, .base = 4196, .length = 99}},   /* shorter, and not the last */
        {{.id = 0}, {.id = 7, .base = 4196, .length = 100}},  /* of another region */
        {{.id = 1}, {.id = 6, .base = 4296, .length = 101}}}; /* the last: longer than the others */
    kvl_region_blob_t m;
    size_t i;

    CHECK_EQ(blob_sliced(2, &(kvl_wire_region_t){.id = 6, .base = 4296, .length = 100}, &m), KVL_OK);
    CHECK(m.count == 3 && m.slices[1].base == 4196 && m.slices[2].base == 4296 && m.slices[2].length == 100);
    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        check_fault(blob_sliced(1 + wrong[i][0].id, &wrong[i][1], &m), "region blob: slices: do not follow");
    }
}

TEST(wire_region_blob, is_refused_with_any_bit_changed)
{
    size_t bit;

    for (bit = 0; bit < 8 * sizeof(blob_bytes); bit++) {
        CHECK(blob_changed(bit / 8, (uint8_t)(blob_bytes[bit / 8] ^ 1u << bit % 8)) != KVL_OK);
    }
}

TEST(wire_stats, has_the_bytes_written_by_hand)
{
    /* clang-format off */
    static const uint8_t bytes[] = {'L', 'K', 1, 25, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                    17,  0,   0, 0,                /* body */
                                    2,                             /* count */
                                    1,   0,   0, 0, 0, 0, 0, 0x80, /* 2^63 + 1 */
                                    5,   0,   0, 0, 0, 0, 0, 0};
    /* clang-format on */
    static const uint64_t values[] = {UINT64_C(0x8000000000000001), 5};
    uint64_t got[KVL_WIRE_STATS];
    uint8_t data[64];
    size_t count = 0;
    kvl_msg_head_t head;
    kvl_rbuf_t r;
    kvl_wbuf_t w;

    kvl_wbuf_init(&w, data, sizeof(data));
    CHECK(kvl_put_stats(&w, values, 2));
    REQUIRE(kvl_wbuf_finish(&w, KVL_MSG_STAT_OK, 9, KVL_OK) == sizeof(bytes));
    CHECK_MEM_EQ(data, bytes, sizeof(bytes));
    REQUIRE(kvl_wire_open(&r, bytes, sizeof(bytes), &head) == KVL_OK);
    REQUIRE(kvl_get_stats(&r, got, &count) == KVL_OK);
    CHECK(count == 2 && got[0] == values[0] && got[1] == 5 && got[2] == 0);
    data[24] = 17;
    REQUIRE(kvl_wire_open(&r, data, sizeof(bytes), &head) == KVL_OK);
    check_fault(kvl_get_stats(&r, got, &count), "stat_ok: count of stats");
}

/* clang-format off */
static const uint8_t fin_bytes[] = {
    'L', 'K', 1, 26, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 19, 0, 0, 0,
    5, 0, 0, 0, 0, 0, 0, 0, /* transfer */
    3, 0, 0, 0,             /* ops */
    1,                      /* has_notification */
    2, 0, 0, 0, 'o', 'k',
};
/* clang-format on */

TEST(wire_xfer_fin, has_the_bytes_written_by_hand)
{
    kvl_xfer_fin_t m = {.transfer            = 5,
                        .ops                 = 3,
                        .has_notification    = true,
                        .notification_length = 2,
                        .notification        = (const uint8_t *)"ok"};
    uint8_t data[64];
    kvl_msg_head_t head;
    kvl_rbuf_t r;
    kvl_wbuf_t w;

    kvl_wbuf_init(&w, data, sizeof(data));
    CHECK(kvl_put_xfer_fin(&w, &m));
    REQUIRE(kvl_wbuf_finish(&w, KVL_MSG_XFER_FIN, 9, KVL_OK) == sizeof(fin_bytes));
    CHECK_MEM_EQ(data, fin_bytes, sizeof(fin_bytes));
    memset(&m, 0, sizeof(m));
    REQUIRE(kvl_wire_open(&r, fin_bytes, sizeof(fin_bytes), &head) == KVL_OK);
    REQUIRE(kvl_get_xfer_fin(&r, &m) == KVL_OK);
    CHECK(m.transfer == 5 && m.ops == 3 && m.has_notification && m.notification_length == 2);
    CHECK(m.notification == fin_bytes + sizeof(fin_bytes) - 2);
}

static kvl_status_t fin_changed(size_t at, uint8_t byte)
{
    static uint8_t changed[sizeof(fin_bytes)];
    kvl_msg_head_t head;
    kvl_xfer_fin_t m;
    kvl_rbuf_t r;

    memcpy(changed, fin_bytes, sizeof(changed));
    changed[at] = byte;
    REQUIRE(kvl_wire_open(&r, changed, sizeof(changed), &head) == KVL_OK);
    return kvl_get_xfer_fin(&r, &m);
}

TEST(wire_xfer_fin, names_the_field_that_is_wrong)
{
    check_fault(fin_changed(36, 2), "xfer_fin: has_notification");
    check_fault(fin_changed(36, 0), "xfer_fin: notification length");
    check_fault(fin_changed(37, 3), "xfer_fin: notification:");
    check_fault(fin_changed(40, 0xff), "xfer_fin: notification:");
}

/* splitmix64 with seed 1234567: the first five numbers as published with its reference code */
TEST(wire_pattern, is_splitmix64)
{
    static const uint64_t published[] = {
        UINT64_C(6457827717110365317),  UINT64_C(3203168211198807973),
        UINT64_C(9817491932198370423),  UINT64_C(4593380528125082431),
        UINT64_C(16408922859458223821),
    };
    uint8_t bytes[40];
    int i;

    kvl_wire_pattern(bytes, sizeof(bytes), 1234567);
    for (i = 0; i < 40; i++) {
        CHECK_EQ(bytes[i], (published[i / 8] >> (8 * (i % 8))) & 0xff);
    }
}

TEST(wire_pattern, fills_any_length_and_nothing_beyond)
{
    uint8_t whole[64], part[64];
    size_t length;

    kvl_wire_pattern(whole, sizeof(whole), 99);
    for (length = 0; length < sizeof(part); length++) {
        memset(part, 0xee, sizeof(part));
        kvl_wire_pattern(part, length, 99);
        CHECK_MEM_EQ(part, whole, length);
        CHECK_EQ(part[length], 0xee);
    }
}

TEST(wire_pattern, differs_with_the_seed_and_the_place)
{
    uint64_t a[16], b[16];
    int i, j;

    kvl_wire_pattern(a, sizeof(a), 0);
    kvl_wire_pattern(b, sizeof(b), 1);
    for (i = 0; i < 16; i++) {
        CHECK(a[i] != b[i]);
        for (j = 0; j < i; j++) {
            CHECK(a[i] != a[j]);
        }
    }
}
