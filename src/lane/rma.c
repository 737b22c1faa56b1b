/* SPDX-License-Identifier: BSD-3-Clause */
#include "lane/private.h"

/* onesided: one op is one contiguous put or get. */

static void rma_done(kvl_req_t *req, kvl_status_t status)
{
    kvl_op_end(kvl_container(req, kvl_op_t, req), status);
}

kvl_status_t kvl_post_rma(kvl_op_t *op)
{
    kvl_move_t *move         = op->move;
    kvl_endpoint_t *endpoint = op->endpoint;
    const kvl_piece_t *piece = &move->pieces[move->piece];
    uint64_t chunk           = op->mover->params.chunk_bytes;
    size_t left              = piece->length - move->piece_at;
    kvl_rma_t rma            = {.address = (char *)piece->address + move->piece_at,
                                .length  = left < chunk ? left : (size_t)chunk,
                                .mem     = piece->mems ? piece->mems[endpoint->rail] : NULL,
                                .remote  = move->remote->base[endpoint->rail] + piece->remote_offset +
                                          move->piece_at,
                                .rkey    = endpoint->rkeys[move->remote->slot]};

    op->length   = rma.length;
    op->req.done = rma_done;
    move->piece_at += rma.length;
    if (move->piece_at == piece->length) {
        move->piece++;
        move->piece_at = 0;
    }
    if (move->dir == KVL_MOVE_GET) {
        op->mover->stats.gets++;
        return kvl_ep_get(endpoint->ep, &rma, &op->req);
    }
    op->mover->stats.puts++;
    move->used[endpoint->place / 64] |= UINT64_C(1) << endpoint->place % 64;
    return kvl_ep_put(endpoint->ep, &rma, &op->req);
}
