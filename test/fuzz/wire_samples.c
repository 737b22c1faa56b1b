/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire_all.h"

#include <string.h>

static const uint8_t key_bytes[255]  = "model/layout/00112233445566778899aabbccddeeff";
static const uint8_t value_bytes[16] = "sixteen bytes..";

static void hello(kvl_wbuf_t *w)
{
    kvl_hello_t m = {.version_min   = 1,
                     .version_max   = 1,
                     .nonce         = UINT64_C(0x1122334455667788),
                     .depth         = 8,
                     .sg_endpoints  = 8,
                     .data_depth    = 4,
                     .mode          = 2,
                     .transport     = 1,
                     .inline_max    = 1024,
                     .pid           = 4711,
                     .pid_start     = 99,
                     .pid_ns        = UINT64_C(4026531836),
                     .boot_id       = "0123456789abcde",
                     .name          = "engine 0",
                     .retired_count = 16,
                     .retired       = {1, 2, UINT64_MAX}};

    kvl_put_hello(w, &m);
}

static void hello_ok(kvl_wbuf_t *w)
{
    kvl_hello_ok_t m         = {.version        = 1,
                                .session        = 7,
                                .depth          = 8,
                                .sg_endpoints   = 4,
                                .data_depth     = 8,
                                .inline_max     = 1024,
                                .lease_max_ms   = 120000,
                                .chunk_bytes    = 8u << 20,
                                .value_max      = UINT64_C(3) << 30,
                                .scratch_offset = 4096,
                                .scratch_length = 65536,
                                .name           = "kvlaned 0.1.0"};
    kvl_wire_region_t region = {.id = 1, .base = 4096, .length = 8192, .rkey = value_bytes};
    kvl_peer_rail_t rails[] = {{KVL_PEER_RAIL_TCP, 4, 7700, 9000, {10, 0, 0, 1}, "eth0"},
                               {KVL_PEER_RAIL_RDMA, 0, 0, 0, {0}, "mlx5_0:1"}};

    kvl_put_hello_ok(w, &m);
    kvl_put_region(w, &region);
    region.rail        = 1;
    region.base        = UINT64_MAX - 8192;
    region.rkey_length = sizeof(value_bytes);
    kvl_put_region(w, &region);
    kvl_put_peer_rails(w, rails, 2);
}

static void rail(kvl_wbuf_t *w)
{
    kvl_wire_rail_t m = {.leave = true, .rail = 3, .target = 15, .name = "eth3"};

    kvl_put_rail(w, &m);
}

static void rail_ok(kvl_wbuf_t *w)
{
    kvl_wire_region_t region = {.id = 1, .rail = 2, .base = 4096, .length = 8192, .rkey = value_bytes};

    rail(w);
    kvl_put_region(w, &region);
}

static void resume(kvl_wbuf_t *w)
{
    kvl_wire_resume_t m = {.session = UINT64_MAX - 1, .received = 77};

    kvl_put_resume(w, &m);
}

static void refuse(kvl_wbuf_t *w)
{
    kvl_put_text(w, "sessions: at their limit of 1024");
}

static void ep_hello(kvl_wbuf_t *w)
{
    kvl_ep_hello_t m = {.session = 7, .lane = 2, .index = 65535};

    kvl_put_ep_hello(w, &m);
}

static void selftest(kvl_wbuf_t *w)
{
    kvl_selftest_t m = {.step = 1, .seed = 42, .length = 65536, .hash = UINT64_MAX};

    kvl_put_selftest(w, &m);
}

static void nothing(kvl_wbuf_t *w)
{
    (void)w;
}

static void reserve(kvl_wbuf_t *w)
{
    kvl_reserve_t m = {.key = {key_bytes, 255}, .length = UINT64_MAX};

    kvl_put_ttl(w, 30000);
    kvl_put_reserve(w, &m);
    m = (kvl_reserve_t){.index      = 65535,
                        .key        = {key_bytes, 1},
                        .length     = sizeof(value_bytes),
                        .has_inline = true,
                        .bytes      = value_bytes};
    kvl_put_reserve(w, &m);
}

static void reserved(kvl_wbuf_t *w)
{
    kvl_reserved_t m = {.index = 3, .lease = {UINT64_MAX, 5, 1, 1 << 20}};

    kvl_put_reserved(w, &m);
    m = (kvl_reserved_t){.index = 4, .status = KVL_ERR_NO_SPACE};
    kvl_put_reserved(w, &m);
}

static void keys(kvl_wbuf_t *w)
{
    kvl_lookup_t m = {.index = 1, .key = {key_bytes, 44}};

    kvl_put_lookup(w, &m);
    m.index = 0;
    kvl_put_lookup(w, &m);
}

static void lookup(kvl_wbuf_t *w)
{
    kvl_put_ttl(w, UINT32_MAX);
    keys(w);
}

static void found(kvl_wbuf_t *w)
{
    kvl_found_t m = {.index = 1, .length = 1 << 20, .lease = {9, 8, 7, 6}};

    kvl_put_found(w, &m);
    m = (kvl_found_t){.index = 2, .length = 16, .has_inline = true, .bytes = value_bytes};
    kvl_put_found(w, &m);
    m = (kvl_found_t){.index = 3, .status = KVL_ERR_NOT_FOUND};
    kvl_put_found(w, &m);
}

static void commit(kvl_wbuf_t *w)
{
    kvl_commit_t m = {.index = 2, .lease = 9, .generation = 3, .length = 1 << 20, .ops = 4};

    kvl_put_commit(w, &m);
}

static void answer(kvl_wbuf_t *w)
{
    kvl_answer_t m = {.index = 2, .status = KVL_ERR_LEASE, .length = 5};

    kvl_put_answer(w, &m);
}

static void stats(kvl_wbuf_t *w)
{
    static const uint64_t values[KVL_WIRE_STATS] = {1, 2, 3, UINT64_MAX};

    kvl_put_stats(w, values, KVL_WIRE_STATS);
}

static void xfer_fin(kvl_wbuf_t *w)
{
    kvl_xfer_fin_t m = {.transfer            = 5,
                        .ops                 = 3,
                        .has_notification    = true,
                        .notification_length = sizeof(value_bytes),
                        .notification        = value_bytes};

    kvl_put_xfer_fin(w, &m);
}

static const struct {
    kvl_msg_type_t type;
    void (*fill)(kvl_wbuf_t *w);
    kvl_status_t status;
} samples[] = {
    {KVL_MSG_HELLO, hello, KVL_OK},          {KVL_MSG_HELLO_OK, hello_ok, KVL_OK},
    {KVL_MSG_REFUSE, refuse, KVL_ERR_LIMIT}, {KVL_MSG_EP_HELLO, ep_hello, KVL_OK},
    {KVL_MSG_EP_OK, ep_hello, KVL_OK},       {KVL_MSG_SELFTEST, selftest, KVL_OK},
    {KVL_MSG_SELFTEST_OK, selftest, KVL_OK}, {KVL_MSG_PING, nothing, KVL_OK},
    {KVL_MSG_PONG, nothing, KVL_OK},         {KVL_MSG_BYE, nothing, KVL_OK},
    {KVL_MSG_BYE_OK, nothing, KVL_OK},       {KVL_MSG_RESERVE, reserve, KVL_OK},
    {KVL_MSG_RESERVED, reserved, KVL_OK},    {KVL_MSG_LOOKUP, lookup, KVL_OK},
    {KVL_MSG_FOUND, found, KVL_OK},          {KVL_MSG_COMMIT, commit, KVL_OK},
    {KVL_MSG_COMMITTED, answer, KVL_OK},     {KVL_MSG_RELEASE, commit, KVL_OK},
    {KVL_MSG_ABORT, commit, KVL_OK},         {KVL_MSG_EXISTS, keys, KVL_OK},
    {KVL_MSG_EXISTS_OK, answer, KVL_OK},     {KVL_MSG_REMOVE, keys, KVL_OK},
    {KVL_MSG_REMOVED, answer, KVL_OK},       {KVL_MSG_STAT, nothing, KVL_OK},
    {KVL_MSG_STAT_OK, stats, KVL_OK},        {KVL_MSG_XFER_FIN, xfer_fin, KVL_OK},
    {KVL_MSG_XFER_OK, answer, KVL_OK},       {KVL_MSG_RAIL, rail, KVL_OK},
    {KVL_MSG_RAIL_OK, rail_ok, KVL_OK},      {KVL_MSG_RESUME, resume, KVL_OK},
    {KVL_MSG_RESUME_OK, resume, KVL_OK},     {KVL_MSG_RECEIVED, nothing, KVL_OK},
};

static const size_t sample_count = sizeof(samples) / sizeof(samples[0]);

/* a data head with two ranges */
static size_t sample_ranges(uint8_t *data, size_t size)
{
    kvl_data_head_t head      = {.kind = KVL_AM_GET, .scope = 1, .op = 1, .token = 2, .length = 300, .ranges = 2};
    kvl_wire_range_t range[2] = {{4096, 200}, {1 << 20, 100}};

    if (size < KVL_DATA_HEAD_MAX) {
        return 0;
    }
    kvl_put_data_head(data, &head);
    kvl_put_data_range(data, 0, &range[0]);
    kvl_put_data_range(data, 1, &range[1]);
    return KVL_DATA_HEAD_SIZE + 2 * KVL_WIRE_RANGE_SIZE;
}

/* those that are no messages */
static size_t sample_other(size_t index, void *data, size_t size, const char **name_p)
{
    kvl_data_head_t head   = {.kind = KVL_AM_PUT, .scope = 1, .op = 1, .token = 2, .length = 4096};
    kvl_region_blob_t blob = {.nonce  = 77,
                              .count  = 2,
                              .slices = {{.id          = 3,
                                          .base        = 4096,
                                          .length      = 4096,
                                          .rkey_length = sizeof(value_bytes),
                                          .rkey        = value_bytes},
                                         {.id          = 3,
                                          .base        = 8192,
                                          .length      = 100,
                                          .rkey_length = sizeof(value_bytes),
                                          .rkey        = value_bytes}}};

    if (index == 0) {
        *name_p = "data_head";
        if (size < KVL_DATA_HEAD_SIZE) {
            return 0;
        }
        kvl_put_data_head(data, &head);
        return KVL_DATA_HEAD_SIZE;
    }
    if (index == 1) {
        *name_p = "data_ranges";
        return sample_ranges(data, size);
    }
    *name_p = "region_blob";
    return kvl_put_region_blob(data, size, &blob);
}

size_t wire_all_samples(void)
{
    return sample_count + 3;
}

size_t wire_all_sample(size_t index, void *data, size_t size, const char **name_p)
{
    kvl_wbuf_t w;

    if (index >= sample_count) {
        return sample_other(index - sample_count, data, size, name_p);
    }
    *name_p = kvl_msg_name(samples[index].type);
    kvl_wbuf_init(&w, data, size);
    samples[index].fill(&w);
    return kvl_wbuf_finish(&w, samples[index].type, UINT64_C(0xfedcba9876543210),
                           samples[index].status);
}
