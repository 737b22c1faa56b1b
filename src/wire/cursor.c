/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/cursor.h"

#include "base/error.h"

#include <assert.h>
#include <string.h>

bool kvl_wr_body(kvl_wbuf_t *w, size_t size)
{
    if (size > kvl_wbuf_room(w)) {
        w->overflow = true;
        return false;
    }
    return true;
}

bool kvl_wr_item(kvl_wbuf_t *w, size_t size)
{
    if (size > kvl_wbuf_room(w) || w->count >= KVL_WIRE_ITEMS_MAX) {
        return false;
    }
    w->count++;
    return true;
}

void kvl_wr_uint(kvl_wbuf_t *w, uint64_t value, size_t size)
{
    size_t i;

    assert(size <= w->size - w->used);
    for (i = 0; i < size; i++) {
        w->data[w->used++] = (uint8_t)(value >> (8 * i));
    }
}

void kvl_wr_bytes(kvl_wbuf_t *w, const void *bytes, size_t size)
{
    assert(size <= w->size - w->used);
    if (size > 0) {
        memcpy(w->data + w->used, bytes, size);
        w->used += size;
    }
}

size_t kvl_wr_text_size(const char *text)
{
    return 1 + strnlen(text, KVL_WIRE_TEXT_MAX);
}

void kvl_wr_text(kvl_wbuf_t *w, const char *text)
{
    size_t length = strnlen(text, KVL_WIRE_TEXT_MAX);

    kvl_wr_uint(w, length, 1);
    kvl_wr_bytes(w, text, length);
}

void kvl_rd_fault(kvl_rbuf_t *r, const char *field, const char *why)
{
    if (!r->fault_field) {
        r->fault_field = field;
        r->fault_why   = why;
    }
}

void kvl_rd_item(kvl_rbuf_t *r)
{
    if (r->left == 0) {
        kvl_rd_fault(r, "count", "fewer items than read");
    } else {
        r->left--;
    }
}

const uint8_t *kvl_rd_bytes(kvl_rbuf_t *r, uint64_t size, const char *field)
{
    const uint8_t *bytes;

    if (r->fault_field) {
        return NULL;
    }
    if (size > r->size - r->at) {
        kvl_rd_fault(r, field, "runs past the end");
        return NULL;
    }
    bytes = r->data + r->at;
    r->at += (size_t)size;
    return bytes;
}

uint64_t kvl_rd_uint(kvl_rbuf_t *r, size_t size, const char *field)
{
    const uint8_t *bytes = kvl_rd_bytes(r, size, field);
    uint64_t value       = 0;

    while (bytes && size-- > 0) {
        value = value << 8 | bytes[size];
    }
    return value;
}

bool kvl_rd_bool(kvl_rbuf_t *r, const char *field)
{
    uint64_t value = kvl_rd_uint(r, 1, field);

    if (value > 1) {
        kvl_rd_fault(r, field, "neither 0 nor 1");
    }
    return value == 1;
}

kvl_status_t kvl_rd_status(kvl_rbuf_t *r, const char *field)
{
    int32_t value = (int32_t)(uint32_t)kvl_rd_uint(r, 4, field);

    if (value > 0) {
        kvl_rd_fault(r, field, "above 0, which is no end of anything");
    }
    return (kvl_status_t)value;
}

/* what a peer calls itself ends up in logs and terminals */
void kvl_rd_text(kvl_rbuf_t *r, char text[KVL_WIRE_TEXT_MAX + 1], const char *field)
{
    uint64_t i, length = kvl_rd_uint(r, 1, field);
    const uint8_t *bytes = kvl_rd_bytes(r, length, field);

    for (i = 0; bytes && i < length; i++) {
        text[i] = bytes[i] >= 0x20 && bytes[i] < 0x7f ? (char)bytes[i] : '?';
    }
    text[bytes ? length : 0] = '\0';
}

kvl_status_t kvl_rd_end(const kvl_rbuf_t *r)
{
    if (!r->fault_field) {
        return KVL_OK;
    }
    return kvl_error(KVL_ERR_PROTOCOL, "message %s: %s: %s", r->message, r->fault_field,
                     r->fault_why);
}
