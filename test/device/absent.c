/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/gpu.h"

#include "conform/stage.h"
#include "shim/shim.h"

#include <kvlane/cache.h>

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

#ifndef KVL_HAVE_CUDA
TEST(engine_create, refuses_a_driver_that_it_was_not_built_for)
{
    kvl_config_t *config = NULL;
    kvl_engine_t *engine = NULL;

    REQUIRE(kvl_config_create(&config) == KVL_OK);
    CHECK_EQ(kvl_config_set(config, "KVLANE_CUDA_LIBRARY", "libcuda.so.1"), KVL_OK);
    CHECK_EQ(kvl_engine_create(&(kvl_engine_params_t){.config = config}, &engine), KVL_ERR_UNSUPPORTED);
    CHECK_HAS(kvl_error_text(), "KVLANE_CUDA_LIBRARY=libcuda.so.1");
    CHECK_HAS(kvl_error_text(), "--with-cuda=DIR");
    kvl_config_destroy(config);
}
#endif
