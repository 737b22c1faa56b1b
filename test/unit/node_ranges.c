/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/shim.h"

#include "node/ranges.h"

#include <string.h>

TEST(ranges_add, is_whole_when_every_byte_came_once_in_any_order)
{
    kvl_ranges_t ranges;

    kvl_ranges_init(&ranges);
    CHECK(!kvl_ranges_whole(&ranges, 100));
    CHECK_EQ(kvl_ranges_add(&ranges, 60, 100), KVL_OK);
    CHECK_EQ(kvl_ranges_add(&ranges, 0, 10), KVL_OK);
    CHECK_EQ(kvl_ranges_add(&ranges, 30, 60), KVL_OK);
    CHECK(!kvl_ranges_whole(&ranges, 100));
    CHECK_EQ(kvl_ranges_add(&ranges, 10, 30), KVL_OK);
    CHECK(kvl_ranges_whole(&ranges, 100));
    CHECK(!kvl_ranges_whole(&ranges, 99));
    CHECK(!kvl_ranges_whole(&ranges, 101));
    kvl_ranges_cleanup(&ranges);
}

TEST(ranges_add, refuses_a_byte_that_came_before)
{
    kvl_ranges_t ranges;

    kvl_ranges_init(&ranges);
    CHECK_EQ(kvl_ranges_add(&ranges, 10, 20), KVL_OK);
    CHECK_EQ(kvl_ranges_add(&ranges, 10, 20), KVL_ERR_RANGE);
    CHECK_EQ(kvl_ranges_add(&ranges, 0, 11), KVL_ERR_RANGE);
    CHECK_EQ(kvl_ranges_add(&ranges, 19, 30), KVL_ERR_RANGE);
    CHECK_EQ(kvl_ranges_add(&ranges, 0, 100), KVL_ERR_RANGE);
    CHECK_EQ(kvl_ranges_add(&ranges, 12, 13), KVL_ERR_RANGE);
    CHECK_EQ(kvl_ranges_add(&ranges, 0, 10), KVL_OK);
    CHECK(kvl_ranges_whole(&ranges, 20));
    kvl_ranges_cleanup(&ranges);
}

/* against one bit per byte */
TEST(ranges_add, agrees_with_a_map_of_bytes)
{
    static bool map[4096];
    uint64_t state = 1;
    unsigned round, step;

    for (round = 0; round < 20; round++) {
        kvl_ranges_t ranges;
        unsigned set = 0;

        memset(map, 0, sizeof(map));
        kvl_ranges_init(&ranges);
        for (step = 0; step < 14096 && set < sizeof(map); step++) {
            unsigned from, length, i;
            bool taken = false;

            state  = state * 6364136223846793005u + 1442695040888963407u;
            from   = (state >> 33) % sizeof(map);
            length = step < 10000 ? 1 + (state >> 50) % 7 : 1;
            from   = step < 10000 ? from : step - 10000; /* what chance left over */
            length = from + length > sizeof(map) ? (unsigned)sizeof(map) - from : length;
            for (i = from; i < from + length; i++) {
                taken = taken || map[i];
            }
            REQUIRE(kvl_ranges_add(&ranges, from, from + length) ==
                    (taken ? KVL_ERR_RANGE : KVL_OK));
            for (i = from; !taken && i < from + length; i++) {
                map[i] = true;
                set++;
            }
            REQUIRE(kvl_ranges_whole(&ranges, sizeof(map)) == (set == sizeof(map)));
        }
        CHECK_EQ(set, sizeof(map));
        kvl_ranges_cleanup(&ranges);
    }
}

TEST(ranges_add, keeps_no_more_gaps_than_it_says)
{
    kvl_ranges_t ranges;
    kvl_status_t status = KVL_OK;
    unsigned n          = 0;

    kvl_ranges_init(&ranges);
    while (status == KVL_OK && n < 100000) {
        status = kvl_ranges_add(&ranges, 2 * n, 2 * n + 1);
        n++;
    }
    CHECK_EQ(status, KVL_ERR_LIMIT);
    CHECK(n >= KVL_RANGES_MAX && n <= 8 * KVL_RANGES_MAX + 1);
    /* what closes a gap is still welcome */
    CHECK_EQ(kvl_ranges_add(&ranges, 1, 2), KVL_OK);
    kvl_ranges_cleanup(&ranges);
}
