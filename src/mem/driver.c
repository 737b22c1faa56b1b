/* SPDX-License-Identifier: BSD-3-Clause */
#include "mem/driver.h"

#ifdef KVL_HAVE_CUDA

#include "base/error.h"

#include <dlfcn.h>
#include <stdbool.h>

/* Loaded once and kept: a driver cannot be unloaded while contexts live. Called under the lock of device.c.
 * CUDA's header renames calls whose form has changed; the text of such a name is that of the new one. */

#define LIBRARY "libcuda.so.1"

#define TEXT(name_) #name_
#define NAME(name_) TEXT(name_)

static kvl_driver_t driver;

typedef struct {
    const char *name;
    void *place;
    bool wanted; /* without it there is no driver */
} symbol_t;

static const symbol_t symbols[] = {
    {NAME(cuInit), &driver.init, true},
    {NAME(cuGetErrorName), &driver.error_name, true},
    {NAME(cuPointerGetAttributes), &driver.pointer_attributes, true},
    {NAME(cuDeviceGet), &driver.device_get, true},
    {NAME(cuDevicePrimaryCtxRetain), &driver.context_retain, true},
    {NAME(cuCtxPushCurrent), &driver.context_push, true},
    {NAME(cuCtxPopCurrent), &driver.context_pop, true},
    {NAME(cuStreamCreate), &driver.stream_create, true},
    {NAME(cuStreamSynchronize), &driver.stream_wait, true},
    {NAME(cuEventCreate), &driver.event_create, true},
    {NAME(cuEventDestroy), &driver.event_destroy, true},
    {NAME(cuEventRecord), &driver.event_record, true},
    {NAME(cuEventQuery), &driver.event_query, true},
    {NAME(cuMemcpyAsync), &driver.copy, true},
    {NAME(cuMemAlloc), &driver.alloc, true},
    {NAME(cuMemFree), &driver.free, true},
    {NAME(cuMemHostRegister), &driver.host_register, true},
    {NAME(cuMemHostUnregister), &driver.host_unregister, true},
    {NAME(cuFlushGPUDirectRDMAWrites), &driver.flush_writes, false},
#ifdef KVL_CUDA_BATCH
    {NAME(cuMemcpyBatchAsync), &driver.copy_batch, false},
#endif
};

static kvl_status_t symbols_find(void *handle, const char *library)
{
    size_t i;

    for (i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *symbol = dlsym(handle, symbols[i].name);

        if (!symbol && symbols[i].wanted) {
            return kvl_error(KVL_ERR_CONFIG, "device memory: %s has no %s: it is no CUDA driver, or one older than "
                             "CUDA 11", library, symbols[i].name);
        }
        *(void **)symbols[i].place = symbol;
    }
    return KVL_OK;
}

kvl_status_t kvl_driver_load(const char *library, const kvl_driver_t **driver_p)
{
    const char *name = library ? library : LIBRARY;
    void *handle     = dlopen(name, RTLD_NOW | RTLD_LOCAL | (library ? 0 : RTLD_NOLOAD));
    kvl_status_t status;
    CUresult result;

    if (!handle) {
        return library ? kvl_error(KVL_ERR_CONFIG, "device memory: KVLANE_CUDA_LIBRARY=%s cannot be loaded (%s)", library,
                                   dlerror())
                       : KVL_ERR_NOT_FOUND;
    }
    status = symbols_find(handle, name);
    if (status == KVL_OK) {
        result = driver.init(0);
        if (result != CUDA_SUCCESS) {
            const char *why = "?";

            driver.error_name(result, &why);
            status = kvl_error(KVL_ERR_CONFIG, "device memory: the CUDA driver %s does not start (cuInit: %s)", name, why);
        }
    }
    if (status != KVL_OK) {
        dlclose(handle);
        return status;
    }
    *driver_p = &driver;
    return KVL_OK;
}

#endif
