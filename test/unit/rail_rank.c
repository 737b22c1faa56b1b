/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/shim.h"

#include "rail/rank.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* "NAME=value" texts, as an environment */
static const char *get(const char *name, void *arg)
{
    size_t length = strlen(name);

    for (const char *const *at = arg; *at; at++) {
        if (strncmp(*at, name, length) == 0 && (*at)[length] == '=') {
            return *at + length + 1;
        }
    }
    return NULL;
}

static kvl_rank_t rank;

static kvl_status_t decide(const char *const *environment)
{
    kvl_rank_source_t sources[KVL_RANK_SOURCES];
    size_t count = kvl_rank_environment(get, (void *)(uintptr_t)environment, sources);

    rank = (kvl_rank_t){.rank = 77};
    return kvl_rank_decide(sources, count, &rank);
}

#define ENVIRONMENT(...) ((const char *const[]){__VA_ARGS__, NULL})

TEST(rank_decide, takes_the_rank_that_is_stated)
{
    for (unsigned i = 0; i < 16; i++) {
        char text[32];

        snprintf(text, sizeof(text), "KVLANE_RANK=%u", i);
        CHECK_EQ(decide(ENVIRONMENT(text)), KVL_OK);
        CHECK_EQ(rank.rank, i);
        CHECK_EQ(rank.world, 0);
        CHECK_STR_EQ(rank.source, "KVLANE_RANK");
    }
}

TEST(rank_decide, takes_the_local_rank_of_a_framework)
{
    CHECK_EQ(decide(ENVIRONMENT("LOCAL_RANK=5", "LOCAL_WORLD_SIZE=8")), KVL_OK);
    CHECK_EQ(rank.rank, 5);
    CHECK_EQ(rank.world, 8);
    CHECK_STR_EQ(rank.source, "LOCAL_RANK");
}

TEST(rank_decide, reads_no_rank_that_does_not_number_the_processes_of_a_host)
{
    CHECK_EQ(decide(ENVIRONMENT("RANK=3", "TP_RANK=1", "SLURM_LOCALID=0", "SLURM_PROCID=9")),
             KVL_ERR_CONFIG);
    CHECK_HAS(kvl_error_text(), "set KVLANE_RANK");
    CHECK_EQ(rank.rank, 77); /* never 0 */
}

TEST(rank_decide, refuses_what_is_no_rank)
{
    static const char *const bad[] = {
        "KVLANE_RANK=",   "KVLANE_RANK=-1",         "KVLANE_RANK=+1",
        "KVLANE_RANK=1 ", "KVLANE_RANK=0x1",        "KVLANE_RANK=1.0",
        "KVLANE_RANK=a",  "KVLANE_RANK=4294967296", "KVLANE_RANK=18446744073709551617"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK_EQ(decide(ENVIRONMENT(bad[i])), KVL_ERR_CONFIG);
        CHECK_HAS(kvl_error_text(), bad[i]);
        /* another that is right does not heal it */
        CHECK_EQ(decide(ENVIRONMENT(bad[i], "LOCAL_RANK=0")), KVL_ERR_CONFIG);
        CHECK_EQ(rank.rank, 77);
    }
}

TEST(rank_decide, refuses_a_rank_beyond_the_world)
{
    CHECK_EQ(decide(ENVIRONMENT("LOCAL_RANK=8", "LOCAL_WORLD_SIZE=8")), KVL_ERR_CONFIG);
    CHECK_HAS(kvl_error_text(), "rank 8 of 8 is out of range; accepted: 0 to 7");
    CHECK_EQ(decide(ENVIRONMENT("LOCAL_RANK=7", "LOCAL_WORLD_SIZE=8")), KVL_OK);
    CHECK_EQ(decide(ENVIRONMENT("LOCAL_RANK=0", "LOCAL_WORLD_SIZE=0")), KVL_ERR_CONFIG);
    CHECK_HAS(kvl_error_text(), "LOCAL_WORLD_SIZE=0");
    CHECK_EQ(decide(ENVIRONMENT("LOCAL_RANK=0", "LOCAL_WORLD_SIZE=many")), KVL_ERR_CONFIG);
}

TEST(rank_decide, refuses_sources_that_disagree)
{
    CHECK_EQ(decide(ENVIRONMENT("KVLANE_RANK=0", "LOCAL_RANK=3")), KVL_ERR_CONFIG);
    CHECK_HAS(kvl_error_text(), "KVLANE_RANK says rank 0, LOCAL_RANK says rank 3");
    CHECK_HAS(kvl_error_text(), "unset the one that is wrong");
    CHECK_EQ(decide(ENVIRONMENT("KVLANE_RANK=3", "LOCAL_RANK=3")), KVL_OK);
    CHECK_EQ(rank.rank, 3);
}

TEST(rank_decide, applies_the_world_of_one_source_to_another)
{
    CHECK_EQ(decide(ENVIRONMENT("KVLANE_RANK=3", "LOCAL_RANK=3", "LOCAL_WORLD_SIZE=4")), KVL_OK);
    CHECK_EQ(rank.world, 4);
    CHECK_STR_EQ(rank.source, "KVLANE_RANK");
    CHECK_EQ(decide(ENVIRONMENT("KVLANE_RANK=4", "LOCAL_RANK=4", "LOCAL_WORLD_SIZE=4")),
             KVL_ERR_CONFIG);
}

TEST(rank_decide, asks_launchers_last_and_only_those_that_started_several)
{
    CHECK_EQ(decide(ENVIRONMENT("OMPI_COMM_WORLD_LOCAL_RANK=2", "OMPI_COMM_WORLD_LOCAL_SIZE=4")),
             KVL_OK);
    CHECK_EQ(rank.rank, 2);
    /* mpirun -n 1 of something that starts the ranks itself: all of them inherit a 0 */
    CHECK_EQ(decide(ENVIRONMENT("OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_LOCAL_SIZE=1")),
             KVL_ERR_CONFIG);
    CHECK_EQ(decide(ENVIRONMENT("MPI_LOCALRANKID=0")), KVL_ERR_CONFIG);
    /* the inner one knows */
    CHECK_EQ(decide(ENVIRONMENT("MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=2", "LOCAL_RANK=6")), KVL_OK);
    CHECK_EQ(rank.rank, 6);
    CHECK_EQ(decide(ENVIRONMENT("MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=2",
                                "MV2_COMM_WORLD_LOCAL_RANK=0", "MV2_COMM_WORLD_LOCAL_SIZE=2")),
             KVL_ERR_CONFIG);
}

TEST(rank_decide, takes_the_rank_of_an_adapter)
{
    kvl_rank_source_t sources[] = {
        {.name = "KVLANE_RANK", .value = NULL},
        {.name = "pcp_rank", .value = "2", .world_name = "pcp_size", .world = "4"},
    };

    CHECK_EQ(kvl_rank_decide(sources, 2, &rank), KVL_OK);
    CHECK_EQ(rank.rank, 2);
    CHECK_STR_EQ(rank.source, "pcp_rank");
    sources[0].value = "1";
    CHECK_EQ(kvl_rank_decide(sources, 2, &rank), KVL_ERR_CONFIG);
    CHECK_HAS(kvl_error_text(), "pcp_rank says rank 2");
    sources[0].value = NULL;
    sources[1].value = "-1"; /* a framework's "not set" */
    CHECK_EQ(kvl_rank_decide(sources, 2, &rank), KVL_ERR_CONFIG);
    CHECK_HAS(kvl_error_text(), "pcp_rank=-1");
}
