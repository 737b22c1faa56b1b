/* SPDX-License-Identifier: BSD-3-Clause */
#include "lane/private.h"

#include "base/clock.h"

/* Several rails. Which one takes an op is decided by src/rail/spread over what each has under way; a value
 * over stripe_min is cut so that all rails can have a part. With one rail nothing of this is used.
 *
 * Over several rails a put in message mode is done when its endpoint answered an echo that was sent behind
 * it (flush.c), as a onesided one is done when it was flushed: so what a rail takes with it when it fails
 * is known, and what a rail carries is measured where the bytes arrive.
 *
 * A rail that fails (kvl_mover_rail_off) posts no more; its ops come back as its endpoints are closed by
 * force. Moves that had one there, or a put that was not flushed, start over on the other rails when all
 * their ops are back: the same bytes to the same place. Moves that belong to that rail alone fail, and so
 * do puts whose target counts ops (transfers): their owners start them over under another number. */

void kvl_rails_init(kvl_mover_t *mover)
{
    const kvl_mover_params_t *params = &mover->params;

    mover->rails.several = params->rail_count > 1;
    mover->rails.echoes  = mover->rails.several && params->put_mode == KVL_MODE_IS_MESSAGE;
    mover->sched.echoes  = mover->rails.echoes;
    if (mover->rails.several) {
        kvl_spread_init(&mover->rails.spread, params->rail_count, params->speeds_mbits);
    }
}

#define ECHO_BYTES (256u << 10) /* unanswered bytes of an endpoint that are worth an echo of their own */

/* ---- bytes that wait ---- */

void kvl_rails_submit(kvl_mover_t *mover, kvl_move_t *move)
{
    size_t i;

    move->bytes = 0;
    for (i = 0; !move->only && i < move->piece_count; i++) {
        move->bytes += move->pieces[i].length;
    }
    move->bytes_left = move->bytes;
    mover->rails.pending_bytes += move->bytes;
}

void kvl_rails_over(kvl_mover_t *mover, kvl_move_t *move)
{
    mover->rails.pending_bytes -= move->bytes_left;
    move->bytes_left = 0;
}

/* ---- which rail, and how much ---- */

uint64_t kvl_rails_chunk(const kvl_mover_t *mover, const kvl_move_t *move)
{
    const kvl_mover_params_t *params = &mover->params;
    uint64_t part                    = move->bytes / (2 * (uint64_t)params->rail_count);

    if (move->bytes <= params->stripe_min) {
        return params->chunk_bytes;
    }
    part = part < params->stripe_min ? params->stripe_min : (part + 4095) / 4096 * 4096;
    return part < params->chunk_bytes ? part : params->chunk_bytes;
}

kvl_endpoint_t *kvl_rails_endpoint(kvl_mover_t *mover, const kvl_move_t *move, uint64_t bytes)
{
    uint32_t room;
    unsigned rail;

    if (move->only) {
        return kvl_sched_endpoint(&mover->sched, move, 1u << (move->only - 1));
    }
    room = kvl_sched_room(&mover->sched, move);
    rail = room ? kvl_spread_pick(&mover->rails.spread, room, bytes, mover->rails.pending_bytes)
                : KVL_SPREAD_NONE;
    return rail == KVL_SPREAD_NONE ? NULL : kvl_sched_endpoint(&mover->sched, move, 1u << rail);
}

void kvl_rails_posted(kvl_op_t *op)
{
    kvl_mover_t *mover = op->mover;
    kvl_move_t *move   = op->move;

    if (!move->only) {
        move->bytes_left -= op->length;
        mover->rails.pending_bytes -= op->length;
        kvl_spread_begin(&mover->rails.spread, op->endpoint->rail, op->length, kvl_now_ns());
    }
}

void kvl_rails_end(kvl_mover_t *mover, const kvl_endpoint_t *endpoint, uint64_t bytes, bool ok)
{
    if (bytes) {
        kvl_spread_end(&mover->rails.spread, endpoint->rail, bytes, ok, kvl_now_ns());
    }
}

/* ---- what a failing rail takes with it ---- */

static bool rail_is_off(const kvl_mover_t *mover, unsigned rail)
{
    return mover->rails.off >> rail & 1;
}

/* May the op have failed because its rail did? Then the owner hears of it. */
static bool op_is_lost(kvl_op_t *op)
{
    kvl_status_group_t group = kvl_status_group(op->status);
    kvl_endpoint_t *endpoint = op->endpoint;

    if (rail_is_off(op->mover, endpoint->rail)) {
        return true;
    }
    if (op->refused ||
        (group != KVL_GROUP_RAIL && group != KVL_GROUP_PEER && op->status != KVL_ERR_CANCELED)) {
        return false;
    }
    if (!endpoint->failed) {
        endpoint->failed = true;
        endpoint->ops->failed(endpoint, op->status);
    }
    return true;
}

/* counts the op's bytes; true if its move starts over instead of failing */
bool kvl_rails_back(kvl_op_t *op)
{
    kvl_mover_t *mover = op->mover;
    kvl_move_t *move   = op->move;
    bool ok            = op->status == KVL_OK;

    if (!move->only && ok && mover->rails.echoes && move->dir == KVL_MOVE_PUT) {
        op->endpoint->unacked_bytes += op->length;
        if (op->endpoint->unacked_bytes >= ECHO_BYTES && !op->endpoint->failed) {
            op->endpoint->flush_wanted = mover->rails.echo_due = true;
        }
    } else if (!move->only) {
        kvl_rails_end(mover, op->endpoint, op->length, ok);
    }
    if (ok || mover->stopped || move->only || !op_is_lost(op)) {
        return false;
    }
    kvl_rails_again(mover, move, op->endpoint->rail);
    return true;
}

void kvl_rails_again(kvl_mover_t *mover, kvl_move_t *move, unsigned rail)
{
    mover->rails.retries[rail] += !move->again;
    move->again = true;
}

/* All its ops are back. False if it ends instead. */
bool kvl_rails_rewind(kvl_mover_t *mover, kvl_move_t *move)
{
    move->again   = false;
    move->used[0] = move->used[1] = 0;
    if (move->status == KVL_OK && move->only) {
        move->status = KVL_ERR_RAIL;
    }
    if (move->status == KVL_OK && move->transfer && mover->rails.echoes && move->dir == KVL_MOVE_PUT) {
        move->status = KVL_ERR_CANCELED;
    }
    if (move->status != KVL_OK || mover->stopped) {
        return false;
    }
    mover->rails.pending_bytes += move->bytes - move->bytes_left;
    move->bytes_left = move->bytes;
    move->piece      = 0;
    move->piece_at   = 0;
    kvl_list_remove(&move->link);
    kvl_sched_return(&mover->sched, move);
    return true;
}

static bool move_touches(const kvl_mover_t *mover, const kvl_move_t *move, unsigned rail)
{
    unsigned place;

    for (place = 0; place < mover->sched.endpoint_count; place++) {
        if (mover->sched.endpoints[place]->rail == rail && kvl_move_uses(move, place)) {
            return true;
        }
    }
    return false;
}

/* puts that nobody flushes any more */
static void unflushed_again(kvl_mover_t *mover, unsigned rail)
{
    kvl_move_t *move;
    kvl_list_t *node, *next;

    for (node = mover->draining.next; node != &mover->draining; node = node->next) {
        move = kvl_container(node, kvl_move_t, link);
        if (move_touches(mover, move, rail)) {
            kvl_rails_again(mover, move, rail);
        }
    }
    for (node = mover->flushing.next; node != &mover->flushing; node = next) {
        next = node->next;
        move = kvl_container(node, kvl_move_t, link);
        if (move_touches(mover, move, rail)) {
            kvl_rails_again(mover, move, rail);
            if (!kvl_rails_rewind(mover, move)) {
                kvl_move_over(mover, move);
            }
        }
    }
    while ((move = kvl_sched_posting(&mover->sched, rail)) != NULL) {
        kvl_rails_again(mover, move, rail);
        kvl_move_step(mover, move);
    }
}

void kvl_mover_rail_off(kvl_mover_t *mover, unsigned rail)
{
    unsigned place;

    mover->rails.off |= 1u << rail;
    kvl_spread_set(&mover->rails.spread, rail, false);
    for (place = 0; place < mover->sched.endpoint_count; place++) {
        if (mover->sched.endpoints[place]->rail == rail) {
            mover->sched.endpoints[place]->failed       = true;
            mover->sched.endpoints[place]->flush_wanted = false;
        }
    }
    unflushed_again(mover, rail);
    for (place = 0; place < mover->sched.endpoint_count; place++) {
        kvl_endpoint_t *endpoint = mover->sched.endpoints[place];

        if (endpoint->rail == rail) {
            kvl_ops_forget(mover, place, KVL_ERR_CANCELED);
            kvl_echo_forget(endpoint, KVL_ERR_CANCELED);
            kvl_rails_end(mover, endpoint, endpoint->unacked_bytes, false);
            endpoint->unacked_bytes = 0;
        }
    }
}

bool kvl_mover_rail_idle(const kvl_mover_t *mover, unsigned rail)
{
    unsigned place;

    for (place = 0; place < mover->sched.endpoint_count; place++) {
        const kvl_endpoint_t *endpoint = mover->sched.endpoints[place];

        if (endpoint->rail == rail && (endpoint->outstanding || endpoint->flushing)) {
            return false;
        }
    }
    return true;
}

void kvl_mover_rail_ready(kvl_mover_t *mover, unsigned rail)
{
    unsigned place;

    mover->rails.off &= ~(1u << rail);
    for (place = 0; place < mover->sched.endpoint_count; place++) {
        if (mover->sched.endpoints[place]->rail == rail) {
            mover->sched.endpoints[place]->failed = false;
        }
    }
}

void kvl_mover_rail_on(kvl_mover_t *mover, unsigned rail)
{
    kvl_spread_set(&mover->rails.spread, rail, true);
}

void kvl_mover_rail_drain(kvl_mover_t *mover, unsigned rail)
{
    kvl_spread_set(&mover->rails.spread, rail, false);
}

static bool list_touches(const kvl_mover_t *mover, const kvl_list_t *moves, unsigned rail)
{
    const kvl_list_t *node;

    for (node = moves->next; node != moves; node = node->next) {
        if (move_touches(mover, kvl_container(node, kvl_move_t, link), rail)) {
            return true;
        }
    }
    return false;
}

bool kvl_mover_rail_quiet(const kvl_mover_t *mover, unsigned rail)
{
    return kvl_mover_rail_idle(mover, rail) && !list_touches(mover, &mover->draining, rail) &&
           !list_touches(mover, &mover->flushing, rail) && !kvl_sched_posting(&mover->sched, rail);
}

uint64_t kvl_mover_retries(const kvl_mover_t *mover, unsigned rail)
{
    return mover->rails.retries[rail];
}
