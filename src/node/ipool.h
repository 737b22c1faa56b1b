/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects of one size that are named by a number. They never move; memory grows in chunks and is
 * kept. A number costs half of a pointer and can be checked before it is followed. */
#ifndef KVL_NODE_IPOOL_H
#define KVL_NODE_IPOOL_H

#include <kvlane/status.h>

#include <stddef.h>
#include <stdint.h>

#define KVL_IPOOL_NONE  UINT32_MAX
#define KVL_IPOOL_SHIFT 10
#define KVL_IPOOL_CHUNK (1u << KVL_IPOOL_SHIFT) /* objects */

typedef struct {
    size_t size; /* of an object; at least 4 */
    char **chunks;
    uint32_t chunk_count, chunk_room;
    uint32_t count; /* objects that exist, in use or idle */
    uint32_t used;
    uint32_t idle; /* first of the idle ones; each holds the number of the next */
} kvl_ipool_t;

void kvl_ipool_init(kvl_ipool_t *pool, size_t size);
void kvl_ipool_cleanup(kvl_ipool_t *pool);
/* Makes room for at least one more object. */
kvl_status_t kvl_ipool_reserve(kvl_ipool_t *pool);
/* Takes an object, contents undefined. KVL_ERR_NO_MEMORY; never after kvl_ipool_reserve(). */
kvl_status_t kvl_ipool_get(kvl_ipool_t *pool, uint32_t *number_p);
void kvl_ipool_put(kvl_ipool_t *pool, uint32_t number);

/* @a number must be below pool->count */
static inline void *kvl_ipool_at(const kvl_ipool_t *pool, uint32_t number)
{
    return pool->chunks[number >> KVL_IPOOL_SHIFT] +
           (size_t)(number & (KVL_IPOOL_CHUNK - 1)) * pool->size;
}

#endif
