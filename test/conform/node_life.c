/* SPDX-License-Identifier: BSD-3-Clause */
#include "conform/raw.h"
#include "conform/stage.h"

#include "base/fault.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A node from create to destroy: what it refuses to start with, whom it serves, how it drains, what it
 * does with clients that hang, and that nothing that fails on the way leaves anything behind. */

#define MIB (1u << 20)

static kvl_config_t *config_of(const char *const settings[][2])
{
    kvl_config_t *config;

    REQUIRE(kvl_config_create(&config) == KVL_OK);
    for (; (*settings)[0]; settings++) {
        REQUIRE(kvl_config_set(config, (*settings)[0], (*settings)[1]) == KVL_OK);
    }
    return config;
}

static kvl_status_t node_new(const char *const settings[][2], const char *listen, uint64_t bytes,
                             kvl_node_t **node_p)
{
    kvl_config_t *config     = config_of(settings);
    kvl_node_params_t params = {.config = config, .listen = listen, .memory_bytes = bytes};
    kvl_status_t status      = kvl_node_create(&params, node_p);

    kvl_config_destroy(config);
    return status;
}

static const char *const over_tcp[][2] = {{"KVLANE_RAILS", "tcp"}, {NULL, NULL}};

static kvl_node_t *node_open(char address[128])
{
    kvl_node_t *node = NULL;

    REQUIRE(node_new(over_tcp, "127.0.0.1:0", 16 * MIB, &node) == KVL_OK);
    REQUIRE(kvl_node_address(node, address, 128) == KVL_OK);
    return node;
}

static void client_open(raw_t *raw, const char *address)
{
    raw_open(raw, "tcp", address);
    raw_login(raw);
}

static void *run_main(void *arg)
{
    CHECK_EQ(kvl_node_run(arg), KVL_OK);
    return NULL;
}

TEST(node_create, says_what_is_wrong_with_its_arguments)
{
    kvl_node_params_t params = {.listen = "127.0.0.1:0", .memory_bytes = 100};
    char address[128], small[4];
    kvl_node_t *node, *other = NULL;

    CHECK_EQ(kvl_node_create(NULL, &node), KVL_ERR_INVALID);
    CHECK_EQ(kvl_node_create(&params, &node), KVL_ERR_INVALID);
    CHECK(strstr(kvl_error_text(), "100 bytes") != NULL);
    params.memory_bytes = UINT64_C(1) << 60;
    CHECK_EQ(kvl_node_create(&params, &node), KVL_ERR_LIMIT);
    params.memory_bytes = UINT64_C(800) << 30; /* no machine for tests has that */
    CHECK_EQ(kvl_node_create(&params, &node), KVL_ERR_NO_MEMORY);
    CHECK(strstr(kvl_error_text(), "MiB") != NULL);
    params.memory_bytes = 16 * MIB;
    params.listen       = "nowhere";
    CHECK_EQ(kvl_node_create(&params, &node), KVL_ERR_INVALID);
    CHECK(strstr(kvl_error_text(), "nowhere") != NULL);

    node = node_open(address);
    CHECK_EQ(kvl_node_address(node, small, sizeof(small)), KVL_ERR_LIMIT);
    CHECK(node_new(over_tcp, address, 16 * MIB, &other) != KVL_OK);
    CHECK(strstr(kvl_error_text(), address) != NULL && strstr(kvl_error_text(), "in use") != NULL);
    kvl_node_destroy(node);
    kvl_node_destroy(NULL);
}

TEST(node_create, keeps_within_its_memory)
{
    char address[128];
    kvl_node_t *node = node_open(address);
    kvl_node_stat_t stat;
    raw_t raw;

    kvl_node_stat(node, &stat);
    CHECK(stat.bytes_total <= 16 * MIB && stat.bytes_total >= 15 * MIB);
    CHECK_EQ(stat.bytes_used, 0);
    client_open(&raw, address);
    kvl_node_stat(node, &stat);
    CHECK_EQ(stat.bytes_used, 0); /* the self-test takes none of it: a value may be as long as all of it */
    CHECK_EQ(raw.terms.scratch_length, 65536);
    CHECK(raw.terms.scratch_region != raw.region.id);
    raw_close(&raw);
    kvl_node_destroy(node);
}

/* a node that may have many sessions keeps a self-test for each, and no more */
TEST(node_create, keeps_a_self_test_for_each_session_that_may_be)
{
    static const struct {
        const char *sessions;
        uint64_t mib;
        unsigned slots;
    } rows[] = {{"3", 16, 3}, {"200", 256, 200}, {"1024", 64, 64}}; /* the last: a sixteenth of it */

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *const settings[][2] = {
            {"KVLANE_RAILS", "tcp"}, {"KVLANE_MAX_SESSIONS", rows[i].sessions}, {NULL, NULL}};
        uint64_t room    = rows[i].mib * MIB - rows[i].slots * UINT64_C(65536);
        kvl_node_t *node = NULL;
        kvl_node_stat_t stat;

        REQUIRE(node_new(settings, "127.0.0.1:0", rows[i].mib * MIB, &node) == KVL_OK);
        kvl_node_stat(node, &stat);
        CHECK(stat.bytes_total <= room && room - stat.bytes_total < 2 * MIB); /* cut at huge pages */
        kvl_node_destroy(node);
    }
}

TEST(node_create, survives_each_failed_allocation_and_call_into_ucp)
{
    static const char *const points[] = {"alloc", "ucp"};
    kvl_node_params_t params          = {
                 .config = config_of(over_tcp), .listen = "127.0.0.1:0", .memory_bytes = MIB};
    unsigned point, n;

    for (point = 0; point < 2; point++) {
        unsigned failed = 0, made = 0;

        for (n = 1; made < 3 && n < 400; n++) {
            kvl_node_t *node = NULL;
            char rule[64];

            snprintf(rule, sizeof(rule), "%s:fail@%u", points[point], n);
            REQUIRE(kvl_fault_setup(rule, 0) == KVL_OK);
            if (kvl_node_create(&params, &node) == KVL_OK) {
                made += kvl_fault_hits(point ? KVL_FAULT_UCP : KVL_FAULT_ALLOC) < n;
                kvl_node_destroy(node);
            } else {
                failed++;
            }
            kvl_fault_setup(NULL, 0);
        }
        CHECK_EQ(made, 3); /* past the last one nothing fails */
        CHECK(failed > 3);
    }
    kvl_config_destroy((kvl_config_t *)params.config);
}

TEST(node_run, serves_with_the_callers_progress_too)
{
    static const char *const settings[][2] = {
        {"KVLANE_RAILS", "tcp"}, {"KVLANE_PROGRESS", "caller"}, {NULL, NULL}};
    kvl_node_t *node = NULL;
    pthread_t thread;
    char address[128];
    uint64_t length;
    raw_t raw;

    REQUIRE(node_new(settings, "127.0.0.1:0", 16 * MIB, &node) == KVL_OK);
    REQUIRE(kvl_node_address(node, address, sizeof(address)) == KVL_OK);
    REQUIRE(pthread_create(&thread, NULL, run_main, node) == 0);
    client_open(&raw, address);
    CHECK_EQ(raw_exists(&raw, "k", &length), KVL_ERR_NOT_FOUND);
    kvl_node_drain(node, 1000);
    CHECK(raw_is_closed(&raw, 0));
    pthread_join(thread, NULL);
    raw_close(&raw);
    kvl_node_destroy(node);
}

static kvl_node_t *drained_by_signal;

static void on_signal(int number)
{
    (void)number;
    kvl_node_drain(drained_by_signal, 1000);
}

TEST(node_drain, may_come_from_a_signal_handler)
{
    struct sigaction action = {.sa_handler = on_signal}, before;
    char address[128];
    unsigned i;

#ifdef __SANITIZE_THREAD__
    SKIP("ThreadSanitizer holds signals back while the thread is in epoll_pwait2");
#endif
    sigaction(SIGUSR1, &action, &before);
    for (i = 0; i < 20; i++) {
        kvl_node_t *node = node_open(address);
        pthread_t thread;

        drained_by_signal = node;
        REQUIRE(pthread_create(&thread, NULL, run_main, node) == 0);
        usleep(i * 500);
        REQUIRE(pthread_kill(thread, SIGUSR1) ==
                0); /* on the thread that may be inside of the engine */
        pthread_join(thread, NULL);
        kvl_node_destroy(node);
    }
    sigaction(SIGUSR1, &before, NULL);
}

TEST(node_drain, lets_leases_end_and_grants_no_new_ones)
{
    kvl_reserve_t item = {.index = 1, .key = {(const uint8_t *)"x", 1}, .length = 5000};
    char address[128];
    kvl_node_t *node = node_open(address);
    kvl_wire_lease_t lease;
    raw_message_t *message;
    raw_t busy, idle;

    client_open(&busy, address);
    client_open(&idle, address);
    lease = raw_reserve(&busy, "k", 5000).lease;
    kvl_node_drain(node, 600000);
    CHECK(raw_is_closed(&idle, 0)); /* it holds nothing */
    kvl_put_ttl(raw_begin(&busy), 1000);
    kvl_put_reserve(&busy.w, &item);
    message = raw_answer(&busy, KVL_MSG_REFUSE, raw_send(&busy, KVL_MSG_RESERVE));
    CHECK_EQ(message->msg.status, KVL_ERR_REFUSED);
    CHECK_EQ(raw_commit(&busy, &lease, 5000, 0), KVL_OK);
    CHECK(raw_is_closed(&busy, 0));
    CHECK_EQ(kvl_node_run(node), KVL_OK);
    raw_close(&busy);
    raw_close(&idle);
    kvl_node_destroy(node);
}

TEST(node_drain, closes_all_when_its_time_is_over_or_cut_short)
{
    unsigned round;

    for (round = 0; round < 2; round++) {
        char address[128];
        kvl_node_t *node = node_open(address);
        raw_t raw;

        client_open(&raw, address);
        raw_reserve(&raw, "k", 5000);
        kvl_node_drain(node, round ? 600000 : 50);
        if (round) {
            kvl_node_drain(node, 0);
        }
        CHECK(raw_is_closed(&raw, 0));
        CHECK_EQ(kvl_node_run(node), KVL_OK);
        raw_close(&raw);
        kvl_node_destroy(node);
    }
}

TEST(node_lease, ends_the_session_of_a_writer_that_hangs_and_spares_a_slow_reader)
{
    static const char *const settings[][2] = {
        {"KVLANE_RAILS", "tcp"}, {"KVLANE_LEASE_MAX", "100ms"}, {NULL, NULL}};
    kvl_node_t *node = NULL;
    kvl_wire_lease_t lease, read;
    kvl_node_stat_t stat;
    char address[128];
    raw_t writer, reader;

    REQUIRE(node_new(settings, "127.0.0.1:0", 16 * MIB, &node) == KVL_OK);
    REQUIRE(kvl_node_address(node, address, sizeof(address)) == KVL_OK);
    client_open(&writer, address);
    client_open(&reader, address);
    CHECK_EQ(reader.terms.lease_max_ms, 100);
    lease = raw_reserve(&writer, "k", 5000).lease;
    CHECK_EQ(raw_commit(&writer, &lease, 5000, 0), KVL_OK);
    read = raw_lookup(&reader, "k").lease;
    CHECK(read.id != 0);
    raw_reserve(&writer, "never committed", 5000); /* asks for 10 s, gets 100 ms and the grace */
    CHECK(raw_is_closed(&writer, 0));
    raw_sync(&reader);
    raw_step(&reader, 100);
    kvl_node_stat(node, &stat);
    CHECK_EQ(stat.sessions, 1);
    CHECK_EQ(stat.leases, 0);
    CHECK_EQ(stat.keys, 1);
    CHECK_EQ(stat.bytes_used, 5056); /* its value */
    raw_close(&writer);
    raw_close(&reader);
    kvl_node_destroy(node);
}

TEST(node_faults, refuse_drop_and_forget)
{
    char address[128];
    kvl_node_t *node = node_open(address);
    kvl_wire_lease_t lease;
    kvl_commit_t item;
    uint64_t length;
    raw_t raw;

    client_open(&raw, address);
    REQUIRE(kvl_fault_setup("node.commit:fail@1,node.commit:drop@2", 0) == KVL_OK);
    lease = raw_reserve(&raw, "fails", 5000).lease;
    CHECK_EQ(raw_commit(&raw, &lease, 5000, 0), KVL_ERR_LEASE);
    CHECK_EQ(raw_exists(&raw, "fails", &length), KVL_ERR_NOT_FOUND);
    lease = raw_reserve(&raw, "no answer", 5000).lease;
    item  = (kvl_commit_t){.lease = lease.id, .generation = lease.generation, .length = 5000};
    kvl_put_commit(raw_begin(&raw), &item);
    raw_send(&raw, KVL_MSG_COMMIT);
    raw_sync(&raw); /* its answer is the next message: there was none before */
    CHECK_EQ(raw_exists(&raw, "no answer", &length), KVL_OK);
    kvl_fault_setup(NULL, 0);
    raw_close(&raw);
    kvl_node_destroy(node);
}
