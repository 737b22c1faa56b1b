/* SPDX-License-Identifier: BSD-3-Clause */
/* A batch: what the caller holds of work under way. It counts items that ended, finds the batch's
 * status and cause, and tells the caller once. It knows nothing of what is done: a cache's job and a
 * transport's transfer embed it and give it two functions. */
#ifndef KVL_CLIENT_BATCH_H
#define KVL_CLIENT_BATCH_H

#include "engine/engine.h"
#include "mem/device.h"

#include <kvlane/engine.h>

#include <stdatomic.h>
#include <stdbool.h>

#define KVL_CAUSE_MAX 512

typedef struct {
    /* The caller wants an early end. Engine thread, never after kvl_batch_complete(). */
    void (*cancel)(kvl_batch_t *batch);
    /* The last reference is gone: frees the memory that holds the batch. Any thread. */
    void (*destroy)(kvl_batch_t *batch);
} kvl_batch_ops_t;

/* How one item ended. */
typedef struct {
    kvl_status_t status; /* KVL_INPROGRESS until then */
    uint64_t length;     /* stored length, 0 if unknown */
} kvl_result_t;

struct kvl_batch {
    /* constant after init */
    kvl_engine_t *engine;
    const kvl_batch_ops_t *ops;
    kvl_batch_func_t callback;
    void *arg;
    int64_t deadline_ns;
    size_t count;
    /* engine thread until complete, then constant */
    kvl_result_t *results;
    size_t left; /* items not ended */
    kvl_status_t status;
    char cause[KVL_CAUSE_MAX];
    /* atomic: the engine thread sets complete once, with release order; readers acquire it */
    _Atomic int complete;
    _Atomic unsigned references; /* the caller's, the engine's, and a cancel's under way */
    _Atomic bool cancel_asked;
    bool gated;      /* engine thread, after submit: its memory may not be touched yet */
    kvl_gate_t gate; /* ... until this is open; constant after submit */
    kvl_work_t cancel_work; /* the one crossing from callers to the engine, posted at most once */
};

/* The absolute deadline of a batch submitted now. KVL_ERR_INVALID if params are wrong; NULL: defaults.
 * Any thread. */
kvl_status_t kvl_batch_deadline(kvl_engine_t *engine, const kvl_batch_params_t *params,
                                int64_t *deadline_p);

/* Prepares a batch in the owner's memory. @a results: room for @a count, filled here. Any thread.
 * From now on it has two references: kvl_batch_release() and kvl_batch_complete() give them back. */
void kvl_batch_init(kvl_batch_t *batch, kvl_engine_t *engine, const kvl_batch_ops_t *ops,
                    const kvl_batch_params_t *params, int64_t deadline_ns, kvl_result_t *results,
                    size_t count);

/* Notes what @a params say has to be over on @a device (of the batch's memory; NULL: it has none) before the memory is
 * touched. KVL_ERR_INVALID. Any thread, after init. */
kvl_status_t kvl_batch_gate(kvl_batch_t *batch, const kvl_batch_params_t *params, kvl_device_t *device);
/* May it be touched? KVL_INPROGRESS: ask again in a moment (KVL_GATE_NS); an error: it will never be. Engine thread. */
kvl_status_t kvl_batch_admits(kvl_batch_t *batch);
#define KVL_GATE_NS (50 * KVL_US)

/* Item @a index ended. Once per item. Returns true if this failure decides the batch's status as
 * known so far: the caller then says why with kvl_batch_blame(). Engine thread. */
bool kvl_batch_end(kvl_batch_t *batch, size_t index, kvl_status_t status, uint64_t length);
/* The batch failed as a whole; items still end one by one. Returns as kvl_batch_end(). */
bool kvl_batch_fail(kvl_batch_t *batch, kvl_status_t status);
void kvl_batch_blame(kvl_batch_t *batch, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static inline bool kvl_batch_is_over(const kvl_batch_t *batch)
{
    return batch->left == 0;
}

/* Every item ended and nothing touches the caller's memory any more: tells the caller. The batch
 * may be gone on return. Engine thread. */
void kvl_batch_complete(kvl_batch_t *batch);

#endif
