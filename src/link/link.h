/* SPDX-License-Identifier: BSD-3-Clause */
/* A link: the initiator's side of one connection to a node or to another engine. It owns the ctrl,
 * data and sg endpoints of all rails, the handshake, the self-test, the choice of the mode, the
 * ctrl calls, the mover, and health (reset, backoff, reconnect). Engine thread only. */
#ifndef KVL_LINK_LINK_H
#define KVL_LINK_LINK_H

#include "base/clock.h"
#include "engine/engine.h"
#include "lane/mover.h"
#include "wire/wire.h"

typedef struct kvl_link kvl_link_t;

typedef enum {
    KVL_LINK_IDLE,       /* never opened, or closed by the peer at rest */
    KVL_LINK_CONNECTING, /* handshake, endpoints, self-test */
    KVL_LINK_UP,
    KVL_LINK_RESETTING,  /* no new work; waits until all is quiet */
    KVL_LINK_DOWN,       /* last attempt failed; pauses before the next (backoff) */
    KVL_LINK_CLOSED
} kvl_link_state_t;

const char *kvl_link_state_name(kvl_link_state_t state);

/* What the owner hears; never from inside one of his own calls into the link. */
typedef struct {
    void (*up)(kvl_link_t *link, void *arg); /* calls and moves are welcome */
    /* Quiet: every move and call was completed before. status is KVL_ERR_CANCELED for a reset that
     * this side asked for (work may be tried again at once: it waits for the reconnect), else a peer
     * or rail status; text is the cause. */
    void (*down)(kvl_link_t *link, kvl_status_t status, const char *text, void *arg);
} kvl_link_ops_t;

typedef struct {
    kvl_engine_t *engine;
    const char *address; /* "host:port"; copied */
    bool transport;      /* engine to engine */
    const kvl_link_ops_t *ops;
    void *arg;
} kvl_link_params_t;

kvl_status_t kvl_link_create(const kvl_link_params_t *params, kvl_link_t **link_p);
/* Ends everything: moves and calls complete with KVL_ERR_CANCELED, then closed() fires once, never
 * from inside; the link may be destroyed in it. */
void kvl_link_close(kvl_link_t *link, void (*closed)(kvl_link_t *link, void *arg), void *arg);
void kvl_link_destroy(kvl_link_t *link); /* closed, or never opened; NULL is accepted */

kvl_link_state_t kvl_link_state(const kvl_link_t *link);
/* KVL_OK: up. KVL_INPROGRESS: connecting (started if need be): up() or down() follows. Anything
 * else: known to be down, fail fast; kvl_link_cause() says why. */
kvl_status_t kvl_link_want(kvl_link_t *link);
const char *kvl_link_cause(const kvl_link_t *link);
const char *kvl_link_address(const kvl_link_t *link);

/* Counters of our @a rail (kvl_engine_rails() of them) to this peer; in any state. stats.c */
void kvl_link_rail_stat(const kvl_link_t *link, unsigned rail, kvl_rail_stat_t *stat_p);

/* In force; valid while up. */
const kvl_hello_ok_t *kvl_link_terms(const kvl_link_t *link);
kvl_mover_t *kvl_link_mover(kvl_link_t *link);
/* The peer's region by id, NULL if unknown: a protocol error of the peer if it named it. */
const kvl_remote_region_t *kvl_link_region(const kvl_link_t *link, uint32_t id);
/* Adds a region that the peer exported (transport), given its slices: keys are unpacked on every endpoint. */
kvl_status_t kvl_link_import(kvl_link_t *link, const kvl_wire_region_t *slices, size_t count,
                             const kvl_remote_region_t **region_p);
void kvl_link_forget(kvl_link_t *link, const kvl_remote_region_t *region);
void kvl_link_info(const kvl_link_t *link, char transport[64], kvl_mode_t *put_p, kvl_mode_t *get_p);

/* A request on the ctrl lane. Embedded in the caller's object; the message is built in a buffer of
 * the link by the caller: kvl_link_call_begin() gives the writer, kvl_link_call_send() sends. */
typedef struct kvl_call kvl_call_t;
struct kvl_call {
    /* For every answer message (head->status and body; body NULL if the call failed as a whole:
     * head->status says how: KVL_ERR_TIMEOUT, KVL_ERR_PEER, KVL_ERR_CANCELED, or what a REFUSE
     * carried). Returns true when the call is over (ignored when it failed: then it is over).
     * A body that makes no sense: call kvl_link_protocol_error() and return true. */
    bool (*answer)(kvl_call_t *call, const kvl_msg_head_t *head, kvl_rbuf_t *body);
    /* private to the link */
    kvl_list_t link;
    uint64_t request;
    kvl_timer_t timer;
    kvl_link_t *owner;
    bool sent_once; /* true if its bytes were handed to UCX: a commit without answer is ambiguous */
};

/* Only while up. NULL if no buffer could be had (KVL_ERR_NO_MEMORY). One at a time: begin, add
 * items, then send or drop. */
kvl_wbuf_t *kvl_link_call_begin(kvl_link_t *link);
/* ... for a message of up to @a size bytes: a KVL_MSG_XFER_FIN may be longer than KVL_WIRE_MAX. */
kvl_wbuf_t *kvl_link_call_begin_size(kvl_link_t *link, size_t size);
/* Sends with an absolute deadline. call NULL: no answer wanted. Submit contract: KVL_INPROGRESS, or
 * a final status and answer() never fires. */
kvl_status_t kvl_link_call_send(kvl_link_t *link, kvl_msg_type_t type, kvl_call_t *call,
                                int64_t deadline_ns);
void kvl_link_call_drop(kvl_link_t *link);
/* Gives up on a call under way: answer() will not fire. */
void kvl_link_call_end(kvl_link_t *link, kvl_call_t *call);

/* The peer made no sense: logs, counts, resets the link with KVL_ERR_PROTOCOL. */
void kvl_link_protocol_error(kvl_link_t *link, const char *what);
/* This side gives up on ops under way (deadline, cancel): force-closes everything, waits until quiet,
 * completes all moves and calls with KVL_ERR_CANCELED, calls down(KVL_ERR_CANCELED), reconnects. */
void kvl_link_reset(kvl_link_t *link, const char *why);

#endif
