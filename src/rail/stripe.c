/* SPDX-License-Identifier: BSD-3-Clause */
#include "rail/spread.h"

/* Water into vessels: each rail's backlog is what it holds already, its weight how wide it is. The level
 * is the time at which all are done; a rail that would get less than the least piece gets none. */

typedef struct {
    unsigned rails[KVL_SPREAD_RAILS];
    double bytes[KVL_SPREAD_RAILS];
    unsigned count;
} cut_t;

static double cut_level(const kvl_spread_t *spread, const cut_t *cut, double length)
{
    double bytes = length, weight = 0;

    for (unsigned i = 0; i < cut->count; i++) {
        bytes += (double)spread->rails[cut->rails[i]].backlog_bytes;
        weight += kvl_spread_weight(spread, cut->rails[i]);
    }
    return bytes / weight;
}

/* Fills to the level; returns the place of the rail that gets the least. */
static unsigned cut_fill(const kvl_spread_t *spread, cut_t *cut, double length)
{
    double level   = cut_level(spread, cut, length);
    unsigned least = 0;

    for (unsigned i = 0; i < cut->count; i++) {
        cut->bytes[i] = level * kvl_spread_weight(spread, cut->rails[i]) -
                        (double)spread->rails[cut->rails[i]].backlog_bytes;
        if (cut->bytes[i] < cut->bytes[least]) {
            least = i;
        }
    }
    return least;
}

static void cut_remove(cut_t *cut, unsigned place)
{
    cut->count--;
    for (unsigned i = place; i < cut->count; i++) {
        cut->rails[i] = cut->rails[i + 1];
    }
}

/* for a value that stays whole: who is done with it first, and of those the one whose turn it is */
static unsigned cut_whole(const kvl_spread_t *spread, uint64_t length, kvl_stripe_t *stripe)
{
    unsigned rail = kvl_spread_pick(spread, UINT32_MAX, length, length);

    *stripe = (kvl_stripe_t){rail, 0, length};
    return rail != KVL_SPREAD_NONE;
}

unsigned kvl_spread_cut(const kvl_spread_t *spread, uint64_t length, uint64_t stripe_min,
                        uint64_t align, kvl_stripe_t stripes[KVL_SPREAD_RAILS])
{
    double piece_min = (double)stripe_min + (double)(align ? align : 1), end = 0;
    uint64_t offset = 0;
    cut_t cut       = {.count = 0};
    unsigned least;

    if (length == 0) {
        return 0;
    }
    for (unsigned i = 0; i < spread->count; i++) {
        if (spread->rails[i].on) {
            cut.rails[cut.count++] = i;
        }
    }
    if (cut.count <= 1 || length <= stripe_min) {
        return cut_whole(spread, length, stripes);
    }
    while ((least = cut_fill(spread, &cut, (double)length)),
           cut.count > 1 && cut.bytes[least] < piece_min) {
        cut_remove(&cut, least);
    }
    for (unsigned i = 0; i < cut.count; i++) {
        uint64_t next;

        end += cut.bytes[i];
        next =
            i + 1 == cut.count ? length : (uint64_t)end / (align ? align : 1) * (align ? align : 1);
        stripes[i] = (kvl_stripe_t){cut.rails[i], offset, next - offset};
        offset     = next;
    }
    return cut.count;
}
