/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/gpu.h"

#ifdef KVL_HAVE_CUDA

#include "base/fault.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Device memory over two rails, one of which leaves while values move: loopback and the first interface beside it,
 * which both lead to this host. */

#define ITEMS  4
#define LENGTH (3u << 20)
#define SIZE   (ITEMS * (size_t)LENGTH)

typedef struct {
    stage_t stage;
    char second[IFNAMSIZ], rails[64], keys[ITEMS][2];
    uint8_t *memory;
    kvl_region_t *region;
    kvl_segment_t segments[ITEMS][3];
    kvl_item_t items[ITEMS];
} scene_t;

static void find_second(char second[IFNAMSIZ])
{
    struct ifaddrs *list;

    second[0] = '\0';
    REQUIRE(getifaddrs(&list) == 0);
    for (const struct ifaddrs *at = list; at && !second[0]; at = at->ifa_next) {
        if (at->ifa_addr && at->ifa_addr->sa_family == AF_INET && !(at->ifa_flags & IFF_LOOPBACK) &&
            (at->ifa_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING)) {
            snprintf(second, IFNAMSIZ, "%s", at->ifa_name);
        }
    }
    freeifaddrs(list);
    if (!second[0]) {
        SKIP("no second interface here");
    }
}

/* the rails that are up; what went over each */
static unsigned rails_up(scene_t *scene, uint64_t bytes[16])
{
    kvl_rail_stat_t stats[16];
    size_t count = 16, i;
    unsigned up  = 0;

    REQUIRE(kvl_cache_rails(scene->stage.cache, stats, &count) == KVL_OK);
    for (i = 0; i < count; i++) {
        up += !strcmp(stats[i].state, "up");
        bytes[i] = stats[i].data.bytes + stats[i].sg.bytes;
    }
    return up;
}

/* values move until both rails are up; fails after 30 s */
static void both_up(scene_t *scene)
{
    time_t end = time(NULL) + 30;
    uint64_t bytes[16];

    while (rails_up(scene, bytes) < 2 && time(NULL) < end) {
        CHECK_EQ(stage_put(&scene->stage, "host", 0, 1u << 20), KVL_OK);
    }
    CHECK_EQ(rails_up(scene, bytes), 2);
}

/* one segment, or three apart */
static void scene_open(scene_t *scene)
{
    unsigned i, k;

    KEEPS("UCX is loaded");
    find_second(scene->second);
    snprintf(scene->rails, sizeof(scene->rails), "lo,%s", scene->second);
    for (i = 0; i < 10; i++) { /* the port that is free at the first may be in use at the second */
        gpu_stage(&scene->stage, (stage_params_t){.rails = scene->rails});
        if (kvl_cache_connect(scene->stage.cache, 0) == KVL_OK) {
            break;
        }
        stage_close(&scene->stage);
    }
    REQUIRE(i < 10);
    scene->memory = gpu_alloc(0, SIZE);
    REQUIRE(kvl_region_register(scene->stage.engine, scene->memory, SIZE, &scene->region) == KVL_OK);
    for (i = 0; i < ITEMS; i++) {
        for (k = 0; k < 3; k++) {
            scene->segments[i][k] = (kvl_segment_t){scene->memory + i * (size_t)LENGTH + k * (1u << 20), (1u << 20) - 64,
                                                    NULL};
        }
        snprintf(scene->keys[i], 2, "%u", i);
        scene->items[i] = (kvl_item_t){scene->keys[i], 1, scene->segments[i], i % 2 ? 3 : 1};
    }
    both_up(scene);
}

static void scene_close(scene_t *scene)
{
    CHECK_EQ(kvl_region_release(scene->region), KVL_OK);
    stage_close(&scene->stage);
    gpu_free(scene->memory);
    CHECK_EQ(gpu_counts().strays, 0);
    CHECK_EQ(gpu_counts().events, 0);
}

static void goes_round(scene_t *scene, uint64_t seed)
{
    uint8_t *sent = malloc(SIZE), *got = malloc(SIZE);
    unsigned i, k;

    gpu_fill(scene->memory, SIZE, seed);
    gpu_read(sent, scene->memory, SIZE);
    CHECK_EQ(stage_run(&scene->stage, KVL_CACHE_PUT, scene->items, ITEMS, NULL, NULL), KVL_OK);
    gpu_fill(scene->memory, SIZE, seed + 1);
    CHECK_EQ(stage_run(&scene->stage, KVL_CACHE_GET, scene->items, ITEMS, NULL, NULL), KVL_OK);
    gpu_read(got, scene->memory, SIZE);
    for (i = 0; i < ITEMS; i++) {
        for (k = 0; k < scene->items[i].segment_count; k++) {
            size_t at = (size_t)((uint8_t *)scene->segments[i][k].address - scene->memory);

            CHECK_MEM_EQ(got + at, sent + at, scene->segments[i][k].length);
        }
    }
    free(sent);
    free(got);
}

TEST(device_rails, share_the_values)
{
    uint64_t before[16], after[16];
    scene_t scene;

    scene_open(&scene);
    rails_up(&scene, before);
    goes_round(&scene, 1);
    rails_up(&scene, after);
    CHECK(after[0] > before[0]);
    CHECK(after[1] > before[1]);
    scene_close(&scene);
}

/* the posting of a put fails (the node's part, in this process, posts none), its rail goes, with what is being copied for it: the other one carries it all */
TEST(device_rails, do_without_one_that_fails)
{
    static const char *const rules[] = {"ep.am:fail@2", "ep.am:fail@7"};
    scene_t scene;
    unsigned i;

    scene_open(&scene);
    for (i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        CHECK_EQ(kvl_fault_setup(rules[i], 0), KVL_OK);
        goes_round(&scene, 10 + i);
        CHECK_EQ(kvl_fault_setup(NULL, 0), KVL_OK);
        both_up(&scene);
    }
    scene_close(&scene);
}

TEST(device_rails, can_be_drained_while_values_move)
{
    kvl_batch_t *batch = NULL;
    scene_t scene;

    scene_open(&scene);
    gpu_fill(scene.memory, SIZE, 30);
    REQUIRE(kvl_cache_submit(scene.stage.cache, KVL_CACHE_PUT, scene.items, ITEMS, NULL, &batch) == KVL_INPROGRESS);
    CHECK_EQ(kvl_rail_drain(scene.stage.engine, scene.second), KVL_OK);
    CHECK_EQ(kvl_batch_wait(batch, -1), KVL_OK);
    CHECK_EQ(kvl_batch_release(batch), KVL_OK);
    goes_round(&scene, 31);
    CHECK_EQ(kvl_rail_add(scene.stage.engine, scene.second), KVL_OK);
    goes_round(&scene, 32);
    scene_close(&scene);
}

#endif
