/* SPDX-License-Identifier: BSD-3-Clause */
/* The node's values and who may touch them. Pure: no network, no clock of its own, one thread at a
 * time. A holder is a session as the store sees it: it holds leases.
 *
 *     put   reserve -> (bytes arrive) -> commit: only now the key can be found
 *     get   read -> (bytes leave) -> release
 *
 * A write lease owns a slot that nobody else can see. A read lease pins a value: it is neither evicted
 * nor is its slot used again, also if the key is replaced or removed meanwhile. Nothing that comes
 * from a client is trusted: a lease is named by a random number and belongs to one holder. */
#ifndef KVL_NODE_STORE_H
#define KVL_NODE_STORE_H

#include "base/list.h"
#include "node/evict.h"

#include <kvlane/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kvl_store kvl_store_t;
typedef struct kvl_lease kvl_lease_t;

typedef struct kvl_holder kvl_holder_t;

typedef struct {
    uint64_t max_leases;          /* of one holder at a time */
    const kvl_evict_ops_t *evict; /* NULL: kvl_evict_lru */
    uint64_t secret;              /* a random number: lease ids and hashes depend on it */
    /* kvl_holder_answer() has something. From inside of any call; must not call back. */
    void (*decided)(kvl_holder_t *holder, void *arg);
    /* The holder keeps a slot busy beyond its lease: its session must be closed, because only that
     * makes the slot safe. From kvl_store_expire(), at most once for a lease; must not call back. */
    void (*hung)(kvl_holder_t *holder, void *arg);
    void *arg;
} kvl_store_params_t;

kvl_status_t kvl_store_create(const kvl_store_params_t *params, kvl_store_t **store_p);
/* After its holders were cleaned up. NULL is accepted. */
void kvl_store_destroy(kvl_store_t *store);
/* Memory for values; slab numbers count from 0. The memory stays the caller's. */
kvl_status_t kvl_store_add_slab(kvl_store_t *store, void *base, uint64_t length);
/* the longest value that can ever be held */
uint64_t kvl_store_value_max(const kvl_store_t *store);

typedef struct {
    const void *data;
    size_t length; /* 1..255 */
} kvl_key_t;

/* ---- holders ---- */
struct kvl_holder {
    bool repeats; /* set by the owner: puts may come more than once, and some of them may be lost */
    kvl_store_t *store;
    kvl_list_t leases;
    kvl_list_t answers;   /* leases whose deferred commit was decided */
    uint64_t count;       /* leases */
    bool stopped;         /* no new leases; no commit becomes visible any more */
};

/* where a slot is, and the lease on it */
typedef struct {
    uint64_t id;
    uint32_t generation;
    unsigned slab;
    uint64_t offset; /* in the slab */
    uint8_t *address;
} kvl_grant_t;

void kvl_holder_init(kvl_holder_t *holder, kvl_store_t *store);
/* Its session is closing: no more requests; commits that wait are dropped. */
void kvl_holder_stop(kvl_holder_t *holder);
/* Its session is closed. quiet: nobody writes to its slots any more, all come back. Else they go to
 * quarantine until kvl_holder_quiet(); read leases stay until they expire. */
void kvl_holder_close(kvl_holder_t *holder, bool quiet);
void kvl_holder_quiet(kvl_holder_t *holder);

/* ---- put ---- */

/* A slot for @a length bytes. KVL_ERR_NO_SPACE: never; KVL_ERR_BUSY: not now, because of leases;
 * KVL_ERR_NO_MEMORY. Evicts. */
kvl_status_t kvl_store_reserve(kvl_holder_t *holder, kvl_key_t key, uint64_t length,
                               int64_t deadline_ns, kvl_grant_t *grant_p);
/* Stores a value that came with the message; visible on return. */
kvl_status_t kvl_store_put(kvl_holder_t *holder, kvl_key_t key, const void *bytes, uint64_t length);

typedef struct {
    uint64_t id;
    uint32_t generation;
    uint64_t length;  /* must be the reserved one */
    uint32_t ops;     /* not 0: waits until every byte came by message-mode ops */
    uint64_t request; /* handed back by kvl_holder_answer() */
    uint16_t index;
} kvl_store_commit_t;

/* KVL_OK: visible. KVL_INPROGRESS: kvl_holder_answer() will tell. KVL_ERR_LEASE: no such lease of this
 * holder. Anything else: the lease is over, its slot comes back (KVL_ERR_LENGTH, ...). */
kvl_status_t kvl_store_commit(kvl_holder_t *holder, const kvl_store_commit_t *commit);

typedef struct {
    uint64_t request;
    uint16_t index;
    kvl_status_t status;
} kvl_store_answer_t;

/* The next deferred commit that was decided; false if there is none. */
bool kvl_holder_answer(kvl_holder_t *holder, kvl_store_answer_t *answer_p);

/* KVL_OK, or KVL_ERR_LEASE. The slot comes back once its ops are. */
kvl_status_t kvl_store_abort(kvl_holder_t *holder, uint64_t id, uint32_t generation);

/* ---- get ---- */
typedef struct {
    uint64_t length;
    const uint8_t *address;
    bool leased; /* false: short enough; copy the bytes before the next call */
    kvl_grant_t grant;
} kvl_found_value_t;

/* KVL_OK, KVL_ERR_NOT_FOUND, KVL_ERR_BUSY (too many leases), KVL_ERR_NO_MEMORY. */
kvl_status_t kvl_store_read(kvl_holder_t *holder, kvl_key_t key, uint64_t inline_max,
                            int64_t deadline_ns, kvl_found_value_t *found_p);
kvl_status_t kvl_store_release(kvl_holder_t *holder, uint64_t id, uint32_t generation);

/* ---- others ---- */
kvl_status_t kvl_store_exists(kvl_store_t *store, kvl_key_t key, uint64_t *length_p);
kvl_status_t kvl_store_remove(kvl_store_t *store, kvl_key_t key);

/* ---- message-mode ops: begin names the bytes, end says that UCX is done with them ---- */
typedef struct {
    uint64_t id;
    uint32_t generation;
    uint64_t offset, length; /* within the value */
} kvl_store_op_t;

/* KVL_ERR_LEASE, KVL_ERR_RANGE (outside, or bytes that were put before), KVL_ERR_LIMIT,
 * KVL_ERR_NO_MEMORY. After a refusal of its bytes a put's commit fails. */
kvl_status_t kvl_store_put_begin(kvl_holder_t *holder, const kvl_store_op_t *op,
                                 kvl_lease_t **lease_p, kvl_grant_t *place_p);
void kvl_store_put_end(kvl_lease_t *lease, kvl_status_t status);
/* A holder that repeats: these bytes are there. Before put_end. */
void kvl_store_put_landed(kvl_lease_t *lease, uint64_t offset, uint64_t length);
kvl_status_t kvl_store_get_begin(kvl_holder_t *holder, const kvl_store_op_t *op,
                                 kvl_lease_t **lease_p, kvl_grant_t *place_p);
void kvl_store_get_end(kvl_lease_t *lease);

/* ---- time ---- */

/* Ends what is overdue at @a now_ns where that is safe, and reports who hangs. */
void kvl_store_expire(kvl_store_t *store, int64_t now_ns);
int64_t kvl_store_next_expiry(const kvl_store_t *store); /* KVL_TIME_MAX: none */

/* ---- counts ---- */
typedef struct {
    uint64_t keys, bytes_used, bytes_total;
    uint64_t leases;      /* now */
    uint64_t quarantined; /* slots in quarantine now */
    uint64_t evictions;
    uint64_t puts;    /* values that were to be stored */
    uint64_t commits; /* values that became visible */
    uint64_t aborts;  /* values that were given up */
    uint64_t gets, hits, misses;
    uint64_t expired; /* leases */
    uint64_t refused; /* items and ops that named what is not the client's */
} kvl_store_stats_t;
void kvl_store_stats(const kvl_store_t *store, kvl_store_stats_t *stats_p);

#endif
