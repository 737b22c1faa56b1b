/* SPDX-License-Identifier: BSD-3-Clause */
/* A node and a client of it in one process, over a real transport. */
#ifndef KVL_CONFORM_STAGE_H
#define KVL_CONFORM_STAGE_H

#include "shim/shim.h"

#include <kvlane/cache.h>
#include <kvlane/node.h>

#include <stdint.h>
#include <sys/types.h>

typedef struct {
    const char *rails;          /* "tcp" or "shm" */
    const char *fault;          /* KVLANE_FAULT of node and client, NULL: none */
    const char *progress;       /* of the client; NULL: thread */
    const char *settings[8][2]; /* more settings of both; ends with NULL */
    uint64_t node_bytes;        /* 0: 256 MiB */
    size_t pool_bytes;          /* of the client's region; 0: 64 MiB */
    bool elsewhere;             /* the node is a kvlaned of its own */
} stage_params_t;

typedef struct {
    stage_params_t params;
    kvl_node_t *node; /* NULL if it is elsewhere */
    pid_t node_pid;   /* 0 if it is not */
    char address[128];
    kvl_engine_t *engine;
    kvl_cache_t *cache;
    kvl_region_t *region;
    uint8_t *pool;
} stage_t;

void stage_open(stage_t *stage, const stage_params_t *params);
void stage_close(stage_t *stage);
void stage_kill_node(stage_t *stage);
/* A kvlaned for stage->params.rails, and its end; sets address and node_pid. */
void stage_start_elsewhere(stage_t *stage);
void stage_end_elsewhere(stage_t *stage);
void stage_start_node(stage_t *stage); /* again, at the same address */
kvl_config_t *stage_config(const stage_params_t *params, const char *progress);
kvl_engine_t *stage_engine(const stage_t *stage, const char *address);

/* Submits and waits; the batch's status. statuses may be NULL. */
kvl_status_t stage_run(stage_t *stage, kvl_cache_op_t op, const kvl_item_t *items, size_t count,
                       kvl_status_t *statuses, uint64_t *lengths);
/* One item of one segment in the pool. */
kvl_status_t stage_put(stage_t *stage, const char *key, size_t at, size_t length);
kvl_status_t stage_get(stage_t *stage, const char *key, size_t at, size_t length);

/* Bytes that depend on seed and place. */
void fill(void *memory, size_t length, uint64_t seed);
/* The first place that differs from fill(), length if none. */
size_t differs(const void *memory, size_t length, uint64_t seed);

/* A test for each transport. */
#define BOTH(object_, sentence_)                                                                   \
    static void object_##_##sentence_##_on(const char *rails);                                     \
    TEST(object_##_tcp, sentence_)                                                                 \
    {                                                                                              \
        object_##_##sentence_##_on("tcp");                                                         \
    }                                                                                              \
    TEST(object_##_shm, sentence_)                                                                 \
    {                                                                                              \
        object_##_##sentence_##_on("shm");                                                         \
    }                                                                                              \
    static void object_##_##sentence_##_on(const char *rails)

#endif
