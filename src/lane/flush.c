/* SPDX-License-Identifier: BSD-3-Clause */
#include "lane/private.h"

/* A onesided put is at the peer when its endpoint was flushed after it. A move whose ops are all back
 * takes a number; a flush that starts later covers all moves with lower numbers on its endpoint, so the
 * moves of a moment share one. On an sg endpoint the flush takes the only credit: at most one thing is
 * outstanding there. */

static bool move_uses(const kvl_move_t *move, unsigned place)
{
    return move->used[place / 64] >> place % 64 & 1;
}

static void move_flushed(kvl_mover_t *mover, kvl_move_t *move, unsigned place)
{
    move->used[place / 64] &= ~(UINT64_C(1) << place % 64);
    if (!move->used[0] && !move->used[1]) {
        kvl_move_finish(mover, move);
    }
}

static void flush_over(kvl_endpoint_t *endpoint, kvl_status_t status)
{
    kvl_mover_t *mover = endpoint->mover;
    kvl_list_t *node, *next;

    endpoint->flushing = false;
    if (endpoint->lane == KVL_LANE_SG) {
        endpoint->outstanding--;
    }
    for (node = mover->flushing.next; node != &mover->flushing; node = next) {
        kvl_move_t *move = kvl_container(node, kvl_move_t, link);

        next = node->next;
        if (!move_uses(move, endpoint->place) ||
            (move->flush_seq > endpoint->flush_seq && !mover->stopped)) {
            continue;
        }
        if (status != KVL_OK && move->status == KVL_OK) {
            move->status = status;
        }
        move_flushed(mover, move, endpoint->place);
    }
}

static void flush_done(kvl_req_t *req, kvl_status_t status)
{
    flush_over(kvl_container(req, kvl_endpoint_t, flush_req), status);
}

static void flush_start(kvl_mover_t *mover, kvl_endpoint_t *endpoint)
{
    kvl_status_t status;

    endpoint->flush_wanted = false;
    endpoint->flushing     = true;
    endpoint->flush_seq    = mover->flush_seq;
    if (endpoint->lane == KVL_LANE_SG) {
        endpoint->outstanding++;
    }
    endpoint->flush_req.done = flush_done;
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
    for (place = 0; place < mover->endpoint_count; place++) {
        if (move_uses(move, place)) {
            mover->endpoints[place]->flush_wanted = true;
        }
    }
}

unsigned kvl_flush_pump(kvl_mover_t *mover)
{
    unsigned place, n = 0;

    if (kvl_list_empty(&mover->flushing) || mover->stopped) {
        return 0;
    }
    for (place = 0; place < mover->endpoint_count; place++) {
        kvl_endpoint_t *endpoint = mover->endpoints[place];

        if (endpoint->flush_wanted && !endpoint->flushing &&
            (endpoint->lane != KVL_LANE_SG || endpoint->outstanding < endpoint->window)) {
            flush_start(mover, endpoint);
            n++;
        }
    }
    return n;
}

/* flushes under way end with their endpoints; those that did not start will not */
void kvl_flush_stop(kvl_mover_t *mover)
{
    kvl_list_t *node, *next;
    unsigned place;

    for (node = mover->flushing.next; node != &mover->flushing; node = next) {
        kvl_move_t *move = kvl_container(node, kvl_move_t, link);

        next = node->next;
        if (move->status == KVL_OK) {
            move->status = mover->stop_status;
        }
        for (place = 0; place < mover->endpoint_count && move->state == KVL_MOVE_FLUSHING; place++) {
            if (move_uses(move, place) && !mover->endpoints[place]->flushing) {
                move_flushed(mover, move, place);
            }
        }
    }
}
