/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file memory.h
 * Regions: memory that kvlane may move.
 *
 *     kvl_region_t *pool;
 *     if (kvl_region_register(engine, base, length, &pool) != KVL_OK)
 *         errx(1, "%s", kvl_error_text());
 *     kvl_segment_t page = {.address = base + 4096, .length = 65536, .region = pool};
 *     ...
 *     kvl_region_release(pool);
 *
 * Register once at start: a registration pins pages and takes long. One handle serves all rails, and all slices
 * of KVLANE_REG_SLICE that a long region is registered in: segments may lie across them.
 */
#ifndef KVLANE_MEMORY_H
#define KVLANE_MEMORY_H

#include <kvlane/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kvl_region kvl_region_t;

/** One contiguous piece of a value. */
typedef struct {
    void *address;
    size_t length;        /**< bytes; at least 1 */
    kvl_region_t *region; /**< the region that holds it; NULL: the engine looks it up */
} kvl_segment_t;

/**
 * Registers @a length bytes at @a address, host memory, on every rail or on none.
 * @return KVL_OK, KVL_ERR_INVALID (NULL, 0 bytes, wraps), KVL_ERR_REGISTER, KVL_ERR_NO_MEMORY, KVL_ERR_LIMIT
 * (over KVLANE_PIN_MAX).
 * **Ownership** the memory stays the caller's and must outlive the region.
 * **Thread** any. **Blocks** while pages are pinned; and where the process would have more registered than
 * KVLANE_PIN_MAX, until other regions are released, up to KVLANE_TIMEOUT (in a callback: not at all).
 */
KVL_API kvl_status_t kvl_region_register(kvl_engine_t *engine, void *address, size_t length,
                                         kvl_region_t **region_p);

/** Allocates zeroed host memory that UCX can share with other processes of the host; else as
 * kvl_region_register(). */
KVL_API kvl_status_t kvl_region_alloc(kvl_engine_t *engine, size_t length, kvl_region_t **region_p);

KVL_API void *kvl_region_address(const kvl_region_t *region);
KVL_API size_t kvl_region_length(const kvl_region_t *region);

/**
 * Gives the region back. NULL is accepted.
 * @return KVL_OK, or KVL_ERR_BUSY while a batch still uses it (nothing is changed then).
 */
KVL_API kvl_status_t kvl_region_release(kvl_region_t *region);

/**
 * Writes the blob that a peer imports (kvl_remote_import in transport.h) to reach this region;
 * from now on peers of this engine's listener may read and write all of it, until released.
 * @param length_p  in: size of @a blob; out: size of the blob. KVL_ERR_LIMIT if too small, with
 *                  the needed size in @a length_p; it grows by some hundred bytes with each slice.
 */
KVL_API kvl_status_t kvl_region_export(kvl_region_t *region, void *blob, size_t *length_p);

#ifdef __cplusplus
}
#endif
#endif
