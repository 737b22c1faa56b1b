/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake/lane/stage.h"

/* cancel, failures, a link that goes down */

TEST(cancel, of_a_queued_move_is_told_by_the_next_pump)
{
    stage_move_t *move;

    stage_start((stage_params_t){.depth = 1, .sg = 1, .mode = KVL_MODE_IS_ONESIDED});
    move = stage_move(KVL_MOVE_PUT, KVL_LANE_SG, 3, 10);
    stage_submit(0, move);
    kvl_mover_cancel(stage.mover, &move->move, KVL_ERR_TIMEOUT);
    CHECK_EQ(move->told, 0);
    CHECK_EQ(stage_active(), 1); /* the link may not go away yet */
    stage_pump();
    CHECK_EQ(move->told, 1);
    CHECK_EQ(move->status, KVL_ERR_TIMEOUT);
    CHECK_EQ(fake.puts, 0);
    stage_end();
}

TEST(cancel, of_a_put_waits_for_its_ops_and_their_flush)
{
    stage_move_t *move;

    stage_start((stage_params_t){.depth = 2, .sg = 2, .mode = KVL_MODE_IS_ONESIDED});
    move = stage_move(KVL_MOVE_PUT, KVL_LANE_SG, 9, 10);
    stage_submit(0, move);
    stage_pump();
    CHECK_EQ(fake.op_count, 2);
    kvl_mover_cancel(stage.mover, &move->move, KVL_ERR_CANCELED);
    CHECK(kvl_move_busy(&move->move));
    fake_complete_all(KVL_OK);
    stage_pump();
    CHECK_EQ(fake.puts, 2);
    CHECK_EQ(fake.flushes, 2);
    CHECK_EQ(move->told, 0);
    CHECK(kvl_move_busy(&move->move));
    kvl_mover_cancel(stage.mover, &move->move, KVL_ERR_TIMEOUT); /* the first reason counts */
    stage_settle();
    CHECK_EQ(move->status, KVL_ERR_CANCELED);
    CHECK(!kvl_move_busy(&move->move));
    kvl_mover_cancel(stage.mover, &move->move, KVL_ERR_TIMEOUT);
    stage_settle();
    CHECK_EQ(move->told, 1);
    stage_end();
}

TEST(cancel, of_one_flow_lets_the_others_go_on)
{
    stage_move_t *a, *b;

    stage_start((stage_params_t){.depth = 2, .sg = 2, .mode = KVL_MODE_IS_MESSAGE});
    a = stage_move(KVL_MOVE_PUT, KVL_LANE_SG, 9, 10);
    b = stage_move(KVL_MOVE_PUT, KVL_LANE_SG, 9, 10);
    stage_submit(0, a);
    stage_submit(1, b);
    kvl_mover_cancel(stage.mover, &a->move, KVL_ERR_CANCELED);
    stage_settle();
    CHECK_EQ(a->status, KVL_ERR_CANCELED);
    CHECK_EQ(b->status, KVL_OK);
    stage_end();
}

TEST(failure, of_a_post_ends_the_move_alone)
{
    stage_move_t *a, *b;

    stage_start((stage_params_t){.depth = 2, .sg = 2, .mode = KVL_MODE_IS_ONESIDED});
    a                = stage_move(KVL_MOVE_PUT, KVL_LANE_SG, 9, 10);
    b                = stage_move(KVL_MOVE_PUT, KVL_LANE_SG, 9, 10);
    fake.fail_in     = 3;
    fake.fail_status = KVL_ERR_RAIL;
    stage_submit(0, a);
    stage_submit(0, b);
    stage_settle();
    CHECK_EQ(a->status, KVL_ERR_RAIL);
    CHECK(fake.puts < 9 + 9);
    CHECK_EQ(b->status, KVL_OK);
    CHECK_EQ(fake.told, KVL_OK);
    stage_end();
}

TEST(failure, of_an_op_ends_the_move_when_its_other_ops_are_back_and_flushed)
{
    stage_move_t *move;

    stage_start((stage_params_t){.depth = 3, .sg = 3, .mode = KVL_MODE_IS_ONESIDED});
    move = stage_move(KVL_MOVE_PUT, KVL_LANE_SG, 9, 10);
    stage_submit(0, move);
    stage_pump();
    fake_complete(1, KVL_ERR_RAIL);
    stage_pump();
    CHECK_EQ(fake.puts, 3);
    CHECK_EQ(move->told, 0);
    stage_settle();
    CHECK_EQ(fake.puts, 3);
    CHECK_EQ(fake.flushes, 3);
    CHECK_EQ(move->status, KVL_ERR_RAIL);
    stage_end();
}

TEST(failure, of_a_flush_fails_the_move_and_the_endpoint)
{
    stage_move_t *move;

    stage_start((stage_params_t){.depth = 1, .data = 1, .mode = KVL_MODE_IS_ONESIDED});
    move = stage_move(KVL_MOVE_PUT, KVL_LANE_DATA, 1, 10);
    stage_submit(0, move);
    stage_pump();
    fake_complete(0, KVL_OK);
    stage_pump();
    fake_complete(0, KVL_ERR_RAIL);
    stage_pump();
    CHECK_EQ(move->status, KVL_ERR_RAIL);
    CHECK_EQ(fake.told, KVL_ERR_RAIL); /* what was under way may still land: the link has to go */
    stage_end();
}

TEST(failure, of_a_key_that_the_peer_never_gave_is_clean)
{
    stage_move_t *move;

    stage_start((stage_params_t){.depth = 1, .data = 1, .mode = KVL_MODE_IS_ONESIDED});
    move                         = stage_move(KVL_MOVE_PUT, KVL_LANE_DATA, 1, 10);
    fake.endpoints[0].rkey_count = 0;
    stage_submit(0, move);
    stage_settle();
    CHECK_EQ(move->status, KVL_ERR_RAIL);
    CHECK_EQ(fake.puts, 0);
    stage_end();
}

TEST(failure, of_an_endpoint_keeps_moves_off_it)
{
    stage_start((stage_params_t){.depth = 4, .sg = 2, .mode = KVL_MODE_IS_ONESIDED});
    fake.endpoints[0].failed = true;
    stage_submit(0, stage_move(KVL_MOVE_PUT, KVL_LANE_SG, 9, 10));
    stage_pump();
    CHECK_EQ(fake.eps[0].posted, 0);
    CHECK_EQ(fake.eps[1].posted, 1);
    stage_settle();
    stage_end();
}

/* one of each state: queued, posting, waiting for ops, for a reply, for a flush */
TEST(stop, ends_moves_in_every_state_once_their_ops_are_back)
{
    stage_move_t *flushing, *drained, *posting, *queued;

    stage_start((stage_params_t){.depth = 3, .sg = 2, .data = 1, .mode = KVL_MODE_IS_ONESIDED});
    flushing = stage_move(KVL_MOVE_PUT, KVL_LANE_DATA, 1, 10);
    drained  = stage_move(KVL_MOVE_PUT, KVL_LANE_DATA, 1, 10);
    posting  = stage_move(KVL_MOVE_PUT, KVL_LANE_SG, 9, 10);
    queued   = stage_move(KVL_MOVE_PUT, KVL_LANE_SG, 9, 10);
    stage_submit(0, flushing);
    stage_pump();
    fake_complete(0, KVL_OK);
    stage_pump();
    stage_submit(0, drained);
    stage_submit(1, posting);
    stage_submit(2, queued);
    stage_pump();
    CHECK_EQ(stage_active(), 3);
    kvl_mover_stop(stage.mover, KVL_ERR_PEER);
    CHECK_EQ(stage.told, 0);
    stage_pump();
    CHECK_EQ(flushing->told, 1); /* its memory is quiet; the flush ends with the endpoint */
    CHECK_EQ(queued->told, 1);
    CHECK_EQ(posting->told, 0);
    CHECK(!kvl_mover_idle(stage.mover));
    fake_close();
    CHECK(kvl_mover_idle(stage.mover));
    CHECK_EQ(posting->told, 0);
    CHECK_EQ(stage_active(), 2);
    stage_pump();
    CHECK_EQ(flushing->status, KVL_ERR_PEER);
    CHECK_EQ(drained->status, KVL_ERR_PEER);
    CHECK_EQ(posting->status, KVL_ERR_PEER);
    CHECK_EQ(queued->status, KVL_ERR_PEER);
    CHECK_EQ(stage_active(), 0);
    stage_end();
}

TEST(stop, ends_gets_that_wait_for_a_reply_but_not_those_that_receive_one)
{
    stage_move_t *asked, *receiving, *sending;

    stage_start((stage_params_t){.depth = 3, .sg = 3, .mode = KVL_MODE_IS_MESSAGE});
    asked     = stage_move(KVL_MOVE_GET, KVL_LANE_SG, 2, 10);
    receiving = stage_move(KVL_MOVE_GET, KVL_LANE_SG, 2, 10);
    sending   = stage_move(KVL_MOVE_GET, KVL_LANE_SG, 2, 10);
    stage_submit(0, asked);
    stage_submit(0, receiving);
    stage_submit(0, sending);
    stage_pump();
    REQUIRE(fake.question_count == 3);
    fake_complete(0, KVL_OK);
    fake_complete(0, KVL_OK);
    CHECK_EQ(fake_answer(stage.mover, 1, KVL_OK, false), KVL_INPROGRESS);
    kvl_mover_stop(stage.mover, KVL_ERR_CANCELED);
    stage_pump();
    CHECK_EQ(asked->told, 1);
    CHECK_EQ(receiving->told, 0);
    CHECK_EQ(sending->told, 0);
    CHECK_EQ(fake_answer(stage.mover, 0, KVL_OK, true), KVL_OK); /* too late: ignored */
    fake_close();
    stage_pump();
    CHECK_EQ(receiving->told, 1);
    CHECK_EQ(receiving->status, KVL_ERR_CANCELED);
    CHECK_EQ(sending->told, 1);
    stage_end();
}

TEST(stop, ends_what_is_submitted_later)
{
    stage_move_t *move;

    stage_start((stage_params_t){.depth = 1, .sg = 1, .mode = KVL_MODE_IS_ONESIDED});
    kvl_mover_stop(stage.mover, KVL_ERR_CLOSED);
    kvl_mover_stop(stage.mover, KVL_ERR_PEER);
    move = stage_move(KVL_MOVE_PUT, KVL_LANE_SG, 1, 10);
    stage_submit(0, move);
    CHECK_EQ(move->told, 0);
    stage_pump();
    CHECK_EQ(move->status, KVL_ERR_CLOSED);
    stage_end();
}

TEST(mover, refuses_what_it_cannot_hold)
{
    kvl_mover_params_t params = {.depth = 0, .chunk_bytes = 1};
    kvl_mover_t *mover        = NULL;
    kvl_endpoint_t endpoint   = {.lane = KVL_LANE_SG};
    static kvl_endpoint_t many[128];
    unsigned i;

    CHECK_EQ(kvl_mover_create(&params, &mover), KVL_ERR_INVALID);
    params.depth = 257;
    CHECK_EQ(kvl_mover_create(&params, &mover), KVL_ERR_INVALID);
    params.depth = 256;
    REQUIRE(kvl_mover_create(&params, &mover) == KVL_OK);
    for (i = 0; i < 128; i++) {
        many[i].lane = KVL_LANE_SG;
        CHECK_EQ(kvl_mover_add(mover, &many[i]), KVL_OK);
    }
    CHECK_EQ(kvl_mover_add(mover, &endpoint), KVL_ERR_LIMIT);
    kvl_mover_destroy(mover);
    kvl_mover_destroy(NULL);
}

TEST(mover, tells_a_move_without_bytes_from_the_pump)
{
    stage_move_t *move;

    stage_start((stage_params_t){.depth = 1, .sg = 1, .mode = KVL_MODE_IS_ONESIDED});
    move = stage_move(KVL_MOVE_PUT, KVL_LANE_SG, 0, 10);
    stage_submit(0, move);
    CHECK_EQ(move->told, 0);
    stage_pump();
    CHECK_EQ(move->status, KVL_OK);
    stage_end();
}
