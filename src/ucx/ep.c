/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx/private.h"

#include "base/alloc.h"
#include "base/error.h"

#include <assert.h>
#include <string.h>

/* The life of an endpoint. What it carries is in rma.c and am.c, what it uses in info.c.
 *
 * A graceful close waits for every request, flushes, and then closes by force: nothing of ours is
 * left that force could lose, UCX frees the endpoint at once, and a peer that stopped reading can
 * be given up by a second, forced call. It goes on from kvl_worker_progress(), never in a callback.
 * What the peer has received by then, only the peer can say: it may learn of the close before it
 * reads the last bytes. UCX does not call the error handler for a close of our own. */

static kvl_list_t *ep_bucket(const kvl_worker_t *worker, ucp_ep_h ucp)
{
    uintptr_t key = (uintptr_t)ucp;

    return (kvl_list_t *)&worker->buckets[(key >> 6 ^ key >> 12) % KVL_EP_BUCKETS];
}

kvl_ep_t *kvl_ep_find(const kvl_worker_t *worker, ucp_ep_h ucp)
{
    kvl_list_t *bucket = ep_bucket(worker, ucp);

    for (kvl_list_t *node = bucket->next; node != bucket; node = node->next) {
        kvl_ep_t *ep = kvl_container(node, kvl_ep_t, bucket);

        if (ep->ucp == ucp) {
            return ep;
        }
    }
    return NULL;
}

static void ep_failed(void *arg, ucp_ep_h ucp, ucs_status_t status)
{
    kvl_ep_t *ep = arg;

    (void)ucp;
    if (ep->told || ep->state == EP_CLOSED) {
        return;
    }
    ep->told = true;
    if (ep->failed && ep->state == EP_OPEN) {
        ep->failed(ep, kvl_status_of(status), ep->arg);
    }
}

static kvl_ep_t *ep_alloc(const kvl_ep_params_t *params)
{
    kvl_ep_t *ep = kvl_calloc(1, sizeof(*ep));

    if (!ep) {
        kvl_error(KVL_ERR_NO_MEMORY, "endpoint: %zu bytes", sizeof(*ep));
        return NULL;
    }
    ep->worker = params->worker;
    ep->failed = params->failed;
    ep->arg    = params->arg;
    kvl_list_init(&ep->bucket);
    kvl_list_init(&ep->closing);
    strcpy(ep->peer, "?");
    return ep;
}

/* Fills in what every endpoint has; the caller says to whom. */
static ucs_status_t ep_create(kvl_ep_t *ep, ucp_ep_params_t *params)
{
    ucs_status_t status;

    params->field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
    params->err_mode        = UCP_ERR_HANDLING_MODE_PEER;
    params->err_handler.cb  = ep_failed;
    params->err_handler.arg = ep;
    status                  = ucp_ep_create(ep->worker->ucp, params, &ep->ucp);
    if (status == UCS_OK) {
        kvl_list_push_back(ep_bucket(ep->worker, ep->ucp), &ep->bucket);
        ep->worker->eps++;
    }
    return status;
}

kvl_status_t kvl_ep_connect(const kvl_ep_params_t *params, const kvl_addr_t *addr, kvl_ep_t **ep_p)
{
    ucp_ep_params_t ucp_params = {
        .field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR,
        .flags      = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER | UCP_EP_PARAMS_FLAGS_SEND_CLIENT_ID,
        .sockaddr   = {(const struct sockaddr *)&addr->storage, addr->length},
    };
    kvl_fault_t fault = kvl_fault(KVL_FAULT_EP_CONNECT);
    kvl_ep_t *ep      = ep_alloc(params);
    ucs_status_t status;

    if (!ep) {
        return KVL_ERR_NO_MEMORY;
    }
    kvl_addr_format(ucp_params.sockaddr.addr, ep->peer, sizeof(ep->peer));
    ep->connect_delay_ns = fault.action == KVL_FAULT_DELAY ? fault.delay_ns : 0;
    status               = kvl_ucp_fails() || fault.action == KVL_FAULT_FAIL ? UCS_ERR_IO_ERROR
                                                                             : ep_create(ep, &ucp_params);
    if (status != UCS_OK) {
        kvl_error(kvl_status_of(status), "%s: cannot connect: %s", ep->peer,
                  ucs_status_string(status));
        kvl_free(ep);
        return kvl_status_of(status);
    }
    *ep_p = ep;
    return KVL_OK;
}

kvl_status_t kvl_ep_accept(const kvl_ep_params_t *params, kvl_conn_t *conn, kvl_ep_t **ep_p)
{
    ucp_ep_params_t ucp_params = {
        .field_mask   = UCP_EP_PARAM_FIELD_CONN_REQUEST,
        .conn_request = conn->ucp,
    };
    kvl_ep_t *ep = ep_alloc(params);
    ucs_status_t status;

    if (!ep || kvl_ucp_fails()) {
        kvl_conn_reject(conn);
        kvl_free(ep);
        return ep ? kvl_ucx_error("ucp_ep_create", UCS_ERR_IO_ERROR) : KVL_ERR_NO_MEMORY;
    }
    memcpy(ep->peer, conn->peer, sizeof(ep->peer));
    kvl_ucx_listener_admit(conn->listener, &conn->client);
    status = ep_create(ep, &ucp_params); /* UCX owns the request now, also when it fails */
    kvl_list_remove(&conn->link);
    kvl_free(conn);
    if (status != UCS_OK) {
        kvl_error(kvl_status_of(status), "%s: cannot accept: %s", ep->peer,
                  ucs_status_string(status));
        kvl_free(ep);
        return kvl_status_of(status);
    }
    *ep_p = ep;
    return KVL_OK;
}

void *kvl_ep_arg(const kvl_ep_t *ep)
{
    return ep->arg;
}

void kvl_ep_set_arg(kvl_ep_t *ep, void *arg)
{
    ep->arg = arg;
}

kvl_worker_t *kvl_ep_worker(const kvl_ep_t *ep)
{
    return ep->worker;
}

void kvl_ep_peer(const kvl_ep_t *ep, char *text, size_t size)
{
    snprintf(text, size, "%s", ep->peer);
}

unsigned kvl_ep_pending(const kvl_ep_t *ep)
{
    return ep->pending;
}

kvl_status_t kvl_ep_flush(kvl_ep_t *ep, kvl_req_t *req)
{
    ucp_request_param_t param;
    ucs_status_ptr_t result;

    if (ep->state != EP_OPEN) {
        return kvl_error(KVL_ERR_CLOSED, "%s: endpoint is closed", ep->peer);
    }
    kvl_req_param(&param, req, REQ_CTRL);
    kvl_req_begin(req, ep->worker, ep);
    result = kvl_ucp_fails() || kvl_fault_fails(KVL_FAULT_EP_FLUSH)
                 ? UCS_STATUS_PTR(UCS_ERR_IO_ERROR)
                 : ucp_ep_flush_nbx(ep->ucp, &param);
    return kvl_req_posted(req, result, REQ_CTRL);
}

/* Ends the ucp handle; @a req was begun. */
static kvl_status_t ep_close_forced(kvl_ep_t *ep, kvl_req_t *req)
{
    ucp_request_param_t param;
    ucp_ep_h ucp = ep->ucp;

    kvl_req_param(&param, req, REQ_CTRL);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param.flags          = UCP_EP_CLOSE_FLAG_FORCE;
    ep->state            = EP_CLOSED;
    ep->ucp              = NULL;
    ep->connect_delay_ns = 0;
    kvl_list_remove(&ep->bucket);
    kvl_list_remove(&ep->closing);
    return kvl_req_posted(req, ucp_ep_close_nbx(ucp, &param), REQ_CTRL);
}

void kvl_ep_settle(kvl_ep_t *ep)
{
    if (ep->state == EP_DRAINING && ep->pending == 1) { /* the close itself */
        kvl_list_push_back(&ep->worker->closing, &ep->closing);
    }
}

/* Its own request ends a graceful close, also when it was forced in the end. */
static void ep_close_rest(kvl_ep_t *ep)
{
    kvl_req_t *req      = ep->close_req;
    kvl_status_t status = ep_close_forced(ep, req);

    if (status != KVL_INPROGRESS) {
        req->done(req, status);
    }
}

static void ep_flushed(void *request, ucs_status_t status, void *user_data)
{
    kvl_ep_t *ep = user_data;

    (void)status; /* a peer that is gone: force is right as well */
    ucp_request_free(request);
    ep->pending--;
    if (ep->state == EP_FLUSHING) {
        kvl_list_push_back(&ep->worker->closing, &ep->closing);
    }
}

/* Nothing of ours is under way: flushes, and closes at once if there was nothing to flush. */
static void ep_close_flush(kvl_ep_t *ep)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send      = ep_flushed,
        .user_data    = ep,
    };

    ep->state = EP_FLUSHING;
    kvl_list_remove(&ep->closing);
    if (UCS_PTR_IS_PTR(ucp_ep_flush_nbx(ep->ucp, &param))) {
        ep->pending++;
    } else {
        ep_close_rest(ep);
    }
}

unsigned kvl_ep_close_settled(kvl_worker_t *worker)
{
    unsigned count = 0;

    while (!kvl_list_empty(&worker->closing)) {
        kvl_ep_t *ep = kvl_container(worker->closing.next, kvl_ep_t, closing);

        if (ep->state == EP_DRAINING) {
            ep_close_flush(ep);
        } else {
            ep_close_rest(ep);
        }
        count++;
    }
    return count;
}

kvl_status_t kvl_ep_close(kvl_ep_t *ep, bool force, kvl_req_t *req)
{
    if (ep->state == EP_CLOSED || (ep->state != EP_OPEN && !force)) {
        return kvl_error(KVL_ERR_CLOSED, "%s: endpoint is closed", ep->peer);
    }
    if (ep->state != EP_OPEN) {
        ep_close_rest(ep);
        return KVL_OK;
    }
    kvl_req_begin(req, ep->worker, ep);
    if (force) {
        return ep_close_forced(ep, req);
    }
    ep->state     = EP_DRAINING;
    ep->close_req = req;
    kvl_ep_settle(ep);
    return KVL_INPROGRESS;
}

void kvl_ep_destroy(kvl_ep_t *ep)
{
    if (!ep) {
        return;
    }
    assert(ep->state == EP_CLOSED && ep->pending == 0);
    if (--ep->worker->eps == 0 && ep->worker->ended) {
        kvl_free(ep->worker);
    }
    kvl_free(ep);
}
