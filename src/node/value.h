/* SPDX-License-Identifier: BSD-3-Clause */
/* A value: a key and the slot that holds its bytes. */
#ifndef KVL_NODE_VALUE_H
#define KVL_NODE_VALUE_H

#include "base/list.h"
#include "node/slab.h"

typedef enum {
    KVL_VALUE_NEW,      /* under a write lease; nobody can find it */
    KVL_VALUE_VISIBLE,  /* in the index */
    KVL_VALUE_DETACHED, /* replaced or removed, but somebody still reads it */
    KVL_VALUE_SUSPECT   /* in quarantine: its client may still write to the slot */
} kvl_value_state_t;

typedef struct kvl_value kvl_value_t;
struct kvl_value {
    kvl_value_t *next; /* in its bucket of the index */
    uint64_t hash;
    uint64_t length;   /* bytes of the value; the slot is at least as long */
    uint8_t *address;  /* of the slot */
    uint64_t tick;     /* when it was used last: counts uses, not time */
    kvl_list_t recent; /* in the evictor's order while it may be evicted, else alone */
    kvl_block_id_t block;
    uint32_t pins; /* read leases and ops that keep the slot */
    uint8_t state; /* kvl_value_state_t */
    uint8_t key_length;
    uint8_t key[];
};

#endif
