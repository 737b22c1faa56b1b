/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the store share. */
#ifndef KVL_NODE_STORE_PRIVATE_H
#define KVL_NODE_STORE_PRIVATE_H

#include "base/clock.h"
#include "node/index.h"
#include "node/ranges.h"
#include "node/slab.h"
#include "node/store.h"

typedef enum {
    KVL_LEASE_FREE,       /* in the pool */
    KVL_LEASE_OPEN,       /* the client may use it */
    KVL_LEASE_COMMITTING, /* the client said commit; bytes are still on their way */
    KVL_LEASE_ENDING,     /* over for the client; ops are still under way */
    KVL_LEASE_ANSWER      /* its commit was decided; the answer is to be fetched */
} kvl_lease_state_t;

struct kvl_lease {
    uint32_t number; /* in the pool */
    uint32_t generation;
    uint64_t id; /* number, and 32 random bits */
    kvl_holder_t *holder;
    kvl_list_t link; /* in holder->leases or ->answers */
    kvl_timer_t expiry;
    kvl_value_t *value;
    uint32_t ops;  /* message-mode ops under way */
    uint8_t state; /* kvl_lease_state_t */
    bool write;
    bool waits;          /* commit: for all bytes, not only for ops under way */
    kvl_status_t status; /* of the ops, then of the commit */
    uint16_t index;
    uint64_t request;
    kvl_ranges_t ranges; /* bytes that came, or are coming */
};

struct kvl_store {
    kvl_slabs_t slabs;
    uint8_t *bases[KVL_SLABS_MAX];
    kvl_index_t index;
    kvl_evict_t evict;
    kvl_ipool_t leases;
    kvl_timers_t timers;
    size_t timer_room; /* reserved in timers */
    uint64_t lease_serial;
    kvl_store_params_t params;
    kvl_store_stats_t stats; /* those that are counted, not looked up */
};

/* store.c: values */
kvl_status_t kvl_value_create(kvl_store_t *store, kvl_key_t key, uint64_t length,
                              kvl_value_t **value_p);
void kvl_value_destroy(kvl_store_t *store, kvl_value_t *value); /* gives the slot back */
void kvl_value_show(kvl_store_t *store, kvl_value_t *value);    /* NEW -> VISIBLE */
void kvl_value_hide(kvl_store_t *store, kvl_value_t *value);    /* VISIBLE -> gone, or DETACHED */
void kvl_value_pin(kvl_store_t *store, kvl_value_t *value);
void kvl_value_unpin(kvl_store_t *store, kvl_value_t *value);
kvl_value_t *kvl_value_find(kvl_store_t *store, kvl_key_t key);

/* lease.c */
kvl_status_t kvl_lease_reserve(kvl_holder_t *holder); /* then kvl_lease_open() cannot fail */
void kvl_lease_open(kvl_holder_t *holder, kvl_value_t *value, bool write, int64_t deadline_ns,
                    kvl_grant_t *grant_p);
void kvl_grant_fill(const kvl_store_t *store, const kvl_value_t *value, kvl_grant_t *grant_p);

/* reclaim.c: a slot for the value, evicting others if need be; returns as kvl_slabs_alloc() */
kvl_status_t kvl_reclaim_slot(kvl_store_t *store, uint64_t length, kvl_value_t *value);

#endif
