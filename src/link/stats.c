/* SPDX-License-Identifier: BSD-3-Clause */
#include "link/private.h"

#include <string.h>

/* What went over each rail. Endpoints and the mover count; a link outlives many of them, so what those that go have
 * counted is kept with the link. Engine thread only. */

static void counts_add(kvl_op_counts_t *sum, const kvl_op_counts_t *more)
{
    size_t i;

    sum->posted += more->posted;
    sum->done += more->done;
    sum->bytes += more->bytes;
    for (i = 0; i < sizeof(sum->errors) / sizeof(sum->errors[0]); i++) {
        sum->errors[i] += more->errors[i];
    }
}

void kvl_link_keep_line(kvl_link_t *link, const kvl_line_t *line)
{
    counts_add(&link->past[line->endpoint.rail].lanes[line->endpoint.lane], &line->endpoint.counts);
}

void kvl_link_keep_retries(kvl_link_t *link)
{
    unsigned rail;

    for (rail = 0; link->mover && rail < link->pair_count; rail++) {
        link->past[rail].retries += kvl_mover_retries(link->mover, rail);
    }
}

static kvl_lane_stat_t lane_stat(const kvl_link_t *link, unsigned rail, kvl_lane_kind_t lane)
{
    kvl_op_counts_t sum = link->past[rail].lanes[lane];
    unsigned i;

    for (i = 0; i < link->line_count; i++) {
        const kvl_endpoint_t *endpoint = &link->lines[i].endpoint;

        if (endpoint->rail == rail && endpoint->lane == lane) {
            counts_add(&sum, &endpoint->counts);
        }
    }
    return (kvl_lane_stat_t){.ops          = sum.posted,
                             .completions  = sum.done,
                             .bytes        = sum.bytes,
                             .errors_rail  = sum.errors[KVL_GROUP_RAIL],
                             .errors_peer  = sum.errors[KVL_GROUP_PEER],
                             .errors_item  = sum.errors[KVL_GROUP_ITEM],
                             .errors_batch = sum.errors[KVL_GROUP_BATCH]};
}

void kvl_link_rail_stat(const kvl_link_t *link, unsigned rail, kvl_rail_stat_t *stat_p)
{
    const kvl_pair_t *pair = &link->pairs[rail];
    kvl_rail_stat_t stat   = {.ups = pair->ups, .fails = pair->fails, .retries = link->past[rail].retries};

    snprintf(stat.name, sizeof(stat.name), "%.71s", kvl_engine_rail_name(link->engine, rail));
    snprintf(stat.peer, sizeof(stat.peer), "%.71s", pair->target_name);
    snprintf(stat.state, sizeof(stat.state), "%s",
             pair->state == KVL_PAIR_DOWN && pair->health.state == KVL_HEALTH_DRAINED ? kvl_health_name(KVL_HEALTH_DRAINED)
                                                                                      : kvl_pair_state_name(pair->state));
    stat.retries += link->mover ? kvl_mover_retries(link->mover, rail) : 0;
    stat.registrations = kvl_context_registrations(kvl_engine_context(link->engine, rail));
    stat.ctrl          = lane_stat(link, rail, KVL_LANE_CTRL);
    stat.data          = lane_stat(link, rail, KVL_LANE_DATA);
    stat.sg            = lane_stat(link, rail, KVL_LANE_SG);
    *stat_p            = stat;
}
