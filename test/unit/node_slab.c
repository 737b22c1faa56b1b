/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/shim.h"

#include "node/slab.h"

#include <stdlib.h>
#include <string.h>

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)

static uint64_t random_state;

static uint64_t random_next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* low..high, every power of two as likely as any other */
static uint64_t random_length(uint64_t low, uint64_t high)
{
    unsigned shift = 0;
    uint64_t top;

    while (low << (shift + 1) <= high) {
        shift++;
    }
    top = low << (random_next() % (shift + 1));
    top += random_next() % top;
    return top < high ? top : high;
}

/* Walks all blocks: they cover each slab without gap, no two free ones touch, counts agree. */
static void check_blocks(const kvl_slabs_t *slabs)
{
    uint64_t used = 0, slots = 0;
    unsigned i;

    for (i = 0; i < slabs->slab_count; i++) {
        kvl_block_id_t at = slabs->first[i];
        uint64_t offset   = 0;
        bool was_free     = false;

        for (; at != KVL_BLOCK_NONE; at = kvl_slabs_after(slabs, at)) {
            bool is_free = kvl_slabs_owner(slabs, at) == NULL;

            REQUIRE(kvl_slabs_offset(slabs, at) == offset && kvl_slabs_slab(slabs, at) == i);
            REQUIRE(!(is_free && was_free));
            offset += kvl_slabs_bytes(slabs, at);
            used += is_free ? 0 : kvl_slabs_bytes(slabs, at);
            slots += !is_free;
            was_free = is_free;
        }
        CHECK_EQ(offset, (uint64_t)slabs->slabs[i] * KVL_SLAB_GRANULE);
    }
    CHECK_EQ(used, slabs->used_bytes);
    CHECK_EQ(slots, slabs->slots);
}

TEST(slab_alloc, tells_never_from_not_now)
{
    kvl_slabs_t slabs;
    kvl_block_id_t a, b;
    int owner;

    kvl_slabs_init(&slabs);
    REQUIRE(kvl_slabs_add(&slabs, 1 * MIB) == KVL_OK);
    REQUIRE(kvl_slabs_add(&slabs, 2 * MIB) == KVL_OK);
    CHECK_EQ(kvl_slabs_longest(&slabs), 2 * MIB);
    CHECK_EQ(kvl_slabs_alloc(&slabs, 2 * MIB + 1, &owner, &a), KVL_ERR_NO_SPACE);
    REQUIRE(kvl_slabs_alloc(&slabs, 2 * MIB, &owner, &a) == KVL_OK);
    CHECK_EQ(kvl_slabs_slab(&slabs, a), 1);
    CHECK_EQ(kvl_slabs_alloc(&slabs, 1 * MIB + 1, &owner, &b), KVL_ERR_BUSY);
    REQUIRE(kvl_slabs_alloc(&slabs, 1 * MIB, &owner, &b) == KVL_OK);
    CHECK_EQ(kvl_slabs_alloc(&slabs, 1, &owner, &b), KVL_ERR_BUSY);
    CHECK_EQ(slabs.used_bytes, 3 * MIB);
    kvl_slabs_free(&slabs, a);
    CHECK_EQ(kvl_slabs_alloc(&slabs, 2 * MIB, &owner, &a), KVL_OK);
    kvl_slabs_cleanup(&slabs);
}

TEST(slab_add, refuses_what_no_registration_could_hold)
{
    kvl_slabs_t slabs;

    kvl_slabs_init(&slabs);
    CHECK_EQ(kvl_slabs_add(&slabs, KVL_SLAB_MAX + 1), KVL_ERR_INVALID);
    CHECK_EQ(kvl_slabs_add(&slabs, 63), KVL_ERR_INVALID);
    CHECK_EQ(kvl_slabs_add(&slabs, KVL_SLAB_MAX), KVL_OK);
    CHECK_EQ(kvl_slabs_longest(&slabs), UINT64_C(3758096384)); /* 3.5 GiB */
    kvl_slabs_cleanup(&slabs);
}

TEST(slab_alloc, cuts_to_64_bytes_and_keeps_slots_apart)
{
    kvl_slabs_t slabs;
    kvl_block_id_t a, b, c;
    int owner;

    kvl_slabs_init(&slabs);
    REQUIRE(kvl_slabs_add(&slabs, 4096) == KVL_OK);
    REQUIRE(kvl_slabs_alloc(&slabs, 1, &owner, &a) == KVL_OK);
    REQUIRE(kvl_slabs_alloc(&slabs, 64, &owner, &b) == KVL_OK);
    REQUIRE(kvl_slabs_alloc(&slabs, 65, &owner, &c) == KVL_OK);
    CHECK_EQ(kvl_slabs_bytes(&slabs, a), 64);
    CHECK_EQ(kvl_slabs_bytes(&slabs, b), 64);
    CHECK_EQ(kvl_slabs_bytes(&slabs, c), 128);
    CHECK_EQ(slabs.used_bytes, 256);
    /* whatever the order, freeing all leaves one piece */
    kvl_slabs_free(&slabs, b);
    kvl_slabs_free(&slabs, c);
    b = kvl_slabs_free(&slabs, a);
    CHECK_EQ(kvl_slabs_bytes(&slabs, b), 4096);
    CHECK_EQ(slabs.used_bytes, 0);
    kvl_slabs_cleanup(&slabs);
}

#define SLOTS 4000

typedef struct {
    kvl_block_id_t block;
    uint64_t length;
    bool used;
} slot_t;

/* against a map of every granule: no two slots share one, none lies outside */
TEST(slab_alloc, agrees_with_a_map_of_all_granules_under_random_mixes)
{
    static uint8_t map[2][16384]; /* 1 MiB a slab */
    static slot_t slots[SLOTS];
    kvl_slabs_t slabs;
    unsigned step;

    random_state = 88172645463325252u;
    memset(map, 0, sizeof(map));
    memset(slots, 0, sizeof(slots));
    kvl_slabs_init(&slabs);
    REQUIRE(kvl_slabs_add(&slabs, 1 * MIB) == KVL_OK);
    REQUIRE(kvl_slabs_add(&slabs, 1 * MIB) == KVL_OK);
    for (step = 0; step < 200000; step++) {
        slot_t *slot = &slots[random_next() % SLOTS];
        uint64_t i, first, count;
        uint8_t *row;

        if (slot->used) {
            row   = map[kvl_slabs_slab(&slabs, slot->block)];
            first = kvl_slabs_offset(&slabs, slot->block) / 64;
            count = (slot->length + 63) / 64;
            for (i = first; i < first + count; i++) {
                row[i] = 0;
            }
            kvl_slabs_free(&slabs, slot->block);
            slot->used = false;
        } else {
            slot->length = random_length(1, step / 50000 % 2 ? 200 * KIB : 2 * KIB);
            if (kvl_slabs_alloc(&slabs, slot->length, slot, &slot->block) != KVL_OK) {
                continue;
            }
            slot->used = true;
            row        = map[kvl_slabs_slab(&slabs, slot->block)];
            first      = kvl_slabs_offset(&slabs, slot->block) / 64;
            count      = (slot->length + 63) / 64;
            REQUIRE(kvl_slabs_owner(&slabs, slot->block) == slot);
            REQUIRE(first + count <= 16384);
            for (i = first; i < first + count; i++) {
                REQUIRE(row[i] == 0);
                row[i] = 1;
            }
        }
        if (step % 5000 == 0) {
            check_blocks(&slabs);
        }
    }
    for (step = 0; step < SLOTS; step++) {
        if (slots[step].used) {
            kvl_slabs_free(&slabs, slots[step].block);
        }
    }
    CHECK_EQ(slabs.used_bytes, 0);
    CHECK_EQ(kvl_slabs_bytes(&slabs, slabs.first[0]), 1 * MIB);
    CHECK_EQ(kvl_slabs_bytes(&slabs, slabs.first[1]), 1 * MIB);
    kvl_slabs_cleanup(&slabs);
}

TEST(slab_alloc, fills_over_85_percent_before_it_first_refuses)
{
    const struct {
        uint64_t low, high;
    } mixes[] = {{4 * KIB, 8 * MIB},
                 {4296 * 61, 4296 * 61},
                 {4 * KIB, 64 * KIB},
                 {1 * MIB, 8 * MIB},
                 {1, 8 * MIB}};
    unsigned i;

    for (i = 0; i < sizeof(mixes) / sizeof(mixes[0]); i++) {
        kvl_slabs_t slabs;
        kvl_block_id_t block;
        uint64_t bytes = 0, length;
        int owner;

        random_state = 88172645463325252u + i;
        kvl_slabs_init(&slabs);
        REQUIRE(kvl_slabs_add(&slabs, 256 * MIB) == KVL_OK);
        for (;;) {
            length = random_length(mixes[i].low, mixes[i].high);
            if (kvl_slabs_alloc(&slabs, length, &owner, &block) != KVL_OK) {
                break;
            }
            bytes += length;
        }
        CHECK_MSG(bytes >= 256 * MIB / 100 * 85, "mix %u: only %llu of 256 MiB are values", i,
                  (unsigned long long)bytes);
        kvl_slabs_cleanup(&slabs);
    }
}
