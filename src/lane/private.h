/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of src/lane share. */
#ifndef KVL_LANE_PRIVATE_H
#define KVL_LANE_PRIVATE_H

#include "lane/sched.h"
#include "rail/spread.h"

/* A buffer that pieces are packed into, or received into and then copied. */
typedef struct {
    kvl_list_t link; /* in the pool, while idle */
    size_t size;
    uint8_t data[];
} kvl_bounce_t;

typedef struct {
    kvl_list_t idle;
    uint64_t bytes, bytes_max; /* idle and busy */
    unsigned busy;
} kvl_bounces_t;

/* What an op waits for; it is over when there is nothing left. One word, so that the CPU need not wait for
 * the stores before it (of a put's bytes, often) to read it back. */
enum {
    KVL_OP_SENDING   = 1, /* its request is at UCP */
    KVL_OP_ASKED     = 2, /* a get of message mode: the reply has not come */
    KVL_OP_RECEIVING = 4, /* the reply's bytes are on their way */
    KVL_OP_COPYING   = 8  /* its bytes are between device memory and its stage (staged.c) */
};

typedef struct {
    kvl_req_t req, recv_req;
    kvl_list_t link;          /* in mover->idle_ops[place], or copying */
    kvl_mover_t *mover;       /* constant after create */
    kvl_endpoint_t *endpoint; /* constant after create */
    uint32_t index;           /* constant after create; among the ops of its endpoint */
    uint32_t generation;      /* tells a late reply from a right one */
    kvl_move_t *move;         /* NULL: idle */
    unsigned waits;
    bool refused; /* by the peer, in words: the connection is well */
    kvl_status_t status;
    size_t length;
    kvl_iov_t *iov; /* the caller's pieces, or the bounce */
    size_t iov_count, iov_capacity;
    kvl_iov_t *pieces; /* with a bounce that is received into: where the bytes go then */
    size_t piece_count;
    const kvl_mem_t *mem;
    kvl_bounce_t *bounce;
    bool message;   /* else onesided */
    uint64_t remote_offset;
    unsigned ranges;        /* as of its cut */
    size_t piece, piece_at; /* its first byte, in the move */
    uint8_t *stage;         /* NULL: goes without */
    kvl_fence_t fence;
    uint8_t head[KVL_DATA_HEAD_MAX];
} kvl_op_t;

/* several rails (rails.c) */
typedef struct {
    bool several, echoes; /* constant after create */
    bool echo_due;        /* a large value is to be measured before its end */
    uint32_t off;         /* rails that post nothing: their ops are lost */
    uint64_t pending_bytes;
    uint64_t retries[KVL_RAILS];
    kvl_spread_t spread;
} kvl_rails_t;

enum { KVL_ECHO_SENDING = 1, KVL_ECHO_ASKED = 2 };

struct kvl_mover {
    kvl_mover_params_t params; /* constant after create */
    kvl_sched_t sched;
    kvl_list_t draining, flushing, over; /* moves by state */
    kvl_list_t copying;                  /* ops */
    unsigned over_count;
    kvl_op_t *ops[KVL_ENDPOINTS_MAX]; /* by place: one for each unit of credit */
    unsigned op_count[KVL_ENDPOINTS_MAX];
    kvl_list_t idle_ops[KVL_ENDPOINTS_MAX];
    unsigned ops_out, flushes_out;
    kvl_bounces_t bounces;
    kvl_rails_t rails;
    uint64_t flush_seq;
    bool stopped;
    kvl_status_t stop_status;
    kvl_mover_stats_t stats;
};

/* ---- op.c ---- */
kvl_status_t kvl_ops_create(kvl_mover_t *mover, kvl_endpoint_t *endpoint);
void kvl_ops_destroy(kvl_mover_t *mover);
/* The endpoint has credit, so it has an idle op. */
kvl_op_t *kvl_op_get(kvl_mover_t *mover, kvl_endpoint_t *endpoint, kvl_move_t *move);
/* Room for @a count pieces in op->iov. KVL_ERR_NO_MEMORY. */
kvl_status_t kvl_op_iov(kvl_op_t *op, size_t count);
/* Nothing of it was posted. */
void kvl_op_drop(kvl_op_t *op);
/* What it waited for (KVL_OP_*) came back: @a status counts, and ends the op if that was the last. */
void kvl_op_back(kvl_op_t *op, unsigned what, kvl_status_t status);
/* Its request is over; onesided, so are its bytes. */
void kvl_op_sent(kvl_op_t *op, kvl_status_t status);
/* The busy op that a reply names; NULL if there is none on this endpoint. */
kvl_op_t *kvl_op_find(kvl_mover_t *mover, const kvl_endpoint_t *endpoint, uint64_t number);
uint64_t kvl_op_number(const kvl_op_t *op);

/* What is asked on the endpoint at @a place is never answered. */
void kvl_ops_forget(kvl_mover_t *mover, unsigned place, kvl_status_t status);

/* ---- rails.c: not called with one rail, but for init ---- */
void kvl_rails_init(kvl_mover_t *mover);
void kvl_rails_submit(kvl_mover_t *mover, kvl_move_t *move);
void kvl_rails_over(kvl_mover_t *mover, kvl_move_t *move);
uint64_t kvl_rails_chunk(const kvl_mover_t *mover, const kvl_move_t *move);
kvl_endpoint_t *kvl_rails_endpoint(kvl_mover_t *mover, const kvl_move_t *move, uint64_t bytes);
void kvl_rails_posted(kvl_op_t *op);
bool kvl_rails_back(kvl_op_t *op);
void kvl_rails_end(kvl_mover_t *mover, const kvl_endpoint_t *endpoint, uint64_t bytes, bool ok);
void kvl_rails_again(kvl_mover_t *mover, kvl_move_t *move, unsigned rail);
bool kvl_rails_rewind(kvl_mover_t *mover, kvl_move_t *move);

/* ---- rma.c, message.c ---- prepare: what was cut. KVL_ERR_BUSY: every bounce buffer is in use. post: INPROGRESS:
 * kvl_op_back() follows; else it is over. */
kvl_status_t kvl_rma_prepare(kvl_op_t *op, const kvl_cut_t *cut);
kvl_status_t kvl_rma_post(kvl_op_t *op);
kvl_status_t kvl_message_prepare(kvl_op_t *op, const kvl_cut_t *cut);
kvl_status_t kvl_message_post(kvl_op_t *op);

/* ---- staged.c ---- in the place of the others' prepare. */
kvl_status_t kvl_staged_prepare(kvl_op_t *op, const kvl_cut_t *cut);
/* Starts the copy of a put: KVL_INPROGRESS, kvl_op_send() follows. */
kvl_status_t kvl_staged_put(kvl_op_t *op);
/* The bytes of a get are in the stage, or at @a data: they are copied on, before kvl_op_back() for what brought them. */
kvl_status_t kvl_staged_got(kvl_op_t *op, const void *data);
unsigned kvl_staged_pump(kvl_mover_t *mover); /* the number of ops whose copy is over */

/* ---- bounce.c ---- */
void kvl_bounces_init(kvl_bounces_t *bounces, uint64_t bytes_max);
void kvl_bounces_cleanup(kvl_bounces_t *bounces); /* none is busy */
/* KVL_ERR_BUSY: wait until one is put back. KVL_ERR_NO_MEMORY: none ever will. */
kvl_status_t kvl_bounce_get(kvl_bounces_t *bounces, size_t size, kvl_bounce_t **bounce_p);
void kvl_bounce_put(kvl_bounces_t *bounces, kvl_bounce_t *bounce);

/* ---- flush.c ---- */
/* Its ops are back; it is FLUSHING. */
void kvl_flush_want(kvl_mover_t *mover, kvl_move_t *move);
unsigned kvl_flush_pump(kvl_mover_t *mover);
/* The echo under way there is never answered. */
void kvl_echo_forget(kvl_endpoint_t *endpoint, kvl_status_t status);

/* ---- mover.c ---- */
/* Hands it to UCX. What becomes of it is for kvl_op_back() in any case. */
void kvl_op_send(kvl_op_t *op);
/* An op is back, or the move failed or was canceled: on to its next state, if it is time. */
void kvl_move_step(kvl_mover_t *mover, kvl_move_t *move);
void kvl_move_over(kvl_mover_t *mover, kvl_move_t *move);

static inline void kvl_move_use(kvl_move_t *move, unsigned place)
{
    move->used[place / 64] |= UINT64_C(1) << place % 64;
}

static inline bool kvl_move_needs_flush(const kvl_move_t *move)
{
    return move->used[0] || move->used[1];
}

#endif
