/* SPDX-License-Identifier: BSD-3-Clause */
#include "node/ipool.h"

#include "base/alloc.h"
#include "base/error.h"

#include <string.h>

void kvl_ipool_init(kvl_ipool_t *pool, size_t size)
{
    *pool = (kvl_ipool_t){.size = size, .idle = KVL_IPOOL_NONE};
}

void kvl_ipool_cleanup(kvl_ipool_t *pool)
{
    uint32_t i;

    for (i = 0; i < pool->chunk_count; i++) {
        kvl_free(pool->chunks[i]);
    }
    kvl_free(pool->chunks);
    kvl_ipool_init(pool, pool->size);
}

static kvl_status_t ipool_widen(kvl_ipool_t *pool)
{
    uint32_t room = pool->chunk_room ? 2 * pool->chunk_room : 16;
    char **chunks = kvl_realloc(pool->chunks, room * sizeof(*chunks));

    if (!chunks) {
        return KVL_ERR_NO_MEMORY;
    }
    pool->chunks     = chunks;
    pool->chunk_room = room;
    return KVL_OK;
}

kvl_status_t kvl_ipool_reserve(kvl_ipool_t *pool)
{
    char *chunk;

    if (pool->idle != KVL_IPOOL_NONE || pool->count < pool->chunk_count << KVL_IPOOL_SHIFT) {
        return KVL_OK;
    }
    if (pool->chunk_count == UINT32_MAX >> KVL_IPOOL_SHIFT ||
        (pool->chunk_count == pool->chunk_room && ipool_widen(pool) != KVL_OK)) {
        return kvl_error(KVL_ERR_NO_MEMORY, "node: out of memory");
    }
    chunk = kvl_malloc(KVL_IPOOL_CHUNK * pool->size);
    if (!chunk) {
        return kvl_error(KVL_ERR_NO_MEMORY, "node: out of memory");
    }
    pool->chunks[pool->chunk_count++] = chunk;
    return KVL_OK;
}

kvl_status_t kvl_ipool_get(kvl_ipool_t *pool, uint32_t *number_p)
{
    kvl_status_t status = kvl_ipool_reserve(pool);

    if (status != KVL_OK) {
        return status;
    }
    pool->used++;
    if (pool->idle == KVL_IPOOL_NONE) {
        *number_p = pool->count++;
        return KVL_OK;
    }
    *number_p = pool->idle;
    memcpy(&pool->idle, kvl_ipool_at(pool, pool->idle), sizeof(pool->idle));
    return KVL_OK;
}

void kvl_ipool_put(kvl_ipool_t *pool, uint32_t number)
{
    memcpy(kvl_ipool_at(pool, number), &pool->idle, sizeof(pool->idle));
    pool->idle = number;
    pool->used--;
}
