/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake/cuda/private.h"

/* Primary contexts, and which one a thread has. */

#define STACK 16

struct CUctx_st {
    int device;
    unsigned retained;
};

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
fakecuda_counts_t fake_counts;

static struct CUctx_st contexts[DEVICES] = {{0, 0}, {1, 0}};
static _Thread_local CUcontext stack[STACK];
static _Thread_local unsigned depth;

void fakecuda_counts(fakecuda_counts_t *counts);

void fakecuda_counts(fakecuda_counts_t *counts)
{
    pthread_mutex_lock(&fake_lock);
    *counts = fake_counts;
    pthread_mutex_unlock(&fake_lock);
}

int fake_device(void)
{
    if (!depth || !stack[depth - 1]) {
        fake_counts.strays++;
        return -1;
    }
    return stack[depth - 1]->device;
}

CUresult cuInit(unsigned flags)
{
    return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **name_p)
{
    switch (error) {
    case CUDA_ERROR_INVALID_VALUE: *name_p = "CUDA_ERROR_INVALID_VALUE"; return CUDA_SUCCESS;
    case CUDA_ERROR_INVALID_CONTEXT: *name_p = "CUDA_ERROR_INVALID_CONTEXT"; return CUDA_SUCCESS;
    case CUDA_ERROR_INVALID_HANDLE: *name_p = "CUDA_ERROR_INVALID_HANDLE"; return CUDA_SUCCESS;
    case CUDA_ERROR_ILLEGAL_ADDRESS: *name_p = "CUDA_ERROR_ILLEGAL_ADDRESS"; return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuDeviceGetCount(int *count_p)
{
    *count_p = DEVICES;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device_p, int ordinal)
{
    if (ordinal < 0 || ordinal >= DEVICES) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *device_p = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context_p, CUdevice device)
{
    if (device < 0 || device >= DEVICES) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    pthread_mutex_lock(&fake_lock);
    fake_counts.retained += !contexts[device].retained++;
    pthread_mutex_unlock(&fake_lock);
    *context_p = &contexts[device];
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    pthread_mutex_lock(&fake_lock);
    fake_counts.retained -= !--contexts[device].retained;
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context)
{
    if (!context || !context->retained || depth == STACK) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *context_p)
{
    if (!depth) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    *context_p = stack[--depth];
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context_p)
{
    *context_p = depth ? stack[depth - 1] : NULL;
    return CUDA_SUCCESS;
}
