/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory for the self-tests of sessions: a region of its own, cut into slots, so that no test takes room
 * from what the owner keeps for its users. Engine thread only, but for create and cleanup. */
#ifndef KVL_LINK_SCRATCH_H
#define KVL_LINK_SCRATCH_H

#include "engine/engine.h"
#include "wire/wire.h"

/* zeroed memory is one that has no slots */
typedef struct {
    kvl_region_t *region;
    size_t slot_bytes;
    unsigned *free; /* the slots that nobody has, a stack */
    unsigned free_count;
} kvl_scratch_t;

kvl_status_t kvl_scratch_create(kvl_scratch_t *scratch, kvl_engine_t *engine, size_t slot_bytes,
                                unsigned slots);
void kvl_scratch_cleanup(kvl_scratch_t *scratch);

/* A slot, told in @a terms; -1: none is free, and the session goes without its self-test. */
int kvl_scratch_take(kvl_scratch_t *scratch, kvl_hello_ok_t *terms);
/* Nobody writes to it any more; -1 is accepted. */
void kvl_scratch_put(kvl_scratch_t *scratch, int slot);
/* NULL and 0 for -1 */
void *kvl_scratch_address(const kvl_scratch_t *scratch, int slot, size_t *length_p);

#endif
