/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake/lane/stage.h"

#include "lane/stage.h"

#include <stdlib.h>
#include <string.h>

/* Ops of device memory. The device is played: a copy is done when its fence is asked and nobody holds it. */

#define POOL  (1u << 20)
#define COPIES 256

static struct {
    kvl_copy_t copies[COPIES];
    unsigned waiting, made, fences, flushes;
    bool held, fails;
} device;

static kvl_device_t *const gpu = (kvl_device_t *)&device;
static kvl_stages_t stages;
static uint8_t *pool;
static uint32_t direct[KVL_DEVICES_MAX];

kvl_status_t __wrap_kvl_device_copy(kvl_device_t *of, kvl_copy_dir_t dir, const kvl_copy_t *copies, size_t count);
kvl_status_t __wrap_kvl_device_settle(kvl_device_t *of, kvl_copy_dir_t dir);
unsigned __wrap_kvl_device_number(const kvl_device_t *of);
kvl_status_t __wrap_kvl_device_flush(kvl_device_t *of);
kvl_status_t __wrap_kvl_fence_set(kvl_fence_t *fence, kvl_device_t *of, kvl_copy_dir_t dir);
kvl_status_t __wrap_kvl_fence_test(const kvl_fence_t *fence);
void __wrap_kvl_fence_cleanup(kvl_fence_t *fence);

kvl_status_t __wrap_kvl_device_copy(kvl_device_t *of, kvl_copy_dir_t dir, const kvl_copy_t *copies, size_t count)
{
    (void)dir;
    CHECK(of == gpu);
    REQUIRE(device.waiting + count <= COPIES);
    memcpy(device.copies + device.waiting, copies, count * sizeof(*copies));
    device.waiting += (unsigned)count;
    device.made += (unsigned)count;
    return device.fails ? KVL_ERR_INVALID : KVL_OK;
}

kvl_status_t __wrap_kvl_device_settle(kvl_device_t *of, kvl_copy_dir_t dir)
{
    (void)of;
    (void)dir;
    while (device.waiting) {
        const kvl_copy_t *copy = &device.copies[--device.waiting];

        memcpy(copy->to, copy->from, copy->length);
    }
    return KVL_OK;
}

unsigned __wrap_kvl_device_number(const kvl_device_t *of)
{
    CHECK(of == gpu);
    return 3;
}

kvl_status_t __wrap_kvl_device_flush(kvl_device_t *of)
{
    CHECK(of == gpu);
    device.flushes++;
    return KVL_OK;
}

kvl_status_t __wrap_kvl_fence_set(kvl_fence_t *fence, kvl_device_t *of, kvl_copy_dir_t dir)
{
    (void)dir;
    *fence = (kvl_fence_t){of, &device};
    device.fences++;
    return KVL_OK;
}

kvl_status_t __wrap_kvl_fence_test(const kvl_fence_t *fence)
{
    CHECK(fence->device == gpu);
    return device.held ? KVL_INPROGRESS : __wrap_kvl_device_settle(gpu, KVL_TO_HOST);
}

void __wrap_kvl_fence_cleanup(kvl_fence_t *fence)
{
    *fence = (kvl_fence_t){.event = NULL};
}

static void start(kvl_mode_t mode, const uint32_t *paths)
{
    static kvl_mem_t *const mems[2] = {(kvl_mem_t *)stage.pieces, (kvl_mem_t *)stage.pieces};

    memset(&device, 0, sizeof(device));
    memset(direct, 0, sizeof(direct));
    pool = malloc(POOL);
    REQUIRE(pool && kvl_stages_init(&stages, pool, POOL, mems) == KVL_OK);
    stage_start((stage_params_t){.depth = 8, .data = 1, .sg = 4, .mode = mode, .stages = &stages, .direct = paths});
}

static void end(void)
{
    CHECK_EQ(stages.busy, 0);
    CHECK_EQ(device.waiting, 0);
    stage_end();
    kvl_stages_cleanup(&stages);
    free(pool);
}

/* its pieces are device memory, but for the last if @a tagged */
static stage_move_t *move_of_device(kvl_move_dir_t dir, unsigned count, size_t length, bool tagged)
{
    stage_move_t *mine = stage_move(dir, count > 1 ? KVL_LANE_SG : KVL_LANE_DATA, count, length);
    unsigned i;

    mine->move.device = gpu;
    for (i = 0; i < count - tagged; i++) {
        mine->pieces[i].device = gpu;
    }
    return mine;
}

static void pump_once(void)
{
    stage.in_pump = true;
    CHECK(kvl_mover_pump(stage.mover) > 0); /* it is to be asked again: nobody tells when a copy is over */
    stage.in_pump = false;
}

/* what lies apart here and together there is one op, onesided as well */
TEST(staged_put, is_posted_when_its_copy_is_over)
{
    kvl_mode_t mode;

    for (mode = KVL_MODE_IS_ONESIDED; mode <= KVL_MODE_IS_MESSAGE; mode++) {
        stage_move_t *mine;

        start(mode, NULL);
        mine        = move_of_device(KVL_MOVE_PUT, 61, 1000, true);
        device.held = true;
        stage_submit(0, mine);
        pump_once();
        pump_once();
        CHECK_EQ(fake.op_count, 0);
        CHECK_EQ(device.made, 60); /* the last is the host's */
        CHECK_EQ(device.fences, 1);
        CHECK(kvl_move_busy(&mine->move));
        device.held = false;
        pump_once();
        CHECK_EQ(mine->move.ops_total, 1);
        stage_settle();
        CHECK_EQ(mine->status, KVL_OK);
        end();
    }
}

TEST(staged_get, is_over_when_its_copy_is)
{
    kvl_mode_t mode;

    for (mode = KVL_MODE_IS_ONESIDED; mode <= KVL_MODE_IS_MESSAGE; mode++) {
        stage_move_t *mine;

        start(mode, NULL);
        mine = move_of_device(KVL_MOVE_GET, 61, 1000, true);
        stage_submit(0, mine);
        stage_pump();
        device.held = true;
        while (fake.question_count) {
            CHECK(fake_answer(stage.mover, 0, KVL_OK, true) >= 0);
        }
        fake_complete_all(KVL_OK);
        pump_once();
        CHECK_EQ(mine->told, 0);
        CHECK_EQ(device.made, 60);
        device.held = false;
        stage_settle();
        CHECK_EQ(mine->status, KVL_OK);
        end();
    }
}

TEST(staged_put, that_is_canceled_is_not_posted)
{
    stage_move_t *mine;

    start(KVL_MODE_IS_ONESIDED, NULL);
    mine        = move_of_device(KVL_MOVE_PUT, 5, 1000, false);
    device.held = true;
    stage_submit(0, mine);
    pump_once();
    kvl_mover_cancel(stage.mover, &mine->move, KVL_ERR_TIMEOUT);
    pump_once();
    CHECK_EQ(mine->told, 0); /* the copy still reads it */
    device.held = false;
    stage_pump();
    CHECK_EQ(mine->told, 1);
    CHECK_EQ(mine->status, KVL_ERR_TIMEOUT);
    CHECK_EQ(fake.op_count, 0);
    end();
}

TEST(staged_moves, end_with_their_link)
{
    stage_move_t *put, *get;

    start(KVL_MODE_IS_MESSAGE, NULL);
    put         = move_of_device(KVL_MOVE_PUT, 5, 1000, false);
    get         = move_of_device(KVL_MOVE_GET, 5, 1000, false);
    device.held = true;
    stage_submit(0, put);
    stage_submit(1, get);
    pump_once();
    kvl_mover_stop(stage.mover, KVL_ERR_PEER);
    pump_once();
    CHECK_EQ(put->told, 0);
    CHECK(!kvl_mover_idle(stage.mover));
    fake_close();
    device.held = false;
    stage_pump();
    CHECK_EQ(put->status, KVL_ERR_PEER);
    CHECK_EQ(get->status, KVL_ERR_PEER);
    end();
}

/* the stages hold four of the ten; the others wait, none fails */
TEST(staged_moves, wait_for_stages)
{
    stage_move_t *moves[10];
    unsigned i;

    start(KVL_MODE_IS_MESSAGE, NULL);
    for (i = 0; i < 10; i++) {
        moves[i] = move_of_device(i % 2 ? KVL_MOVE_PUT : KVL_MOVE_GET, 1, 40000, false);
    }
    while (kvl_stage_get(&stages, 3 * (POOL / 16))) { /* 1 of 16 units is left */
    }
    for (i = 0; i < 10; i++) {
        stage_submit(i % 8, moves[i]);
    }
    stage_settle();
    for (i = 0; i < 10; i++) {
        CHECK_EQ(moves[i]->status, KVL_OK);
    }
    for (i = 0; i < 15; i += 3) {
        kvl_stage_put(&stages, pool + i * (POOL / 16));
    }
    end();
}

TEST(staged_op, that_the_device_refuses_fails_its_move)
{
    stage_move_t *bad, *good;

    start(KVL_MODE_IS_ONESIDED, NULL);
    bad          = move_of_device(KVL_MOVE_PUT, 5, 1000, false);
    good         = move_of_device(KVL_MOVE_PUT, 5, 1000, false);
    device.fails = true;
    stage_submit(0, bad);
    pump_once();
    device.fails = false;
    stage_submit(0, good);
    stage_settle();
    CHECK_EQ(bad->status, KVL_ERR_INVALID);
    CHECK_EQ(good->status, KVL_OK);
    end();
}

/* a rail that reaches the memory: each piece is an op, nothing is copied, what came is flushed once */
TEST(direct_op, takes_no_stage)
{
    stage_move_t *put, *get;

    start(KVL_MODE_IS_ONESIDED, direct);
    direct[3] = 1;
    put       = move_of_device(KVL_MOVE_PUT, 5, 1000, false);
    get       = move_of_device(KVL_MOVE_GET, 5, 1000, false);
    stage_submit(0, put);
    stage_submit(0, get);
    stage_settle();
    CHECK(put->status == KVL_OK && get->status == KVL_OK);
    CHECK_EQ(put->move.ops_total, 5);
    CHECK_EQ(get->move.ops_total, 5);
    CHECK_EQ(device.made, 0);
    CHECK_EQ(device.flushes, 1);
    end();
}

/* one that another device may take, and message mode, go through stages */
TEST(direct_op, is_of_its_device_and_onesided)
{
    kvl_mode_t mode;

    for (mode = KVL_MODE_IS_ONESIDED; mode <= KVL_MODE_IS_MESSAGE; mode++) {
        stage_move_t *mine;

        start(mode, direct);
        direct[mode == KVL_MODE_IS_ONESIDED ? 2 : 3] = 1;
        mine = move_of_device(KVL_MOVE_PUT, 5, 1000, false);
        stage_submit(0, mine);
        stage_settle();
        CHECK_EQ(mine->status, KVL_OK);
        CHECK_EQ(device.made, 5);
        end();
    }
}
