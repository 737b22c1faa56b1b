/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/gpu.h"

#ifdef KVL_HAVE_CUDA

#include <string.h>

/* Streams and events that a batch waits for before it touches device memory. */

#define LENGTH 300000u
#define LOOK   30 /* ms that a batch is watched for; one that does not wait is over long before */

typedef struct {
    stage_t stage;
    uint8_t *memory;
    kvl_region_t *region;
    kvl_segment_t segment;
    kvl_item_t item;
    gpu_stream_t stream;
} scene_t;

static void scene_open(scene_t *scene, const char *rails)
{
    gpu_hold(&scene->stream);
    gpu_stage(&scene->stage, (stage_params_t){.rails = rails});
    CHECK_EQ(kvl_cache_connect(scene->stage.cache, 0), KVL_OK);
    scene->memory = gpu_alloc(0, LENGTH);
    REQUIRE(kvl_region_register(scene->stage.engine, scene->memory, LENGTH, &scene->region) == KVL_OK);
    scene->segment = (kvl_segment_t){scene->memory, LENGTH, scene->region};
    scene->item    = (kvl_item_t){"key", 3, &scene->segment, 1};
}

static void scene_close(scene_t *scene)
{
    CHECK_EQ(kvl_region_release(scene->region), KVL_OK);
    stage_close(&scene->stage);
    gpu_stream_end(&scene->stream);
    gpu_free(scene->memory);
    CHECK_EQ(gpu_counts().strays, 0);
    CHECK_EQ(gpu_counts().events, 0);
}

static kvl_batch_t *submit(scene_t *scene, kvl_cache_op_t op, kvl_batch_params_t params)
{
    kvl_batch_t *batch = NULL;

    CHECK_EQ(kvl_cache_submit(scene->stage.cache, op, &scene->item, 1, &params, &batch), KVL_INPROGRESS);
    REQUIRE(batch != NULL);
    return batch;
}

/* what the stream writes is what is put */
static void put_waits(const char *rails, bool by_event)
{
    kvl_batch_params_t params = {.timeout_ms = 0};
    kvl_batch_t *batch;
    scene_t scene;

    scene_open(&scene, rails);
    gpu_fill(scene.memory, LENGTH, 1);
    gpu_write_later(&scene.stream, scene.memory, LENGTH, 2);
    gpu_record(&scene.stream);
    if (by_event) {
        params.event = scene.stream.event;
    } else {
        params.stream = scene.stream.stream;
    }
    batch = submit(&scene, KVL_CACHE_PUT, params);
    CHECK_EQ(kvl_batch_wait(batch, LOOK), KVL_INPROGRESS);
    gpu_release(&scene.stream);
    CHECK_EQ(kvl_batch_wait(batch, -1), KVL_OK);
    CHECK_EQ(kvl_batch_release(batch), KVL_OK);
    CHECK_EQ(stage_get(&scene.stage, "key", 0, LENGTH), KVL_OK); /* into host memory */
    CHECK_EQ(differs(scene.stage.pool, LENGTH, 2), LENGTH);
    scene_close(&scene);
}

BOTH(device_put, waits_for_an_event)
{
    put_waits(rails, true);
}

BOTH(device_put, waits_for_a_stream)
{
    put_waits(rails, false);
}

BOTH(device_get, waits_for_a_stream)
{
    kvl_batch_t *batch;
    scene_t scene;

    scene_open(&scene, rails);
    fill(scene.stage.pool, LENGTH, 3);
    CHECK_EQ(stage_put(&scene.stage, "key", 0, LENGTH), KVL_OK);
    gpu_fill(scene.memory, LENGTH, 4);
    batch = submit(&scene, KVL_CACHE_GET, (kvl_batch_params_t){.stream = scene.stream.stream});
    CHECK_EQ(kvl_batch_wait(batch, LOOK), KVL_INPROGRESS);
    CHECK_EQ(gpu_differs(scene.memory, LENGTH, 4), LENGTH); /* untouched */
    gpu_release(&scene.stream);
    CHECK_EQ(kvl_batch_wait(batch, -1), KVL_OK);
    CHECK_EQ(kvl_batch_release(batch), KVL_OK);
    CHECK_EQ(gpu_differs(scene.memory, LENGTH, 3), LENGTH);
    scene_close(&scene);
}

/* the deadline holds while it waits, and nothing was stored */
BOTH(device_put, that_waits_has_its_deadline)
{
    kvl_item_t probe = {"key", 3, NULL, 0};
    kvl_batch_t *batch;
    scene_t scene;

    scene_open(&scene, rails);
    batch = submit(&scene, KVL_CACHE_PUT, (kvl_batch_params_t){.timeout_ms = 20, .stream = scene.stream.stream});
    CHECK_EQ(kvl_batch_wait(batch, -1), KVL_ERR_TIMEOUT);
    CHECK_HAS(kvl_batch_cause(batch), "waits for the stream or event of its device");
    CHECK_EQ(kvl_batch_release(batch), KVL_OK);
    batch = submit(&scene, KVL_CACHE_PUT, (kvl_batch_params_t){.stream = scene.stream.stream});
    kvl_batch_cancel(batch);
    CHECK_EQ(kvl_batch_wait(batch, -1), KVL_ERR_CANCELED);
    CHECK_EQ(kvl_batch_release(batch), KVL_OK);
    gpu_release(&scene.stream);
    CHECK_EQ(stage_run(&scene.stage, KVL_CACHE_EXISTS, &probe, 1, NULL, NULL), KVL_ERR_NOT_FOUND);
    scene_close(&scene);
}

/* one that waits holds up no other */
BOTH(device_put, that_waits_holds_nobody_up)
{
    kvl_batch_t *batch;
    scene_t scene;

    scene_open(&scene, rails);
    batch = submit(&scene, KVL_CACHE_PUT, (kvl_batch_params_t){.stream = scene.stream.stream});
    fill(scene.stage.pool, LENGTH, 5);
    CHECK_EQ(stage_put(&scene.stage, "other", 0, LENGTH), KVL_OK);
    CHECK_EQ(stage_get(&scene.stage, "other", 1u << 20, LENGTH), KVL_OK);
    CHECK_EQ(differs(scene.stage.pool + (1u << 20), LENGTH, 5), LENGTH);
    CHECK_EQ(kvl_batch_test(batch), KVL_INPROGRESS);
    gpu_release(&scene.stream);
    CHECK_EQ(kvl_batch_wait(batch, -1), KVL_OK);
    CHECK_EQ(kvl_batch_release(batch), KVL_OK);
    scene_close(&scene);
}

#endif
