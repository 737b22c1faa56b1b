/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/shim.h"

#include "base/clock.h"
#include "node/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* How much of the memory holds values while the mix of lengths changes, and what is evicted for whom. */

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)

#define MEMORY (256 * MIB)

typedef struct {
    uint64_t low, high;
} mix_t;

typedef struct {
    kvl_store_t *store;
    kvl_holder_t holder;
    void *memory; /* reserved addresses, never touched: only commits, no bytes */
    uint64_t random, serial;
} world_t;

static void world_init(world_t *world)
{
    kvl_store_params_t params = {.max_leases = 1000, .secret = 99};

    world->random = 88172645463325252u;
    world->serial = 0;
    world->memory =
        mmap(NULL, MEMORY, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(world->memory != MAP_FAILED);
    REQUIRE(kvl_store_create(&params, &world->store) == KVL_OK);
    REQUIRE(kvl_store_add_slab(world->store, world->memory, MEMORY) == KVL_OK);
    kvl_holder_init(&world->holder, world->store);
}

static void world_cleanup(world_t *world)
{
    kvl_holder_close(&world->holder, true);
    kvl_store_destroy(world->store);
    munmap(world->memory, MEMORY);
}

static uint64_t next(world_t *world)
{
    world->random ^= world->random << 13;
    world->random ^= world->random >> 7;
    world->random ^= world->random << 17;
    return world->random;
}

static uint64_t length_of(world_t *world, const mix_t *mix)
{
    unsigned shift = 0;
    uint64_t top;

    while (mix->low << (shift + 1) <= mix->high) {
        shift++;
    }
    top = mix->low << (next(world) % (shift + 1));
    top += next(world) % top;
    return top < mix->high ? top : mix->high;
}

static kvl_status_t put(world_t *world, uint64_t number, uint64_t length)
{
    kvl_store_commit_t commit = {.length = length};
    kvl_key_t key             = {&number, sizeof(number)};
    kvl_grant_t grant;
    kvl_status_t status = kvl_store_reserve(&world->holder, key, length, KVL_SECOND, &grant);

    if (status != KVL_OK) {
        return status;
    }
    commit.id         = grant.id;
    commit.generation = grant.generation;
    return kvl_store_commit(&world->holder, &commit);
}

static kvl_store_stats_t stats_of(const world_t *world)
{
    kvl_store_stats_t stats;

    kvl_store_stats(world->store, &stats);
    return stats;
}

TEST(reclaim_slot, fills_over_85_percent_before_it_first_evicts)
{
    const mix_t mix = {4 * KIB, 8 * MIB};
    world_t world;

    world_init(&world);
    while (stats_of(&world).evictions == 0) {
        REQUIRE(put(&world, world.serial++, length_of(&world, &mix)) == KVL_OK);
    }
    CHECK(stats_of(&world).bytes_used >= MEMORY / 100 * 85);
    world_cleanup(&world);
}

TEST(reclaim_slot, keeps_over_80_percent_in_use_while_mixes_change)
{
    static const mix_t mixes[] = {
        {4 * KIB, 8 * MIB},  {4296 * 61, 4296 * 61}, {1, 4 * KIB}, {2816 * KIB, 2816 * KIB},
        {4 * KIB, 64 * KIB}, {8 * MIB, 8 * MIB},     {1, 8 * MIB}, {22544, 22544 * 122}};
    uint64_t put_bytes, lowest, used;
    world_t world;
    unsigned i;

    world_init(&world);
    for (i = 0; i < 3 * sizeof(mixes) / sizeof(mixes[0]); i++) {
        const mix_t *mix = &mixes[i * 5 % (sizeof(mixes) / sizeof(mixes[0]))];
        /* half of the memory is overwritten by the new mix, or 200,000 tiny values */
        unsigned puts = 0;

        lowest = MEMORY;
        for (put_bytes = 0; put_bytes < MEMORY / 2 && puts < 200000; puts++) {
            uint64_t length = length_of(&world, mix);

            REQUIRE(put(&world, world.serial++, length) == KVL_OK);
            put_bytes += length;
            used = stats_of(&world).bytes_used;
            if (stats_of(&world).evictions) {
                lowest = used < lowest ? used : lowest;
            }
        }
        CHECK_MSG(lowest >= MEMORY / 100 * 80, "mix %llu..%llu, step %u: %llu percent in use",
                  (unsigned long long)mix->low, (unsigned long long)mix->high, i,
                  (unsigned long long)(lowest * 100 / MEMORY));
    }
    world_cleanup(&world);
}

TEST(reclaim_slot, is_plain_lru_for_values_of_one_length)
{
    world_t world;
    uint64_t i, length, count = MEMORY / MIB;

    world_init(&world);
    for (i = 0; i < count + 50; i++) {
        REQUIRE(put(&world, i, MIB) == KVL_OK);
    }
    CHECK_EQ(stats_of(&world).evictions, 50);
    for (i = 0; i < count + 50; i++) {
        kvl_key_t key = {&i, sizeof(i)};

        REQUIRE((kvl_store_exists(world.store, key, &length) == KVL_OK) == (i >= 50));
    }
    world_cleanup(&world);
}

/* 80 percent of reads go to a tenth of the keys; those must mostly stay, whatever the lengths */
TEST(reclaim_slot, spares_values_in_use_under_a_mix)
{
    const mix_t mix   = {4 * KIB, 1 * MIB};
    unsigned hot_hits = 0, hot_reads = 0, i;
    world_t world;

    world_init(&world);
    for (i = 0; i < 20000; i++) {
        uint64_t hot  = 1000000 + next(&world) % 100;
        kvl_key_t key = {&hot, sizeof(hot)};
        uint64_t length;

        REQUIRE(put(&world, world.serial++, length_of(&world, &mix)) == KVL_OK);
        if (kvl_store_exists(world.store, key, &length) == KVL_OK) {
            hot_hits++;
        } else {
            REQUIRE(put(&world, hot, length_of(&world, &mix)) == KVL_OK);
        }
        hot_reads++;
    }
    CHECK_MSG(hot_hits >= hot_reads / 100 * 90, "%u of %u reads of hot keys hit", hot_hits,
              hot_reads);
    world_cleanup(&world);
}
