/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/shim.h"

#include "base/clock.h"
#include "base/fault.h"
#include "node/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)

typedef struct {
    kvl_store_t *store;
    uint8_t *memory;
    kvl_holder_t a, b;
    kvl_holder_t *hung, *decided; /* the last one reported */
} fixture_t;

static void note_hung(kvl_holder_t *holder, void *arg)
{
    ((fixture_t *)arg)->hung = holder;
}

static void note_decided(kvl_holder_t *holder, void *arg)
{
    ((fixture_t *)arg)->decided = holder;
}

static kvl_key_t key_of(const char *text)
{
    return (kvl_key_t){text, strlen(text)};
}

static void setup(fixture_t *f, uint64_t bytes, uint64_t max_leases)
{
    kvl_store_params_t params = {.max_leases = max_leases,
                                 .secret     = 1234567,
                                 .decided    = note_decided,
                                 .hung       = note_hung,
                                 .arg        = f};

    f->hung = f->decided = NULL;
    f->memory            = calloc(1, bytes);
    REQUIRE(kvl_store_create(&params, &f->store) == KVL_OK);
    REQUIRE(kvl_store_add_slab(f->store, f->memory, bytes) == KVL_OK);
    kvl_holder_init(&f->a, f->store);
    kvl_holder_init(&f->b, f->store);
}

static void teardown(fixture_t *f)
{
    kvl_holder_close(&f->a, true);
    kvl_holder_close(&f->b, true);
    kvl_store_destroy(f->store);
    free(f->memory);
}

static kvl_store_stats_t stats_of(const fixture_t *f)
{
    kvl_store_stats_t stats;

    kvl_store_stats(f->store, &stats);
    return stats;
}

static kvl_status_t commit(kvl_holder_t *holder, const kvl_grant_t *grant, uint64_t length,
                           uint32_t ops)
{
    kvl_store_commit_t c = {.id         = grant->id,
                            .generation = grant->generation,
                            .length     = length,
                            .ops        = ops,
                            .request    = 77,
                            .index      = 5};

    return kvl_store_commit(holder, &c);
}

static kvl_grant_t reserve(kvl_holder_t *holder, const char *key, uint64_t length)
{
    kvl_grant_t grant = {.id = 0};

    REQUIRE(kvl_store_reserve(holder, key_of(key), length, KVL_SECOND, &grant) == KVL_OK);
    return grant;
}

static void put(kvl_holder_t *holder, const char *key, uint64_t length, int byte)
{
    kvl_grant_t grant = reserve(holder, key, length);

    memset(grant.address, byte, length);
    REQUIRE(commit(holder, &grant, length, 0) == KVL_OK);
}

static bool exists(const fixture_t *f, const char *key)
{
    uint64_t length;

    return kvl_store_exists(f->store, key_of(key), &length) == KVL_OK;
}

static kvl_found_value_t get(kvl_holder_t *holder, const char *key)
{
    kvl_found_value_t found = {.length = 0};

    REQUIRE(kvl_store_read(holder, key_of(key), 0, KVL_SECOND, &found) == KVL_OK);
    return found;
}

static kvl_store_op_t op_of(const kvl_grant_t *grant, uint64_t offset, uint64_t length)
{
    return (kvl_store_op_t){grant->id, grant->generation, offset, length};
}

TEST(store_commit, makes_visible_and_nothing_before_does)
{
    fixture_t f;
    kvl_grant_t grant;
    kvl_found_value_t found;

    setup(&f, 1 * MIB, 100);
    grant = reserve(&f.a, "k", 1000);
    memset(grant.address, 7, 1000);
    CHECK(!exists(&f, "k"));
    CHECK_EQ(kvl_store_read(&f.b, key_of("k"), 0, KVL_SECOND, &found), KVL_ERR_NOT_FOUND);
    CHECK_EQ(commit(&f.a, &grant, 1000, 0), KVL_OK);
    found = get(&f.b, "k");
    CHECK_EQ(found.length, 1000);
    CHECK_EQ(found.address[0], 7);
    CHECK_EQ(found.address[999], 7);
    CHECK(found.leased);
    CHECK_EQ(kvl_store_release(&f.b, found.grant.id, found.grant.generation), KVL_OK);
    CHECK_EQ(stats_of(&f).leases, 0);
    teardown(&f);
}

TEST(store_commit, refuses_another_length_and_takes_the_slot_back)
{
    fixture_t f;
    kvl_grant_t grant;

    setup(&f, 1 * MIB, 100);
    grant = reserve(&f.a, "k", 1000);
    CHECK_EQ(commit(&f.a, &grant, 999, 0), KVL_ERR_LENGTH);
    CHECK_EQ(commit(&f.a, &grant, 1000, 0), KVL_ERR_LEASE);
    CHECK(!exists(&f, "k"));
    CHECK_EQ(stats_of(&f).bytes_used, 0);
    teardown(&f);
}

TEST(store_lease, is_of_one_holder_one_kind_and_one_generation)
{
    fixture_t f;
    kvl_grant_t grant, other;
    kvl_found_value_t found;
    kvl_lease_t *lease;
    kvl_store_op_t op;

    setup(&f, 1 * MIB, 100);
    put(&f.a, "old", 100, 1);
    found = get(&f.a, "old");
    grant = reserve(&f.a, "k", 1000);
    CHECK_EQ(commit(&f.b, &grant, 1000, 0), KVL_ERR_LEASE);
    CHECK_EQ(kvl_store_abort(&f.b, grant.id, grant.generation), KVL_ERR_LEASE);
    other = grant;
    other.generation++;
    CHECK_EQ(commit(&f.a, &other, 1000, 0), KVL_ERR_LEASE);
    other = grant;
    other.id ^= UINT64_C(1) << 63;
    CHECK_EQ(commit(&f.a, &other, 1000, 0), KVL_ERR_LEASE);
    other.id = UINT64_MAX;
    CHECK_EQ(commit(&f.a, &other, 1000, 0), KVL_ERR_LEASE);
    CHECK_EQ(kvl_store_release(&f.a, grant.id, grant.generation), KVL_ERR_LEASE);
    CHECK_EQ(kvl_store_abort(&f.a, found.grant.id, found.grant.generation), KVL_ERR_LEASE);
    op = op_of(&found.grant, 0, 100);
    CHECK_EQ(kvl_store_put_begin(&f.a, &op, &lease, &other), KVL_ERR_LEASE);
    op = op_of(&grant, 0, 100);
    CHECK_EQ(kvl_store_get_begin(&f.a, &op, &lease, &other), KVL_ERR_LEASE);
    CHECK_EQ(stats_of(&f).refused, 9);
    CHECK_EQ(commit(&f.a, &grant, 1000, 0), KVL_OK);
    CHECK_EQ(commit(&f.a, &grant, 1000, 0), KVL_ERR_LEASE); /* once */
    teardown(&f);
}

TEST(store_commit, lets_the_last_of_two_writers_win)
{
    fixture_t f;
    kvl_grant_t first, second;

    setup(&f, 1 * MIB, 100);
    first  = reserve(&f.a, "k", 1000);
    second = reserve(&f.b, "k", 500);
    CHECK(first.address != second.address);
    memset(first.address, 1, 1000);
    memset(second.address, 2, 500);
    CHECK_EQ(commit(&f.b, &second, 500, 0), KVL_OK);
    CHECK_EQ(get(&f.a, "k").length, 500);
    CHECK_EQ(commit(&f.a, &first, 1000, 0), KVL_OK);
    CHECK_EQ(get(&f.a, "k").length, 1000);
    CHECK_EQ(stats_of(&f).keys, 1);
    teardown(&f);
}

TEST(store_read, keeps_a_replaced_and_a_removed_value_until_it_is_released)
{
    fixture_t f;
    kvl_found_value_t old, newer;

    setup(&f, 64 * KIB, 100);
    put(&f.a, "k", 1000, 1);
    old = get(&f.b, "k");
    put(&f.a, "k", 1000, 2);
    newer = get(&f.b, "k");
    CHECK_EQ(kvl_store_remove(f.store, key_of("k")), KVL_OK);
    CHECK(!exists(&f, "k"));
    put(&f.a, "k", 1000, 3);
    CHECK_EQ(old.address[500], 1);
    CHECK_EQ(newer.address[500], 2);
    CHECK_EQ(stats_of(&f).bytes_used, 3 * 1024);
    kvl_store_release(&f.b, old.grant.id, old.grant.generation);
    kvl_store_release(&f.b, newer.grant.id, newer.grant.generation);
    CHECK_EQ(stats_of(&f).bytes_used, 1024);
    teardown(&f);
}

TEST(store_read, hands_short_values_out_without_a_lease)
{
    fixture_t f;
    kvl_found_value_t found;

    setup(&f, 64 * KIB, 100);
    CHECK_EQ(kvl_store_put(&f.a, key_of("k"), "hello", 5), KVL_OK);
    CHECK_EQ(kvl_store_read(&f.b, key_of("k"), 5, KVL_SECOND, &found), KVL_OK);
    CHECK(!found.leased);
    CHECK_EQ(found.length, 5);
    CHECK_MEM_EQ(found.address, "hello", 5);
    CHECK_EQ(stats_of(&f).leases, 0);
    CHECK_EQ(kvl_store_read(&f.b, key_of("k"), 4, KVL_SECOND, &found), KVL_OK);
    CHECK(found.leased);
    teardown(&f);
}

TEST(store_reserve, evicts_the_longest_unused_and_never_what_is_leased)
{
    fixture_t f;
    kvl_found_value_t held;

    setup(&f, 4 * KIB, 100);
    put(&f.a, "1", 1 * KIB, 1);
    put(&f.a, "2", 1 * KIB, 2);
    put(&f.a, "3", 1 * KIB, 3);
    put(&f.a, "4", 1 * KIB, 4);
    held = get(&f.b, "1");
    CHECK(exists(&f, "2")); /* used again */
    put(&f.a, "5", 1 * KIB, 5);
    CHECK(exists(&f, "1") && exists(&f, "2") && !exists(&f, "3") && exists(&f, "4"));
    CHECK_EQ(stats_of(&f).evictions, 1);
    kvl_store_release(&f.b, held.grant.id, held.grant.generation);
    put(&f.a, "6", 4 * KIB, 6);
    CHECK_EQ(stats_of(&f).evictions, 5);
    CHECK_EQ(stats_of(&f).keys, 1);
    teardown(&f);
}

TEST(store_reserve, tells_never_from_not_now)
{
    fixture_t f;
    kvl_grant_t grant;

    setup(&f, 4 * KIB, 100);
    CHECK_EQ(kvl_store_value_max(f.store), 4 * KIB);
    CHECK_EQ(kvl_store_reserve(&f.a, key_of("k"), 4 * KIB + 1, KVL_SECOND, &grant),
             KVL_ERR_NO_SPACE);
    CHECK_EQ(kvl_store_reserve(&f.a, key_of("k"), UINT64_MAX, KVL_SECOND, &grant),
             KVL_ERR_NO_SPACE);
    put(&f.a, "1", 2 * KIB, 1);
    grant = reserve(&f.a, "2", 2 * KIB);
    CHECK_EQ(kvl_store_reserve(&f.b, key_of("3"), 4 * KIB, KVL_SECOND, &grant), KVL_ERR_BUSY);
    CHECK(exists(&f, "1")); /* nothing was evicted for nothing */
    teardown(&f);
}

TEST(store_reserve, limits_the_leases_of_one_holder)
{
    fixture_t f;
    kvl_grant_t grant;
    kvl_found_value_t found;

    setup(&f, 64 * KIB, 2);
    put(&f.a, "k", 100, 1);
    grant = reserve(&f.a, "1", 100);
    get(&f.a, "k");
    CHECK_EQ(kvl_store_reserve(&f.a, key_of("3"), 100, KVL_SECOND, &grant), KVL_ERR_BUSY);
    CHECK_EQ(kvl_store_read(&f.a, key_of("k"), 0, KVL_SECOND, &found), KVL_ERR_BUSY);
    reserve(&f.b, "1", 100);
    kvl_store_abort(&f.a, grant.id, grant.generation);
    reserve(&f.a, "3", 100);
    teardown(&f);
}

TEST(store_commit, waits_for_bytes_that_it_overtook)
{
    fixture_t f;
    kvl_grant_t grant, place;
    kvl_lease_t *first, *second;
    kvl_store_answer_t answer;
    kvl_store_op_t op;

    setup(&f, 1 * MIB, 100);
    grant = reserve(&f.a, "k", 1000);
    op    = op_of(&grant, 600, 400);
    REQUIRE(kvl_store_put_begin(&f.a, &op, &second, &place) == KVL_OK);
    CHECK(place.address == grant.address + 600 && place.offset == grant.offset + 600);
    CHECK_EQ(commit(&f.a, &grant, 1000, 2), KVL_INPROGRESS);
    CHECK_EQ(commit(&f.a, &grant, 1000, 2), KVL_ERR_LEASE); /* asked already */
    kvl_store_put_end(second, KVL_OK);
    CHECK(!kvl_holder_answer(&f.a, &answer));
    CHECK(!exists(&f, "k"));
    op = op_of(&grant, 0, 600);
    REQUIRE(kvl_store_put_begin(&f.a, &op, &first, &place) == KVL_OK);
    CHECK(!exists(&f, "k"));
    CHECK(f.decided == NULL);
    kvl_store_put_end(first, KVL_OK);
    CHECK(f.decided == &f.a);
    CHECK(exists(&f, "k"));
    REQUIRE(kvl_holder_answer(&f.a, &answer));
    CHECK_EQ(answer.request, 77);
    CHECK_EQ(answer.index, 5);
    CHECK_EQ(answer.status, KVL_OK);
    CHECK(!kvl_holder_answer(&f.a, &answer));
    CHECK_EQ(stats_of(&f).leases, 0);
    teardown(&f);
}

TEST(store_commit, fails_when_bytes_were_lost_refused_or_sent_twice)
{
    fixture_t f;
    kvl_grant_t grant, place;
    kvl_lease_t *lease;
    kvl_store_answer_t answer;
    kvl_store_op_t op;

    setup(&f, 1 * MIB, 100);
    grant = reserve(&f.a, "lost", 1000);
    op    = op_of(&grant, 0, 1000);
    REQUIRE(kvl_store_put_begin(&f.a, &op, &lease, &place) == KVL_OK);
    CHECK_EQ(commit(&f.a, &grant, 1000, 1), KVL_INPROGRESS);
    kvl_store_put_end(lease, KVL_ERR_PEER);
    REQUIRE(kvl_holder_answer(&f.a, &answer));
    CHECK_EQ(answer.status, KVL_ERR_PEER);

    grant = reserve(&f.a, "outside", 1000);
    op    = op_of(&grant, 1, 1000);
    CHECK_EQ(kvl_store_put_begin(&f.a, &op, &lease, &place), KVL_ERR_RANGE);
    op = op_of(&grant, UINT64_MAX, 2);
    CHECK_EQ(kvl_store_put_begin(&f.a, &op, &lease, &place), KVL_ERR_RANGE);
    CHECK_EQ(commit(&f.a, &grant, 1000, 1), KVL_ERR_RANGE);

    grant = reserve(&f.a, "twice", 1000);
    op    = op_of(&grant, 0, 1000);
    REQUIRE(kvl_store_put_begin(&f.a, &op, &lease, &place) == KVL_OK);
    CHECK_EQ(commit(&f.a, &grant, 1000, 1), KVL_INPROGRESS);
    op = op_of(&grant, 999, 1);
    {
        kvl_lease_t *other;

        CHECK_EQ(kvl_store_put_begin(&f.a, &op, &other, &place), KVL_ERR_RANGE);
    }
    kvl_store_put_end(lease, KVL_OK);
    REQUIRE(kvl_holder_answer(&f.a, &answer));
    CHECK_EQ(answer.status, KVL_ERR_RANGE);
    CHECK_EQ(stats_of(&f).keys, 0);
    CHECK_EQ(stats_of(&f).bytes_used, 0);
    teardown(&f);
}

TEST(store_abort, gives_the_slot_back_only_after_its_last_op)
{
    fixture_t f;
    kvl_grant_t grant, place;
    kvl_lease_t *lease;
    kvl_store_op_t op;

    setup(&f, 1 * MIB, 100);
    grant = reserve(&f.a, "k", 1000);
    op    = op_of(&grant, 0, 500);
    REQUIRE(kvl_store_put_begin(&f.a, &op, &lease, &place) == KVL_OK);
    CHECK_EQ(kvl_store_abort(&f.a, grant.id, grant.generation), KVL_OK);
    CHECK_EQ(stats_of(&f).bytes_used, 1024);
    op = op_of(&grant, 500, 500);
    CHECK_EQ(kvl_store_put_begin(&f.a, &op, &lease, &place), KVL_ERR_LEASE);
    kvl_store_put_end(lease, KVL_OK);
    CHECK_EQ(stats_of(&f).bytes_used, 0);
    CHECK_EQ(stats_of(&f).leases, 0);
    teardown(&f);
}

TEST(store_expire, ends_readers_but_reports_a_writer_as_hung)
{
    fixture_t f;
    kvl_grant_t grant;
    kvl_found_value_t found;

    setup(&f, 1 * MIB, 100);
    put(&f.a, "k", 1000, 1);
    found = get(&f.a, "k");
    CHECK_EQ(kvl_store_next_expiry(f.store), KVL_SECOND);
    kvl_store_expire(f.store, KVL_SECOND - 1);
    CHECK_EQ(stats_of(&f).leases, 1);
    kvl_store_expire(f.store, KVL_SECOND);
    CHECK_EQ(stats_of(&f).leases, 0);
    CHECK(f.hung == NULL);
    CHECK_EQ(kvl_store_release(&f.a, found.grant.id, found.grant.generation), KVL_ERR_LEASE);

    grant = reserve(&f.b, "w", 1000);
    kvl_store_expire(f.store, 2 * KVL_SECOND);
    CHECK(f.hung == &f.b);
    CHECK_EQ(stats_of(&f).leases, 1); /* only the end of its session makes the slot safe */
    CHECK_EQ(kvl_store_next_expiry(f.store), KVL_TIME_MAX);
    CHECK_EQ(commit(&f.b, &grant, 1000, 0),
             KVL_OK); /* the session lives still: so does the lease */
    teardown(&f);
}

TEST(store_expire, answers_a_commit_whose_bytes_never_came)
{
    fixture_t f;
    kvl_grant_t grant;
    kvl_store_answer_t answer;

    setup(&f, 1 * MIB, 100);
    grant = reserve(&f.a, "k", 1000);
    CHECK_EQ(commit(&f.a, &grant, 1000, 1), KVL_INPROGRESS);
    kvl_store_expire(f.store, KVL_SECOND);
    CHECK(f.hung == NULL);
    REQUIRE(kvl_holder_answer(&f.a, &answer));
    CHECK_EQ(answer.status, KVL_ERR_LEASE);
    CHECK_EQ(stats_of(&f).bytes_used, 0);
    teardown(&f);
}

TEST(holder_close, keeps_slots_in_quarantine_until_it_is_quiet)
{
    fixture_t f;
    kvl_grant_t grant;
    kvl_found_value_t found;

    setup(&f, 1 * MIB, 100);
    put(&f.a, "k", 1000, 1);
    grant = reserve(&f.b, "w", 2000);
    found = get(&f.b, "k");
    (void)found;
    kvl_holder_stop(&f.b);
    CHECK_EQ(commit(&f.b, &grant, 2000, 0), KVL_ERR_LEASE);
    kvl_holder_close(&f.b, false);
    CHECK_EQ(stats_of(&f).quarantined, 1);
    CHECK_EQ(stats_of(&f).bytes_used, 1024 + 2048);
    /* a reader that nobody can stop keeps its value until it must not believe it any more */
    kvl_store_remove(f.store, key_of("k"));
    CHECK_EQ(stats_of(&f).bytes_used, 1024 + 2048);
    kvl_store_expire(f.store, 10 * KVL_SECOND);
    CHECK_EQ(stats_of(&f).bytes_used, 2048);
    kvl_holder_quiet(&f.b);
    CHECK_EQ(stats_of(&f).quarantined, 0);
    CHECK_EQ(stats_of(&f).bytes_used, 0);
    CHECK_EQ(stats_of(&f).leases, 0);
    teardown(&f);
}

TEST(holder_close, drops_commits_that_wait)
{
    fixture_t f;
    kvl_grant_t grant, place;
    kvl_lease_t *lease;
    kvl_store_op_t op;

    setup(&f, 1 * MIB, 100);
    grant = reserve(&f.a, "k", 1000);
    op    = op_of(&grant, 0, 1000);
    REQUIRE(kvl_store_put_begin(&f.a, &op, &lease, &place) == KVL_OK);
    CHECK_EQ(commit(&f.a, &grant, 1000, 1), KVL_INPROGRESS);
    kvl_holder_stop(&f.a);
    kvl_store_put_end(lease, KVL_OK); /* all bytes are there, but nobody can be told */
    CHECK(!exists(&f, "k"));
    kvl_holder_close(&f.a, true);
    CHECK_EQ(stats_of(&f).bytes_used, 0);
    teardown(&f);
}

/* one value through all of its life; what fails is left out */
static void live_once(void)
{
    kvl_store_params_t params = {.max_leases = 100, .secret = 5};
    static uint8_t memory[64 << 10];
    kvl_store_t *store;
    kvl_holder_t holder;
    kvl_grant_t grant, place;
    kvl_found_value_t found;
    unsigned i;

    if (kvl_store_create(&params, &store) != KVL_OK) {
        return;
    }
    (void)kvl_store_add_slab(store, memory, sizeof(memory));
    kvl_holder_init(&holder, store);
    (void)kvl_store_put(&holder, key_of("short"), "hello", 5);
    if (kvl_store_reserve(&holder, key_of("k"), 1000, KVL_SECOND, &grant) == KVL_OK) {
        for (i = 0; i < 1000; i += 2) { /* every second byte: ranges grow */
            kvl_store_op_t op = op_of(&grant, i, 1);
            kvl_lease_t *lease;

            if (kvl_store_put_begin(&holder, &op, &lease, &place) == KVL_OK) {
                kvl_store_put_end(lease, KVL_OK);
            }
        }
        CHECK(commit(&holder, &grant, 1000, 1) != KVL_OK);
    }
    if (kvl_store_reserve(&holder, key_of("k"), 1000, KVL_SECOND, &grant) == KVL_OK) {
        CHECK_EQ(commit(&holder, &grant, 1000, 0), KVL_OK);
        if (kvl_store_read(&holder, key_of("k"), 0, KVL_SECOND, &found) == KVL_OK) {
            CHECK_EQ(found.length, 1000);
        }
    }
    kvl_holder_close(&holder, true);
    kvl_store_destroy(store);
}

TEST(store_life, survives_each_failed_allocation)
{
    unsigned n;
    char rule[64];

    for (n = 1; n < 40; n++) {
        snprintf(rule, sizeof(rule), "alloc:fail@%u", n);
        REQUIRE(kvl_fault_setup(rule, 0) == KVL_OK);
        live_once();
    }
    CHECK(kvl_fault_hits(KVL_FAULT_ALLOC) < 40); /* so the last round met none */
    kvl_fault_setup(NULL, 0);
}
