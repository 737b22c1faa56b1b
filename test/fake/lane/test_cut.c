/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake/lane/transport.h"
#include "lane/sched.h"
#include "shim/shim.h"

/* pure decisions: where an op ends, how its bytes travel, which lane an item takes, what merges */

static char local[4096];
static kvl_mem_t *const mems_a[1], *const mems_b[1];

static kvl_cut_t cut_at(const kvl_piece_t *pieces, size_t count, kvl_mode_t mode, uint64_t chunk,
                        uint8_t scope, size_t piece, size_t at)
{
    kvl_move_t move = {.pieces       = pieces,
                       .piece_count  = count,
                       .scope        = scope,
                       .value_offset = scope ? 0 : pieces[0].remote_offset,
                       .piece        = piece,
                       .piece_at     = at};
    kvl_cut_t cut;

    kvl_cut_next(&move, mode, mode == KVL_MODE_IS_MESSAGE, chunk, &cut);
    return cut;
}

TEST(cut, takes_one_piece_onesided_and_cuts_it_at_the_chunk)
{
    const kvl_piece_t pieces[] = {{local, 100, mems_a, 1000, NULL}, {local + 200, 50, mems_a, 1100, NULL}};
    kvl_cut_t cut              = cut_at(pieces, 2, KVL_MODE_IS_ONESIDED, 64, 0, 0, 0);

    CHECK_EQ(cut.length, 64);
    CHECK_EQ(cut.count, 1);
    CHECK_EQ(cut.remote_offset, 1000);
    CHECK_EQ(cut.piece, 0);
    CHECK_EQ(cut.piece_at, 64);
    cut = cut_at(pieces, 2, KVL_MODE_IS_ONESIDED, 64, 0, 0, 64);
    CHECK_EQ(cut.length, 36);
    CHECK_EQ(cut.remote_offset, 1064);
    CHECK_EQ(cut.piece, 1);
    CHECK_EQ(cut.piece_at, 0);
    cut = cut_at(pieces, 2, KVL_MODE_IS_ONESIDED, 64, 0, 1, 0);
    CHECK_EQ(cut.length, 50);
    CHECK_EQ(cut.piece, 2);
}

TEST(cut, goes_on_onesided_only_over_neighbours_on_both_sides_in_one_registration)
{
    const kvl_piece_t both[]  = {{local, 100, mems_a, 0, NULL}, {local + 100, 50, mems_a, 100, NULL}};
    const kvl_piece_t here[]  = {{local, 100, mems_a, 0, NULL}, {local + 100, 50, mems_a, 101, NULL}};
    const kvl_piece_t there[] = {{local, 100, mems_a, 0, NULL}, {local + 101, 50, mems_a, 100, NULL}};
    const kvl_piece_t other[] = {{local, 100, mems_a, 0, NULL}, {local + 100, 50, mems_b, 100, NULL}};

    CHECK_EQ(cut_at(both, 2, KVL_MODE_IS_ONESIDED, 1000, 0, 0, 0).length, 150);
    CHECK_EQ(cut_at(here, 2, KVL_MODE_IS_ONESIDED, 1000, 0, 0, 0).length, 100);
    CHECK_EQ(cut_at(there, 2, KVL_MODE_IS_ONESIDED, 1000, 0, 0, 0).length, 100);
    CHECK_EQ(cut_at(other, 2, KVL_MODE_IS_ONESIDED, 1000, 0, 0, 0).length, 100);
}

static kvl_cut_t ranges_at(const kvl_piece_t *pieces, size_t count, size_t piece, size_t at)
{
    kvl_move_t move = {.pieces = pieces, .piece_count = count, .scope = 1, .piece = piece, .piece_at = at};
    kvl_cut_t cut   = cut_at(pieces, count, KVL_MODE_IS_MESSAGE, 1 << 20, 1, piece, at);

    kvl_cut_ranges(&move, &cut);
    return cut;
}

TEST(cut_ranges, puts_small_pieces_that_lie_apart_there_into_one_op)
{
    static kvl_piece_t many[200];
    kvl_cut_t cut;
    size_t i;

    for (i = 0; i < 200; i++) {
        many[i] = (kvl_piece_t){local, 10, mems_a, (200 - i) * 100, NULL};
    }
    cut = ranges_at(many, 200, 0, 0);
    CHECK_EQ(cut.ranges, 64); /* most that a head holds */
    CHECK_EQ(cut.count, 64);
    CHECK_EQ(cut.length, 640);
    CHECK_EQ(cut.piece, 64);
    CHECK_EQ(cut.piece_at, 0);
    CHECK_EQ(ranges_at(many, 200, 192, 0).ranges, 8);
    CHECK_EQ(ranges_at(many, 200, 199, 0).ranges, 0); /* the last alone is contiguous */
    for (i = 0; i < 200; i++) {
        many[i].length = 16384;
    }
    CHECK_EQ(ranges_at(many, 200, 0, 0).ranges, 4); /* 64 KiB */
    CHECK_EQ(ranges_at(many, 200, 0, 1).ranges, 0); /* in mid piece */
    many[2].length = 16385;
    CHECK_EQ(ranges_at(many, 200, 0, 0).ranges, 2);
    CHECK_EQ(ranges_at(many, 200, 1, 0).ranges, 0);
    CHECK_EQ(ranges_at(many, 200, 2, 0).ranges, 0);
}

TEST(cut_ranges, leaves_what_lies_in_a_row_there_as_one_range)
{
    const kvl_piece_t row[] = {{local, 100, mems_a, 0, NULL}, {local + 500, 100, mems_a, 100, NULL},
                                 {local + 900, 100, mems_a, 200, NULL}};
    const kvl_piece_t end[] = {{local, 100, mems_a, 0, NULL}, {local + 500, 100, mems_a, 100, NULL},
                                 {local + 900, 100, mems_a, 900, NULL}};
    kvl_cut_t cut           = ranges_at(row, 3, 0, 0);

    CHECK_EQ(cut.ranges, 0);
    CHECK_EQ(cut.length, 300);
    cut = ranges_at(end, 3, 0, 0);
    CHECK_EQ(cut.ranges, 3);
    CHECK_EQ(cut.length, 300);
}

TEST(cut, gathers_pieces_for_a_message_while_they_are_neighbours_there)
{
    const kvl_piece_t pieces[] = {{local + 500, 100, mems_a, 0, NULL},
                                  {local, 100, mems_b, 100, NULL},
                                  {local + 700, 10, mems_a, 200, NULL},
                                  {local + 800, 10, mems_a, 300, NULL}};
    kvl_cut_t cut              = cut_at(pieces, 4, KVL_MODE_IS_MESSAGE, 1000, 1, 0, 0);

    CHECK_EQ(cut.count, 3);
    CHECK_EQ(cut.length, 210);
    CHECK_EQ(cut.piece, 3);
    cut = cut_at(pieces, 4, KVL_MODE_IS_MESSAGE, 150, 1, 0, 30);
    CHECK_EQ(cut.count, 2);
    CHECK_EQ(cut.length, 150);
    CHECK_EQ(cut.remote_offset, 30);
    CHECK_EQ(cut.piece, 1);
    CHECK_EQ(cut.piece_at, 80);
}

TEST(cut, keeps_the_chunks_of_a_value_where_the_target_counts_them)
{
    const kvl_piece_t pieces[] = {{local, 100, mems_a, 777, NULL}, {local + 500, 200, mems_a, 877, NULL}};
    size_t piece = 0, at = 0, lengths[4], i;

    for (i = 0; piece < 2; i++) {
        kvl_cut_t cut = cut_at(pieces, 2, KVL_MODE_IS_MESSAGE, 128, 0, piece, at);

        CHECK_EQ((cut.remote_offset - 777) % 128, 0);
        lengths[i] = cut.length;
        piece      = cut.piece;
        at         = cut.piece_at;
    }
    CHECK_EQ(i, 3); /* 300 bytes: 128 + 128 + 44 */
    CHECK_EQ(lengths[0], 128);
    CHECK_EQ(lengths[1], 128);
    CHECK_EQ(lengths[2], 44);
}

TEST(cut, of_a_part_of_a_value_ends_at_the_chunks_of_the_value)
{
    const kvl_piece_t pieces[] = {{local, 300, mems_a, 777, NULL}};
    kvl_move_t move            = {.pieces = pieces, .piece_count = 1, .value_offset = 700};
    kvl_cut_t cut;

    kvl_cut_next(&move, KVL_MODE_IS_MESSAGE, true, 128, &cut);
    CHECK_EQ(cut.length, 700 + 128 - 777);
}

TEST(cut, ends_exactly_at_the_end_of_a_piece)
{
    const kvl_piece_t pieces[] = {{local, 128, mems_a, 0, NULL}, {local + 500, 128, mems_a, 128, NULL}};
    kvl_cut_t cut              = cut_at(pieces, 2, KVL_MODE_IS_MESSAGE, 128, 0, 0, 0);

    CHECK_EQ(cut.count, 1);
    CHECK_EQ(cut.length, 128);
    CHECK_EQ(cut.piece, 1);
    CHECK_EQ(cut.piece_at, 0);
}

/* slices of 100 bytes from local on */
static void slices_begin(void)
{
    fake_start();
    fake.slice_base  = local;
    fake.slice_bytes = 100;
}

static kvl_mem_t *const sliced[1] = {(kvl_mem_t *)local};

TEST(cut, ends_where_a_slice_of_its_memory_ends)
{
    const kvl_piece_t one[] = {{local + 30, 230, sliced, 1000, NULL}};
    const kvl_piece_t two[] = {{local + 30, 70, sliced, 1000, NULL}, {local + 100, 50, sliced, 1070, NULL}};
    static const size_t lengths[] = {70, 100, 60};
    unsigned mode, i;
    size_t at;

    slices_begin();
    for (mode = KVL_MODE_IS_ONESIDED; mode <= KVL_MODE_IS_MESSAGE; mode++) {
        for (i = 0, at = 0; i < 3; at += lengths[i++]) {
            kvl_cut_t cut = cut_at(one, 1, (kvl_mode_t)mode, 1000, 1, 0, at);

            CHECK_EQ(cut.length, lengths[i]);
            CHECK_EQ(cut.piece, i == 2);
            CHECK_EQ(cut.piece_at, i == 2 ? 0 : at + lengths[i]);
        }
        CHECK_EQ(cut_at(two, 2, (kvl_mode_t)mode, 1000, 1, 0, 0).length, 70); /* neighbours, but not one slice */
        CHECK_EQ(cut_at(one, 1, (kvl_mode_t)mode, 50, 1, 0, 0).length, 50);   /* the chunk comes first */
    }
    fake_end();
}

TEST(cut, ends_where_a_slice_of_the_peers_region_ends)
{
    const kvl_piece_t pieces[]       = {{local, 230, mems_a, 130, NULL}};
    const kvl_remote_region_t remote = {.length = 1000, .slice_bytes = 100};
    static const size_t lengths[]    = {70, 100, 60};
    unsigned mode, i;

    for (mode = KVL_MODE_IS_ONESIDED; mode <= KVL_MODE_IS_MESSAGE; mode++) {
        kvl_move_t move = {.pieces = pieces, .piece_count = 1, .remote = &remote, .value_offset = 130};

        for (i = 0; i < 3; i++) {
            kvl_cut_t cut;

            kvl_cut_next(&move, (kvl_mode_t)mode, mode == KVL_MODE_IS_MESSAGE, 1000, &cut);
            CHECK_EQ(cut.length, lengths[i]);
            move.piece_at = cut.piece_at;
        }
    }
}

TEST(cut, gathers_onesided_pieces_up_to_the_end_of_the_peers_slice)
{
    const kvl_piece_t pieces[]       = {{local, 60, mems_a, 130, NULL}, {local + 100, 60, NULL, 190, NULL}, {local + 200, 9, mems_a, 250, NULL}};
    const kvl_remote_region_t remote = {.length = 1000, .slice_bytes = 100};
    kvl_move_t move                  = {.pieces = pieces, .piece_count = 3, .remote = &remote};
    kvl_cut_t cut;

    kvl_cut_next(&move, KVL_MODE_IS_ONESIDED, true, 1000, &cut);
    CHECK_EQ(cut.length, 70);
    CHECK_EQ(cut.count, 2);
    CHECK_EQ(cut.piece, 1);
    CHECK_EQ(cut.piece_at, 10);
    move.piece    = cut.piece;
    move.piece_at = cut.piece_at;
    kvl_cut_next(&move, KVL_MODE_IS_ONESIDED, true, 1000, &cut);
    CHECK_EQ(cut.length, 59);
    CHECK_EQ(cut.piece, 3);
}

TEST(cut, has_one_registration_only_within_a_slice)
{
    const kvl_piece_t pieces[] = {{local + 10, 20, sliced, 0, NULL}, {local + 60, 20, sliced, 20, NULL}, {local + 160, 9, sliced, 40, NULL}};
    kvl_move_t move            = {.pieces = pieces, .piece_count = 3, .scope = 1};
    kvl_cut_t cut;

    slices_begin();
    kvl_cut_next(&move, KVL_MODE_IS_MESSAGE, true, 1000, &cut);
    REQUIRE(cut.count == 3 && cut.length == 49); /* pieces of their own slices each */
    CHECK(kvl_cut_mem(&move, &cut, 0) == NULL);
    kvl_cut_next(&move, KVL_MODE_IS_MESSAGE, true, 40, &cut);
    REQUIRE(cut.count == 2);
    CHECK(kvl_cut_mem(&move, &cut, 0) == sliced[0]);
    fake_end();
}

TEST(cut, lists_its_pieces_with_both_ends_trimmed)
{
    const kvl_piece_t pieces[] = {
        {local, 100, mems_a, 0, NULL}, {local + 200, 50, mems_a, 100, NULL}, {local + 300, 70, mems_a, 150, NULL}};
    kvl_move_t move = {.pieces = pieces, .piece_count = 3, .scope = 1, .piece_at = 90};
    kvl_cut_t cut;
    kvl_iov_t iov[3];

    kvl_cut_next(&move, KVL_MODE_IS_MESSAGE, true, 80, &cut);
    REQUIRE(cut.count == 3);
    kvl_cut_iov(&move, &cut, iov);
    CHECK(iov[0].address == local + 90);
    CHECK_EQ(iov[0].length, 10);
    CHECK(iov[1].address == local + 200);
    CHECK_EQ(iov[1].length, 50);
    CHECK(iov[2].address == local + 300);
    CHECK_EQ(iov[2].length, 20);
}

TEST(cut, names_the_registration_that_covers_all_of_it)
{
    kvl_mem_t *const a[]       = {(kvl_mem_t *)local, (kvl_mem_t *)&local[1]};
    kvl_mem_t *const b[]       = {(kvl_mem_t *)&local[2], NULL};
    const kvl_piece_t pieces[] = {
        {local, 10, a, 0, NULL}, {local + 20, 10, a, 10, NULL}, {local + 40, 10, b, 20, NULL}};
    kvl_move_t move = {.pieces = pieces, .piece_count = 3};
    kvl_cut_t cut   = {.count = 2};

    CHECK(kvl_cut_mem(&move, &cut, 0) == a[0]);
    CHECK(kvl_cut_mem(&move, &cut, 1) == a[1]);
    cut.count = 3;
    CHECK(kvl_cut_mem(&move, &cut, 0) == NULL);
}

TEST(cut, packs_what_is_small_and_slow_as_it_lies)
{
    kvl_mover_params_t params = {.pack_max = KVL_PACK_AUTO};
    const kvl_mem_t *mem      = (const kvl_mem_t *)local;
    kvl_cut_t one = {.count = 1, .length = 100}, small = {.count = 61, .length = 61 * 4296};
    kvl_cut_t large = {.count = 4, .length = 4u << 20}, many = {.count = 1025, .length = 8u << 20};

    CHECK_EQ(kvl_cut_carry(&params, KVL_MOVE_PUT, &one, mem), KVL_CARRY_STRAIGHT);
    CHECK_EQ(kvl_cut_carry(&params, KVL_MOVE_PUT, &small, mem), KVL_CARRY_PACK);
    CHECK_EQ(kvl_cut_carry(&params, KVL_MOVE_PUT, &large, mem), KVL_CARRY_IOV);
    CHECK_EQ(kvl_cut_carry(&params, KVL_MOVE_PUT, &many, mem), KVL_CARRY_PACK);
    CHECK_EQ(kvl_cut_carry(&params, KVL_MOVE_GET, &small, mem), KVL_CARRY_IOV);
    params.iov_is_fast = true;
    CHECK_EQ(kvl_cut_carry(&params, KVL_MOVE_PUT, &small, mem), KVL_CARRY_IOV);
    params.pack_max = 4296;
    CHECK_EQ(kvl_cut_carry(&params, KVL_MOVE_PUT, &small, mem), KVL_CARRY_PACK);
    params.pack_max = 4295;
    CHECK_EQ(kvl_cut_carry(&params, KVL_MOVE_PUT, &small, mem), KVL_CARRY_IOV);
    CHECK_EQ(kvl_cut_carry(&params, KVL_MOVE_PUT, &small, NULL), KVL_CARRY_PACK);
    CHECK_EQ(kvl_cut_carry(&params, KVL_MOVE_GET, &small, NULL), KVL_CARRY_PACK);
    CHECK_EQ(kvl_cut_carry(&params, KVL_MOVE_GET, &one, NULL), KVL_CARRY_STRAIGHT);
    params.recv_bounce = true;
    CHECK_EQ(kvl_cut_carry(&params, KVL_MOVE_GET, &one, mem), KVL_CARRY_PACK);
}

TEST(carry, over_several_rails_packs_what_would_go_by_rendezvous)
{
    kvl_mover_params_t params = {.pack_max = KVL_PACK_AUTO, .iov_is_fast = true, .rail_count = 4};
    const kvl_mem_t *mem      = (const kvl_mem_t *)local;
    kvl_cut_t middle = {.count = 16, .length = 64u << 10}, large = {.count = 16, .length = 256u << 10};

    CHECK_EQ(kvl_cut_carry(&params, KVL_MOVE_PUT, &middle, mem), KVL_CARRY_PACK);
    CHECK_EQ(kvl_cut_carry(&params, KVL_MOVE_PUT, &large, mem), KVL_CARRY_IOV);
    CHECK_EQ(kvl_cut_carry(&params, KVL_MOVE_GET, &middle, mem), KVL_CARRY_IOV);
    params.rail_count = 1;
    CHECK_EQ(kvl_cut_carry(&params, KVL_MOVE_PUT, &middle, mem), KVL_CARRY_IOV);
}

TEST(lane, is_chosen_by_the_number_of_segments_and_the_policy)
{
    CHECK_EQ(kvl_lane_choose(KVL_SG_AUTO, 1, false), KVL_LANE_DATA);
    CHECK_EQ(kvl_lane_choose(KVL_SG_AUTO, 2, false), KVL_LANE_SG);
    CHECK_EQ(kvl_lane_choose(KVL_SG_AUTO, 1, true), KVL_LANE_DATA);
    CHECK_EQ(kvl_lane_choose(KVL_SG_AUTO, 2, true), KVL_LANE_SG);
    CHECK_EQ(kvl_lane_choose(KVL_SG_ALWAYS, 1, false), KVL_LANE_SG);
    CHECK_EQ(kvl_lane_choose(KVL_SG_NEVER, 9, false), KVL_LANE_DATA);
    CHECK_EQ(kvl_lane_choose(KVL_SG_NEVER, 2, true), KVL_LANE_SG);
    CHECK_STR_EQ(kvl_lane_name(KVL_LANE_CTRL), "ctrl");
    CHECK_STR_EQ(kvl_lane_name(KVL_LANE_SG), "sg");
    CHECK_STR_EQ(kvl_mode_name(KVL_MODE_IS_MESSAGE), "message");
}

TEST(pieces, merge_when_they_are_neighbours_on_both_sides)
{
    kvl_piece_t pieces[] = {{local, 10, mems_a, 0, NULL},      {local + 10, 20, mems_a, 10, NULL},
                            {local + 30, 5, mems_a, 31, NULL}, {local + 35, 5, mems_b, 36, NULL},
                            {local + 40, 5, mems_b, 41, NULL}, {local + 46, 5, mems_b, 46, NULL}};

    CHECK_EQ(kvl_pieces_merge(pieces, 6), 4);
    CHECK_EQ(pieces[0].length, 30);
    CHECK_EQ(pieces[1].remote_offset, 31);
    CHECK_EQ(pieces[2].length, 10);
    CHECK(pieces[3].address == local + 46);
    CHECK_EQ(kvl_pieces_merge(pieces, 1), 1);
    CHECK_EQ(kvl_pieces_merge(pieces, 0), 0);
}
