/* SPDX-License-Identifier: BSD-3-Clause */
#include "rail/spread.h"

#include <math.h>

/* Turns, as in weighted fair queueing: a rail's turn grows by what it is given divided by its weight,
 * and the least has the next op; so bytes are in proportion to the weights also when ops complete at
 * once. But a rail that would still be at the op when all others are done with everything that waits
 * (the horizon) does not get it: that is how a slow rail would hold a batch back. Where little waits at a
 * time that would be never, and nobody would see a slow rail recover: once in a while it has an op anyway.
 *
 * A weight is the rail's speed times the share of it that it is seen to carry, compared with the best
 * rail. The weight is a bit more than what was measured: a rail that can do more will then show it, and
 * one that cannot is held by its credit. What is close to the best counts as equal, so that noise does
 * not unbalance equal rails. */

#define WINDOW_NS   INT64_C(10000000) /* busy time that a measurement takes */
#define WINDOW_ENDS 4                 /* completions, at least */
#define BUSY        0.9               /* of a window: the rail was the limit, not the caller */
#define GAIN        1.125             /* weight over measurement */
#define EQUAL       0.8               /* from this share on it counts as 1 */
#define SHARE_MIN   (1.0 / 64)        /* it gets a bit, or nobody would see it recover */
#define LAG_MAX     0.05              /* seconds of turns that a rail may be behind */
#define PASSED_MAX  1.0               /* seconds of others' work after which an idle rail has some, late or not */
#define ANY_SPEED   1e9

static double greater(double a, double b)
{
    return a > b ? a : b;
}

static double lesser(double a, double b)
{
    return a < b ? a : b;
}

void kvl_spread_init(kvl_spread_t *spread, unsigned count, const uint64_t *speeds_mbits)
{
    double sum     = 0, mean;
    unsigned known = 0;

    *spread = (kvl_spread_t){.count = count < KVL_SPREAD_RAILS ? count : KVL_SPREAD_RAILS};
    for (unsigned i = 0; speeds_mbits && i < spread->count; i++) {
        sum += (double)speeds_mbits[i] * 125000;
        known += speeds_mbits[i] > 0;
    }
    mean = known ? sum / known : ANY_SPEED;
    for (unsigned i = 0; i < spread->count; i++) {
        kvl_spread_rail_t *rail = &spread->rails[i];

        rail->nominal = speeds_mbits && speeds_mbits[i] ? (double)speeds_mbits[i] * 125000 : mean;
        rail->share   = 1;
        rail->on      = true;
    }
}

double kvl_spread_weight(const kvl_spread_t *spread, unsigned rail)
{
    return spread->rails[rail].on ? spread->rails[rail].nominal * spread->rails[rail].share : 0;
}

static double spread_turn(const kvl_spread_t *spread, bool most)
{
    double turn = most ? 0 : INFINITY;

    for (unsigned i = 0; i < spread->count; i++) {
        if (spread->rails[i].on) {
            turn =
                most ? greater(turn, spread->rails[i].turn) : lesser(turn, spread->rails[i].turn);
        }
    }
    return turn;
}

void kvl_spread_set(kvl_spread_t *spread, unsigned rail, bool on)
{
    double least;

    if (spread->rails[rail].on == on) {
        return;
    }
    least                     = spread_turn(spread, false);
    spread->rails[rail].on    = on;
    spread->rails[rail].rate  = 0; /* what was wrong with it tells nothing of what it is now */
    spread->rails[rail].share  = 1;
    spread->rails[rail].passed = 0;
    if (on && isfinite(least)) {
        spread->rails[rail].turn = greater(spread->rails[rail].turn, least);
    }
}

/* ---- one op ---- */

/* seconds until the rail would be done with @a bytes more */
static double rail_finish(const kvl_spread_t *spread, unsigned rail, double bytes)
{
    return ((double)spread->rails[rail].backlog_bytes + bytes) / kvl_spread_weight(spread, rail);
}

/* seconds until all would be done with everything, if it could be cut as one likes; no less than the op
 * takes on the rail that is done with it first */
static double spread_horizon(const kvl_spread_t *spread, uint32_t room, double bytes,
                             double pending)
{
    double backlog = 0, weight = 0, first = INFINITY;

    for (unsigned i = 0; i < spread->count; i++) {
        bool moves = (room >> i & 1) || spread->rails[i].backlog_bytes > 0;

        if (spread->rails[i].on && moves) {
            backlog += (double)spread->rails[i].backlog_bytes;
            weight += kvl_spread_weight(spread, i);
            first = lesser(first, rail_finish(spread, i, bytes));
        }
    }
    return greater(first, (backlog + greater(pending, bytes)) / weight);
}

static bool rail_is_forgotten(const kvl_spread_rail_t *rail)
{
    return rail->backlog_bytes == 0 && rail->passed > PASSED_MAX;
}

unsigned kvl_spread_pick(const kvl_spread_t *spread, uint32_t room, uint64_t bytes,
                         uint64_t pending_bytes)
{
    unsigned best = KVL_SPREAD_NONE;
    double horizon;

    if (spread->count == 1) {
        return (room & 1) && spread->rails[0].on ? 0 : KVL_SPREAD_NONE;
    }
    horizon = spread_horizon(spread, room, (double)bytes, (double)pending_bytes);
    for (unsigned i = 0; i < spread->count; i++) {
        if (!spread->rails[i].on || !(room >> i & 1)) {
            continue;
        }
        if (rail_is_forgotten(&spread->rails[i])) {
            return i;
        }
        if (rail_finish(spread, i, (double)bytes) > horizon) {
            continue;
        }
        if (best == KVL_SPREAD_NONE || spread->rails[i].turn < spread->rails[best].turn) {
            best = i;
        }
    }
    return best;
}

void kvl_spread_begin(kvl_spread_t *spread, unsigned rail, uint64_t bytes, int64_t now_ns)
{
    kvl_spread_rail_t *mine = &spread->rails[rail];
    double weight           = kvl_spread_weight(spread, rail), least;
    double takes            = mine->rate > 0 ? (double)bytes / mine->rate : 0;

    if (mine->backlog_bytes == 0) {
        mine->busy_at_ns = now_ns;
    }
    mine->backlog_bytes += bytes;
    mine->bytes += bytes;
    if (weight > 0) {
        mine->turn += (double)bytes / weight;
    }
    for (unsigned i = 0; i < spread->count; i++) {
        spread->rails[i].passed = i == rail ? 0 : spread->rails[i].passed + takes;
    }
    least = spread_turn(spread, true) - LAG_MAX;
    for (unsigned i = 0; i < spread->count; i++) {
        spread->rails[i].turn = greater(spread->rails[i].turn, least);
    }
}

/* ---- measurement ---- */

static double spread_best(const kvl_spread_t *spread)
{
    double best = 0;

    for (unsigned i = 0; i < spread->count; i++) {
        if (spread->rails[i].on) {
            best = greater(best, spread->rails[i].rate / spread->rails[i].nominal);
        }
    }
    return best;
}

static void spread_share(kvl_spread_t *spread)
{
    double best = spread_best(spread);

    for (unsigned i = 0; i < spread->count; i++) {
        kvl_spread_rail_t *rail = &spread->rails[i];

        if (rail->rate > 0 && best > 0) {
            double share = GAIN * rail->rate / rail->nominal / best;

            rail->share = share >= EQUAL ? 1 : greater(share, SHARE_MIN);
        }
    }
}

/* A rail that was busy throughout showed what it can do. One that was not could do more. */
static void rail_measure(kvl_spread_t *spread, kvl_spread_rail_t *rail, int64_t now_ns)
{
    double busy   = (double)rail->busy_ns;
    double sample = (double)rail->window_bytes / (busy / 1e9);

    if (rail->rate <= 0) {
        rail->rate = sample;
    } else if (busy >= BUSY * (double)(now_ns - rail->window_at_ns)) {
        rail->rate = (rail->rate + sample) / 2;
    } else {
        double best = spread_best(spread) * rail->nominal;

        rail->rate = lesser(greater(sample, rail->rate * GAIN), greater(best, rail->rate));
    }
    rail->window_at_ns = now_ns;
    rail->busy_ns      = 0;
    rail->window_bytes = 0;
    rail->window_ends  = 0;
    spread_share(spread);
}

void kvl_spread_end(kvl_spread_t *spread, unsigned rail_index, uint64_t bytes, bool ok,
                    int64_t now_ns)
{
    kvl_spread_rail_t *rail = &spread->rails[rail_index];

    if (rail->backlog_bytes > 0 && now_ns > rail->busy_at_ns) {
        rail->busy_ns += now_ns - rail->busy_at_ns;
        rail->busy_at_ns = now_ns;
    }
    rail->backlog_bytes -= bytes < rail->backlog_bytes ? bytes : rail->backlog_bytes;
    if (ok) {
        rail->window_bytes += bytes;
        rail->window_ends++;
    }
    if (rail->busy_ns >= WINDOW_NS && rail->window_ends >= WINDOW_ENDS) {
        rail_measure(spread, rail, now_ns);
    }
}
