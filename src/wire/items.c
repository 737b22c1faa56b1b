/* SPDX-License-Identifier: BSD-3-Clause */
/* A put_ that returns false left the buffer as it was, so that a message can be closed with the items
 * that fit and the next one started. */
#include "wire/cursor.h"

#include <assert.h>

#define INDEX_SIZE  2
#define STATUS_SIZE 4
#define LEASE_SIZE  (8 + 4 + 4 + 8)
#define COMMIT_SIZE (INDEX_SIZE + 8 + 4 + 8 + 4)
#define ANSWER_SIZE (INDEX_SIZE + STATUS_SIZE + 8)

/* ---- pieces ---- */

static size_t key_size(const kvl_wire_key_t *key)
{
    return 1 + (size_t)key->length;
}

static void key_write(kvl_wbuf_t *w, const kvl_wire_key_t *key)
{
    assert(key->length > 0);
    kvl_wr_uint(w, key->length, 1);
    kvl_wr_bytes(w, key->data, key->length);
}

static void key_read(kvl_rbuf_t *r, kvl_wire_key_t *key)
{
    key->length = (uint8_t)kvl_rd_uint(r, 1, "key length");
    if (key->length == 0) {
        kvl_rd_fault(r, "key length", "0");
    }
    key->data = kvl_rd_bytes(r, key->length, "key");
}

static uint16_t index_read(kvl_rbuf_t *r)
{
    kvl_rd_item(r);
    return (uint16_t)kvl_rd_uint(r, INDEX_SIZE, "index");
}

static void status_write(kvl_wbuf_t *w, int32_t status)
{
    kvl_wr_uint(w, (uint32_t)status, STATUS_SIZE);
}

static void lease_write(kvl_wbuf_t *w, const kvl_wire_lease_t *lease)
{
    kvl_wr_uint(w, lease->id, 8);
    kvl_wr_uint(w, lease->generation, 4);
    kvl_wr_uint(w, lease->region, 4);
    kvl_wr_uint(w, lease->offset, 8);
}

static void lease_read(kvl_rbuf_t *r, kvl_wire_lease_t *lease)
{
    lease->id         = kvl_rd_uint(r, 8, "lease id");
    lease->generation = (uint32_t)kvl_rd_uint(r, 4, "lease generation");
    lease->region     = (uint32_t)kvl_rd_uint(r, 4, "lease region");
    lease->offset     = kvl_rd_uint(r, 8, "lease offset");
}

/* A value: length, whether its bytes follow, and the bytes. A huge one never fits, so that sizes
 * cannot wrap. */
static size_t value_size(const kvl_wbuf_t *w, uint64_t length, bool has_inline)
{
    if (!has_inline) {
        return 8 + 1;
    }
    return length > w->size ? w->size : 8 + 1 + (size_t)length;
}

static void value_write(kvl_wbuf_t *w, uint64_t length, bool has_inline, const uint8_t *bytes)
{
    kvl_wr_uint(w, length, 8);
    kvl_wr_uint(w, has_inline, 1);
    if (has_inline) {
        kvl_wr_bytes(w, bytes, (size_t)length);
    }
}

static void value_read(kvl_rbuf_t *r, uint64_t *length, bool *has_inline, const uint8_t **bytes)
{
    *length     = kvl_rd_uint(r, 8, "length");
    *has_inline = kvl_rd_bool(r, "has_inline");
    *bytes      = *has_inline ? kvl_rd_bytes(r, *length, "inline bytes") : NULL;
}

/* ---- items ---- */

bool kvl_put_ttl(kvl_wbuf_t *w, uint32_t ttl_ms)
{
    if (!kvl_wr_body(w, 4)) {
        return false;
    }
    kvl_wr_uint(w, ttl_ms, 4);
    return true;
}

kvl_status_t kvl_get_ttl(kvl_rbuf_t *r, uint32_t *ttl_ms_p)
{
    uint32_t ttl_ms = (uint32_t)kvl_rd_uint(r, 4, "ttl");

    if (!r->fault_field) {
        *ttl_ms_p = ttl_ms;
    }
    return kvl_rd_end(r);
}

bool kvl_put_reserve(kvl_wbuf_t *w, const kvl_reserve_t *m)
{
    size_t size = INDEX_SIZE + key_size(&m->key) + value_size(w, m->length, m->has_inline);

    assert(m->length > 0);
    if (!kvl_wr_item(w, size)) {
        return false;
    }
    kvl_wr_uint(w, m->index, INDEX_SIZE);
    key_write(w, &m->key);
    value_write(w, m->length, m->has_inline, m->bytes);
    return true;
}

kvl_status_t kvl_get_reserve(kvl_rbuf_t *r, kvl_reserve_t *m)
{
    kvl_reserve_t item = {.index = index_read(r)};

    key_read(r, &item.key);
    value_read(r, &item.length, &item.has_inline, &item.bytes);
    if (item.length == 0) {
        kvl_rd_fault(r, "length", "0");
    }
    if (!r->fault_field) {
        *m = item;
    }
    return kvl_rd_end(r);
}

bool kvl_put_reserved(kvl_wbuf_t *w, const kvl_reserved_t *m)
{
    if (!kvl_wr_item(w, INDEX_SIZE + STATUS_SIZE + LEASE_SIZE)) {
        return false;
    }
    kvl_wr_uint(w, m->index, INDEX_SIZE);
    status_write(w, m->status);
    lease_write(w, &m->lease);
    return true;
}

kvl_status_t kvl_get_reserved(kvl_rbuf_t *r, kvl_reserved_t *m)
{
    kvl_reserved_t item = {.index = index_read(r)};

    item.status = kvl_rd_status(r, "status");
    lease_read(r, &item.lease);
    if (!r->fault_field) {
        *m = item;
    }
    return kvl_rd_end(r);
}

bool kvl_put_lookup(kvl_wbuf_t *w, const kvl_lookup_t *m)
{
    if (!kvl_wr_item(w, INDEX_SIZE + key_size(&m->key))) {
        return false;
    }
    kvl_wr_uint(w, m->index, INDEX_SIZE);
    key_write(w, &m->key);
    return true;
}

kvl_status_t kvl_get_lookup(kvl_rbuf_t *r, kvl_lookup_t *m)
{
    kvl_lookup_t item = {.index = index_read(r)};

    key_read(r, &item.key);
    if (!r->fault_field) {
        *m = item;
    }
    return kvl_rd_end(r);
}

bool kvl_put_found(kvl_wbuf_t *w, const kvl_found_t *m)
{
    size_t value = value_size(w, m->length, m->has_inline);

    if (!kvl_wr_item(w, INDEX_SIZE + STATUS_SIZE + LEASE_SIZE + value)) {
        return false;
    }
    kvl_wr_uint(w, m->index, INDEX_SIZE);
    status_write(w, m->status);
    value_write(w, m->length, m->has_inline, m->bytes);
    lease_write(w, &m->lease);
    return true;
}

kvl_status_t kvl_get_found(kvl_rbuf_t *r, kvl_found_t *m)
{
    kvl_found_t item = {.index = index_read(r)};

    item.status = kvl_rd_status(r, "status");
    value_read(r, &item.length, &item.has_inline, &item.bytes);
    if (item.has_inline && item.status != KVL_OK) {
        kvl_rd_fault(r, "has_inline", "1 for an item that failed");
    }
    lease_read(r, &item.lease);
    if (!r->fault_field) {
        *m = item;
    }
    return kvl_rd_end(r);
}

bool kvl_put_commit(kvl_wbuf_t *w, const kvl_commit_t *m)
{
    if (!kvl_wr_item(w, COMMIT_SIZE)) {
        return false;
    }
    kvl_wr_uint(w, m->index, INDEX_SIZE);
    kvl_wr_uint(w, m->lease, 8);
    kvl_wr_uint(w, m->generation, 4);
    kvl_wr_uint(w, m->length, 8);
    kvl_wr_uint(w, m->ops, 4);
    return true;
}

kvl_status_t kvl_get_commit(kvl_rbuf_t *r, kvl_commit_t *m)
{
    kvl_commit_t item = {.index = index_read(r)};

    item.lease      = kvl_rd_uint(r, 8, "lease id");
    item.generation = (uint32_t)kvl_rd_uint(r, 4, "lease generation");
    item.length     = kvl_rd_uint(r, 8, "length");
    item.ops        = (uint32_t)kvl_rd_uint(r, 4, "ops");
    if (!r->fault_field) {
        *m = item;
    }
    return kvl_rd_end(r);
}

bool kvl_put_answer(kvl_wbuf_t *w, const kvl_answer_t *m)
{
    if (!kvl_wr_item(w, ANSWER_SIZE)) {
        return false;
    }
    kvl_wr_uint(w, m->index, INDEX_SIZE);
    status_write(w, m->status);
    kvl_wr_uint(w, m->length, 8);
    return true;
}

kvl_status_t kvl_get_answer(kvl_rbuf_t *r, kvl_answer_t *m)
{
    kvl_answer_t item = {.index = index_read(r)};

    item.status = kvl_rd_status(r, "status");
    item.length = kvl_rd_uint(r, 8, "length");
    if (!r->fault_field) {
        *m = item;
    }
    return kvl_rd_end(r);
}
