/* SPDX-License-Identifier: BSD-3-Clause */
#include "system/box.h"

#include <string.h>

/* A client that is stopped in mid put, with leases, and goes on long after: the node takes the leases
 * back when their time is over, gives no slot away that the client could still write into, and no byte
 * of it ever shows in another value. */

#define LEASE      "1s"
#define LEASE_MS   1000
#define SETTLE_MS  3000 /* without a lease and yet with a session: so it stays */
#define SLACK_MS   9000 /* the sessions' end, on a busy machine */
#define OTHERS     48
#define OTHER_SIZE (1u << 20)

typedef struct {
    box_node_t node;
    box_client_t client;
    box_child_t hung;
    unsigned harmless;
} scene_t;

static scene_t scene;

TEARDOWN
{
    box_kill_all();
}

static void hung_start(void)
{
    const char *argv[] = {shim_built("system_client"), "churn", scene.node.address, "7", NULL};

    box_spawn(&scene.hung, argv, scene.node.settings);
}

/* Stops it at a moment when it holds leases; the mark says that a batch begins. */
static void stop_with_leases(char mark)
{
    unsigned tries;

    for (tries = 0; tries < 200; tries++) {
        REQUIRE(box_marks(&scene.hung, mark, 1, 20000));
        box_pause_us(300 * (tries % 16));
        box_stop(&scene.hung);
        if (box_stat(&scene.client).leases > 0) {
            return;
        }
        box_continue(&scene.hung);
    }
    CHECK_MSG(false, "never seen with a lease");
}

static void put_others(uint32_t generation)
{
    char key[16];
    uint32_t i;

    for (i = 0; i < OTHERS; i++) {
        snprintf(key, sizeof(key), "other%u", (unsigned)i);
        pattern_fill(scene.client.pool, OTHER_SIZE, i, generation);
        CHECK_EQ(box_put(&scene.client, key, OTHER_SIZE), KVL_OK);
    }
}

/* those that are still there, since the other client puts as well */
static unsigned check_others(uint32_t generation)
{
    unsigned found = 0;
    char key[16];
    uint32_t i;

    for (i = 0; i < OTHERS; i++) {
        kvl_status_t status;

        snprintf(key, sizeof(key), "other%u", (unsigned)i);
        status = box_get(&scene.client, key, OTHER_SIZE);
        CHECK(status == KVL_OK || status == KVL_ERR_NOT_FOUND);
        if (status == KVL_OK) {
            found++;
            CHECK_EQ(pattern_differs(scene.client.pool, OTHER_SIZE, i, generation), OTHER_SIZE);
        }
    }
    return found;
}

/* Asks until the stopped client has no session and no lease; returns how long that took. */
static int64_t until_leases_return(kvl_node_stat_t *stat)
{
    int64_t started = box_now_ms(), ms;

    do {
        box_pause_us(5000);
        *stat = box_stat(&scene.client);
        ms    = box_now_ms() - started;
    } while ((stat->sessions > 1 || stat->leases > stat->quarantined_slots) &&
             (stat->leases || ms < LEASE_MS + SETTLE_MS) && ms < LEASE_MS + SLACK_MS);
    return ms;
}

/* All its leases were for reading, or it had sent the end of those for writing before it stopped: they are
 * over, it can do no harm, and its session stays. */
static bool was_harmless(const kvl_node_stat_t *stat)
{
    if (stat->sessions > 1 && !stat->leases) {
        box_continue(&scene.hung);
        return ++scene.harmless < 20;
    }
    CHECK_MSG(stat->sessions == 1 && stat->leases <= stat->quarantined_slots,
              "%llu sessions, %llu leases, %llu slots in quarantine",
              (unsigned long long)stat->sessions, (unsigned long long)stat->leases,
              (unsigned long long)stat->quarantined_slots);
    return false;
}

static void hang_round(bool shared, unsigned round, bool goes_on)
{
    kvl_node_stat_t stat;
    int64_t ms;

    do {
        stop_with_leases('p');
        ms = until_leases_return(&stat);
    } while (was_harmless(&stat));
    if (shared) {
        CHECK(stat.quarantined_slots > 0); /* also the scratch of its self-test */
    } else {
        CHECK_EQ(stat.quarantined_slots, 0);
    }
    put_others(round); /* slots that were its, where it is safe */
    if (goes_on) {
        box_continue(&scene.hung);
        CHECK(box_marks(&scene.hung, 'p', 2, 20000)); /* it comes back by itself */
        box_kill(&scene.hung);
    } else {
        box_kill(&scene.hung);
    }
    printf("%s: its leases were back after %lld ms, %llu slots in quarantine\n",
           goes_on ? "goes on" : "killed", (long long)ms,
           (unsigned long long)stat.quarantined_slots);
    box_until_quiet(&scene.client, 1, 10000);
    CHECK(check_others(round) > 0);
}

static void hangs(const char *rails, bool shared)
{
    const box_setting_t settings[] = {
        {"KVLANE_RAILS", rails}, {"KVLANE_LEASE_MAX", LEASE}, {NULL, NULL}};
    unsigned round;

    scene = (scene_t){.node.child.pid = 0};
    box_node_set(&scene.node, rails, "160M", settings + 1);
    box_node_start(&scene.node);
    box_client_open(&scene.client, scene.node.address, OTHER_SIZE, settings);
    for (round = 1; round <= 4; round++) {
        hung_start();
        hang_round(shared, round, round % 2);
    }
    box_client_close(&scene.client);
    box_node_end(&scene.node);
}

TEST(trouble_hang, of_a_client_over_tcp_costs_its_lease_time)
{
    hangs("tcp", false);
}

TEST(trouble_hang, of_a_client_over_shared_memory_keeps_its_slots_until_it_ends)
{
    hangs("shm", true);
}
