/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/gpu.h"

#ifdef KVL_HAVE_CUDA

#include <kvlane/transport.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Engine to engine: device memory at either end, or at both. */

#define SIZE ((8u << 20) + 12345) /* more than an op */

typedef struct {
    kvl_engine_t *target, *initiator;
    kvl_listener_t *listener;
    kvl_peer_t *peer;
    kvl_remote_t *remote;
    uint8_t *there, *here;
    bool device_there, device_here;
    kvl_region_t *region_there, *region_here;
    _Atomic unsigned notified;
} scene_t;

static void notify(const char *name, const void *data, size_t length, void *arg)
{
    scene_t *scene = arg;

    (void)name;
    CHECK(length == 4 && !memcmp(data, "done", 4));
    atomic_fetch_add(&scene->notified, 1);
}

static kvl_engine_t *engine(const char *rails, const char *stages)
{
    stage_t stage = {.params = {.rails    = rails,
                                .settings = {{"KVLANE_CUDA_LIBRARY", gpu_library()}, {"KVLANE_STAGE_SIZE", stages}}}};

    return stage_engine(&stage, NULL);
}

static uint8_t *memory(bool device)
{
    uint8_t *bytes = device ? gpu_alloc(0, SIZE) : malloc(SIZE);

    REQUIRE(bytes != NULL);
    return bytes;
}

static void memory_fill(uint8_t *bytes, bool device, size_t length, uint64_t seed)
{
    if (device) {
        gpu_fill(bytes, length, seed);
    } else {
        fill(bytes, length, seed);
    }
}

static size_t memory_differs(const uint8_t *bytes, bool device, size_t length, uint64_t seed)
{
    return device ? gpu_differs(bytes, length, seed) : differs(bytes, length, seed);
}

static void memory_free(uint8_t *bytes, bool device)
{
    if (device) {
        gpu_free(bytes);
    } else {
        free(bytes);
    }
}

static void scene_open(scene_t *scene, const char *rails, const char *stages)
{
    size_t size = 65536;
    char address[128], *blob = malloc(size);

    scene->target    = engine(rails, stages);
    scene->initiator = engine(rails, stages);
    scene->there     = memory(scene->device_there);
    scene->here      = memory(scene->device_here);
    REQUIRE(kvl_listen(scene->target, "127.0.0.1:0", notify, scene, &scene->listener) == KVL_OK);
    REQUIRE(kvl_listener_address(scene->listener, address, sizeof(address)) == KVL_OK);
    REQUIRE(kvl_region_register(scene->target, scene->there, SIZE, &scene->region_there) == KVL_OK);
    REQUIRE(kvl_region_register(scene->initiator, scene->here, SIZE, &scene->region_here) == KVL_OK);
    REQUIRE(kvl_connect(scene->initiator, address, 0, &scene->peer) == KVL_OK);
    REQUIRE(kvl_region_export(scene->region_there, blob, &size) == KVL_OK);
    REQUIRE(kvl_remote_import(scene->peer, blob, size, &scene->remote) == KVL_OK);
    free(blob);
}

static void scene_close(scene_t *scene)
{
    kvl_remote_release(scene->remote);
    kvl_peer_close(scene->peer);
    kvl_listener_destroy(scene->listener);
    CHECK_EQ(kvl_region_release(scene->region_here), KVL_OK);
    CHECK_EQ(kvl_region_release(scene->region_there), KVL_OK);
    kvl_engine_destroy(scene->initiator);
    kvl_engine_destroy(scene->target);
    memory_free(scene->here, scene->device_here);
    memory_free(scene->there, scene->device_there);
    CHECK_EQ(gpu_counts().strays, 0);
    CHECK_EQ(gpu_counts().events, 0);
    CHECK_EQ(gpu_counts().pinned, 0);
}

/* parts of @a length bytes, next to each other there, apart here */
static kvl_status_t transfer(scene_t *scene, kvl_transfer_op_t op, size_t count, size_t length, size_t stride)
{
    kvl_part_t *parts    = calloc(count, sizeof(*parts));
    kvl_transfer_t about = {.op = op, .parts = parts, .part_count = count, .notification = "done",
                            .notification_length = 4};
    kvl_batch_t *batch   = NULL;
    kvl_status_t status;
    size_t i;

    for (i = 0; i < count; i++) {
        parts[i] = (kvl_part_t){.local         = {scene->here + i * stride, length, scene->region_here},
                                .remote        = scene->remote,
                                .remote_offset = i * length};
    }
    status = kvl_transfer_submit(scene->peer, &about, NULL, &batch);
    CHECK_MSG(status == KVL_INPROGRESS, "%s", kvl_error_text());
    free(parts);
    REQUIRE(batch != NULL);
    status = kvl_batch_wait(batch, -1);
    CHECK_MSG(status == KVL_OK, "%s", kvl_batch_cause(batch));
    CHECK_EQ(kvl_batch_release(batch), KVL_OK);
    return status;
}

static void goes(const char *rails, const char *stages, bool there, bool here)
{
    scene_t scene = {.device_there = there, .device_here = here};

    scene_open(&scene, rails, stages);
    memory_fill(scene.here, here, SIZE, 1);
    memory_fill(scene.there, there, SIZE, 2);
    CHECK_EQ(transfer(&scene, KVL_TRANSFER_PUT, 1, SIZE, 0), KVL_OK);
    CHECK_EQ(memory_differs(scene.there, there, SIZE, 1), SIZE);
    memory_fill(scene.there, there, SIZE, 3);
    CHECK_EQ(transfer(&scene, KVL_TRANSFER_GET, 1, SIZE, 0), KVL_OK);
    CHECK_EQ(memory_differs(scene.here, here, SIZE, 3), SIZE);
    memory_fill(scene.there, there, SIZE, 4);
    CHECK_EQ(transfer(&scene, KVL_TRANSFER_GET, 61, 4296, 4296), KVL_OK);
    CHECK_EQ(memory_differs(scene.here, here, 61 * 4296, 4), 61 * 4296);
    CHECK_EQ(transfer(&scene, KVL_TRANSFER_PUT, 5, 100, 100), KVL_OK);
    CHECK_EQ(memory_differs(scene.there, there, SIZE, 4), SIZE);
    CHECK_EQ(atomic_load(&scene.notified), 4);
    scene_close(&scene);
}

/* small parts that lie apart, and in another order, there: several travel in one message */
BOTH(device_transfer, goes_to_places_apart_there)
{
    enum { PARTS = 150, LENGTH = 1000, APART = 3000 };
    scene_t scene = {.device_there = true};
    kvl_part_t parts[PARTS];
    uint8_t *image = malloc(SIZE);
    unsigned round, i;

    scene_open(&scene, rails, "64M");
    gpu_fill(scene.there, SIZE, 2);
    REQUIRE(image && transfer(&scene, KVL_TRANSFER_GET, 1, SIZE, 0) == KVL_OK);
    memcpy(image, scene.here, SIZE);
    for (i = 0; i < PARTS; i++) {
        unsigned place = i * 61 % PARTS;

        parts[i] = (kvl_part_t){.local         = {scene.here + i * LENGTH, LENGTH, scene.region_here},
                                .remote        = scene.remote,
                                .remote_offset = place * APART};
        memset(scene.here + i * LENGTH, (int)i, LENGTH);
        memset(image + place * APART, (int)i, LENGTH);
    }
    for (round = 0; round < 2; round++) {
        kvl_transfer_t about = {.op         = round ? KVL_TRANSFER_GET : KVL_TRANSFER_PUT,
                                .parts      = parts,
                                .part_count = PARTS};
        kvl_batch_t *batch   = NULL;

        REQUIRE(kvl_transfer_submit(scene.peer, &about, NULL, &batch) == KVL_INPROGRESS);
        CHECK_EQ(kvl_batch_wait(batch, -1), KVL_OK);
        CHECK_EQ(kvl_batch_release(batch), KVL_OK);
        for (i = 0; round && i < PARTS * LENGTH; i++) {
            REQUIRE(scene.here[i] == i / LENGTH);
        }
        REQUIRE(transfer(&scene, KVL_TRANSFER_GET, 1, SIZE, 0) == KVL_OK);
        CHECK(!memcmp(scene.here, image, SIZE));
    }
    scene_close(&scene);
    free(image);
}

BOTH(device_transfer, goes_from_device_to_host)
{
    goes(rails, "64M", false, true);
}

BOTH(device_transfer, goes_from_host_to_device)
{
    goes(rails, "64M", true, false);
}

BOTH(device_transfer, goes_from_device_to_device)
{
    goes(rails, "64M", true, true);
}

/* longer ops than there are stages: the target takes others */
BOTH(device_transfer, goes_where_stages_are_few)
{
    goes(rails, "2M", true, false);
}

#endif
