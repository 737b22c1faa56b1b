/* SPDX-License-Identifier: BSD-3-Clause */
#include "lane/private.h"

#include "base/error.h"

/* onesided: one op is one put or get of a range at the peer; where the mover gathers, of many pieces here. */

static void rma_done(kvl_req_t *req, kvl_status_t status)
{
    kvl_op_t *op = kvl_container(req, kvl_op_t, req);

    kvl_op_sent(op, status);
}

static kvl_rkey_t *rma_key(const kvl_endpoint_t *endpoint, const kvl_remote_region_t *remote,
                           uint64_t offset)
{
    uint64_t slot = remote->slot + (remote->slice_bytes ? offset / remote->slice_bytes : 0);

    return slot < endpoint->rkey_count ? endpoint->rkeys[slot] : NULL;
}

kvl_status_t kvl_rma_prepare(kvl_op_t *op, const kvl_cut_t *cut)
{
    kvl_status_t status = kvl_op_iov(op, cut->count);

    if (status != KVL_OK) {
        return status;
    }
    kvl_cut_iov(op->move, cut, op->iov);
    op->iov_count = cut->count;
    if (!op->mover->params.gathers) { /* a copy needs no registration */
        op->mem = kvl_cut_mem(op->move, cut, op->endpoint->rail);
    }
    return KVL_OK;
}

kvl_status_t kvl_rma_post(kvl_op_t *op)
{
    kvl_endpoint_t *endpoint = op->endpoint;
    kvl_move_t *move         = op->move;
    kvl_rma_t rma            = {.address = op->iov[0].address,
                                .length  = op->length,
                                .mem     = op->mem,
                                .remote  = move->remote->base[endpoint->rail] + op->remote_offset,
                                .rkey    = rma_key(endpoint, move->remote, op->remote_offset)};

    if (op->iov_count > 1 && op->mover->params.gathers) { /* without, neighbours alone are in one op */
        rma.iov       = op->iov;
        rma.iov_count = op->iov_count;
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
