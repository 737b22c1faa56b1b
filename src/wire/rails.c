/* SPDX-License-Identifier: BSD-3-Clause */
/* What both sides tell of their rails. A list of the target's rails, which may be empty, follows the
 * regions of HELLO_OK. */
#include "wire/cursor.h"

#include <assert.h>
#include <string.h>

#define PEER_RAIL_SIZE (2 * 1 + 2 + 4 + 16) /* without its name */
#define RAIL_SIZE      (3 * 1)          /* without its name */
#define RESUME_SIZE    (2 * 8)

static void peer_rail_write(kvl_wbuf_t *w, const kvl_peer_rail_t *rail)
{
    kvl_wr_uint(w, rail->kind, 1);
    kvl_wr_uint(w, rail->family, 1);
    kvl_wr_uint(w, rail->port, 2);
    kvl_wr_uint(w, rail->mtu, 4);
    kvl_wr_bytes(w, rail->address, sizeof(rail->address));
    kvl_wr_text(w, rail->name);
}

bool kvl_put_peer_rails(kvl_wbuf_t *w, const kvl_peer_rail_t *rails, unsigned count)
{
    size_t size = 1;
    unsigned i;

    assert(count <= KVL_WIRE_RAILS_MAX);
    for (i = 0; i < count; i++) {
        size += PEER_RAIL_SIZE + kvl_wr_text_size(rails[i].name);
    }
    if (!kvl_wr_body(w, size)) {
        return false;
    }
    kvl_wr_uint(w, count, 1);
    for (i = 0; i < count; i++) {
        peer_rail_write(w, &rails[i]);
    }
    return true;
}

static void peer_rail_read(kvl_rbuf_t *r, kvl_peer_rail_t *rail)
{
    const uint8_t *address;

    rail->kind   = (uint8_t)kvl_rd_uint(r, 1, "rail kind");
    rail->family = (uint8_t)kvl_rd_uint(r, 1, "rail family");
    if (rail->kind > KVL_PEER_RAIL_LAST) {
        kvl_rd_fault(r, "rail kind", "unknown");
    }
    if (rail->family != 0 && rail->family != 4 && rail->family != 6) {
        kvl_rd_fault(r, "rail family", "neither 0, 4 nor 6");
    }
    rail->port = (uint16_t)kvl_rd_uint(r, 2, "rail port");
    rail->mtu  = (uint32_t)kvl_rd_uint(r, 4, "rail mtu");
    address    = kvl_rd_bytes(r, sizeof(rail->address), "rail address");
    if (address) {
        memcpy(rail->address, address, sizeof(rail->address));
    }
    kvl_rd_text(r, rail->name, "rail name");
}

kvl_status_t kvl_get_peer_rails(kvl_rbuf_t *r, kvl_peer_rail_t rails[KVL_WIRE_RAILS_MAX],
                                unsigned *count_p)
{
    unsigned count, i;

    count = (unsigned)kvl_rd_uint(r, 1, "rail count");
    if (count > KVL_WIRE_RAILS_MAX) {
        kvl_rd_fault(r, "rail count", "over the most rails");
        count = 0;
    }
    for (i = 0; i < count; i++) {
        rails[i] = (kvl_peer_rail_t){0};
        peer_rail_read(r, &rails[i]);
    }
    *count_p = r->fault_field ? 0 : count;
    return kvl_rd_end(r);
}

bool kvl_put_rail(kvl_wbuf_t *w, const kvl_wire_rail_t *m)
{
    if (!kvl_wr_body(w, RAIL_SIZE + kvl_wr_text_size(m->name))) {
        return false;
    }
    kvl_wr_uint(w, m->leave, 1);
    kvl_wr_uint(w, m->rail, 1);
    kvl_wr_uint(w, m->target, 1);
    kvl_wr_text(w, m->name);
    return true;
}

kvl_status_t kvl_get_rail(kvl_rbuf_t *r, kvl_wire_rail_t *m)
{
    kvl_wire_rail_t rail = {0};

    rail.leave  = kvl_rd_bool(r, "leave");
    rail.rail   = (uint8_t)kvl_rd_uint(r, 1, "rail");
    rail.target = (uint8_t)kvl_rd_uint(r, 1, "target");
    if (rail.rail >= KVL_WIRE_RAILS_MAX || rail.target >= KVL_WIRE_RAILS_MAX) {
        kvl_rd_fault(r, "rail", "over the most rails");
    }
    kvl_rd_text(r, rail.name, "name");
    if (!r->fault_field) {
        *m = rail;
    }
    return kvl_rd_end(r);
}

void kvl_put_stream_head(uint8_t bytes[KVL_STREAM_HEAD_SIZE], const kvl_stream_head_t *m)
{
    kvl_wbuf_t w = {.data = bytes, .size = KVL_STREAM_HEAD_SIZE};

    kvl_wr_uint(&w, m->number, 8);
    kvl_wr_uint(&w, m->received, 8);
}

kvl_status_t kvl_get_stream_head(const void *bytes, size_t size, kvl_stream_head_t *m)
{
    kvl_rbuf_t r           = {.data = bytes, .size = size, .message = "stream head"};
    kvl_stream_head_t head = {0};

    head.number   = kvl_rd_uint(&r, 8, "number");
    head.received = kvl_rd_uint(&r, 8, "received");
    if (!r.fault_field && size != KVL_STREAM_HEAD_SIZE) {
        kvl_rd_fault(&r, "size", "not 16");
    }
    if (!r.fault_field) {
        *m = head;
    }
    return kvl_rd_end(&r);
}

bool kvl_put_resume(kvl_wbuf_t *w, const kvl_wire_resume_t *m)
{
    if (!kvl_wr_body(w, RESUME_SIZE)) {
        return false;
    }
    kvl_wr_uint(w, m->session, 8);
    kvl_wr_uint(w, m->received, 8);
    return true;
}

kvl_status_t kvl_get_resume(kvl_rbuf_t *r, kvl_wire_resume_t *m)
{
    kvl_wire_resume_t resume = {0};

    resume.session  = kvl_rd_uint(r, 8, "session");
    resume.received = kvl_rd_uint(r, 8, "received");
    if (!r->fault_field) {
        *m = resume;
    }
    return kvl_rd_end(r);
}
