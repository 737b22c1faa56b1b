/* SPDX-License-Identifier: BSD-3-Clause */
#include "conform/stage.h"

#include "base/pin.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* KVLANE_PIN_MAX: one limit for the regions of all engines of the process. */

#define MIB (1u << 20)

static kvl_engine_t *engine_with(const char *limit, const char *timeout)
{
    stage_t stage = {.params = {.rails = "tcp", .settings = {{"KVLANE_PIN_MAX", limit}, {"KVLANE_TIMEOUT", timeout}}}};

    return stage_engine(&stage, NULL);
}

typedef struct {
    kvl_engine_t *engine;
    kvl_region_t *region;
    kvl_status_t status;
} want_t;

static void *want_main(void *arg)
{
    want_t *want = arg;

    want->status = kvl_region_alloc(want->engine, 3 * MIB, &want->region);
    return NULL;
}

TEST(pin_max, makes_a_region_wait_for_another_engines)
{
    kvl_engine_t *first   = engine_with("4M", "60s");
    want_t want           = {.engine = engine_with("4M", "60s")};
    const struct timespec moment = {.tv_nsec = 200000};
    kvl_region_t *region, *small;
    pthread_t thread;

    REQUIRE(kvl_region_alloc(first, 3 * MIB, &region) == KVL_OK);
    REQUIRE(kvl_region_alloc(first, 1 * MIB, &small) == KVL_OK); /* exactly full */
    CHECK_EQ(pthread_create(&thread, NULL, want_main, &want), 0);
    while (!kvl_pin_waiting()) {
        nanosleep(&moment, NULL); /* another thread's state: nothing to wait on */
    }
    CHECK_EQ(kvl_pin_used(), 4 * MIB);
    CHECK_EQ(kvl_region_release(small), KVL_OK); /* not enough */
    CHECK_EQ(kvl_pin_waiting(), 1);
    CHECK_EQ(kvl_region_release(region), KVL_OK);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(want.status, KVL_OK);
    CHECK_EQ(kvl_pin_used(), 3 * MIB);
    kvl_engine_destroy(want.engine); /* with its region */
    CHECK_EQ(kvl_pin_used(), 0);
    kvl_engine_destroy(first);
}

TEST(pin_max, ends_a_wait_with_limit_need_and_use)
{
    kvl_engine_t *engine = engine_with("4M", "20ms");
    kvl_region_t *region, *none = NULL;
    uint8_t *memory = malloc(2 * MIB);

    REQUIRE(memory && kvl_region_alloc(engine, 3 * MIB, &region) == KVL_OK);
    CHECK_EQ(kvl_region_register(engine, memory, 2 * MIB, &none), KVL_ERR_LIMIT);
    CHECK(none == NULL);
    CHECK(strstr(kvl_error_text(), "KVLANE_PIN_MAX is 4194304 bytes: 2097152 more") &&
          strstr(kvl_error_text(), "3145728 that this process has"));
    CHECK_EQ(kvl_region_release(region), KVL_OK);
    CHECK_EQ(kvl_region_register(engine, memory, 2 * MIB, &none), KVL_OK);
    CHECK_EQ(kvl_region_release(none), KVL_OK);
    free(memory);
    kvl_engine_destroy(engine);
}

/* inside of the engine nobody may wait */
static void on_batch(kvl_batch_t *batch, void *arg)
{
    want_t *want = arg;

    (void)batch;
    want->status = kvl_region_alloc(want->engine, 3 * MIB, &want->region);
}

TEST(pin_max, does_not_wait_in_a_callback)
{
    stage_params_t params     = {.rails = "tcp", .node_bytes = 16 * MIB, .pool_bytes = 4 * MIB,
                                 .settings = {{"KVLANE_PIN_MAX", "22M"}, {"KVLANE_TIMEOUT", "600s"}}};
    want_t want               = {.status = KVL_OK};
    kvl_batch_params_t called = {.callback = on_batch, .arg = &want};
    kvl_item_t item           = {"key", 3, NULL, 0};
    kvl_batch_t *batch;
    stage_t stage;

    stage_open(&stage, &params);
    want.engine = stage.engine;
    REQUIRE(kvl_cache_submit(stage.cache, KVL_CACHE_EXISTS, &item, 1, &called, &batch) == KVL_INPROGRESS);
    kvl_batch_wait(batch, -1);
    CHECK_EQ(kvl_batch_release(batch), KVL_OK);
    CHECK_EQ(want.status, KVL_ERR_LIMIT);
    stage_close(&stage);
}

TEST(pin_max, below_a_nodes_memory_is_an_error_at_once)
{
    stage_params_t params  = {.rails = "tcp", .settings = {{"KVLANE_PIN_MAX", "15M"}}};
    kvl_config_t *config   = stage_config(&params, NULL);
    kvl_node_params_t node = {.config = config, .listen = "127.0.0.1:0", .memory_bytes = 16 * MIB};
    kvl_node_t *none       = NULL;

    CHECK_EQ(kvl_node_create(&node, &none), KVL_ERR_LIMIT);
    CHECK(none == NULL && strstr(kvl_error_text(), "KVLANE_PIN_MAX"));
    CHECK_EQ(kvl_pin_used(), 0);
    kvl_config_destroy(config);
}
