/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/gpu.h"

#include "conform/stage.h"
#include "shim/shim.h"

#include <kvlane/cache.h>

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* Memory that the CPU cannot read is never taken for host memory, with and without CUDA. */

TEST(region_register, refuses_what_the_cpu_cannot_read)
{
    stage_params_t params = {.rails = "tcp"};
    stage_t stage         = {.params = params};
    kvl_engine_t *engine  = stage_engine(&stage, NULL);
    kvl_region_t *region  = NULL;
    char *memory          = mmap(NULL, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    REQUIRE(memory != MAP_FAILED);
#ifdef KVL_HAVE_CUDA
    CHECK_EQ(kvl_region_register(engine, memory, 65536, &region), KVL_ERR_INVALID);
#else
    CHECK_EQ(kvl_region_register(engine, memory, 65536, &region), KVL_ERR_UNSUPPORTED);
    CHECK_HAS(kvl_error_text(), "--with-cuda=DIR");
#endif
    CHECK_HAS(kvl_error_text(), "the CPU cannot read them");
    CHECK(mprotect(memory, 32768, PROT_READ | PROT_WRITE) == 0); /* the half of it */
    CHECK(kvl_region_register(engine, memory, 65536, &region) < 0 && !region);
    CHECK_EQ(kvl_region_register(engine, memory, 32768, &region), KVL_OK);
    CHECK_EQ(kvl_region_release(region), KVL_OK);
    kvl_engine_destroy(engine);
    munmap(memory, 65536);
}

TEST(batch, refuses_to_wait_for_a_device_that_it_has_no_memory_of)
{
    stage_params_t params      = {.rails = "tcp"};
    kvl_batch_params_t batches = {.event = &params};
    kvl_batch_t *batch         = NULL;
    kvl_segment_t segment;
    kvl_item_t item = {"key", 3, &segment, 1};
    stage_t stage;

    stage_open(&stage, &params);
    segment = (kvl_segment_t){stage.pool, 4096, NULL};
    CHECK_EQ(kvl_cache_submit(stage.cache, KVL_CACHE_PUT, &item, 1, &batches, &batch), KVL_ERR_INVALID);
    CHECK_HAS(kvl_error_text(), "none of its memory is a device's");
    CHECK(batch == NULL);
    stage_close(&stage);
}

/* in a process of its own, for the first driver of a process counts */
static void refuses(const char *library, const char *text)
{
    char command[1024], said[1024] = "";
    FILE *stream;
    size_t n;

    snprintf(command, sizeof(command), "KVLANE_CUDA_LIBRARY=%s '%s' -s 127.0.0.1:1 exists key 2>&1", library,
             shim_built("kvlane"));
    stream = popen(command, "r");
    REQUIRE(stream != NULL);
    n       = fread(said, 1, sizeof(said) - 1, stream);
    said[n] = '\0';
    CHECK(pclose(stream) != 0);
    CHECK_HAS(said, text);
}

TEST(engine_create, refuses_a_driver_by_name)
{
#ifdef KVL_HAVE_CUDA
    refuses("/nowhere/libcuda.so.1", "KVLANE_CUDA_LIBRARY=/nowhere/libcuda.so.1 cannot be loaded");
    refuses("libm.so.6", "libm.so.6 has no cuInit");
#else
    refuses("libcuda.so.1", "KVLANE_CUDA_LIBRARY=libcuda.so.1, but this kvlane was built without CUDA");
#endif
}
