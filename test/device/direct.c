/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/gpu.h"

#include "ucx/ucx.h"

/* Rails that reach device memory by themselves. Shared memory plays one, or a verbs device where there is one
 * (KVL_TEST_RDMA=ADDR,DEVICE): UCX is made to say that it takes device memory, and the fake's memory can be touched and
 * registered, or loses what is written. */

static bool pretends;

bool __real_kvl_context_takes_devices(const kvl_context_t *context);
kvl_status_t __real_kvl_ep_info(kvl_ep_t *ep, kvl_ep_info_t *info_p);
kvl_status_t __real_kvl_mem_create_device(kvl_context_t *context, void *address, size_t length, kvl_mem_t **mem_p);
bool __wrap_kvl_context_takes_devices(const kvl_context_t *context);
kvl_status_t __wrap_kvl_ep_info(kvl_ep_t *ep, kvl_ep_info_t *info_p);
kvl_status_t __wrap_kvl_mem_create_device(kvl_context_t *context, void *address, size_t length, kvl_mem_t **mem_p);

bool __wrap_kvl_context_takes_devices(const kvl_context_t *context)
{
    return pretends || __real_kvl_context_takes_devices(context);
}

kvl_status_t __wrap_kvl_ep_info(kvl_ep_t *ep, kvl_ep_info_t *info_p)
{
    kvl_status_t status = __real_kvl_ep_info(ep, info_p);

    info_p->device_memory |= status == KVL_OK && pretends && info_p->put_onesided;
    return status;
}

kvl_status_t __wrap_kvl_mem_create_device(kvl_context_t *context, void *address, size_t length, kvl_mem_t **mem_p)
{
    return pretends ? kvl_mem_create(context, address, length, mem_p)
                    : __real_kvl_mem_create_device(context, address, length, mem_p);
}

#ifdef KVL_HAVE_CUDA

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE   (4u << 20)
#define STAGED 66 /* copies: 32 segments of 50000 bytes, each way, one of them cut where a stage is full (1 MiB) */

typedef struct {
    stage_t stage;
    uint8_t *memory;
    kvl_region_t *region;
    kvl_segment_t segments[32];
    kvl_item_t item;
} scene_t;

static void scene_region(scene_t *scene)
{
    unsigned i;

    REQUIRE(kvl_region_register(scene->stage.engine, scene->memory, SIZE, &scene->region) == KVL_OK);
    for (i = 0; i < 32; i++) {
        scene->segments[i] = (kvl_segment_t){scene->memory + i * 100000, 50000, scene->region};
    }
    scene->item = (kvl_item_t){"key", 3, scene->segments, 32};
}

static void scene_open(scene_t *scene, fakecuda_mode_t mode, const char *gpudirect)
{
    gpu_mode(mode);
    gpu_stage(&scene->stage, (stage_params_t){.rails = "shm", .settings = {{"KVLANE_GPUDIRECT", gpudirect}}});
    scene->memory = gpu_alloc(0, SIZE);
}

/* node and client over verbs, by the address that the device has */
static void scene_open_verbs(scene_t *scene, fakecuda_mode_t mode)
{
    const char *about = getenv("KVL_TEST_RDMA");
    stage_t *stage    = &scene->stage;

    if (!about || !strchr(about, ',')) {
        SKIP("KVL_TEST_RDMA names no verbs device's address");
    }
    gpu_mode(mode);
    *stage = (stage_t){.params = {.rails = "rdma", .node_bytes = 64u << 20}};
    snprintf(stage->address, sizeof(stage->address), "%.*s:0", (int)strcspn(about, ","), about);
    stage->params.settings[0][0] = "KVLANE_CUDA_LIBRARY";
    stage->params.settings[0][1] = gpu_library();
    stage->params.settings[1][0] = "KVLANE_STAGE_SIZE"; /* each page is pinned by an emulated device */
    stage->params.settings[1][1] = "8M";
    stage_start_node(stage);
    stage->engine = stage_engine(stage, stage->address);
    REQUIRE(kvl_region_alloc(stage->engine, 1u << 20, &stage->region) == KVL_OK);
    stage->pool = kvl_region_address(stage->region);
    REQUIRE(kvl_cache_create(stage->engine, stage->address, &stage->cache) == KVL_OK);
    scene->memory = gpu_alloc(0, SIZE);
    scene_region(scene);
}

static void mode_is(scene_t *scene, const char *mode)
{
    kvl_session_info_t info;

    CHECK_EQ(kvl_cache_session(scene->stage.cache, &info), KVL_OK);
    CHECK_STR_EQ(info.put_mode, mode);
    CHECK_STR_EQ(info.get_mode, mode);
    CHECK_HAS(info.transport, "rc_");
}

static void scene_close(scene_t *scene)
{
    CHECK_EQ(kvl_region_release(scene->region), KVL_OK);
    stage_close(&scene->stage);
    gpu_free(scene->memory);
    CHECK_EQ(gpu_counts().strays, 0);
    CHECK_EQ(gpu_counts().pinned, 0);
}

static bool path_has(scene_t *scene, const char *path)
{
    char *text = NULL, *line;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    bool has;

    REQUIRE(stream != NULL);
    kvl_engine_print(scene->stage.engine, stream, 0);
    fclose(stream);
    line = strstr(text, "cuda:0");
    REQUIRE(line != NULL);
    line[strcspn(line, "\n")] = '\0';
    has                       = strstr(line, path) != NULL;
    free(text);
    return has;
}

/* what `kvlane_info -s` shows of the path; a self-test ends first, whose answers come with those of others */
static void path_is(scene_t *scene, const char *path)
{
    unsigned i;

    CHECK_EQ(kvl_cache_connect(scene->stage.cache, 0), KVL_OK);
    for (i = 0; i < 1000 && !path_has(scene, path); i++) {
        CHECK_EQ(stage_put(&scene->stage, "host", 0, 5000), KVL_OK);
    }
    CHECK_MSG(path_has(scene, path), "the path is not %s", path);
}

/* put, spoil, get, compare; the number of copies that kvlane made */
static unsigned copies_of_a_round(scene_t *scene, kvl_status_t *status_p)
{
    uint8_t *sent = malloc(SIZE), *got = malloc(SIZE);
    unsigned copies, i;

    gpu_fill(scene->memory, SIZE, 1);
    gpu_read(sent, scene->memory, SIZE);
    copies    = gpu_counts().copies;
    *status_p = stage_run(&scene->stage, KVL_CACHE_PUT, &scene->item, 1, NULL, NULL);
    copies    = gpu_counts().copies - copies;
    gpu_fill(scene->memory, SIZE, 2);
    copies -= gpu_counts().copies;
    CHECK_EQ(stage_run(&scene->stage, KVL_CACHE_GET, &scene->item, 1, NULL, NULL), KVL_OK);
    copies += gpu_counts().copies;
    gpu_read(got, scene->memory, SIZE);
    for (i = 0; i < 32; i++) {
        CHECK_MEM_EQ(got + i * 100000, sent + i * 100000, 50000);
    }
    free(sent);
    free(got);
    return copies;
}

SETUP
{
    pretends = true;
}

TEARDOWN
{
    pretends = false;
    if (gpu_is_fake()) {
        gpu_mode(FAKECUDA_CLOSED);
    }
}

TEST(device_path, is_direct_when_its_self_test_passed)
{
    kvl_status_t status;
    unsigned flushes;
    scene_t scene;

    scene_open(&scene, FAKECUDA_OPEN, "auto");
    scene_region(&scene);
    path_is(&scene, "direct");
    flushes = gpu_counts().flushes;
    CHECK_EQ(copies_of_a_round(&scene, &status), 0);
    CHECK_EQ(status, KVL_OK);
    CHECK_EQ(gpu_counts().flushes - flushes, 1); /* of the get */
    scene_close(&scene);
}

TEST(device_path, is_tested_on_a_connection_that_was_there_before)
{
    kvl_status_t status;
    scene_t scene;

    scene_open(&scene, FAKECUDA_OPEN, "auto");
    CHECK_EQ(kvl_cache_connect(scene.stage.cache, 0), KVL_OK);
    scene_region(&scene);
    copies_of_a_round(&scene, &status); /* by whichever path */
    CHECK_EQ(status, KVL_OK);
    path_is(&scene, "direct");
    CHECK_EQ(copies_of_a_round(&scene, &status), 0);
    CHECK_EQ(status, KVL_OK);
    scene_close(&scene);
}

/* the device does not see what the rail wrote: nothing goes that way, all goes well */
TEST(device_path, that_loses_bytes_is_not_used)
{
    kvl_status_t status;
    scene_t scene;

    scene_open(&scene, FAKECUDA_ASTRAY, "auto");
    scene_region(&scene);
    path_is(&scene, "through host memory (its self-test failed)");
    CHECK_EQ(copies_of_a_round(&scene, &status), STAGED);
    CHECK_EQ(status, KVL_OK);
    scene_close(&scene);
}

TEST(device_path, can_be_turned_off)
{
    kvl_status_t status;
    scene_t scene;

    scene_open(&scene, FAKECUDA_OPEN, "off");
    scene_region(&scene);
    path_is(&scene, "through host memory (KVLANE_GPUDIRECT=off)");
    CHECK_EQ(copies_of_a_round(&scene, &status), STAGED);
    CHECK_EQ(status, KVL_OK);
    scene_close(&scene);
}

/* memory that the CPU can't touch, and a UCX that takes none: what really is here */
TEST(device_path, goes_through_host_memory_where_ucx_takes_none)
{
    kvl_status_t status;
    scene_t scene;

    pretends = false;
    scene_open(&scene, FAKECUDA_CLOSED, "auto");
    scene_region(&scene);
    path_is(&scene, "through host memory (UCX does not take device memory there)");
    CHECK_EQ(copies_of_a_round(&scene, &status), STAGED);
    CHECK_EQ(status, KVL_OK);
    scene_close(&scene);
}

TEST(device_path, goes_through_host_memory_over_verbs)
{
    kvl_status_t status;
    scene_t scene;

    pretends = false;
    scene_open_verbs(&scene, FAKECUDA_CLOSED);
    path_is(&scene, "through host memory (UCX does not take device memory there)");
    mode_is(&scene, "onesided");
    CHECK_EQ(copies_of_a_round(&scene, &status), STAGED);
    CHECK_EQ(status, KVL_OK);
    scene_close(&scene);
}

TEST(device_path, is_direct_over_verbs)
{
    kvl_status_t status;
    scene_t scene;

    scene_open_verbs(&scene, FAKECUDA_OPEN);
    path_is(&scene, "direct");
    mode_is(&scene, "onesided");
    CHECK_EQ(copies_of_a_round(&scene, &status), 0);
    CHECK_EQ(status, KVL_OK);
    scene_close(&scene);
}

TEST(device_path, that_loses_bytes_is_not_used_over_verbs)
{
    kvl_status_t status;
    scene_t scene;

    scene_open_verbs(&scene, FAKECUDA_ASTRAY);
    path_is(&scene, "through host memory (its self-test failed)");
    CHECK_EQ(copies_of_a_round(&scene, &status), STAGED);
    CHECK_EQ(status, KVL_OK);
    scene_close(&scene);
}

#endif
