/* SPDX-License-Identifier: BSD-3-Clause */
#include "mem/private.h"

#ifdef KVL_HAVE_CUDA

#include <assert.h>

/* Copies go to a stream of the device's own for each way; a fence is an event in it. A gate is an event that we
 * record in the caller's stream, one of the caller's, or both. */

static CUresult copy_each(const kvl_driver_t *driver, CUstream stream, const kvl_copy_t *copies, size_t count)
{
    CUresult result = CUDA_SUCCESS;
    size_t i;

    for (i = 0; result == CUDA_SUCCESS && i < count; i++) {
        result = driver->copy((CUdeviceptr)copies[i].to, (CUdeviceptr)copies[i].from, copies[i].length, stream);
    }
    return result;
}

#ifdef KVL_CUDA_BATCH
/* Source order: that of the stream, since the caller's bytes stay until the fence. */
static CUresult copy_batch(const kvl_driver_t *driver, CUstream stream, const kvl_copy_t *copies, size_t count)
{
    CUdeviceptr to[KVL_COPIES_MAX], from[KVL_COPIES_MAX];
    size_t lengths[KVL_COPIES_MAX], first = 0, i;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};

    for (i = 0; i < count; i++) {
        to[i]      = (CUdeviceptr)copies[i].to;
        from[i]    = (CUdeviceptr)copies[i].from;
        lengths[i] = copies[i].length;
    }
#if CUDA_VERSION >= 13000
    return driver->copy_batch(to, from, lengths, count, &attributes, &first, 1, stream);
#else
    size_t failed;

    return driver->copy_batch(to, from, lengths, count, &attributes, &first, 1, &failed, stream);
#endif
}
#endif

kvl_status_t kvl_device_copy(kvl_device_t *device, kvl_copy_dir_t dir, const kvl_copy_t *copies, size_t count)
{
    const kvl_driver_t *driver;
    kvl_status_t status = kvl_device_begin(device, &driver);
    CUresult result;

    assert(count <= KVL_COPIES_MAX);
    if (status != KVL_OK) {
        return status;
    }
#ifdef KVL_CUDA_BATCH
    result = count > 1 && driver->copy_batch ? copy_batch(driver, device->streams[dir], copies, count)
                                             : copy_each(driver, device->streams[dir], copies, count);
#else
    result = copy_each(driver, device->streams[dir], copies, count);
#endif
    kvl_device_end();
    return kvl_device_result(result, device, dir == KVL_TO_HOST ? "a copy from it" : "a copy to it");
}

kvl_status_t kvl_device_settle(kvl_device_t *device, kvl_copy_dir_t dir)
{
    const kvl_driver_t *driver;
    kvl_status_t status = kvl_device_begin(device, &driver);

    if (status == KVL_OK) {
        status = kvl_device_result(driver->stream_wait(device->streams[dir]), device, "cuStreamSynchronize");
        kvl_device_end();
    }
    return status;
}

kvl_status_t kvl_device_flush(kvl_device_t *device)
{
    const kvl_driver_t *driver;
    kvl_status_t status = kvl_device_begin(device, &driver);

    if (status != KVL_OK) {
        return status;
    }
    if (driver->flush_writes) {
        status = kvl_device_result(driver->flush_writes(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                                        CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER),
                                   device, "cuFlushGPUDirectRDMAWrites");
    }
    kvl_device_end();
    return status;
}

/* ---- fences ---- */

static kvl_status_t fence_record(kvl_fence_t *fence, kvl_device_t *device, CUstream stream)
{
    const kvl_driver_t *driver;
    CUresult result = CUDA_SUCCESS;
    CUevent event;
    kvl_status_t status;

    if (fence->event && fence->device != device) {
        kvl_fence_cleanup(fence);
    }
    status = kvl_device_begin(device, &driver);
    if (status != KVL_OK) {
        return status;
    }
    if (!fence->event) {
        result = driver->event_create(&event, CU_EVENT_DISABLE_TIMING);
        if (result == CUDA_SUCCESS) {
            *fence = (kvl_fence_t){device, event};
        }
    }
    if (result == CUDA_SUCCESS) {
        result = driver->event_record(fence->event, stream);
    }
    kvl_device_end();
    return kvl_device_result(result, device, "cuEventRecord");
}

static kvl_status_t event_test(kvl_device_t *device, void *event)
{
    const kvl_driver_t *driver;
    kvl_status_t status = kvl_device_begin(device, &driver);
    CUresult result;

    if (status != KVL_OK) {
        return status;
    }
    result = driver->event_query(event);
    kvl_device_end();
    return result == CUDA_ERROR_NOT_READY ? KVL_INPROGRESS : kvl_device_result(result, device, "work on the device");
}

kvl_status_t kvl_fence_set(kvl_fence_t *fence, kvl_device_t *device, kvl_copy_dir_t dir)
{
    return fence_record(fence, device, device->streams[dir]);
}

kvl_status_t kvl_fence_test(const kvl_fence_t *fence)
{
    return event_test(fence->device, fence->event);
}

void kvl_fence_cleanup(kvl_fence_t *fence)
{
    const kvl_driver_t *driver;

    if (fence->event && kvl_device_begin(fence->device, &driver) == KVL_OK) {
        driver->event_destroy(fence->event);
        kvl_device_end();
    }
    *fence = (kvl_fence_t){.event = NULL};
}

/* ---- gates ---- */

kvl_status_t kvl_gate_init(kvl_gate_t *gate, kvl_device_t *device, void *stream, void *event)
{
    kvl_status_t status = KVL_OK;

    *gate = (kvl_gate_t){.stream = {.device = device}, .event = event};
    if (stream) {
        status = fence_record(&gate->stream, device, stream);
    }
    if (status == KVL_OK && event) { /* one that is none is found here, not in the middle of things */
        status = event_test(device, event);
    }
    if (status < 0) {
        kvl_gate_cleanup(gate);
        return status;
    }
    return KVL_OK;
}

kvl_status_t kvl_gate_test(const kvl_gate_t *gate)
{
    kvl_status_t status = gate->event ? event_test(gate->stream.device, gate->event) : KVL_OK;

    return status == KVL_OK && gate->stream.event ? kvl_fence_test(&gate->stream) : status;
}

void kvl_gate_cleanup(kvl_gate_t *gate)
{
    kvl_fence_cleanup(&gate->stream);
    gate->event = NULL;
}

#endif
