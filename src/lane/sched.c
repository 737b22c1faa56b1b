/* SPDX-License-Identifier: BSD-3-Clause */
#include "lane/sched.h"

#include "base/alloc.h"
#include "base/error.h"

/* Flows take turns, op by op, on each lane by itself. A flow posts its moves in order and has at most
 * one move POSTING on a lane. A QUEUED move needs one of `depth` slots to begin; slots go to the flow
 * that holds the fewest, so a small flow gets in as soon as any move of a large one is over.
 *
 * Turns are stamps: the flow that posted longest ago comes first, whether its head has a slot already
 * or still needs one; so neither newcomers nor those who are in can keep the others out.
 *
 * waiting[lane][n] are the flows that hold n slots and whose head on this lane is QUEUED; the first
 * list that is not empty has the candidate. */

static kvl_flow_lane_t *move_lane(const kvl_move_t *move)
{
    return &move->flow->lanes[kvl_lane_index(move->lane)];
}

static kvl_move_t *lane_head(const kvl_flow_lane_t *lane)
{
    return kvl_container(lane->moves.next, kvl_move_t, link);
}

void kvl_flow_init(kvl_flow_t *flow)
{
    unsigned i;

    for (i = 0; i < 2; i++) {
        kvl_list_init(&flow->lanes[i].link);
        kvl_list_init(&flow->lanes[i].moves);
        flow->lanes[i].turn = 0;
    }
    flow->active = 0;
}

kvl_status_t kvl_sched_init(kvl_sched_t *sched, unsigned depth)
{
    unsigned lane, i;

    *sched            = (kvl_sched_t){.depth = depth};
    sched->waiting[0] = kvl_calloc(2 * ((size_t)depth + 1), sizeof(kvl_list_t));
    if (!sched->waiting[0]) {
        return kvl_error(KVL_ERR_NO_MEMORY, "scheduler: out of memory for depth %u", depth);
    }
    sched->waiting[1] = sched->waiting[0] + depth + 1;
    for (lane = 0; lane < 2; lane++) {
        kvl_list_init(&sched->posting[lane]);
        for (i = 0; i <= depth; i++) {
            kvl_list_init(&sched->waiting[lane][i]);
        }
    }
    return KVL_OK;
}

void kvl_sched_cleanup(kvl_sched_t *sched)
{
    kvl_free(sched->waiting[0]);
}

kvl_status_t kvl_sched_add(kvl_sched_t *sched, kvl_endpoint_t *endpoint)
{
    if (sched->endpoint_count == KVL_ENDPOINTS_MAX || endpoint->rail >= KVL_RAILS) {
        return kvl_error(KVL_ERR_LIMIT, "%s endpoint %u on rail %u: over %d endpoints or %d rails",
                         kvl_lane_name(endpoint->lane), endpoint->index, endpoint->rail,
                         KVL_ENDPOINTS_MAX, KVL_RAILS);
    }
    if (endpoint->lane == KVL_LANE_SG) {
        sched->sg_count[endpoint->rail]++;
    }
    endpoint->place                           = sched->endpoint_count;
    sched->endpoints[sched->endpoint_count++] = endpoint;
    return KVL_OK;
}

/* ---- moves ---- */

/* puts the flow where its head belongs on this lane */
static void lane_place(kvl_sched_t *sched, kvl_flow_t *flow, unsigned lane)
{
    kvl_flow_lane_t *mine = &flow->lanes[lane];

    kvl_list_remove(&mine->link);
    if (kvl_list_empty(&mine->moves)) {
        return;
    }
    kvl_list_push_back(lane_head(mine)->state == KVL_MOVE_POSTING
                           ? &sched->posting[lane]
                           : &sched->waiting[lane][flow->active],
                       &mine->link);
}

/* the number of its slots changed */
static void flow_count(kvl_sched_t *sched, kvl_flow_t *flow, int change)
{
    unsigned lane;

    flow->active  = (unsigned)((int)flow->active + change);
    sched->active = (unsigned)((int)sched->active + change);
    for (lane = 0; lane < 2; lane++) {
        kvl_flow_lane_t *mine = &flow->lanes[lane];

        if (!kvl_list_empty(&mine->moves) && lane_head(mine)->state == KVL_MOVE_QUEUED) {
            lane_place(sched, flow, lane);
        }
    }
}

void kvl_sched_submit(kvl_sched_t *sched, kvl_flow_t *flow, kvl_move_t *move)
{
    kvl_flow_lane_t *lane;

    move->flow  = flow;
    move->state = KVL_MOVE_QUEUED;
    lane        = move_lane(move);
    sched->queued++;
    kvl_list_push_back(&lane->moves, &move->link);
    if (kvl_list_empty(&lane->link)) {
        lane->turn = ++sched->clock;
        lane_place(sched, flow, kvl_lane_index(move->lane));
    }
}

kvl_move_t *kvl_sched_turn(const kvl_sched_t *sched, kvl_lane_kind_t lane_kind)
{
    unsigned lane         = kvl_lane_index(lane_kind);
    kvl_flow_lane_t *best = NULL;
    unsigned i;

    if (!kvl_list_empty(&sched->posting[lane])) {
        best = kvl_container(sched->posting[lane].next, kvl_flow_lane_t, link);
    }
    for (i = 0; sched->active < sched->depth && i < sched->depth; i++) {
        if (!kvl_list_empty(&sched->waiting[lane][i])) {
            kvl_flow_lane_t *next =
                kvl_container(sched->waiting[lane][i].next, kvl_flow_lane_t, link);

            best = best && best->turn < next->turn ? best : next;
            break;
        }
    }
    return best ? lane_head(best) : NULL;
}

void kvl_sched_begin(kvl_sched_t *sched, kvl_move_t *move)
{
    move->state = KVL_MOVE_POSTING;
    sched->queued--;
    flow_count(sched, move->flow, 1);
    lane_place(sched, move->flow, kvl_lane_index(move->lane));
}

void kvl_sched_had_turn(kvl_sched_t *sched, kvl_move_t *move)
{
    move_lane(move)->turn = ++sched->clock;
    lane_place(sched, move->flow, kvl_lane_index(move->lane));
}

void kvl_sched_remove(kvl_sched_t *sched, kvl_move_t *move)
{
    if (move->state == KVL_MOVE_QUEUED) {
        sched->queued--;
    }
    kvl_list_remove(&move->link);
    lane_place(sched, move->flow, kvl_lane_index(move->lane));
}

void kvl_sched_release(kvl_sched_t *sched, kvl_move_t *move)
{
    flow_count(sched, move->flow, -1);
}

kvl_move_t *kvl_sched_any(const kvl_sched_t *sched)
{
    unsigned lane, i;

    for (lane = 0; lane < 2; lane++) {
        const kvl_list_t *list = &sched->posting[lane];

        for (i = 0; kvl_list_empty(list) && i <= sched->depth; i++) {
            list = &sched->waiting[lane][i];
        }
        if (!kvl_list_empty(list)) {
            return lane_head(kvl_container(list->next, kvl_flow_lane_t, link));
        }
    }
    return NULL;
}

void kvl_sched_return(kvl_sched_t *sched, kvl_move_t *move)
{
    move->state = KVL_MOVE_POSTING;
    kvl_list_push_front(&move_lane(move)->moves, &move->link);
    lane_place(sched, move->flow, kvl_lane_index(move->lane));
}

static bool move_unflushed(const kvl_sched_t *sched, const kvl_move_t *move, unsigned rail)
{
    unsigned place;

    for (place = 0; place < sched->endpoint_count && !move->again; place++) {
        if (sched->endpoints[place]->rail == rail && kvl_move_uses(move, place)) {
            return true;
        }
    }
    return false;
}

/* they are at the head of their flow's list, and that flow is in posting[] */
kvl_move_t *kvl_sched_posting(const kvl_sched_t *sched, unsigned rail)
{
    const kvl_list_t *flow, *node;
    unsigned lane;

    for (lane = 0; lane < 2; lane++) {
        for (flow = sched->posting[lane].next; flow != &sched->posting[lane]; flow = flow->next) {
            const kvl_flow_lane_t *mine = kvl_container(flow, kvl_flow_lane_t, link);

            for (node = mine->moves.next; node != &mine->moves; node = node->next) {
                kvl_move_t *move = kvl_container(node, kvl_move_t, link);

                if (move->state != KVL_MOVE_POSTING) {
                    break;
                }
                if (move_unflushed(sched, move, rail)) {
                    return move;
                }
            }
        }
    }
    return NULL;
}

/* ---- endpoints ---- */

static bool endpoint_fits(const kvl_sched_t *sched, const kvl_endpoint_t *endpoint,
                          kvl_lane_kind_t lane)
{
    unsigned rail = endpoint->rail;

    if (endpoint->lane != lane || endpoint->failed || endpoint->outstanding >= endpoint->window) {
        return false;
    }
    if (lane != KVL_LANE_SG) {
        return true;
    }
    return (sched->echoes || !endpoint->flush_wanted) && /* a flush waits for the credit: it was here first */
           sched->sg_out[rail] < sched->depth && sched->sg_out[rail] < sched->sg_count[rail];
}

/* the smaller, the better */
static unsigned endpoint_cost(const kvl_sched_t *sched, const kvl_endpoint_t *endpoint,
                              const kvl_move_t *move)
{
    unsigned load =
        endpoint->lane == KVL_LANE_SG ? sched->sg_out[endpoint->rail] : endpoint->outstanding;

    return 2 * load + !kvl_move_uses(move, endpoint->place);
}

uint32_t kvl_sched_room(const kvl_sched_t *sched, const kvl_move_t *move)
{
    uint32_t rails = 0;
    unsigned i;

    for (i = 0; i < sched->endpoint_count; i++) {
        if (endpoint_fits(sched, sched->endpoints[i], move->lane)) {
            rails |= 1u << sched->endpoints[i]->rail;
        }
    }
    return rails;
}

kvl_endpoint_t *kvl_sched_endpoint(kvl_sched_t *sched, const kvl_move_t *move, uint32_t rails)
{
    unsigned *last = &sched->last[kvl_lane_index(move->lane)];
    unsigned place = *last, best_cost = UINT32_MAX, i;
    kvl_endpoint_t *best = NULL;

    for (i = 0; i < sched->endpoint_count && best_cost > 0; i++) {
        kvl_endpoint_t *endpoint;

        if (i > 0 || !kvl_move_uses(move, place)) { /* another move begins at the next one */
            place = place + 1 < sched->endpoint_count ? place + 1 : 0;
        }
        endpoint = sched->endpoints[place];
        if ((rails >> endpoint->rail & 1) && endpoint_fits(sched, endpoint, move->lane)) {
            unsigned cost = endpoint_cost(sched, endpoint, move);

            if (cost < best_cost) {
                best_cost = cost;
                best      = endpoint;
            }
        }
    }
    if (best) {
        *last = best->place;
    }
    return best;
}

void kvl_sched_take(kvl_sched_t *sched, kvl_endpoint_t *endpoint)
{
    endpoint->outstanding++;
    if (endpoint->lane == KVL_LANE_SG) {
        sched->sg_out[endpoint->rail]++;
    }
}

void kvl_sched_give(kvl_sched_t *sched, kvl_endpoint_t *endpoint)
{
    endpoint->outstanding--;
    if (endpoint->lane == KVL_LANE_SG) {
        sched->sg_out[endpoint->rail]--;
    }
}
