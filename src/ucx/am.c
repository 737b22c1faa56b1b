/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx/private.h"

#include "base/error.h"

#include <assert.h>

/* Active messages. Every send carries the reply flag, so that the receiver knows the endpoint.
 *
 * A rendezvous message is received inside of its handler or refused: UCX then finishes the sender
 * with an error and keeps nothing. What the handler's return value must be depends on whether the
 * receive began and whether it is already over; am_arrival_t remembers that. */

_Static_assert(sizeof(kvl_iov_t) == sizeof(ucp_dt_iov_t) &&
                   offsetof(kvl_iov_t, address) == offsetof(ucp_dt_iov_t, buffer) &&
                   offsetof(kvl_iov_t, length) == offsetof(ucp_dt_iov_t, length),
               "kvl_iov_t is handed to UCX as it is");

typedef struct {
    const kvl_iov_t *iov;
    size_t iov_count;
    const kvl_mem_t *mem;
} am_data_t;

typedef struct {
    void *descriptor; /* of UCX; NULL for an eager message */
    bool begun;       /* kvl_am_recv() was called */
    bool pending;     /* ... and its request is under way in UCX */
} am_arrival_t;

/* One range goes as contiguous bytes, several as an IOV.
 *
 * A rendezvous of contiguous bytes shows them to the peer by a key. When it is aborted, 1.14 and
 * later wait for the end of the registration behind the key: without a memory handle of ours that
 * never comes if the range is registered elsewhere, and up to 1.21 the process may crash. An IOV has
 * no key, so one range without a handle goes as an IOV as well. */
static const void *am_datatype(ucp_request_param_t *param, const kvl_worker_t *worker,
                               const am_data_t *data, size_t *count_p)
{
    bool keyed = data->mem || !worker->needs_memh;

    param->op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    if (data->iov_count > 1 || (data->iov_count == 1 && !keyed)) {
        param->datatype = ucp_dt_make_iov();
        *count_p        = data->iov_count;
    } else {
        param->datatype = ucp_dt_make_contig(1);
        *count_p        = data->iov_count ? data->iov->length : 0;
    }
    /* the old protocols take a memory handle with contiguous messages only */
    if (data->mem && data->iov_count > 0 && (data->iov_count == 1 || worker->proto_v2)) {
        param->op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
        param->memh = kvl_mem_handle(data->mem, data->iov->address);
    }
    if (param->datatype == ucp_dt_make_iov()) {
        return data->iov;
    }
    return data->iov_count ? data->iov->address : NULL;
}

/* When UCX is told to use rendezvous. Long messages: 1.18 would send megabytes eagerly, which the
 * receiver then gathers in memory of its own. IOVs with the old protocols: an eager one goes out in
 * slices of a few pieces, 2.9 GB/s over tcp, by rendezvous 6.3. */
#define AM_RNDV_MIN     (256u * 1024 + 1)
#define AM_RNDV_MIN_IOV (32u * 1024)

static unsigned am_flags(const kvl_ep_t *ep, const kvl_am_send_t *send)
{
    bool slow     = send->iov_count > 1 && !ep->worker->proto_v2;
    size_t length = 0;

    if (send->eager) {
        return UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_EAGER;
    }
    for (size_t i = 0; i < send->iov_count; i++) {
        length += send->iov[i].length;
    }
    return UCP_AM_SEND_FLAG_REPLY |
           (length >= (slow ? AM_RNDV_MIN_IOV : AM_RNDV_MIN) ? UCP_AM_SEND_FLAG_RNDV : 0);
}

static ucs_status_ptr_t am_send(kvl_ep_t *ep, const kvl_am_send_t *send, kvl_req_t *req)
{
    const am_data_t data = {send->iov, send->iov_count, send->mem};
    ucp_request_param_t param;
    const void *buffer;
    size_t count;

    kvl_req_param(&param, req, send->eager ? REQ_CTRL : REQ_DATA);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = am_flags(ep, send);
    buffer      = am_datatype(&param, ep->worker, &data, &count);
    return ucp_am_send_nbx(ep->ucp, send->id, send->header, send->header_length, buffer, count,
                           &param);
}

kvl_status_t kvl_ep_am(kvl_ep_t *ep, const kvl_am_send_t *send, kvl_req_t *req)
{
    kvl_fault_t fault = send->eager ? (kvl_fault_t){0} : kvl_fault(KVL_FAULT_EP_AM);
    ucs_status_ptr_t result;

    if (ep->state != EP_OPEN) {
        return kvl_error(KVL_ERR_CLOSED, "%s: endpoint is closed", ep->peer);
    }
    if (fault.action == KVL_FAULT_DROP) {
        return KVL_OK;
    }
    kvl_req_begin(req, ep->worker, ep);
    result = kvl_ucp_fails() || fault.action == KVL_FAULT_FAIL ? UCS_STATUS_PTR(UCS_ERR_IO_ERROR)
                                                               : am_send(ep, send, req);
    return kvl_req_posted(req, result, send->eager ? REQ_CTRL : REQ_DATA);
}

ucs_status_t kvl_am_arrived(void *arg, const void *header, size_t header_length, void *data,
                            size_t length, const ucp_am_recv_param_t *param)
{
    const kvl_am_handler_t *handler = arg;
    kvl_worker_t *worker            = handler->worker;
    bool rndv                       = param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV;
    am_arrival_t arrival            = {.descriptor = rndv ? data : NULL};
    kvl_am_t am                     = {
                            .id            = handler->id,
                            .header        = header,
                            .header_length = header_length,
                            .data          = rndv ? NULL : data,
                            .length        = length,
                            .ep            = param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP
                                                 ? kvl_ep_find(worker, param->reply_ep)
                                                 : NULL,
                            .ucp           = &arrival,
    };

    worker->params.am(worker->params.arg, &am);
    if (!rndv || (arrival.begun && !arrival.pending)) {
        return UCS_OK;
    }
    return arrival.pending ? UCS_INPROGRESS : UCS_ERR_REJECTED;
}

kvl_status_t kvl_am_recv(const kvl_am_t *am, kvl_worker_t *worker, const kvl_iov_t *iov,
                         size_t iov_count, const kvl_mem_t *mem, kvl_req_t *req)
{
    const am_data_t data  = {iov, iov_count, mem};
    am_arrival_t *arrival = am->ucp;
    ucp_request_param_t param;
    ucs_status_ptr_t result;
    const void *buffer;
    size_t count;

    assert(arrival->descriptor && !arrival->begun);
    kvl_req_begin(req, worker, am->ep);
    req->receives = am->ep != NULL;
    if (am->ep) {
        am->ep->receiving++;
    }
    if (kvl_ucp_fails()) { /* not begun: the sender is refused */
        return kvl_req_posted(req, UCS_STATUS_PTR(UCS_ERR_IO_ERROR), REQ_DATA);
    }
    kvl_req_param(&param, req, REQ_DATA);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_RECV_INFO;
    param.cb.recv_am       = kvl_am_received;
    param.recv_info.length = &req->received;
    buffer                 = am_datatype(&param, worker, &data, &count);
    arrival->begun         = true;
    result = ucp_am_recv_data_nbx(worker->ucp, arrival->descriptor, (void *)buffer, count, &param);
    arrival->pending = UCS_PTR_IS_PTR(result) && req->posting;
    return kvl_req_posted(req, result, REQ_DATA);
}
