/* SPDX-License-Identifier: BSD-3-Clause */
/* What tests do with a GPU themselves, by the driver's calls: the fake one's, or with KVL_TEST_CUDA=libcuda.so.1 a
 * real one's. */
#ifndef KVL_TEST_DEVICE_GPU_H
#define KVL_TEST_DEVICE_GPU_H

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#ifdef KVL_HAVE_CUDA

#include "conform/stage.h"
#include "fake/cuda/fake.h"
#include "shim/shim.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The library, loaded; for KVLANE_CUDA_LIBRARY. */
const char *gpu_library(void);
bool gpu_is_fake(void);
unsigned gpu_count(void); /* of devices; at least 1, or the test is left */
/* of the fake; all 0 on a real one */
fakecuda_counts_t gpu_counts(void);
void gpu_mode(fakecuda_mode_t mode); /* fake only */
void gpu_fail(unsigned skip, unsigned count); /* fake only */

void *gpu_alloc(unsigned device, size_t size);
void gpu_free(void *memory);
/* The same in chunks that were mapped side by side; after the chunk number @a hole (0: none) one is missing. */
typedef struct {
    void *memory;
    size_t size, chunk;
    unsigned count, hole;
    unsigned long long handles[8];
} gpu_chunks_t;
void gpu_alloc_chunks(gpu_chunks_t *chunks, unsigned device, unsigned count, unsigned hole);
void gpu_free_chunks(gpu_chunks_t *chunks);

void gpu_write(void *to, const void *from, size_t length); /* waits */
void gpu_read(void *to, const void *from, size_t length);
/* fill() and differs() of conform/stage.h, there */
void gpu_fill(void *memory, size_t length, uint64_t seed);
size_t gpu_differs(const void *memory, size_t length, uint64_t seed);

/* A stream of device 0 that is held until released: what is put in it waits. */
typedef struct {
    void *stream, *event;
    uint32_t *word; /* pinned */
    void *data;     /* pinned, for gpu_write_later() */
} gpu_stream_t;
void gpu_hold(gpu_stream_t *stream); /* leaves the test if the device cannot */
void gpu_write_later(gpu_stream_t *stream, void *to, size_t length, uint64_t seed); /* fill(); at most 1 MiB */
void gpu_record(gpu_stream_t *stream); /* the event, behind what is in it now */
void gpu_release(gpu_stream_t *stream);
void gpu_stream_end(gpu_stream_t *stream); /* released before */

/* A stage with kvlane on that driver. */
void gpu_stage(stage_t *stage, stage_params_t params);

#endif
#endif
