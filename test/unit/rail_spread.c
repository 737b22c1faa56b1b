/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/shim.h"

#include "rail/spread.h"

#include <string.h>

/* Rails that are simulated: each carries its ops one after the other at a rate of its own, and has a
 * number of credits. Time is counted, never measured. */

#define MB      1e6
#define CREDITS 8
#define RAILS   16

typedef struct {
    double rate; /* bytes/s */
    int64_t free_at_ns;
    struct {
        int64_t at_ns;
        uint64_t bytes;
    } ops[CREDITS]; /* in order of their ends */
    unsigned count;
    uint64_t carried, most;
} fake_rail_t;

static struct {
    kvl_spread_t spread;
    fake_rail_t rails[RAILS];
    int64_t latency_ns; /* of every op, beside its bytes */
    int64_t now_ns;
    unsigned window; /* ops under way on all rails together; 0: credits alone are the limit */
    uint64_t random;
} sim;

SETUP
{
    memset(&sim, 0, sizeof(sim));
    sim.random = 88172645463325252u;
}

static void sim_create(unsigned count, const double *rates)
{
    kvl_spread_init(&sim.spread, count, NULL);
    for (unsigned i = 0; i < count; i++) {
        sim.rails[i].rate = rates[i];
    }
}

static uint64_t sim_random(uint64_t below)
{
    sim.random ^= sim.random << 13;
    sim.random ^= sim.random >> 7;
    sim.random ^= sim.random << 17;
    return sim.random % below;
}

static void sim_post(unsigned index, uint64_t bytes)
{
    fake_rail_t *rail = &sim.rails[index];
    int64_t start     = rail->free_at_ns > sim.now_ns ? rail->free_at_ns : sim.now_ns;

    REQUIRE(rail->count < CREDITS);
    rail->free_at_ns               = start + (int64_t)((double)bytes / rail->rate * 1e9);
    rail->ops[rail->count].at_ns   = rail->free_at_ns + sim.latency_ns;
    rail->ops[rail->count++].bytes = bytes;
    kvl_spread_begin(&sim.spread, index, bytes, sim.now_ns);
}

/* lets the op complete that ends first; false if none is under way */
static bool sim_step(void)
{
    fake_rail_t *first = NULL;
    uint64_t bytes;

    for (unsigned i = 0; i < sim.spread.count; i++) {
        fake_rail_t *rail = &sim.rails[i];

        if (rail->count && (!first || rail->ops[0].at_ns < first->ops[0].at_ns)) {
            first = rail;
        }
    }
    if (!first) {
        return false;
    }
    sim.now_ns = first->ops[0].at_ns;
    bytes      = first->ops[0].bytes;
    memmove(first->ops, first->ops + 1, (CREDITS - 1) * sizeof(first->ops[0]));
    first->count--;
    first->carried += bytes;
    kvl_spread_end(&sim.spread, (unsigned)(first - sim.rails), bytes, true, sim.now_ns);
    return true;
}

static uint32_t sim_room(void)
{
    uint32_t room  = 0;
    unsigned count = 0;

    for (unsigned i = 0; i < sim.spread.count; i++) {
        count += sim.rails[i].count;
        room |= sim.rails[i].count < CREDITS ? 1u << i : 0;
    }
    return sim.window && count >= sim.window ? 0 : room;
}

/* a batch of ops of up to @a bytes each, from first to last; returns how long it took, in seconds */
static double sim_batch(unsigned ops, uint64_t bytes, bool equal)
{
    static uint64_t sizes[100000];
    int64_t start    = sim.now_ns;
    uint64_t pending = 0;
    unsigned at      = 0;

    REQUIRE(ops <= 100000);
    for (unsigned i = 0; i < ops; i++) {
        sizes[i] = equal ? bytes : 1 + sim_random(bytes);
        pending += sizes[i];
    }
    while (at < ops) {
        unsigned rail = kvl_spread_pick(&sim.spread, sim_room(), sizes[at], pending);

        if (rail != KVL_SPREAD_NONE) {
            sim_post(rail, sizes[at]);
            pending -= sizes[at++];
        } else {
            REQUIRE(sim_step()); /* NONE with nothing under way would wait for ever */
        }
    }
    while (sim_step()) {
    }
    return (double)(sim.now_ns - start) / 1e9;
}

static void sim_forget(void)
{
    for (unsigned i = 0; i < RAILS; i++) {
        sim.rails[i].carried = 0;
    }
}

/* bytes of each rail are within a tenth of the mean */
static void check_balanced(void)
{
    double sum = 0;

    for (unsigned i = 0; i < sim.spread.count; i++) {
        sum += (double)sim.rails[i].carried;
    }
    for (unsigned i = 0; i < sim.spread.count; i++) {
        double part = (double)sim.rails[i].carried * sim.spread.count / sum;

        CHECK_MSG(part > 0.9 && part < 1.1, "rail %u of %u has %.2f of its part", i,
                  sim.spread.count, part);
    }
}

static const double equal_rates[] = {25 * MB, 25 * MB, 25 * MB, 25 * MB, 25 * MB, 25 * MB,
                                     25 * MB, 25 * MB, 25 * MB, 25 * MB, 25 * MB, 25 * MB,
                                     25 * MB, 25 * MB, 25 * MB, 25 * MB};

/* ---- equal rails ---- */

TEST(spread_equal, balances_bytes_at_every_size)
{
    static const uint64_t sizes[] = {1 << 10, 4 << 10, 16 << 10, 64 << 10};

    for (unsigned i = 0; i < 4; i++) {
        for (unsigned rails = 1; rails <= 8; rails++) {
            double seconds;

            memset(sim.rails, 0, sizeof(sim.rails));
            sim.latency_ns = 50000;
            sim_create(rails, equal_rates);
            seconds = sim_batch(2000, sizes[i], true);
            check_balanced();
            /* 25 MB/s a rail, and the credits hide the latency of 50 us except at 1 KiB */
            if (sizes[i] >= 16 << 10) {
                CHECK(2000.0 * (double)sizes[i] / seconds > 0.95 * rails * 25 * MB);
            }
        }
    }
}

TEST(spread_equal, balances_sizes_that_differ)
{
    sim_create(4, equal_rates);
    sim_batch(2000, 64 << 10, false);
    check_balanced();
}

TEST(spread_equal, balances_ops_that_complete_at_once)
{
    sim_create(4, equal_rates);
    for (unsigned i = 0; i < 1000; i++) {
        unsigned rail = kvl_spread_pick(&sim.spread, UINT32_MAX, 4096, 4096);

        REQUIRE(rail < 4);
        kvl_spread_begin(&sim.spread, rail, 4096, 0);
        kvl_spread_end(&sim.spread, rail, 4096, true, 0);
        sim.rails[rail].carried += 4096;
    }
    check_balanced();
}

TEST(spread_equal, stays_balanced_over_many_small_batches)
{
    sim.latency_ns = 100000;
    sim_create(4, equal_rates);
    for (unsigned i = 0; i < 3000; i++) {
        sim_batch(1 + (unsigned)sim_random(40), 16 << 10, false);
    }
    check_balanced();
}

TEST(spread_equal, is_not_fooled_by_noise)
{
    sim.window = 8;
    sim_create(4, equal_rates);
    for (unsigned i = 0; i < 500; i++) {
        for (unsigned j = 0; j < 4; j++) { /* up to 15 % off, by chance */
            sim.rails[j].rate = 25 * MB * (0.85 + 0.15 * (double)sim_random(100) / 100);
        }
        sim_batch(64, 16 << 10, true);
    }
    check_balanced();
}

TEST(spread_equal, counts_what_is_close_to_the_best_as_equal)
{
    sim.window = 8;
    sim_create(4, equal_rates);
    sim.rails[3].rate = 19 * MB;
    sim_batch(10000, 16 << 10, true);
    check_balanced();
}

TEST(spread_speed, shares_by_speed)
{
    static const uint64_t speeds[] = {100000, 25000, 0};
    static const double rates[]    = {125 * MB, 31.25 * MB, 78.125 * MB};
    double total;

    sim_create(3, rates);
    kvl_spread_init(&sim.spread, 3, speeds); /* the third counts as the mean of 62500 */
    sim_batch(3000, 64 << 10, true);
    total = (double)(sim.rails[0].carried + sim.rails[1].carried + sim.rails[2].carried);
    CHECK((double)sim.rails[0].carried / total > 0.9 * 100 / 187.5);
    CHECK((double)sim.rails[0].carried / total < 1.1 * 100 / 187.5);
    CHECK((double)sim.rails[1].carried / total < 1.1 * 25 / 187.5);
    CHECK((double)sim.rails[2].carried / total < 1.1 * 62.5 / 187.5);
}

/* ---- one rail at a tenth ---- */

static const double slow_rates[] = {25 * MB, 25 * MB, 2.5 * MB, 25 * MB};

TEST(spread_slow, gets_its_share_and_holds_nobody_back)
{
    static const uint64_t sizes[] = {1 << 10, 4 << 10, 16 << 10, 64 << 10};

    for (unsigned i = 0; i < 4; i++) {
        double seconds = 0, bytes = 0, share;

        memset(sim.rails, 0, sizeof(sim.rails));
        sim_create(4, slow_rates);
        for (unsigned batch = 0; batch < 40; batch++) {
            seconds += sim_batch(1000, sizes[i], true);
            bytes += 1000.0 * (double)sizes[i];
        }
        share = (double)sim.rails[2].carried / bytes;
        /* all four carry 77.5 MB/s together */
        CHECK_MSG(bytes / seconds > 0.9 * 77.5 * MB, "%u KiB: %.1f MB/s",
                  (unsigned)(sizes[i] >> 10), bytes / seconds / MB);
        CHECK_MSG(share > 0.01 && share < 0.05, "%u KiB: a share of %.3f, not 0.032",
                  (unsigned)(sizes[i] >> 10), share);
    }
}

TEST(spread_slow, is_noticed_when_it_becomes_slow_and_when_it_recovers)
{
    uint64_t before;

    sim.latency_ns = 50000;
    sim_create(4, equal_rates);
    sim_batch(2000, 16 << 10, true);
    check_balanced();
    sim.rails[2].rate = 2.5 * MB;
    for (unsigned i = 0; i < 20; i++) {
        sim_batch(1000, 16 << 10, true);
    }
    before = sim.rails[2].carried;
    sim_batch(1000, 16 << 10, true);
    CHECK(sim.rails[2].carried - before < 1000 * (16 << 10) / 15);
    CHECK(kvl_spread_weight(&sim.spread, 2) < 0.2 * kvl_spread_weight(&sim.spread, 0));
    sim.rails[2].rate = 25 * MB;
    for (unsigned i = 0; i < 40; i++) {
        sim_batch(1000, 16 << 10, true);
    }
    sim_forget();
    sim_batch(2000, 16 << 10, true);
    check_balanced();
}

TEST(spread_slow, recovers_where_latency_is_the_limit)
{
    sim.window     = 12;      /* so credits do not push work onto every rail */
    sim.latency_ns = 2000000; /* 3 ops of 1 KiB in 2 ms: 1.5 MB/s of 25 */
    sim_create(4, equal_rates);
    sim.rails[2].rate = 0.4 * MB;
    sim_batch(5000, 1 << 10, true);
    sim.rails[2].rate = 25 * MB;
    sim_batch(50000, 1 << 10, true);
    sim_forget();
    sim_batch(10000, 1 << 10, true);
    check_balanced();
}

TEST(spread_slow, is_seen_to_recover_where_little_waits_at_a_time)
{
    sim_create(4, slow_rates);
    for (unsigned i = 0; i < 20; i++) {
        sim_batch(1000, 64 << 10, true);
    }
    sim.rails[2].rate = 25 * MB;
    for (unsigned i = 0; i < 20000; i++) { /* alone, none would ever be worth the slow one */
        sim_batch(1, 64 << 10, true);
    }
    sim_forget();
    sim_batch(2000, 64 << 10, true);
    check_balanced();
}

TEST(spread_slow, does_not_get_the_last_op_of_a_batch)
{
    double seconds;

    sim_create(4, slow_rates);
    for (unsigned i = 0; i < 20; i++) {
        sim_batch(1000, 64 << 10, true);
    }
    /* three ops of 1 MiB, one for each rail that is fast: 42 ms each, or 420 on the slow one */
    seconds = sim_batch(3, 1 << 20, true);
    CHECK_MSG(seconds < 0.045, "three ops took %.3f s", seconds);
    /* and 8 take three rounds on the fast ones, not 420 ms */
    seconds = sim_batch(8, 1 << 20, true);
    CHECK_MSG(seconds < 0.13, "eight ops took %.3f s", seconds);
}

/* ---- rails come and go ---- */

TEST(spread_set, turns_a_rail_off_and_on_again)
{
    uint64_t before;

    sim.window = 8;
    sim_create(4, equal_rates);
    sim_batch(1000, 16 << 10, true);
    before = sim.rails[1].carried;
    kvl_spread_set(&sim.spread, 1, false);
    CHECK(kvl_spread_weight(&sim.spread, 1) == 0);
    sim_batch(3000, 16 << 10, true);
    CHECK_EQ(sim.rails[1].carried, before);
    kvl_spread_set(&sim.spread, 1, true);
    sim_forget();
    sim_batch(1000, 16 << 10, true); /* it is not flooded with what it missed */
    check_balanced();
}

TEST(spread_set, forgets_how_slow_a_rail_was)
{
    sim_create(4, slow_rates);
    sim_batch(5000, 16 << 10, true);
    CHECK(kvl_spread_weight(&sim.spread, 2) < kvl_spread_weight(&sim.spread, 0) / 5);
    kvl_spread_set(&sim.spread, 2, false);
    kvl_spread_set(&sim.spread, 2, true);
    CHECK(kvl_spread_weight(&sim.spread, 2) == kvl_spread_weight(&sim.spread, 0));
}

TEST(spread_set, leaves_none_when_all_are_off)
{
    kvl_stripe_t stripes[KVL_SPREAD_RAILS];

    sim_create(2, equal_rates);
    kvl_spread_set(&sim.spread, 0, false);
    CHECK_EQ(kvl_spread_pick(&sim.spread, 3, 100, 100), 1);
    kvl_spread_set(&sim.spread, 1, false);
    CHECK_EQ(kvl_spread_pick(&sim.spread, 3, 100, 100), KVL_SPREAD_NONE);
    CHECK_EQ(kvl_spread_cut(&sim.spread, 1 << 20, 4096, 4096, stripes), 0);
    kvl_spread_set(&sim.spread, 1, true);
    CHECK_EQ(kvl_spread_pick(&sim.spread, 3, 100, 100), 1);
}

TEST(spread_pick, takes_rails_with_room_only)
{
    sim_create(4, equal_rates);
    CHECK_EQ(kvl_spread_pick(&sim.spread, 4, 4096, 4096), 2);
    CHECK_EQ(kvl_spread_pick(&sim.spread, 0, 4096, 4096), KVL_SPREAD_NONE);
    kvl_spread_init(&sim.spread, 1, NULL);
    CHECK_EQ(kvl_spread_pick(&sim.spread, 1, 4096, 4096), 0);
    CHECK_EQ(kvl_spread_pick(&sim.spread, 0, 4096, 4096), KVL_SPREAD_NONE);
    kvl_spread_init(&sim.spread, 0, NULL);
    CHECK_EQ(kvl_spread_pick(&sim.spread, 1, 4096, 4096), KVL_SPREAD_NONE);
}

TEST(spread_end, learns_nothing_of_failures_and_forgives_too_many)
{
    sim_create(2, equal_rates);
    for (unsigned i = 0; i < 100; i++) {
        kvl_spread_begin(&sim.spread, 0, 4096, i * 100000000);
        kvl_spread_end(&sim.spread, 0, 4096, false, (i + 1) * 100000000);
    }
    CHECK(kvl_spread_weight(&sim.spread, 0) == kvl_spread_weight(&sim.spread, 1));
    kvl_spread_end(&sim.spread, 0, UINT64_MAX, true, 0);
    CHECK_EQ(sim.spread.rails[0].backlog_bytes, 0);
}

/* ---- cutting values ---- */

static kvl_stripe_t stripes[KVL_SPREAD_RAILS];

/* pieces without a gap, in order, none smaller than the least; returns how many */
static unsigned cut(uint64_t length, uint64_t stripe_min, uint64_t align)
{
    unsigned count = kvl_spread_cut(&sim.spread, length, stripe_min, align, stripes);
    uint64_t at    = 0;

    for (unsigned i = 0; i < count; i++) {
        REQUIRE(stripes[i].offset == at && stripes[i].length > 0);
        REQUIRE(stripes[i].rail < sim.spread.count);
        REQUIRE(count == 1 || stripes[i].length >= stripe_min);
        REQUIRE(align == 0 || stripes[i].offset % align == 0);
        at += stripes[i].length;
    }
    REQUIRE(at == length);
    return count;
}

TEST(spread_cut, cuts_into_equal_pieces_on_equal_rails)
{
    sim_create(4, equal_rates);
    CHECK_EQ(cut(64 << 20, 1 << 20, 4096), 4);
    for (unsigned i = 0; i < 4; i++) {
        CHECK_EQ(stripes[i].length, 16 << 20);
        CHECK_EQ(stripes[i].rail, i);
    }
}

TEST(spread_cut, leaves_small_values_whole)
{
    sim_create(4, equal_rates);
    CHECK_EQ(cut(1 << 20, 1 << 20, 4096), 1);
    CHECK_EQ(cut(1, 1 << 20, 4096), 1);
    CHECK_EQ(cut((1 << 20) + 1, 1 << 20, 4096), 1); /* two would be too small */
    CHECK_EQ(cut((2 << 20) + 65536, 1 << 20, 4096), 2);
    CHECK_EQ(cut((3 << 20) + 65536, 1 << 20, 4096), 3);
    CHECK_EQ(kvl_spread_cut(&sim.spread, 0, 1 << 20, 4096, stripes), 0);
    CHECK_EQ(cut(1000, 0, 0), 4);
}

TEST(spread_cut, gives_a_slow_rail_its_share)
{
    static const uint64_t speeds[] = {100000, 100000, 10000, 100000};

    kvl_spread_init(&sim.spread, 4, speeds);
    CHECK_EQ(cut(310 << 20, 1 << 20, 4096), 4);
    CHECK(stripes[2].rail == 2 && stripes[2].length >= 9 << 20 && stripes[2].length <= 11 << 20);
    CHECK_EQ(cut(16 << 20, 1 << 20, 4096), 3); /* half a MiB for it would be less than the least */
    for (unsigned i = 0; i < 3; i++) {
        CHECK(stripes[i].rail != 2);
    }
}

TEST(spread_cut, counts_what_rails_have_to_do_already)
{
    sim_create(2, equal_rates);
    kvl_spread_begin(&sim.spread, 0, 8 << 20, 0);
    CHECK_EQ(cut(24 << 20, 1 << 20, 4096), 2);
    CHECK_EQ(stripes[0].length, 8 << 20);
    CHECK_EQ(stripes[1].length, 16 << 20);
    CHECK_EQ(cut(4 << 20, 1 << 20, 4096), 1);
    CHECK_EQ(stripes[0].rail, 1);
}

TEST(spread_cut, holds_for_any_numbers)
{
    for (unsigned i = 0; i < 20000; i++) {
        unsigned rails = 1 + (unsigned)sim_random(16);
        uint64_t speeds[16];

        for (unsigned j = 0; j < rails; j++) {
            speeds[j] = sim_random(3) ? sim_random(800000) : 0;
        }
        kvl_spread_init(&sim.spread, rails, speeds);
        for (unsigned j = 0; j < rails; j++) {
            kvl_spread_begin(&sim.spread, j, sim_random(2) ? sim_random(1 << 26) : 0, 0);
        }
        cut(1 + sim_random(1 << 28), sim_random(1 << 22), sim_random(2) ? 4096 : 1);
    }
}
