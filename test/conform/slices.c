/* SPDX-License-Identifier: BSD-3-Clause */
#include "conform/stage.h"

#include "base/alloc.h"
#include "base/fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Regions that are registered in slices of 2 MiB: values and their segments lie across the borders, here and
 * at the node. */

#define SLICE (2u << 20)
#define POOL  (48u << 20)
#define HALF  (POOL / 2)
#define ODD   1237u /* where the memory of our own begins within a page */

typedef struct {
    const char *rails, *mode;
    bool own; /* the client's memory is not from kvl_region_alloc() */
    stage_t stage;
    uint8_t *memory, *pool;
    kvl_region_t *region;
} scene_t;

static void scene_open(scene_t *scene)
{
    stage_params_t params = {.rails      = scene->rails,
                             .settings   = {{"KVLANE_REG_SLICE", "3M"}, {"KVLANE_MODE", scene->mode}},
                             .pool_bytes = POOL};

    stage_open(&scene->stage, &params);
    scene->pool   = scene->stage.pool;
    scene->region = scene->stage.region;
    if (scene->own) {
        scene->memory = malloc(POOL + ODD);
        REQUIRE(scene->memory != NULL);
        scene->pool = scene->memory + ODD;
        REQUIRE(kvl_region_register(scene->stage.engine, scene->pool, POOL, &scene->region) == KVL_OK);
    }
}

static void scene_close(scene_t *scene)
{
    if (scene->own) {
        CHECK_EQ(kvl_region_release(scene->region), KVL_OK);
        free(scene->memory);
    }
    stage_close(&scene->stage);
}

/* a value of @a count segments of @a length bytes, from @a at in the pool on, @a stride apart */
static void across(scene_t *scene, size_t at, size_t count, size_t length, size_t stride)
{
    kvl_segment_t from[64], to[64];
    kvl_item_t put = {"key", 3, from, count}, get = {"key", 3, to, count};
    size_t i;

    for (i = 0; i < count; i++) {
        from[i] = (kvl_segment_t){scene->pool + at + i * stride, length, scene->region};
        to[i]   = (kvl_segment_t){scene->pool + HALF + at + i * stride, length, NULL};
        if (!scene->own) {
            from[i].region = NULL;
        } else { /* found by its address */
            to[i].region = scene->region;
        }
    }
    fill(scene->pool, HALF, at + count);
    memset(scene->pool + HALF, 0, HALF);
    CHECK_EQ(stage_run(&scene->stage, KVL_CACHE_PUT, &put, 1, NULL, NULL), KVL_OK);
    CHECK_EQ(stage_run(&scene->stage, KVL_CACHE_GET, &get, 1, NULL, NULL), KVL_OK);
    for (i = 0; i < count; i++) {
        CHECK_MEM_EQ(to[i].address, from[i].address, length);
    }
}

static void values_cross(const char *rails, const char *mode, bool own)
{
    scene_t scene = {.rails = rails, .mode = mode, .own = own};

    scene_open(&scene);
    across(&scene, 0, 1, 9 * (1u << 20) + 5, 0);       /* five slices here, five or six there */
    across(&scene, SLICE - 1, 1, 2, 0);                /* a byte on each side */
    across(&scene, SLICE - 4000, 1, 100000, 0);
    across(&scene, SLICE - 100 * 7, 1, SLICE, 0);
    across(&scene, SLICE - 30 * 4296, 61, 4296, 5000); /* small segments, some across */
    across(&scene, SLICE - 65536, 2, 65536, 65536);    /* neighbours that meet at the border */
    across(&scene, 3 * SLICE - 12345, 7, 700000, SLICE);
    scene_close(&scene);
}

BOTH(slices_auto, values_cross_the_borders_whole)
{
    values_cross(rails, "auto", false);
}

BOTH(slices_auto_own, values_cross_the_borders_whole)
{
    values_cross(rails, "auto", true);
}

BOTH(slices_message, values_cross_the_borders_whole)
{
    values_cross(rails, "message", false);
}

BOTH(slices_message_own, values_cross_the_borders_whole)
{
    values_cross(rails, "message", true);
}

/* ---- all or none ---- */

static kvl_status_t region_make(kvl_engine_t *engine, void *memory, kvl_region_t **region_p)
{
    return memory ? kvl_region_register(engine, memory, 5 * SLICE + 1, region_p)
                  : kvl_region_alloc(engine, 5 * SLICE + 1, region_p);
}

/* the n-th of the six slices fails, for each n; one more, and none does */
static void rolls_back(const char *rails, void *memory)
{
    stage_params_t params = {.rails = rails, .settings = {{"KVLANE_REG_SLICE", "2M"}}};
    stage_t stage         = {.params = params};
    kvl_engine_t *engine  = stage_engine(&stage, NULL);
    unsigned nth;

    for (nth = 1; nth <= 7; nth++) {
        kvl_region_t *region = NULL;
        long live            = kvl_live_objects();
        char rule[32];

        snprintf(rule, sizeof(rule), "mem.register:fail@%u", nth);
        CHECK_EQ(kvl_fault_setup(rule, 0), KVL_OK);
        CHECK_EQ(region_make(engine, memory, &region), nth <= 6 ? KVL_ERR_REGISTER : KVL_OK);
        CHECK_EQ(kvl_fault_hits(KVL_FAULT_MEM_REGISTER), nth <= 6 ? nth : 6);
        CHECK_EQ(kvl_fault_setup(NULL, 0), KVL_OK);
        if (nth <= 6) {
            CHECK(region == NULL);
            CHECK_EQ(kvl_live_objects(), live);
        } else {
            fill(kvl_region_address(region), 5 * SLICE + 1, 3);
            CHECK_EQ(differs(kvl_region_address(region), 5 * SLICE + 1, 3), 5 * SLICE + 1);
            CHECK_EQ(kvl_region_release(region), KVL_OK);
        }
    }
    kvl_engine_destroy(engine); /* UCX would tell of a registration that was left */
}

BOTH(slices_alloc, are_made_all_or_none)
{
    rolls_back(rails, NULL);
}

BOTH(slices_register, are_made_all_or_none)
{
    uint8_t *memory = malloc(5 * SLICE + 4096);

    REQUIRE(memory != NULL);
    rolls_back(rails, memory + 3);
    free(memory);
}

TEST(slices_alloc, leave_no_address_space_behind)
{
    stage_params_t params = {.rails = "shm", .settings = {{"KVLANE_REG_SLICE", "2M"}}};
    stage_t stage         = {.params = params};
    kvl_engine_t *engine  = stage_engine(&stage, NULL);
    unsigned i, lines[2] = {0, 0};

    for (i = 0; i < 20; i++) {
        kvl_region_t *region;
        FILE *maps;
        int c;

        REQUIRE(kvl_region_alloc(engine, 9 * SLICE, &region) == KVL_OK);
        CHECK_EQ(kvl_region_release(region), KVL_OK);
        maps = fopen("/proc/self/maps", "r");
        REQUIRE(maps != NULL);
        for (lines[1] = 0; (c = fgetc(maps)) != EOF;) {
            lines[1] += c == '\n';
        }
        fclose(maps);
        lines[0] = i ? lines[0] : lines[1];
    }
    CHECK_MSG(lines[1] <= lines[0] + 4, "%u mappings became %u", lines[0], lines[1]);
    kvl_engine_destroy(engine);
}

/* 10 GiB of addresses, of which little is touched */
BOTH(slices_default, take_a_region_of_10_gib)
{
    const size_t length = (size_t)10 << 30, border = (size_t)7 << 29;
    stage_params_t params = {.rails = rails};
    kvl_region_t *region;
    stage_t stage;
    uint8_t *memory;
    unsigned i;

    stage_open(&stage, &params);
    memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        stage_close(&stage);
        SKIP("no 10 GiB of addresses");
    }
    CHECK_EQ(kvl_fault_setup("mem.register:fail@1000", 0), KVL_OK); /* counts */
    REQUIRE(kvl_region_register(stage.engine, memory, length, &region) == KVL_OK);
    CHECK_EQ(kvl_fault_hits(KVL_FAULT_MEM_REGISTER), 3);
    CHECK_EQ(kvl_fault_setup(NULL, 0), KVL_OK);
    for (i = 1; i <= 2; i++) {
        kvl_segment_t from = {memory + i * border - 100000, 300000, region};
        kvl_segment_t to   = {memory + i * border + 1000000 - 100000, 300000, region};
        kvl_segment_t back = {memory + i * border - 200000, 300000, NULL};
        kvl_item_t item    = {"key", 3, &from, 1};

        fill(from.address, from.length, i);
        CHECK_EQ(stage_run(&stage, KVL_CACHE_PUT, &item, 1, NULL, NULL), KVL_OK);
        item.segments = &to;
        CHECK_EQ(stage_run(&stage, KVL_CACHE_GET, &item, 1, NULL, NULL), KVL_OK);
        CHECK_EQ(differs(to.address, to.length, i), to.length);
        item.segments = &back; /* across the border as well */
        CHECK_EQ(stage_run(&stage, KVL_CACHE_GET, &item, 1, NULL, NULL), KVL_OK);
        CHECK_EQ(differs(back.address, back.length, i), back.length);
    }
    CHECK_EQ(kvl_region_release(region), KVL_OK);
    munmap(memory, length);
    stage_close(&stage);
}
