/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/gpu.h"

#ifdef KVL_HAVE_CUDA

#include "mem/device.h"

#include <stdlib.h>
#include <string.h>

/* src/mem by itself: what a pointer is, copies and fences. */

static kvl_device_t *device_of(const void *address, size_t length)
{
    kvl_device_t *device = NULL;

    CHECK_MSG(kvl_device_find(address, length, &device) == KVL_OK, "%s", kvl_error_text());
    return device;
}

static kvl_status_t find(const void *address, size_t length)
{
    kvl_device_t *device;

    return kvl_device_find(address, length, &device);
}

SETUP
{
    CHECK_EQ(kvl_device_library(gpu_library()), KVL_OK);
}

TEST(device_find, tells_devices_from_the_host)
{
    char *host = malloc(65536), *first = gpu_alloc(0, 100000);
    char *second = gpu_count() > 1 ? gpu_alloc(1, 100000) : NULL;

    CHECK(kvl_device_absent() == NULL);
    CHECK(device_of(host, 65536) == NULL);
    CHECK(device_of(&host, sizeof(host)) == NULL);
    CHECK_STR_EQ(kvl_device_name(device_of(first, 100000)), "cuda:0");
    CHECK_EQ(kvl_device_number(device_of(first + 99999, 1)), 0);
    CHECK(device_of(first, 1) == device_of(first + 50000, 50000));
    if (second) {
        CHECK_STR_EQ(kvl_device_name(device_of(second, 100000)), "cuda:1");
        gpu_free(second);
    }
    gpu_free(first);
    free(host);
}

TEST(memory_query, tells_kind_and_device)
{
    char *device = gpu_alloc(gpu_count() - 1, 4096), host[16];
    kvl_memory_t memory;

    CHECK_EQ(kvl_memory_query(device, 4096, &memory), KVL_OK);
    CHECK(memory.kind == KVL_MEMORY_CUDA && memory.device == (int)gpu_count() - 1);
    CHECK_EQ(kvl_memory_query(host, 16, &memory), KVL_OK);
    CHECK(memory.kind == KVL_MEMORY_HOST && memory.device == -1);
    CHECK_EQ(kvl_memory_query(host, 0, &memory), KVL_ERR_INVALID);
    CHECK_EQ(kvl_memory_query(NULL, 1, &memory), KVL_ERR_INVALID);
    CHECK_EQ(kvl_memory_query(host, SIZE_MAX, &memory), KVL_ERR_INVALID);
    CHECK_EQ(kvl_memory_query(host, 16, NULL), KVL_ERR_INVALID);
    gpu_free(device);
}

TEST(device_find, follows_a_range_over_allocations)
{
    gpu_chunks_t whole, holed;

    gpu_alloc_chunks(&whole, 0, 3, 0);
    CHECK_EQ(kvl_device_number(device_of(whole.memory, whole.size)), 0);
    CHECK_EQ(kvl_device_number(device_of((char *)whole.memory + whole.chunk - 1, 2)), 0);
    CHECK_EQ(find(whole.memory, whole.size + 1), KVL_ERR_INVALID);
    gpu_free_chunks(&whole);

    gpu_alloc_chunks(&holed, 0, 3, 1);
    CHECK_EQ(find(holed.memory, holed.size), KVL_ERR_INVALID);
    CHECK_HAS(kvl_error_text(), "memory of cuda:0 up to");
    CHECK_EQ(find((char *)holed.memory + holed.chunk, holed.chunk), KVL_ERR_INVALID); /* the hole itself */
    CHECK_EQ(kvl_device_number(device_of((char *)holed.memory + 2 * holed.chunk, 2 * holed.chunk)), 0);
    gpu_free_chunks(&holed);
}

TEST(device_copy, is_over_when_its_fence_says_so)
{
    char *memory = gpu_alloc(0, 65536), *host = calloc(1, 65536), *back = calloc(1, 65536);
    kvl_device_t *device = device_of(memory, 65536);
    kvl_copy_t there[8], here[8];
    kvl_fence_t fence = {.event = NULL};
    kvl_status_t status;
    unsigned i;

    fill(host, 65536, 5);
    CHECK_EQ(kvl_device_pin(device, host, 65536), KVL_OK);
    for (i = 0; i < 8; i++) { /* crosswise */
        there[i] = (kvl_copy_t){memory + 8192 * i, host + 8192 * (7 - i), 8192};
        here[i]  = (kvl_copy_t){back + 8192 * (7 - i), memory + 8192 * i, 8192};
    }
    CHECK_EQ(kvl_device_copy(device, KVL_TO_DEVICE, there, 8), KVL_OK);
    CHECK_EQ(kvl_fence_set(&fence, device, KVL_TO_DEVICE), KVL_OK);
    if (gpu_is_fake()) {
        CHECK_EQ(kvl_fence_test(&fence), KVL_INPROGRESS); /* eight copies, and the fence */
    }
    while ((status = kvl_fence_test(&fence)) == KVL_INPROGRESS) {
    }
    CHECK_EQ(status, KVL_OK);
    CHECK_EQ(kvl_device_copy(device, KVL_TO_HOST, here, 8), KVL_OK);
    CHECK_EQ(kvl_device_settle(device, KVL_TO_HOST), KVL_OK);
    CHECK_EQ(differs(back, 65536, 5), 65536);
    kvl_fence_cleanup(&fence);
    kvl_device_unpin(device, host);
    CHECK_EQ(gpu_counts().strays, 0);
    gpu_free(memory);
    free(host);
    free(back);
}

TEST(device_library, counts_when_it_is_named_first)
{
    kvl_device_t *device = NULL;
    char *memory         = gpu_alloc(0, 4096);

    CHECK_EQ(kvl_device_library("/nowhere/libcuda.so.1"), KVL_OK); /* there is one */
    CHECK_EQ(kvl_device_library(NULL), KVL_OK);
    CHECK_EQ(kvl_device_find(memory, 4096, &device), KVL_OK);
    CHECK(device != NULL);
    gpu_free(memory);
}

#endif
