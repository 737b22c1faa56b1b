/* SPDX-License-Identifier: BSD-3-Clause */
/* From key to value. A hash table with chains that grows bit by bit: no call moves more than a few
 * buckets, and a table that cannot grow for lack of memory only gets slower. */
#ifndef KVL_NODE_INDEX_H
#define KVL_NODE_INDEX_H

#include "node/value.h"

typedef struct {
    kvl_value_t **buckets, **old; /* old: being emptied into buckets, or NULL */
    size_t mask, old_mask;        /* numbers of buckets - 1 */
    size_t old_at;                /* old buckets below are empty */
    size_t count;
    uint64_t seed;
} kvl_index_t;

/* @a seed: a random number, so that nobody can choose keys that collide. */
kvl_status_t kvl_index_init(kvl_index_t *index, uint64_t seed);
void kvl_index_cleanup(kvl_index_t *index); /* values are the caller's */
uint64_t kvl_index_hash(const kvl_index_t *index, const void *key, size_t length);
kvl_value_t *kvl_index_find(const kvl_index_t *index, uint64_t hash, const void *key,
                            size_t length);
/* value->hash is set; its key is not in the index */
void kvl_index_insert(kvl_index_t *index, kvl_value_t *value);
void kvl_index_remove(kvl_index_t *index, kvl_value_t *value);
/* Takes every value out and hands it to @a func, which may free it. For the end. */
void kvl_index_drain(kvl_index_t *index, void (*func)(kvl_value_t *value, void *arg), void *arg);

#endif
