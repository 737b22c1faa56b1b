/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/shim.h"

#include "rail/health.h"

#include "base/clock.h"

#include <string.h>

static kvl_health_t health;

static const kvl_health_params_t params = {
    .errors_max       = 2,
    .window_ns        = 1000 * KVL_MS,
    .calm_ns          = 5000 * KVL_MS,
    .probe_timeout_ns = 200 * KVL_MS,
    .backoff_min_ns   = 100 * KVL_MS,
    .backoff_max_ns   = 1600 * KVL_MS,
    .seed             = 42,
};

SETUP
{
    kvl_health_init(&health, &params, 0);
}

static bool on(kvl_health_event_t event, int64_t now_ms)
{
    return kvl_health_on(&health, event, "test", now_ms * KVL_MS);
}

static void fail_until_quarantined(int64_t now_ms)
{
    for (unsigned i = 0; i <= params.errors_max; i++) {
        on(KVL_HEALTH_ERROR, now_ms);
    }
    REQUIRE(health.state == KVL_HEALTH_QUARANTINED);
}

/* the pause before the next probe, in ms */
static int64_t pause_ms(int64_t now_ms)
{
    return kvl_health_next_ns(&health) / KVL_MS - now_ms;
}

TEST(health_state, begins_up_and_takes_ops)
{
    CHECK_EQ(health.state, KVL_HEALTH_UP);
    CHECK(kvl_health_takes(&health));
    CHECK(!kvl_health_due(&health, INT64_MAX));
    CHECK(kvl_health_next_ns(&health) == INT64_MAX);
    CHECK_EQ(health.entered[KVL_HEALTH_UP], 1);
}

TEST(health_state, is_suspect_after_one_error_and_still_takes_ops)
{
    CHECK(on(KVL_HEALTH_ERROR, 10));
    CHECK_EQ(health.state, KVL_HEALTH_SUSPECT);
    CHECK(kvl_health_takes(&health));
    CHECK_STR_EQ(health.why, "test");
    CHECK(!on(KVL_HEALTH_SUCCESS, 20)); /* one that works proves little */
    CHECK_EQ(health.state, KVL_HEALTH_SUSPECT);
}

TEST(health_state, is_up_again_after_a_long_calm)
{
    on(KVL_HEALTH_ERROR, 10);
    CHECK(!on(KVL_HEALTH_SUCCESS, 5009));
    CHECK(on(KVL_HEALTH_SUCCESS, 5010));
    CHECK_EQ(health.state, KVL_HEALTH_UP);
}

TEST(health_state, is_quarantined_by_errors_in_a_window_only)
{
    on(KVL_HEALTH_ERROR, 0);
    on(KVL_HEALTH_ERROR, 900);
    on(KVL_HEALTH_ERROR, 1001); /* a new window */
    on(KVL_HEALTH_ERROR, 1500);
    CHECK_EQ(health.state, KVL_HEALTH_SUSPECT);
    CHECK(on(KVL_HEALTH_ERROR, 2001));
    CHECK_EQ(health.state, KVL_HEALTH_QUARANTINED);
    CHECK(!kvl_health_takes(&health));
}

TEST(health_state, ignores_late_ops_in_quarantine)
{
    fail_until_quarantined(0);
    CHECK(!on(KVL_HEALTH_ERROR, 1));
    CHECK(!on(KVL_HEALTH_SUCCESS, 2));
    CHECK(!on(KVL_HEALTH_SUCCESS, 100000));
    CHECK_EQ(health.state, KVL_HEALTH_QUARANTINED);
}

TEST(health_state, is_quarantined_at_once_when_the_link_goes_down)
{
    CHECK(on(KVL_HEALTH_LINK_DOWN, 10));
    CHECK_EQ(health.state, KVL_HEALTH_QUARANTINED);
    CHECK(!kvl_health_due(&health, 10 * KVL_MS));
    CHECK(!on(KVL_HEALTH_LINK_UP, 20)); /* it is proved first */
    CHECK(kvl_health_due(&health, 20 * KVL_MS));
    CHECK(!kvl_health_takes(&health));
}

TEST(health_probe, brings_a_rail_back)
{
    uint64_t probe;

    fail_until_quarantined(0);
    CHECK(!kvl_health_due(&health, 49 * KVL_MS));
    CHECK(kvl_health_due(&health, 100 * KVL_MS));
    CHECK(kvl_health_due(&health, 100 * KVL_MS)); /* asking changes nothing */
    CHECK_EQ(health.state, KVL_HEALTH_QUARANTINED);
    probe = kvl_health_probe(&health, 100 * KVL_MS);
    CHECK_EQ(health.state, KVL_HEALTH_PROBING);
    CHECK(!kvl_health_due(&health, 1000 * KVL_MS));
    CHECK(!kvl_health_takes(&health));
    CHECK(kvl_health_probed(&health, probe, true, "pong", 110 * KVL_MS));
    CHECK_EQ(health.state, KVL_HEALTH_UP);
    CHECK_STR_EQ(health.why, "pong");
    CHECK(!on(KVL_HEALTH_ERROR, 115) || health.state == KVL_HEALTH_SUSPECT); /* a new count */
}

TEST(health_probe, counts_once_and_only_the_latest)
{
    uint64_t first, second;

    fail_until_quarantined(0);
    first = kvl_health_probe(&health, 100 * KVL_MS);
    CHECK(!kvl_health_expire(&health, 299 * KVL_MS));
    CHECK_EQ(kvl_health_next_ns(&health), 300 * KVL_MS);
    CHECK(kvl_health_expire(&health, 300 * KVL_MS));
    CHECK_EQ(health.state, KVL_HEALTH_QUARANTINED);
    CHECK(!kvl_health_expire(&health, 301 * KVL_MS));
    CHECK(!kvl_health_probed(&health, first, true, "late", 310 * KVL_MS));
    second = kvl_health_probe(&health, 600 * KVL_MS);
    CHECK(second != first);
    CHECK_EQ(kvl_health_probe(&health, 601 * KVL_MS), second); /* one at a time */
    CHECK(!kvl_health_probed(&health, first, true, "later", 610 * KVL_MS));
    CHECK_EQ(health.state, KVL_HEALTH_PROBING);
    CHECK(kvl_health_probed(&health, second, false, "refused", 620 * KVL_MS));
    CHECK(!kvl_health_probed(&health, second, true, "twice", 630 * KVL_MS));
    CHECK_EQ(health.state, KVL_HEALTH_QUARANTINED);
}

TEST(health_probe, is_not_sent_by_a_rail_that_is_well)
{
    CHECK_EQ(kvl_health_probe(&health, 0), 0);
    CHECK_EQ(health.state, KVL_HEALTH_UP);
    CHECK(!kvl_health_probed(&health, 0, false, "?", 0));
    CHECK_EQ(health.state, KVL_HEALTH_UP);
}

TEST(health_backoff, doubles_up_to_its_limit_less_some_chance)
{
    static const int64_t longest[] = {100, 200, 400, 800, 1600, 1600, 1600};
    int64_t now                    = 0;

    fail_until_quarantined(now);
    for (unsigned i = 0; i < 7; i++) {
        int64_t pause = pause_ms(now);

        CHECK_MSG(pause >= longest[i] / 2 && pause <= longest[i], "pause %u is %lld ms", i,
                  (long long)pause);
        now += pause + 1;
        REQUIRE(kvl_health_due(&health, now * KVL_MS));
        kvl_health_probed(&health, kvl_health_probe(&health, now * KVL_MS), false, "no",
                          now * KVL_MS);
    }
}

TEST(health_backoff, goes_on_for_a_rail_that_is_well_for_a_moment)
{
    unsigned probes = 0;

    /* it answers every probe and fails at once: a minute of that */
    fail_until_quarantined(0);
    for (int64_t now = 0; now < 60000; now++) {
        if (kvl_health_due(&health, now * KVL_MS)) {
            kvl_health_probed(&health, kvl_health_probe(&health, now * KVL_MS), true, "pong",
                              now * KVL_MS);
            on(KVL_HEALTH_SUCCESS, now);
            fail_until_quarantined(now);
            probes++;
        }
    }
    /* at most 5 while it doubles, then one each 0.8 to 1.6 s */
    CHECK_MSG(probes >= 30 && probes <= 80, "%u probes in a minute", probes);
}

TEST(health_backoff, is_forgotten_after_a_long_calm)
{
    int64_t now = 0;

    fail_until_quarantined(now);
    for (unsigned i = 0; i < 6; i++) {
        now = kvl_health_next_ns(&health) / KVL_MS + 1;
        kvl_health_probed(&health, kvl_health_probe(&health, now * KVL_MS), i == 5, "",
                          now * KVL_MS);
    }
    CHECK_EQ(health.state, KVL_HEALTH_UP);
    on(KVL_HEALTH_SUCCESS, now + 5000);
    fail_until_quarantined(now + 5001);
    CHECK(pause_ms(now + 5001) <= 100);
}

TEST(health_backoff, differs_between_processes)
{
    kvl_health_params_t other = params;
    kvl_health_t twin;
    unsigned same = 0;

    other.seed = 43;
    kvl_health_init(&twin, &other, 0);
    kvl_health_on(&health, KVL_HEALTH_LINK_DOWN, NULL, 0);
    kvl_health_on(&twin, KVL_HEALTH_LINK_DOWN, NULL, 0);
    for (unsigned i = 0; i < 20; i++) {
        int64_t now = 10000 * KVL_MS * (i + 1);

        same += kvl_health_next_ns(&health) == kvl_health_next_ns(&twin);
        kvl_health_probed(&health, kvl_health_probe(&health, now), false, NULL, now);
        kvl_health_probed(&twin, kvl_health_probe(&twin, now), false, NULL, now);
    }
    CHECK(same < 2);
}

TEST(health_backoff, takes_any_times)
{
    static const int64_t values[] = {0, 1, INT64_MAX / 2, INT64_MAX};

    for (unsigned i = 0; i < 16; i++) {
        kvl_health_params_t any = {.backoff_min_ns   = values[i / 4],
                                   .backoff_max_ns   = values[i % 4],
                                   .probe_timeout_ns = INT64_MAX};

        kvl_health_init(&health, &any, 0);
        for (unsigned j = 0; j < 100; j++) {
            on(KVL_HEALTH_LINK_DOWN, 5);
            CHECK(kvl_health_next_ns(&health) >= 5 * KVL_MS);
            kvl_health_probed(&health, kvl_health_probe(&health, 5 * KVL_MS), false, NULL,
                              5 * KVL_MS);
        }
    }
}

TEST(health_drain, holds_until_added_and_then_a_probe_decides)
{
    static const kvl_health_event_t deaf[] = {KVL_HEALTH_ERROR, KVL_HEALTH_SUCCESS,
                                              KVL_HEALTH_LINK_DOWN, KVL_HEALTH_LINK_UP,
                                              KVL_HEALTH_DRAIN};
    uint64_t probe;

    CHECK(on(KVL_HEALTH_DRAIN, 0));
    for (size_t i = 0; i < sizeof(deaf) / sizeof(deaf[0]); i++) {
        CHECK(!on(deaf[i], 1));
    }
    CHECK_EQ(health.state, KVL_HEALTH_DRAINED);
    CHECK(!kvl_health_takes(&health));
    CHECK(!kvl_health_due(&health, INT64_MAX));
    CHECK(on(KVL_HEALTH_ADD, 100));
    CHECK(kvl_health_due(&health, 100 * KVL_MS)); /* no pause */
    probe = kvl_health_probe(&health, 100 * KVL_MS);
    CHECK(kvl_health_probed(&health, probe, true, "pong", 101 * KVL_MS));
    CHECK_EQ(health.state, KVL_HEALTH_UP);
}

TEST(health_drain, is_possible_from_every_state)
{
    uint64_t probe;

    on(KVL_HEALTH_ERROR, 0);
    CHECK(on(KVL_HEALTH_DRAIN, 0)); /* suspect */
    on(KVL_HEALTH_ADD, 0);
    CHECK(on(KVL_HEALTH_DRAIN, 0)); /* quarantined */
    on(KVL_HEALTH_ADD, 0);
    probe = kvl_health_probe(&health, 0);
    CHECK(on(KVL_HEALTH_DRAIN, 0)); /* probing: its answer comes too late */
    CHECK(!kvl_health_probed(&health, probe, true, "pong", 1));
    CHECK_EQ(health.state, KVL_HEALTH_DRAINED);
}

/* every event in every state, for long: only states that a road leads to, and no op on a sick rail */
TEST(health_state, never_goes_where_no_road_leads)
{
    /* from, to */
    static const bool roads[5][5] = {
        {true, true, true, false, true},   /* up */
        {true, true, true, false, true},   /* suspect */
        {false, false, true, true, true},  /* quarantined */
        {true, false, true, true, true},   /* probing */
        {false, false, true, false, true}, /* drained */
    };
    uint64_t random = 88172645463325252u;

    for (unsigned i = 0; i < 200000; i++) {
        kvl_health_state_t before = health.state;
        int64_t now               = i * (int64_t)KVL_MS * 20;

        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        switch (random % 9) {
        case 7:
            if (kvl_health_due(&health, now)) {
                kvl_health_probe(&health, now);
            }
            break;
        case 8:
            kvl_health_probed(&health, health.probe, random >> 32 & 1, "", now);
            kvl_health_expire(&health, now);
            break;
        default: {
            static const kvl_health_event_t events[] = {
                KVL_HEALTH_ERROR,   KVL_HEALTH_SUCCESS, KVL_HEALTH_LINK_DOWN, KVL_HEALTH_LINK_UP,
                KVL_HEALTH_SUCCESS, KVL_HEALTH_DRAIN,   KVL_HEALTH_ADD};

            kvl_health_on(&health, events[random % 9], "", now);
        }
        }
        REQUIRE(health.state < KVL_HEALTH_STATES);
        REQUIRE(roads[before][health.state]);
        REQUIRE(kvl_health_takes(&health) ==
                (health.state == KVL_HEALTH_UP || health.state == KVL_HEALTH_SUSPECT));
    }
    for (unsigned i = 0; i < KVL_HEALTH_STATES; i++) {
        CHECK_MSG(health.entered[i] > 10, "%s was entered %llu times",
                  kvl_health_name((kvl_health_state_t)i), (unsigned long long)health.entered[i]);
    }
}

/* ---- blame ---- */

static kvl_blame_t blame(kvl_status_t status, kvl_port_state_t link, unsigned rail_ok,
                         unsigned rail_bad, unsigned peer_ok, unsigned peer_bad)
{
    kvl_evidence_t evidence = {status, link, rail_ok, rail_bad, peer_ok, peer_bad};

    return kvl_blame(&evidence);
}

TEST(blame, goes_by_the_status_when_nothing_else_is_known)
{
    CHECK_EQ(blame(KVL_ERR_RAIL, KVL_PORT_UP, 0, 0, 0, 0), KVL_BLAME_RAIL);
    CHECK_EQ(blame(KVL_ERR_REGISTER, KVL_PORT_UP, 0, 0, 0, 0), KVL_BLAME_RAIL);
    CHECK_EQ(blame(KVL_ERR_PEER, KVL_PORT_UP, 0, 0, 0, 0), KVL_BLAME_PEER);
    CHECK_EQ(blame(KVL_ERR_UNREACHABLE, KVL_PORT_UNKNOWN, 0, 0, 0, 0), KVL_BLAME_PEER);
    CHECK_EQ(blame(KVL_ERR_PROTOCOL, KVL_PORT_UP, 0, 0, 0, 0), KVL_BLAME_PEER);
    CHECK_EQ(blame(KVL_ERR_TIMEOUT, KVL_PORT_UP, 0, 0, 0, 0), KVL_BLAME_NEITHER);
}

TEST(blame, is_for_nobody_when_items_or_callers_are_wrong)
{
    static const kvl_status_t harmless[] = {KVL_OK,          KVL_INPROGRESS,    KVL_ERR_BUSY,
                                            KVL_ERR_LEASE,   KVL_ERR_CANCELED,  KVL_ERR_NO_MEMORY,
                                            KVL_ERR_CLOSED,  KVL_ERR_NOT_FOUND, KVL_ERR_LIMIT,
                                            KVL_ERR_CHECKSUM};

    for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++) {
        CHECK_EQ(blame(harmless[i], KVL_PORT_UP, 0, 0, 0, 0), KVL_BLAME_NEITHER);
        CHECK_EQ(blame(harmless[i], KVL_PORT_DOWN, 0, 3, 3, 0), KVL_BLAME_NEITHER);
    }
}

TEST(blame, spares_the_rail_of_a_dead_peer)
{
    /* others answer over this rail; the peer fails over its other rails as well */
    CHECK_EQ(blame(KVL_ERR_PEER, KVL_PORT_UP, 5, 0, 0, 3), KVL_BLAME_PEER);
    CHECK_EQ(blame(KVL_ERR_TIMEOUT, KVL_PORT_UP, 5, 0, 0, 3), KVL_BLAME_PEER);
    /* both fail elsewhere: nobody knows, but it said that it went */
    CHECK_EQ(blame(KVL_ERR_PEER, KVL_PORT_UP, 0, 2, 0, 3), KVL_BLAME_PEER);
    CHECK_EQ(blame(KVL_ERR_TIMEOUT, KVL_PORT_UP, 0, 2, 0, 3), KVL_BLAME_NEITHER);
}

TEST(blame, spares_the_peer_of_a_dead_rail)
{
    CHECK_EQ(blame(KVL_ERR_PEER, KVL_PORT_DOWN, 0, 0, 0, 0), KVL_BLAME_RAIL);
    CHECK_EQ(blame(KVL_ERR_TIMEOUT, KVL_PORT_DOWN, 0, 0, 0, 0), KVL_BLAME_RAIL);
    CHECK_EQ(blame(KVL_ERR_PEER, KVL_PORT_UP, 0, 4, 2, 0), KVL_BLAME_RAIL);
    CHECK_EQ(blame(KVL_ERR_TIMEOUT, KVL_PORT_UP, 0, 4, 2, 0), KVL_BLAME_RAIL);
    CHECK_EQ(blame(KVL_ERR_PEER, KVL_PORT_UP, 0, 4, 0, 0), KVL_BLAME_NEITHER);
}

TEST(blame, spares_both_when_the_road_between_them_is_broken)
{
    /* the rail works with others and the peer over others */
    CHECK_EQ(blame(KVL_ERR_PEER, KVL_PORT_UP, 3, 0, 2, 0), KVL_BLAME_NEITHER);
    CHECK_EQ(blame(KVL_ERR_UNREACHABLE, KVL_PORT_UP, 3, 0, 2, 0), KVL_BLAME_NEITHER);
    CHECK_EQ(blame(KVL_ERR_TIMEOUT, KVL_PORT_UP, 3, 1, 2, 1), KVL_BLAME_NEITHER);
}
