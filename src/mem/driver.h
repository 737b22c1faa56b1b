/* SPDX-License-Identifier: BSD-3-Clause */
/* The CUDA driver's calls, found at run time. Types come from CUDA's own header, so this is for builds
 * --with-cuda alone. */
#ifndef KVL_MEM_DRIVER_H
#define KVL_MEM_DRIVER_H

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <kvlane/status.h>

#ifdef KVL_HAVE_CUDA

#include <cuda.h>

/* The call for many copies at once is of CUDA 12.8, with a place for the number of the copy that failed; 13 has
 * another form under a new name. NULL where the driver or the header is older. */
#if CUDA_VERSION >= 12080
#define KVL_CUDA_BATCH 1
#if CUDA_VERSION >= 13000
typedef CUresult (*kvl_copy_batch_func_t)(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *,
                                          size_t, CUstream);
#else
typedef CUresult (*kvl_copy_batch_func_t)(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *,
                                          size_t, size_t *, CUstream);
#endif
#endif

typedef struct {
    __typeof__(cuInit) *init;
    __typeof__(cuGetErrorName) *error_name;
    __typeof__(cuPointerGetAttributes) *pointer_attributes;
    __typeof__(cuDeviceGet) *device_get;
    __typeof__(cuDevicePrimaryCtxRetain) *context_retain;
    __typeof__(cuCtxPushCurrent) *context_push;
    __typeof__(cuCtxPopCurrent) *context_pop;
    __typeof__(cuStreamCreate) *stream_create;
    __typeof__(cuStreamSynchronize) *stream_wait;
    __typeof__(cuEventCreate) *event_create;
    __typeof__(cuEventDestroy) *event_destroy;
    __typeof__(cuEventRecord) *event_record;
    __typeof__(cuEventQuery) *event_query;
    __typeof__(cuMemcpyAsync) *copy;
    __typeof__(cuMemAlloc) *alloc;
    __typeof__(cuMemFree) *free;
    __typeof__(cuMemHostRegister) *host_register;
    __typeof__(cuMemHostUnregister) *host_unregister;
    /* may be NULL */
    __typeof__(cuFlushGPUDirectRDMAWrites) *flush_writes;
#ifdef KVL_CUDA_BATCH
    kvl_copy_batch_func_t copy_batch;
#endif
} kvl_driver_t;

/* @a library: a file; NULL: the driver that the process has. KVL_ERR_NOT_FOUND: it has none, which nobody is told. */
kvl_status_t kvl_driver_load(const char *library, const kvl_driver_t **driver_p);

#endif
#endif
