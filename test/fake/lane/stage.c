/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake/lane/stage.h"

#include <stdlib.h>
#include <string.h>

stage_t stage;

void stage_start(stage_params_t params)
{
    unsigned i;

    fake_start();
    memset(&stage, 0, sizeof(stage));
    stage.local = malloc(STAGE_LOCAL);
    for (i = 0; i < STAGE_LOCAL; i++) {
        stage.local[i] = (uint8_t)(i * 13 + (i >> 9) + 1);
    }
    for (i = 0; i < 8; i++) {
        kvl_flow_init(&stage.flows[i]);
    }
    stage.params = (kvl_mover_params_t){.depth       = params.depth,
                                        .data_depth  = params.data_depth,
                                        .chunk_bytes = params.chunk ? params.chunk : 1u << 20,
                                        .put_mode    = params.mode,
                                        .get_mode    = params.mode,
                                        .pack_max    = KVL_PACK_AUTO,
                                        .rail_count  = params.rails,
                                        .stripe_min  = 64u << 10,
                                        .stages      = params.stages,
                                        .direct      = params.direct};
    REQUIRE(kvl_mover_create(&stage.params, &stage.mover) == KVL_OK);
    for (i = 0; i < (params.rails ? params.rails : 1) * (params.data + params.sg); i++) {
        unsigned rail = i / (params.data + params.sg), at = i % (params.data + params.sg);

        REQUIRE(kvl_mover_add(stage.mover, fake_endpoint(at < params.data ? KVL_LANE_DATA : KVL_LANE_SG,
                                                         rail)) == KVL_OK);
    }
}

void stage_end(void)
{
    unsigned i;

    for (i = 0; i < stage.move_count; i++) {
        CHECK_EQ(stage.moves[i].told, stage.moves[i].move.done != NULL);
    }
    CHECK(kvl_mover_idle(stage.mover));
    kvl_mover_destroy(stage.mover);
    fake_end();
    free(stage.local);
}

static void stage_done(kvl_move_t *move, kvl_status_t status)
{
    stage_move_t *mine = kvl_container(move, stage_move_t, move);
    size_t i;

    CHECK(stage.in_pump);
    CHECK_EQ(move->ops_out, 0);
    for (i = 0; i < move->piece_count; i++) { /* its memory is quiet */
        CHECK(!fake_touches(move->pieces[i].address, move->pieces[i].length));
    }
    mine->told++;
    mine->status = status;
    stage.told++;
    if (status == KVL_OK) {
        stage_check_moved(mine);
    }
}

stage_move_t *stage_move_of(kvl_move_dir_t dir, kvl_lane_kind_t lane, const size_t *lengths,
                            unsigned count, bool holes)
{
    static kvl_mem_t *const mems[2] = {(kvl_mem_t *)stage.pieces, (kvl_mem_t *)stage.pieces};
    stage_move_t *mine              = &stage.moves[stage.move_count++];
    unsigned i;

    REQUIRE(stage.move_count <= STAGE_MOVES && stage.piece_count + count <= STAGE_PIECES);
    *mine      = (stage_move_t){.pieces = &stage.pieces[stage.piece_count]};
    mine->move = (kvl_move_t){.dir          = dir,
                              .lane         = lane,
                              .pieces       = mine->pieces,
                              .piece_count  = count,
                              .remote       = &fake_region,
                              .scope        = holes,
                              .token        = holes ? FAKE_REGION : stage.remote_at,
                              .value_offset = holes ? 0 : stage.remote_at};
    for (i = 0; i < count; i++) {
        stage.pieces[stage.piece_count++] = (kvl_piece_t){.address = stage.local + stage.local_at,
                                                          .length  = lengths[i],
                                                          .mems    = mems,
                                                          .remote_offset = stage.remote_at};
        stage.local_at += lengths[i] + 16;
        stage.remote_at += lengths[i] + (holes && i % 3 == 0 ? 8 : 0);
        mine->length += lengths[i];
    }
    REQUIRE(stage.local_at <= STAGE_LOCAL && stage.remote_at <= FAKE_REMOTE);
    return mine;
}

stage_move_t *stage_move(kvl_move_dir_t dir, kvl_lane_kind_t lane, unsigned count, size_t length)
{
    size_t lengths[1024];
    unsigned i;

    for (i = 0; i < count; i++) {
        lengths[i] = length;
    }
    return stage_move_of(dir, lane, lengths, count, false);
}

void stage_submit(unsigned flow, stage_move_t *move)
{
    move->move.done = stage_done;
    kvl_mover_submit(stage.mover, &stage.flows[flow], &move->move);
}

unsigned stage_pump(void)
{
    unsigned n, total = 0;

    stage.in_pump = true;
    do {
        n = kvl_mover_pump(stage.mover);
        total += n;
    } while (n);
    stage.in_pump = false;
    return total;
}

void stage_settle(void)
{
    do {
        while (fake.question_count) {
            CHECK(fake_answer(stage.mover, 0, KVL_OK, true) >= 0);
        }
        fake_complete_all(KVL_OK);
    } while (stage_pump() || fake.op_count || fake.question_count);
}

void stage_check_moved(const stage_move_t *mine)
{
    size_t i, j;

    for (i = 0; i < mine->move.piece_count; i++) {
        const kvl_piece_t *piece = &mine->pieces[i];

        CHECK_MEM_EQ(piece->address, &fake.remote[piece->remote_offset], piece->length);
        for (j = 0; mine->move.dir == KVL_MOVE_PUT && j < piece->length; j++) {
            CHECK(fake.written[piece->remote_offset + j] == 1 || stage.twice);
        }
    }
}
