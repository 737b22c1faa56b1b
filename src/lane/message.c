/* SPDX-License-Identifier: BSD-3-Clause */
#include "lane/private.h"

#include "base/alloc.h"
#include "base/error.h"

#include <string.h>

/* message mode: one op is one active message for a range that is contiguous at the peer. A put brings
 * its bytes. A get asks, and is out until the reply's bytes are in the pieces; the reply may come before
 * UCX says that the request was sent. */

/* With a bounce, iov[0] is the bounce and the pieces follow. */
kvl_status_t kvl_message_prepare(kvl_op_t *op, const kvl_cut_t *cut)
{
    kvl_mover_t *mover   = op->mover;
    const kvl_mem_t *mem = kvl_cut_mem(op->move, cut, op->endpoint->rail);
    kvl_carry_t carry    = kvl_cut_carry(&mover->params, op->move->dir, cut, mem);
    size_t first         = carry == KVL_CARRY_PACK ? 1 : 0;
    kvl_status_t status;

    status = kvl_op_iov(op, cut->count + first);
    if (status != KVL_OK) {
        return status;
    }
    if (carry == KVL_CARRY_PACK) {
        status = kvl_bounce_get(&mover->bounces, cut->length, &op->bounce);
        if (status != KVL_OK) {
            return status;
        }
        op->iov[0] = (kvl_iov_t){op->bounce->data, cut->length};
    } else {
        op->mem = mem;
    }
    op->pieces      = op->iov + first;
    op->piece_count = cut->count;
    op->iov_count   = first ? 1 : cut->count;
    kvl_cut_iov(op->move, cut, op->pieces);
    return KVL_OK;
}

/* returns its length */
static size_t op_head(kvl_op_t *op)
{
    const kvl_move_t *move = op->move;
    kvl_data_head_t head   = {.kind       = move->dir == KVL_MOVE_PUT ? KVL_AM_PUT : KVL_AM_GET,
                              .scope      = move->scope,
                              .op         = kvl_op_number(op),
                              .token      = move->token,
                              .generation = move->generation,
                              .transfer   = move->transfer,
                              .offset =
                                  op->remote_offset - (move->scope == 0 ? move->value_offset : 0),
                              .length = op->length,
                              .ranges = (uint16_t)op->ranges};
    unsigned i;

    kvl_put_data_head(op->head, &head);
    for (i = 0; i < op->ranges; i++) {
        const kvl_piece_t *piece = &move->pieces[op->piece + i];
        kvl_wire_range_t range   = {piece->remote_offset, (uint32_t)piece->length};

        kvl_put_data_range(op->head, i, &range);
    }
    return KVL_DATA_HEAD_SIZE + op->ranges * KVL_WIRE_RANGE_SIZE;
}

static void op_gather(kvl_op_t *op)
{
    uint8_t *to = op->bounce->data;
    size_t i;

    for (i = 0; i < op->piece_count; i++) {
        memcpy(to, op->pieces[i].address, op->pieces[i].length);
        to += op->pieces[i].length;
    }
}

static void op_scatter(const kvl_op_t *op, const uint8_t *from)
{
    size_t i;

    for (i = 0; i < op->piece_count; i++) {
        memcpy(op->pieces[i].address, from, op->pieces[i].length);
        from += op->pieces[i].length;
    }
}

static void message_sent(kvl_req_t *req, kvl_status_t status)
{
    kvl_op_t *op = kvl_container(req, kvl_op_t, req);

    kvl_op_back(op, KVL_OP_SENDING, status);
}

kvl_status_t kvl_message_post(kvl_op_t *op)
{
    kvl_am_send_t send = {.id = KVL_AM_GET, .header = op->head, .header_length = op_head(op)};

    op->req.done = message_sent;
    if (op->move->dir == KVL_MOVE_GET) {
        op->waits |= KVL_OP_ASKED;
    } else {
        send.id        = KVL_AM_PUT;
        if (op->mover->rails.echoes) {
            kvl_move_use(op->move, op->endpoint->place);
        }
        send.iov       = op->iov;
        send.iov_count = op->iov_count;
        send.mem       = op->mem;
        if (op->bounce) {
            op_gather(op);
        }
    }
    return kvl_ep_am(op->endpoint->ep, &send, &op->req);
}

/* ---- the reply to a get ---- */

static void reply_received(kvl_req_t *req, kvl_status_t status)
{
    kvl_op_t *op = kvl_container(req, kvl_op_t, recv_req);

    if (status == KVL_OK && req->received != op->length) {
        status = KVL_ERR_PROTOCOL;
    }
    if (status == KVL_OK && op->stage) {
        status = kvl_staged_got(op, NULL);
    } else if (status == KVL_OK && op->bounce) {
        op_scatter(op, op->bounce->data);
    }
    kvl_op_back(op, KVL_OP_RECEIVING, status);
}

static kvl_status_t reply_receive(kvl_op_t *op, const kvl_am_t *am)
{
    kvl_status_t status;

    op->waits         = (op->waits & ~(unsigned)KVL_OP_ASKED) | KVL_OP_RECEIVING;
    op->recv_req.done = reply_received;
    status = kvl_am_recv(am, kvl_ep_worker(op->endpoint->ep), op->iov, op->iov_count, op->mem,
                         &op->recv_req);
    if (status != KVL_INPROGRESS) {
        reply_received(&op->recv_req, status);
    }
    return KVL_INPROGRESS;
}

/* what a target may say: a known way to fail, and no bytes */
static kvl_status_t reply_failed(kvl_op_t *op, const kvl_data_head_t *head, const kvl_am_t *am)
{
    kvl_status_t status = (kvl_status_t)head->status;

    if (status >= 0 || !strcmp(kvl_status_name(status), "UNKNOWN") || am->length != 0) {
        return kvl_error(KVL_ERR_PROTOCOL, "a reply with status %d and %zu bytes", head->status,
                         am->length);
    }
    op->refused = true;
    kvl_op_back(op, KVL_OP_ASKED, status);
    return KVL_OK;
}

kvl_status_t kvl_mover_reply(kvl_mover_t *mover, kvl_endpoint_t *endpoint,
                             const kvl_data_head_t *head, const kvl_am_t *am)
{
    kvl_op_t *op;

    if (mover->stopped) {
        return KVL_OK;
    }
    op = kvl_op_find(mover, endpoint, head->op);
    if (!op || !(op->waits & KVL_OP_ASKED)) {
        return kvl_error(KVL_ERR_PROTOCOL, "a reply to an op that does not wait for one");
    }
    if (head->status != KVL_OK) {
        return reply_failed(op, head, am);
    }
    if (head->length != op->length || am->length != op->length) {
        return kvl_error(KVL_ERR_PROTOCOL, "a reply of %zu bytes to a get of %zu", am->length,
                         op->length);
    }
    if (!am->data) {
        return reply_receive(op, am);
    }
    if (op->stage) {
        kvl_op_back(op, KVL_OP_ASKED, kvl_staged_got(op, am->data));
        return KVL_OK;
    }
    op_scatter(op, am->data);
    kvl_op_back(op, KVL_OP_ASKED, KVL_OK);
    return KVL_OK;
}
