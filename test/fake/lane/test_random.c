/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake/lane/stage.h"
#include "lane/private.h"

#include <string.h>

/* Random moves, flows, completions, answers, cancels, failures and stops. What always holds:
 * the fake checks credit; stage_done() checks exactly-once, quiet memory and bytes; here: depth, the
 * bound on sg ops of a rail, no stall, and that a warm-blooded end is reached. */

static uint64_t seed;

static unsigned dice(unsigned sides)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)((seed >> 11) % sides);
}

static bool sometimes(void)
{
    return dice(3) == 0;
}

static void world_make(void)
{
    static bool (*const speeds[])(void) = {NULL, NULL, sometimes, fake_always};
    unsigned rails = 1 + dice(2), sg = 1 + dice(4), rail, i;

    stage_start((stage_params_t){.depth = 1 + dice(10), .chunk = 1 + dice(700)});
    kvl_mover_destroy(stage.mover);
    stage.params.data_depth  = dice(6);
    stage.params.put_mode    = dice(2) ? KVL_MODE_IS_ONESIDED : KVL_MODE_IS_MESSAGE;
    stage.params.get_mode    = dice(2) ? KVL_MODE_IS_ONESIDED : KVL_MODE_IS_MESSAGE;
    stage.params.gathers     = dice(2);
    stage.params.iov_is_fast = dice(2);
    stage.params.recv_bounce = dice(3) == 0;
    REQUIRE(kvl_mover_create(&stage.params, &stage.mover) == KVL_OK);
    stage.mover->bounces.bytes_max = (128u << 10) << dice(4);
    for (rail = 0; rail < rails; rail++) {
        REQUIRE(kvl_mover_add(stage.mover, fake_endpoint(KVL_LANE_DATA, rail)) == KVL_OK);
        for (i = 0; i < sg; i++) {
            REQUIRE(kvl_mover_add(stage.mover, fake_endpoint(KVL_LANE_SG, rail)) == KVL_OK);
        }
    }
    fake.at_once = speeds[dice(4)];
}

static void world_submit(void)
{
    size_t lengths[24];
    unsigned count = 1 + dice(24), i;

    if (stage.move_count == 60) {
        return;
    }
    for (i = 0; i < count; i++) {
        lengths[i] = 1 + dice(300);
    }
    stage_submit(dice(6),
                 stage_move_of(dice(2) ? KVL_MOVE_PUT : KVL_MOVE_GET,
                               dice(3) ? KVL_LANE_SG : KVL_LANE_DATA, lengths, count, dice(2)));
}

static const stage_move_t *move_at(const void *address)
{
    unsigned i;

    for (i = 0; i < stage.move_count; i++) {
        const stage_move_t *mine = &stage.moves[i];
        const kvl_piece_t *last  = &mine->pieces[mine->move.piece_count - 1];

        if ((uintptr_t)address >= (uintptr_t)mine->pieces[0].address &&
            (uintptr_t)address < (uintptr_t)last->address + last->length) {
            return mine;
        }
    }
    return NULL;
}

static void world_check(void)
{
    unsigned busy = 0, sg[2] = {0, 0}, endpoints[2] = {0, 0}, i;
    bool seen[STAGE_MOVES] = {false};
    kvl_mover_stats_t stats;

    for (i = 0; i < fake.op_count; i++) {
        const stage_move_t *mine = move_at(fake.ops[i].rma.address);

        if (mine && !seen[mine - stage.moves]) {
            seen[mine - stage.moves] = true;
            busy++;
        }
    }
    CHECK(busy <= stage.params.depth);
    for (i = 0; i < fake.ep_count; i++) {
        if (fake.eps[i].sg) {
            sg[fake.eps[i].rail] += fake.eps[i].ops;
            endpoints[fake.eps[i].rail]++;
        }
    }
    for (i = 0; i < 2; i++) {
        CHECK(sg[i] <= stage.params.depth && sg[i] <= endpoints[i]);
    }
    kvl_mover_stats(stage.mover, &stats);
    CHECK(stats.active <= stage.params.depth + STAGE_MOVES);
    CHECK(stage.mover->sched.active <= stage.params.depth);
    CHECK_EQ(stats.active + stats.queued + stage.told, stage.move_count);
}

static void world_step(unsigned trouble)
{
    switch (dice(8)) {
    case 0:
    case 1:
        world_submit();
        break;
    case 2:
    case 3:
        if (fake.op_count) {
            fake_complete(dice((unsigned)fake.op_count),
                          trouble && dice(20) == 0 ? KVL_ERR_RAIL : KVL_OK);
        }
        break;
    case 4:
        if (fake.question_count) {
            fake_answer(stage.mover, dice((unsigned)fake.question_count),
                        trouble && dice(10) == 0 ? KVL_ERR_LEASE : KVL_OK, dice(2));
        }
        break;
    case 5:
        if (trouble && stage.move_count && dice(4) == 0) {
            kvl_mover_cancel(stage.mover, &stage.moves[dice(stage.move_count)].move,
                             KVL_ERR_CANCELED);
        } else if (trouble && dice(6) == 0) {
            fake.fail_in     = 1 + dice(5);
            fake.fail_status = KVL_ERR_RAIL;
        }
        break;
    default:
        stage.in_pump = true;
        kvl_mover_pump(stage.mover);
        stage.in_pump = false;
    }
}

/* trouble 0: all is well. 1: cancels and failures. 2: and a stop at the end. */
static void world_run(uint64_t number, unsigned trouble)
{
    unsigned steps, i;

    seed = number * UINT64_C(0x9e3779b97f4a7c15) + 1;
    world_make();
    for (steps = 50 + dice(500); steps; steps--) {
        world_step(trouble);
        world_check();
    }
    if (trouble == 2) {
        kvl_mover_stop(stage.mover, KVL_ERR_PEER);
        stage_pump();
        fake_close();
        stage_pump();
    } else {
        fake.fail_in = 0;
        stage_settle(); /* nothing stalls */
    }
    CHECK_EQ(stage.told, stage.move_count);
    for (i = 0; i < stage.move_count; i++) {
        CHECK_EQ(stage.moves[i].told, 1);
        CHECK(trouble || stage.moves[i].status == KVL_OK);
    }
    stage_end();
}

TEST(random, worlds_without_trouble_move_every_byte_once)
{
    uint64_t i;

    for (i = 1; i <= 400; i++) {
        world_run(i, 0);
    }
}

TEST(random, worlds_with_cancels_and_failures_end_clean)
{
    uint64_t i;

    for (i = 1001; i <= 1400; i++) {
        world_run(i, 1);
    }
}

TEST(random, worlds_that_stop_end_clean)
{
    uint64_t i;

    for (i = 2001; i <= 2400; i++) {
        world_run(i, 2);
    }
}
