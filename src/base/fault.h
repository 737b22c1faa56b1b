/* SPDX-License-Identifier: BSD-3-Clause */
/* The fault table: named points where tests and operators make kvlane fail, wait or drop.
 *     KVLANE_FAULT="ep.put:fail@17,ep.complete:delay=2ms,node.commit:drop%1"
 * A rule is POINT:ACTION[=VALUE][@N | %P]; @N: at the N-th hit only; @N+: at the N-th and all
 * later; %P: at P percent of hits (0.001..100, seeded by KVLANE_FAULT_SEED). Several rules a point.
 * Off costs one load and one predictable branch. */
#ifndef KVL_BASE_FAULT_H
#define KVL_BASE_FAULT_H

#include <kvlane/status.h>

#include <stdbool.h>
#include <stdint.h>

typedef enum {
    KVL_FAULT_ALLOC,      /* alloc: any kvl_malloc and friends (fail) */
    KVL_FAULT_UCP,        /* ucp: any call into UCP that can fail, counted together (fail) */
    KVL_FAULT_EP_CONNECT, /* ep.connect (fail, delay) */
    KVL_FAULT_EP_PUT,     /* ep.put: posting of a put (fail) */
    KVL_FAULT_EP_GET,     /* ep.get (fail) */
    KVL_FAULT_EP_AM,      /* ep.am: posting of an active message of data (fail, drop) */
    KVL_FAULT_EP_FLUSH,   /* ep.flush (fail) */
    KVL_FAULT_EP_COMPLETE, /* ep.complete: completion of a data op, also an inline one (fail, delay) */
    KVL_FAULT_MEM_REGISTER, /* mem.register (fail) */
    KVL_FAULT_CTRL_SEND,    /* ctrl.send: a control message (fail, drop, delay) */
    KVL_FAULT_CTRL_RECV,    /* ctrl.recv (drop, delay) */
    KVL_FAULT_NODE_RESERVE, /* node.reserve (fail, drop) */
    KVL_FAULT_NODE_LOOKUP,  /* node.lookup (fail, drop) */
    KVL_FAULT_NODE_COMMIT,  /* node.commit (fail, drop: no answer) */
    KVL_FAULT_COUNT
} kvl_fault_point_t;

typedef enum { KVL_FAULT_NONE, KVL_FAULT_FAIL, KVL_FAULT_DELAY, KVL_FAULT_DROP } kvl_fault_action_t;

typedef struct {
    kvl_fault_action_t action;
    int64_t delay_ns; /* with KVL_FAULT_DELAY */
} kvl_fault_t;

/* relaxed atomics; written by kvl_fault_setup() and kvl_fault_update() */
extern bool kvl_fault_enabled;

/* Parses and installs; replaces what was there. NULL or "": off. KVL_ERR_CONFIG names the rule, and
 * lists points and actions. Process-wide. Thread: any, also while engines run. */
kvl_status_t kvl_fault_setup(const char *rules, uint64_t seed);
/* As kvl_fault_setup(), but the same rules and seed as those installed change nothing: counts of
 * hits go on when a second engine of the process brings the same settings. */
kvl_status_t kvl_fault_update(const char *rules, uint64_t seed);
/* Parses only. */
kvl_status_t kvl_fault_check(const char *rules);
/* Counts a hit and says what to do. Thread safe. Call through kvl_fault(). */
kvl_fault_t kvl_fault_hit(kvl_fault_point_t point);
/* hits of a point since the setup */
uint64_t kvl_fault_hits(kvl_fault_point_t point);
const char *kvl_fault_point_name(kvl_fault_point_t point);

static inline kvl_fault_t kvl_fault(kvl_fault_point_t point)
{
    return __atomic_load_n(&kvl_fault_enabled, __ATOMIC_RELAXED) ? kvl_fault_hit(point)
                                                                 : (kvl_fault_t){KVL_FAULT_NONE, 0};
}

static inline bool kvl_fault_fails(kvl_fault_point_t point)
{
    return kvl_fault(point).action == KVL_FAULT_FAIL;
}

#endif
