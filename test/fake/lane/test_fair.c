/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake/lane/stage.h"

/* turns between flows, slots, lanes */

static unsigned flow_of(const fake_op_t *op)
{
    const char *address = op->rma.address;
    unsigned i;

    for (i = 0; i < stage.move_count; i++) {
        const stage_move_t *mine = &stage.moves[i];
        const kvl_piece_t *last  = &mine->pieces[mine->move.piece_count - 1];

        if (address >= (char *)mine->pieces[0].address &&
            address < (char *)last->address + last->length) {
            return (unsigned)(mine->move.flow - stage.flows);
        }
    }
    return 99;
}

/* one op at a time; order says which flow each belonged to */
static unsigned run_one_by_one(unsigned *order, unsigned max)
{
    unsigned n = 0;

    while (stage_pump(), fake.op_count) {
        if (fake.ops[0].kind != FAKE_FLUSH && n < max) {
            order[n++] = flow_of(&fake.ops[0]);
        }
        fake_complete(0, KVL_OK);
    }
    return n;
}

TEST(fair, flows_take_turns_op_by_op)
{
    unsigned order[90], n, i;

    stage_start((stage_params_t){.depth = 8, .sg = 1, .mode = KVL_MODE_IS_ONESIDED});
    for (i = 0; i < 3; i++) {
        stage_submit(i, stage_move(KVL_MOVE_GET, KVL_LANE_SG, 30, 10));
    }
    n = run_one_by_one(order, 90);
    CHECK_EQ(n, 90);
    for (i = 0; i < n; i++) {
        CHECK_EQ(order[i], i % 3);
    }
    stage_end();
}

TEST(fair, small_flow_waits_for_one_op_of_each_other_flow)
{
    unsigned order[201], n, i;

    stage_start((stage_params_t){.depth = 4, .sg = 1, .mode = KVL_MODE_IS_ONESIDED});
    for (i = 0; i < 10; i++) {
        stage_submit(0, stage_move(KVL_MOVE_GET, KVL_LANE_SG, 20, 10));
    }
    stage_pump();
    stage_submit(1, stage_move(KVL_MOVE_GET, KVL_LANE_SG, 1, 10));
    n = run_one_by_one(order, 201);
    CHECK_EQ(n, 201);
    CHECK_EQ(order[0], 0); /* was under way */
    CHECK_EQ(order[1], 0); /* came first */
    CHECK_EQ(order[2], 1);
    stage_end();
}

TEST(fair, small_flow_gets_the_first_slot_that_a_large_one_gives_back)
{
    stage_move_t *small;
    unsigned i;

    stage_start((stage_params_t){.depth = 4, .data = 1, .mode = KVL_MODE_IS_ONESIDED});
    for (i = 0; i < 50; i++) {
        stage_submit(0, stage_move(KVL_MOVE_GET, KVL_LANE_DATA, 1, 10));
    }
    stage_pump();
    CHECK_EQ(stage_active(), 4);
    small = stage_move(KVL_MOVE_GET, KVL_LANE_DATA, 1, 10);
    stage_submit(1, small);
    stage_pump();
    CHECK_EQ(small->move.ops_out, 0); /* all slots are taken */
    fake_complete(0, KVL_OK);
    stage_pump();
    CHECK_EQ(small->move.ops_out, 1);
    stage_settle();
    stage_end();
}

TEST(fair, slots_are_shared_evenly_by_large_flows)
{
    unsigned i, active[2] = {0, 0};

    stage_start((stage_params_t){.depth = 8, .data = 1, .mode = KVL_MODE_IS_ONESIDED});
    for (i = 0; i < 20; i++) {
        stage_submit(0, stage_move(KVL_MOVE_GET, KVL_LANE_DATA, 1, 10));
    }
    stage_pump();
    for (i = 0; i < 20; i++) {
        stage_submit(1, stage_move(KVL_MOVE_GET, KVL_LANE_DATA, 1, 10));
    }
    for (i = 0; i < 8; i++) {
        fake_complete(0, KVL_OK);
        stage_pump();
    }
    for (i = 0; i < fake.op_count; i++) {
        active[flow_of(&fake.ops[i])]++;
    }
    CHECK_EQ(active[0], 4);
    CHECK_EQ(active[1], 4);
    stage_settle();
    stage_end();
}

TEST(fair, newcomers_do_not_keep_out_who_is_in)
{
    stage_move_t *large;
    unsigned i;

    stage_start((stage_params_t){.depth = 4, .sg = 1, .mode = KVL_MODE_IS_ONESIDED});
    large = stage_move(KVL_MOVE_GET, KVL_LANE_SG, 20, 10);
    stage_submit(0, large);
    stage_pump();
    for (i = 0; i < 400 && !large->told; i++) { /* seven flows that always have something new */
        stage_submit(1 + i % 7, stage_move(KVL_MOVE_GET, KVL_LANE_SG, 1, 10));
        fake_complete(0, KVL_OK);
        stage_pump();
    }
    CHECK(large->told);
    CHECK(i <= 20 * 8); /* each eighth op was its own */
    stage_settle();
    stage_end();
}

TEST(fair, moves_of_a_flow_go_in_order_on_a_lane)
{
    unsigned i;

    stage_start((stage_params_t){.depth = 4, .sg = 2, .mode = KVL_MODE_IS_ONESIDED});
    for (i = 0; i < 6; i++) {
        stage_submit(0, stage_move(KVL_MOVE_GET, KVL_LANE_SG, 4, 10));
    }
    while (stage_pump(), fake.op_count) {
        uint64_t low = UINT64_MAX, high = 0;

        for (i = 0; i < fake.op_count; i++) {
            low  = fake.ops[i].rma.remote < low ? fake.ops[i].rma.remote : low;
            high = fake.ops[i].rma.remote > high ? fake.ops[i].rma.remote : high;
        }
        CHECK_EQ(high - low, 10);
        fake_complete_all(KVL_OK);
    }
    stage_end();
}

TEST(fair, lanes_do_not_wait_for_each_other)
{
    stage_start((stage_params_t){
        .depth = 4, .data = 1, .data_depth = 1, .sg = 1, .mode = KVL_MODE_IS_ONESIDED});
    stage_submit(0, stage_move(KVL_MOVE_GET, KVL_LANE_DATA, 1, 10));
    stage_submit(0, stage_move(KVL_MOVE_GET, KVL_LANE_DATA, 1, 10)); /* no credit */
    stage_submit(0, stage_move(KVL_MOVE_GET, KVL_LANE_SG, 2, 10));
    stage_pump();
    CHECK_EQ(fake_ops_of(&fake.endpoints[0]), 1);
    CHECK_EQ(fake_ops_of(&fake.endpoints[1]), 1);
    stage_settle();
    stage_end();
}

TEST(fair, endpoints_of_two_rails_are_both_used)
{
    unsigned i;

    stage_start((stage_params_t){.depth = 4, .mode = KVL_MODE_IS_ONESIDED});
    for (i = 0; i < 8; i++) {
        REQUIRE(kvl_mover_add(stage.mover, fake_endpoint(KVL_LANE_SG, i / 4)) == KVL_OK);
    }
    stage_submit(0, stage_move(KVL_MOVE_PUT, KVL_LANE_SG, 8, 10));
    stage_pump();
    for (i = 0; i < 8; i++) {
        CHECK_EQ(fake_ops_of(&fake.endpoints[i]), 1);
    }
    stage_settle();
    CHECK_EQ(stage.moves[0].status, KVL_OK);
    stage_end();
}

TEST(pump, does_a_bounded_piece_of_work_and_says_that_there_is_more)
{
    unsigned n;

    stage_start((stage_params_t){.depth = 4, .sg = 2, .data = 1, .mode = KVL_MODE_IS_ONESIDED});
    fake.at_once = fake_always;
    stage_submit(0, stage_move(KVL_MOVE_GET, KVL_LANE_SG, 1000, 10));
    stage.in_pump = true;
    n             = kvl_mover_pump(stage.mover);
    CHECK(n > 0);
    CHECK(fake.gets > 30 && fake.gets <= 64);
    stage_settle();
    CHECK_EQ(stage.told, 1);
    stage_end();
}
