/* SPDX-License-Identifier: BSD-3-Clause */
/* One endpoint: a ucp_ep that knows its lane, rail and owner for life, and its credit. Used by
 * both sides: a link (initiator) and a session (acceptor). Engine thread only. */
#ifndef KVL_LANE_ENDPOINT_H
#define KVL_LANE_ENDPOINT_H

#include "base/list.h"
#include "ucx/ucx.h"
#include "wire/wire.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum { KVL_LANE_CTRL, KVL_LANE_DATA, KVL_LANE_SG, KVL_LANE_COUNT } kvl_lane_kind_t;

const char *kvl_lane_name(kvl_lane_kind_t lane); /* "ctrl", "data", "sg" */

typedef struct kvl_endpoint kvl_endpoint_t;

/* What was done over an endpoint, or over a lane of a rail. Only ever grows. */
typedef struct {
    uint64_t posted;                      /* handed to UCX; ctrl: messages */
    uint64_t done, bytes;                 /* of these came back well; their bytes */
    uint64_t errors[KVL_GROUP_BATCH + 1]; /* came back otherwise: by what it costs (kvl_status_group_t) */
} kvl_op_counts_t;

static inline void kvl_op_counts_end(kvl_op_counts_t *counts, kvl_status_t status, uint64_t bytes)
{
    if (status == KVL_OK) {
        counts->done++;
        counts->bytes += bytes;
    } else {
        counts->errors[kvl_status_group(status)]++;
    }
}

static inline uint64_t kvl_op_counts_errors(const kvl_op_counts_t *counts)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i <= KVL_GROUP_BATCH; i++) {
        sum += counts->errors[i];
    }
    return sum;
}

/* What the owner (link or session) hears from the engine's workers. */
typedef struct {
    /* an active message arrived on this endpoint */
    kvl_status_t (*am)(kvl_endpoint_t *endpoint, const kvl_am_t *am);
    /* the connection is gone: note it, close later (not from here) */
    void (*failed)(kvl_endpoint_t *endpoint, kvl_status_t status);
} kvl_endpoint_ops_t;

struct kvl_endpoint {
    kvl_ep_t *ep;
    kvl_lane_kind_t lane;          /* constant after init */
    unsigned rail, index;          /* constant after init; index within lane and rail */
    const kvl_endpoint_ops_t *ops; /* constant after init */
    void *owner;                   /* constant after init */
    bool failed;                   /* nothing may be posted any more */
    bool shared_memory;            /* messages come through shared memory; false until it is known */

    /* credit: ops handed to UCP and not done (flush included on sg) <= window */
    unsigned window, outstanding;

    /* remote keys of this endpoint, by region slot of the peer */
    kvl_rkey_t **rkeys;
    unsigned rkey_count;

    /* private to the mover that it was added to (lane/private.h) */
    struct kvl_mover *mover;
    unsigned place;      /* constant after kvl_mover_add() */
    kvl_req_t flush_req; /* one flush at a time */
    bool flushing, flush_wanted;
    uint64_t flush_seq; /* of the flush under way: covers moves up to this number */
    /* several rails, message mode: a flush is an echo */
    unsigned echo_waits;                    /* KVL_ECHO_*, of the flush under way */
    uint64_t unacked_bytes, acking_bytes;   /* of puts: behind the last echo; before it */
    uint8_t echo[KVL_WIRE_HEAD_SIZE];       /* a PING, kept until it is sent */
    kvl_iov_t echo_iov;

    kvl_op_counts_t counts;
};

/* For kvl_ep_params_t.failed; arg is the kvl_endpoint_t: hands on to its owner. */
static inline void kvl_endpoint_failed(kvl_ep_t *ep, kvl_status_t status, void *arg)
{
    kvl_endpoint_t *endpoint = (kvl_endpoint_t *)arg;

    (void)ep;
    endpoint->ops->failed(endpoint, status);
}

#endif
