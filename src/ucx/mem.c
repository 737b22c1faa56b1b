/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx/private.h"

#include "base/alloc.h"
#include "base/error.h"

#include <assert.h>
#include <string.h>
#include <sys/mman.h>

/* Registered memory. A region is registered once, at start, in slices; nothing on the data
 * path registers. 1.13.1 aborts in ucp_cleanup() with a region mapped: the context counts them.
 *
 * Memory of several slices that UCX allocates lies in one range: address space is set aside, and UCX puts
 * each slice into its place. A huge page is the unit, because UCX rounds up to it where there are some;
 * room for one slice more behind the last is where that would end up if a huge page were larger. */

#define UNIT       (UINT64_C(2) << 20)
#define SLICES_MAX 65535u

static size_t slice_length(const kvl_mem_t *mem, unsigned slice)
{
    size_t left = mem->length - slice * mem->slice_bytes;

    return left < mem->slice_bytes ? left : mem->slice_bytes;
}

static ucs_status_t slice_map(kvl_mem_t *mem, void *address, size_t length, unsigned flags)
{
    ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH,
        .address    = address,
        .length     = length,
        .flags      = flags,
    };
    ucs_status_t status;

    if (kvl_ucp_fails() || kvl_fault_fails(KVL_FAULT_MEM_REGISTER)) {
        return UCS_ERR_IO_ERROR;
    }
    if (address) {
        params.field_mask |= UCP_MEM_MAP_PARAM_FIELD_ADDRESS;
    }
    if (flags) {
        params.field_mask |= UCP_MEM_MAP_PARAM_FIELD_FLAGS;
    }
    if (mem->device) { /* else UCX looks, which takes a driver that it knows */
        params.field_mask |= UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
        params.memory_type = UCS_MEMORY_TYPE_CUDA;
    }
    status = ucp_mem_map(mem->context->ucp, &params, &mem->slices[mem->count]);
    mem->count += status == UCS_OK;
    return status;
}

/* what UCX made of the last slice that it was asked for */
static ucs_status_t slice_query(const kvl_mem_t *mem, ucp_mem_attr_t *attr)
{
    attr->field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH;
    return kvl_ucp_fails() ? UCS_ERR_IO_ERROR : ucp_mem_query(mem->slices[mem->count - 1], attr);
}

static ucs_status_t mem_register(kvl_mem_t *mem, unsigned count)
{
    ucs_status_t status = UCS_OK;
    unsigned i;

    for (i = 0; i < count && status == UCS_OK; i++) {
        status = slice_map(mem, (char *)mem->address + i * mem->slice_bytes, slice_length(mem, i), 0);
    }
    return status;
}

static ucs_status_t mem_alloc_one(kvl_mem_t *mem)
{
    ucs_status_t status = slice_map(mem, NULL, mem->length, UCP_MEM_MAP_ALLOCATE);
    ucp_mem_attr_t attr;

    if (status == UCS_OK) {
        status = slice_query(mem, &attr);
    }
    if (status == UCS_OK) {
        mem->address = attr.address;
    }
    return status;
}

/* @a end_p: of what UCX has taken */
static ucs_status_t mem_alloc_slices(kvl_mem_t *mem, unsigned count, char **end_p)
{
    ucs_status_t status = UCS_OK;
    unsigned i;

    for (i = 0; i < count && status == UCS_OK; i++) {
        size_t length = (slice_length(mem, i) + UNIT - 1) / UNIT * UNIT;
        ucp_mem_attr_t attr;

        status = slice_map(mem, *end_p, length, UCP_MEM_MAP_ALLOCATE | UCP_MEM_MAP_FIXED);
        if (status != UCS_OK) {
            break;
        }
        *end_p += length;
        status = slice_query(mem, &attr);
        if (status == UCS_OK && (attr.address != *end_p - length || attr.length != length)) {
            *end_p = (char *)attr.address + attr.length;
            status = UCS_ERR_UNSUPPORTED;
        }
    }
    return status;
}

static ucs_status_t mem_alloc(kvl_mem_t *mem, unsigned count)
{
    size_t room = (count + 1) * mem->slice_bytes + UNIT; /* one slice more, and to begin at a huge page */
    ucs_status_t status;
    char *range, *first, *end;

    if (count == 1) {
        return mem_alloc_one(mem);
    }
    range = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) {
        return UCS_ERR_NO_MEMORY;
    }
    first = end = range + (UNIT - (uintptr_t)range % UNIT) % UNIT;
    status      = mem_alloc_slices(mem, count, &end);
    /* what UCX has not taken: given back before UCX gives back its own, after which others may lie there */
    munmap(end, (size_t)(range + room - end));
    if (first > range) {
        munmap(range, (size_t)(first - range));
    }
    mem->address = first;
    return status;
}

static void mem_unmap(kvl_mem_t *mem)
{
    while (mem->count) {
        ucp_mem_unmap(mem->context->ucp, mem->slices[--mem->count]);
    }
}

static kvl_status_t mem_make(kvl_context_t *context, void *address, size_t length, bool device, kvl_mem_t **mem_p)
{
    size_t slice_bytes = context->slice_bytes / UNIT * UNIT;
    size_t count       = length / slice_bytes + (length % slice_bytes != 0);
    ucs_status_t status;
    kvl_mem_t *mem;

    if (count > SLICES_MAX) {
        return kvl_error(KVL_ERR_LIMIT, "region: %zu bytes are more than %u slices; KVLANE_REG_SLICE (%zu bytes) "
                         "makes them longer", length, SLICES_MAX, slice_bytes);
    }
    mem = kvl_calloc(1, sizeof(*mem) + count * sizeof(mem->slices[0]));
    if (!mem) {
        return kvl_error(KVL_ERR_NO_MEMORY, "region: %zu bytes", sizeof(*mem));
    }
    mem->context     = context;
    mem->address     = address;
    mem->length      = length;
    mem->device      = device;
    mem->slice_bytes = slice_bytes;
    status           = address ? mem_register(mem, (unsigned)count) : mem_alloc(mem, (unsigned)count);
    if (status == UCS_OK) {
        context->mems++;
        context->registrations++;
        *mem_p = mem;
        return KVL_OK;
    }
    mem_unmap(mem);
    kvl_free(mem);
    if (status == UCS_ERR_NO_MEMORY) {
        return kvl_error(KVL_ERR_NO_MEMORY, "region: no memory for %zu bytes", length);
    }
    return kvl_error(KVL_ERR_REGISTER, "region: cannot register %zu bytes at %p: %s", length,
                     address, ucs_status_string(status));
}

kvl_status_t kvl_mem_create(kvl_context_t *context, void *address, size_t length, kvl_mem_t **mem_p)
{
    return mem_make(context, address, length, false, mem_p);
}

kvl_status_t kvl_mem_create_device(kvl_context_t *context, void *address, size_t length, kvl_mem_t **mem_p)
{
    return mem_make(context, address, length, true, mem_p);
}

void kvl_mem_destroy(kvl_mem_t *mem)
{
    if (!mem) {
        return;
    }
    mem_unmap(mem);
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

unsigned kvl_mem_slices(const kvl_mem_t *mem)
{
    return mem->count;
}

void kvl_mem_slice(const kvl_mem_t *mem, unsigned slice, void **address_p, size_t *length_p)
{
    *address_p = (char *)mem->address + slice * mem->slice_bytes;
    *length_p  = slice_length(mem, slice);
}

unsigned kvl_mem_slice_of(const kvl_mem_t *mem, const void *address)
{
    return mem && mem->count > 1
               ? (unsigned)(((uintptr_t)address - (uintptr_t)mem->address) / mem->slice_bytes)
               : 0;
}

size_t kvl_mem_left(const kvl_mem_t *mem, const void *address)
{
    return mem && mem->count > 1 ? mem->slice_bytes - ((uintptr_t)address - (uintptr_t)mem->address) %
                                                          mem->slice_bytes
                                 : SIZE_MAX;
}

kvl_status_t kvl_mem_pack(const kvl_mem_t *mem, unsigned slice, void *buffer, size_t *length_p)
{
    size_t room = *length_p, length;
    void *packed;
    ucs_status_t status = kvl_ucp_fails()
                              ? UCS_ERR_IO_ERROR
                              : ucp_rkey_pack(mem->context->ucp, mem->slices[slice], &packed, &length);

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
