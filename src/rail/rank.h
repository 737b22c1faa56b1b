/* SPDX-License-Identifier: BSD-3-Clause */
/* Which process of its host this is: its physical rank, which placement goes by and nothing else
 * does. Never guessed: without a rank, or with two, it is an error and not rank 0. */
#ifndef KVL_RAIL_RANK_H
#define KVL_RAIL_RANK_H

#include <kvlane/status.h>

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    const char *name;  /* who says so, for messages: "KVLANE_RANK", "pcp_rank", "LOCAL_RANK" */
    const char *value; /* NULL: says nothing */
    const char *world_name, *world; /* how many ranks there are; NULL: not stated */
    bool launcher; /* started the process that started this one, perhaps: counts only if no other
                      source speaks, and if its world has more than one rank */
} kvl_rank_source_t;

typedef struct {
    unsigned rank;
    unsigned world;  /* the smallest that was stated; 0: none was */
    char source[64]; /* who said so */
} kvl_rank_t;

/* All sources that speak must agree, and each must be a number below every stated world.
 * KVL_ERR_CONFIG names the sources and the way out. */
kvl_status_t kvl_rank_decide(const kvl_rank_source_t *sources, size_t count, kvl_rank_t *rank_p);

#define KVL_RANK_SOURCES 8

/* KVLANE_RANK and the names that frameworks and launchers give a local rank; @a get is getenv() or a
 * test's. An adapter adds its own behind them: the local rank or the prefill-context-parallel rank,
 * whichever numbers the processes of a host; never tp_rank, which is 0 on every rank under data
 * parallel attention. Returns how many. */
typedef const char *(*kvl_rank_get_func_t)(const char *name, void *arg);
size_t kvl_rank_environment(kvl_rank_get_func_t get, void *arg,
                            kvl_rank_source_t sources[KVL_RANK_SOURCES]);

#endif
