/* SPDX-License-Identifier: BSD-3-Clause */
#include "lane/private.h"

/* A onesided put is at the peer when its endpoint was flushed after it. A move whose ops are all back
 * takes a number; a flush that starts later covers all moves up to that number on its endpoint, so the
 * moves of a moment share one. On an sg endpoint the flush takes the only credit: at most one thing is
 * outstanding there.
 *
 * After a flush that failed nobody knows what will still land in the peer's memory, so the owner hears
 * that the endpoint failed: the connection has to go before the peer uses that memory again. */

static void flush_over(kvl_endpoint_t *endpoint, kvl_status_t status)
{
    kvl_mover_t *mover = endpoint->mover;
    unsigned place     = endpoint->place;
    kvl_list_t *node, *next;

    endpoint->flushing = false;
    mover->flushes_out--;
    if (endpoint->lane == KVL_LANE_SG) {
        endpoint->outstanding--;
    }
    for (node = mover->flushing.next; node != &mover->flushing; node = next) {
        kvl_move_t *move = kvl_container(node, kvl_move_t, link);

        next = node->next;
        if (!kvl_move_uses(move, place) || move->flush_seq > endpoint->flush_seq) {
            continue;
        }
        if (move->status == KVL_OK) {
            move->status = status;
        }
        move->used[place / 64] &= ~(UINT64_C(1) << place % 64);
        if (!kvl_move_needs_flush(move)) {
            kvl_move_over(mover, move);
        }
    }
    if (status != KVL_OK && !mover->stopped && !endpoint->failed) {
        endpoint->ops->failed(endpoint, status);
    }
}

static void flush_done(kvl_req_t *req, kvl_status_t status)
{
    flush_over(kvl_container(req, kvl_endpoint_t, flush_req), status);
}

static void flush_start(kvl_mover_t *mover, kvl_endpoint_t *endpoint)
{
    kvl_status_t status;

    endpoint->flush_wanted   = false;
    endpoint->flushing       = true;
    endpoint->flush_seq      = mover->flush_seq;
    endpoint->flush_req.done = flush_done;
    if (endpoint->lane == KVL_LANE_SG) {
        endpoint->outstanding++;
    }
    mover->flushes_out++;
    mover->stats.flushes++;
    status = kvl_ep_flush(endpoint->ep, &endpoint->flush_req);
    if (status != KVL_INPROGRESS) {
        flush_over(endpoint, status);
    }
}

void kvl_flush_want(kvl_mover_t *mover, kvl_move_t *move)
{
    unsigned place;

    move->flush_seq = ++mover->flush_seq;
    for (place = 0; place < mover->sched.endpoint_count; place++) {
        if (kvl_move_uses(move, place)) {
            mover->sched.endpoints[place]->flush_wanted = true;
        }
    }
}

static bool flush_may_start(const kvl_endpoint_t *endpoint)
{
    return endpoint->flush_wanted && !endpoint->flushing && !endpoint->failed &&
           (endpoint->lane != KVL_LANE_SG || endpoint->outstanding < endpoint->window);
}

unsigned kvl_flush_pump(kvl_mover_t *mover)
{
    unsigned place, n = 0;

    if (kvl_list_empty(&mover->flushing)) {
        return 0;
    }
    for (place = 0; place < mover->sched.endpoint_count && !mover->stopped; place++) {
        kvl_endpoint_t *endpoint = mover->sched.endpoints[place];

        if (flush_may_start(endpoint)) {
            flush_start(mover, endpoint);
            n++;
        }
    }
    return n;
}
