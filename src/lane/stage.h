/* SPDX-License-Identifier: BSD-3-Clause */
/* Stages: host memory that the bytes of device memory go through, where a rail does not reach them by itself. One
 * pool of an engine, for all its links and sessions. Engine thread only, but for init and cleanup. */
#ifndef KVL_LANE_STAGE_H
#define KVL_LANE_STAGE_H

#include "lane/mover.h"
#include "mem/device.h"

/* zeroed: has no memory */
struct kvl_stages {
    uint8_t *base;
    kvl_mem_t *const *mems; /* registrations by rail */
    uint32_t *runs;         /* by unit: 0, or the length of the run that begins there */
    size_t units, next;
    unsigned busy;
};

/* @a base: registered as @a mems say, and pinned (kvl_device_pin()); the owner's. KVL_ERR_NO_MEMORY. */
kvl_status_t kvl_stages_init(kvl_stages_t *stages, void *base, size_t length, kvl_mem_t *const *mems);
void kvl_stages_cleanup(kvl_stages_t *stages); /* none is out */

/* Room for @a size bytes in a row; NULL: none now. It is given back with put. */
uint8_t *kvl_stage_get(kvl_stages_t *stages, size_t size);
void kvl_stage_put(kvl_stages_t *stages, uint8_t *stage);

/* Starts to copy @a length bytes between a stage and pieces, from byte @a at of the first on: those of @a device
 * with the next fence, those of host memory at once. KVL_ERR_INVALID: as kvl_device_copy(). */
kvl_status_t kvl_stage_copy(uint8_t *stage, const kvl_piece_t *pieces, size_t at, size_t length, kvl_device_t *device,
                            kvl_copy_dir_t dir);

#endif
