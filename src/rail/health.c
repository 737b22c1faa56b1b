/* SPDX-License-Identifier: BSD-3-Clause */
#include "rail/health.h"

#include "base/clock.h"

#include <string.h>

/* One table says where each event leads from each state; nothing else changes a state. Two events are
 * made here out of counts: too many errors, and a long calm.
 *
 *   UP --error--> SUSPECT --errors--> QUARANTINED --probe sent--> PROBING --ok--> UP
 *                    +----calm----> UP        ^---probe failed------+
 *   the port goes down: QUARANTINED. drain: DRAINED, from any; add: QUARANTINED, with a probe due
 *
 * The pause before a probe doubles with each quarantine until the rail was calm for long, so a rail
 * that is well for a moment each time does not come back ever so often. */

typedef enum {
    ACT_NONE,
    ACT_FORGET, /* errors and pauses */
    ACT_PAUSE,  /* the next probe is due after a backoff */
    ACT_HASTEN  /* the next probe is due now */
} act_t;

typedef struct {
    kvl_health_state_t next;
    act_t act;
} rule_t;

#define UP          KVL_HEALTH_UP
#define SUSPECT     KVL_HEALTH_SUSPECT
#define QUARANTINED KVL_HEALTH_QUARANTINED
#define PROBING     KVL_HEALTH_PROBING
#define DRAINED     KVL_HEALTH_DRAINED

static const rule_t rules[KVL_HEALTH_STATES][KVL_HEALTH_EVENTS] =
    {
        [UP] =
            {
                [KVL_HEALTH_ERROR]       = {SUSPECT, ACT_NONE},
                [KVL_HEALTH_ERRORS]      = {QUARANTINED, ACT_PAUSE},
                [KVL_HEALTH_SUCCESS]     = {UP, ACT_NONE},
                [KVL_HEALTH_CALM]        = {UP, ACT_FORGET},
                [KVL_HEALTH_LINK_DOWN]   = {QUARANTINED, ACT_PAUSE},
                [KVL_HEALTH_LINK_UP]     = {UP, ACT_NONE},
                [KVL_HEALTH_PROBE]       = {UP, ACT_NONE},
                [KVL_HEALTH_PROBE_OK]    = {UP, ACT_NONE},
                [KVL_HEALTH_PROBE_ERROR] = {UP, ACT_NONE},
                [KVL_HEALTH_DRAIN]       = {DRAINED, ACT_NONE},
                [KVL_HEALTH_ADD]         = {UP, ACT_NONE},
            },
        [SUSPECT] =
            {
                [KVL_HEALTH_ERROR]       = {SUSPECT, ACT_NONE},
                [KVL_HEALTH_ERRORS]      = {QUARANTINED, ACT_PAUSE},
                [KVL_HEALTH_SUCCESS]     = {SUSPECT, ACT_NONE},
                [KVL_HEALTH_CALM]        = {UP, ACT_FORGET},
                [KVL_HEALTH_LINK_DOWN]   = {QUARANTINED, ACT_PAUSE},
                [KVL_HEALTH_LINK_UP]     = {SUSPECT, ACT_NONE},
                [KVL_HEALTH_PROBE]       = {SUSPECT, ACT_NONE},
                [KVL_HEALTH_PROBE_OK]    = {SUSPECT, ACT_NONE},
                [KVL_HEALTH_PROBE_ERROR] = {SUSPECT, ACT_NONE},
                [KVL_HEALTH_DRAIN]       = {DRAINED, ACT_NONE},
                [KVL_HEALTH_ADD]         = {SUSPECT, ACT_NONE},
            },
        [QUARANTINED] =
            {
                [KVL_HEALTH_ERROR]       = {QUARANTINED, ACT_NONE},
                [KVL_HEALTH_ERRORS]      = {QUARANTINED, ACT_NONE},
                [KVL_HEALTH_SUCCESS]     = {QUARANTINED, ACT_NONE},
                [KVL_HEALTH_CALM]        = {QUARANTINED, ACT_NONE},
                [KVL_HEALTH_LINK_DOWN]   = {QUARANTINED, ACT_NONE},
                [KVL_HEALTH_LINK_UP]     = {QUARANTINED, ACT_HASTEN},
                [KVL_HEALTH_PROBE]       = {PROBING, ACT_NONE},
                [KVL_HEALTH_PROBE_OK]    = {QUARANTINED, ACT_NONE},
                [KVL_HEALTH_PROBE_ERROR] = {QUARANTINED, ACT_NONE},
                [KVL_HEALTH_DRAIN]       = {DRAINED, ACT_NONE},
                [KVL_HEALTH_ADD]         = {QUARANTINED, ACT_NONE},
            },
        [PROBING] =
            {
                [KVL_HEALTH_ERROR]       = {PROBING, ACT_NONE},
                [KVL_HEALTH_ERRORS]      = {PROBING, ACT_NONE},
                [KVL_HEALTH_SUCCESS]     = {PROBING, ACT_NONE},
                [KVL_HEALTH_CALM]        = {PROBING, ACT_NONE},
                [KVL_HEALTH_LINK_DOWN]   = {QUARANTINED, ACT_PAUSE},
                [KVL_HEALTH_LINK_UP]     = {PROBING, ACT_NONE},
                [KVL_HEALTH_PROBE]       = {PROBING, ACT_NONE},
                [KVL_HEALTH_PROBE_OK]    = {UP, ACT_NONE},
                [KVL_HEALTH_PROBE_ERROR] = {QUARANTINED, ACT_PAUSE},
                [KVL_HEALTH_DRAIN]       = {DRAINED, ACT_NONE},
                [KVL_HEALTH_ADD]         = {PROBING, ACT_NONE},
            },
        [DRAINED] =
            {
                [KVL_HEALTH_ERROR]       = {DRAINED, ACT_NONE},
                [KVL_HEALTH_ERRORS]      = {DRAINED, ACT_NONE},
                [KVL_HEALTH_SUCCESS]     = {DRAINED, ACT_NONE},
                [KVL_HEALTH_CALM]        = {DRAINED, ACT_NONE},
                [KVL_HEALTH_LINK_DOWN]   = {DRAINED, ACT_NONE},
                [KVL_HEALTH_LINK_UP]     = {DRAINED, ACT_NONE},
                [KVL_HEALTH_PROBE]       = {DRAINED, ACT_NONE},
                [KVL_HEALTH_PROBE_OK]    = {DRAINED, ACT_NONE},
                [KVL_HEALTH_PROBE_ERROR] = {DRAINED, ACT_NONE},
                [KVL_HEALTH_DRAIN]       = {DRAINED, ACT_NONE},
                [KVL_HEALTH_ADD]         = {QUARANTINED, ACT_HASTEN},
            },
};

void kvl_health_init(kvl_health_t *health, const kvl_health_params_t *params, int64_t now_ns)
{
    *health = (kvl_health_t){
        .params      = *params,
        .state       = KVL_HEALTH_UP,
        .since_ns    = now_ns,
        .error_at_ns = now_ns,
        .random      = params->seed ^ UINT64_C(0x9e3779b97f4a7c15),
    };
    health->entered[KVL_HEALTH_UP] = 1;
    if (health->random == 0) {
        health->random = 1;
    }
}

static uint64_t health_random(kvl_health_t *health)
{
    health->random ^= health->random << 13;
    health->random ^= health->random >> 7;
    health->random ^= health->random << 17;
    return health->random;
}

/* from half of the doubled pause up to all of it */
static int64_t health_backoff(kvl_health_t *health)
{
    int64_t pause = health->params.backoff_min_ns, max = health->params.backoff_max_ns;

    for (unsigned i = 0; i < health->attempts && pause < max; i++) {
        pause = kvl_time_add(pause, pause);
    }
    if (pause > max) {
        pause = max;
    }
    health->attempts += health->attempts < UINT16_MAX;
    if (pause < 2) {
        return pause < 0 ? 0 : pause;
    }
    return pause / 2 + (int64_t)(health_random(health) % (uint64_t)(pause - pause / 2 + 1));
}

static void health_act(kvl_health_t *health, act_t act, int64_t now_ns)
{
    switch (act) {
    case ACT_FORGET:
        health->errors   = 0;
        health->attempts = 0;
        break;
    case ACT_PAUSE:
        health->probe_at_ns = kvl_time_add(now_ns, health_backoff(health));
        break;
    case ACT_HASTEN:
        health->probe_at_ns = now_ns;
        break;
    case ACT_NONE:
        break;
    }
}

/* Counts, and says what the event amounts to. */
static kvl_health_event_t health_weigh(kvl_health_t *health, kvl_health_event_t event,
                                       int64_t now_ns)
{
    if (event == KVL_HEALTH_ERROR) {
        if (health->errors == 0 || now_ns - health->window_at_ns > health->params.window_ns) {
            health->errors       = 0;
            health->window_at_ns = now_ns;
        }
        health->errors++;
        health->error_at_ns = now_ns;
        return health->errors > health->params.errors_max ? KVL_HEALTH_ERRORS : event;
    }
    if (event == KVL_HEALTH_SUCCESS && now_ns - health->error_at_ns >= health->params.calm_ns &&
        now_ns - health->since_ns >= health->params.calm_ns) {
        return KVL_HEALTH_CALM;
    }
    return event;
}

bool kvl_health_on(kvl_health_t *health, kvl_health_event_t event, const char *why, int64_t now_ns)
{
    const rule_t *rule = &rules[health->state][health_weigh(health, event, now_ns)];

    health_act(health, rule->act, now_ns);
    if (rule->next == health->state) {
        return false;
    }
    health->state    = rule->next;
    health->since_ns = now_ns;
    health->entered[rule->next]++;
    if (!kvl_health_takes(health)) {
        health->errors = 0; /* it starts with none when it comes back */
    }
    snprintf(health->why, sizeof(health->why), "%s", why ? why : "");
    return true;
}

bool kvl_health_due(const kvl_health_t *health, int64_t now_ns)
{
    return health->state == KVL_HEALTH_QUARANTINED && now_ns >= health->probe_at_ns;
}

uint64_t kvl_health_probe(kvl_health_t *health, int64_t now_ns)
{
    if (kvl_health_on(health, KVL_HEALTH_PROBE, "a probe is under way", now_ns)) {
        health->probe_until_ns = kvl_time_add(now_ns, health->params.probe_timeout_ns);
        health->probe++;
    }
    return health->probe;
}

bool kvl_health_probed(kvl_health_t *health, uint64_t probe, bool ok, const char *why,
                       int64_t now_ns)
{
    if (probe != health->probe || health->state != KVL_HEALTH_PROBING) {
        return false;
    }
    return kvl_health_on(health, ok ? KVL_HEALTH_PROBE_OK : KVL_HEALTH_PROBE_ERROR, why, now_ns);
}

bool kvl_health_expire(kvl_health_t *health, int64_t now_ns)
{
    return health->state == KVL_HEALTH_PROBING && now_ns >= health->probe_until_ns &&
           kvl_health_on(health, KVL_HEALTH_PROBE_ERROR, "a probe got no answer", now_ns);
}

int64_t kvl_health_next_ns(const kvl_health_t *health)
{
    return health->state == KVL_HEALTH_QUARANTINED ? health->probe_at_ns
           : health->state == KVL_HEALTH_PROBING   ? health->probe_until_ns
                                                   : KVL_TIME_MAX;
}

const char *kvl_health_name(kvl_health_state_t state)
{
    static const char *const names[] = {"up", "suspect", "quarantined", "probing", "drained"};

    return names[state];
}
