/* SPDX-License-Identifier: BSD-3-Clause */
/* Is a rail fit for work? A state machine without a clock and without a thread: times come in. And
 * whose fault a failure is (blame.c). */
#ifndef KVL_RAIL_HEALTH_H
#define KVL_RAIL_HEALTH_H

#include "rail/table.h"

typedef enum {
    KVL_HEALTH_UP,
    KVL_HEALTH_SUSPECT,     /* erred lately; still takes ops */
    KVL_HEALTH_QUARANTINED, /* takes no ops; a probe is due at probe_at_ns */
    KVL_HEALTH_PROBING,     /* takes no ops; a probe is under way */
    KVL_HEALTH_DRAINED,     /* takes no ops and is not probed, because the operator said so */
    KVL_HEALTH_STATES
} kvl_health_state_t;

typedef enum {
    KVL_HEALTH_ERROR,     /* an op failed and the rail was to blame */
    KVL_HEALTH_ERRORS,    /* ... once more than the limit; made of ERROR, not given from outside */
    KVL_HEALTH_SUCCESS,   /* an op was completed */
    KVL_HEALTH_CALM,      /* ... and no error was seen for long; made of SUCCESS */
    KVL_HEALTH_LINK_DOWN, /* the system says that the port went down */
    KVL_HEALTH_LINK_UP,   /* ... came up */
    KVL_HEALTH_PROBE,     /* a probe was sent: by kvl_health_probe() */
    KVL_HEALTH_PROBE_OK,  /* by kvl_health_probed() */
    KVL_HEALTH_PROBE_ERROR, /* ... or its time was up: kvl_health_expire() */
    KVL_HEALTH_DRAIN,
    KVL_HEALTH_ADD,
    KVL_HEALTH_EVENTS
} kvl_health_event_t;

typedef struct {
    unsigned errors_max; /* errors within window_ns that a rail may have */
    int64_t window_ns;
    int64_t calm_ns;          /* this long without an error, and all is forgotten */
    int64_t probe_timeout_ns; /* a probe without an answer has failed by then */
    int64_t backoff_min_ns;   /* first pause before a probe; it doubles ... */
    int64_t backoff_max_ns;   /* ... up to this. Less up to half of it, by chance */
    uint64_t seed;            /* of that chance; should differ between processes */
} kvl_health_params_t;

/* Owned by the caller; engine thread only. */
typedef struct {
    kvl_health_params_t params; /* constant after init */
    kvl_health_state_t state;
    int64_t since_ns; /* of the state */
    unsigned errors;  /* in the window that began at window_at_ns */
    int64_t window_at_ns, error_at_ns;
    unsigned attempts;      /* pauses since it was calm: exponent of the backoff */
    int64_t probe_at_ns;    /* QUARANTINED */
    int64_t probe_until_ns; /* PROBING */
    uint64_t probe;         /* number of the latest probe */
    uint64_t random;
    uint64_t entered[KVL_HEALTH_STATES]; /* how often each state began */
    char why[128];                       /* of the last change of state */
} kvl_health_t;

void kvl_health_init(kvl_health_t *health, const kvl_health_params_t *params, int64_t now_ns);

/* What happened; @a why: for people, may be NULL. True if the state changed. Events that make no sense
 * in a state change nothing: errors of ops that a rail in quarantine still had, say. */
bool kvl_health_on(kvl_health_t *health, kvl_health_event_t event, const char *why, int64_t now_ns);

/* May it take new ops? */
static inline bool kvl_health_takes(const kvl_health_t *health)
{
    return health->state <= KVL_HEALTH_SUSPECT;
}

/* Should it be probed now? Asking changes nothing; kvl_health_probe() does, once the probe was really
 * sent, and returns its number. */
bool kvl_health_due(const kvl_health_t *health, int64_t now_ns);
uint64_t kvl_health_probe(kvl_health_t *health, int64_t now_ns);
/* The answer to a probe; one that is not the latest, or comes too late, counts for nothing. */
bool kvl_health_probed(kvl_health_t *health, uint64_t probe, bool ok, const char *why,
                       int64_t now_ns);
/* Ends a probe whose time is up. True if the state changed. */
bool kvl_health_expire(kvl_health_t *health, int64_t now_ns);
/* when to look again: a probe becomes due, or its time is up; KVL_TIME_MAX: never */
int64_t kvl_health_next_ns(const kvl_health_t *health);

const char *kvl_health_name(kvl_health_state_t state);

/* ---- blame ---- */

typedef enum { KVL_BLAME_NEITHER, KVL_BLAME_RAIL, KVL_BLAME_PEER } kvl_blame_t;

/* What is known when an op to a peer over a rail failed. Counts are of the same last moments. */
typedef struct {
    kvl_status_t status;     /* of the op */
    kvl_port_state_t link;   /* of the rail's port, now */
    unsigned rail_peers_ok;  /* other peers that answer over this rail */
    unsigned rail_peers_bad; /* ... that fail over it, and are fine over others */
    unsigned peer_rails_ok;  /* other rails over which this peer answers */
    unsigned peer_rails_bad; /* ... over which it fails, that are fine with others */
} kvl_evidence_t;

kvl_blame_t kvl_blame(const kvl_evidence_t *evidence);

#endif
