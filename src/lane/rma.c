/* SPDX-License-Identifier: BSD-3-Clause */
#include "lane/private.h"

#include "base/error.h"

/* onesided: one op is one put or get of a range at the peer; where the mover gathers, of many pieces here. */

static void rma_done(kvl_req_t *req, kvl_status_t status)
{
    kvl_op_t *op = kvl_container(req, kvl_op_t, req);

    kvl_op_back(op, KVL_OP_SENDING, status);
}

static kvl_rkey_t *rma_key(const kvl_endpoint_t *endpoint, const kvl_remote_region_t *remote,
                           uint64_t offset)
{
    uint64_t slot = remote->slot + (remote->slice_bytes ? offset / remote->slice_bytes : 0);

    return slot < endpoint->rkey_count ? endpoint->rkeys[slot] : NULL;
}

kvl_status_t kvl_rma_post(kvl_op_t *op, const kvl_cut_t *cut)
{
    kvl_endpoint_t *endpoint = op->endpoint;
    kvl_move_t *move         = op->move;
    const kvl_piece_t *piece = &move->pieces[move->piece];
    kvl_rma_t rma            = {.address = (char *)piece->address + move->piece_at,
                                .length  = cut->length,
                                .remote  = move->remote->base[endpoint->rail] + cut->remote_offset,
                                .rkey    = rma_key(endpoint, move->remote, cut->remote_offset)};

    if (!op->mover->params.gathers) { /* a copy needs no registration */
        rma.mem = kvl_cut_mem(move, cut, endpoint->rail);
    } else if (cut->count > 1) {
        kvl_status_t status = kvl_op_iov(op, cut->count);

        if (status != KVL_OK) {
            return status;
        }
        kvl_cut_iov(move, cut, op->iov);
        rma.iov       = op->iov;
        rma.iov_count = cut->count;
    }
    if (!rma.rkey) {
        return kvl_error(KVL_ERR_RAIL,
                         "%s endpoint %u: no key for region %u of the peer on rail %u",
                         kvl_lane_name(endpoint->lane), endpoint->index, (unsigned)move->remote->id,
                         endpoint->rail);
    }
    op->req.done = rma_done;
    if (move->dir == KVL_MOVE_GET) {
        return kvl_ep_get(endpoint->ep, &rma, &op->req);
    }
    kvl_move_use(move, endpoint->place);
    return kvl_ep_put(endpoint->ep, &rma, &op->req);
}
