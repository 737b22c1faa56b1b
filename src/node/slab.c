/* SPDX-License-Identifier: BSD-3-Clause */
#include "node/slab.h"

#include "base/error.h"

#include <inttypes.h>

/* Two-level segregated fit. A slab is a row of blocks, each free or a slot; two free ones are never
 * neighbours. Free blocks hang in lists by length: 28 powers of two, each cut into 32 steps, with a
 * bit per list that is not empty. Taking, splitting, freeing and merging are O(1) and know no size
 * classes that memory could be stuck in: any mix of lengths may follow any other.
 *
 * Lengths here are in granules, unless they are called bytes. */

#define STEP_SHIFT 5
#define SCAN_MAX   16 /* blocks of the request's own list, which may be too short, that are tried */

typedef struct {
    uint32_t start, length;
    kvl_block_id_t before, after;        /* in the slab */
    kvl_block_id_t list_prev, list_next; /* free: in its list */
    void *owner;                         /* NULL: free */
    uint32_t slab;
} block_t;

typedef struct {
    unsigned class, step;
} place_t;

static block_t *block_at(const kvl_slabs_t *slabs, kvl_block_id_t id)
{
    return kvl_ipool_at(&slabs->blocks, id);
}

static unsigned log2_floor(uint32_t n)
{
    return 31u - (unsigned)__builtin_clz(n);
}

/* the list that holds free blocks of this length */
static place_t place_of(uint32_t length)
{
    unsigned log;

    if (length < KVL_SLAB_STEPS) {
        return (place_t){0, length};
    }
    log = log2_floor(length);
    return (place_t){log - STEP_SHIFT + 1, length >> (log - STEP_SHIFT) & (KVL_SLAB_STEPS - 1)};
}

/* the first list all of whose blocks are at least that long */
static place_t place_above(uint32_t length)
{
    uint32_t step = length < KVL_SLAB_STEPS ? 1 : 1u << (log2_floor(length) - STEP_SHIFT);

    return place_of(length + step - 1);
}

static void list_push(kvl_slabs_t *slabs, kvl_block_id_t id)
{
    block_t *block       = block_at(slabs, id);
    place_t place        = place_of(block->length);
    kvl_block_id_t *head = &slabs->heads[place.class][place.step];

    block->owner     = NULL;
    block->list_prev = KVL_BLOCK_NONE;
    block->list_next = *head;
    if (*head != KVL_BLOCK_NONE) {
        block_at(slabs, *head)->list_prev = id;
    }
    *head = id;
    slabs->classes |= 1u << place.class;
    slabs->steps[place.class] |= 1u << place.step;
}

static void list_remove(kvl_slabs_t *slabs, kvl_block_id_t id)
{
    block_t *block = block_at(slabs, id);
    place_t place  = place_of(block->length);

    if (block->list_next != KVL_BLOCK_NONE) {
        block_at(slabs, block->list_next)->list_prev = block->list_prev;
    }
    if (block->list_prev != KVL_BLOCK_NONE) {
        block_at(slabs, block->list_prev)->list_next = block->list_next;
        return;
    }
    slabs->heads[place.class][place.step] = block->list_next;
    if (block->list_next == KVL_BLOCK_NONE) {
        slabs->steps[place.class] &= ~(1u << place.step);
        if (!slabs->steps[place.class]) {
            slabs->classes &= ~(1u << place.class);
        }
    }
}

/* the first block of the first list that is not empty, from @a place on */
static kvl_block_id_t list_first(const kvl_slabs_t *slabs, place_t place)
{
    uint32_t steps = slabs->steps[place.class] & ~0u << place.step;
    uint32_t classes;
    unsigned class = place.class;

    if (!steps) {
        classes = slabs->classes & ~0u << place.class & ~(1u << place.class);
        if (!classes) {
            return KVL_BLOCK_NONE;
        }
        class = (unsigned)__builtin_ctz(classes);
        steps = slabs->steps[class];
    }
    return slabs->heads[class][__builtin_ctz(steps)];
}

static kvl_block_id_t block_find(const kvl_slabs_t *slabs, uint32_t length)
{
    kvl_block_id_t id = list_first(slabs, place_above(length));
    place_t place     = place_of(length);
    unsigned i;

    if (id != KVL_BLOCK_NONE) {
        return id;
    }
    /* its own list may hold one that is long enough by chance */
    id = slabs->heads[place.class][place.step];
    for (i = 0; i < SCAN_MAX && id != KVL_BLOCK_NONE; i++) {
        if (block_at(slabs, id)->length >= length) {
            return id;
        }
        id = block_at(slabs, id)->list_next;
    }
    return KVL_BLOCK_NONE;
}

/* cuts a block that is in no list to @a length; the rest becomes a free block */
static kvl_status_t block_split(kvl_slabs_t *slabs, kvl_block_id_t id, uint32_t length)
{
    block_t *block = block_at(slabs, id);
    block_t *rest;
    kvl_block_id_t rest_id;

    if (kvl_ipool_get(&slabs->blocks, &rest_id) != KVL_OK) {
        return KVL_ERR_NO_MEMORY;
    }
    rest  = block_at(slabs, rest_id);
    *rest = (block_t){.start  = block->start + length,
                      .length = block->length - length,
                      .before = id,
                      .after  = block->after,
                      .slab   = block->slab};
    if (rest->after != KVL_BLOCK_NONE) {
        block_at(slabs, rest->after)->before = rest_id;
    }
    block->length = length;
    block->after  = rest_id;
    list_push(slabs, rest_id);
    return KVL_OK;
}

/* @a id, in no list, takes in the free block @a next behind it */
static void block_merge(kvl_slabs_t *slabs, kvl_block_id_t id, kvl_block_id_t next_id)
{
    block_t *block = block_at(slabs, id);
    block_t *next  = block_at(slabs, next_id);

    block->length += next->length;
    block->after = next->after;
    if (next->after != KVL_BLOCK_NONE) {
        block_at(slabs, next->after)->before = id;
    }
    kvl_ipool_put(&slabs->blocks, next_id);
}

static bool block_is_free(const kvl_slabs_t *slabs, kvl_block_id_t id)
{
    return id != KVL_BLOCK_NONE && !block_at(slabs, id)->owner;
}

static uint64_t granules(uint64_t bytes)
{
    return bytes / KVL_SLAB_GRANULE + (bytes % KVL_SLAB_GRANULE != 0);
}

void kvl_slabs_init(kvl_slabs_t *slabs)
{
    unsigned class, step;

    *slabs = (kvl_slabs_t){.slab_count = 0};
    kvl_ipool_init(&slabs->blocks, sizeof(block_t));
    for (class = 0; class < KVL_SLAB_CLASSES; class ++) {
        for (step = 0; step < KVL_SLAB_STEPS; step++) {
            slabs->heads[class][step] = KVL_BLOCK_NONE;
        }
    }
}

void kvl_slabs_cleanup(kvl_slabs_t *slabs)
{
    kvl_ipool_cleanup(&slabs->blocks);
    kvl_slabs_init(slabs);
}

kvl_status_t kvl_slabs_add(kvl_slabs_t *slabs, uint64_t length)
{
    uint32_t whole = (uint32_t)(length / KVL_SLAB_GRANULE);
    kvl_block_id_t id;

    if (length > KVL_SLAB_MAX || !whole) {
        return kvl_error(KVL_ERR_INVALID,
                         "node: a slab of %" PRIu64 " bytes; accepted: %u to %" PRIu64, length,
                         KVL_SLAB_GRANULE, KVL_SLAB_MAX);
    }
    if (slabs->slab_count == KVL_SLABS_MAX) {
        return kvl_error(KVL_ERR_LIMIT, "node: more than %u slabs", KVL_SLABS_MAX);
    }
    if (kvl_ipool_get(&slabs->blocks, &id) != KVL_OK) {
        return KVL_ERR_NO_MEMORY;
    }
    *block_at(slabs, id)              = (block_t){.length = whole,
                                                  .before = KVL_BLOCK_NONE,
                                                  .after  = KVL_BLOCK_NONE,
                                                  .slab   = slabs->slab_count};
    slabs->first[slabs->slab_count]   = id;
    slabs->slabs[slabs->slab_count++] = whole;
    slabs->total_bytes += (uint64_t)whole * KVL_SLAB_GRANULE;
    list_push(slabs, id);
    return KVL_OK;
}

uint64_t kvl_slabs_longest(const kvl_slabs_t *slabs)
{
    uint32_t longest = 0;
    unsigned i;

    for (i = 0; i < slabs->slab_count; i++) {
        longest = slabs->slabs[i] > longest ? slabs->slabs[i] : longest;
    }
    return (uint64_t)longest * KVL_SLAB_GRANULE;
}

kvl_status_t kvl_slabs_alloc_in(kvl_slabs_t *slabs, kvl_block_id_t free_block, uint64_t length,
                                void *owner, kvl_block_id_t *block_p)
{
    block_t *block = block_at(slabs, free_block);
    uint32_t want  = (uint32_t)granules(length);

    list_remove(slabs, free_block);
    if (block->length > want && block_split(slabs, free_block, want) != KVL_OK) {
        list_push(slabs, free_block);
        return KVL_ERR_NO_MEMORY;
    }
    block->owner = owner;
    slabs->used_bytes += (uint64_t)want * KVL_SLAB_GRANULE;
    slabs->slots++;
    *block_p = free_block;
    return KVL_OK;
}

kvl_status_t kvl_slabs_alloc(kvl_slabs_t *slabs, uint64_t length, void *owner,
                             kvl_block_id_t *block_p)
{
    uint64_t want = granules(length);
    kvl_block_id_t id;

    if (!want || length > kvl_slabs_longest(slabs)) {
        return KVL_ERR_NO_SPACE;
    }
    id = block_find(slabs, (uint32_t)want);
    if (id == KVL_BLOCK_NONE) {
        return KVL_ERR_BUSY;
    }
    return kvl_slabs_alloc_in(slabs, id, length, owner, block_p);
}

kvl_block_id_t kvl_slabs_free(kvl_slabs_t *slabs, kvl_block_id_t id)
{
    block_t *block        = block_at(slabs, id);
    kvl_block_id_t before = block->before;

    slabs->used_bytes -= (uint64_t)block->length * KVL_SLAB_GRANULE;
    slabs->slots--;
    if (block_is_free(slabs, block->after)) {
        list_remove(slabs, block->after);
        block_merge(slabs, id, block->after);
    }
    if (block_is_free(slabs, before)) {
        list_remove(slabs, before);
        block_merge(slabs, before, id);
        id = before;
    }
    list_push(slabs, id);
    return id;
}

void *kvl_slabs_owner(const kvl_slabs_t *slabs, kvl_block_id_t block)
{
    return block_at(slabs, block)->owner;
}

unsigned kvl_slabs_slab(const kvl_slabs_t *slabs, kvl_block_id_t block)
{
    return block_at(slabs, block)->slab;
}

uint64_t kvl_slabs_offset(const kvl_slabs_t *slabs, kvl_block_id_t block)
{
    return (uint64_t)block_at(slabs, block)->start * KVL_SLAB_GRANULE;
}

uint64_t kvl_slabs_bytes(const kvl_slabs_t *slabs, kvl_block_id_t block)
{
    return (uint64_t)block_at(slabs, block)->length * KVL_SLAB_GRANULE;
}

kvl_block_id_t kvl_slabs_before(const kvl_slabs_t *slabs, kvl_block_id_t block)
{
    return block_at(slabs, block)->before;
}

kvl_block_id_t kvl_slabs_after(const kvl_slabs_t *slabs, kvl_block_id_t block)
{
    return block_at(slabs, block)->after;
}
