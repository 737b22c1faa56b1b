/* SPDX-License-Identifier: BSD-3-Clause */
#include "lane/mover.h"

#include "base/alloc.h"
#include "base/error.h"
#include "lane/private.h"

#include <assert.h>

/* Owns the moves of one link from submit to done(). Decisions are in sched.c and cut.c; ops go to UCX
 * through rma.c and message.c, flushes through flush.c.
 *
 *   QUEUED -> POSTING (first turn) -> DRAINING (posted, failed or canceled; ops are out)
 *   -> FLUSHING (onesided puts, unless stopped) -> OVER -> done(), exactly once
 *
 * A move skips the states that it does not need. Callbacks of UCX only change states; done() runs in
 * the pump alone, so no code of a user runs inside of UCX, and an op that completes at once does not
 * recurse: the pump loops, within a budget. */

#define PUMP_OPS   64
#define PUMP_BYTES (4u << 20)
#define PUMP_TELLS 256
#define BOUNCE_MAX (64u << 20)
#define STAGE_MAX  (1u << 20) /* of a staged op: its copy is to overlap with the wire of others */

/* ---- life ---- */

kvl_status_t kvl_mover_create(const kvl_mover_params_t *params, kvl_mover_t **mover_p)
{
    kvl_mover_t *mover;
    kvl_status_t status;

    if (params->depth < 1 || params->depth > KVL_DEPTH_MAX || params->chunk_bytes < 1) {
        return kvl_error(KVL_ERR_INVALID, "mover: depth %u, longest op %llu", params->depth,
                         (unsigned long long)params->chunk_bytes);
    }
    mover = kvl_calloc(1, sizeof(*mover));
    if (!mover) {
        return kvl_error(KVL_ERR_NO_MEMORY, "mover: %zu bytes", sizeof(*mover));
    }
    mover->params = *params;
    status        = kvl_sched_init(&mover->sched, params->depth);
    if (status != KVL_OK) {
        kvl_free(mover);
        return status;
    }
    kvl_list_init(&mover->draining);
    kvl_list_init(&mover->flushing);
    kvl_list_init(&mover->over);
    kvl_list_init(&mover->copying);
    kvl_bounces_init(&mover->bounces, BOUNCE_MAX);
    kvl_rails_init(mover);
    *mover_p = mover;
    return KVL_OK;
}

void kvl_mover_destroy(kvl_mover_t *mover)
{
    if (!mover) {
        return;
    }
    assert(!mover->sched.active && !mover->sched.queued && !mover->over_count);
    assert(kvl_mover_idle(mover));
    kvl_ops_destroy(mover);
    kvl_bounces_cleanup(&mover->bounces);
    kvl_sched_cleanup(&mover->sched);
    kvl_free(mover);
}

static unsigned data_window(const kvl_mover_params_t *params)
{
    return params->data_depth && params->data_depth < params->depth ? params->data_depth
                                                                    : params->depth;
}

kvl_status_t kvl_mover_add(kvl_mover_t *mover, kvl_endpoint_t *endpoint)
{
    kvl_status_t status = kvl_sched_add(&mover->sched, endpoint);

    if (status != KVL_OK) {
        return status;
    }
    endpoint->window   = endpoint->lane == KVL_LANE_SG ? 1 : data_window(&mover->params);
    endpoint->mover    = mover;
    endpoint->flushing = endpoint->flush_wanted = false;
    status                                      = kvl_ops_create(mover, endpoint);
    if (status != KVL_OK) {
        endpoint->window = 0; /* carries nothing */
    }
    return status;
}

/* ---- a move's states ---- */

/* out of whatever list it is in */
static void move_leave(kvl_mover_t *mover, kvl_move_t *move)
{
    if (move->state == KVL_MOVE_QUEUED || move->state == KVL_MOVE_POSTING) {
        kvl_sched_remove(&mover->sched, move);
    } else {
        kvl_list_remove(&move->link);
    }
}

static void move_enter(kvl_move_t *move, kvl_move_state_t state, kvl_list_t *list)
{
    assert(state > move->state);
    move->state = (uint8_t)state;
    kvl_list_push_back(list, &move->link);
}

void kvl_move_over(kvl_mover_t *mover, kvl_move_t *move)
{
    bool slot = move->state != KVL_MOVE_QUEUED;

    move_leave(mover, move);
    if (slot) {
        kvl_sched_release(&mover->sched, move);
    }
    move_enter(move, KVL_MOVE_OVER, &mover->over);
    mover->over_count++;
    if (mover->rails.several) {
        kvl_rails_over(mover, move);
    }
}

void kvl_move_step(kvl_mover_t *mover, kvl_move_t *move)
{
    if (move->state == KVL_MOVE_POSTING && kvl_move_is_posted(move)) {
        move_leave(mover, move);
        move_enter(move, KVL_MOVE_DRAINING, &mover->draining);
    }
    if (move->state != KVL_MOVE_DRAINING || move->ops_out) {
        return;
    }
    if (move->again && kvl_rails_rewind(mover, move)) {
        return;
    }
    if (!kvl_move_needs_flush(move) || mover->stopped) {
        kvl_move_over(mover, move);
        return;
    }
    move_leave(mover, move);
    move_enter(move, KVL_MOVE_FLUSHING, &mover->flushing);
    kvl_flush_want(mover, move);
}

/* ends a move for a reason of this side, as soon as its ops allow */
static void move_end(kvl_mover_t *mover, kvl_move_t *move, kvl_status_t status)
{
    if (move->status == KVL_OK) {
        move->status = status;
    }
    if (move->state == KVL_MOVE_QUEUED) {
        kvl_move_over(mover, move);
    } else {
        kvl_move_step(mover, move);
    }
}

void kvl_mover_submit(kvl_mover_t *mover, kvl_flow_t *flow, kvl_move_t *move)
{
    move->piece     = 0;
    move->piece_at  = 0;
    move->ops_out   = 0;
    move->ops_total = 0;
    move->used[0] = move->used[1] = 0;
    move->status                  = KVL_OK;
    move->again = move->landed_by_nic = false;
    if (mover->rails.several) {
        kvl_rails_submit(mover, move);
    }
    kvl_sched_submit(&mover->sched, flow, move);
    if (mover->stopped || !move->piece_count) {
        move_end(mover, move, mover->stop_status);
    }
}

void kvl_mover_cancel(kvl_mover_t *mover, kvl_move_t *move, kvl_status_t status)
{
    if (move->state != KVL_MOVE_NONE && move->state != KVL_MOVE_OVER) {
        move_end(mover, move, status);
    }
}

/* no reply can come any more; what is at UCP comes back by itself */
static void stop_asked(kvl_mover_t *mover)
{
    unsigned place;

    for (place = 0; place < mover->sched.endpoint_count; place++) {
        kvl_ops_forget(mover, place, mover->stop_status);
        kvl_echo_forget(mover->sched.endpoints[place], mover->stop_status);
    }
}

void kvl_mover_stop(kvl_mover_t *mover, kvl_status_t status)
{
    kvl_move_t *move;
    kvl_list_t *node;

    if (mover->stopped) {
        return;
    }
    mover->stopped     = true;
    mover->stop_status = status;
    while ((move = kvl_sched_any(&mover->sched)) != NULL) {
        move_end(mover, move, status);
    }
    while (!kvl_list_empty(&mover->flushing)) {
        move = kvl_container(mover->flushing.next, kvl_move_t, link);
        if (move->status == KVL_OK) {
            move->status = status;
        }
        kvl_move_over(mover, move);
    }
    for (node = mover->draining.next; node != &mover->draining; node = node->next) {
        move = kvl_container(node, kvl_move_t, link);
        if (move->status == KVL_OK) {
            move->status = status;
        }
    }
    stop_asked(mover);
}

/* ---- the pump ---- */

typedef struct {
    unsigned ops;
    size_t bytes;
} pump_budget_t;

void kvl_op_send(kvl_op_t *op)
{
    kvl_status_t status = op->message ? kvl_message_post(op) : kvl_rma_post(op);

    if (status == KVL_OK) { /* sent: a get of message mode still waits for its reply */
        kvl_op_sent(op, status);
    } else if (status != KVL_INPROGRESS) { /* not sent: no reply will come */
        kvl_op_back(op, ~0u, status);
    }
}

/* May the rails reach its memory by themselves, or some of them? */
static bool move_is_direct(const kvl_mover_t *mover, const kvl_move_t *move, kvl_mode_t mode, uint32_t rails)
{
    const kvl_mover_params_t *params = &mover->params;

    if (!move->device || mode != KVL_MODE_IS_ONESIDED) {
        return !move->device;
    }
    return move->direct || (params->direct && (params->direct[kvl_device_number(move->device)] & rails));
}

static kvl_status_t op_prepare(kvl_op_t *op, kvl_mode_t mode, const kvl_cut_t *cut)
{
    kvl_move_t *move = op->move;
    unsigned rail    = op->endpoint->rail;

    op->message       = mode == KVL_MODE_IS_MESSAGE;
    op->remote_offset = cut->remote_offset;
    op->ranges        = cut->ranges;
    op->piece         = move->piece;
    op->piece_at      = move->piece_at;
    op->length        = cut->length;
    if (!move_is_direct(op->mover, move, mode, 1u << rail) || (move->device && !kvl_cut_mem(move, cut, rail))) {
        op->mover->stats.staged++;
        return kvl_staged_prepare(op, cut);
    }
    if (move->device) {
        op->mover->stats.direct++;
        move->landed_by_nic = move->dir == KVL_MOVE_GET;
    }
    return op->message ? kvl_message_prepare(op, cut) : kvl_rma_prepare(op, cut);
}

/* Hands the op to UCX, or its bytes to a copy first; false if it has to wait for a buffer. */
static bool op_post(kvl_op_t *op, kvl_mode_t mode, const kvl_cut_t *cut)
{
    kvl_move_t *move    = op->move;
    kvl_status_t status = op_prepare(op, mode, cut);

    if (status == KVL_ERR_BUSY) {
        op->mover->stats.staged -= move->device != NULL; /* only a stage is waited for then */
        kvl_op_drop(op);
        return false;
    }
    move->ops_total++;
    move->piece    = cut->piece;
    move->piece_at = cut->piece_at;
    if (op->mover->rails.several) {
        kvl_rails_posted(op);
    }
    if (status == KVL_OK && op->stage && move->dir == KVL_MOVE_PUT) {
        status = kvl_staged_put(op);
    } else if (status == KVL_OK) {
        op->waits = KVL_OP_SENDING;
        kvl_op_send(op);
        return true;
    }
    if (status != KVL_INPROGRESS) {
        kvl_op_back(op, ~0u, status);
    }
    return true;
}

static kvl_mode_t move_mode(const kvl_mover_t *mover, const kvl_move_t *move)
{
    if (move->remote->by_message) {
        return KVL_MODE_IS_MESSAGE;
    }
    return move->dir == KVL_MOVE_PUT ? mover->params.put_mode : mover->params.get_mode;
}

/* the endpoint for the next op, and the op; several rails: it decides by the op's length */
static kvl_endpoint_t *lane_endpoint(kvl_mover_t *mover, const kvl_move_t *move, kvl_mode_t mode,
                                     kvl_cut_t *cut)
{
    bool staged    = !move_is_direct(mover, move, mode, UINT32_MAX);
    bool gather    = mode == KVL_MODE_IS_MESSAGE || mover->params.gathers || staged;
    uint64_t chunk = mover->rails.several ? kvl_rails_chunk(mover, move) : mover->params.chunk_bytes;
    kvl_endpoint_t *endpoint;

    if (move->device && chunk > STAGE_MAX) {
        chunk = STAGE_MAX;
    }
    if (mover->rails.several) {
        kvl_cut_next(move, mode, gather, chunk, cut);
        return kvl_rails_endpoint(mover, move, cut->length);
    }
    endpoint = kvl_sched_endpoint(&mover->sched, move, KVL_RAILS_ALL);
    if (endpoint) {
        kvl_cut_next(move, mode, gather, chunk, cut);
        if (mode == KVL_MODE_IS_MESSAGE && mover->params.ranges && move->scope == 1 && !staged) {
            kvl_cut_ranges(move, cut);
        }
    }
    return endpoint;
}

/* One op on this lane; false if there is nothing to post, or no credit or buffer to post it with. */
static bool lane_post(kvl_mover_t *mover, kvl_lane_kind_t lane, pump_budget_t *budget)
{
    kvl_move_t *move = kvl_sched_turn(&mover->sched, lane);
    kvl_endpoint_t *endpoint;
    kvl_mode_t mode;
    kvl_cut_t cut;

    if (!move) {
        return false;
    }
    mode     = move_mode(mover, move);
    endpoint = lane_endpoint(mover, move, mode, &cut);
    if (!endpoint) {
        return false;
    }
    if (move->state == KVL_MOVE_QUEUED) {
        kvl_sched_begin(&mover->sched, move);
    }
    kvl_sched_had_turn(&mover->sched, move);
    if (!op_post(kvl_op_get(mover, endpoint, move), mode, &cut)) {
        return false;
    }
    kvl_move_step(mover, move);
    budget->ops--;
    budget->bytes -= cut.length < budget->bytes ? cut.length : budget->bytes;
    return true;
}

/* the lanes take turns too */
static unsigned mover_post(kvl_mover_t *mover, pump_budget_t *budget)
{
    unsigned n = 0;
    bool more  = true;

    while (more && budget->ops > 1 && budget->bytes > 0) {
        bool data = lane_post(mover, KVL_LANE_DATA, budget);
        bool sg   = lane_post(mover, KVL_LANE_SG, budget);

        n += (unsigned)data + (unsigned)sg;
        more = data || sg;
    }
    return n;
}

static unsigned mover_tell(kvl_mover_t *mover)
{
    unsigned n = 0;

    while (n < PUMP_TELLS && !kvl_list_empty(&mover->over)) {
        kvl_move_t *move = kvl_container(kvl_list_pop_front(&mover->over), kvl_move_t, link);

        mover->over_count--;
        move->state = KVL_MOVE_NONE;
        if (move->landed_by_nic && move->status == KVL_OK) {
            move->status = kvl_device_flush(move->device);
        }
        move->done(move, move->status); /* move and flow may be gone now */
        n++;
    }
    return n;
}

unsigned kvl_mover_pump(kvl_mover_t *mover)
{
    pump_budget_t budget = {PUMP_OPS, PUMP_BYTES};
    unsigned n, total = mover_tell(mover);

    do {
        n = kvl_list_empty(&mover->copying) ? 0 : kvl_staged_pump(mover);
        if (!mover->stopped) {
            n += kvl_flush_pump(mover);
        }
        if (!mover->stopped) {
            n += mover_post(mover, &budget);
        }
        if (total < PUMP_TELLS) {
            n += mover_tell(mover);
        }
        total += n;
    } while (n && budget.ops > 1 && budget.bytes > 0 && !mover->stopped);
    return total + !kvl_list_empty(&mover->copying); /* nobody wakes the engine when a copy is over */
}

/* ---- asking ---- */

bool kvl_mover_idle(const kvl_mover_t *mover)
{
    return !mover->ops_out && !mover->flushes_out;
}

bool kvl_move_busy(const kvl_move_t *move)
{
    return move->state != KVL_MOVE_NONE && (move->ops_out > 0 || move->state == KVL_MOVE_FLUSHING);
}

void kvl_mover_stats(const kvl_mover_t *mover, kvl_mover_stats_t *stats_p)
{
    *stats_p        = mover->stats;
    stats_p->active = mover->sched.active + mover->over_count;
    stats_p->queued = mover->sched.queued;
}
