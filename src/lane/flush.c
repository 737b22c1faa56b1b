/* SPDX-License-Identifier: BSD-3-Clause */
#include "lane/private.h"

#include "base/error.h"

/* A onesided put is at the peer when its endpoint was flushed after it. A move whose ops are all back
 * takes a number; a flush that starts later covers all moves up to that number on its endpoint, so the
 * moves of a moment share one. On an sg endpoint the flush takes the only credit: at most one thing is
 * outstanding there.
 *
 * Messages over several rails (rails.c): a PING on the endpoint, behind its puts, and the PONG that says that
 * they arrived. It is no data, so it needs no credit.
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
    if (mover->rails.echoes) {
        kvl_rails_end(mover, endpoint, endpoint->acking_bytes, status == KVL_OK);
    } else if (endpoint->lane == KVL_LANE_SG) {
        endpoint->outstanding--;
    }
    for (node = mover->flushing.next; node != &mover->flushing; node = next) {
        kvl_move_t *move = kvl_container(node, kvl_move_t, link);

        next = node->next;
        if (!kvl_move_uses(move, place) || move->flush_seq > endpoint->flush_seq) {
            continue;
        }
        if (status != KVL_OK && mover->rails.several && !mover->stopped) {
            kvl_rails_again(mover, move, endpoint->rail);
            if (!kvl_rails_rewind(mover, move)) {
                kvl_move_over(mover, move);
            }
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

/* ---- echoes ---- */

static void echo_back(kvl_endpoint_t *endpoint, unsigned what, kvl_status_t status)
{
    endpoint->echo_waits &= ~what;
    if (status != KVL_OK) {
        endpoint->echo_waits &= ~(unsigned)KVL_ECHO_ASKED; /* nobody heard it */
    }
    if (!endpoint->echo_waits) {
        flush_over(endpoint, status);
    }
}

static void echo_sent(kvl_req_t *req, kvl_status_t status)
{
    echo_back(kvl_container(req, kvl_endpoint_t, flush_req), KVL_ECHO_SENDING, status);
}

static void echo_start(kvl_endpoint_t *endpoint)
{
    kvl_am_send_t send = {.id = KVL_AM_EP_HELLO, .iov = &endpoint->echo_iov, .iov_count = 1, .eager = true};
    kvl_status_t status;
    kvl_wbuf_t w;

    kvl_wbuf_init(&w, endpoint->echo, sizeof(endpoint->echo));
    kvl_wbuf_finish(&w, KVL_MSG_PING, endpoint->flush_seq, KVL_OK);
    endpoint->echo_iov       = (kvl_iov_t){endpoint->echo, sizeof(endpoint->echo)};
    endpoint->acking_bytes   = endpoint->unacked_bytes;
    endpoint->unacked_bytes  = 0;
    endpoint->flush_req.done = echo_sent;
    endpoint->echo_waits     = KVL_ECHO_SENDING | KVL_ECHO_ASKED;
    status                   = kvl_ep_am(endpoint->ep, &send, &endpoint->flush_req);
    if (status != KVL_INPROGRESS) {
        echo_back(endpoint, KVL_ECHO_SENDING, status);
    }
}

kvl_status_t kvl_mover_echoed(kvl_mover_t *mover, kvl_endpoint_t *endpoint, uint64_t number)
{
    if (mover->stopped || endpoint->failed) {
        return KVL_OK;
    }
    if (!endpoint->flushing || !(endpoint->echo_waits & KVL_ECHO_ASKED) || number != endpoint->flush_seq) {
        return kvl_error(KVL_ERR_PROTOCOL, "a PONG to no PING");
    }
    echo_back(endpoint, KVL_ECHO_ASKED, KVL_OK);
    return KVL_OK;
}

void kvl_echo_forget(kvl_endpoint_t *endpoint, kvl_status_t status)
{
    if (endpoint->flushing && endpoint->echo_waits & KVL_ECHO_ASKED) {
        echo_back(endpoint, KVL_ECHO_ASKED, endpoint->echo_waits & KVL_ECHO_SENDING ? KVL_OK : status);
    }
}

static void flush_start(kvl_mover_t *mover, kvl_endpoint_t *endpoint)
{
    kvl_status_t status;

    endpoint->flush_wanted   = false;
    endpoint->flushing       = true;
    endpoint->flush_seq      = mover->flush_seq;
    endpoint->flush_req.done = flush_done;
    mover->flushes_out++;
    mover->stats.flushes++;
    if (mover->rails.echoes) {
        echo_start(endpoint);
        return;
    }
    if (endpoint->lane == KVL_LANE_SG) {
        endpoint->outstanding++;
    }
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
           (endpoint->lane != KVL_LANE_SG || endpoint->mover->rails.echoes ||
            endpoint->outstanding < endpoint->window);
}

unsigned kvl_flush_pump(kvl_mover_t *mover)
{
    unsigned place, n = 0;

    if (kvl_list_empty(&mover->flushing) && !mover->rails.echo_due) {
        return 0;
    }
    mover->rails.echo_due = false;
    for (place = 0; place < mover->sched.endpoint_count && !mover->stopped; place++) {
        kvl_endpoint_t *endpoint = mover->sched.endpoints[place];

        if (flush_may_start(endpoint)) {
            flush_start(mover, endpoint);
            n++;
        }
    }
    return n;
}
