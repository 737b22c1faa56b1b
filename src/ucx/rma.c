/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx/private.h"

#include "base/error.h"

#include <string.h>

/* Puts and gets: one range at the peer each.
 *
 * Over verbs UCX moves them, from one local piece. FIELD_DATATYPE is never left out: 1.13.1 sends nothing
 * and reports success when a flag makes it look for a datatype that is not there. IOV is never used: 1.13.1
 * takes the iov array for the bytes.
 *
 * Over shared memory they are copies to and from the mapping that the remote key has, of as many pieces as
 * there are: UCX's own take one call for each piece, and its newer protocols ask the peer for the bytes of
 * a get, through its queue, which needs it alive. A copy is done when the call returns. */

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

static ucs_status_ptr_t copy_mapped(const kvl_rma_t *rma, bool put)
{
    kvl_iov_t whole      = {rma->address, rma->length};
    const kvl_iov_t *iov = rma->iov ? rma->iov : &whole;
    size_t count         = rma->iov ? rma->iov_count : 1, i;
    void *mapping;
    uint8_t *at;
    ucs_status_t status = ucp_rkey_ptr(rma->rkey->ucp, rma->remote, &mapping);

    if (status != UCS_OK) {
        return UCS_STATUS_PTR(status);
    }
    for (i = 0, at = mapping; i < count; at += iov[i].length, i++) {
        if (put) {
            memcpy(at, iov[i].address, iov[i].length);
        } else {
            memcpy(iov[i].address, at, iov[i].length);
        }
    }
    return NULL;
}

static ucs_status_ptr_t rma_post(kvl_ep_t *ep, const kvl_rma_t *rma, bool put, kvl_req_t *req)
{
    ucp_request_param_t param;

    if (ep->shared) {
        return copy_mapped(rma, put);
    }
    rma_param(&param, ep, rma, req);
    return put ? ucp_put_nbx(ep->ucp, rma->address, rma->length, rma->remote, rma->rkey->ucp, &param)
               : ucp_get_nbx(ep->ucp, rma->address, rma->length, rma->remote, rma->rkey->ucp, &param);
}

static kvl_status_t rma_start(kvl_ep_t *ep, const kvl_rma_t *rma, bool put, kvl_req_t *req)
{
    kvl_status_t status = rma_check(ep);
    ucs_status_ptr_t result;

    if (status != KVL_OK) {
        return status;
    }
    if (rma->iov && !ep->shared) {
        return kvl_error(KVL_ERR_UNSUPPORTED, "%s: one op takes one piece, %zu were given", ep->peer,
                         rma->iov_count);
    }
    kvl_req_begin(req, ep->worker, ep);
    result = kvl_ucp_fails() || kvl_fault_fails(put ? KVL_FAULT_EP_PUT : KVL_FAULT_EP_GET)
                 ? UCS_STATUS_PTR(UCS_ERR_IO_ERROR)
                 : rma_post(ep, rma, put, req);
    return kvl_req_posted(req, result, REQ_DATA);
}

kvl_status_t kvl_ep_put(kvl_ep_t *ep, const kvl_rma_t *rma, kvl_req_t *req)
{
    return rma_start(ep, rma, true, req);
}

kvl_status_t kvl_ep_get(kvl_ep_t *ep, const kvl_rma_t *rma, kvl_req_t *req)
{
    return rma_start(ep, rma, false, req);
}
