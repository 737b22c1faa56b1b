/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"
#include "link/private.h"

/* Several rails: looked at ten times a second. A pair whose port went down fails at once: TCP would go on
 * sending for minutes. One whose port comes up again is tried at once. The ctrl lane of a port that went
 * down goes to another (ctrl.c). */

#define WATCH_PAUSE (100 * KVL_MS)

static void pair_watch(kvl_pair_t *pair)
{
    kvl_link_t *link = pair->link;
    int64_t now      = kvl_engine_now(link->engine);
    bool up          = kvl_engine_rail_is_up(link->engine, pair->rail);

    if (pair->state == KVL_PAIR_UP && up) {
        kvl_health_on(&pair->health, KVL_HEALTH_SUCCESS, NULL, now);
    } else if (!up) {
        kvl_pair_fail(pair, KVL_ERR_RAIL, "its port went down");
    } else if (!pair->port_up) {
        kvl_health_on(&pair->health, KVL_HEALTH_LINK_UP, "its port came up", now);
    }
    pair->port_up = up;
}

static void watch_due(kvl_timer_t *timer)
{
    kvl_link_t *link = kvl_container(timer, kvl_link_t, watch_timer);
    unsigned i;

    for (i = 0; i < link->pair_count; i++) {
        if (link->pairs[i].state != KVL_PAIR_OFF) {
            pair_watch(&link->pairs[i]);
        }
    }
    if (link->ctrl.state == KVL_CTRL_HERE &&
        !kvl_engine_rail_is_up(link->engine, link->lines[0].endpoint.rail)) {
        kvl_ctrl_lost(link, KVL_ERR_PEER, "its port went down");
    }
    kvl_link_watch(link);
}

void kvl_link_watch(kvl_link_t *link)
{
    if (link->state == KVL_LINK_UP) {
        (void)kvl_timer_set(kvl_engine_timers(link->engine), &link->watch_timer,
                            kvl_time_add(kvl_now_ns(), WATCH_PAUSE), watch_due);
    }
}
