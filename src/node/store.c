/* SPDX-License-Identifier: BSD-3-Clause */
#include "node/store.h"

#include "base/alloc.h"
#include "base/error.h"
#include "node/store_private.h"

#include <string.h>

/* Values: from a key to bytes, what is visible, what is pinned. Leases are in lease.c.
 *
 *     NEW -> VISIBLE -> gone              commit, then evicted, removed or replaced while nobody reads
 *                    -> DETACHED -> gone  ... while somebody reads: gone with the last reader
 *     NEW -> gone                         aborted
 *     NEW -> SUSPECT -> gone              its client may still write: quarantine
 *
 * A visible value is in the evictor's order exactly while it has no pin. */

kvl_status_t kvl_store_create(const kvl_store_params_t *params, kvl_store_t **store_p)
{
    kvl_store_t *store = kvl_calloc(1, sizeof(*store));

    if (!store) {
        return kvl_error(KVL_ERR_NO_MEMORY, "node: out of memory");
    }
    if (kvl_index_init(&store->index, params->secret) != KVL_OK) {
        kvl_free(store);
        return KVL_ERR_NO_MEMORY;
    }
    kvl_slabs_init(&store->slabs);
    kvl_evict_init(&store->evict, params->evict ? params->evict : &kvl_evict_lru);
    kvl_ipool_init(&store->leases, sizeof(kvl_lease_t));
    kvl_timers_init(&store->timers);
    store->params = *params;
    *store_p      = store;
    return KVL_OK;
}

static void value_drop(kvl_value_t *value, void *arg)
{
    (void)arg;
    kvl_free(value);
}

void kvl_store_destroy(kvl_store_t *store)
{
    if (!store) {
        return;
    }
    kvl_index_drain(&store->index, value_drop, NULL);
    kvl_index_cleanup(&store->index);
    kvl_timers_cleanup(&store->timers);
    kvl_ipool_cleanup(&store->leases);
    kvl_slabs_cleanup(&store->slabs);
    kvl_free(store);
}

kvl_status_t kvl_store_add_slab(kvl_store_t *store, void *base, uint64_t length)
{
    unsigned number     = store->slabs.slab_count;
    kvl_status_t status = kvl_slabs_add(&store->slabs, length);

    if (status == KVL_OK) {
        store->bases[number] = base;
    }
    return status;
}

uint64_t kvl_store_value_max(const kvl_store_t *store)
{
    return kvl_slabs_longest(&store->slabs);
}

/* ---- values ---- */

kvl_status_t kvl_value_create(kvl_store_t *store, kvl_key_t key, uint64_t length,
                              kvl_value_t **value_p)
{
    kvl_value_t *value = kvl_malloc(sizeof(*value) + key.length);
    kvl_status_t status;

    if (!value) {
        return KVL_ERR_NO_MEMORY;
    }
    *value = (kvl_value_t){.hash       = kvl_index_hash(&store->index, key.data, key.length),
                           .length     = length,
                           .state      = KVL_VALUE_NEW,
                           .key_length = (uint8_t)key.length};
    kvl_list_init(&value->recent);
    memcpy(value->key, key.data, key.length);
    status = kvl_reclaim_slot(store, length, value);
    if (status != KVL_OK) {
        kvl_free(value);
        return status;
    }
    *value_p = value;
    return KVL_OK;
}

void kvl_value_destroy(kvl_store_t *store, kvl_value_t *value)
{
    if (value->state == KVL_VALUE_SUSPECT) {
        store->stats.quarantined--;
    }
    kvl_slabs_free(&store->slabs, value->block);
    kvl_free(value);
}

kvl_value_t *kvl_value_find(kvl_store_t *store, kvl_key_t key)
{
    uint64_t hash = kvl_index_hash(&store->index, key.data, key.length);

    return kvl_index_find(&store->index, hash, key.data, key.length);
}

void kvl_value_hide(kvl_store_t *store, kvl_value_t *value)
{
    kvl_index_remove(&store->index, value);
    if (value->pins) {
        value->state = KVL_VALUE_DETACHED;
        return;
    }
    store->evict.ops->remove(&store->evict, value);
    kvl_value_destroy(store, value);
}

void kvl_value_show(kvl_store_t *store, kvl_value_t *value)
{
    kvl_value_t *old = kvl_index_find(&store->index, value->hash, value->key, value->key_length);

    if (old) {
        kvl_value_hide(store, old);
    }
    kvl_index_insert(&store->index, value);
    value->state = KVL_VALUE_VISIBLE;
    store->evict.ops->add(&store->evict, value);
    store->stats.commits++;
}

void kvl_value_pin(kvl_store_t *store, kvl_value_t *value)
{
    if (value->pins++ == 0) {
        store->evict.ops->remove(&store->evict, value);
    }
}

void kvl_value_unpin(kvl_store_t *store, kvl_value_t *value)
{
    if (--value->pins > 0) {
        return;
    }
    if (value->state == KVL_VALUE_VISIBLE) {
        store->evict.ops->add(&store->evict, value);
    } else {
        kvl_value_destroy(store, value);
    }
}

static void value_touch(kvl_store_t *store, kvl_value_t *value)
{
    if (!value->pins) {
        store->evict.ops->touch(&store->evict, value);
    }
}

/* ---- what clients ask ---- */

static kvl_status_t key_check(kvl_key_t key)
{
    return key.length > 0 && key.length <= UINT8_MAX ? KVL_OK : KVL_ERR_INVALID;
}

kvl_status_t kvl_store_put(kvl_holder_t *holder, kvl_key_t key, const void *bytes, uint64_t length)
{
    kvl_store_t *store = holder->store;
    kvl_value_t *value;
    kvl_status_t status = key_check(key);

    store->stats.puts++;
    if (status == KVL_OK) {
        status = kvl_value_create(store, key, length, &value);
    }
    if (status != KVL_OK) {
        return status;
    }
    memcpy(value->address, bytes, length);
    kvl_value_show(store, value);
    return KVL_OK;
}

kvl_status_t kvl_store_reserve(kvl_holder_t *holder, kvl_key_t key, uint64_t length,
                               int64_t deadline_ns, kvl_grant_t *grant_p)
{
    kvl_store_t *store = holder->store;
    kvl_value_t *value;
    kvl_status_t status = key_check(key);

    store->stats.puts++;
    if (status == KVL_OK) {
        status = kvl_lease_reserve(holder);
    }
    if (status == KVL_OK) {
        status = kvl_value_create(store, key, length, &value);
    }
    if (status == KVL_OK) {
        kvl_lease_open(holder, value, true, deadline_ns, grant_p);
    }
    return status;
}

kvl_status_t kvl_store_read(kvl_holder_t *holder, kvl_key_t key, uint64_t inline_max,
                            int64_t deadline_ns, kvl_found_value_t *found_p)
{
    kvl_store_t *store = holder->store;
    kvl_value_t *value = kvl_value_find(store, key);
    kvl_found_value_t found;
    kvl_status_t status;

    store->stats.gets++;
    if (!value) {
        store->stats.misses++;
        return KVL_ERR_NOT_FOUND;
    }
    found = (kvl_found_value_t){.length = value->length, .address = value->address};
    if (value->length <= inline_max) {
        value_touch(store, value);
    } else {
        status = kvl_lease_reserve(holder);
        if (status != KVL_OK) {
            return status;
        }
        kvl_value_pin(store, value);
        kvl_lease_open(holder, value, false, deadline_ns, &found.grant);
        found.leased = true;
    }
    store->stats.hits++;
    *found_p = found;
    return KVL_OK;
}

kvl_status_t kvl_store_exists(kvl_store_t *store, kvl_key_t key, uint64_t *length_p)
{
    kvl_value_t *value = kvl_value_find(store, key);

    if (!value) {
        store->stats.misses++; /* who is told so does not get it */
        return KVL_ERR_NOT_FOUND;
    }
    value_touch(store, value); /* who asks mostly comes back for it */
    *length_p = value->length;
    return KVL_OK;
}

kvl_status_t kvl_store_remove(kvl_store_t *store, kvl_key_t key)
{
    kvl_value_t *value = kvl_value_find(store, key);

    if (!value) {
        return KVL_ERR_NOT_FOUND;
    }
    kvl_value_hide(store, value);
    return KVL_OK;
}

void kvl_store_stats(const kvl_store_t *store, kvl_store_stats_t *stats_p)
{
    *stats_p             = store->stats;
    stats_p->keys        = store->index.count;
    stats_p->bytes_used  = store->slabs.used_bytes;
    stats_p->bytes_total = store->slabs.total_bytes;
    stats_p->leases      = store->leases.used;
}
