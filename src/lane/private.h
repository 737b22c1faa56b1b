/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of src/lane share. */
#ifndef KVL_LANE_PRIVATE_H
#define KVL_LANE_PRIVATE_H

#include "lane/mover.h"

#define KVL_ENDPOINTS_MAX 128  /* bits of kvl_move.used */
#define KVL_OP_IOV_MAX    1025 /* pieces of one message-mode op: an item's segments, one of them cut */
#define KVL_OP_BLOCK      64   /* ops are made in blocks that never move: UCX holds their requests */
#define KVL_OP_BLOCKS     16
#define KVL_PACK_LIMIT    (1u << 20) /* longest op that is packed into one buffer */

typedef enum {
    KVL_MOVE_QUEUED,   /* in flow->moves, nothing posted */
    KVL_MOVE_ACTIVE,   /* ops posted; in flow->moves while some are left to post */
    KVL_MOVE_FLUSHING, /* in mover->flushing: all ops are back, endpoints are being flushed */
    KVL_MOVE_DONE      /* in mover->done: the next pump tells */
} kvl_move_state_t;

/* One request handed to UCP. A message-mode get (ask) is two: the request and the reply; it is over
 * when both are (the reply may come before UCX says that the request was sent). */
typedef struct {
    kvl_req_t req, recv_req;
    kvl_list_t link; /* in mover->idle_ops */
    kvl_mover_t *mover;
    kvl_move_t *move;
    kvl_endpoint_t *endpoint;
    uint32_t index, generation;
    bool used, ask, sending, receiving, landed;
    kvl_status_t status;
    size_t length;
    kvl_iov_t *iov; /* KVL_OP_IOV_MAX of them, made when first needed */
    size_t iov_count;
    const kvl_mem_t *mem; /* of a single piece; several may lie in several registrations */
    uint8_t *bounce; /* KVL_PACK_LIMIT bytes, made when first needed */
    kvl_iov_t bounce_iov;
    uint8_t head[KVL_DATA_HEAD_SIZE];
} kvl_op_t;

/* What the next op is: decided in sched.c, carried out in post.c. */
typedef struct {
    kvl_move_t *move;
    kvl_endpoint_t *endpoint;
} kvl_pick_t;

struct kvl_mover {
    kvl_mover_params_t params; /* constant after create */
    kvl_endpoint_t *endpoints[KVL_ENDPOINTS_MAX];
    unsigned endpoint_count, sg_count, sg_limit;
    unsigned next_endpoint; /* endpoints take turns */
    kvl_list_t flows;       /* with moves to post, in turn */
    kvl_list_t flushing, done;
    uint64_t flush_seq;
    kvl_op_t *blocks[KVL_OP_BLOCKS];
    unsigned block_count, ops_used;
    kvl_list_t idle_ops;
    bool stopped;
    kvl_status_t stop_status;
    kvl_mover_stats_t stats;
};

/* sched.c: pure */
bool kvl_sched_pick(kvl_mover_t *mover, kvl_pick_t *pick);

/* op.c */
kvl_op_t *kvl_op_get(kvl_mover_t *mover, kvl_move_t *move, kvl_endpoint_t *endpoint);
void kvl_op_end(kvl_op_t *op, kvl_status_t status);
kvl_op_t *kvl_op_at(kvl_mover_t *mover, uint32_t index);

/* rma.c, message.c: cut the next op off the move and hand it to UCX. KVL_OK: done already. */
kvl_status_t kvl_post_rma(kvl_op_t *op);
kvl_status_t kvl_post_message(kvl_op_t *op);
void kvl_ask_check(kvl_op_t *op);

/* mover.c */
void kvl_move_step(kvl_mover_t *mover, kvl_move_t *move);
void kvl_move_finish(kvl_mover_t *mover, kvl_move_t *move);

/* flush.c */
void kvl_flush_want(kvl_mover_t *mover, kvl_move_t *move);
unsigned kvl_flush_pump(kvl_mover_t *mover);
void kvl_flush_stop(kvl_mover_t *mover);

static inline bool kvl_move_is_posted(const kvl_move_t *move)
{
    return move->piece == move->piece_count || move->status != KVL_OK;
}

#endif
