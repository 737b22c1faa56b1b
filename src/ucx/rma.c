/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx/private.h"

#include "base/error.h"

#include <string.h>

/* Puts and gets: one contiguous range each, always.
 *
 * FIELD_DATATYPE is never left out: 1.13.1 sends nothing and reports success when a flag makes it
 * look for a datatype that is not there. IOV is never used: 1.13.1 takes the iov array for the
 * bytes. MULTI_SEND makes the new protocols of 1.13 write straight into shared memory at every
 * size; over verbs they emulate the put then, and newer ones copy it, so it is for shared memory
 * alone (kvl_ep_info() decides).
 *
 * A get from shared memory is UCX's own with the old protocols of 1.13 and 1.15. Newer ones ask the peer
 * for the bytes, piece by piece through its queue, which needs it alive; so there the get is a copy from
 * the mapping that the remote key has. It is done when the call returns, as UCX's own is. */

static void rma_param(ucp_request_param_t *param, const kvl_ep_t *ep, const kvl_rma_t *rma,
                      kvl_req_t *req)
{
    kvl_req_param(param, req, REQ_DATA);
    param->op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param->datatype = ucp_dt_make_contig(1);
    if (rma->mem && ep->worker->memh) {
        param->op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
        param->memh = kvl_mem_handle(rma->mem, rma->address);
    }
}

static kvl_status_t rma_check(const kvl_ep_t *ep)
{
    return ep->state == EP_OPEN ? KVL_OK
                                : kvl_error(KVL_ERR_CLOSED, "%s: endpoint is closed", ep->peer);
}

kvl_status_t kvl_ep_put(kvl_ep_t *ep, const kvl_rma_t *rma, kvl_req_t *req)
{
    kvl_status_t status = rma_check(ep);
    ucp_request_param_t param;
    ucs_status_ptr_t result;

    if (status != KVL_OK) {
        return status;
    }
    rma_param(&param, ep, rma, req);
    if (ep->shared) {
        param.op_attr_mask |= UCP_OP_ATTR_FLAG_MULTI_SEND;
    }
    kvl_req_begin(req, ep->worker, ep);
    result =
        kvl_ucp_fails() || kvl_fault_fails(KVL_FAULT_EP_PUT)
            ? UCS_STATUS_PTR(UCS_ERR_IO_ERROR)
            : ucp_put_nbx(ep->ucp, rma->address, rma->length, rma->remote, rma->rkey->ucp, &param);
    return kvl_req_posted(req, result, REQ_DATA);
}

static ucs_status_ptr_t get_mapped(const kvl_rma_t *rma)
{
    ucs_status_t status;
    void *bytes;

    status = ucp_rkey_ptr(rma->rkey->ucp, rma->remote, &bytes);
    if (status == UCS_OK) {
        memcpy(rma->address, bytes, rma->length);
    }
    return UCS_STATUS_PTR(status);
}

static ucs_status_ptr_t get_post(kvl_ep_t *ep, const kvl_rma_t *rma, kvl_req_t *req)
{
    ucp_request_param_t param;

    if (ep->maps) {
        return get_mapped(rma);
    }
    rma_param(&param, ep, rma, req);
    return ucp_get_nbx(ep->ucp, rma->address, rma->length, rma->remote, rma->rkey->ucp, &param);
}

kvl_status_t kvl_ep_get(kvl_ep_t *ep, const kvl_rma_t *rma, kvl_req_t *req)
{
    kvl_status_t status = rma_check(ep);
    ucs_status_ptr_t result;

    if (status != KVL_OK) {
        return status;
    }
    kvl_req_begin(req, ep->worker, ep);
    result = kvl_ucp_fails() || kvl_fault_fails(KVL_FAULT_EP_GET)
                 ? UCS_STATUS_PTR(UCS_ERR_IO_ERROR)
                 : get_post(ep, rma, req);
    return kvl_req_posted(req, result, REQ_DATA);
}
