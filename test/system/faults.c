/* SPDX-License-Identifier: BSD-3-Clause */
#include "system/box.h"

#include "base/alloc.h"
#include "base/fault.h"

#include <kvlane/transport.h>

#include <stdlib.h>
#include <string.h>

/* The n-th allocation, or the n-th call into UCP, fails: of an engine that moves bytes to another one, of
 * that other one, and of a node while it serves. (A cache's own life is in test/conform/cache_nth.c.) Each
 * time: a clean status or a clean end, no hang, nothing left behind, and the other side serves the next
 * one. KVLANE_TEST_NTH_STEP: tries each n (1) or some (the others run now and then). */

#define STEP       3
#define NTH_MAX    3000
#define BYTES      (1u << 20)
#define START_MS   30000
#define SHORT_WAIT "700ms"

TEARDOWN
{
    kvl_fault_setup(NULL, 0);
    box_kill_all();
}

static unsigned step(void)
{
    unsigned step = box_number("KVLANE_TEST_NTH_STEP", STEP);

    return step ? step : 1;
}

static const char *rule(char text[64], const char *point, unsigned nth)
{
    snprintf(text, 64, "%s:fail@%u", point, nth);
    return text;
}

/* ---- engine to engine ---- */

typedef struct {
    box_child_t child;
    char address[64];
    uint8_t blob[2048];
    size_t blob_length;
} target_t;

/* false if it ended instead, which is fine for one with a fault */
static bool target_start(target_t *target, const char *rails, const char *fault)
{
    const box_setting_t settings[] = {
        {"KVLANE_RAILS", rails}, {"KVLANE_FAULT", fault}, {NULL, NULL}};
    const char *argv[] = {shim_built("system_client"), "target", NULL};
    static char line[8192];
    static char hex[4100];
    size_t i;

    *target = (target_t){.child.pid = 0};
    box_spawn(&target->child, argv, settings);
    if (!box_line(&target->child, line, sizeof(line), START_MS)) {
        return false;
    }
    REQUIRE(sscanf(line, "ready %63s %4096s", target->address, hex) == 2);
    target->blob_length = strlen(hex) / 2;
    for (i = 0; i < target->blob_length; i++) {
        unsigned byte = 0;

        REQUIRE(sscanf(hex + 2 * i, "%2x", &byte) == 1);
        target->blob[i] = (uint8_t)byte;
    }
    return true;
}

typedef struct {
    kvl_engine_t *engine;
    kvl_region_t *region;
    kvl_peer_t *peer;
    kvl_remote_t *remote;
} initiator_t;

static kvl_status_t transfer(initiator_t *in, kvl_transfer_op_t op, int notify)
{
    uint8_t *pool       = kvl_region_address(in->region);
    kvl_part_t parts[3] = {{{pool, 300000, NULL}, in->remote, 5},
                           {{pool + 400000, 3000, NULL}, in->remote, 310000},
                           {{pool + 500000, 10, NULL}, in->remote, 320000}};
    kvl_transfer_t t    = {.op                  = op,
                           .parts               = parts,
                           .part_count          = 3,
                           .notification        = "done",
                           .notification_length = notify ? 4 : 0,
                           .has_notification    = notify};
    kvl_batch_t *batch  = NULL;
    kvl_status_t status = kvl_transfer_submit(in->peer, &t, NULL, &batch);

    if (status != KVL_INPROGRESS) {
        return status;
    }
    status = kvl_batch_wait(batch, -1);
    CHECK(status != KVL_INPROGRESS);
    CHECK_EQ(kvl_batch_release(batch), KVL_OK);
    return status;
}

static kvl_status_t initiator_run(initiator_t *in, const target_t *target)
{
    uint8_t *pool;
    kvl_status_t status;

    status = kvl_region_alloc(in->engine, BYTES, &in->region);
    if (status == KVL_OK) {
        status = kvl_connect(in->engine, target->address, 0, &in->peer);
    }
    if (status == KVL_OK) {
        status = kvl_remote_import(in->peer, target->blob, target->blob_length, &in->remote);
    }
    if (status != KVL_OK) {
        return status;
    }
    pool = kvl_region_address(in->region);
    pattern_fill(pool, 300000, 1, 1);
    status = transfer(in, KVL_TRANSFER_PUT, 1);
    if (status == KVL_OK) {
        memset(pool, 0, BYTES);
        status = transfer(in, KVL_TRANSFER_GET, 0);
        CHECK(status != KVL_OK || pattern_differs(pool, 300000, 1, 1) == 300000);
    }
    return status;
}

static kvl_status_t initiator_life(const target_t *target, const char *rails, const char *fault)
{
    static const char *const short_waits[] = {"KVLANE_TIMEOUT", "KVLANE_CONNECT_TIMEOUT"};
    kvl_engine_params_t params             = {.address = target->address};
    kvl_config_t *config                   = NULL;
    initiator_t in                         = {.engine = NULL};
    kvl_status_t status;
    size_t i;

    REQUIRE(kvl_config_create(&config) == KVL_OK);
    CHECK_EQ(kvl_config_set(config, "KVLANE_RAILS", rails), KVL_OK);
    CHECK_EQ(kvl_config_set(config, "KVLANE_SG_ENDPOINTS", "2"), KVL_OK);
    CHECK_EQ(kvl_config_set(config, "KVLANE_FAULT", fault), KVL_OK);
    for (i = 0; fault[0] && i < 2; i++) {
        CHECK_EQ(kvl_config_set(config, short_waits[i], SHORT_WAIT), KVL_OK);
    }
    params.config = config;
    kvl_fault_setup(NULL, 0); /* the engine installs the rule, and counts from 0 */
    status = kvl_engine_create(&params, &in.engine);
    if (status == KVL_OK) {
        status = initiator_run(&in, target);
    }
    kvl_remote_release(in.remote);
    kvl_peer_close(in.peer);
    CHECK_EQ(kvl_region_release(in.region), KVL_OK);
    kvl_engine_destroy(in.engine);
    kvl_config_destroy(config);
    return status;
}

static void initiator_fails(const char *rails, const char *point, kvl_fault_point_t counter)
{
    unsigned nth, failed = 0, reached = 1;
    kvl_status_t status;
    target_t target;
    char text[64];
    long live;

    REQUIRE(target_start(&target, rails, ""));
    CHECK_EQ(initiator_life(&target, rails, ""), KVL_OK);
    live = kvl_live_objects();
    for (nth = 1; nth < NTH_MAX && reached; nth += step()) {
        int64_t started = box_now_ms();

        status  = initiator_life(&target, rails, rule(text, point, nth));
        reached = kvl_fault_hits(counter) >= nth;
        kvl_fault_setup(NULL, 0);
        failed += status != KVL_OK;
        CHECK_MSG(status <= 0, "%s: %s", text, kvl_status_name(status));
        CHECK_MSG(kvl_live_objects() == live, "%s: %ld blocks left behind", text,
                  kvl_live_objects() - live);
        CHECK_MSG(box_now_ms() - started < 10000, "%s took %lld ms", text,
                  (long long)(box_now_ms() - started));
        live = kvl_live_objects();
    }
    CHECK(nth > 20);
    CHECK(nth < NTH_MAX && failed > 0);
    CHECK_MSG(box_runs(&target.child), "the target died");
    CHECK_EQ(initiator_life(&target, rails, ""), KVL_OK);
    printf("%s, %s: %u failures up to the %u-th, %u of them failed something\n", rails, point,
           (nth - 1) / step(), nth, failed);
    box_kill(&target.child);
}

TEST(faults_initiator, of_each_allocation_over_tcp)
{
    initiator_fails("tcp", "alloc", KVL_FAULT_ALLOC);
}

TEST(faults_initiator, of_each_allocation_over_shared_memory)
{
    initiator_fails("shm", "alloc", KVL_FAULT_ALLOC);
}

TEST(faults_initiator, of_each_call_into_ucp_over_tcp)
{
    initiator_fails("tcp", "ucp", KVL_FAULT_UCP);
}

TEST(faults_initiator, of_each_call_into_ucp_over_shared_memory)
{
    initiator_fails("shm", "ucp", KVL_FAULT_UCP);
}

/* ---- the other side ---- */

/* What a child with a fault may do: live, or have ended with 1 and a word. */
static void check_alive_or_refused(box_child_t *child, const char *text)
{
    int ended;

    if (box_runs(child)) {
        box_kill(child);
        return;
    }
    ended = box_wait(child, 0);
    CHECK_MSG(ended == 1, "%s: it ended by itself with %d (from 256 on: a signal), not with 1", text,
              ended);
}

/* up to @a last: a bound, for what a process counts cannot be seen from here */
static void target_fails(const char *rails, const char *point, unsigned last)
{
    unsigned nth, ended = 0, failed = 0;
    target_t target;
    char text[64];

    for (nth = 1; nth <= last; nth += step()) {
        if (!target_start(&target, rails, rule(text, point, nth))) {
            ended++;
            CHECK_MSG(box_wait(&target.child, 10000) == 1, "%s: the target did not end with 1",
                      text);
            continue;
        }
        failed += initiator_life(&target, rails, "alloc:fail@1000000000") != KVL_OK;
        kvl_fault_setup(NULL, 0);
        check_alive_or_refused(&target.child, text);
    }
    printf("%s, %s: up to the %u-th; %u targets did not start, %u initiators failed\n", rails,
           point, last, ended, failed);
}

TEST(faults_target, of_each_allocation)
{
    target_fails("tcp", "alloc", 250);
}

TEST(faults_target, of_each_call_into_ucp)
{
    target_fails("shm", "ucp", 100);
}

/* ---- a node that serves ---- */

static kvl_status_t serve_one(const char *address, const char *rails)
{
    const box_setting_t settings[] = {
        {"KVLANE_RAILS", rails}, {"KVLANE_SG_ENDPOINTS", "2"}, {NULL, NULL}};
    kvl_status_t status;
    box_client_t client;

    box_client_start(&client, address, BYTES, settings);
    status = kvl_cache_connect(client.cache, 1500);
    pattern_fill(client.pool, 300000, 1, 1);
    if (status == KVL_OK) {
        status = box_put(&client, "page", 300000);
    }
    if (status == KVL_OK) {
        memset(client.pool, 0, BYTES);
        status = box_get(&client, "page", 300000);
        CHECK(status != KVL_OK || pattern_differs(client.pool, 300000, 1, 1) == 300000);
    }
    box_client_close(&client);
    return status;
}

/* The fault hits one client, or none: three in a row, of whom one at most may fail. */
static unsigned serve_some(const char *address, const char *rails, const char *text)
{
    unsigned failed = 0, i;

    for (i = 0; i < 3; i++) {
        kvl_status_t status = serve_one(address, rails);

        failed += status != KVL_OK;
        CHECK_MSG(status <= 0, "%s: %s", text, kvl_status_name(status));
    }
    CHECK_MSG(failed <= 1, "%s: %u of 3 clients failed, the last with: %s", text, failed,
              kvl_error_text());
    return failed;
}

static void node_fails(const char *rails, const char *point, unsigned last)
{
    unsigned nth, ended = 0, failed = 0;
    char text[64];

    for (nth = 1; nth <= last; nth += step()) {
        const box_setting_t more[] = {{"KVLANE_FAULT", rule(text, point, nth)},
                                      {"KVLANE_CONNECT_TIMEOUT", "2s"},
                                      {NULL, NULL}};
        box_node_t node;

        box_node_set(&node, rails, "16M", more);
        if (!box_node_try(&node)) {
            ended++;
            CHECK_MSG(box_wait(&node.child, 10000) == 1, "%s: kvlaned did not end with 1", text);
            continue;
        }
        failed += serve_some(node.address, rails, text);
        CHECK_MSG(box_runs(&node.child), "%s: the node died", text);
        if (box_runs(&node.child)) {
            box_node_end(&node);
        }
    }
    printf("%s, %s: up to the %u-th; %u nodes did not start, %u clients failed\n", rails, point,
           last, ended, failed);
}

TEST(faults_node, of_each_allocation_while_it_serves)
{
    node_fails("tcp", "alloc", 250);
}

TEST(faults_node, of_each_call_into_ucp_while_it_serves_over_tcp)
{
    node_fails("tcp", "ucp", 100);
}

TEST(faults_node, of_each_call_into_ucp_while_it_serves_over_shared_memory)
{
    node_fails("shm", "ucp", 100);
}
