/* SPDX-License-Identifier: BSD-3-Clause */
#include "mem/device.h"

#include "mem/private.h"

#ifdef KVL_HAVE_CUDA

#include "base/error.h"
#include "mem/host.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

/* The driver and its devices, of the process. A device is made at its first use and stays: others in the process
 * hold its primary context too, and at exit the driver may be gone before us.
 *
 * What a pointer is, is asked of the driver, never guessed: device memory has addresses like any other. */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* loading, and making a device */
static _Atomic(const kvl_driver_t *) loaded;
static kvl_device_t devices[KVL_DEVICES_MAX];

static kvl_status_t driver_take(const char *library, const kvl_driver_t **driver_p)
{
    const kvl_driver_t *driver = atomic_load_explicit(&loaded, memory_order_acquire);
    kvl_status_t status        = KVL_OK;

    if (!driver) {
        pthread_mutex_lock(&lock);
        driver = atomic_load_explicit(&loaded, memory_order_acquire);
        if (!driver) {
            status = kvl_driver_load(library, &driver);
        }
        if (status == KVL_OK) {
            atomic_store_explicit(&loaded, driver, memory_order_release);
        }
        pthread_mutex_unlock(&lock);
    }
    *driver_p = driver;
    return status;
}

kvl_status_t kvl_device_library(const char *library)
{
    const kvl_driver_t *driver;

    return library && library[0] ? driver_take(library, &driver) : KVL_OK;
}

const char *kvl_device_absent(void)
{
    const kvl_driver_t *driver;

    return driver_take(NULL, &driver) == KVL_OK
               ? NULL
               : "this process has no CUDA driver loaded (libcuda.so.1), so it has no device memory";
}

kvl_status_t kvl_device_result(CUresult result, const kvl_device_t *device, const char *call)
{
    const char *name = "an unknown error";

    if (result == CUDA_SUCCESS) {
        return KVL_OK;
    }
    atomic_load(&loaded)->error_name(result, &name);
    return kvl_error(KVL_ERR_INVALID, "%s: %s: %s; is the memory still allocated, and the stream or event of this device?",
                     device ? device->name : "device memory", call, name);
}

kvl_status_t kvl_device_begin(kvl_device_t *device, const kvl_driver_t **driver_p)
{
    const kvl_driver_t *driver = atomic_load_explicit(&loaded, memory_order_acquire);

    *driver_p = driver;
    return kvl_device_result(driver->context_push(device->context), device, "cuCtxPushCurrent");
}

void kvl_device_end(void)
{
    CUcontext context;

    atomic_load_explicit(&loaded, memory_order_acquire)->context_pop(&context);
}

void kvl_device_enter(kvl_device_t *device)
{
    const kvl_driver_t *driver;

    if (device) {
        kvl_device_begin(device, &driver);
    }
}

void kvl_device_leave(kvl_device_t *device)
{
    if (device) {
        kvl_device_end();
    }
}

/* under lock */
static kvl_status_t device_make(const kvl_driver_t *driver, kvl_device_t *device)
{
    CUdevice ordinal;
    CUcontext other;
    CUresult result = driver->device_get(&ordinal, (int)device->number);
    unsigned dir;

    if (result == CUDA_SUCCESS) {
        result = driver->context_retain(&device->context, ordinal);
    }
    if (result == CUDA_SUCCESS) {
        result = driver->context_push(device->context);
    }
    if (result != CUDA_SUCCESS) {
        return kvl_device_result(result, device, "its primary context");
    }
    for (dir = 0; result == CUDA_SUCCESS && dir < 2; dir++) {
        result = driver->stream_create(&device->streams[dir], CU_STREAM_NON_BLOCKING);
    }
    driver->context_pop(&other);
    return kvl_device_result(result, device, "cuStreamCreate");
}

static kvl_status_t device_get(const kvl_driver_t *driver, int number, kvl_device_t **device_p)
{
    kvl_device_t *device;
    kvl_status_t status = KVL_OK;

    if (number < 0 || number >= KVL_DEVICES_MAX) {
        return kvl_error(KVL_ERR_LIMIT, "cuda:%d: devices 0 to %d are known", number, KVL_DEVICES_MAX - 1);
    }
    device = &devices[number];
    if (!atomic_load_explicit(&device->ready, memory_order_acquire)) {
        pthread_mutex_lock(&lock);
        if (!atomic_load_explicit(&device->ready, memory_order_acquire)) {
            device->number = (unsigned)number;
            snprintf(device->name, sizeof(device->name), "cuda:%d", number);
            status = device_make(driver, device);
            atomic_store_explicit(&device->ready, status == KVL_OK, memory_order_release);
        }
        pthread_mutex_unlock(&lock);
    }
    *device_p = device;
    return status;
}

/* What the driver says of the allocation at an address. */
typedef struct {
    bool device;
    int number;
    uintptr_t end; /* of the allocation; only of device memory */
} place_t;

static kvl_status_t place_ask(const kvl_driver_t *driver, uintptr_t address, place_t *place)
{
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                   CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    unsigned type = 0, managed = 0;
    CUdeviceptr start = 0;
    size_t size       = 0;
    void *values[]    = {&type, &managed, &place->number, &start, &size};
    CUresult result   = driver->pointer_attributes(sizeof(names) / sizeof(names[0]), names, values, (CUdeviceptr)address);

    if (result == CUDA_ERROR_INVALID_VALUE) { /* older drivers: an address that is not theirs */
        type = 0;
    } else if (result != CUDA_SUCCESS) {
        return kvl_device_result(result, NULL, "cuPointerGetAttributes");
    }
    place->device = type == CU_MEMORYTYPE_DEVICE && !managed; /* managed memory is the CPU's as well */
    place->end    = (uintptr_t)start + size;
    return KVL_OK;
}

/* Allocations that the driver maps side by side (cuMemMap) are one range to their owner: each is asked. */
static kvl_status_t range_follow(const kvl_driver_t *driver, uintptr_t address, size_t length, place_t first)
{
    uintptr_t end = address + length, at;
    place_t place = first;
    kvl_status_t status;

    for (at = place.end; at > address && at < end; at = place.end) {
        status = place_ask(driver, at, &place);
        if (status != KVL_OK) {
            return status;
        }
        if (!place.device || place.number != first.number || place.end <= at) {
            return kvl_error(KVL_ERR_INVALID, "%zu bytes at %p: memory of cuda:%d up to %p, and something else behind; "
                             "register each by itself", length, (void *)address, first.number, (void *)at);
        }
    }
    return KVL_OK;
}

kvl_status_t kvl_device_find(const void *address, size_t length, kvl_device_t **device_p)
{
    const kvl_driver_t *driver;
    place_t place       = {.device = false};
    kvl_status_t status = driver_take(NULL, &driver);

    if (status != KVL_OK && status != KVL_ERR_NOT_FOUND) {
        return status;
    }
    if (status == KVL_OK) {
        status = place_ask(driver, (uintptr_t)address, &place);
    } else {
        status = KVL_OK;
    }
    if (status == KVL_OK && place.device) {
        status = range_follow(driver, (uintptr_t)address, length, place);
        return status == KVL_OK ? device_get(driver, place.number, device_p) : status;
    }
    if (status == KVL_OK && !kvl_host_reads(address, length)) {
        return kvl_error(KVL_ERR_INVALID, "%zu bytes at %p: the CPU cannot read them, and they are no device memory that "
                         "the CUDA driver of this process knows; are they allocated?", length, address);
    }
    if (status == KVL_OK) {
        *device_p = NULL;
    }
    return status;
}

unsigned kvl_device_number(const kvl_device_t *device)
{
    return device->number;
}

const char *kvl_device_name(const kvl_device_t *device)
{
    return device->name;
}

kvl_status_t kvl_device_alloc(kvl_device_t *device, size_t length, void **address_p)
{
    const kvl_driver_t *driver;
    kvl_status_t status = kvl_device_begin(device, &driver);
    CUdeviceptr address;

    if (status != KVL_OK) {
        return status;
    }
    status = kvl_device_result(driver->alloc(&address, length), device, "cuMemAlloc");
    kvl_device_end();
    if (status == KVL_OK) {
        *address_p = (void *)address;
    }
    return status;
}

void kvl_device_free(kvl_device_t *device, void *address)
{
    const kvl_driver_t *driver;

    if (address && kvl_device_begin(device, &driver) == KVL_OK) {
        driver->free((CUdeviceptr)address);
        kvl_device_end();
    }
}

kvl_status_t kvl_device_pin(kvl_device_t *device, void *address, size_t length)
{
    const kvl_driver_t *driver;
    kvl_status_t status = kvl_device_begin(device, &driver);

    if (status == KVL_OK) {
        status = kvl_device_result(driver->host_register(address, length, CU_MEMHOSTREGISTER_PORTABLE), device,
                                   "cuMemHostRegister");
        kvl_device_end();
    }
    return status;
}

void kvl_device_unpin(kvl_device_t *device, void *address)
{
    const kvl_driver_t *driver;

    if (kvl_device_begin(device, &driver) == KVL_OK) {
        driver->host_unregister(address);
        kvl_device_end();
    }
}

#endif
