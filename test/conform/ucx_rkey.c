/* SPDX-License-Identifier: BSD-3-Clause */
#include "conform/pair.h"
#include "shim/shim.h"

#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* A remote key is looked at before UCX gets it: one that UCX cannot map ends the process there. */

#define KEY_MAX 512

typedef struct {
    pair_t pair;
    kvl_mem_t *arena;
    uint8_t key[KEY_MAX];
    size_t length;
    uint64_t base;
} scene_t;

static void scene_open(scene_t *scene)
{
    scene->length = sizeof(scene->key);
    REQUIRE(pair_open(&scene->pair, "shm", NULL) == KVL_OK);
    REQUIRE(kvl_mem_create(scene->pair.context_b, NULL, PAIR_DATA, &scene->arena) == KVL_OK);
    REQUIRE(kvl_mem_pack(scene->arena, 0, scene->key, &scene->length) == KVL_OK);
    scene->base = (uintptr_t)kvl_mem_address(scene->arena);
}

static kvl_status_t hold(const scene_t *scene, size_t length, uint64_t base, uint64_t bytes)
{
    uint8_t key[KEY_MAX];
    kvl_status_t status;
    int fd;

    memcpy(key, scene->key, length);
    status = kvl_rkey_hold(key, length, base, bytes, &fd);
    CHECK(status == KVL_OK || fd < 0);
    if (fd >= 0) {
        close(fd);
    }
    return status;
}

static kvl_status_t scene_check(const scene_t *scene)
{
    return hold(scene, scene->length, scene->base, PAIR_DATA);
}

static void scene_close(scene_t *scene)
{
    kvl_mem_destroy(scene->arena);
    pair_close(&scene->pair);
}

TEST(ucx_rkey, is_whole_and_of_this_memory)
{
    scene_t scene;
    size_t length, refused = 0;

    scene_open(&scene);
    CHECK_EQ(scene_check(&scene), KVL_OK);
    CHECK_EQ(hold(&scene, scene.length, scene.base + 1, PAIR_DATA - 1), KVL_OK);
    CHECK_EQ(hold(&scene, scene.length, scene.base - 1, 1), KVL_ERR_PROTOCOL);
    CHECK_EQ(hold(&scene, scene.length, scene.base, UINT64_MAX), KVL_ERR_PROTOCOL);
    CHECK_EQ(hold(&scene, scene.length, UINT64_MAX, 1), KVL_ERR_PROTOCOL);
    for (length = 0; length < scene.length; length++) {
        refused += hold(&scene, length, scene.base, PAIR_DATA) == KVL_ERR_PROTOCOL;
    }
    CHECK_MSG(refused > 32, "%zu of %zu cut keys refused", refused, scene.length);
    scene_close(&scene);
}

TEST(ucx_rkey, of_memory_that_is_gone_is_refused)
{
    scene_t scene;
    kvl_status_t status;

    scene_open(&scene);
    kvl_mem_destroy(scene.arena);
    status = scene_check(&scene);
    CHECK_MSG(status == KVL_ERR_PEER || status == KVL_ERR_PROTOCOL, "%d", (int)status);
    pair_close(&scene.pair);
}

TEST(ucx_rkey, that_no_file_or_address_space_is_left_for_is_refused)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    SKIP("a sanitizer needs the address space");
#endif
    struct rlimit files, space, none = {0};
    scene_t scene;

    scene_open(&scene);
    REQUIRE(getrlimit(RLIMIT_NOFILE, &files) == 0 && getrlimit(RLIMIT_AS, &space) == 0);
    none.rlim_max = files.rlim_max;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
    CHECK_EQ(scene_check(&scene), KVL_ERR_LIMIT);
    CHECK_HAS(kvl_error_text(), "ulimit -n");
    REQUIRE(setrlimit(RLIMIT_NOFILE, &files) == 0);
    none.rlim_max = space.rlim_max;
    REQUIRE(setrlimit(RLIMIT_AS, &none) == 0);
    CHECK_EQ(scene_check(&scene), KVL_ERR_LIMIT);
    REQUIRE(setrlimit(RLIMIT_AS, &space) == 0);
    CHECK_EQ(scene_check(&scene), KVL_OK);
    scene_close(&scene);
}
