/* SPDX-License-Identifier: BSD-3-Clause */
#include "system/box.h"

#include <stdlib.h>

/* Clients that are killed in mid put and mid get: the node lives, serves the others meanwhile, shows no
 * value that is not one whole put, and is afterwards as it was. KVLANE_TEST_KILLS: how many. */

#define KILLS      20
#define MARK_MS    20000
#define QUIET_MS   15000
#ifdef __SANITIZE_ADDRESS__
#define IS_SANITIZED true
#else
#define IS_SANITIZED false
#endif
#define RSS_GROWTH (16u << 20) /* UCX 1.22 warms up for longer than a quarter of the kills */

typedef struct {
    box_node_t node;
    box_client_t client; /* one that nobody kills */
    box_child_t victims[2];
    uint64_t random;
    uint32_t born, mid_put, mid_get;
    uint64_t verified, found;
} scene_t;

static scene_t scene;

TEARDOWN
{
    box_kill_all();
}

static void victim_start(box_child_t *victim)
{
    char id[16];
    const char *argv[] = {shim_built("system_client"), "churn", scene.node.address, id, NULL};

    snprintf(id, sizeof(id), "%u", (unsigned)++scene.born);
    box_spawn(victim, argv, scene.node.settings);
}

/* In the middle of a batch: its mark came, and then somewhere in the next milliseconds. */
static void victim_kill(box_child_t *victim, bool put)
{
    unsigned count = 1 + (unsigned)(box_random(&scene.random) % 3);
    bool marked    = box_marks(victim, put ? 'p' : 'g', count, MARK_MS);

    if (!marked && box_runs(victim)) {
        box_hold();
    }
    CHECK_MSG(marked, "a client %s; see system_children.log", box_runs(victim) ? "hangs" : "ended");
    REQUIRE(marked);
    box_pause_us((unsigned)(box_random(&scene.random) % 8000));
    CHECK_MSG(box_runs(victim), "a client ended by itself; see system_children.log");
    box_kill(victim);
    scene.mid_put += put;
    scene.mid_get += !put;
}

/* Every value that is there is one whole put. */
static void verify(void)
{
    static pattern_item_t space;
    uint32_t key;

    for (key = 0; key < PATTERN_KEYS; key++) {
        kvl_item_t item     = pattern_item(&space, key, scene.client.pool);
        size_t length       = pattern_length(key), at;
        kvl_status_t status = box_run(&scene.client, KVL_CACHE_GET, &item, 1, 10000, NULL);

        CHECK_MSG(status == KVL_OK || status == KVL_ERR_NOT_FOUND, "key %u: %s", (unsigned)key,
                  kvl_status_name(status));
        REQUIRE(status == KVL_OK || status == KVL_ERR_NOT_FOUND);
        if (status == KVL_OK) {
            at = pattern_differs(scene.client.pool, length, key, pattern_claims(scene.client.pool));
            CHECK_MSG(at == length, "key %u is not one put: byte %zu of %zu, generation %08x",
                      (unsigned)key, at, length, (unsigned)pattern_claims(scene.client.pool));
            scene.found++;
        }
        scene.verified++;
    }
}

/* all of the node's memory is in use once, so that it does not grow later on */
static void fill_memory(void)
{
    char key[16];
    unsigned i;

    for (i = 0; i < 160; i++) {
        snprintf(key, sizeof(key), "fill%u", i);
        CHECK_EQ(box_put(&scene.client, key, 1u << 20), KVL_OK);
    }
}

static box_usage_t usage_when_quiet(void)
{
    box_until_quiet(&scene.client, 1, QUIET_MS);
    return box_usage(scene.node.child.pid);
}

static void kill_round(uint32_t round)
{
    box_child_t *victim = &scene.victims[round % 2];

    victim_kill(victim, round / 2 % 2 == 0);
    CHECK_MSG(box_runs(&scene.node.child), "the node died of kill %u", (unsigned)round);
    REQUIRE(box_runs(&scene.node.child));
    box_works_again(&scene.client, 5000, 2); /* it serves others meanwhile */
    victim_start(victim);
}

static void kill_some(uint32_t from, uint32_t to)
{
    uint32_t round;

    victim_start(&scene.victims[0]);
    victim_start(&scene.victims[1]);
    for (round = from; round < to; round++) {
        kill_round(round);
    }
    victim_kill(&scene.victims[0], true);
    victim_kill(&scene.victims[1], false);
}

static void kills(const char *rails, const char *mode, uint32_t count)
{
    const box_setting_t settings[] = {{"KVLANE_RAILS", rails}, {"KVLANE_MODE", mode}, {NULL, NULL}};
    box_usage_t warm, end;

    scene = (scene_t){.random = 42};
    box_node_set(&scene.node, rails, "96M", settings + 1);
    box_node_start(&scene.node);
    box_client_open(&scene.client, scene.node.address, 4u << 20, settings);
    fill_memory();
    kill_some(0, count / 4);
    warm = usage_when_quiet();
    kill_some(count / 4, count);
    end = usage_when_quiet();
    verify();
    CHECK_MSG(end.fds <= warm.fds, "the node's files grew from %u to %u", warm.fds, end.fds);
    /* the address sanitizer keeps what was freed */
    CHECK_MSG(IS_SANITIZED || end.rss_bytes <= warm.rss_bytes + RSS_GROWTH, "the node grew from %llu to %llu KiB",
              (unsigned long long)warm.rss_bytes >> 10, (unsigned long long)end.rss_bytes >> 10);
    CHECK(scene.found > PATTERN_KEYS / 2);
    printf(
        "%s %s: killed %u in mid put, %u in mid get; %u of %u keys there, all whole; fds %u -> %u, "
        "RSS %llu -> %llu KiB\n",
        rails, mode, (unsigned)scene.mid_put, (unsigned)scene.mid_get, (unsigned)scene.found,
        (unsigned)scene.verified, warm.fds, end.fds, (unsigned long long)warm.rss_bytes >> 10,
        (unsigned long long)end.rss_bytes >> 10);
    box_client_close(&scene.client);
    box_node_end(&scene.node);
}

TEST(trouble_kill, of_clients_over_tcp_leaves_a_whole_node)
{
    kills("tcp", "auto", box_number("KVLANE_TEST_KILLS", KILLS));
}

TEST(trouble_kill, of_clients_over_shared_memory_leaves_a_whole_node)
{
    kills("shm", "auto", box_number("KVLANE_TEST_KILLS", KILLS));
}

TEST(trouble_kill, of_clients_in_messages_over_shared_memory_leaves_a_whole_node)
{
    if (!getenv("KVLANE_TEST_STORM")) {
        SKIP("in message mode over shared memory a killed client may cost the node 3 MB and 8 files, which this "
             "test does not forgive (doc/DESIGN.md, shared memory); KVLANE_TEST_STORM=1 runs it");
    }
    kills("shm", "message", box_number("KVLANE_TEST_KILLS", KILLS));
}
