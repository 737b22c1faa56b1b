/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx/private.h"

#include "base/clock.h"

/* A request, from the call into UCP to its one done().
 *
 *   begin -> UCP call -> posted: final status, done() never runs
 *                     -> posted: KVL_INPROGRESS -> UCP's callback ---------> done()
 *                     -> posted: KVL_INPROGRESS -> timer (injected delay) -> done()
 *
 * UCP may run its callback inside of the call and still return a request (a rendezvous receive on
 * an endpoint that broke): that is a final status as well.
 *
 * The UCP request is freed in its callback, before done(): nothing of UCP is left when the caller
 * hears of it. Memory of kvl_req_t is the caller's again the moment done() is entered. */

static void data_completed(void *request, ucs_status_t status, void *user_data);
static void ctrl_completed(void *request, ucs_status_t status, void *user_data);

void kvl_req_param(ucp_request_param_t *param, kvl_req_t *req, req_class_t class)
{
    param->op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param->cb.send      = class == REQ_DATA ? data_completed : ctrl_completed;
    param->user_data    = req;
}

void kvl_req_begin(kvl_req_t *req, kvl_worker_t *worker, kvl_ep_t *ep)
{
    req->ep       = ep;
    req->flushes  = NULL;
    req->receives = false;
    req->received = 0;
    req->posting  = true;
    req->timer    = (kvl_timer_t){0};
    kvl_list_push_back(&worker->reqs, &req->link);
    if (ep) {
        ep->pending++;
    }
}

static void req_end(kvl_req_t *req)
{
    kvl_list_remove(&req->link);
    if (req->flushes) {
        req->flushes->flushes--;
    }
    if (req->ep) {
        req->ep->pending--;
        req->ep->receiving -= req->receives;
        kvl_ep_settle(req->ep);
    }
}

void kvl_req_abandon(kvl_req_t *req)
{
    if (req->ep && req->ep->worker->params.timers) {
        kvl_timer_cancel(req->ep->worker->params.timers, &req->timer);
    }
    req_end(req);
    req->done(req, KVL_ERR_CANCELED);
}

static void req_delayed(kvl_timer_t *timer)
{
    kvl_req_t *req = kvl_container(timer, kvl_req_t, timer);

    req_end(req);
    req->done(req, req->delayed);
}

/* Arms the timer; false: no time to wait, or no timers. */
static bool req_delay(kvl_req_t *req, kvl_status_t status, int64_t delay_ns)
{
    kvl_timers_t *timers = req->ep ? req->ep->worker->params.timers : NULL;

    if (delay_ns <= 0 || !timers) {
        return false;
    }
    req->delayed = status;
    return kvl_timer_set(timers, &req->timer, kvl_time_add(kvl_now_ns(), delay_ns), req_delayed) ==
           KVL_OK;
}

/* UCX is through with @a req: applies the fault points. KVL_INPROGRESS: a timer goes on with it. */
static kvl_status_t data_judge(kvl_req_t *req, kvl_status_t status)
{
    kvl_fault_t fault = kvl_fault(KVL_FAULT_EP_COMPLETE);

    if (fault.action == KVL_FAULT_FAIL) {
        return KVL_ERR_RAIL;
    }
    if (fault.action == KVL_FAULT_DELAY && req_delay(req, status, fault.delay_ns)) {
        return KVL_INPROGRESS;
    }
    return status;
}

static kvl_status_t ctrl_judge(kvl_req_t *req, kvl_status_t status)
{
    int64_t delay_ns = req->ep ? req->ep->connect_delay_ns : 0;

    if (delay_ns > 0) {
        req->ep->connect_delay_ns = 0;
    }
    return req_delay(req, status, delay_ns) ? KVL_INPROGRESS : status;
}

static kvl_status_t req_judge(kvl_req_t *req, kvl_status_t status, req_class_t class)
{
    return class == REQ_DATA ? data_judge(req, status) : ctrl_judge(req, status);
}

static void req_finish(kvl_req_t *req, kvl_status_t status, req_class_t class)
{
    if (req->posting) {
        req->posting = false;
        req->delayed = status;
        return;
    }
    status = req_judge(req, status, class);
    if (status != KVL_INPROGRESS) {
        req_end(req);
        req->done(req, status);
    }
}

/* Nothing of an open endpoint is canceled by us: UCX does so when it hears from one of its connections that the
 * peer went away, before it tells of that. */
static kvl_status_t req_status(const kvl_req_t *req, ucs_status_t status)
{
    bool ours = !req->ep || req->ep->state == EP_CLOSED;

    return status == UCS_ERR_CANCELED && !ours ? KVL_ERR_PEER : kvl_status_of(status);
}

static void data_completed(void *request, ucs_status_t status, void *user_data)
{
    ucp_request_free(request);
    req_finish(user_data, req_status(user_data, status), REQ_DATA);
}

static void ctrl_completed(void *request, ucs_status_t status, void *user_data)
{
    ucp_request_free(request);
    req_finish(user_data, req_status(user_data, status), REQ_CTRL);
}

void kvl_am_received(void *request, ucs_status_t status, size_t length, void *user_data)
{
    kvl_req_t *req = user_data;

    ucp_request_free(request);
    req->received = status == UCS_OK ? length : 0;
    req_finish(req, req_status(req, status), REQ_DATA);
}

kvl_status_t kvl_req_posted(kvl_req_t *req, ucs_status_ptr_t result, req_class_t class)
{
    bool pending = UCS_PTR_IS_PTR(result) && req->posting;
    kvl_status_t status =
        UCS_PTR_IS_PTR(result) ? req->delayed : kvl_status_of(UCS_PTR_STATUS(result));

    req->posting = false;
    if (pending) {
        return KVL_INPROGRESS;
    }
    if (status == KVL_OK) {
        status = req_judge(req, status, class);
    }
    if (status != KVL_INPROGRESS) {
        req_end(req);
    }
    return status;
}
