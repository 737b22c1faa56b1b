/* SPDX-License-Identifier: BSD-3-Clause */
/* Cuts the node's memory into slots. Pure: it counts in offsets and never touches the memory, which
 * clients can reach; what it knows lies elsewhere. */
#ifndef KVL_NODE_SLAB_H
#define KVL_NODE_SLAB_H

#include "node/ipool.h"

#include <stdbool.h>

#define KVL_SLAB_GRANULE 64u                 /* slots start and end at multiples */
#define KVL_SLAB_MAX     (UINT64_C(7) << 29) /* 3.5 GiB: one slice, as KVLANE_REG_SLICE is by default */
#define KVL_SLABS_MAX    255                 /* and the region of the self-tests: KVL_WIRE_REGIONS_MAX */

#define KVL_BLOCK_NONE KVL_IPOOL_NONE

/* a piece of a slab, free or a slot; names stay valid until the slot is freed */
typedef uint32_t kvl_block_id_t;

#define KVL_SLAB_CLASSES 28 /* powers of two of granules ... */
#define KVL_SLAB_STEPS   32 /* ... each cut into equal steps */

typedef struct {
    kvl_ipool_t blocks;
    uint32_t slabs[KVL_SLABS_MAX];       /* length of each in granules */
    kvl_block_id_t first[KVL_SLABS_MAX]; /* its first block, which is never merged into another */
    unsigned slab_count;
    uint32_t classes;                 /* bit: the class has a free block */
    uint32_t steps[KVL_SLAB_CLASSES]; /* bit: the step has one */
    kvl_block_id_t heads[KVL_SLAB_CLASSES][KVL_SLAB_STEPS];
    uint64_t total_bytes, used_bytes;
    uint64_t slots;
} kvl_slabs_t;

void kvl_slabs_init(kvl_slabs_t *slabs);
void kvl_slabs_cleanup(kvl_slabs_t *slabs);

/* Adds a range of memory of @a length bytes, at most KVL_SLAB_MAX; it is slab number 0, 1, ...
 * KVL_ERR_INVALID, KVL_ERR_LIMIT, KVL_ERR_NO_MEMORY. */
kvl_status_t kvl_slabs_add(kvl_slabs_t *slabs, uint64_t length);

/* Takes a slot for @a length bytes. @a owner, not NULL, is handed back by kvl_slabs_owner().
 * KVL_ERR_NO_SPACE: longer than any slab, so never. KVL_ERR_BUSY: not as things are now.
 * KVL_ERR_NO_MEMORY. */
kvl_status_t kvl_slabs_alloc(kvl_slabs_t *slabs, uint64_t length, void *owner,
                             kvl_block_id_t *block_p);
/* ... within the free block @a free_block, which is long enough */
kvl_status_t kvl_slabs_alloc_in(kvl_slabs_t *slabs, kvl_block_id_t free_block, uint64_t length,
                                void *owner, kvl_block_id_t *block_p);
/* Gives a slot back. Returns the free block that it is now (a part of). */
kvl_block_id_t kvl_slabs_free(kvl_slabs_t *slabs, kvl_block_id_t block);

/* longest slot that can ever be, in bytes */
uint64_t kvl_slabs_longest(const kvl_slabs_t *slabs);

/* what a block is */
void *kvl_slabs_owner(const kvl_slabs_t *slabs, kvl_block_id_t block); /* NULL: it is free */
unsigned kvl_slabs_slab(const kvl_slabs_t *slabs, kvl_block_id_t block);
uint64_t kvl_slabs_offset(const kvl_slabs_t *slabs, kvl_block_id_t block); /* within its slab */
uint64_t kvl_slabs_bytes(const kvl_slabs_t *slabs, kvl_block_id_t block);
/* neighbours in the slab, KVL_BLOCK_NONE at its ends */
kvl_block_id_t kvl_slabs_before(const kvl_slabs_t *slabs, kvl_block_id_t block);
kvl_block_id_t kvl_slabs_after(const kvl_slabs_t *slabs, kvl_block_id_t block);

#endif
