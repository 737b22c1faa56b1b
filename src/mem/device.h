/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory: what a pointer is, copies between it and host memory, and what to wait for before it is
 * touched. The one folder that knows CUDA; nothing of CUDA's types leaves it. In a build without --with-cuda
 * there is no device memory: kvl_device_absent() says so.
 *
 * The driver is not linked. It is loaded when it is needed first: by a setting that names it, or because the
 * process has it already, which it has if it has device memory. Each call makes the device's primary context
 * the thread's current one for its time, so it may come from any thread; what the thread had is put back.
 *
 * Thread: any, unless said otherwise. */
#ifndef KVL_MEM_DEVICE_H
#define KVL_MEM_DEVICE_H

#include <kvlane/status.h>

#include <stdbool.h>
#include <stddef.h>

#define KVL_DEVICES_MAX 64

/* One GPU, from its first use to the end of the process; its primary context is retained. */
typedef struct kvl_device kvl_device_t;

/* Takes the driver from @a library, once; NULL or "": from the process. KVL_ERR_CONFIG: it cannot be loaded. */
kvl_status_t kvl_device_library(const char *library);
/* Why there is no device memory here; NULL if there is. */
const char *kvl_device_absent(void);

/* What lies at [address, address + length): a GPU's memory, all of it and of one GPU, or host memory (NULL),
 * which the CPU can read. The range may span allocations. KVL_ERR_INVALID: neither. */
kvl_status_t kvl_device_find(const void *address, size_t length, kvl_device_t **device_p);
unsigned kvl_device_number(const kvl_device_t *device); /* below KVL_DEVICES_MAX */
const char *kvl_device_name(const kvl_device_t *device); /* "cuda:0" */

/* Its context is current for this thread from enter to leave; for who touches its memory without the calls below
 * (UCX does). NULL: nothing happens. */
void kvl_device_enter(kvl_device_t *device);
void kvl_device_leave(kvl_device_t *device);

/* Memory of its own, for self-tests. KVL_ERR_INVALID. */
kvl_status_t kvl_device_alloc(kvl_device_t *device, size_t length, void **address_p);
void kvl_device_free(kvl_device_t *device, void *address);

/* Host memory that copies of all devices may go to and from at full speed; pageable memory works too. */
kvl_status_t kvl_device_pin(kvl_device_t *device, void *address, size_t length);
void kvl_device_unpin(kvl_device_t *device, void *address);

/* ---- copies between device memory and host memory; neither is touched by others until they are over ---- */
typedef enum { KVL_TO_HOST, KVL_TO_DEVICE } kvl_copy_dir_t;

typedef struct {
    void *to;
    const void *from;
    size_t length;
} kvl_copy_t;

#define KVL_COPIES_MAX 64 /* of one call */

/* Starts @a count copies, as one batch where the driver has that. KVL_ERR_INVALID: it would not; some of them may be
 * under way then: kvl_device_settle(). */
kvl_status_t kvl_device_copy(kvl_device_t *device, kvl_copy_dir_t dir, const kvl_copy_t *copies, size_t count);
/* Waits until no copy that way is under way; for small things and for failures. */
kvl_status_t kvl_device_settle(kvl_device_t *device, kvl_copy_dir_t dir);

/* A moment in what a device does. Zeroed memory is one that may be set, again and again, and is cleaned up at last. */
typedef struct {
    kvl_device_t *device;
    void *event; /* of the driver; stays until the cleanup */
} kvl_fence_t;

/* After every copy that way that was started before. */
kvl_status_t kvl_fence_set(kvl_fence_t *fence, kvl_device_t *device, kvl_copy_dir_t dir);
/* KVL_INPROGRESS, KVL_OK, or KVL_ERR_INVALID: what came before it failed. */
kvl_status_t kvl_fence_test(const kvl_fence_t *fence);
void kvl_fence_cleanup(kvl_fence_t *fence);

/* Writes that a NIC did are seen by what the device does from now on. */
kvl_status_t kvl_device_flush(kvl_device_t *device);

/* ---- gates: work of the application on the device that has to be over before we touch its memory ---- */
typedef struct {
    kvl_fence_t stream;
    void *event; /* the caller's; NULL: none */
} kvl_gate_t;

/* All that is in @a stream now, and what @a event was recorded after (CUstream and CUevent of the device; NULL: none;
 * the event must stay until the cleanup). KVL_ERR_INVALID. */
kvl_status_t kvl_gate_init(kvl_gate_t *gate, kvl_device_t *device, void *stream, void *event);
kvl_status_t kvl_gate_test(const kvl_gate_t *gate); /* as kvl_fence_test(); one that has nothing to wait for is open */
void kvl_gate_cleanup(kvl_gate_t *gate);

#endif
