/* SPDX-License-Identifier: BSD-3-Clause */
/* The scheduler of one link: takes moves (items whose lease is known), cuts them into ops, and keeps
 * endpoints busy within their credit, fairly between flows (batches). Engine thread only.
 *
 * Depth: at most `depth` moves are active at a time; ops of the sg lane under way on one rail are at
 * most min(depth, sg endpoints), at most ONE on each sg endpoint; a data endpoint has a window of
 * min(data_depth, depth). When fewer moves than depth are active, the ops of one move use
 * the idle sg endpoints (work conserving). Flows take turns op by op; a flow's moves go in order.
 *
 * A move is done when all its ops are done and, for onesided puts, every endpoint that carried one
 * was flushed after its last op. In message mode a put is done when UCX needs its memory no more:
 * whether the bytes arrived is for the target to say (COMMIT, XFER_FIN). */
#ifndef KVL_LANE_MOVER_H
#define KVL_LANE_MOVER_H

#include "base/config.h"
#include "lane/endpoint.h"
#include "mem/device.h"
#include "wire/wire.h"

typedef enum { KVL_MOVE_PUT, KVL_MOVE_GET } kvl_move_dir_t;
typedef enum { KVL_MODE_NONE, KVL_MODE_IS_ONESIDED, KVL_MODE_IS_MESSAGE } kvl_mode_t;

const char *kvl_mode_name(kvl_mode_t mode); /* "onesided", "message", "none" */

/* One contiguous local piece and where its first byte goes (comes from) within the remote region. */
typedef struct {
    void *address;
    size_t length;          /* > 0 */
    kvl_mem_t *const *mems; /* registrations by rail (kvl_region.mems) */
    uint64_t remote_offset; /* from the start of the remote region */
    kvl_device_t *device;   /* whose memory it is; NULL: host memory */
} kvl_piece_t;

/* A remote region as this link knows it: one per (region id), keys on each endpoint. */
typedef struct {
    uint32_t id;
    unsigned slot;     /* index into kvl_endpoint.rkeys: of its first slice, those of the others follow */
    uint64_t base[16]; /* remote address of its first byte, by rail */
    uint64_t length;
    uint64_t slice_bytes; /* of each slice but the last: one key each; 0: it has one */
    bool by_message; /* whatever the modes: UCX would emulate RMA for it */
} kvl_remote_region_t;

/* Fairness unit: a batch on this link. kvl_flow_init() before use; it must outlive its moves. */
typedef struct {
    kvl_list_t link;  /* in the scheduler, while it has moves to post */
    kvl_list_t moves; /* not fully posted, in order */
    uint64_t turn;    /* when it had its last turn */
} kvl_flow_lane_t;

typedef struct {
    kvl_flow_lane_t lanes[2]; /* data, sg */
    unsigned active;          /* moves that hold a depth slot */
} kvl_flow_t;
void kvl_flow_init(kvl_flow_t *flow);

typedef struct kvl_move kvl_move_t;
struct kvl_move {
    /* set by the submitter, constant until done */
    kvl_move_dir_t dir;
    kvl_lane_kind_t lane;      /* data or sg: kvl_lane_choose() */
    const kvl_piece_t *pieces; /* stay until done */
    size_t piece_count;
    kvl_device_t *device; /* of its pieces that are device memory; NULL: none is */
    const kvl_remote_region_t *remote;
    uint8_t scope;  /* message mode: 0 lease, 1 region: see kvl_data_head_t */
    uint64_t token; /* lease id or region id */
    uint32_t generation;
    uint64_t transfer;
    /* scope 0: remote_offset of the value's first byte; op offsets on the wire are relative to it */
    uint64_t value_offset;
    bool direct;   /* device memory goes without a stage, whatever is known of the rail: a self-test */
    unsigned only; /* on this rail + 1 and no other: its ops wait for no turn there; 0: on any */
    void (*done)(kvl_move_t *move, kvl_status_t status); /* once, never from submit or cancel */

    unsigned ops_total; /* ops posted so far: XFER_FIN and COMMIT tell the target */

    /* private to the mover */
    kvl_list_t link;
    kvl_flow_t *flow;
    size_t piece, piece_at; /* cursor: the first byte that is not posted */
    unsigned ops_out;       /* ops that are not back */
    uint64_t used[2];       /* endpoints with a onesided put that is not flushed: bit = place */
    uint64_t flush_seq;     /* a flush that started at or after this number covers it */
    uint64_t bytes, bytes_left; /* several rails: of it; ... not posted */
    bool landed_by_nic;         /* in device memory: what it brought is to be made seen */
    bool again;                 /* several rails: starts over when all its ops are back */
    kvl_status_t status;
    uint8_t state; /* kvl_move_state_t; 0: not in the mover */
};

typedef struct kvl_mover kvl_mover_t;
typedef struct kvl_stages kvl_stages_t; /* stage.h */

typedef struct {
    unsigned depth, data_depth; /* in force */
    uint64_t chunk_bytes;       /* longest op */
    kvl_mode_t put_mode, get_mode;
    bool gathers; /* onesided ops take many pieces, of any memory (shared memory) */
    bool ranges;  /* message mode, one rail: an op may have several ranges there */
    bool iov_is_fast;
    /* message gets: receive into a bounce buffer and copy, never straight into the caller's memory */
    bool recv_bounce;
    /* message mode: pieces up to this length (on average) are packed; KVL_PACK_AUTO: as iov_is_fast
     * says */
    uint64_t pack_max;
    /* several rails: numbers of endpoints' rails are below this; 0, 1: one, or whatever they say */
    unsigned rail_count;
    const uint64_t *speeds_mbits; /* by rail, 0: unknown; read at create */
    uint64_t stripe_min;          /* values over this are cut for several rails */
    /* device memory: what it goes through, and rails (bits, by device) that may reach it by themselves, onesided;
     * NULL: there is none */
    kvl_stages_t *stages;
    const uint32_t *direct;
} kvl_mover_params_t;

kvl_status_t kvl_mover_create(const kvl_mover_params_t *params, kvl_mover_t **mover_p);
void kvl_mover_destroy(kvl_mover_t *mover); /* no move may be left */
/* Adds a ready data or sg endpoint; its window is set here. */
kvl_status_t kvl_mover_add(kvl_mover_t *mover, kvl_endpoint_t *endpoint);

/* Several rails, src/lane/rails.c. off: nothing is posted there any more, what is lost there starts over
 * elsewhere; its endpoints are to be closed by force. idle: all of it is back. ready: its endpoints, which
 * are the same objects, may be used by moves for it alone; on: by all. A new mover's rails are on. */
void kvl_mover_rail_off(kvl_mover_t *mover, unsigned rail);
bool kvl_mover_rail_idle(const kvl_mover_t *mover, unsigned rail);
void kvl_mover_rail_ready(kvl_mover_t *mover, unsigned rail);
void kvl_mover_rail_on(kvl_mover_t *mover, unsigned rail);
/* Nothing new is posted there, what is under way goes on; quiet: all of it ended and is flushed. on: takes it back. */
void kvl_mover_rail_drain(kvl_mover_t *mover, unsigned rail);
bool kvl_mover_rail_quiet(const kvl_mover_t *mover, unsigned rail);
uint64_t kvl_mover_retries(const kvl_mover_t *mover, unsigned rail); /* moves that started over */
/* The PONG to an echo arrived; KVL_ERR_PROTOCOL if there is none under way. */
kvl_status_t kvl_mover_echoed(kvl_mover_t *mover, kvl_endpoint_t *endpoint, uint64_t number);

/* Queues a move; posting happens in kvl_mover_pump(). Cannot fail. */
void kvl_mover_submit(kvl_mover_t *mover, kvl_flow_t *flow, kvl_move_t *move);
/* Posts what credit allows and finishes what is over; returns the number of things done. Bounded:
 * at most some hundred ops a call, so that one turn of the engine stays short. */
unsigned kvl_mover_pump(kvl_mover_t *mover);
/* No more ops of this move; done fires with @a status (or with what failed it before) from a later
 * pump, once its ops are back (onesided puts: and flushed). A move that is over is left alone. */
void kvl_mover_cancel(kvl_mover_t *mover, kvl_move_t *move, kvl_status_t status);
/* The link is going down: no more posting on anything; each move's done fires with @a status once
 * its ops are back (the link force-closes the endpoints; no flush any more). */
void kvl_mover_stop(kvl_mover_t *mover, kvl_status_t status);
/* true if no op or flush is under way */
bool kvl_mover_idle(const kvl_mover_t *mover);
/* true if an op of @a move is under way (its memory may still be touched) or it waits for a flush */
bool kvl_move_busy(const kvl_move_t *move);

/* A KVL_AM_GET_REPLY arrived; head was decoded. Returns what the AM handler must return. An unknown
 * op or a wrong length is KVL_ERR_PROTOCOL: the link goes down. */
kvl_status_t kvl_mover_reply(kvl_mover_t *mover, kvl_endpoint_t *endpoint,
                             const kvl_data_head_t *head, const kvl_am_t *am);

/* Which lane an item takes (lane/policy.c):
 * KVLANE_SG=auto: sg for more than one segment after merging neighbours, and for any device memory
 * of more than one segment; data for one segment. always, never: as said (device memory of more
 * than one segment takes sg even then). */
kvl_lane_kind_t kvl_lane_choose(kvl_sg_policy_t policy, size_t segment_count, bool device_memory);
/* Merges pieces that are neighbours both here and there; returns the new count. */
size_t kvl_pieces_merge(kvl_piece_t *pieces, size_t count);

typedef struct {
    uint64_t puts, gets, bytes_put, bytes_got, flushes, errors;
    uint64_t staged, direct;     /* ops of device memory: through a stage; without one */
    unsigned active, queued;     /* moves that are not done; active: from the first op on */
    unsigned sg_out, sg_out_max; /* sg ops under way now, and at most */
} kvl_mover_stats_t;
void kvl_mover_stats(const kvl_mover_t *mover, kvl_mover_stats_t *stats_p);

#endif
