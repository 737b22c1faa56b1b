/* SPDX-License-Identifier: BSD-3-Clause */
#include "lane/private.h"

/* The decision: which flow's move gets the next op, and on which endpoint. No UCX, no clock.
 *
 * Flows take turns op by op. A flow posts its moves in order; a move that was not begun needs one of
 * `depth` places, which goes to the flow that has the fewest, so that a small batch gets in while a
 * large one is under way. An sg op needs an idle sg endpoint and one of min(depth, sg endpoints)
 * places; a data op needs a data endpoint with credit. */

static bool endpoint_fits(const kvl_endpoint_t *endpoint, kvl_lane_kind_t lane)
{
    return endpoint->lane == lane && !endpoint->failed && endpoint->outstanding < endpoint->window;
}

/* the next in turn, so that all of them are used and none twice while another is idle */
static kvl_endpoint_t *sched_endpoint(kvl_mover_t *mover, kvl_lane_kind_t lane)
{
    unsigned i;

    if (lane == KVL_LANE_SG && mover->stats.sg_out >= mover->sg_limit) {
        return NULL;
    }
    for (i = 0; i < mover->endpoint_count; i++) {
        unsigned place           = (mover->next_endpoint + i) % mover->endpoint_count;
        kvl_endpoint_t *endpoint = mover->endpoints[place];

        if (endpoint_fits(endpoint, lane)) {
            mover->next_endpoint = (place + 1) % mover->endpoint_count;
            return endpoint;
        }
    }
    return NULL;
}

static kvl_move_t *flow_head(const kvl_flow_t *flow)
{
    return kvl_container(flow->moves.next, kvl_move_t, link);
}

/* may a move of this flow that was not begun get a place? */
static bool sched_admits(const kvl_mover_t *mover, const kvl_flow_t *flow)
{
    const kvl_list_t *node;

    if (mover->stats.active >= mover->params.depth) {
        return false;
    }
    for (node = mover->flows.next; node != &mover->flows; node = node->next) {
        const kvl_flow_t *other = kvl_container(node, kvl_flow_t, link);

        if (other->active < flow->active && flow_head(other)->state == KVL_MOVE_QUEUED) {
            return false;
        }
    }
    return true;
}

bool kvl_sched_pick(kvl_mover_t *mover, kvl_pick_t *pick)
{
    kvl_list_t *node;

    for (node = mover->flows.next; node != &mover->flows; node = node->next) {
        kvl_flow_t *flow = kvl_container(node, kvl_flow_t, link);
        kvl_move_t *move = flow_head(flow);

        if (move->state == KVL_MOVE_QUEUED && !sched_admits(mover, flow)) {
            continue;
        }
        pick->endpoint = sched_endpoint(mover, move->lane);
        if (pick->endpoint) {
            pick->move = move;
            kvl_list_remove(&flow->link); /* its next turn comes after all others' */
            kvl_list_push_back(&mover->flows, &flow->link);
            return true;
        }
    }
    return false;
}
