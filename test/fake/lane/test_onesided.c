/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake/lane/stage.h"

/* puts and gets of contiguous ranges, flushes, credit */

TEST(onesided, put_is_done_after_a_flush_of_each_endpoint_that_carried_it)
{
    stage_move_t *put;

    stage_start((stage_params_t){.depth = 8, .sg = 4, .mode = KVL_MODE_IS_ONESIDED});
    put = stage_move(KVL_MOVE_PUT, KVL_LANE_SG, 3, 100);
    stage_submit(0, put);
    CHECK_EQ(fake.puts, 0); /* submit posts nothing */
    stage_pump();
    CHECK_EQ(fake.puts, 3);
    CHECK_EQ(fake.op_count, 3);
    fake_complete(0, KVL_OK);
    fake_complete(0, KVL_OK);
    stage_pump();
    CHECK_EQ(fake.flushes, 0); /* an op is out */
    fake_complete(0, KVL_OK);
    stage_pump();
    CHECK_EQ(fake.flushes, 3);
    CHECK_EQ(put->told, 0);
    fake_complete(0, KVL_OK);
    fake_complete(0, KVL_OK);
    stage_pump();
    CHECK_EQ(put->told, 0);
    fake_complete(0, KVL_OK);
    CHECK_EQ(put->told, 0); /* not from a callback of UCX */
    stage_pump();
    CHECK_EQ(put->told, 1);
    CHECK_EQ(put->status, KVL_OK);
    stage_end();
}

TEST(onesided, get_is_done_when_its_ops_are_and_needs_no_flush)
{
    stage_move_t *get;

    stage_start((stage_params_t){.depth = 8, .sg = 4, .mode = KVL_MODE_IS_ONESIDED});
    get = stage_move(KVL_MOVE_GET, KVL_LANE_SG, 6, 100);
    stage_submit(0, get);
    stage_settle();
    CHECK_EQ(fake.gets, 6);
    CHECK_EQ(fake.flushes, 0);
    CHECK_EQ(get->told, 1);
    CHECK_EQ(get->status, KVL_OK);
    stage_end();
}

TEST(onesided, flush_that_started_before_the_ops_came_back_does_not_count)
{
    stage_move_t *first, *second;

    stage_start((stage_params_t){.depth = 4, .data = 1, .mode = KVL_MODE_IS_ONESIDED});
    first  = stage_move(KVL_MOVE_PUT, KVL_LANE_DATA, 1, 100);
    second = stage_move(KVL_MOVE_PUT, KVL_LANE_DATA, 1, 100);
    stage_submit(0, first);
    stage_pump();
    fake_complete(0, KVL_OK);
    stage_pump(); /* the flush of first is under way */
    CHECK_EQ(fake.flushes, 1);
    stage_submit(0, second);
    stage_pump();
    REQUIRE(fake_find(FAKE_PUT) >= 0);
    fake_complete((size_t)fake_find(FAKE_PUT), KVL_OK);
    stage_pump();
    CHECK_EQ(fake.flushes, 1); /* one at a time */
    fake_complete((size_t)fake_find(FAKE_FLUSH), KVL_OK);
    stage_pump();
    CHECK_EQ(first->told, 1);
    CHECK_EQ(second->told, 0);
    CHECK_EQ(fake.flushes, 2);
    stage_settle();
    CHECK_EQ(second->told, 1);
    stage_end();
}

TEST(onesided, moves_of_a_moment_share_a_flush)
{
    unsigned i;

    stage_start((stage_params_t){.depth = 8, .data = 1, .mode = KVL_MODE_IS_ONESIDED});
    for (i = 0; i < 8; i++) {
        stage_submit(0, stage_move(KVL_MOVE_PUT, KVL_LANE_DATA, 1, 100));
    }
    stage_pump();
    CHECK_EQ(fake.op_count, 8);
    fake_complete_all(KVL_OK);
    stage_settle();
    CHECK_EQ(stage.told, 8);
    CHECK_EQ(fake.flushes, 1);
    stage_end();
}

TEST(onesided, flush_goes_before_new_ops_on_an_sg_endpoint)
{
    stage_move_t *first, *second;

    stage_start((stage_params_t){.depth = 2, .sg = 1, .mode = KVL_MODE_IS_ONESIDED});
    first  = stage_move(KVL_MOVE_PUT, KVL_LANE_SG, 1, 100);
    second = stage_move(KVL_MOVE_PUT, KVL_LANE_SG, 5, 100);
    stage_submit(0, first);
    stage_submit(1, second);
    stage_pump();
    CHECK_EQ(fake.op_count, 1);
    fake_complete(0, KVL_OK);
    stage_pump();
    REQUIRE(fake.op_count == 1);
    CHECK_EQ(fake.ops[0].kind, FAKE_FLUSH);
    stage_settle();
    stage_end();
}

static bool the_first(void)
{
    return fake.puts == 1 && fake.flushes == 0;
}

TEST(onesided, flush_goes_before_new_ops_also_when_the_last_op_completed_at_once)
{
    stage_start((stage_params_t){.depth = 2, .sg = 1, .mode = KVL_MODE_IS_ONESIDED});
    fake.at_once = the_first;
    stage_submit(0, stage_move(KVL_MOVE_PUT, KVL_LANE_SG, 1, 100));
    stage_submit(1, stage_move(KVL_MOVE_PUT, KVL_LANE_SG, 5, 100));
    stage_pump();
    fake.at_once = NULL;
    REQUIRE(fake.op_count == 1);
    CHECK_EQ(fake.ops[0].kind, FAKE_FLUSH);
    stage_settle();
    stage_end();
}

TEST(onesided, ops_that_complete_at_once_stay_on_one_endpoint_and_need_one_flush)
{
    unsigned i;

    stage_start((stage_params_t){.depth = 8, .sg = 8, .mode = KVL_MODE_IS_ONESIDED});
    fake.at_once = fake_always;
    for (i = 0; i < 16; i++) {
        stage_submit(0, stage_move(KVL_MOVE_PUT, KVL_LANE_SG, 61, 100));
    }
    stage_settle();
    CHECK_EQ(stage.told, 16);
    CHECK_EQ(fake.puts, 16 * 61);
    CHECK_EQ(fake.flushes, 16);
    for (i = 0; i < 8; i++) { /* and the moves use all endpoints */
        CHECK_EQ(fake.eps[i].posted, 2 * 62);
    }
    stage_end();
}

TEST(onesided, one_move_uses_the_idle_sg_endpoints)
{
    stage_start((stage_params_t){.depth = 16, .sg = 8, .mode = KVL_MODE_IS_ONESIDED});
    stage_submit(0, stage_move(KVL_MOVE_PUT, KVL_LANE_SG, 61, 100));
    stage_pump();
    CHECK_EQ(fake.op_count, 8);
    stage_settle();
    stage_end();
}

TEST(onesided, depth_bounds_the_sg_ops_of_a_rail)
{
    unsigned i;

    stage_start((stage_params_t){.depth = 3, .sg = 8, .mode = KVL_MODE_IS_ONESIDED});
    for (i = 0; i < 5; i++) {
        stage_submit(0, stage_move(KVL_MOVE_PUT, KVL_LANE_SG, 20, 100));
    }
    for (i = 0; i < 300 && stage.told < 5; i++) {
        stage_pump();
        CHECK(fake_find(FAKE_FLUSH) >= 0 || fake.op_count <= 3);
        CHECK(stage_active() <= 3);
        if (fake.op_count) {
            fake_complete(0, KVL_OK);
        }
    }
    stage_settle();
    stage_end();
}

TEST(onesided, window_of_a_data_endpoint_is_the_smaller_of_depth_and_data_depth)
{
    unsigned i;

    stage_start(
        (stage_params_t){.depth = 8, .data_depth = 3, .data = 1, .mode = KVL_MODE_IS_ONESIDED});
    for (i = 0; i < 8; i++) {
        stage_submit(0, stage_move(KVL_MOVE_PUT, KVL_LANE_DATA, 1, 100));
    }
    CHECK_EQ(fake.endpoints[0].window, 3);
    stage_pump();
    CHECK_EQ(fake.op_count, 3);
    stage_settle();
    stage_end();
}

TEST(onesided, long_pieces_are_cut_at_the_chunk)
{
    stage_start((stage_params_t){.depth = 8, .data = 1, .chunk = 64, .mode = KVL_MODE_IS_ONESIDED});
    stage_submit(0, stage_move(KVL_MOVE_PUT, KVL_LANE_DATA, 1, 1000));
    stage_settle();
    CHECK_EQ(fake.puts, 16);
    CHECK_EQ(stage.moves[0].move.ops_total, 16);
    stage_end();
}

/* with the same time for each op, the rounds that a batch takes say what depth brings */
static unsigned rounds(unsigned depth, unsigned endpoints, kvl_mode_t mode, kvl_lane_kind_t lane,
                       unsigned pieces)
{
    unsigned n = 0, i;

    stage_start((stage_params_t){.depth = depth,
                                 .data  = lane == KVL_LANE_DATA,
                                 .sg    = lane == KVL_LANE_SG ? endpoints : 0,
                                 .mode  = mode});
    for (i = 0; i < 64; i++) {
        stage_submit(0, stage_move(KVL_MOVE_PUT, lane, pieces, 64));
    }
    for (;;) {
        long flush;
        size_t ops;

        while (stage_pump(), (flush = fake_find(FAKE_FLUSH)) >= 0) { /* takes no time */
            fake_complete((size_t)flush, KVL_OK);
        }
        if (!fake.op_count) {
            break;
        }
        for (ops = fake.op_count; ops; ops--) {
            fake_complete(0, KVL_OK);
        }
        n++;
    }
    CHECK_EQ(stage.told, 64);
    stage_end();
    return n;
}

TEST(depth, brings_as_many_ops_at_a_time)
{
    unsigned one;

    one = rounds(1, 16, KVL_MODE_IS_MESSAGE, KVL_LANE_SG, 4);
    CHECK_EQ(one, 64);
    CHECK_EQ(rounds(4, 16, KVL_MODE_IS_MESSAGE, KVL_LANE_SG, 4), 16);
    CHECK_EQ(rounds(16, 16, KVL_MODE_IS_MESSAGE, KVL_LANE_SG, 4), 4);
    CHECK_EQ(rounds(1, 1, KVL_MODE_IS_MESSAGE, KVL_LANE_DATA, 1), 64);
    CHECK_EQ(rounds(4, 1, KVL_MODE_IS_MESSAGE, KVL_LANE_DATA, 1), 16);
    CHECK_EQ(rounds(16, 1, KVL_MODE_IS_MESSAGE, KVL_LANE_DATA, 1), 4);
    CHECK_EQ(rounds(1, 16, KVL_MODE_IS_ONESIDED, KVL_LANE_DATA, 1), 64);
    CHECK_EQ(rounds(16, 16, KVL_MODE_IS_ONESIDED, KVL_LANE_DATA, 1), 4);
    one = rounds(1, 16, KVL_MODE_IS_ONESIDED, KVL_LANE_SG, 4);
    CHECK_EQ(one, 256);
    CHECK(rounds(4, 16, KVL_MODE_IS_ONESIDED, KVL_LANE_SG, 4) * 38 <= one * 10);
    CHECK(rounds(16, 16, KVL_MODE_IS_ONESIDED, KVL_LANE_SG, 4) * 14 <= one);
}
