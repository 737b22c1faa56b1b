/* SPDX-License-Identifier: BSD-3-Clause */
/* A pair: one rail of this engine with one of the peer's, and the data and sg endpoints between them. With
 * one rail on both sides there is one pair, which lives and dies with its link. With several each comes and
 * goes by itself (pair.c). Engine thread only. */
#ifndef KVL_LINK_PAIR_H
#define KVL_LINK_PAIR_H

#include "engine/engine.h"
#include "link/link.h"
#include "rail/health.h"

typedef enum {
    KVL_PAIR_OFF,     /* not used as long as the link lives; cause says why */
    KVL_PAIR_DOWN,    /* tried again when its health says so */
    KVL_PAIR_JOINING, /* RAIL is under way */
    KVL_PAIR_OPENING, /* its endpoints connect and introduce themselves */
    KVL_PAIR_OPEN,    /* they did; waits for its turn to be tested */
    KVL_PAIR_TESTING,
    KVL_PAIR_UP,
    KVL_PAIR_DRAINING, /* up, but nothing new is posted: the user drains the rail */
    KVL_PAIR_CLOSING, /* its endpoints are being closed by force, its ops come back */
    KVL_PAIR_LEAVING  /* RAIL to leave is under way: may its late bytes land? */
} kvl_pair_state_t;

typedef struct {
    kvl_link_t *link;
    unsigned rail, target; /* of this engine; of the peer */
    char target_name[KVL_RAIL_NAME_SIZE];
    kvl_addr_t addr;
    kvl_pair_state_t state;
    unsigned first; /* of its lines: data, then sg */
    unsigned ready; /* lines whose EP_OK came */
    kvl_ep_info_t info;
    kvl_call_t call;
    kvl_timer_t timer; /* JOINING to TESTING: the attempt's end; DOWN: wakes the engine */
    kvl_health_t health;
    uint64_t probe;
    bool failed; /* noted in a callback, acted on in the poller */
    kvl_status_t status;
    char cause[256];
    uint64_t fails, ups;
    bool port_up; /* at the last look (watch.c) */
} kvl_pair_t;

const char *kvl_pair_state_name(kvl_pair_state_t state);

#endif
