/* SPDX-License-Identifier: BSD-3-Clause */
#include "conform/scene.h"

#include "lane/endpoint.h"

#include <string.h>

void scene_open(scene_t *scene, const char *rails)
{
    stage_params_t params = {.rails = rails, .node_bytes = 16u << 20, .pool_bytes = 1u << 20};

    stage_open(&scene->stage, &params);
    raw_open(&scene->raw, rails, scene->stage.address);
    scene->refused = 0;
}

void scene_close(scene_t *scene)
{
    raw_close(&scene->raw);
    stage_close(&scene->stage);
}

void scene_again(scene_t *scene)
{
    raw_close(&scene->raw);
    raw_open(&scene->raw, scene->stage.params.rails, scene->stage.address);
}

kvl_node_stat_t scene_stat(scene_t *scene)
{
    kvl_node_stat_t stat;

    kvl_node_stat(scene->stage.node, &stat);
    return stat;
}

void serves_others(scene_t *scene)
{
    stage_t *stage = &scene->stage;

    fill(stage->pool, 20000, 42);
    CHECK_EQ(stage_put(stage, "honest", 0, 20000), KVL_OK);
    memset(stage->pool, 0, 20000);
    CHECK_EQ(stage_get(stage, "honest", 0, 20000), KVL_OK);
    CHECK_EQ(differs(stage->pool, 20000, 42), 20000);
}

/* waits: what the raw client did last may still be on its way */
void has_counted(scene_t *scene)
{
    int64_t end = kvl_now_ns() + 10 * KVL_SECOND;

    while (scene_stat(scene).refused_messages <= scene->refused && kvl_now_ns() < end) {
        raw_step(&scene->raw, 1);
    }
    CHECK(scene_stat(scene).refused_messages > scene->refused);
    scene->refused = scene_stat(scene).refused_messages;
}

void is_thrown_out(scene_t *scene)
{
    CHECK(raw_is_closed(&scene->raw, KVL_LANE_CTRL));
    has_counted(scene);
    serves_others(scene);
}

kvl_wire_key_t wire_key(const char *key)
{
    return (kvl_wire_key_t){(const uint8_t *)key, (uint8_t)strlen(key)};
}
