/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/alloc.h"
#include "lane/private.h"

/* Ops: found by index, because a reply names its op by number; made in blocks that grow on demand, so
 * that a warm mover allocates nothing. The generation tells a late reply from a right one. */

static bool op_grow(kvl_mover_t *mover)
{
    kvl_op_t *block;
    unsigned i;

    if (mover->block_count == KVL_OP_BLOCKS) {
        return false;
    }
    block = kvl_calloc(KVL_OP_BLOCK, sizeof(*block));
    if (!block) {
        return false;
    }
    for (i = 0; i < KVL_OP_BLOCK; i++) {
        block[i].mover      = mover;
        block[i].index      = mover->block_count * KVL_OP_BLOCK + i;
        block[i].generation = 1;
        kvl_list_push_back(&mover->idle_ops, &block[i].link);
    }
    mover->blocks[mover->block_count++] = block;
    return true;
}

kvl_op_t *kvl_op_at(kvl_mover_t *mover, uint32_t index)
{
    kvl_op_t *op;

    if (index >= mover->block_count * KVL_OP_BLOCK) {
        return NULL;
    }
    op = &mover->blocks[index / KVL_OP_BLOCK][index % KVL_OP_BLOCK];
    return op->used ? op : NULL;
}

kvl_op_t *kvl_op_get(kvl_mover_t *mover, kvl_move_t *move, kvl_endpoint_t *endpoint)
{
    kvl_op_t *op;

    if (kvl_list_empty(&mover->idle_ops) && !op_grow(mover)) {
        return NULL;
    }
    op           = kvl_container(kvl_list_pop_front(&mover->idle_ops), kvl_op_t, link);
    op->move     = move;
    op->endpoint = endpoint;
    op->used     = true;
    op->ask = op->sending = op->receiving = op->landed = false;
    op->status                                         = KVL_OK;
    mover->ops_used++;
    move->ops_out++;
    move->ops_total++;
    endpoint->outstanding++;
    if (endpoint->lane == KVL_LANE_SG && ++mover->stats.sg_out > mover->stats.sg_out_max) {
        mover->stats.sg_out_max = mover->stats.sg_out;
    }
    return op;
}

void kvl_op_end(kvl_op_t *op, kvl_status_t status)
{
    kvl_mover_t *mover       = op->mover;
    kvl_endpoint_t *endpoint = op->endpoint;
    kvl_move_t *move         = op->move;

    op->used = false;
    op->generation++;
    kvl_list_push_front(&mover->idle_ops, &op->link);
    mover->ops_used--;
    endpoint->outstanding--;
    if (endpoint->lane == KVL_LANE_SG) {
        mover->stats.sg_out--;
    }
    move->ops_out--;
    if (status == KVL_OK) {
        endpoint->ops_done++;
        endpoint->bytes_done += op->length;
        *(move->dir == KVL_MOVE_PUT ? &mover->stats.bytes_put : &mover->stats.bytes_got) += op->length;
    } else {
        endpoint->errors++;
        mover->stats.errors++;
        if (move->status == KVL_OK) {
            move->status = status;
        }
    }
    kvl_move_step(mover, move);
}
