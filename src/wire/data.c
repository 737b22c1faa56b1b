/* SPDX-License-Identifier: BSD-3-Clause */
/* The data header, the end of a transfer, the counters of STAT, and the self-test's bytes.
 * Data header, 56 bytes: kind 1, scope 1, zero 2, status 4, op 8, token 8, transfer 8, offset 8,
 * length 8, generation 4, zero 4. */
#include "wire/cursor.h"

#include <assert.h>
#include <string.h>

#define XFER_FIN_SIZE (8 + 4 + 1 + 4) /* without the notification */

bool kvl_put_stats(kvl_wbuf_t *w, const uint64_t *values, size_t count)
{
    size_t i;

    assert(count <= KVL_WIRE_STATS);
    if (!kvl_wr_body(w, 1 + count * 8)) {
        return false;
    }
    kvl_wr_uint(w, count, 1);
    for (i = 0; i < count; i++) {
        kvl_wr_uint(w, values[i], 8);
    }
    return true;
}

kvl_status_t kvl_get_stats(kvl_rbuf_t *r, uint64_t values[KVL_WIRE_STATS], size_t *count_p)
{
    uint64_t stats[KVL_WIRE_STATS] = {0};
    size_t i, count = (size_t)kvl_rd_uint(r, 1, "count of stats");

    if (count > KVL_WIRE_STATS) {
        kvl_rd_fault(r, "count of stats", "over 16");
        count = 0;
    }
    for (i = 0; i < count; i++) {
        stats[i] = kvl_rd_uint(r, 8, "stats");
    }
    if (!r->fault_field) {
        memcpy(values, stats, sizeof(stats));
        *count_p = count;
    }
    return kvl_rd_end(r);
}

bool kvl_put_xfer_fin(kvl_wbuf_t *w, const kvl_xfer_fin_t *m)
{
    uint32_t length = m->has_notification ? m->notification_length : 0;

    if (!kvl_wr_body(w, XFER_FIN_SIZE + (size_t)length)) {
        return false;
    }
    kvl_wr_uint(w, m->transfer, 8);
    kvl_wr_uint(w, m->ops, 4);
    kvl_wr_uint(w, m->has_notification, 1);
    kvl_wr_uint(w, length, 4);
    kvl_wr_bytes(w, m->notification, length);
    return true;
}

kvl_status_t kvl_get_xfer_fin(kvl_rbuf_t *r, kvl_xfer_fin_t *m)
{
    kvl_xfer_fin_t fin = {0};

    fin.transfer            = kvl_rd_uint(r, 8, "transfer");
    fin.ops                 = (uint32_t)kvl_rd_uint(r, 4, "ops");
    fin.has_notification    = kvl_rd_bool(r, "has_notification");
    fin.notification_length = (uint32_t)kvl_rd_uint(r, 4, "notification length");
    if (!fin.has_notification && fin.notification_length > 0) {
        kvl_rd_fault(r, "notification length", "not 0 without a notification");
    }
    fin.notification = kvl_rd_bytes(r, fin.notification_length, "notification");
    if (!r->fault_field) {
        *m = fin;
    }
    return kvl_rd_end(r);
}

void kvl_put_data_head(uint8_t out[KVL_DATA_HEAD_SIZE], const kvl_data_head_t *m)
{
    kvl_wbuf_t w = {.data = out, .size = KVL_DATA_HEAD_SIZE};

    kvl_wr_uint(&w, m->kind, 1);
    kvl_wr_uint(&w, m->scope, 1);
    kvl_wr_uint(&w, m->ranges, 2);
    kvl_wr_uint(&w, (uint32_t)m->status, 4);
    kvl_wr_uint(&w, m->op, 8);
    kvl_wr_uint(&w, m->token, 8);
    kvl_wr_uint(&w, m->transfer, 8);
    kvl_wr_uint(&w, m->offset, 8);
    kvl_wr_uint(&w, m->length, 8);
    kvl_wr_uint(&w, m->generation, 4);
    kvl_wr_uint(&w, 0, 4);
    assert(w.used == KVL_DATA_HEAD_SIZE);
}

void kvl_put_data_range(uint8_t *out, unsigned i, const kvl_wire_range_t *range)
{
    kvl_wbuf_t w = {.data = out + KVL_DATA_HEAD_SIZE + i * KVL_WIRE_RANGE_SIZE, .size = KVL_WIRE_RANGE_SIZE};

    kvl_wr_uint(&w, range->offset, 8);
    kvl_wr_uint(&w, range->length, 4);
}

kvl_wire_range_t kvl_get_data_range(const kvl_data_head_t *m, unsigned i)
{
    kvl_rbuf_t r = {.data = m->range_bytes + i * KVL_WIRE_RANGE_SIZE, .size = KVL_WIRE_RANGE_SIZE};
    kvl_wire_range_t range;

    range.offset = kvl_rd_uint(&r, 8, "offset");
    range.length = (uint32_t)kvl_rd_uint(&r, 4, "length");
    return range;
}

static void data_ranges_read(kvl_rbuf_t *r, kvl_data_head_t *m)
{
    uint64_t sum = 0;
    unsigned i;

    if (m->ranges < 2 || m->ranges > KVL_WIRE_RANGES_MAX || m->kind == KVL_AM_GET_REPLY || !m->scope ||
        m->offset) {
        kvl_rd_fault(r, "ranges", "too few, too many, or where there can be none");
        return;
    }
    if (m->length > KVL_WIRE_RANGES_LENGTH) {
        kvl_rd_fault(r, "ranges", "longer than an op with ranges may be");
        return;
    }
    m->range_bytes = kvl_rd_bytes(r, m->ranges * KVL_WIRE_RANGE_SIZE, "ranges");
    for (i = 0; m->range_bytes && i < m->ranges; i++) {
        kvl_wire_range_t range = kvl_get_data_range(m, i);

        if (!range.length || range.length > UINT64_MAX - range.offset) {
            kvl_rd_fault(r, "ranges", "one is empty, or wraps");
        }
        sum += range.length;
    }
    if (sum != m->length) {
        kvl_rd_fault(r, "ranges", "their sum is not the op's length");
    }
}

static void data_head_check(kvl_rbuf_t *r, const kvl_data_head_t *m)
{
    if (m->kind < KVL_AM_PUT || m->kind > KVL_AM_GET_REPLY) {
        kvl_rd_fault(r, "kind", "unknown");
    }
    if (m->status != KVL_OK && m->kind != KVL_AM_GET_REPLY) {
        kvl_rd_fault(r, "status", "not 0 in what is no reply");
    }
    if (m->length == 0 && m->status == KVL_OK) {
        kvl_rd_fault(r, "length", "0");
    }
    if (m->length > UINT64_MAX - m->offset) {
        kvl_rd_fault(r, "length", "wraps past the last offset");
    }
}

static void data_head_read(kvl_rbuf_t *r, kvl_data_head_t *m)
{
    m->kind  = (uint8_t)kvl_rd_uint(r, 1, "kind");
    m->scope = kvl_rd_bool(r, "scope");
    m->ranges     = (uint16_t)kvl_rd_uint(r, 2, "ranges");
    m->status     = kvl_rd_status(r, "status");
    m->op         = kvl_rd_uint(r, 8, "op");
    m->token      = kvl_rd_uint(r, 8, "token");
    m->transfer   = kvl_rd_uint(r, 8, "transfer");
    m->offset     = kvl_rd_uint(r, 8, "offset");
    m->length     = kvl_rd_uint(r, 8, "length");
    m->generation = (uint32_t)kvl_rd_uint(r, 4, "generation");
    if (kvl_rd_uint(r, 4, "reserved") != 0) {
        kvl_rd_fault(r, "reserved", "not 0");
    }
}

kvl_status_t kvl_get_data_head(const void *data, size_t length, kvl_data_head_t *m)
{
    kvl_rbuf_t r         = {.data = data, .size = length, .message = "data head"};
    kvl_data_head_t head = {0};

    data_head_read(&r, &head);
    data_head_check(&r, &head);
    if (head.ranges) {
        data_ranges_read(&r, &head);
    }
    if (kvl_wire_close(&r) == KVL_OK) {
        *m = head;
        return KVL_OK;
    }
    return KVL_ERR_PROTOCOL;
}

/* splitmix64: its n-th word depends on n and the seed alone */
static uint64_t pattern_word(uint64_t seed, uint64_t n)
{
    uint64_t x = seed + (n + 1) * UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* both sides make it, on machines of any byte order */
static void pattern_store(uint8_t *bytes, uint64_t word, size_t size)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    memcpy(bytes, &word, size);
}

void kvl_wire_pattern(void *data, size_t length, uint64_t seed)
{
    uint8_t *bytes = data;
    size_t words   = length / 8, i;

    for (i = 0; i < words; i++) {
        pattern_store(bytes + 8 * i, pattern_word(seed, i), 8);
    }
    if (length % 8 > 0) {
        pattern_store(bytes + 8 * words, pattern_word(seed, words), length % 8);
    }
}
