/* SPDX-License-Identifier: BSD-3-Clause */
/* A mover on the fake transport, local memory, and moves between the two. One stage at a time. */
#ifndef FAKE_LANE_STAGE_H
#define FAKE_LANE_STAGE_H

#include "fake/lane/transport.h"
#include "shim/shim.h"

#define STAGE_LOCAL  (512u << 10)
#define STAGE_PIECES 8192
#define STAGE_MOVES  512

typedef struct {
    kvl_move_t move;
    kvl_piece_t *pieces;
    size_t length;
    unsigned told; /* how often done() fired */
    kvl_status_t status;
} stage_move_t;

typedef struct {
    kvl_mover_params_t params;
    kvl_mover_t *mover;
    uint8_t *local;
    kvl_piece_t pieces[STAGE_PIECES];
    size_t piece_count;
    stage_move_t moves[STAGE_MOVES];
    unsigned move_count, told;
    size_t local_at, remote_at; /* memory that is not given out yet */
    kvl_flow_t flows[8];
    bool twice;   /* moves may start over: bytes may be put more than once */
    bool in_pump; /* done() fires from the pump alone */
} stage_t;

extern stage_t stage;

typedef struct {
    unsigned depth, data_depth, data, sg; /* numbers of endpoints */
    uint64_t chunk;
    kvl_mode_t mode; /* of both directions */
    unsigned rails;  /* each with these endpoints; 0: one */
    kvl_stages_t *stages; /* for device memory; NULL: there is none */
    const uint32_t *direct;
} stage_params_t;

void stage_start(stage_params_t params);
void stage_end(void);

/* A move of @a count pieces of @a length bytes, neighbours there, 16 bytes apart here. A put's bytes
 * differ from what the peer has; a get's memory too. */
stage_move_t *stage_move(kvl_move_dir_t dir, kvl_lane_kind_t lane, unsigned count, size_t length);
/* The same with any lengths; with holes the pieces lie apart there as well (scope 1). */
stage_move_t *stage_move_of(kvl_move_dir_t dir, kvl_lane_kind_t lane, const size_t *lengths,
                            unsigned count, bool holes);
void stage_submit(unsigned flow, stage_move_t *move);
/* Pumps until nothing happens; returns how much did. */
unsigned stage_pump(void);
/* Pumps, completes and answers until nothing is under way. */
void stage_settle(void);
void stage_check_moved(const stage_move_t *move); /* the same bytes here and there, put once */

static inline unsigned stage_active(void)
{
    kvl_mover_stats_t stats;

    kvl_mover_stats(stage.mover, &stats);
    return stats.active;
}

#endif
