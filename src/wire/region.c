/* SPDX-License-Identifier: BSD-3-Clause */
/* A blob is magic "KVLR", version 1, nonce 8, the records of the region's slices, and the hash
 * (XXH3, 64 bits) of all that; nothing follows. */
#include "wire/region.h"

#include "base/error.h"

#include <assert.h>
#include <xxhash.h>

#define REGION_SIZE (4 + 1 + 2 * 8 + 2) /* without the rkey */
#define BLOB_MAGIC  UINT32_C(0x524c564b)
#define BLOB_HASH   8
#define BLOB_SIZE   (4 + 1 + 8 + BLOB_HASH)

size_t kvl_wr_region_size(const kvl_wire_region_t *m)
{
    return REGION_SIZE + (size_t)m->rkey_length;
}

void kvl_wr_region(kvl_wbuf_t *w, const kvl_wire_region_t *m)
{
    assert(m->rkey_length <= KVL_WIRE_RKEY_MAX);
    kvl_wr_uint(w, m->id, 4);
    kvl_wr_uint(w, m->rail, 1);
    kvl_wr_uint(w, m->base, 8);
    kvl_wr_uint(w, m->length, 8);
    kvl_wr_uint(w, m->rkey_length, 2);
    kvl_wr_bytes(w, m->rkey, m->rkey_length);
}

void kvl_rd_region(kvl_rbuf_t *r, kvl_wire_region_t *m)
{
    m->id     = (uint32_t)kvl_rd_uint(r, 4, "region id");
    m->rail   = (uint8_t)kvl_rd_uint(r, 1, "rail");
    m->base   = kvl_rd_uint(r, 8, "base");
    m->length = kvl_rd_uint(r, 8, "region length");
    if (m->length < 1) {
        kvl_rd_fault(r, "region length", "0");
    }
    if (m->length > UINT64_MAX - m->base) {
        kvl_rd_fault(r, "region length", "wraps past the last address");
    }
    m->rkey_length = (uint16_t)kvl_rd_uint(r, 2, "rkey_length");
    if (m->rkey_length > KVL_WIRE_RKEY_MAX) {
        kvl_rd_fault(r, "rkey_length", "over the longest rkey");
    }
    m->rkey = kvl_rd_bytes(r, m->rkey_length, "rkey");
}

bool kvl_put_region(kvl_wbuf_t *w, const kvl_wire_region_t *m)
{
    if (w->count >= KVL_WIRE_REGIONS_MAX || !kvl_wr_item(w, kvl_wr_region_size(m))) {
        return false;
    }
    kvl_wr_region(w, m);
    return true;
}

kvl_status_t kvl_get_region(kvl_rbuf_t *r, kvl_wire_region_t *m)
{
    kvl_wire_region_t region = {0};

    kvl_rd_item(r);
    kvl_rd_region(r, &region);
    if (!r->fault_field) {
        *m = region;
    }
    return kvl_rd_end(r);
}

size_t kvl_region_blob_size(const kvl_region_blob_t *m)
{
    size_t size = BLOB_SIZE, i;

    for (i = 0; i < m->count; i++) {
        size += kvl_wr_region_size(&m->slices[i]);
    }
    return size;
}

size_t kvl_put_region_blob(void *data, size_t size, const kvl_region_blob_t *m)
{
    kvl_wbuf_t w = {.data = data, .size = size};
    size_t i;

    if (!kvl_wr_body(&w, kvl_region_blob_size(m))) {
        return 0;
    }
    kvl_wr_uint(&w, BLOB_MAGIC, 4);
    kvl_wr_uint(&w, KVL_WIRE_VERSION, 1);
    kvl_wr_uint(&w, m->nonce, 8);
    for (i = 0; i < m->count; i++) {
        kvl_wr_region(&w, &m->slices[i]);
    }
    kvl_wr_uint(&w, XXH3_64bits(w.data, w.used), BLOB_HASH);
    return w.used;
}

bool kvl_region_slices_fit(const kvl_wire_region_t *slices, size_t count)
{
    size_t i;

    for (i = 1; i < count; i++) {
        if (slices[i].id != slices[0].id || slices[i - 1].length != slices[0].length ||
            slices[i].length > slices[0].length ||
            slices[i].base != slices[i - 1].base + slices[i - 1].length) {
            return false;
        }
    }
    return true;
}

static void blob_slices(kvl_rbuf_t *r, kvl_region_blob_t *blob)
{
    do {
        if (blob->count == KVL_WIRE_REGIONS_MAX) {
            kvl_rd_fault(r, "slices", "over the most");
            return;
        }
        kvl_rd_region(r, &blob->slices[blob->count++]);
    } while (!r->fault_field && r->size - r->at > BLOB_HASH);
    if (!r->fault_field && !kvl_region_slices_fit(blob->slices, blob->count)) {
        kvl_rd_fault(r, "slices", "do not follow each other");
    }
}

kvl_status_t kvl_get_region_blob(const void *data, size_t size, kvl_region_blob_t *m)
{
    kvl_rbuf_t r = {.data = data, .size = size, .message = "region blob"};
    uint64_t version, hash;

    if (kvl_rd_uint(&r, 4, "magic") != BLOB_MAGIC) {
        kvl_rd_fault(&r, "magic", "not a region that kvlane exported");
    }
    version = kvl_rd_uint(&r, 1, "version");
    if (!r.fault_field && (version < KVL_WIRE_VERSION_MIN || version > KVL_WIRE_VERSION)) {
        return kvl_error(KVL_ERR_VERSION, "region blob: version %u; this side knows %u to %u",
                         (unsigned)version, KVL_WIRE_VERSION_MIN, KVL_WIRE_VERSION);
    }
    m->nonce = kvl_rd_uint(&r, 8, "nonce");
    m->count = 0;
    blob_slices(&r, m);
    hash = kvl_rd_uint(&r, BLOB_HASH, "hash");
    if (!r.fault_field && hash != XXH3_64bits(data, size - BLOB_HASH)) {
        kvl_rd_fault(&r, "hash", "the bytes do not have it: damaged");
    }
    return kvl_wire_close(&r) == KVL_OK ? KVL_OK : KVL_ERR_PROTOCOL;
}
