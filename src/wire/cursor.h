/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of src/wire: single fields. A writer asks for room once per record and then cannot fail. A
 * reader goes on with zeros after its first fault; kvl_rd_end() turns the fault into an error. */
#ifndef KVL_WIRE_CURSOR_H
#define KVL_WIRE_CURSOR_H

#include "wire/wire.h"

/* false if @a size bytes are not free; for a body it is remembered, for an item nothing changes */
bool kvl_wr_body(kvl_wbuf_t *w, size_t size);
bool kvl_wr_item(kvl_wbuf_t *w, size_t size); /* counts the item */

void kvl_wr_uint(kvl_wbuf_t *w, uint64_t value, size_t size); /* the low size bytes */
void kvl_wr_bytes(kvl_wbuf_t *w, const void *bytes, size_t size);
void kvl_wr_text(kvl_wbuf_t *w,
                 const char *text); /* one byte of length, cut to KVL_WIRE_TEXT_MAX */
size_t kvl_wr_text_size(const char *text);

/* records the fault unless there is one: @a field, and @a why it is wrong */
void kvl_rd_fault(kvl_rbuf_t *r, const char *field, const char *why);
/* one item less; a fault if the head counted no more */
void kvl_rd_item(kvl_rbuf_t *r);
uint64_t kvl_rd_uint(kvl_rbuf_t *r, size_t size, const char *field);
bool kvl_rd_bool(kvl_rbuf_t *r, const char *field);
kvl_status_t kvl_rd_status(kvl_rbuf_t *r, const char *field); /* of an answer: never above 0 */
/* Points at the next @a size bytes; NULL after a fault. */
const uint8_t *kvl_rd_bytes(kvl_rbuf_t *r, uint64_t size, const char *field);
void kvl_rd_text(kvl_rbuf_t *r, char text[KVL_WIRE_TEXT_MAX + 1], const char *field);
/* KVL_OK, or KVL_ERR_PROTOCOL with the text of the first fault. A fault stays. */
kvl_status_t kvl_rd_end(const kvl_rbuf_t *r);

#endif
