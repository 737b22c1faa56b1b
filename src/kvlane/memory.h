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
 *
 * Memory may be a GPU's, in a build --with-cuda: kvlane asks the CUDA driver of the process what an address is. It
 * moves straight to and from a rail where UCX can and a self-test has shown that no byte gets lost, and through pinned
 * host memory (KVLANE_STAGE_SIZE) elsewhere; kvl_engine_print() tells which. `stream` and `event` in
 * kvl_batch_params_t order a batch behind work on the device.
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

typedef enum { KVL_MEMORY_HOST, KVL_MEMORY_CUDA } kvl_memory_kind_t;

/** What memory is. */
typedef struct {
    kvl_memory_kind_t kind;
    int device; /**< number of the GPU, as CUDA counts; -1: host memory */
} kvl_memory_t;

/**
 * Tells what @a length bytes at @a address are. Memory that CUDA shares with the CPU (pinned, managed) is host memory.
 * The driver has to be in the process already, which it is if there is device memory, or named by
 * KVLANE_CUDA_LIBRARY to an engine that was created before.
 * @return KVL_OK, KVL_ERR_INVALID (NULL, 0 bytes, wraps; neither host memory nor all of one GPU: the text says where it
 * ends), KVL_ERR_UNSUPPORTED (the CPU cannot read it, and this build has no CUDA).
 * **Thread** any. **Blocks** never for long.
 */
KVL_API kvl_status_t kvl_memory_query(const void *address, size_t length, kvl_memory_t *memory_p);

/**
 * Registers @a length bytes at @a address on every rail or on none: host memory, or memory of one GPU, which may span
 * allocations that were mapped side by side.
 * @return KVL_OK, KVL_ERR_INVALID (NULL, 0 bytes, wraps; neither host memory nor all of one GPU), KVL_ERR_UNSUPPORTED
 * (as kvl_memory_query()), KVL_ERR_REGISTER, KVL_ERR_NO_MEMORY, KVL_ERR_LIMIT (over KVLANE_PIN_MAX, which the first
 * GPU's region counts for with KVLANE_STAGE_SIZE).
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
