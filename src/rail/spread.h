/* SPDX-License-Identifier: BSD-3-Clause */
/* Which rail takes the next bytes. Pure: times come in; engine thread only.
 *
 *     kvl_spread_init(&spread, count, speeds_mbits);
 *     rail = kvl_spread_pick(&spread, room, bytes, pending);       // NONE: wait for a completion
 *     ... post ...
 *     kvl_spread_begin(&spread, rail, bytes, now);
 *     kvl_spread_end(&spread, rail, bytes, ok, now);               // when it is complete
 */
#ifndef KVL_RAIL_SPREAD_H
#define KVL_RAIL_SPREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KVL_SPREAD_RAILS 16
#define KVL_SPREAD_NONE  UINT32_MAX

typedef struct {
    double nominal; /* bytes/s, of its speed */
    double share;   /* of nominal that it was seen to carry, compared with the others: up to 1 */
    double rate;    /* measured, bytes/s; 0: not yet */
    double turn;    /* bytes that it was given, divided by its weight: the least has its turn */
    double passed;  /* seconds of work that others were given since its last */
    uint64_t backlog_bytes; /* begun and not ended */
    uint64_t bytes;         /* given to it ever */
    bool on;
    /* the measurement under way */
    int64_t window_at_ns, busy_at_ns;
    int64_t busy_ns;
    uint64_t window_bytes;
    unsigned window_ends;
} kvl_spread_rail_t;

typedef struct {
    unsigned count;
    kvl_spread_rail_t rails[KVL_SPREAD_RAILS];
} kvl_spread_t;

/* @a speeds_mbits: per rail, 0: unknown, which counts as the mean of the others; NULL: all equal.
 * @a count up to KVL_SPREAD_RAILS. All are on. */
void kvl_spread_init(kvl_spread_t *spread, unsigned count, const uint64_t *speeds_mbits);
/* Takes a rail out, or back in: it then has as many turns behind it as the others, and counts with
 * its full speed until it was measured anew. Ops that it had still end by kvl_spread_end(). */
void kvl_spread_set(kvl_spread_t *spread, unsigned rail, bool on);

/* The rail for an op of @a bytes among those in @a room (bit i: rail i has credit). @a pending_bytes:
 * all that waits to be posted, this op included. KVL_SPREAD_NONE: none has room, or those that have
 * would be done with the op after the others were done with everything: wait. One of the others then
 * has a backlog whose end is the time to ask again. Changes nothing. */
unsigned kvl_spread_pick(const kvl_spread_t *spread, uint32_t room, uint64_t bytes,
                         uint64_t pending_bytes);
/* The op was posted; was completed. @a ok false: it tells nothing of the rail's rate. */
void kvl_spread_begin(kvl_spread_t *spread, unsigned rail, uint64_t bytes, int64_t now_ns);
void kvl_spread_end(kvl_spread_t *spread, unsigned rail, uint64_t bytes, bool ok, int64_t now_ns);

/* bytes/s that the decision goes by; 0: off */
double kvl_spread_weight(const kvl_spread_t *spread, unsigned rail);

typedef struct {
    unsigned rail;
    uint64_t offset, length;
} kvl_stripe_t;

/* Cuts a value of @a length bytes into pieces for the rails that are on, so that all are done at the
 * same time, what they have to do already included. A piece has at least @a stripe_min bytes and begins
 * at a multiple of @a align (0: 1); a value of up to @a stripe_min is one piece. Returns the number of
 * pieces, in order of offset, 0 if no rail is on or there is nothing to cut. Changes nothing. */
unsigned kvl_spread_cut(const kvl_spread_t *spread, uint64_t length, uint64_t stripe_min,
                        uint64_t align, kvl_stripe_t stripes[KVL_SPREAD_RAILS]);

#endif
