/* SPDX-License-Identifier: BSD-3-Clause */
#include "link/scratch.h"

#include "base/alloc.h"
#include "base/error.h"

/* Owned by a node or a listener. A slot belongs to one session from HELLO until the session is quiet. */

kvl_status_t kvl_scratch_create(kvl_scratch_t *scratch, kvl_engine_t *engine, size_t slot_bytes,
                                unsigned slots)
{
    unsigned *free_slots = kvl_calloc(slots, sizeof(*free_slots));
    kvl_status_t status;

    if (!free_slots) {
        return kvl_error(KVL_ERR_NO_MEMORY, "self-tests: no memory for %u slots", slots);
    }
    status = kvl_region_alloc(engine, slot_bytes * slots, &scratch->region);
    if (status != KVL_OK) {
        kvl_free(free_slots);
        return status;
    }
    scratch->slot_bytes = slot_bytes;
    scratch->free       = free_slots;
    for (scratch->free_count = 0; scratch->free_count < slots; scratch->free_count++) {
        free_slots[scratch->free_count] = slots - 1 - scratch->free_count;
    }
    return KVL_OK;
}

void kvl_scratch_cleanup(kvl_scratch_t *scratch)
{
    kvl_region_release(scratch->region);
    kvl_free(scratch->free);
    *scratch = (kvl_scratch_t){.region = NULL};
}

int kvl_scratch_take(kvl_scratch_t *scratch, kvl_hello_ok_t *terms)
{
    unsigned slot;

    if (!scratch->free_count) {
        return -1;
    }
    slot                  = scratch->free[--scratch->free_count];
    terms->scratch_region = scratch->region->id;
    terms->scratch_offset = (uint64_t)slot * scratch->slot_bytes;
    terms->scratch_length = (uint32_t)scratch->slot_bytes;
    return (int)slot;
}

void kvl_scratch_put(kvl_scratch_t *scratch, int slot)
{
    if (slot >= 0) {
        scratch->free[scratch->free_count++] = (unsigned)slot;
    }
}

void *kvl_scratch_address(const kvl_scratch_t *scratch, int slot, size_t *length_p)
{
    *length_p = slot >= 0 ? scratch->slot_bytes : 0;
    return slot >= 0 ? (uint8_t *)scratch->region->address + (size_t)slot * scratch->slot_bytes : NULL;
}
