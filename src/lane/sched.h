/* SPDX-License-Identifier: BSD-3-Clause */
/* The mover's decisions, without UCX and without a clock: which flow has its turn, which move gets a
 * depth slot, which endpoint carries the op (sched.c); where an op begins and ends, and how its bytes
 * travel (cut.c). */
#ifndef KVL_LANE_SCHED_H
#define KVL_LANE_SCHED_H

#include "lane/mover.h"

#define KVL_ENDPOINTS_MAX 128 /* bits of kvl_move.used */
#define KVL_DEPTH_MAX     256
#define KVL_RAILS         16
#define KVL_IOV_MAX       1024 /* pieces of one op that travel as they lie; more are packed */

typedef enum {
    KVL_MOVE_NONE,     /* not in the mover */
    KVL_MOVE_QUEUED,   /* in its flow; holds no depth slot, nothing of it is posted */
    KVL_MOVE_POSTING,  /* at the head of its flow; holds a slot, from here to OVER */
    KVL_MOVE_DRAINING, /* in mover->draining: nothing left to post, waits for its ops */
    KVL_MOVE_FLUSHING, /* in mover->flushing: all ops are back, waits for flushes of its endpoints */
    KVL_MOVE_OVER      /* in mover->over: the next pump tells */
} kvl_move_state_t;

typedef struct {
    unsigned depth;          /* constant after init */
    unsigned active, queued; /* moves with and without a slot */
    uint64_t clock;          /* counts turns */
    kvl_list_t *waiting[2];  /* by lane and number of active moves of the flow: head is QUEUED */
    kvl_list_t posting[2];   /* by lane: flows whose head is POSTING, the longest wait first */
    kvl_endpoint_t *endpoints[KVL_ENDPOINTS_MAX];
    unsigned endpoint_count;
    bool echoes; /* flushes take no credit */
    unsigned last[2];             /* by lane: place of the endpoint that was chosen last */
    unsigned sg_count[KVL_RAILS]; /* sg endpoints of a rail, and sg ops under way on it */
    unsigned sg_out[KVL_RAILS];
} kvl_sched_t;

kvl_status_t kvl_sched_init(kvl_sched_t *sched, unsigned depth);
void kvl_sched_cleanup(kvl_sched_t *sched);
/* Sets the endpoint's place. */
kvl_status_t kvl_sched_add(kvl_sched_t *sched, kvl_endpoint_t *endpoint);

/* ---- moves ---- */
void kvl_sched_submit(kvl_sched_t *sched, kvl_flow_t *flow, kvl_move_t *move);
/* The move whose op comes next on @a lane, NULL if none; changes nothing. It is POSTING, or QUEUED:
 * then kvl_sched_begin() gives it its slot. */
kvl_move_t *kvl_sched_turn(const kvl_sched_t *sched, kvl_lane_kind_t lane);
void kvl_sched_begin(kvl_sched_t *sched, kvl_move_t *move);
/* Its flow had a turn: all others come before its next one. */
void kvl_sched_had_turn(kvl_sched_t *sched, kvl_move_t *move);
/* Takes a QUEUED or POSTING move out of its flow; a slot stays taken. */
void kvl_sched_remove(kvl_sched_t *sched, kvl_move_t *move);
/* A removed move that still has its slot posts again, before the others of its flow. */
void kvl_sched_return(kvl_sched_t *sched, kvl_move_t *move);
/* A POSTING move with a put on @a rail that is not flushed and that does not start over; NULL if none. */
kvl_move_t *kvl_sched_posting(const kvl_sched_t *sched, unsigned rail);
/* Gives the slot of a removed move back. */
void kvl_sched_release(kvl_sched_t *sched, kvl_move_t *move);
/* Any move that is QUEUED or POSTING, NULL if none. */
kvl_move_t *kvl_sched_any(const kvl_sched_t *sched);

/* ---- endpoints ---- */
/* rails (bits) that have an endpoint with credit for the next op of @a move */
uint32_t kvl_sched_room(const kvl_sched_t *sched, const kvl_move_t *move);
#define KVL_RAILS_ALL UINT32_MAX
/* The endpoint on one of @a rails for the next op of @a move, NULL if none has credit. A move whose ops complete at once
 * stays on one sg endpoint, which saves flushes; one whose ops take time spreads over the idle ones. */
kvl_endpoint_t *kvl_sched_endpoint(kvl_sched_t *sched, const kvl_move_t *move, uint32_t rails);
/* An op takes its credit, and gives it back. */
void kvl_sched_take(kvl_sched_t *sched, kvl_endpoint_t *endpoint);
void kvl_sched_give(kvl_sched_t *sched, kvl_endpoint_t *endpoint);

/* ---- ops (cut.c) ---- */
/* The next op of a move: its bytes, and where the cursor goes. */
typedef struct {
    size_t count;  /* pieces that it touches, from the cursor on */
    size_t length; /* bytes */
    uint64_t remote_offset;
    size_t piece, piece_at; /* cursor after it */
    unsigned ranges;        /* 0: contiguous there; else each of its pieces is a range */
} kvl_cut_t;

typedef enum {
    KVL_CARRY_STRAIGHT, /* one contiguous range, as it lies */
    KVL_CARRY_IOV,      /* several, as they lie */
    KVL_CARRY_PACK      /* through a bounce buffer */
} kvl_carry_t;

/* A range that is contiguous there, and here too unless @a gather. At most @a chunk_bytes, and with
 * scope 0 never across a multiple of it from value_offset. No piece of it lies in two slices of a registration,
 * here or there. The move has bytes left. */
void kvl_cut_next(const kvl_move_t *move, kvl_mode_t mode, bool gather, uint64_t chunk_bytes,
                  kvl_cut_t *cut);
/* Message mode, scope 1: more small pieces in one op than kvl_cut_next() found to lie in a row there. Changes
 * @a cut if that makes the op longer. */
void kvl_cut_ranges(const kvl_move_t *move, kvl_cut_t *cut);
/* @a mem: what kvl_cut_mem() says */
kvl_carry_t kvl_cut_carry(const kvl_mover_params_t *params, kvl_move_dir_t dir,
                          const kvl_cut_t *cut, const kvl_mem_t *mem);
/* Fills iov with the cut's pieces, @a cut->count of them. */
void kvl_cut_iov(const kvl_move_t *move, const kvl_cut_t *cut, kvl_iov_t *iov);
/* Registration that covers all of the cut on @a rail, NULL if there is not one. */
const kvl_mem_t *kvl_cut_mem(const kvl_move_t *move, const kvl_cut_t *cut, unsigned rail);

static inline unsigned kvl_lane_index(kvl_lane_kind_t lane)
{
    return lane == KVL_LANE_SG;
}

static inline bool kvl_move_is_posted(const kvl_move_t *move)
{
    return move->piece == move->piece_count || move->status != KVL_OK || move->again;
}

static inline bool kvl_move_uses(const kvl_move_t *move, unsigned place)
{
    return move->used[place / 64] >> place % 64 & 1;
}

#endif
