/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of src/transport share: a peer, its imported regions, its transfers. */
#ifndef KVL_TRANSPORT_PEER_H
#define KVL_TRANSPORT_PEER_H

#include "client/batch.h"
#include "link/link.h"

#include <kvlane/transport.h>

struct kvl_peer {
    kvl_engine_t *engine; /* constant after create */
    /* engine thread only */
    kvl_link_t *link;
    kvl_list_t remotes;
    kvl_list_t waiting; /* transfers that wait for the link */
    kvl_list_t running; /* transfers under way */
    uint64_t last_transfer;
    kvl_tenant_t tenant;
    bool closing;
    kvl_status_t status; /* of the first connect */
    char text[320];
    /* atomic: set by the engine thread */
    _Atomic int connected; /* the first attempt ended, well or not */
    _Atomic int closed, drained;
};

struct kvl_remote {
    kvl_peer_t *peer; /* constant */
    kvl_list_t link;  /* in peer->remotes */
    const kvl_remote_region_t *region; /* NULL while the link is down; engine thread only */
    bool released;                     /* by the caller, under a transfer; engine thread only */
    _Atomic long users; /* transfers under way */
    /* constant */
    uint32_t id;
    uint64_t length;
    size_t blob_length;
    uint8_t blob[]; /* to import it again */
};

/* transfer.c, engine thread */
void kvl_transfers_start(kvl_peer_t *peer);
void kvl_transfers_down(kvl_peer_t *peer, kvl_status_t status, const char *text);
void kvl_transfers_cancel(kvl_peer_t *peer);

#endif
