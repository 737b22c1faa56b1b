/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake/lane/stage.h"
#include "lane/private.h"

#include <string.h>

/* active messages: puts with their bytes, gets with a reply */

TEST(message, put_sends_one_message_a_chunk_of_the_value)
{
    stage_move_t *put;

    stage_start((stage_params_t){.depth = 8, .sg = 4, .chunk = 256, .mode = KVL_MODE_IS_MESSAGE});
    put = stage_move(KVL_MOVE_PUT, KVL_LANE_SG, 6, 100);
    stage_submit(0, put);
    stage_settle();
    CHECK_EQ(fake.ams, 3); /* 600 bytes */
    CHECK_EQ(put->move.ops_total, 3);
    CHECK_EQ(fake.flushes, 0);
    CHECK_EQ(put->status, KVL_OK);
    CHECK_EQ(fake.last.head.offset, 512);
    CHECK_EQ(fake.last.head.length, 88);
    stage_end();
}

TEST(message, put_of_one_piece_goes_as_it_lies)
{
    stage_start((stage_params_t){.depth = 1, .data = 1, .mode = KVL_MODE_IS_MESSAGE});
    stage_submit(0, stage_move(KVL_MOVE_PUT, KVL_LANE_DATA, 1, 5000));
    stage_pump();
    CHECK_EQ(fake.last.iov_count, 1);
    CHECK(fake.last.iov[0].address == stage.moves[0].pieces[0].address);
    stage_settle();
    stage_end();
}

TEST(message, put_packs_small_pieces_before_it_is_posted)
{
    stage_start((stage_params_t){.depth = 1, .sg = 1, .mode = KVL_MODE_IS_MESSAGE});
    stage_submit(0, stage_move(KVL_MOVE_PUT, KVL_LANE_SG, 61, 100));
    stage_pump();
    CHECK_EQ(fake.last.iov_count, 1);
    CHECK(!fake_touches(stage.local, STAGE_LOCAL));
    stage_settle();
    CHECK_EQ(stage.moves[0].status, KVL_OK);
    stage_end();
}

TEST(message, head_says_where_in_the_value_or_in_the_region)
{
    const size_t lengths[] = {10, 20, 30, 40};
    stage_move_t *put;

    stage_start((stage_params_t){.depth = 8, .sg = 1, .mode = KVL_MODE_IS_MESSAGE});
    stage.remote_at      = 5000;
    put                  = stage_move_of(KVL_MOVE_PUT, KVL_LANE_SG, lengths, 4, true);
    put->move.transfer   = 77;
    put->move.generation = 3;
    stage_submit(0, put);
    stage_pump();
    CHECK_EQ(fake.last.head.scope, 1);
    CHECK_EQ(fake.last.head.token, FAKE_REGION);
    CHECK_EQ(fake.last.head.transfer, 77);
    CHECK_EQ(fake.last.head.generation, 3);
    CHECK_EQ(fake.last.head.offset, 5000);
    CHECK_EQ(fake.last.head.length, 10); /* a hole follows */
    stage_settle();
    CHECK_EQ(put->status, KVL_OK);
    stage_end();
}

/* one get of 3 pieces, posted; its question waits */
static stage_move_t *get_start(bool bounce)
{
    stage_move_t *get;

    stage_start((stage_params_t){.depth = 2, .sg = 1, .mode = KVL_MODE_IS_MESSAGE});
    if (bounce) {
        kvl_mover_destroy(stage.mover);
        fake.ep_count            = 0;
        stage.params.recv_bounce = true;
        REQUIRE(kvl_mover_create(&stage.params, &stage.mover) == KVL_OK);
        REQUIRE(kvl_mover_add(stage.mover, fake_endpoint(KVL_LANE_SG, 0)) == KVL_OK);
    }
    get = stage_move(KVL_MOVE_GET, KVL_LANE_SG, 3, 100);
    stage_submit(0, get);
    stage_pump();
    REQUIRE(fake.question_count == 1 && fake.op_count == 1);
    return get;
}

static void get_end(stage_move_t *get, kvl_status_t status)
{
    stage_settle();
    CHECK_EQ(get->told, 1);
    CHECK_EQ(get->status, status);
    stage_end();
}

TEST(message, get_is_done_when_the_bytes_of_its_eager_reply_are_in_the_pieces)
{
    stage_move_t *get = get_start(false);

    fake_complete(0, KVL_OK); /* sent */
    stage_pump();
    CHECK(kvl_move_busy(&get->move));
    CHECK(!kvl_mover_idle(stage.mover));
    CHECK_EQ(fake_answer(stage.mover, 0, KVL_OK, true), KVL_OK);
    CHECK_EQ(get->told, 0);
    get_end(get, KVL_OK);
}

TEST(message, get_takes_a_reply_that_comes_before_its_request_is_done)
{
    stage_move_t *get = get_start(false);

    CHECK_EQ(fake_answer(stage.mover, 0, KVL_OK, true), KVL_OK);
    stage_pump();
    CHECK_EQ(get->told, 0);
    get_end(get, KVL_OK);
}

TEST(message, get_receives_a_rendezvous_reply_into_its_pieces)
{
    stage_move_t *get = get_start(false);

    fake_complete(0, KVL_OK);
    CHECK_EQ(fake_answer(stage.mover, 0, KVL_OK, false), KVL_INPROGRESS);
    REQUIRE(fake.op_count == 1);
    CHECK_EQ(fake.ops[0].kind, FAKE_RECV);
    CHECK_EQ(fake.ops[0].iov_count, 3);
    CHECK(fake.ops[0].iov[0].address == get->pieces[0].address);
    get_end(get, KVL_OK);
}

TEST(message, get_receives_into_a_bounce_where_it_must)
{
    stage_move_t *get = get_start(true);

    fake_complete(0, KVL_OK);
    CHECK_EQ(fake_answer(stage.mover, 0, KVL_OK, false), KVL_INPROGRESS);
    REQUIRE(fake.op_count == 1);
    CHECK_EQ(fake.ops[0].iov_count, 1);
    CHECK(!fake_touches(stage.local, STAGE_LOCAL));
    get_end(get, KVL_OK);
}

TEST(message, get_takes_an_eager_reply_without_its_bounce)
{
    stage_move_t *get = get_start(true);

    CHECK_EQ(fake_answer(stage.mover, 0, KVL_OK, true), KVL_OK);
    get_end(get, KVL_OK);
}

TEST(message, get_holds_the_credit_of_an_sg_endpoint_until_its_reply)
{
    stage_move_t *get = get_start(false);

    stage_submit(1, stage_move(KVL_MOVE_GET, KVL_LANE_SG, 2, 50));
    fake_complete(0, KVL_OK);
    stage_pump();
    CHECK_EQ(fake.question_count, 1);
    CHECK_EQ(fake_answer(stage.mover, 0, KVL_OK, true), KVL_OK);
    stage_pump();
    CHECK_EQ(fake.question_count, 1); /* the next one */
    get_end(get, KVL_OK);
}

TEST(message, get_fails_as_its_reply_says)
{
    stage_move_t *get = get_start(false);

    CHECK_EQ(fake_answer(stage.mover, 0, KVL_ERR_LEASE, true), KVL_OK);
    get_end(get, KVL_ERR_LEASE);
}

TEST(message, get_fails_when_receiving_fails)
{
    stage_move_t *get = get_start(false);

    fake_complete(0, KVL_OK);
    fake.fail_in     = 1;
    fake.fail_status = KVL_ERR_RAIL;
    fake_answer(stage.mover, 0, KVL_OK, false);
    get_end(get, KVL_ERR_RAIL);
}

TEST(message, get_whose_request_seems_lost_still_waits_for_the_reply)
{
    stage_move_t *get = get_start(false);

    fake_complete(0, KVL_ERR_RAIL);
    stage_pump();
    CHECK_EQ(get->told, 0); /* a reply may still write into its memory */
    CHECK_EQ(fake_answer(stage.mover, 0, KVL_OK, true), KVL_OK);
    get_end(get, KVL_ERR_RAIL);
}

TEST(message, get_that_is_canceled_waits_for_its_reply)
{
    stage_move_t *get = get_start(false);

    fake_complete(0, KVL_OK);
    kvl_mover_cancel(stage.mover, &get->move, KVL_ERR_TIMEOUT);
    stage_pump();
    CHECK_EQ(get->told, 0);
    CHECK(kvl_move_busy(&get->move));
    CHECK_EQ(fake_answer(stage.mover, 0, KVL_OK, false), KVL_INPROGRESS);
    get_end(get, KVL_ERR_TIMEOUT);
}

TEST(reply, that_makes_no_sense_is_the_peers_fault_and_touches_nothing)
{
    stage_move_t *get         = get_start(false);
    kvl_endpoint_t *endpoint  = &fake.endpoints[0];
    const kvl_data_head_t was = fake.questions[0].head;
    kvl_endpoint_t other      = *endpoint;
    uint8_t bytes[512], before[400];
    kvl_data_head_t head;

    memset(bytes, 0xee, sizeof(bytes));
    memcpy(before, get->pieces[0].address, sizeof(before));
    head = was;
    head.op += 1; /* another index */
    CHECK_EQ(fake_reply(stage.mover, endpoint, &head, bytes, 300), KVL_ERR_PROTOCOL);
    head = was;
    head.op += UINT64_C(1) << 16; /* another place */
    CHECK_EQ(fake_reply(stage.mover, endpoint, &head, bytes, 300), KVL_ERR_PROTOCOL);
    head = was;
    head.op += UINT64_C(1) << 32; /* another generation */
    CHECK_EQ(fake_reply(stage.mover, endpoint, &head, bytes, 300), KVL_ERR_PROTOCOL);
    head.op = UINT64_MAX;
    CHECK_EQ(fake_reply(stage.mover, endpoint, &head, bytes, 300), KVL_ERR_PROTOCOL);
    CHECK_EQ(fake_reply(stage.mover, &other, &was, bytes, 300), KVL_ERR_PROTOCOL);
    CHECK_EQ(fake_reply(stage.mover, endpoint, &was, bytes, 299), KVL_ERR_PROTOCOL);
    CHECK_EQ(fake_reply(stage.mover, endpoint, &was, NULL, 301), KVL_ERR_PROTOCOL);
    head        = was;
    head.length = 299;
    CHECK_EQ(fake_reply(stage.mover, endpoint, &head, bytes, 299), KVL_ERR_PROTOCOL);
    CHECK_EQ(fake_reply(stage.mover, endpoint, &head, bytes, 300), KVL_ERR_PROTOCOL);
    head        = was;
    head.status = -5; /* no status of ours */
    CHECK_EQ(fake_reply(stage.mover, endpoint, &head, NULL, 0), KVL_ERR_PROTOCOL);
    head.status = 1;
    CHECK_EQ(fake_reply(stage.mover, endpoint, &head, NULL, 0), KVL_ERR_PROTOCOL);
    head.status = KVL_ERR_LEASE; /* an error with bytes */
    CHECK_EQ(fake_reply(stage.mover, endpoint, &head, bytes, 300), KVL_ERR_PROTOCOL);
    CHECK_MEM_EQ(get->pieces[0].address, before, sizeof(before));
    CHECK_EQ(fake_answer(stage.mover, 0, KVL_OK, true), KVL_OK); /* none of it was taken */
    CHECK_EQ(fake_reply(stage.mover, endpoint, &was, bytes, 300), KVL_ERR_PROTOCOL); /* twice */
    get_end(get, KVL_OK);
}

TEST(reply, that_comes_again_does_not_go_to_the_next_op_in_its_place)
{
    stage_move_t *get         = get_start(false);
    const kvl_data_head_t was = fake.questions[0].head;

    fake_complete(0, KVL_OK);
    CHECK_EQ(fake_answer(stage.mover, 0, KVL_OK, true), KVL_OK);
    stage_submit(0, stage_move(KVL_MOVE_GET, KVL_LANE_SG, 3, 100));
    stage_pump();
    REQUIRE(fake.question_count == 1);
    CHECK_EQ((uint32_t)fake.questions[0].head.op, (uint32_t)was.op); /* the same place */
    CHECK_EQ(fake_reply(stage.mover, &fake.endpoints[0], &was, stage.local, 300), KVL_ERR_PROTOCOL);
    get_end(get, KVL_OK);
}

TEST(reply, to_a_put_is_the_peers_fault)
{
    stage_start((stage_params_t){.depth = 2, .sg = 1, .mode = KVL_MODE_IS_MESSAGE});
    stage_submit(0, stage_move(KVL_MOVE_PUT, KVL_LANE_SG, 3, 100));
    stage_pump();
    CHECK_EQ(fake_reply(stage.mover, &fake.endpoints[0], &fake.last.head, stage.local, 300),
             KVL_ERR_PROTOCOL);
    stage_settle();
    stage_end();
}

TEST(message, put_waits_for_a_bounce_buffer_and_lets_no_more_than_the_bound_be_made)
{
    unsigned i;

    stage_start((stage_params_t){.depth = 8, .sg = 8, .mode = KVL_MODE_IS_MESSAGE});
    stage.mover->bounces.bytes_max = 128u << 10; /* two of the smallest */
    for (i = 0; i < 10; i++) {
        stage_submit(i % 3, stage_move(KVL_MOVE_PUT, KVL_LANE_SG, 10, 100));
    }
    stage_pump();
    CHECK_EQ(fake.op_count, 2);
    CHECK_EQ(stage.mover->bounces.bytes, 128u << 10);
    fake_complete(1, KVL_OK);
    stage_pump();
    CHECK_EQ(fake.op_count, 2);
    stage_settle();
    CHECK_EQ(stage.told, 10);
    CHECK_EQ(stage.mover->bounces.bytes, 128u << 10);
    stage_end();
}

TEST(bounce, makes_room_for_a_larger_one_out_of_idle_ones)
{
    kvl_bounces_t bounces;
    kvl_bounce_t *a, *b, *c;

    kvl_bounces_init(&bounces, 256u << 10);
    REQUIRE(kvl_bounce_get(&bounces, 1, &a) == KVL_OK);
    REQUIRE(kvl_bounce_get(&bounces, 65536, &b) == KVL_OK);
    CHECK_EQ(bounces.bytes, 128u << 10);
    kvl_bounce_put(&bounces, a);
    CHECK_EQ(kvl_bounce_get(&bounces, 200u << 10, &c), KVL_ERR_BUSY); /* b is in use */
    kvl_bounce_put(&bounces, b);
    REQUIRE(kvl_bounce_get(&bounces, 200u << 10, &c) == KVL_OK);
    CHECK_EQ(bounces.bytes, 256u << 10);
    kvl_bounce_put(&bounces, c);
    REQUIRE(kvl_bounce_get(&bounces, 1u << 20, &c) == KVL_OK); /* alone it may be over the bound */
    CHECK_EQ(bounces.bytes, 1u << 20);
    CHECK_EQ(kvl_bounce_get(&bounces, 1, &a), KVL_ERR_BUSY);
    kvl_bounce_put(&bounces, c);
    kvl_bounces_cleanup(&bounces);
    CHECK_EQ(bounces.bytes, 0);
}

TEST(bounce, gives_the_smallest_that_fits)
{
    kvl_bounces_t bounces;
    kvl_bounce_t *small, *large, *again;

    kvl_bounces_init(&bounces, 1u << 20);
    REQUIRE(kvl_bounce_get(&bounces, 1, &small) == KVL_OK);
    REQUIRE(kvl_bounce_get(&bounces, 100000, &large) == KVL_OK);
    kvl_bounce_put(&bounces, small);
    kvl_bounce_put(&bounces, large);
    REQUIRE(kvl_bounce_get(&bounces, 60000, &again) == KVL_OK);
    CHECK(again == small);
    kvl_bounce_put(&bounces, again);
    kvl_bounces_cleanup(&bounces);
}
