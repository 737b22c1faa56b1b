/* SPDX-License-Identifier: BSD-3-Clause */
/* A node, an honest client of it and one that lies. After every lie the node must have refused it,
 * counted it, and serve the honest one as before. */
#ifndef KVL_TEST_CONFORM_SCENE_H
#define KVL_TEST_CONFORM_SCENE_H

#include "conform/raw.h"
#include "conform/stage.h"

typedef struct {
    stage_t stage;
    raw_t raw;
    uint64_t refused; /* as of the last look */
} scene_t;

void scene_open(scene_t *scene, const char *rails);
void scene_close(scene_t *scene);
void scene_again(scene_t *scene); /* a fresh connection for the next lie */
kvl_node_stat_t scene_stat(scene_t *scene);

void serves_others(scene_t *scene); /* puts and gets "honest", 20000 bytes of fill(42) */
void has_counted(scene_t *scene);   /* one refusal more than at the last look */
/* The lie ended the session, was counted, and hurt nobody else. */
void is_thrown_out(scene_t *scene);

kvl_wire_key_t wire_key(const char *key);

#endif
