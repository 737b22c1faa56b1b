/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx/private.h"

#include "base/alloc.h"
#include "base/error.h"

#include <string.h>

/* Registered memory. A region is registered once, at start; nothing on the data
 * path registers. 1.13.1 aborts in ucp_cleanup() with a region mapped: the context counts them. */

static ucs_status_t mem_map(kvl_mem_t *mem)
{
    ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH,
        .length     = mem->length,
    };

    if (kvl_ucp_fails() || kvl_fault_fails(KVL_FAULT_MEM_REGISTER)) {
        return UCS_ERR_IO_ERROR;
    }
    if (mem->address) {
        params.field_mask |= UCP_MEM_MAP_PARAM_FIELD_ADDRESS;
        params.address = mem->address;
    } else {
        params.field_mask |= UCP_MEM_MAP_PARAM_FIELD_FLAGS;
        params.flags = UCP_MEM_MAP_ALLOCATE;
    }
    return ucp_mem_map(mem->context->ucp, &params, &mem->ucp);
}

static ucs_status_t mem_query(kvl_mem_t *mem)
{
    ucp_mem_attr_t attr = {
        .field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH,
    };
    ucs_status_t status;

    if (mem->address) {
        return UCS_OK;
    }
    status = kvl_ucp_fails() ? UCS_ERR_IO_ERROR : ucp_mem_query(mem->ucp, &attr);
    if (status == UCS_OK) {
        mem->address = attr.address;
    }
    return status;
}

kvl_status_t kvl_mem_create(kvl_context_t *context, void *address, size_t length, kvl_mem_t **mem_p)
{
    kvl_mem_t *mem = kvl_calloc(1, sizeof(*mem));
    ucs_status_t status;

    if (!mem) {
        return kvl_error(KVL_ERR_NO_MEMORY, "region: %zu bytes", sizeof(*mem));
    }
    mem->context = context;
    mem->address = address;
    mem->length  = length;
    status       = mem_map(mem);
    if (status != UCS_OK) {
        goto err_free;
    }
    status = mem_query(mem);
    if (status != UCS_OK) {
        goto err_unmap;
    }
    context->mems++;
    context->registrations++;
    *mem_p = mem;
    return KVL_OK;

err_unmap:
    ucp_mem_unmap(context->ucp, mem->ucp);
err_free:
    kvl_free(mem);
    if (status == UCS_ERR_NO_MEMORY) {
        return kvl_error(KVL_ERR_NO_MEMORY, "region: no memory for %zu bytes", length);
    }
    return kvl_error(KVL_ERR_REGISTER, "region: cannot register %zu bytes at %p: %s", length,
                     address, ucs_status_string(status));
}

void kvl_mem_destroy(kvl_mem_t *mem)
{
    if (!mem) {
        return;
    }
    ucp_mem_unmap(mem->context->ucp, mem->ucp);
    mem->context->mems--;
    kvl_free(mem);
}

void *kvl_mem_address(const kvl_mem_t *mem)
{
    return mem->address;
}

size_t kvl_mem_length(const kvl_mem_t *mem)
{
    return mem->length;
}

kvl_status_t kvl_mem_pack(const kvl_mem_t *mem, void *buffer, size_t *length_p)
{
    size_t room = *length_p, length;
    void *packed;
    ucs_status_t status = kvl_ucp_fails()
                              ? UCS_ERR_IO_ERROR
                              : ucp_rkey_pack(mem->context->ucp, mem->ucp, &packed, &length);

    if (status != UCS_OK) {
        return kvl_ucx_error("ucp_rkey_pack", status);
    }
    *length_p = length;
    if (length <= room) {
        memcpy(buffer, packed, length);
    }
    ucp_rkey_buffer_release(packed);
    return length <= room
               ? KVL_OK
               : kvl_error(KVL_ERR_LIMIT, "remote key: %zu bytes, %zu given", length, room);
}

uint64_t kvl_context_registrations(const kvl_context_t *context)
{
    return context->registrations;
}
