/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/batch.h"

#include "base/clock.h"
#include "base/error.h"

#include <stdarg.h>

/* The owner (a cache's job, a transfer) drives a batch on the engine thread: init, end for each
 * item, complete once. The caller looks from any thread: `complete` orders everything before it.
 *
 * Memory: two references, the caller's and the engine's, plus one while a cancel is on its way
 * through the inbox. So a caller may release a batch from another thread while its callback runs.
 *
 * Status: the worst group wins (batch, peer, rail, item); within a group the first one seen. The
 * cause belongs to the failure that decided the status. */

static void batch_unhold(kvl_batch_t *batch)
{
    if (atomic_fetch_sub_explicit(&batch->references, 1, memory_order_acq_rel) == 1) {
        kvl_gate_cleanup(&batch->gate);
        batch->ops->destroy(batch);
    }
}

static bool batch_is_complete(const kvl_batch_t *batch)
{
    return atomic_load_explicit(&batch->complete, memory_order_acquire) != 0;
}

kvl_status_t kvl_batch_deadline(kvl_engine_t *engine, const kvl_batch_params_t *params,
                                int64_t *deadline_p)
{
    int64_t timeout_ns = kvl_engine_settings(engine)->timeout_ns;

    if (params && params->timeout_ms < 0) {
        return kvl_error(KVL_ERR_INVALID,
                         "batch: timeout_ms is %lld; accepted: 0 (KVLANE_TIMEOUT) "
                         "or more, there is no \"forever\"",
                         (long long)params->timeout_ms);
    }
    if (params && params->timeout_ms > 0) {
        timeout_ns =
            params->timeout_ms > KVL_TIME_MAX / KVL_MS ? KVL_TIME_MAX : params->timeout_ms * KVL_MS;
    }
    *deadline_p = kvl_time_add(kvl_now_ns(), timeout_ns);
    return KVL_OK;
}

static void batch_cancel_work(kvl_work_t *work)
{
    kvl_batch_t *batch = kvl_container(work, kvl_batch_t, cancel_work);

    if (!batch_is_complete(batch)) {
        batch->ops->cancel(batch);
    }
    batch_unhold(batch);
}

void kvl_batch_init(kvl_batch_t *batch, kvl_engine_t *engine, const kvl_batch_ops_t *ops,
                    const kvl_batch_params_t *params, int64_t deadline_ns, kvl_result_t *results,
                    size_t count)
{
    size_t i;

    batch->engine      = engine;
    batch->ops         = ops;
    batch->callback    = params ? params->callback : NULL;
    batch->arg         = params ? params->arg : NULL;
    batch->deadline_ns = deadline_ns;
    batch->count       = count;
    batch->results     = results;
    batch->left        = count;
    batch->status      = KVL_OK;
    batch->cause[0]    = '\0';
    batch->gated       = false;
    batch->gate        = (kvl_gate_t){.event = NULL};
    atomic_init(&batch->complete, 0);
    atomic_init(&batch->references, 2);
    atomic_init(&batch->cancel_asked, false);
    batch->cancel_work.func = batch_cancel_work;
    for (i = 0; i < count; i++) {
        results[i] = (kvl_result_t){.status = KVL_INPROGRESS};
    }
}

kvl_status_t kvl_batch_gate(kvl_batch_t *batch, const kvl_batch_params_t *params, kvl_device_t *device)
{
    kvl_status_t status;

    if (!params || (!params->stream && !params->event)) {
        return KVL_OK;
    }
    if (!device) {
        return kvl_error(KVL_ERR_INVALID, "batch: a stream or event to wait for, but none of its memory is a device's");
    }
    status       = kvl_gate_init(&batch->gate, device, params->stream, params->event);
    batch->gated = status == KVL_OK;
    return status;
}

kvl_status_t kvl_batch_admits(kvl_batch_t *batch)
{
    kvl_status_t status = batch->gated ? kvl_gate_test(&batch->gate) : KVL_OK;

    batch->gated = status == KVL_INPROGRESS;
    return status;
}

bool kvl_batch_fail(kvl_batch_t *batch, kvl_status_t status)
{
    if (kvl_status_group(status) <= kvl_status_group(batch->status)) {
        return false;
    }
    batch->status   = status;
    batch->cause[0] = '\0';
    return true;
}

bool kvl_batch_end(kvl_batch_t *batch, size_t index, kvl_status_t status, uint64_t length)
{
    batch->results[index] = (kvl_result_t){.status = status, .length = length};
    batch->left--;
    return kvl_batch_fail(batch, status);
}

void kvl_batch_blame(kvl_batch_t *batch, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(batch->cause, sizeof(batch->cause), format, args);
    va_end(args);
}

void kvl_batch_complete(kvl_batch_t *batch)
{
    kvl_engine_t *engine = batch->engine;
    bool has_callback    = batch->callback != NULL;

    atomic_store_explicit(&batch->complete, 1, memory_order_release);
    if (has_callback) {
        batch->callback(batch, batch->arg);
    }
    batch_unhold(batch);
    kvl_engine_notify(engine, !has_callback);
}

kvl_status_t kvl_batch_test(kvl_batch_t *batch)
{
    if (!batch) {
        return kvl_error(KVL_ERR_INVALID, "batch: it is NULL");
    }
    return batch_is_complete(batch) ? batch->status : KVL_INPROGRESS;
}

kvl_status_t kvl_batch_wait(kvl_batch_t *batch, int64_t timeout_ms)
{
    int64_t until_ns = KVL_TIME_MAX;

    if (!batch || batch_is_complete(batch)) {
        return kvl_batch_test(batch);
    }
    if (timeout_ms >= 0 && timeout_ms < KVL_TIME_MAX / KVL_MS) {
        until_ns = kvl_time_add(kvl_now_ns(), timeout_ms * KVL_MS);
    }
    kvl_engine_wait(batch->engine, &batch->complete, until_ns);
    return kvl_batch_test(batch);
}

void kvl_batch_cancel(kvl_batch_t *batch)
{
    if (!batch || batch_is_complete(batch) || atomic_exchange(&batch->cancel_asked, true)) {
        return;
    }
    atomic_fetch_add_explicit(&batch->references, 1, memory_order_relaxed);
    kvl_engine_post(batch->engine, &batch->cancel_work);
}

size_t kvl_batch_count(const kvl_batch_t *batch)
{
    return batch ? batch->count : 0;
}

kvl_status_t kvl_batch_item(const kvl_batch_t *batch, size_t index, uint64_t *length_p)
{
    if (!batch) {
        return kvl_error(KVL_ERR_INVALID, "batch: it is NULL");
    }
    if (index >= batch->count) {
        return kvl_error(KVL_ERR_INVALID, "batch: item %zu of %zu asked for", index, batch->count);
    }
    if (!batch_is_complete(batch)) {
        return KVL_INPROGRESS;
    }
    if (length_p) {
        *length_p = batch->results[index].length;
    }
    return batch->results[index].status;
}

const char *kvl_batch_cause(const kvl_batch_t *batch)
{
    return batch && batch_is_complete(batch) ? batch->cause : "";
}

kvl_status_t kvl_batch_release(kvl_batch_t *batch)
{
    if (!batch) {
        return KVL_OK;
    }
    if (!batch_is_complete(batch)) {
        return kvl_error(KVL_ERR_BUSY,
                         "batch: not complete; cancel it and wait before the release");
    }
    batch_unhold(batch);
    return KVL_OK;
}
