/* SPDX-License-Identifier: BSD-3-Clause */
#include "lane/mover.h"

#include "base/alloc.h"
#include "base/error.h"
#include "lane/private.h"

/* Owns the moves of one link from submit to done(). Decisions are in sched.c; ops go to UCX through
 * rma.c and message.c; flushes are in flush.c. An op that completes at once does not recurse: the pump
 * loops. done() is only called from the pump, so no callback of a user runs inside of UCX. */

#define PUMP_OPS   64
#define PUMP_BYTES (4u << 20)

void kvl_flow_init(kvl_flow_t *flow)
{
    kvl_list_init(&flow->link);
    kvl_list_init(&flow->moves);
    flow->active = 0;
}

kvl_status_t kvl_mover_create(const kvl_mover_params_t *params, kvl_mover_t **mover_p)
{
    kvl_mover_t *mover = kvl_calloc(1, sizeof(*mover));

    if (!mover) {
        return kvl_error(KVL_ERR_NO_MEMORY, "mover: out of memory");
    }
    mover->params = *params;
    kvl_list_init(&mover->flows);
    kvl_list_init(&mover->flushing);
    kvl_list_init(&mover->done);
    kvl_list_init(&mover->idle_ops);
    *mover_p = mover;
    return KVL_OK;
}

void kvl_mover_destroy(kvl_mover_t *mover)
{
    unsigned block, i;

    if (!mover) {
        return;
    }
    for (block = 0; block < mover->block_count; block++) {
        for (i = 0; i < KVL_OP_BLOCK; i++) {
            kvl_free(mover->blocks[block][i].iov);
            kvl_free(mover->blocks[block][i].bounce);
        }
        kvl_free(mover->blocks[block]);
    }
    kvl_free(mover);
}

kvl_status_t kvl_mover_add(kvl_mover_t *mover, kvl_endpoint_t *endpoint)
{
    const kvl_mover_params_t *params = &mover->params;

    if (mover->endpoint_count == KVL_ENDPOINTS_MAX) {
        return kvl_error(KVL_ERR_LIMIT, "mover: more than %d endpoints", KVL_ENDPOINTS_MAX);
    }
    if (endpoint->lane == KVL_LANE_SG) {
        endpoint->window = 1;
        mover->sg_count++;
        mover->sg_limit = mover->sg_count < params->depth ? mover->sg_count : params->depth;
    } else {
        endpoint->window = params->data_depth < params->depth ? params->data_depth : params->depth;
    }
    endpoint->mover = mover;
    endpoint->place = mover->endpoint_count;
    mover->endpoints[mover->endpoint_count++] = endpoint;
    return KVL_OK;
}

/* ---- a move's states ---- */

static void move_unqueue(kvl_move_t *move)
{
    kvl_list_remove(&move->link);
    if (kvl_list_empty(&move->flow->moves)) {
        kvl_list_remove(&move->flow->link);
    }
}

void kvl_move_finish(kvl_mover_t *mover, kvl_move_t *move)
{
    if (move->state == KVL_MOVE_QUEUED) {
        mover->stats.queued--;
    } else {
        mover->stats.active--;
        move->flow->active--;
    }
    if (move->state == KVL_MOVE_QUEUED || move->state == KVL_MOVE_ACTIVE) {
        move_unqueue(move);
    } else {
        kvl_list_remove(&move->link);
    }
    move->state = KVL_MOVE_DONE;
    kvl_list_push_back(&mover->done, &move->link);
}

/* an op came back, or no more will be posted: is it time for the next state? */
void kvl_move_step(kvl_mover_t *mover, kvl_move_t *move)
{
    if (move->state != KVL_MOVE_ACTIVE || move->ops_out || !kvl_move_is_posted(move)) {
        return;
    }
    if ((move->used[0] || move->used[1]) && mover->stopped && move->status == KVL_OK) {
        move->status = mover->stop_status; /* no flush any more: nobody knows what arrived */
    }
    if ((move->used[0] || move->used[1]) && !mover->stopped) {
        move_unqueue(move);
        move->state = KVL_MOVE_FLUSHING;
        kvl_list_push_back(&mover->flushing, &move->link);
        kvl_flush_want(mover, move);
        return;
    }
    kvl_move_finish(mover, move);
}

void kvl_mover_submit(kvl_mover_t *mover, kvl_flow_t *flow, kvl_move_t *move)
{
    move->flow      = flow;
    move->piece     = 0;
    move->piece_at  = 0;
    move->ops_out   = 0;
    move->ops_total = 0;
    move->used[0] = move->used[1] = 0;
    move->status                  = KVL_OK;
    move->state                   = KVL_MOVE_QUEUED;
    mover->stats.queued++;
    kvl_list_push_back(&flow->moves, &move->link);
    if (kvl_list_empty(&flow->link)) {
        kvl_list_push_back(&mover->flows, &flow->link);
    }
    if (mover->stopped) {
        kvl_mover_cancel(mover, move, mover->stop_status);
    }
}

static void move_begin(kvl_mover_t *mover, kvl_move_t *move)
{
    if (move->state == KVL_MOVE_QUEUED) {
        move->state = KVL_MOVE_ACTIVE;
        move->flow->active++;
        mover->stats.queued--;
        mover->stats.active++;
    }
}

/* ---- the pump ---- */

/* posts one op; false if there was nothing to post, or no memory to post it with */
static bool mover_post(kvl_mover_t *mover, size_t *bytes_p)
{
    kvl_mode_t mode;
    kvl_status_t status;
    kvl_pick_t pick;
    kvl_op_t *op;

    if (!kvl_sched_pick(mover, &pick)) {
        return false;
    }
    move_begin(mover, pick.move);
    op = kvl_op_get(mover, pick.move, pick.endpoint);
    if (!op) {
        if (!pick.move->ops_out) { /* with ops out, one of them comes back and is used again */
            pick.move->status = KVL_ERR_NO_MEMORY;
            kvl_move_step(mover, pick.move);
        }
        return false;
    }
    mode = pick.move->dir == KVL_MOVE_PUT ? mover->params.put_mode : mover->params.get_mode;
    op->length = 0;
    status     = mode == KVL_MODE_IS_ONESIDED ? kvl_post_rma(op) : kvl_post_message(op);
    *bytes_p += op->length;
    if (kvl_move_is_posted(pick.move) || status < 0) {
        move_unqueue(pick.move); /* the flow's next move gets its turn */
    }
    if (status != KVL_INPROGRESS) {
        kvl_op_end(op, status);
    }
    return true;
}

static unsigned mover_tell(kvl_mover_t *mover)
{
    kvl_list_t *node;
    unsigned n = 0;

    while ((node = kvl_list_pop_front(&mover->done)) != NULL) {
        kvl_move_t *move = kvl_container(node, kvl_move_t, link);

        move->done(move, move->status);
        n++;
    }
    return n;
}

unsigned kvl_mover_pump(kvl_mover_t *mover)
{
    unsigned n   = kvl_flush_pump(mover), ops = 0;
    size_t bytes = 0;

    while (!mover->stopped && ops < PUMP_OPS && bytes < PUMP_BYTES && mover_post(mover, &bytes)) {
        ops++;
    }
    n += ops + kvl_flush_pump(mover);
    return n + mover_tell(mover);
}

void kvl_mover_cancel(kvl_mover_t *mover, kvl_move_t *move, kvl_status_t status)
{
    if (move->state == KVL_MOVE_DONE) {
        return;
    }
    if (move->status == KVL_OK) {
        move->status = status;
    }
    if (move->state == KVL_MOVE_QUEUED) {
        kvl_move_finish(mover, move);
        return;
    }
    if (move->state == KVL_MOVE_ACTIVE) {
        move_unqueue(move); /* nothing more is posted */
        kvl_move_step(mover, move);
    }
}

static void mover_stop_asks(kvl_mover_t *mover)
{
    uint32_t i;

    for (i = 0; i < mover->block_count * KVL_OP_BLOCK; i++) {
        kvl_op_t *op = kvl_op_at(mover, i);

        if (op && op->ask) {
            if (op->status == KVL_OK && !op->landed) {
                op->status = mover->stop_status;
            }
            kvl_ask_check(op);
        }
    }
}

void kvl_mover_stop(kvl_mover_t *mover, kvl_status_t status)
{
    if (mover->stopped) {
        return;
    }
    mover->stopped     = true;
    mover->stop_status = status;
    while (!kvl_list_empty(&mover->flows)) {
        kvl_flow_t *flow = kvl_container(mover->flows.next, kvl_flow_t, link);

        kvl_mover_cancel(mover, kvl_container(flow->moves.next, kvl_move_t, link), status);
    }
    kvl_flush_stop(mover);
    mover_stop_asks(mover);
}

bool kvl_mover_idle(const kvl_mover_t *mover)
{
    unsigned i;

    for (i = 0; i < mover->endpoint_count; i++) {
        if (mover->endpoints[i]->flushing) {
            return false;
        }
    }
    return mover->ops_used == 0;
}

bool kvl_move_busy(const kvl_move_t *move)
{
    return move->ops_out > 0 || move->state == KVL_MOVE_FLUSHING;
}

void kvl_mover_stats(const kvl_mover_t *mover, kvl_mover_stats_t *stats_p)
{
    *stats_p = mover->stats;
}
