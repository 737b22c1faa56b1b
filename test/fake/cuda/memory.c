/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake/cuda/private.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Device memory. An address range is reserved where nobody may read or write; a block is memory with a shadow that
 * the driver's calls use; a chunk is a block, or a part of it, mapped into a range. */

#define CHUNKS 256
#define UNIT   ((size_t)2 << 20)

typedef struct {
    int device;
    size_t size;
    uint8_t *shadow;
    unsigned users; /* its handle, and chunks */
    bool open;      /* the shadow is the range itself */
} block_t;

typedef struct {
    CUdeviceptr start;
    size_t size;
    block_t *block;
    bool alone; /* of cuMemAlloc: the range goes with it */
} chunk_t;

typedef struct {
    CUdeviceptr start;
    size_t size;
} range_t;

static fakecuda_mode_t mode;
static chunk_t chunks[CHUNKS];
static range_t ranges[CHUNKS], pinned[CHUNKS];

void fakecuda_mode(fakecuda_mode_t new_mode);

void fakecuda_mode(fakecuda_mode_t new_mode)
{
    mode = new_mode;
}

/* ---- tables ---- */

static range_t *range_of(range_t *table, CUdeviceptr address)
{
    unsigned i;

    for (i = 0; i < CHUNKS; i++) {
        if (table[i].size && address >= table[i].start && address - table[i].start < table[i].size) {
            return &table[i];
        }
    }
    return NULL;
}

static range_t *range_free(range_t *table)
{
    unsigned i;

    for (i = 0; i < CHUNKS && table[i].size; i++) {
    }
    return i < CHUNKS ? &table[i] : NULL;
}

static chunk_t *chunk_of(CUdeviceptr address)
{
    unsigned i;

    for (i = 0; i < CHUNKS; i++) {
        if (chunks[i].size && address >= chunks[i].start && address - chunks[i].start < chunks[i].size) {
            return &chunks[i];
        }
    }
    return NULL;
}

void *fake_place(CUdeviceptr address, size_t *left_p)
{
    chunk_t *chunk = chunk_of(address);

    if (chunk) {
        *left_p = chunk->size - (size_t)(address - chunk->start);
        return chunk->block->shadow + (address - chunk->start);
    }
    *left_p = SIZE_MAX;
    return range_of(ranges, address) ? NULL : (void *)address;
}

bool fake_is_device(CUdeviceptr address)
{
    return chunk_of(address) != NULL;
}

bool fake_is_pinned(const void *address, size_t length)
{
    const range_t *range = range_of(pinned, (CUdeviceptr)address);

    return range && length <= range->size - ((CUdeviceptr)address - range->start);
}

/* ---- blocks and chunks ---- */

static block_t *block_make(int device, size_t size)
{
    block_t *block = calloc(1, sizeof(*block));
    void *shadow   = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (!block || shadow == MAP_FAILED) {
        free(block);
        return NULL;
    }
    memset(shadow, 0xdd, size); /* nobody may count on zeros */
    *block = (block_t){device, size, shadow, 1, false};
    return block;
}

static void block_unuse(block_t *block)
{
    if (--block->users == 0) {
        if (!block->open) {
            munmap(block->shadow, block->size);
        }
        free(block);
    }
}

static CUresult chunk_make(CUdeviceptr start, size_t size, block_t *block, bool alone)
{
    unsigned i;

    for (i = 0; i < CHUNKS && chunks[i].size; i++) {
    }
    if (i == CHUNKS) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    chunks[i] = (chunk_t){start, size, block, alone};
    block->users++;
    return CUDA_SUCCESS;
}

static CUresult range_make(CUdeviceptr *start_p, size_t size)
{
    range_t *range = range_free(ranges);
    void *start    = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (!range || start == MAP_FAILED) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *range   = (range_t){(CUdeviceptr)start, size};
    *start_p = range->start;
    return CUDA_SUCCESS;
}

static void range_unmake(CUdeviceptr start)
{
    range_t *range = range_of(ranges, start);

    munmap((void *)range->start, range->size);
    range->size = 0;
}

/* as `mode` says, for a block that has just got its range */
static void block_open(block_t *block, CUdeviceptr start)
{
    if (mode != FAKECUDA_CLOSED) {
        mprotect((void *)start, block->size, PROT_READ | PROT_WRITE);
    }
    if (mode == FAKECUDA_OPEN) {
        memcpy((void *)start, block->shadow, block->size);
        munmap(block->shadow, block->size);
        block->shadow = (uint8_t *)start;
        block->open   = true;
    }
}

/* ---- the driver's calls ---- */

CUresult cuMemAlloc(CUdeviceptr *address_p, size_t size)
{
    size_t whole = (size + UNIT - 1) / UNIT * UNIT;
    CUresult result = CUDA_ERROR_INVALID_CONTEXT;
    block_t *block;
    int device;

    pthread_mutex_lock(&fake_lock);
    device = fake_device();
    if (device >= 0) {
        block  = block_make(device, whole);
        result = block ? range_make(address_p, whole) : CUDA_ERROR_OUT_OF_MEMORY;
        if (result == CUDA_SUCCESS) {
            block_open(block, *address_p);
            result = chunk_make(*address_p, size, block, true);
        }
        if (block) {
            block_unuse(block);
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

CUresult cuMemFree(CUdeviceptr address)
{
    chunk_t *chunk;
    bool found;

    pthread_mutex_lock(&fake_lock);
    chunk = chunk_of(address);
    found = chunk && chunk->alone && chunk->start == address;
    if (found) {
        block_unuse(chunk->block);
        chunk->size = 0;
        range_unmake(address);
    }
    pthread_mutex_unlock(&fake_lock);
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAddressReserve(CUdeviceptr *address_p, size_t size, size_t alignment, CUdeviceptr wish,
                             unsigned long long flags)
{
    CUresult result;

    (void)alignment;
    (void)wish;
    (void)flags;
    pthread_mutex_lock(&fake_lock);
    result = range_make(address_p, size);
    pthread_mutex_unlock(&fake_lock);
    return result;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t size)
{
    (void)size;
    pthread_mutex_lock(&fake_lock);
    range_unmake(address);
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t *size_p, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option)
{
    (void)prop;
    (void)option;
    *size_p = UNIT;
    return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle_p, size_t size, const CUmemAllocationProp *prop,
                     unsigned long long flags)
{
    block_t *block;

    if (flags || size % UNIT || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE || prop->location.id >= DEVICES) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&fake_lock);
    block = block_make(prop->location.id, size);
    pthread_mutex_unlock(&fake_lock);
    *handle_p = (CUmemGenericAllocationHandle)(uintptr_t)block;
    return block ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    pthread_mutex_lock(&fake_lock);
    block_unuse((block_t *)(uintptr_t)handle);
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
    CUresult result;

    if (offset || flags || address % 4096 || size != ((block_t *)(uintptr_t)handle)->size) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&fake_lock);
    result = chunk_make(address, size, (block_t *)(uintptr_t)handle, false);
    pthread_mutex_unlock(&fake_lock);
    return result;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count)
{
    (void)address;
    (void)size;
    return count == 1 && access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t size)
{
    CUdeviceptr at;
    chunk_t *chunk;

    pthread_mutex_lock(&fake_lock);
    for (at = address; at < address + size; at += UNIT) {
        chunk = chunk_of(at);
        if (chunk) {
            block_unuse(chunk->block);
            chunk->size = 0;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

CUresult cuMemHostRegister(void *address, size_t size, unsigned flags)
{
    CUresult result = CUDA_ERROR_INVALID_CONTEXT;
    range_t *range;

    pthread_mutex_lock(&fake_lock);
    if (fake_device() >= 0) {
        range  = range_free(pinned);
        result = !(flags & CU_MEMHOSTREGISTER_PORTABLE) ? CUDA_ERROR_INVALID_VALUE
                 : range                                ? CUDA_SUCCESS
                                                        : CUDA_ERROR_OUT_OF_MEMORY;
        if (result == CUDA_SUCCESS) {
            *range = (range_t){(CUdeviceptr)address, size};
            fake_counts.pinned++;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

CUresult cuMemHostUnregister(void *address)
{
    range_t *range;

    pthread_mutex_lock(&fake_lock);
    range = fake_device() >= 0 ? range_of(pinned, (CUdeviceptr)address) : NULL;
    if (range) {
        range->size = 0;
        fake_counts.pinned--;
    }
    pthread_mutex_unlock(&fake_lock);
    return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* like the driver, it knows nothing of memory that is not its own, and says so with zeros */
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *names, void **values, CUdeviceptr address)
{
    chunk_t *chunk;
    unsigned i;

    pthread_mutex_lock(&fake_lock);
    chunk = chunk_of(address);
    for (i = 0; i < count; i++) {
        switch (names[i]) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: *(unsigned *)values[i] = chunk ? CU_MEMORYTYPE_DEVICE : 0; break;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned *)values[i] = 0; break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)values[i] = chunk ? chunk->block->device : -2; break;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(CUdeviceptr *)values[i] = chunk ? chunk->start : 0; break;
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t *)values[i] = chunk ? chunk->size : 0; break;
        default: abort();
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}
