/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/alloc.h"
#include "base/error.h"
#include "lane/private.h"

#include <string.h>

/* message mode: one op is one active message, for a range that is contiguous at the other side and at
 * most chunk_bytes long. A put brings the bytes: one piece as it lies, several as an IOV or packed into
 * the op's buffer, whatever is faster on the transport. A get asks, and the reply's bytes go into the
 * pieces. */

/* cuts the next range off the move into op->iov; the chunks of a value are what the target counts, so
 * they start at multiples of chunk_bytes from its first byte */
static uint64_t message_cut(kvl_op_t *op)
{
    kvl_move_t *move = op->move;
    uint64_t chunk   = op->mover->params.chunk_bytes;
    uint64_t start   = move->pieces[move->piece].remote_offset + move->piece_at;
    size_t length    = 0;

    op->iov_count = 0;
    while (move->piece < move->piece_count && length < chunk && op->iov_count < KVL_OP_IOV_MAX) {
        const kvl_piece_t *piece = &move->pieces[move->piece];
        size_t left              = piece->length - move->piece_at;

        if (piece->remote_offset + move->piece_at != start + length) {
            break;
        }
        if (left > chunk - length) {
            left = (size_t)(chunk - length);
        }
        op->mem = op->iov_count == 0 && piece->mems ? piece->mems[op->endpoint->rail] : NULL;
        op->iov[op->iov_count++] = (kvl_iov_t){(char *)piece->address + move->piece_at, left};
        length += left;
        move->piece_at += left;
        if (move->piece_at == piece->length) {
            move->piece++;
            move->piece_at = 0;
        }
    }
    op->length = length;
    return start;
}

static void message_head(kvl_op_t *op, uint64_t start)
{
    const kvl_move_t *move = op->move;
    kvl_data_head_t head   = {.kind       = move->dir == KVL_MOVE_PUT ? KVL_AM_PUT : KVL_AM_GET,
                              .scope      = move->scope,
                              .op         = (uint64_t)op->generation << 32 | op->index,
                              .token      = move->token,
                              .generation = move->generation,
                              .transfer   = move->transfer,
                              .offset     = move->scope ? start : start - move->value_offset,
                              .length     = op->length};

    kvl_put_data_head(op->head, &head);
}

/* true if op->bounce_iov holds all bytes now */
static bool message_pack(kvl_op_t *op)
{
    const kvl_mover_params_t *params = &op->mover->params;
    uint8_t *at;
    size_t i;

    if (op->iov_count < 2 || op->length > KVL_PACK_LIMIT ||
        (params->iov_is_fast && op->length / op->iov_count > params->pack_max)) {
        return false;
    }
    if (!op->bounce && !(op->bounce = kvl_malloc(KVL_PACK_LIMIT))) {
        return false; /* an IOV is slower, not wrong */
    }
    for (at = op->bounce, i = 0; i < op->iov_count; at += op->iov[i++].length) {
        memcpy(at, op->iov[i].address, op->iov[i].length);
    }
    op->bounce_iov = (kvl_iov_t){op->bounce, op->length};
    return true;
}

static void put_sent(kvl_req_t *req, kvl_status_t status)
{
    kvl_op_end(kvl_container(req, kvl_op_t, req), status);
}

static kvl_status_t message_put(kvl_op_t *op)
{
    kvl_am_send_t send = {.id            = KVL_AM_PUT,
                          .header        = op->head,
                          .header_length = sizeof(op->head),
                          .iov           = op->iov,
                          .iov_count     = op->iov_count,
                          .mem           = op->mem};

    if (message_pack(op)) {
        send.iov       = &op->bounce_iov;
        send.iov_count = 1;
    }
    op->req.done = put_sent;
    op->mover->stats.puts++;
    return kvl_ep_am(op->endpoint->ep, &send, &op->req);
}

/* ---- get ---- */

/* an ask is over when nothing of it is at UCX, and its reply came or can't come any more */
void kvl_ask_check(kvl_op_t *op)
{
    if (!op->sending && !op->receiving && (op->landed || op->status != KVL_OK)) {
        kvl_op_end(op, op->status);
    }
}

static void ask_sent(kvl_req_t *req, kvl_status_t status)
{
    kvl_op_t *op = kvl_container(req, kvl_op_t, req);

    op->sending = false;
    if (status != KVL_OK && op->status == KVL_OK) {
        op->status = status;
    }
    kvl_ask_check(op);
}

static kvl_status_t message_get(kvl_op_t *op)
{
    kvl_am_send_t send = {.id = KVL_AM_GET, .header = op->head, .header_length = sizeof(op->head)};
    kvl_status_t status;

    op->ask      = true;
    op->sending  = true;
    op->req.done = ask_sent;
    op->mover->stats.gets++;
    status = kvl_ep_am(op->endpoint->ep, &send, &op->req);
    if (status == KVL_INPROGRESS) {
        return status;
    }
    op->sending = false;
    return status == KVL_OK ? KVL_INPROGRESS : status; /* sent: the reply ends it */
}

kvl_status_t kvl_post_message(kvl_op_t *op)
{
    if (!op->iov && !(op->iov = kvl_malloc(KVL_OP_IOV_MAX * sizeof(*op->iov)))) {
        return kvl_error(KVL_ERR_NO_MEMORY, "mover: out of memory for an op");
    }
    message_head(op, message_cut(op));
    return op->move->dir == KVL_MOVE_PUT ? message_put(op) : message_get(op);
}

static void ask_received(kvl_req_t *req, kvl_status_t status)
{
    kvl_op_t *op = kvl_container(req, kvl_op_t, recv_req);

    op->receiving = false;
    op->landed    = true;
    if (status == KVL_OK && req->received != op->length) {
        status = KVL_ERR_PROTOCOL;
    }
    if (status != KVL_OK && op->status == KVL_OK) {
        op->status = status;
    }
    kvl_ask_check(op);
}

static void ask_scatter(kvl_op_t *op, const uint8_t *from)
{
    size_t i;

    for (i = 0; i < op->iov_count; from += op->iov[i++].length) {
        memcpy(op->iov[i].address, from, op->iov[i].length);
    }
    op->landed = true;
    kvl_ask_check(op);
}

static kvl_status_t ask_receive(kvl_op_t *op, const kvl_am_t *am)
{
    kvl_status_t status;

    op->receiving     = true;
    op->recv_req.done = ask_received;
    status = kvl_am_recv(am, kvl_ep_worker(op->endpoint->ep), op->iov, op->iov_count, op->mem,
                         &op->recv_req);
    if (status != KVL_INPROGRESS) {
        ask_received(&op->recv_req, status);
    }
    return KVL_INPROGRESS; /* UCX has the message now */
}

kvl_status_t kvl_mover_reply(kvl_mover_t *mover, kvl_endpoint_t *endpoint, const kvl_data_head_t *head,
                             const kvl_am_t *am)
{
    kvl_op_t *op = kvl_op_at(mover, (uint32_t)head->op);

    if (!op || !op->ask || op->generation != (uint32_t)(head->op >> 32) || op->endpoint != endpoint ||
        op->receiving || op->landed) {
        return kvl_error(KVL_ERR_PROTOCOL, "a reply to an op that does not wait for one");
    }
    if (head->status != KVL_OK) {
        op->landed = true;
        op->status = head->status < 0 ? (kvl_status_t)head->status : KVL_ERR_PROTOCOL;
        kvl_ask_check(op);
        return KVL_OK;
    }
    if (am->length != op->length || head->length != op->length) {
        return kvl_error(KVL_ERR_PROTOCOL, "a reply of %zu bytes where %zu were asked for", am->length,
                         op->length);
    }
    if (mover->stopped) {
        return KVL_OK;
    }
    if (am->data) {
        ask_scatter(op, am->data);
        return KVL_OK;
    }
    return ask_receive(op, am);
}
