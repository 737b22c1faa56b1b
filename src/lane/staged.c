/* SPDX-License-Identifier: BSD-3-Clause */
#include "lane/private.h"

#include "base/error.h"
#include "lane/stage.h"

#include <string.h>

/* Ops of device memory that go through a stage. A put is copied first and posted when that is over, a get is copied
 * when its bytes are here; meanwhile it is out (KVL_OP_COPYING), holds its credit, and others are on the wire: so
 * copies and the wire overlap, op by op. The pump asks the fences. */

kvl_status_t kvl_staged_prepare(kvl_op_t *op, const kvl_cut_t *cut)
{
    kvl_stages_t *stages = op->mover->params.stages;
    kvl_status_t status  = kvl_op_iov(op, 1);

    if (status != KVL_OK) {
        return status;
    }
    op->stage = kvl_stage_get(stages, cut->length);
    if (!op->stage) {
        return KVL_ERR_BUSY;
    }
    op->iov[0]    = (kvl_iov_t){op->stage, cut->length};
    op->iov_count = 1;
    op->mem       = stages->mems[op->endpoint->rail];
    return KVL_OK;
}

static kvl_status_t staged_copy(kvl_op_t *op, kvl_copy_dir_t dir)
{
    kvl_device_t *device = op->move->device;
    kvl_status_t status  = kvl_stage_copy(op->stage, &op->move->pieces[op->piece], op->piece_at, op->length, device, dir);

    if (status == KVL_OK) {
        status = kvl_fence_set(&op->fence, device, dir);
    }
    if (status != KVL_OK) {
        kvl_device_settle(device, dir); /* some may be under way, and nothing tells when they are over */
        return status;
    }
    op->waits |= KVL_OP_COPYING;
    kvl_list_push_back(&op->mover->copying, &op->link);
    return KVL_INPROGRESS;
}

kvl_status_t kvl_staged_put(kvl_op_t *op)
{
    return staged_copy(op, KVL_TO_HOST);
}

kvl_status_t kvl_staged_got(kvl_op_t *op, const void *data)
{
    kvl_status_t status;

    if (data) {
        memcpy(op->stage, data, op->length);
    }
    status = staged_copy(op, KVL_TO_DEVICE);
    return status == KVL_INPROGRESS ? KVL_OK : status;
}

/* The bytes of a put are in its stage: is there still somebody who wants them sent? */
static kvl_status_t put_is_wanted(const kvl_op_t *op)
{
    const kvl_mover_t *mover = op->mover;

    if (mover->stopped) {
        return mover->stop_status;
    }
    return op->move->status != KVL_OK || (mover->rails.off >> op->endpoint->rail & 1) ? KVL_ERR_CANCELED : KVL_OK;
}

unsigned kvl_staged_pump(kvl_mover_t *mover)
{
    kvl_list_t *node, *next;
    unsigned n = 0;

    for (node = mover->copying.next; node != &mover->copying; node = next) {
        kvl_op_t *op        = kvl_container(node, kvl_op_t, link);
        kvl_status_t status = kvl_fence_test(&op->fence);

        next = node->next;
        if (status == KVL_INPROGRESS) {
            continue;
        }
        n++;
        kvl_list_remove(&op->link);
        if (op->move->dir == KVL_MOVE_PUT && status == KVL_OK) {
            status = put_is_wanted(op);
        }
        if (op->move->dir == KVL_MOVE_PUT && status == KVL_OK) {
            op->waits = KVL_OP_SENDING;
            kvl_op_send(op);
        } else {
            kvl_op_back(op, KVL_OP_COPYING, status);
        }
    }
    return n;
}
