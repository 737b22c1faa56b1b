/* SPDX-License-Identifier: BSD-3-Clause */
#include "rail/health.h"

/* What the status says is a first guess: a peer that "went away" may have gone with the port, and a
 * timeout names nobody. What else works at the same time decides; where it does not, neither is blamed,
 * since a rail that is blamed for a dead peer takes all peers with it. */

/* nobody answers over the rail, and others than the peer do over other rails */
static bool rail_fails_others(const kvl_evidence_t *evidence)
{
    return evidence->rail_peers_ok == 0 && evidence->rail_peers_bad > 0;
}

/* the peer answers over no rail, and others do over this one */
static bool peer_fails_alone(const kvl_evidence_t *evidence)
{
    return evidence->peer_rails_ok == 0 && evidence->peer_rails_bad > 0 &&
           evidence->rail_peers_ok > 0;
}

static kvl_blame_t blame_ambiguous(const kvl_evidence_t *evidence)
{
    if (evidence->peer_rails_ok > 0 && rail_fails_others(evidence)) {
        return KVL_BLAME_RAIL;
    }
    return peer_fails_alone(evidence) ? KVL_BLAME_PEER : KVL_BLAME_NEITHER;
}

kvl_blame_t kvl_blame(const kvl_evidence_t *evidence)
{
    kvl_status_group_t group = kvl_status_group(evidence->status);

    if (group == KVL_GROUP_NONE || group == KVL_GROUP_ITEM) {
        return KVL_BLAME_NEITHER; /* it worked, or the item was wrong */
    }
    if (evidence->status == KVL_ERR_REFUSED || evidence->status == KVL_ERR_PROTOCOL) {
        return KVL_BLAME_PEER; /* its own words */
    }
    if (evidence->status == KVL_ERR_TIMEOUT || group != KVL_GROUP_BATCH) {
        if (evidence->link == KVL_PORT_DOWN || group == KVL_GROUP_RAIL) {
            return KVL_BLAME_RAIL;
        }
        if (group == KVL_GROUP_PEER && evidence->peer_rails_ok == 0) {
            return rail_fails_others(evidence) && evidence->peer_rails_bad == 0 ? KVL_BLAME_NEITHER
                                                                                : KVL_BLAME_PEER;
        }
        return blame_ambiguous(evidence);
    }
    return KVL_BLAME_NEITHER; /* the caller's doing: canceled, settings, memory */
}
