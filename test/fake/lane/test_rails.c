/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake/lane/stage.h"

/* several rails: who carries what, and what becomes of it when one fails */

static uint64_t rail_bytes(unsigned rail)
{
    uint64_t bytes = 0;
    unsigned i;

    for (i = 0; i < fake.ep_count; i++) {
        bytes += fake.endpoints[i].rail == rail ? fake.endpoints[i].counts.bytes : 0;
    }
    return bytes;
}

/* as a link does that closes a rail's endpoints by force */
static void rail_cancel(unsigned rail)
{
    size_t i = 0;

    while (i < fake.op_count) {
        if (fake.ops[i].ep->rail == rail) {
            fake_complete(i, KVL_ERR_CANCELED);
        } else {
            i++;
        }
    }
}

static void rails_start(kvl_mode_t mode)
{
    stage_start((stage_params_t){.depth = 8, .data = 1, .sg = 4, .mode = mode, .rails = 2});
}

TEST(rails, carry_the_same_if_they_are_equal)
{
    unsigned i;

    rails_start(KVL_MODE_IS_ONESIDED);
    for (i = 0; i < 100; i++) {
        stage_submit(0, stage_move(i % 2 ? KVL_MOVE_PUT : KVL_MOVE_GET, KVL_LANE_SG, 3, 400));
    }
    stage_settle();
    CHECK_EQ(stage.told, 100);
    CHECK_EQ(rail_bytes(0) + rail_bytes(1), 120000);
    CHECK(rail_bytes(0) >= 54000 && rail_bytes(0) <= 66000);
    stage_end();
}

TEST(rails, share_one_large_value)
{
    stage_move_t *move;

    rails_start(KVL_MODE_IS_ONESIDED);
    move = stage_move(KVL_MOVE_PUT, KVL_LANE_DATA, 1, 400000);
    stage_submit(0, move);
    stage_settle();
    CHECK_EQ(move->status, KVL_OK);
    CHECK(rail_bytes(0) >= 160000 && rail_bytes(1) >= 160000);
    stage_end();
}

static void survives(kvl_move_dir_t dir, bool completed)
{
    stage_move_t *move;

    rails_start(KVL_MODE_IS_ONESIDED);
    stage.twice = true;
    move        = stage_move(dir, KVL_LANE_SG, 12, 100);
    stage_submit(0, move);
    stage_pump();
    CHECK_EQ(fake.op_count, 8); /* each sg endpoint of both rails has one */
    if (completed) {            /* ... but not flushed */
        fake_complete_all(KVL_OK);
    }
    kvl_mover_rail_off(stage.mover, 1);
    CHECK_EQ(kvl_mover_rail_idle(stage.mover, 1), completed);
    rail_cancel(1);
    CHECK(kvl_mover_rail_idle(stage.mover, 1));
    stage_settle();
    CHECK_EQ(move->told, 1);
    CHECK_EQ(move->status, KVL_OK);
    CHECK_EQ(kvl_mover_retries(stage.mover, 1), dir == KVL_MOVE_PUT || !completed);
    stage_end();
}

TEST(rails, lose_a_put_under_way_to_the_others)
{
    survives(KVL_MOVE_PUT, false);
}

TEST(rails, lose_a_put_that_was_not_flushed_to_the_others)
{
    survives(KVL_MOVE_PUT, true);
}

TEST(rails, lose_a_get_under_way_to_the_others)
{
    survives(KVL_MOVE_GET, false);
}

TEST(rails, keep_a_get_that_had_arrived)
{
    survives(KVL_MOVE_GET, true);
}

TEST(rails, that_are_off_carry_nothing_until_they_are_on_again)
{
    uint64_t before;

    rails_start(KVL_MODE_IS_ONESIDED);
    kvl_mover_rail_off(stage.mover, 0);
    stage_submit(0, stage_move(KVL_MOVE_PUT, KVL_LANE_SG, 20, 100));
    stage_settle();
    CHECK_EQ(rail_bytes(0), 0);
    CHECK_EQ(rail_bytes(1), 2000);
    kvl_mover_rail_ready(stage.mover, 0);
    stage_submit(0, stage_move(KVL_MOVE_PUT, KVL_LANE_SG, 20, 100));
    stage_settle();
    CHECK_EQ(rail_bytes(0), 0); /* ready, for tests alone */
    kvl_mover_rail_on(stage.mover, 0);
    before = rail_bytes(1);
    stage_submit(0, stage_move(KVL_MOVE_PUT, KVL_LANE_SG, 20, 100));
    stage_settle();
    CHECK(rail_bytes(0) > 0 && rail_bytes(1) < before + 2000);
    stage_end();
}

TEST(rails, fail_the_moves_that_are_theirs_alone)
{
    stage_move_t *move;

    rails_start(KVL_MODE_IS_ONESIDED);
    move            = stage_move(KVL_MOVE_PUT, KVL_LANE_SG, 3, 100);
    move->move.only = 2;
    stage_submit(0, move);
    stage_pump();
    kvl_mover_rail_off(stage.mover, 1);
    rail_cancel(1);
    stage_settle();
    CHECK_EQ(move->told, 1);
    CHECK(move->status != KVL_OK);
    CHECK_EQ(rail_bytes(0), 0);
    stage_end();
}

TEST(rails, start_over_what_an_endpoint_fails_and_tell_its_owner)
{
    stage_move_t *move;

    rails_start(KVL_MODE_IS_ONESIDED);
    stage.twice = true;
    move        = stage_move(KVL_MOVE_GET, KVL_LANE_SG, 2, 100);
    stage_submit(0, move);
    stage_pump();
    fake_complete(0, KVL_ERR_PEER);
    CHECK_EQ(fake.told, KVL_ERR_PEER);
    stage_settle();
    CHECK_EQ(move->status, KVL_OK);
    stage_end();
}
