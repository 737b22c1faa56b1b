/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/transfer.h"

#include <string.h>

/* One transfer is a batch of one item. Parts become pieces, runs of parts with the same remote become
 * moves; when all moves are done a FIN tells the target how many ops to wait for, and brings the
 * notification. States: WAITING (for the link), MOVING, FINISHING (FIN sent), OVER.
 * It ends early by deadline or cancel: moves are canceled, and if ops are still under way after
 * KVLANE_QUIESCE the link is reset; only then it completes (promise 3). */

static void transfer_unhold(transfer_t *transfer)
{
    size_t i;

    for (i = 0; i < transfer->part_count; i++) {
        atomic_fetch_sub(&transfer->regions[i]->users, 1);
    }
    for (i = 0; i < transfer->run_count; i++) {
        atomic_fetch_sub(&transfer->runs[i].remote->users, 1);
    }
}

static void transfer_complete(transfer_t *transfer)
{
    kvl_peer_t *peer = transfer->peer;

    transfer->state = TRANSFER_OVER;
    kvl_timer_cancel(kvl_engine_timers(peer->engine), &transfer->timer);
    kvl_timer_cancel(kvl_engine_timers(peer->engine), &transfer->gate);
    kvl_list_remove(&transfer->link);
    transfer_unhold(transfer);
    kvl_batch_end(&transfer->batch, 0, transfer->status, transfer->bytes);
    kvl_batch_complete(&transfer->batch);
    if (peer->closing && kvl_list_empty(&peer->running) && kvl_list_empty(&peer->waiting)) {
        atomic_store_explicit(&peer->drained, 1, memory_order_release);
        kvl_engine_notify(peer->engine, false);
    }
}

static void transfer_blame(transfer_t *transfer, kvl_status_t status, const char *text)
{
    if (transfer->status == KVL_OK) {
        transfer->status = status;
        kvl_batch_fail(&transfer->batch, status);
        kvl_batch_blame(&transfer->batch, "transfer to %s: %s", kvl_link_address(transfer->peer->link),
                        text);
    }
}

/* ---- the end of it: FIN ---- */

static bool fin_answer(kvl_call_t *call, const kvl_msg_head_t *head, kvl_rbuf_t *body)
{
    transfer_t *transfer = kvl_container(call, transfer_t, fin);
    kvl_answer_t answer;

    if (!body) {
        kvl_status_t status = (kvl_status_t)head->status;

        transfer_blame(transfer, status == KVL_ERR_TIMEOUT ? status : KVL_ERR_AMBIGUOUS,
                       "all bytes were sent, but the target's word that it has them is missing");
    } else if (head->type != KVL_MSG_XFER_OK || kvl_get_answer(body, &answer) != KVL_OK ||
               answer.status > 0) {
        kvl_link_protocol_error(transfer->peer->link, "a damaged answer to XFER_FIN");
        transfer_blame(transfer, KVL_ERR_PROTOCOL, "the target makes no sense");
    } else if (answer.status != KVL_OK) {
        transfer_blame(transfer, (kvl_status_t)answer.status,
                       "the target refused a range: is it inside of what was exported, and still "
                       "registered there?");
    }
    kvl_link_call_end(transfer->peer->link, call);
    transfer_complete(transfer);
    return false;
}

static bool transfer_needs_fin(const transfer_t *transfer, uint32_t *ops_p)
{
    char transport[64];
    kvl_mode_t put, get;
    size_t i;

    *ops_p = 0;
    kvl_link_info(transfer->peer->link, transport, &put, &get);
    for (i = 0; transfer->op == KVL_TRANSFER_PUT && i < transfer->run_count; i++) {
        const kvl_move_t *move = &transfer->runs[i].move;

        if (put == KVL_MODE_IS_MESSAGE || move->remote->by_message) {
            *ops_p += move->ops_total;
        }
    }
    return *ops_p || transfer->has_notification;
}

/* The target learns how many ops to wait for, so that it can forget a put that ended early. */
static void transfer_tell_end(transfer_t *transfer, uint32_t ops)
{
    kvl_link_t *link   = transfer->peer->link;
    kvl_xfer_fin_t fin = {.transfer = transfer->number, .ops = ops};
    kvl_wbuf_t *w      = kvl_link_state(link) == KVL_LINK_UP ? kvl_link_call_begin(link) : NULL;

    if (w) {
        kvl_put_xfer_fin(w, &fin);
        (void)kvl_link_call_send(link, KVL_MSG_XFER_FIN, NULL, KVL_TIME_MAX);
    }
}

static void transfer_finish(transfer_t *transfer)
{
    bool needs;

    kvl_link_t *link   = transfer->peer->link;
    kvl_xfer_fin_t fin = {.transfer            = transfer->number,
                          .has_notification    = transfer->has_notification,
                          .notification_length = (uint32_t)transfer->notification_length,
                          .notification        = transfer->notification};
    kvl_status_t status = KVL_ERR_NO_MEMORY;
    kvl_wbuf_t *w;

    needs = transfer_needs_fin(transfer, &fin.ops);
    if (transfer->status != KVL_OK || !needs) {
        if (fin.ops) {
            transfer_tell_end(transfer, fin.ops);
        }
        transfer_complete(transfer);
        return;
    }
    transfer->state      = TRANSFER_FINISHING;
    transfer->fin.answer = fin_answer;
    w = kvl_link_call_begin_size(link, transfer->notification_length + 256);
    if (w) {
        kvl_put_xfer_fin(w, &fin);
        status = kvl_link_call_send(link, KVL_MSG_XFER_FIN, &transfer->fin, transfer->batch.deadline_ns);
    }
    if (status != KVL_INPROGRESS) {
        transfer_blame(transfer, status, kvl_error_text());
        transfer_complete(transfer);
    }
}

static void transfer_wait(transfer_t *transfer)
{
    kvl_list_remove(&transfer->link);
    kvl_list_push_back(&transfer->peer->waiting, &transfer->link);
    transfer->state  = TRANSFER_WAITING;
    transfer->number = ++transfer->peer->last_transfer;
}

void kvl_run_done(kvl_move_t *move, kvl_status_t status)
{
    run_t *run           = kvl_container(move, run_t, move);
    transfer_t *transfer = run->transfer;

    run->done = true;
    if (status == KVL_ERR_CANCELED && !transfer->ending) {
        transfer->again = true;
    } else if (status != KVL_OK) {
        transfer_blame(transfer, status, kvl_status_string(status));
    }
    if (--transfer->runs_left) {
        return;
    }
    if (transfer->again && transfer->status == KVL_OK) { /* same bytes to the same place: no harm */
        transfer_wait(transfer);
    } else {
        transfer_finish(transfer);
    }
}

/* ---- the start ---- */

static void transfer_start(transfer_t *transfer)
{
    kvl_peer_t *peer = transfer->peer;
    size_t i;

    kvl_list_remove(&transfer->link);
    kvl_list_push_back(&peer->running, &transfer->link);
    transfer->state     = TRANSFER_MOVING;
    transfer->again     = false;
    transfer->runs_left = transfer->run_count;
    for (i = 0; i < transfer->run_count; i++) {
        if (!transfer->runs[i].remote->region) {
            transfer_blame(transfer, KVL_ERR_RANGE, "a remote region is not known to the peer any more");
            transfer_complete(transfer);
            return;
        }
    }
    if (!transfer->run_count) {
        transfer_finish(transfer);
        return;
    }
    for (i = 0; i < transfer->run_count; i++) {
        run_t *run = &transfer->runs[i];

        run->done          = false;
        run->move.transfer = transfer->number;
        run->move.remote   = run->remote->region;
        kvl_mover_submit(kvl_link_mover(peer->link), &transfer->flow, &run->move);
    }
}

static void transfer_timer(kvl_timer_t *timer);

static void transfer_stop(transfer_t *transfer, kvl_status_t status, const char *text)
{
    kvl_peer_t *peer = transfer->peer;
    size_t i;

    if (transfer->ending || transfer->state == TRANSFER_OVER) {
        return;
    }
    transfer->ending = true;
    transfer_blame(transfer, status, text);
    if (transfer->state == TRANSFER_WAITING) {
        transfer_complete(transfer);
        return;
    }
    if (transfer->state == TRANSFER_FINISHING) {
        kvl_link_call_end(peer->link, &transfer->fin);
        transfer_complete(transfer);
        return;
    }
    kvl_timer_set(kvl_engine_timers(peer->engine), &transfer->timer,
                  kvl_time_add(kvl_now_ns(), kvl_engine_settings(peer->engine)->quiesce_ns),
                  transfer_timer);
    for (i = 0; i < transfer->run_count; i++) {
        if (!transfer->runs[i].done) {
            kvl_mover_cancel(kvl_link_mover(peer->link), &transfer->runs[i].move, status);
        }
    }
}

static void transfer_timer(kvl_timer_t *timer)
{
    transfer_t *transfer = kvl_container(timer, transfer_t, timer);

    if (transfer->ending) { /* ops did not come back in time: the link has to go */
        kvl_link_reset(transfer->peer->link, "ops of a transfer that ended are still under way");
        return;
    }
    transfer_stop(transfer, KVL_ERR_TIMEOUT, "the deadline passed");
}

static void transfer_work(kvl_work_t *work)
{
    transfer_t *transfer = kvl_container(work, transfer_t, work);
    kvl_peer_t *peer     = transfer->peer;
    kvl_status_t status  = kvl_link_want(peer->link);

    transfer_wait(transfer);
    if (status < 0 || peer->closing) {
        transfer_blame(transfer, status < 0 ? status : KVL_ERR_CLOSED, kvl_error_text());
        transfer_complete(transfer);
        return;
    }
    status = kvl_timer_set(kvl_engine_timers(peer->engine), &transfer->timer,
                           transfer->batch.deadline_ns, transfer_timer);
    if (status != KVL_OK) {
        transfer_blame(transfer, status, "out of memory");
        transfer_complete(transfer);
        return;
    }
    if (kvl_link_state(peer->link) == KVL_LINK_UP) {
        kvl_transfers_start(peer);
    }
}

static void transfer_gate(kvl_timer_t *timer)
{
    transfer_t *transfer = kvl_container(timer, transfer_t, gate);

    kvl_transfers_start(transfer->peer);
}

/* work of the caller's on the device comes first; if it is not over, another look in a moment */
static bool transfer_is_admitted(transfer_t *transfer)
{
    kvl_status_t status = kvl_batch_admits(&transfer->batch);

    if (status == KVL_INPROGRESS) {
        status = kvl_timer_set(kvl_engine_timers(transfer->peer->engine), &transfer->gate,
                               kvl_time_add(kvl_now_ns(), KVL_GATE_NS), transfer_gate);
        if (status == KVL_OK) {
            return false;
        }
    }
    if (status != KVL_OK) {
        transfer_blame(transfer, status, kvl_error_text());
        transfer_complete(transfer);
    }
    return status == KVL_OK;
}

void kvl_transfers_start(kvl_peer_t *peer)
{
    kvl_list_t *node, *next;

    for (node = peer->waiting.next; node != &peer->waiting && kvl_link_want(peer->link) == KVL_OK; node = next) {
        transfer_t *transfer = kvl_container(node, transfer_t, link);

        next = node->next;
        if (transfer_is_admitted(transfer)) {
            transfer_start(transfer);
        }
    }
}

void kvl_transfers_down(kvl_peer_t *peer, kvl_status_t status, const char *text)
{
    if (status == KVL_ERR_CANCELED && !peer->closing) { /* a reset of our own: they wait for the next link */
        kvl_link_want(peer->link);
        return;
    }
    while (!kvl_list_empty(&peer->waiting)) {
        transfer_t *transfer = kvl_container(peer->waiting.next, transfer_t, link);

        transfer_blame(transfer, status, text);
        transfer_complete(transfer);
    }
}

void kvl_transfers_cancel(kvl_peer_t *peer)
{
    kvl_list_t *lists[] = {&peer->waiting, &peer->running};
    unsigned i;

    for (i = 0; i < 2; i++) {
        kvl_list_t *node, *next;

        for (node = lists[i]->next; node != lists[i]; node = next) {
            next = node->next;
            transfer_stop(kvl_container(node, transfer_t, link), KVL_ERR_CANCELED,
                          "the peer is being closed");
        }
    }
}

static void transfer_cancel(kvl_batch_t *batch)
{
    transfer_stop(kvl_container(batch, transfer_t, batch), KVL_ERR_CANCELED, "canceled by the caller");
}

static void transfer_destroy(kvl_batch_t *batch)
{
    kvl_transfer_free(kvl_container(batch, transfer_t, batch));
}

static const kvl_batch_ops_t transfer_batch_ops = {
    .cancel  = transfer_cancel,
    .destroy = transfer_destroy,
};

kvl_status_t kvl_transfer_submit(kvl_peer_t *peer, const kvl_transfer_t *in,
                                 const kvl_batch_params_t *params, kvl_batch_t **batch_p)
{
    transfer_t *transfer = NULL;
    int64_t deadline     = 0;
    kvl_status_t status;
    size_t i;

    status = batch_p ? kvl_transfer_make(peer, in, &transfer)
                     : kvl_error(KVL_ERR_INVALID, "transfer: batch_p is NULL");
    if (status == KVL_OK) {
        status = kvl_batch_deadline(peer->engine, params, &deadline);
        if (status != KVL_OK) {
            kvl_transfer_free(transfer);
        }
    }
    if (status != KVL_OK) {
        return status;
    }
    kvl_batch_init(&transfer->batch, peer->engine, &transfer_batch_ops, params, deadline,
                   &transfer->result, 1);
    status = kvl_batch_gate(&transfer->batch, params, transfer->device);
    if (status != KVL_OK) {
        kvl_transfer_free(transfer);
        return status;
    }
    for (i = 0; i < transfer->part_count; i++) {
        atomic_fetch_add(&transfer->regions[i]->users, 1);
    }
    for (i = 0; i < transfer->run_count; i++) {
        atomic_fetch_add(&transfer->runs[i].remote->users, 1);
    }
    kvl_flow_init(&transfer->flow);
    kvl_list_init(&transfer->link);
    transfer->work.func = transfer_work;
    *batch_p            = &transfer->batch;
    kvl_engine_post(peer->engine, &transfer->work);
    return KVL_INPROGRESS;
}
