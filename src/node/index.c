/* SPDX-License-Identifier: BSD-3-Clause */
#include "node/index.h"

#include "base/alloc.h"
#include "base/error.h"

#include <string.h>
#include <xxhash.h>

/* While it grows there are two tables. A hash lives in the old one until its old bucket was moved
 * (old_at). Each insert and removal moves MOVES buckets, so the old table is empty long before the new
 * one is full. */

#define BUCKETS_MIN 1024
#define MOVES       4

kvl_status_t kvl_index_init(kvl_index_t *index, uint64_t seed)
{
    *index         = (kvl_index_t){.seed = seed, .mask = BUCKETS_MIN - 1};
    index->buckets = kvl_calloc(BUCKETS_MIN, sizeof(*index->buckets));
    return index->buckets ? KVL_OK : kvl_error(KVL_ERR_NO_MEMORY, "node: out of memory");
}

void kvl_index_cleanup(kvl_index_t *index)
{
    kvl_free(index->buckets);
    kvl_free(index->old);
    index->buckets = index->old = NULL;
}

uint64_t kvl_index_hash(const kvl_index_t *index, const void *key, size_t length)
{
    return XXH3_64bits_withSeed(key, length, index->seed);
}

static kvl_value_t **index_bucket(const kvl_index_t *index, uint64_t hash)
{
    if (index->old && (hash & index->old_mask) >= index->old_at) {
        return &index->old[hash & index->old_mask];
    }
    return &index->buckets[hash & index->mask];
}

static void index_move(kvl_index_t *index)
{
    unsigned moves;

    for (moves = 0; index->old && moves < MOVES; moves++) {
        kvl_value_t *value = index->old[index->old_at];

        index->old[index->old_at] = NULL;
        while (value) {
            kvl_value_t *next    = value->next;
            kvl_value_t **bucket = &index->buckets[value->hash & index->mask];

            value->next = *bucket;
            *bucket     = value;
            value       = next;
        }
        if (index->old_at++ == index->old_mask) {
            kvl_free(index->old);
            index->old = NULL;
        }
    }
}

static void index_grow(kvl_index_t *index)
{
    size_t buckets      = 2 * (index->mask + 1);
    kvl_value_t **table = kvl_calloc(buckets, sizeof(*table));

    if (!table) {
        return; /* chains grow instead; tried again at the next insert */
    }
    index->old      = index->buckets;
    index->old_mask = index->mask;
    index->old_at   = 0;
    index->buckets  = table;
    index->mask     = buckets - 1;
}

kvl_value_t *kvl_index_find(const kvl_index_t *index, uint64_t hash, const void *key, size_t length)
{
    kvl_value_t *value = *index_bucket(index, hash);

    while (value && (value->hash != hash || value->key_length != length ||
                     memcmp(value->key, key, length) != 0)) {
        value = value->next;
    }
    return value;
}

void kvl_index_insert(kvl_index_t *index, kvl_value_t *value)
{
    kvl_value_t **bucket;

    index_move(index);
    if (!index->old && index->count > index->mask) {
        index_grow(index);
    }
    bucket      = index_bucket(index, value->hash);
    value->next = *bucket;
    *bucket     = value;
    index->count++;
}

void kvl_index_remove(kvl_index_t *index, kvl_value_t *value)
{
    kvl_value_t **link = index_bucket(index, value->hash);

    while (*link != value) {
        link = &(*link)->next;
    }
    *link = value->next;
    index->count--;
    index_move(index);
}

static void table_drain(kvl_value_t **table, size_t buckets,
                        void (*func)(kvl_value_t *value, void *arg), void *arg)
{
    size_t i;

    for (i = 0; i < buckets; i++) {
        kvl_value_t *value = table[i];

        table[i] = NULL;
        while (value) {
            kvl_value_t *next = value->next;

            func(value, arg);
            value = next;
        }
    }
}

void kvl_index_drain(kvl_index_t *index, void (*func)(kvl_value_t *value, void *arg), void *arg)
{
    if (index->old) {
        table_drain(index->old, index->old_mask + 1, func, arg);
    }
    if (index->buckets) {
        table_drain(index->buckets, index->mask + 1, func, arg);
    }
    index->count = 0;
}
