/* SPDX-License-Identifier: BSD-3-Clause */
#include "lane/private.h"

#include "base/alloc.h"
#include "base/error.h"
#include "lane/stage.h"

/* Ops belong to their endpoint, one for each unit of its credit, made when the endpoint is added: so
 * posting allocates none and cannot run out. A reply names its op by a number: generation, place of the
 * endpoint, index. */

kvl_status_t kvl_ops_create(kvl_mover_t *mover, kvl_endpoint_t *endpoint)
{
    kvl_op_t *ops = kvl_calloc(endpoint->window, sizeof(*ops));
    unsigned i;

    if (!ops) {
        return kvl_error(KVL_ERR_NO_MEMORY, "%s endpoint %u: out of memory for %u ops",
                         kvl_lane_name(endpoint->lane), endpoint->index, endpoint->window);
    }
    kvl_list_init(&mover->idle_ops[endpoint->place]);
    for (i = 0; i < endpoint->window; i++) {
        ops[i].mover      = mover;
        ops[i].endpoint   = endpoint;
        ops[i].index      = i;
        ops[i].generation = 1;
        kvl_list_push_back(&mover->idle_ops[endpoint->place], &ops[i].link);
    }
    mover->ops[endpoint->place]      = ops;
    mover->op_count[endpoint->place] = endpoint->window;
    return KVL_OK;
}

void kvl_ops_destroy(kvl_mover_t *mover)
{
    unsigned place, i;

    for (place = 0; place < mover->sched.endpoint_count; place++) {
        kvl_op_t *ops = mover->ops[place];

        for (i = 0; i < mover->op_count[place]; i++) {
            kvl_free(ops[i].iov);
            kvl_fence_cleanup(&ops[i].fence);
        }
        kvl_free(ops);
    }
}

kvl_op_t *kvl_op_get(kvl_mover_t *mover, kvl_endpoint_t *endpoint, kvl_move_t *move)
{
    kvl_list_t *node = kvl_list_pop_front(&mover->idle_ops[endpoint->place]);
    kvl_op_t *op     = kvl_container(node, kvl_op_t, link);

    op->move      = move;
    op->waits     = 0;
    op->refused   = false;
    op->status    = KVL_OK;
    op->length    = 0;
    op->iov_count = op->piece_count = 0;
    op->mem                         = NULL;
    op->bounce                      = NULL;
    op->stage                       = NULL;
    endpoint->counts.posted++;
    mover->ops_out++;
    move->ops_out++;
    kvl_sched_take(&mover->sched, endpoint);
    if (endpoint->lane == KVL_LANE_SG && ++mover->stats.sg_out > mover->stats.sg_out_max) {
        mover->stats.sg_out_max = mover->stats.sg_out;
    }
    return op;
}

kvl_status_t kvl_op_iov(kvl_op_t *op, size_t count)
{
    kvl_iov_t *iov;
    size_t capacity = op->iov_capacity ? op->iov_capacity : 16;

    if (count <= op->iov_capacity) {
        return KVL_OK;
    }
    while (capacity < count) {
        capacity *= 2;
    }
    iov = kvl_realloc(op->iov, capacity * sizeof(*iov));
    if (!iov) {
        return kvl_error(KVL_ERR_NO_MEMORY, "op: %zu pieces", count);
    }
    op->iov          = iov;
    op->iov_capacity = capacity;
    return KVL_OK;
}

static void op_free(kvl_op_t *op)
{
    kvl_mover_t *mover = op->mover;

    if (op->bounce) {
        kvl_bounce_put(&mover->bounces, op->bounce);
        op->bounce = NULL;
    }
    if (op->stage) {
        kvl_stage_put(mover->params.stages, op->stage);
        op->stage = NULL;
    }
    if (op->endpoint->lane == KVL_LANE_SG) {
        mover->stats.sg_out--;
    }
    kvl_sched_give(&mover->sched, op->endpoint);
    op->move->ops_out--;
    mover->ops_out--;
    op->move = NULL;
    op->generation++;
    kvl_list_push_front(&mover->idle_ops[op->endpoint->place], &op->link);
}

void kvl_op_drop(kvl_op_t *op)
{
    op->endpoint->counts.posted--;
    op_free(op);
}

static void op_count(const kvl_op_t *op)
{
    kvl_mover_stats_t *stats = &op->mover->stats;

    kvl_op_counts_end(&op->endpoint->counts, op->status, op->length);
    if (op->status != KVL_OK) {
        stats->errors++;
        return;
    }
    if (op->move->dir == KVL_MOVE_PUT) {
        stats->puts++;
        stats->bytes_put += op->length;
    } else {
        stats->gets++;
        stats->bytes_got += op->length;
    }
}

void kvl_op_back(kvl_op_t *op, unsigned what, kvl_status_t status)
{
    kvl_mover_t *mover = op->mover;
    kvl_move_t *move   = op->move;

    op->waits &= ~what;
    if (op->status == KVL_OK) {
        op->status = status;
    }
    if (op->waits) {
        return;
    }
    if (!(mover->rails.several && kvl_rails_back(op)) && op->status != KVL_OK && move->status == KVL_OK) {
        move->status = op->status;
    }
    op_count(op);
    op_free(op);
    kvl_move_step(mover, move);
}

void kvl_op_sent(kvl_op_t *op, kvl_status_t status)
{
    if (status == KVL_OK && op->stage && !op->message && op->move->dir == KVL_MOVE_GET) {
        status = kvl_staged_got(op, NULL);
    }
    kvl_op_back(op, KVL_OP_SENDING, status);
}

void kvl_ops_forget(kvl_mover_t *mover, unsigned place, kvl_status_t status)
{
    unsigned i;

    for (i = 0; i < mover->op_count[place]; i++) {
        kvl_op_t *op = &mover->ops[place][i];

        if (op->move && op->waits & KVL_OP_ASKED) {
            kvl_op_back(op, KVL_OP_ASKED, status);
        }
    }
}

uint64_t kvl_op_number(const kvl_op_t *op)
{
    return (uint64_t)op->generation << 32 | op->endpoint->place << 16 | op->index;
}

kvl_op_t *kvl_op_find(kvl_mover_t *mover, const kvl_endpoint_t *endpoint, uint64_t number)
{
    uint32_t place = number >> 16 & 0xffff, index = number & 0xffff;
    kvl_op_t *op;

    if (place >= mover->sched.endpoint_count || mover->sched.endpoints[place] != endpoint ||
        index >= mover->op_count[place]) {
        return NULL;
    }
    op = &mover->ops[place][index];
    return op->move && op->generation == (uint32_t)(number >> 32) ? op : NULL;
}
