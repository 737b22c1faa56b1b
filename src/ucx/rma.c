/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx/private.h"

#include "base/error.h"

/* Puts and gets: one contiguous range each, always.
 *
 * FIELD_DATATYPE is never left out: 1.13.1 sends nothing and reports success when a flag makes it
 * look for a datatype that is not there. IOV is never used: 1.13.1 takes the iov array for the
 * bytes. MULTI_SEND makes the new protocols of 1.13 write straight into shared memory at every
 * size; over verbs they emulate the put then, and newer ones copy it, so it is for shared memory
 * alone (kvl_ep_info() decides). */

static void rma_param(ucp_request_param_t *param, const kvl_ep_t *ep, const kvl_rma_t *rma,
                      kvl_req_t *req)
{
    kvl_req_param(param, req, REQ_DATA);
    param->op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param->datatype = ucp_dt_make_contig(1);
    if (rma->mem && ep->worker->memh) {
        param->op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
        param->memh = rma->mem->ucp;
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
    if (ep->multi_send) {
        param.op_attr_mask |= UCP_OP_ATTR_FLAG_MULTI_SEND;
    }
    kvl_req_begin(req, ep);
    result =
        kvl_ucp_fails() || kvl_fault_fails(KVL_FAULT_EP_PUT)
            ? UCS_STATUS_PTR(UCS_ERR_IO_ERROR)
            : ucp_put_nbx(ep->ucp, rma->address, rma->length, rma->remote, rma->rkey->ucp, &param);
    return kvl_req_posted(req, result, REQ_DATA);
}

kvl_status_t kvl_ep_get(kvl_ep_t *ep, const kvl_rma_t *rma, kvl_req_t *req)
{
    kvl_status_t status = rma_check(ep);
    ucp_request_param_t param;
    ucs_status_ptr_t result;

    if (status != KVL_OK) {
        return status;
    }
    rma_param(&param, ep, rma, req);
    kvl_req_begin(req, ep);
    result =
        kvl_ucp_fails() || kvl_fault_fails(KVL_FAULT_EP_GET)
            ? UCS_STATUS_PTR(UCS_ERR_IO_ERROR)
            : ucp_get_nbx(ep->ucp, rma->address, rma->length, rma->remote, rma->rkey->ucp, &param);
    return kvl_req_posted(req, result, REQ_DATA);
}
