/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/shim.h"

#include <kvlane/plugin.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* libkvlane_plugin.so as a stranger loads it: RTLD_LOCAL, by its two symbols, unloaded after use. */

static const char *plugin_path(void)
{
    return shim_built(".libs/libkvlane_plugin.so");
}

static void use_table(const kvl_plugin_t *kvl)
{
    kvl_config_t *config;
    kvl_node_t *node;
    kvl_engine_t *engine;
    kvl_cache_t *cache;
    kvl_region_t *region;
    kvl_batch_t *batch;
    char address[128];
    static char memory[65536], back[65536];
    kvl_segment_t segment = {.address = memory, .length = sizeof(memory)};
    kvl_item_t item       = {"key", 3, &segment, 1};

    REQUIRE(kvl->config_create(&config) == KVL_OK);
    REQUIRE(kvl->config_set(config, "KVLANE_RAILS", "tcp") == KVL_OK);
    kvl_node_params_t node_params = {.config = config, .listen = "127.0.0.1:0", .memory_bytes = 64 << 20};
    REQUIRE(kvl->node_create(&node_params, &node) == KVL_OK);
    REQUIRE(kvl->node_address(node, address, sizeof(address)) == KVL_OK);
    kvl_engine_params_t params = {.config = config, .address = address};
    REQUIRE(kvl->engine_create(&params, &engine) == KVL_OK);
    REQUIRE(kvl->cache_create(engine, address, &cache) == KVL_OK);
    REQUIRE(kvl->region_register(engine, memory, sizeof(memory), &region) == KVL_OK);
    memset(memory, 5, sizeof(memory));
    memcpy(back, memory, sizeof(back));
    REQUIRE(kvl->cache_submit(cache, KVL_CACHE_PUT, &item, 1, NULL, &batch) == KVL_INPROGRESS);
    CHECK_EQ(kvl->batch_wait(batch, -1), KVL_OK);
    CHECK_EQ(kvl->batch_release(batch), KVL_OK);
    memset(memory, 0, sizeof(memory));
    REQUIRE(kvl->cache_submit(cache, KVL_CACHE_GET, &item, 1, NULL, &batch) == KVL_INPROGRESS);
    CHECK_EQ(kvl->batch_wait(batch, -1), KVL_OK);
    CHECK_EQ(kvl->batch_release(batch), KVL_OK);
    CHECK_MEM_EQ(memory, back, sizeof(back));
    kvl->cache_destroy(cache);
    CHECK_EQ(kvl->region_release(region), KVL_OK);
    kvl->engine_destroy(engine);
    kvl->node_destroy(node);
    kvl->config_destroy(config);
}

/* loads, looks, uses, unloads; twice, because the second time is another matter */
static void load_and_use(void)
{
    int round;

    for (round = 0; round < 2; round++) {
        void *library = dlopen(plugin_path(), RTLD_NOW | RTLD_LOCAL);
        kvl_plugin_get_func_t get;
        const char *(*text)(void);
        const kvl_plugin_t *kvl = NULL;

        if (!library) {
            shim_fail(__FILE__, __LINE__, "%s", dlerror());
            return;
        }
        get  = (kvl_plugin_get_func_t)dlsym(library, "kvl_plugin_get");
        text = (const char *(*)(void))dlsym(library, "kvl_plugin_text");
        REQUIRE(get && text);
        CHECK_EQ(get(KVL_PLUGIN_ABI + 1, &kvl), KVL_ERR_VERSION);
        CHECK(strstr(text(), "version 2") != NULL);
        CHECK_EQ(get(0, &kvl), KVL_ERR_VERSION);
        CHECK_EQ(get(KVL_PLUGIN_ABI, NULL), KVL_ERR_INVALID);
        CHECK(kvl == NULL);
        REQUIRE(get(KVL_PLUGIN_ABI, &kvl) == KVL_OK);
        CHECK_EQ(kvl->abi, KVL_PLUGIN_ABI);
        CHECK_EQ(kvl->size, sizeof(kvl_plugin_t));
        use_table(kvl);
        CHECK_EQ(dlclose(library), 0);
    }
}

TEST(plugin_get, loads_local_works_and_unloads)
{
    pid_t child = fork(); /* libraries that come and go, away from the other tests */
    int status  = 0;

    if (child == 0) {
        load_and_use();
        _exit(0);
    }
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK_EQ(status, 0);
}

/* a copy of libucp under another path is another libucp */
static void second_libucp(const char *copy)
{
    kvl_engine_t *engine;
    void *library = dlopen(copy, RTLD_LAZY | RTLD_LOCAL);

    if (!library) {
        shim_fail(__FILE__, __LINE__, "%s", dlerror());
        return;
    }
    CHECK_EQ(kvl_engine_create(NULL, &engine), KVL_ERR_UNSUPPORTED);
    CHECK_MSG(strstr(kvl_error_text(), copy) != NULL, "it does not name the copy: %s", kvl_error_text());
    CHECK_MSG(strstr(kvl_error_text(), kvl_ucx_path()) != NULL, "it does not name the first: %s",
              kvl_error_text());
}

TEST(plugin_engine, refuses_a_second_libucp_with_both_paths)
{
    char folder[] = "/tmp/kvl-second-XXXXXX", copy[128], command[1200];
    int status    = 0;
    pid_t child;

    if (!kvl_ucx_path()[0]) {
        SKIP("the path of libucp is not known");
    }
    REQUIRE(mkdtemp(folder) != NULL);
    snprintf(copy, sizeof(copy), "%s/libucp.so.0", folder);
    snprintf(command, sizeof(command), "cp -L '%s' '%s'", kvl_ucx_path(), copy);
    CHECK_EQ(system(command), 0);
    child = fork(); /* it stays loaded: away from the other tests */
    if (child == 0) {
        second_libucp(copy);
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    CHECK_EQ(system(command), 0);
}
