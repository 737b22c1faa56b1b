/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/gpu.h"

#ifdef KVL_HAVE_CUDA

#include <cuda.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define TEXT(name_) #name_
#define NAME(name_) TEXT(name_)
#define CALL(name_) ((__typeof__(&name_))gpu_symbol(NAME(name_)))
#define DO(name_, ...)                                                                             \
    CHECK_MSG(CALL(name_)(__VA_ARGS__) == CUDA_SUCCESS, "%s failed", NAME(name_))

#define DATA (1u << 20)

static void *handle;
static CUcontext contexts[2];

static const char *library_path(void)
{
    const char *real = getenv("KVL_TEST_CUDA");

    return real && real[0] ? real : shim_built(".libs/libfakecuda.so");
}

static void *gpu_symbol(const char *name)
{
    void *symbol = dlsym(handle, name);

    CHECK_MSG(symbol != NULL, "%s: no %s", library_path(), name);
    return symbol;
}

static void gpu_open(void)
{
    int count = 0, i;

    if (handle) {
        return;
    }
    KEEPS("a driver stays loaded, with its threads and files");
    handle = dlopen(library_path(), RTLD_NOW);
    if (!handle) {
        CHECK_MSG(false, "%s", dlerror());
        shim_leave();
    }
    REQUIRE(CALL(cuInit)(0) == CUDA_SUCCESS);
    REQUIRE(CALL(cuDeviceGetCount)(&count) == CUDA_SUCCESS && count > 0);
    for (i = 0; i < 2 && i < count; i++) {
        REQUIRE(CALL(cuDevicePrimaryCtxRetain)(&contexts[i], i) == CUDA_SUCCESS);
    }
}

const char *gpu_library(void)
{
    gpu_open();
    return library_path();
}

bool gpu_is_fake(void)
{
    gpu_open();
    return dlsym(handle, "fakecuda_counts") != NULL;
}

unsigned gpu_count(void)
{
    gpu_open();
    return contexts[1] ? 2 : 1;
}

fakecuda_counts_t gpu_counts(void)
{
    fakecuda_counts_t counts = {0};

    if (gpu_is_fake()) {
        ((fakecuda_counts_func_t)gpu_symbol("fakecuda_counts"))(&counts);
    }
    return counts;
}

void gpu_mode(fakecuda_mode_t mode)
{
    if (!gpu_is_fake()) {
        SKIP("a real device is as it is");
    }
    ((fakecuda_mode_func_t)gpu_symbol("fakecuda_mode"))(mode);
}

void gpu_fail(unsigned skip, unsigned count)
{
    if (!gpu_is_fake()) {
        SKIP("a real driver does not fail for the asking");
    }
    ((fakecuda_fail_func_t)gpu_symbol("fakecuda_fail"))(skip, count);
}

/* the test's thread has a context for the time of a call alone, as any thread that knows nothing of CUDA */
static void enter(unsigned device)
{
    gpu_open();
    DO(cuCtxPushCurrent, contexts[device]);
}

static void leave(void)
{
    CUcontext context;

    DO(cuCtxPopCurrent, &context);
}

/* ---- memory ---- */

void *gpu_alloc(unsigned device, size_t size)
{
    CUdeviceptr address = 0;

    enter(device);
    DO(cuMemAlloc, &address, size);
    leave();
    REQUIRE(address != 0);
    return (void *)address;
}

void gpu_free(void *memory)
{
    enter(0);
    DO(cuMemFree, (CUdeviceptr)memory);
    leave();
}

void gpu_alloc_chunks(gpu_chunks_t *chunks, unsigned device, unsigned count, unsigned hole)
{
    CUmemAllocationProp prop = {.type     = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)device}};
    CUmemAccessDesc access   = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr start        = 0;
    unsigned i;

    memset(chunks, 0, sizeof(*chunks));
    enter(device);
    DO(cuMemGetAllocationGranularity, &chunks->chunk, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    chunks->count = count;
    chunks->hole  = hole;
    chunks->size  = (count + (hole != 0)) * chunks->chunk;
    DO(cuMemAddressReserve, &start, chunks->size, 0, 0, 0);
    for (i = 0; i < count; i++) {
        CUdeviceptr at = start + (i + (hole && i >= hole)) * chunks->chunk;

        DO(cuMemCreate, &chunks->handles[i], chunks->chunk, &prop, 0);
        DO(cuMemMap, at, chunks->chunk, 0, chunks->handles[i], 0);
        DO(cuMemSetAccess, at, chunks->chunk, &access, 1);
    }
    leave();
    chunks->memory = (void *)start;
}

void gpu_free_chunks(gpu_chunks_t *chunks)
{
    unsigned i;

    enter(0);
    for (i = 0; i < chunks->count; i++) {
        CUdeviceptr at = (CUdeviceptr)chunks->memory + (i + (chunks->hole && i >= chunks->hole)) * chunks->chunk;

        DO(cuMemUnmap, at, chunks->chunk);
        DO(cuMemRelease, chunks->handles[i]);
    }
    DO(cuMemAddressFree, (CUdeviceptr)chunks->memory, chunks->size);
    leave();
}

/* a real driver has these done when they return, as far as the host can tell */
static void copy(void *to, const void *from, size_t length)
{
    CUstream stream;

    enter(0);
    DO(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    DO(cuMemcpyAsync, (CUdeviceptr)to, (CUdeviceptr)from, length, stream);
    DO(cuStreamSynchronize, stream);
    DO(cuStreamDestroy, stream);
    leave();
}

void gpu_write(void *to, const void *from, size_t length)
{
    copy(to, from, length);
}

void gpu_read(void *to, const void *from, size_t length)
{
    copy(to, from, length);
}

void gpu_fill(void *memory, size_t length, uint64_t seed)
{
    uint8_t *bytes = malloc(length);

    REQUIRE(bytes != NULL);
    fill(bytes, length, seed);
    gpu_write(memory, bytes, length);
    free(bytes);
}

size_t gpu_differs(const void *memory, size_t length, uint64_t seed)
{
    uint8_t *bytes = malloc(length);
    size_t at;

    REQUIRE(bytes != NULL);
    gpu_read(bytes, memory, length);
    at = differs(bytes, length, seed);
    free(bytes);
    return at;
}

/* ---- streams ---- */

void gpu_hold(gpu_stream_t *stream)
{
    memset(stream, 0, sizeof(*stream));
    stream->word = aligned_alloc(4096, 4096 + DATA);
    REQUIRE(stream->word != NULL);
    stream->data  = (uint8_t *)stream->word + 4096;
    *stream->word = 0;
    enter(0);
    DO(cuMemHostRegister, stream->word, 4096 + DATA, CU_MEMHOSTREGISTER_PORTABLE);
    DO(cuStreamCreate, (CUstream *)&stream->stream, CU_STREAM_NON_BLOCKING);
    DO(cuEventCreate, (CUevent *)&stream->event, CU_EVENT_DISABLE_TIMING);
    if (CALL(cuStreamWaitValue32)(stream->stream, (CUdeviceptr)stream->word, 1, CU_STREAM_WAIT_VALUE_GEQ) != CUDA_SUCCESS) {
        leave();
        gpu_stream_end(stream);
        SKIP("this device's streams cannot wait for a word of memory");
    }
    leave();
}

void gpu_write_later(gpu_stream_t *stream, void *to, size_t length, uint64_t seed)
{
    REQUIRE(length <= DATA);
    fill(stream->data, length, seed);
    enter(0);
    DO(cuMemcpyAsync, (CUdeviceptr)to, (CUdeviceptr)stream->data, length, stream->stream);
    leave();
}

void gpu_record(gpu_stream_t *stream)
{
    enter(0);
    DO(cuEventRecord, stream->event, stream->stream);
    leave();
}

void gpu_release(gpu_stream_t *stream)
{
    __atomic_store_n(stream->word, 1, __ATOMIC_RELEASE);
}

void gpu_stream_end(gpu_stream_t *stream)
{
    enter(0);
    DO(cuStreamSynchronize, stream->stream);
    DO(cuEventDestroy, stream->event);
    DO(cuStreamDestroy, stream->stream);
    DO(cuMemHostUnregister, stream->word);
    leave();
    free(stream->word);
}

/* ---- kvlane ---- */

void gpu_stage(stage_t *stage, stage_params_t params)
{
    unsigned i;

    for (i = 0; params.settings[i][0]; i++) {
    }
    params.settings[i][0] = "KVLANE_CUDA_LIBRARY";
    params.settings[i][1] = gpu_library();
    stage_open(stage, &params);
}

#endif
