/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/alloc.h"
#include "base/fault.h"
#include "fake/lane/stage.h"

#include <stdio.h>

/* allocations: none when warm; each of them failed in turn */

static void moves_run(void)
{
    unsigned i;

    for (i = 0; i < 12; i++) {
        stage_submit(i % 3,
                     stage_move(i % 2 ? KVL_MOVE_GET : KVL_MOVE_PUT, KVL_LANE_SG, 20 + 5 * i, 20));
    }
    stage_settle();
}

TEST(memory, is_not_allocated_when_warm)
{
    uint64_t hits;

    stage_start((stage_params_t){.depth = 4, .sg = 4, .mode = KVL_MODE_IS_MESSAGE});
    moves_run();
    moves_run();
    REQUIRE(kvl_fault_setup("alloc:fail@1000000", 1) == KVL_OK);
    hits = kvl_fault_hits(KVL_FAULT_ALLOC);
    moves_run();
    CHECK_EQ(kvl_fault_hits(KVL_FAULT_ALLOC), hits);
    kvl_fault_setup(NULL, 0);
    stage_end();
}

TEST(memory, that_is_missing_when_a_mover_is_made_is_a_clean_status)
{
    kvl_mover_params_t params = {.depth = 4, .chunk_bytes = 1024};
    unsigned n;

    for (n = 1; n < 8; n++) {
        kvl_endpoint_t endpoint = {.lane = KVL_LANE_DATA};
        kvl_mover_t *mover      = NULL;
        kvl_status_t status;
        char rule[32];

        snprintf(rule, sizeof(rule), "alloc:fail@%u", n);
        REQUIRE(kvl_fault_setup(rule, 1) == KVL_OK);
        status = kvl_mover_create(&params, &mover);
        if (status == KVL_OK) {
            status = kvl_mover_add(mover, &endpoint);
        }
        kvl_mover_destroy(mover);
        kvl_fault_setup(NULL, 0);
        CHECK_EQ(status, n <= 3 ? KVL_ERR_NO_MEMORY : KVL_OK);
    }
}

TEST(memory, that_is_missing_fails_a_move_or_lets_it_wait)
{
    unsigned n, i, failed = 0;

    for (n = 1; n < 40; n++) {
        char rule[32];

        stage_start((stage_params_t){.depth = 4, .sg = 4, .mode = KVL_MODE_IS_MESSAGE});
        snprintf(rule, sizeof(rule), "alloc:fail@%u", n);
        REQUIRE(kvl_fault_setup(rule, 1) == KVL_OK);
        moves_run();
        kvl_fault_setup(NULL, 0);
        CHECK_EQ(stage.told, 12);
        for (i = 0; i < 12; i++) {
            CHECK(stage.moves[i].status == KVL_OK || stage.moves[i].status == KVL_ERR_NO_MEMORY);
            failed += stage.moves[i].status != KVL_OK;
        }
        stage_end();
    }
    CHECK(failed > 3);
}

TEST(memory, that_is_always_missing_ends_every_move)
{
    unsigned i;

    stage_start((stage_params_t){.depth = 4, .sg = 4, .mode = KVL_MODE_IS_MESSAGE});
    REQUIRE(kvl_fault_setup("alloc:fail", 1) == KVL_OK);
    moves_run();
    kvl_fault_setup(NULL, 0);
    CHECK_EQ(stage.told, 12);
    for (i = 0; i < 12; i++) {
        CHECK_EQ(stage.moves[i].status, KVL_ERR_NO_MEMORY);
    }
    stage_end();
}
