/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "mem/device.h"

#ifndef KVL_HAVE_CUDA

#include "base/error.h"
#include "mem/host.h"

/* A build without CUDA: there is host memory and nothing else. What is asked of a device is never reached. */

#define ABSENT "this kvlane was built without CUDA: configure it --with-cuda=DIR"

kvl_status_t kvl_device_library(const char *library)
{
    return library && library[0] ? kvl_error(KVL_ERR_UNSUPPORTED, "KVLANE_CUDA_LIBRARY=%s, but " ABSENT, library)
                                 : KVL_OK;
}

const char *kvl_device_absent(void)
{
    return ABSENT;
}

kvl_status_t kvl_device_find(const void *address, size_t length, kvl_device_t **device_p)
{
    if (!kvl_host_reads(address, length)) {
        return kvl_error(KVL_ERR_UNSUPPORTED, "%zu bytes at %p: the CPU cannot read them. If they are device memory: "
                         ABSENT, length, address);
    }
    *device_p = NULL;
    return KVL_OK;
}

unsigned kvl_device_number(const kvl_device_t *device)
{
    (void)device;
    return 0;
}

const char *kvl_device_name(const kvl_device_t *device)
{
    (void)device;
    return "?";
}

void kvl_device_enter(kvl_device_t *device)
{
    (void)device;
}

void kvl_device_leave(kvl_device_t *device)
{
    (void)device;
}

kvl_status_t kvl_device_alloc(kvl_device_t *device, size_t length, void **address_p)
{
    (void)device;
    (void)length;
    (void)address_p;
    return KVL_ERR_UNSUPPORTED;
}

void kvl_device_free(kvl_device_t *device, void *address)
{
    (void)device;
    (void)address;
}

kvl_status_t kvl_device_pin(kvl_device_t *device, void *address, size_t length)
{
    (void)device;
    (void)address;
    (void)length;
    return KVL_ERR_UNSUPPORTED;
}

void kvl_device_unpin(kvl_device_t *device, void *address)
{
    (void)device;
    (void)address;
}

kvl_status_t kvl_device_copy(kvl_device_t *device, kvl_copy_dir_t dir, const kvl_copy_t *copies, size_t count)
{
    (void)device;
    (void)dir;
    (void)copies;
    (void)count;
    return KVL_ERR_UNSUPPORTED;
}

kvl_status_t kvl_device_settle(kvl_device_t *device, kvl_copy_dir_t dir)
{
    (void)device;
    (void)dir;
    return KVL_ERR_UNSUPPORTED;
}

kvl_status_t kvl_fence_set(kvl_fence_t *fence, kvl_device_t *device, kvl_copy_dir_t dir)
{
    (void)fence;
    (void)device;
    (void)dir;
    return KVL_ERR_UNSUPPORTED;
}

kvl_status_t kvl_fence_test(const kvl_fence_t *fence)
{
    (void)fence;
    return KVL_OK;
}

void kvl_fence_cleanup(kvl_fence_t *fence)
{
    (void)fence;
}

kvl_status_t kvl_device_flush(kvl_device_t *device)
{
    (void)device;
    return KVL_ERR_UNSUPPORTED;
}

kvl_status_t kvl_gate_init(kvl_gate_t *gate, kvl_device_t *device, void *stream, void *event)
{
    (void)gate;
    (void)device;
    (void)stream;
    (void)event;
    return kvl_error(KVL_ERR_UNSUPPORTED, "an event or stream to wait for: " ABSENT);
}

kvl_status_t kvl_gate_test(const kvl_gate_t *gate)
{
    (void)gate;
    return KVL_OK;
}

void kvl_gate_cleanup(kvl_gate_t *gate)
{
    (void)gate;
}

#endif
