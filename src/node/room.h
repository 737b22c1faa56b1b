/* SPDX-License-Identifier: BSD-3-Clause */
/* Is there room for the node's memory? Shared memory that is mapped beyond what there is kills the
 * process with SIGBUS at the first touch, so look before. */
#ifndef KVL_NODE_ROOM_H
#define KVL_NODE_ROOM_H

#include "base/config.h"

typedef struct {
    uint64_t shared;    /* free in /dev/shm; UINT64_MAX: unknown */
    uint64_t available; /* memory that can be had without swapping; UINT64_MAX: unknown */
    uint64_t limit;     /* of the control group; UINT64_MAX: none */
} kvl_room_t;

void kvl_room_look(kvl_room_t *room_p);
/* KVL_ERR_NO_MEMORY names what is short, by how much, and the way out. Pure. */
kvl_status_t kvl_room_check(const kvl_room_t *room, bool shared, uint64_t bytes);
/* may shared memory be used with these settings? */
bool kvl_room_is_shared(const kvl_settings_t *settings);

#endif
