/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/gpu.h"

#ifdef KVL_HAVE_CUDA

#include "base/fault.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Values from and to device memory, through a node. The fake's memory kills who touches it with the CPU. */

#define POOL (24u << 20)
#define HALF (POOL / 2)
#define SPAN (16u * 400000)

typedef struct {
    stage_t stage;
    uint8_t *pool;
    kvl_region_t *region;
} scene_t;

static void scene_open(scene_t *scene, stage_params_t params)
{
    params.pool_bytes = POOL;
    gpu_stage(&scene->stage, params);
    scene->pool = gpu_alloc(0, POOL);
    REQUIRE(kvl_region_register(scene->stage.engine, scene->pool, POOL, &scene->region) == KVL_OK);
}

static void scene_close(scene_t *scene)
{
    fakecuda_counts_t counts;

    CHECK_EQ(kvl_region_release(scene->region), KVL_OK);
    stage_close(&scene->stage);
    gpu_free(scene->pool);
    counts = gpu_counts();
    CHECK_EQ(counts.strays, 0);
    CHECK_EQ(counts.pinned, 0);
    CHECK_EQ(counts.events, 0);
}

/* @a count segments of @a length bytes, @a stride apart: put from one half of the pool, got into the other */
static void goes_round(scene_t *scene, size_t at, size_t count, size_t length, size_t stride)
{
    kvl_segment_t from[64], to[64];
    kvl_item_t put = {"key", 3, from, count}, get = {"key", 3, to, count};
    uint8_t *sent = malloc(length), *got = malloc(length);
    size_t span = (count - 1) * stride + length, i;

    for (i = 0; i < count; i++) {
        from[i] = (kvl_segment_t){scene->pool + at + i * stride, length, scene->region};
        to[i]   = (kvl_segment_t){scene->pool + HALF + at + i * stride, length, NULL};
    }
    gpu_fill(scene->pool + at, span, at + count + length);
    gpu_fill(scene->pool + HALF + at, span, 999);
    CHECK_EQ(stage_run(&scene->stage, KVL_CACHE_PUT, &put, 1, NULL, NULL), KVL_OK);
    CHECK_EQ(stage_run(&scene->stage, KVL_CACHE_GET, &get, 1, NULL, NULL), KVL_OK);
    for (i = 0; i < count; i++) {
        gpu_read(sent, from[i].address, length);
        gpu_read(got, to[i].address, length);
        CHECK_MEM_EQ(got, sent, length);
    }
    free(sent);
    free(got);
}

static void shapes_go_round(const char *rails, const char *mode)
{
    scene_t scene;

    scene_open(&scene, (stage_params_t){.rails = rails, .settings = {{"KVLANE_MODE", mode}}});
    goes_round(&scene, 0, 1, 1, 0);
    goes_round(&scene, 7, 3, 100, 1000); /* inside of a message */
    goes_round(&scene, 0, 1, 65536, 0);
    goes_round(&scene, 11, 61, 4296, 5000);
    goes_round(&scene, 0, 64, 4096, 4096); /* neighbours */
    goes_round(&scene, 3, 1, 9 * (1u << 20) + 5, 0);
    goes_round(&scene, 0, 5, 2 * (1u << 20) + 1, 2 * (1u << 20) + 100);
    scene_close(&scene);
}

BOTH(device_auto, values_go_round_whole)
{
    shapes_go_round(rails, "auto");
}

BOTH(device_message, values_go_round_whole)
{
    shapes_go_round(rails, "message");
}

/* a page in device memory with a tag in host memory behind it, one put from there and one from here */
BOTH(device_and_host, share_a_value)
{
    kvl_segment_t device[3], host[1];
    kvl_item_t item  = {"key", 3, device, 3}, plain = {"key", 3, host, 1};
    size_t length    = 2 * 30000 + 32;
    uint8_t *sent    = malloc(30000);
    scene_t scene;

    scene_open(&scene, (stage_params_t){.rails = rails});
    gpu_fill(scene.pool, 1u << 17, 1);
    fill(scene.stage.pool, 1u << 17, 2);
    device[0] = (kvl_segment_t){scene.pool, 30000, NULL};
    device[1] = (kvl_segment_t){scene.pool + 65536, 30000, NULL};
    device[2] = (kvl_segment_t){scene.stage.pool, 32, NULL};
    host[0]   = (kvl_segment_t){scene.stage.pool + 4096, length, NULL};
    CHECK_EQ(stage_run(&scene.stage, KVL_CACHE_PUT, &item, 1, NULL, NULL), KVL_OK);
    CHECK_EQ(stage_run(&scene.stage, KVL_CACHE_GET, &plain, 1, NULL, NULL), KVL_OK);
    gpu_read(sent, scene.pool, 30000);
    CHECK_MEM_EQ(scene.stage.pool + 4096, sent, 30000);
    gpu_read(sent, scene.pool + 65536, 30000);
    CHECK_MEM_EQ(scene.stage.pool + 4096 + 30000, sent, 30000);
    CHECK_MEM_EQ(scene.stage.pool + 4096 + 60000, scene.stage.pool, 32);

    fill(scene.stage.pool + 4096, length, 3);
    CHECK_EQ(stage_run(&scene.stage, KVL_CACHE_PUT, &plain, 1, NULL, NULL), KVL_OK);
    CHECK_EQ(stage_run(&scene.stage, KVL_CACHE_GET, &item, 1, NULL, NULL), KVL_OK);
    CHECK_EQ(gpu_differs(scene.pool, 30000, 3), 30000);
    gpu_read(sent, scene.pool + 65536, 30000);
    CHECK_MEM_EQ(sent, scene.stage.pool + 4096 + 30000, 30000);
    CHECK_MEM_EQ(scene.stage.pool, scene.stage.pool + 4096 + 60000, 32);
    scene_close(&scene);
    free(sent);
}

BOTH(device_item, lies_on_one_device)
{
    kvl_segment_t segments[2];
    kvl_item_t item      = {"key", 3, segments, 2};
    kvl_batch_t *batch   = NULL;
    kvl_region_t *other  = NULL;
    uint8_t *memory;
    scene_t scene;

    if (gpu_count() < 2) {
        SKIP("one device");
    }
    scene_open(&scene, (stage_params_t){.rails = rails});
    memory = gpu_alloc(1, 65536);
    REQUIRE(kvl_region_register(scene.stage.engine, memory, 65536, &other) == KVL_OK);
    segments[0] = (kvl_segment_t){scene.pool, 4096, NULL};
    segments[1] = (kvl_segment_t){memory, 4096, NULL};
    CHECK_EQ(kvl_cache_submit(scene.stage.cache, KVL_CACHE_PUT, &item, 1, NULL, &batch), KVL_ERR_INVALID);
    CHECK_HAS(kvl_error_text(), "segment 1 is on cuda:1, one before it on cuda:0");
    item = (kvl_item_t){"key", 3, &segments[1], 1};
    CHECK_EQ(stage_run(&scene.stage, KVL_CACHE_PUT, &item, 1, NULL, NULL), KVL_OK);
    CHECK_EQ(kvl_region_release(other), KVL_OK);
    gpu_free(memory);
    scene_close(&scene);
}

/* KVLANE_SG=never is for host memory: distinct device ranges never overlap on a data endpoint */
BOTH(device_segments, take_the_sg_lane_always)
{
    kvl_rail_stat_t before[16], after[16];
    size_t count = 16, again = 16, i;
    kvl_segment_t segments[8];
    kvl_item_t item = {"key", 3, segments, 8};
    uint64_t data = 0, sg = 0;
    scene_t scene;

    scene_open(&scene, (stage_params_t){.rails = rails, .settings = {{"KVLANE_SG", "never"}}});
    for (i = 0; i < 8; i++) {
        segments[i] = (kvl_segment_t){scene.pool + i * 100000, 30000, NULL};
    }
    CHECK_EQ(kvl_cache_connect(scene.stage.cache, 0), KVL_OK);
    CHECK_EQ(kvl_cache_rails(scene.stage.cache, before, &count), KVL_OK);
    CHECK_EQ(stage_run(&scene.stage, KVL_CACHE_PUT, &item, 1, NULL, NULL), KVL_OK);
    CHECK_EQ(stage_run(&scene.stage, KVL_CACHE_GET, &item, 1, NULL, NULL), KVL_OK);
    CHECK_EQ(kvl_cache_rails(scene.stage.cache, after, &again), KVL_OK);
    REQUIRE(again == count);
    for (i = 0; i < count; i++) {
        data += after[i].data.bytes - before[i].data.bytes;
        sg += after[i].sg.bytes - before[i].sg.bytes;
    }
    CHECK_EQ(data, 0);
    CHECK_EQ(sg, 2 * 8 * 30000);
    scene_close(&scene);
}

/* small segments of an op are one call of the driver, from and to memory that it has pinned */
BOTH(device_copies, are_batched_and_pinned)
{
    fakecuda_counts_t before, after;
    scene_t scene;

    if (!gpu_is_fake()) {
        SKIP("a real driver does not count");
    }
    scene_open(&scene, (stage_params_t){.rails = rails});
    before = gpu_counts();
    CHECK_EQ(before.pinned, 1);
    goes_round(&scene, 0, 61, 4296, 5000);
    after = gpu_counts();
    CHECK_EQ(after.copies - before.copies, 2 + 2 * 61 + 2 * 61); /* fills, kvlane's, and the test's looks */
    CHECK(after.batches - before.batches >= 2);
    CHECK(after.batches - before.batches <= 8);
    CHECK_EQ(after.flawed - before.flawed, 2 + 2 * 61); /* the test's own */
    scene_close(&scene);
}

/* more under way than fits into the stages: they wait */
BOTH(device_stages, are_waited_for)
{
    uint8_t *sent = malloc(HALF), *got = malloc(HALF);
    kvl_segment_t segments[10];
    kvl_item_t items[10];
    scene_t scene;
    unsigned i;

    scene_open(&scene, (stage_params_t){.rails    = rails,
                                        .settings = {{"KVLANE_STAGE_SIZE", "2M"}, {"KVLANE_REG_SLICE", "2M"}}});
    for (i = 0; i < 10; i++) {
        segments[i] = (kvl_segment_t){scene.pool + i * (1u << 20), (1u << 20) - i, NULL};
        items[i]    = (kvl_item_t){"0123456789" + i, 1, &segments[i], 1};
    }
    gpu_fill(scene.pool, HALF, 4);
    CHECK_EQ(stage_run(&scene.stage, KVL_CACHE_PUT, items, 10, NULL, NULL), KVL_OK);
    gpu_read(sent, scene.pool, HALF);
    gpu_fill(scene.pool, HALF, 5);
    CHECK_EQ(stage_run(&scene.stage, KVL_CACHE_GET, items, 10, NULL, NULL), KVL_OK);
    gpu_read(got, scene.pool, HALF);
    for (i = 0; i < 10; i++) {
        CHECK_MEM_EQ(got + i * (1u << 20), sent + i * (1u << 20), segments[i].length);
    }
    free(sent);
    free(got);
    scene_close(&scene);
}

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    kvl_status_t status;
} told_t;

static void tell(kvl_batch_t *batch, void *arg)
{
    told_t *told = arg;

    pthread_mutex_lock(&told->lock);
    told->status = kvl_batch_test(batch);
    pthread_cond_signal(&told->changed);
    pthread_mutex_unlock(&told->lock);
}

/* the caller does not wait in kvlane: the progress thread copies, which knows nothing of CUDA by itself */
BOTH(device_context, is_had_by_the_progress_thread)
{
    told_t told                = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, KVL_INPROGRESS};
    kvl_batch_params_t batches = {.callback = tell, .arg = &told};
    fakecuda_counts_t before;
    kvl_batch_t *batch = NULL;
    kvl_segment_t segment;
    kvl_item_t item = {"key", 3, &segment, 1};
    scene_t scene;

    scene_open(&scene, (stage_params_t){.rails = rails});
    gpu_fill(scene.pool, 3u << 20, 6);
    before  = gpu_counts();
    segment = (kvl_segment_t){scene.pool, 3 * (1u << 20), NULL};
    REQUIRE(kvl_cache_submit(scene.stage.cache, KVL_CACHE_PUT, &item, 1, &batches, &batch) == KVL_INPROGRESS);
    pthread_mutex_lock(&told.lock);
    while (told.status == KVL_INPROGRESS) {
        pthread_cond_wait(&told.changed, &told.lock);
    }
    pthread_mutex_unlock(&told.lock);
    CHECK_EQ(told.status, KVL_OK);
    if (gpu_is_fake()) {
        CHECK_EQ(gpu_counts().threads - before.threads, 1);
    }
    while (kvl_batch_release(batch) == KVL_ERR_BUSY) {
    }
    segment.address = scene.pool + HALF;
    CHECK_EQ(stage_run(&scene.stage, KVL_CACHE_GET, &item, 1, NULL, NULL), KVL_OK);
    CHECK_EQ(gpu_differs(scene.pool + HALF, segment.length, 6), segment.length);
    scene_close(&scene);
}

/* a copy that the driver refuses costs its item, and nothing else */
BOTH(device_copy, that_fails_costs_its_item)
{
    kvl_segment_t segments[4];
    kvl_status_t statuses[4];
    kvl_item_t items[4];
    unsigned i, good = 0, bad = 0;
    scene_t scene;

    scene_open(&scene, (stage_params_t){.rails = rails});
    gpu_fill(scene.pool, 400000, 7);
    for (i = 0; i < 4; i++) {
        segments[i] = (kvl_segment_t){scene.pool + i * 100000, 100000, NULL};
        items[i]    = (kvl_item_t){"0123" + i, 1, &segments[i], 1};
    }
    for (i = KVL_CACHE_PUT; i <= KVL_CACHE_GET; i++) {
        unsigned k;

        gpu_fail(1, 1);
        CHECK(stage_run(&scene.stage, (kvl_cache_op_t)i, items, 4, statuses, NULL) == KVL_ERR_INVALID);
        for (k = 0; k < 4; k++) {
            good += statuses[k] == KVL_OK;
            bad += statuses[k] == KVL_ERR_INVALID;
        }
        CHECK_EQ(stage_run(&scene.stage, (kvl_cache_op_t)i, items, 4, NULL, NULL), KVL_OK);
    }
    CHECK_EQ(good, 6);
    CHECK_EQ(bad, 2);
    CHECK_EQ(gpu_differs(scene.pool, 400000, 7), 400000);
    scene_close(&scene);
}

/* the connection breaks under it, in many places: the batch ends, the memory is quiet, the next one is well */
BOTH(device_value, survives_a_link_that_fails)
{
    static const char *const faults[] = {"ep.am:fail@3", "ep.put:fail@3", "ep.get:fail@3", "ep.complete:fail@4",
                                         "ep.flush:fail@3"};
    kvl_segment_t segments[16];
    kvl_item_t item = {"key", 3, segments, 16};
    unsigned i, k;

    for (k = 0; k < sizeof(faults) / sizeof(faults[0]); k++) {
        scene_t scene;

        /* a completion that fails may be the node's, which then waits for the bytes in vain */
        scene_open(&scene, (stage_params_t){.rails = rails, .fault = faults[k], .settings = {{"KVLANE_TIMEOUT", "3s"}}});
        gpu_fill(scene.pool, SPAN, 8);
        for (i = 0; i < 16; i++) {
            segments[i] = (kvl_segment_t){scene.pool + i * 400000, 300000, NULL};
        }
        for (i = KVL_CACHE_PUT; i <= KVL_CACHE_GET; i++) {
            stage_run(&scene.stage, (kvl_cache_op_t)i, &item, 1, NULL, NULL);
        }
        CHECK_EQ(kvl_fault_setup(NULL, 0), KVL_OK);
        for (i = 0; i < 100 && kvl_cache_connect(scene.stage.cache, 0) != KVL_OK; i++) {
        }
        CHECK_EQ(stage_run(&scene.stage, KVL_CACHE_PUT, &item, 1, NULL, NULL), KVL_OK);
        CHECK_EQ(stage_run(&scene.stage, KVL_CACHE_GET, &item, 1, NULL, NULL), KVL_OK);
        CHECK_EQ(gpu_differs(scene.pool, SPAN, 8), SPAN);
        scene_close(&scene);
    }
}

#endif
