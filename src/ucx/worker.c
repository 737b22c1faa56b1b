/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx/options.h"
#include "ucx/private.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"

#include <assert.h>
#include <poll.h>
#include <stdlib.h>

/* A worker is one lane on one rail. It is SERIALIZED: any thread may touch it, one at a time, and
 * the engine sees to that. kvl_worker_wake() is the exception that UCX allows from anywhere. */

#define SETTLE_MS   100
#define FLUSHES_MAX 32 /* each holds an endpoint; UCX counts who does in 8 bits, and aborts at 255 */

static kvl_status_t worker_handlers(kvl_worker_t *worker)
{
    for (unsigned id = 1; worker->params.am && id < worker->params.am_count; id++) {
        kvl_am_handler_t *handler    = &worker->handlers[id];
        ucp_am_handler_param_t param = {
            .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                          UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
            .id    = id,
            .flags = UCP_AM_FLAG_WHOLE_MSG,
            .cb    = kvl_am_arrived,
            .arg   = handler,
        };
        ucs_status_t status;

        *handler = (kvl_am_handler_t){worker, id};
        status   = kvl_ucp_fails() ? UCS_ERR_IO_ERROR
                                   : ucp_worker_set_am_recv_handler(worker->ucp, &param);

        if (status != UCS_OK) {
            return kvl_ucx_error("ucp_worker_set_am_recv_handler", status);
        }
    }
    return KVL_OK;
}

static kvl_status_t worker_open(kvl_worker_t *worker)
{
    ucp_worker_params_t params = {
        .field_mask  = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_CLIENT_ID,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED,
        .client_id   = worker->params.client_id,
    };
    ucs_status_t status = kvl_ucp_fails()
                              ? UCS_ERR_IO_ERROR
                              : ucp_worker_create(worker->context->ucp, &params, &worker->ucp);

    if (status != UCS_OK) {
        return kvl_ucx_error("ucp_worker_create", status);
    }
    return KVL_OK;
}

static kvl_status_t worker_start(kvl_worker_t *worker)
{
    ucs_status_t status =
        kvl_ucp_fails() ? UCS_ERR_IO_ERROR : ucp_worker_get_efd(worker->ucp, &worker->fd);

    if (status != UCS_OK) {
        return kvl_ucx_error("ucp_worker_get_efd", status);
    }
    return worker_handlers(worker);
}

kvl_status_t kvl_worker_create(kvl_context_t *context, const kvl_worker_params_t *params,
                               kvl_worker_t **worker_p)
{
    kvl_worker_t *worker;
    kvl_status_t status;

    if (params->am_count > KVL_AM_IDS_MAX) {
        return kvl_error(KVL_ERR_LIMIT, "worker: %u message ids, at most %u", params->am_count,
                         KVL_AM_IDS_MAX);
    }
    worker = kvl_calloc(1, sizeof(*worker));
    if (!worker) {
        return kvl_error(KVL_ERR_NO_MEMORY, "worker: %zu bytes", sizeof(*worker));
    }
    worker->context    = context;
    worker->params     = *params;
    worker->memh       = kvl_ucx_api() >= UCP_VERSION(1, 15);
    worker->needs_memh = kvl_ucx_api() >= UCP_VERSION(1, 14);
    worker->proto_v2   = kvl_options_proto_v2(context->options);
    kvl_list_init(&worker->closing);
    kvl_list_init(&worker->waiting);
    kvl_list_init(&worker->retired);
    kvl_list_init(&worker->reqs);
    for (size_t i = 0; i < KVL_EP_BUCKETS; i++) {
        kvl_list_init(&worker->buckets[i]);
    }
    status = worker_open(worker);
    if (status != KVL_OK) {
        goto err_free;
    }
    status = worker_start(worker);
    if (status != KVL_OK) {
        goto err_destroy;
    }
    context->workers++;
    kvl_events_watch(worker);
    *worker_p = worker;
    return KVL_OK;

err_destroy:
    ucp_worker_destroy(worker->ucp);
err_free:
    kvl_free(worker);
    return status;
}

/* Has UCX nothing to do for it any more? What its endpoints left behind may need a moment. */
static bool worker_settles(kvl_worker_t *worker)
{
    unsigned i;

    for (i = 0; i < SETTLE_MS; i++) {
        while (ucp_worker_progress(worker->ucp)) {
        }
        if (ucp_worker_arm(worker->ucp) == UCS_OK) {
            return true;
        }
        if (i) {
            poll(NULL, 0, 1);
        }
    }
    kvl_warn("worker: UCX has something to do for it that does not end; left behind");
    return false;
}

void kvl_worker_destroy(kvl_worker_t *worker)
{
    if (!worker) {
        return;
    }
    assert(kvl_worker_open_endpoints(worker) == 0);
    kvl_ucx_listeners_free(worker);
    if (!worker->eps && worker_settles(worker)) {
        ucp_worker_destroy(worker->ucp);
    } else {
        worker->context->haunted = true;
    }
    kvl_events_unwatch(worker);
    worker->context->workers--;
    kvl_list_splice_back(&worker->reqs, &worker->waiting);
    while (!kvl_list_empty(&worker->reqs)) {
        kvl_req_abandon(kvl_container(worker->reqs.next, kvl_req_t, link));
    }
    worker->ended = true;
    if (!worker->eps) {
        kvl_free(worker);
    }
}

/* @a req was begun */
static kvl_status_t worker_flush(kvl_worker_t *worker, kvl_req_t *req)
{
    ucp_request_param_t param;
    ucs_status_ptr_t result;

    kvl_req_param(&param, req, REQ_CTRL);
    req->flushes = worker;
    worker->flushes++;
    result = kvl_ucp_fails() ? UCS_STATUS_PTR(UCS_ERR_IO_ERROR)
                             : ucp_worker_flush_nbx(worker->ucp, &param);
    return kvl_req_posted(req, result, REQ_CTRL);
}

kvl_status_t kvl_worker_flush(kvl_worker_t *worker, kvl_req_t *req)
{
    kvl_req_begin(req, worker, NULL);
    if (worker->flushes < FLUSHES_MAX) {
        return worker_flush(worker, req);
    }
    kvl_list_remove(&req->link);
    kvl_list_push_back(&worker->waiting, &req->link);
    return KVL_INPROGRESS;
}

/* flushes that waited go on */
static unsigned worker_flush_waiting(kvl_worker_t *worker)
{
    unsigned count = 0;

    while (worker->flushes < FLUSHES_MAX && !kvl_list_empty(&worker->waiting)) {
        kvl_req_t *req = kvl_container(kvl_list_pop_front(&worker->waiting), kvl_req_t, link);
        kvl_status_t status;

        kvl_list_push_back(&worker->reqs, &req->link);
        status = worker_flush(worker, req);
        if (status != KVL_INPROGRESS) {
            req->done(req, status);
        }
        count++;
    }
    return count;
}

unsigned kvl_worker_progress(kvl_worker_t *worker)
{
    uint64_t closes = atomic_load_explicit(&worker->closes, memory_order_acquire);
    unsigned count  = ucp_worker_progress(worker->ucp);

    if (closes != worker->seen) {
        kvl_events_seen(worker, closes);
    }
    if (!kvl_list_empty(&worker->waiting)) {
        count += worker_flush_waiting(worker);
    }
    return kvl_list_empty(&worker->closing) ? count : count + kvl_ep_close_settled(worker);
}

kvl_status_t kvl_worker_arm(kvl_worker_t *worker)
{
    return kvl_list_empty(&worker->closing) ? kvl_status_of(ucp_worker_arm(worker->ucp))
                                            : KVL_ERR_BUSY;
}

int kvl_worker_fd(const kvl_worker_t *worker)
{
    return worker->fd;
}

void kvl_worker_wake(kvl_worker_t *worker)
{
    ucs_status_t status = ucp_worker_signal(worker->ucp);

    if (status != UCS_OK) {
        kvl_warn("worker: cannot be woken: %s", ucs_status_string(status));
    }
}

unsigned kvl_worker_endpoints(const kvl_worker_t *worker)
{
    return worker->eps;
}

/* of its open endpoints: how many there are, and what they send */
static unsigned worker_count(const kvl_worker_t *worker, unsigned *sends_p)
{
    unsigned i, count = 0;

    *sends_p = 0;
    for (i = 0; i < KVL_EP_BUCKETS; i++) {
        const kvl_list_t *node;

        for (node = worker->buckets[i].next; node != &worker->buckets[i]; node = node->next) {
            const kvl_ep_t *ep = kvl_container(node, kvl_ep_t, bucket);

            count++;
            *sends_p += ep->pending - ep->receiving;
        }
    }
    return count;
}

unsigned kvl_worker_open_endpoints(const kvl_worker_t *worker)
{
    unsigned sends;

    return worker_count(worker, &sends);
}

unsigned kvl_worker_sends(const kvl_worker_t *worker)
{
    unsigned sends;

    (void)worker_count(worker, &sends);
    return sends;
}
