/* SPDX-License-Identifier: BSD-3-Clause */
#include "link/scratch.h"

/* Owned by a node or a listener. A slot belongs to one session from HELLO until the session is quiet. */

kvl_status_t kvl_scratch_create(kvl_scratch_t *scratch, kvl_engine_t *engine, size_t slot_bytes,
                                unsigned slots)
{
    kvl_status_t status = kvl_region_alloc(engine, slot_bytes * slots, &scratch->region);

    if (status == KVL_OK) {
        scratch->slot_bytes = slot_bytes;
        scratch->slots      = slots;
        scratch->used       = 0;
    }
    return status;
}

void kvl_scratch_cleanup(kvl_scratch_t *scratch)
{
    kvl_region_release(scratch->region);
    *scratch = (kvl_scratch_t){.region = NULL};
}

int kvl_scratch_take(kvl_scratch_t *scratch, kvl_hello_ok_t *terms)
{
    unsigned slot;

    for (slot = 0; slot < scratch->slots; slot++) {
        if (!(scratch->used >> slot & 1)) {
            scratch->used |= UINT64_C(1) << slot;
            terms->scratch_region = scratch->region->id;
            terms->scratch_offset = (uint64_t)slot * scratch->slot_bytes;
            terms->scratch_length = (uint32_t)scratch->slot_bytes;
            return (int)slot;
        }
    }
    return -1;
}

void kvl_scratch_put(kvl_scratch_t *scratch, int slot)
{
    if (slot >= 0) {
        scratch->used &= ~(UINT64_C(1) << slot);
    }
}

void *kvl_scratch_address(const kvl_scratch_t *scratch, int slot, size_t *length_p)
{
    *length_p = slot >= 0 ? scratch->slot_bytes : 0;
    return slot >= 0 ? (uint8_t *)scratch->region->address + (size_t)slot * scratch->slot_bytes : NULL;
}
