/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/shim.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kvl_config_t *create(void)
{
    kvl_config_t *config = NULL;

    CHECK_EQ(kvl_config_create(&config), KVL_OK);
    return config;
}

/* creates a config with one variable set, expects it to fail, and returns the text */
static const char *refused(const char *name, const char *value)
{
    kvl_config_t *config = NULL;

    setenv(name, value, 1);
    CHECK_EQ(kvl_config_create(&config), KVL_ERR_CONFIG);
    CHECK(config == NULL);
    unsetenv(name);
    return kvl_error_text();
}

TEST(config_create, gives_the_documented_defaults)
{
    kvl_config_t *config    = create();
    const kvl_settings_t *s = kvl_config_settings(config);

    CHECK_EQ(s->depth, 8);
    CHECK_EQ(s->data_depth, 0);
    CHECK_EQ(s->sg_endpoints, 8);
    CHECK_EQ(s->sg, KVL_SG_AUTO);
    CHECK_EQ(s->mode, KVL_MODE_AUTO);
    CHECK_EQ(s->progress, KVL_PROGRESS_THREAD);
    CHECK_STR_EQ(s->rails, "auto");
    CHECK_EQ(s->affinity, KVL_BY_NUMA);
    CHECK_STR_EQ(s->rank, "");
    CHECK_EQ(s->max_rails, 0);
    CHECK_EQ(s->stripe_min, 262144);
    CHECK_EQ(s->reg_slice, UINT64_C(3758096384));
    CHECK_EQ(s->pin_max, 0);
    CHECK_EQ(s->timeout_ns, 30 * KVL_SECOND);
    CHECK_EQ(s->connect_timeout_ns, 10 * KVL_SECOND);
    CHECK_EQ(s->backoff_min_ns, 50 * KVL_MS);
    CHECK_EQ(s->backoff_max_ns, 2 * KVL_SECOND);
    CHECK_EQ(s->quiesce_ns, 20 * KVL_MS);
    CHECK_EQ(s->lease_ns, 120 * KVL_SECOND);
    CHECK_EQ(s->spin_ns, 50000);
    kvl_config_destroy(config);
}

TEST(config_create, gives_the_documented_default_sizes)
{
    kvl_config_t *config    = create();
    const kvl_settings_t *s = kvl_config_settings(config);

    CHECK_EQ(s->inline_max, 1024);
    CHECK_EQ(s->chunk_bytes, 8388608);
    CHECK(s->pack_max == KVL_PACK_AUTO);
    CHECK_EQ(s->max_sessions, 1024);
    CHECK_EQ(s->max_leases, 65536);
    CHECK_EQ(s->log_level, KVL_LOG_WARN);
    CHECK_STR_EQ(s->fault, "");
    CHECK_EQ(s->fault_seed, 0);
    kvl_config_destroy(config);
}

TEST(config_create, reads_the_environment)
{
    kvl_config_t *config;

    setenv("KVLANE_DEPTH", "17", 1);
    setenv("KVLANE_MODE", "message", 1);
    config = create();
    CHECK_EQ(kvl_config_settings(config)->depth, 17);
    CHECK_EQ(kvl_config_settings(config)->mode, KVL_MODE_MESSAGE);
    CHECK_STR_EQ(kvl_config_get(config, "KVLANE_DEPTH"), "17");
    unsetenv("KVLANE_DEPTH");
    unsetenv("KVLANE_MODE");
    kvl_config_destroy(config);
}

TEST(config_create, refuses_an_unknown_name_and_offers_the_closest)
{
    const char *text = refused("KVLANE_DEPHT", "3");

    CHECK_HAS(text, "KVLANE_DEPHT");
    CHECK_HAS(text, "environment");
    CHECK_HAS(text, "KVLANE_DEPTH;");
    CHECK_HAS(refused("KVLANE_ZZZZZZ", "3"), "kvlane_info -c");
    CHECK(strstr(refused("KVLANE_ZZZZZZ", "3"), "closest") == NULL);
    CHECK_HAS(refused("KVLANE_", "3"), "no such setting");
    CHECK_HAS(refused("KVLANE_UCX_", "3"), "no such setting");
    CHECK_HAS(refused("KVLANE_depth", "3"), "no such setting");
}

TEST(config_create, refuses_an_option_of_ucx_that_is_empty)
{
    static const char *const names[] = {"KVLANE_UCX_TLS", "KVLANE_CTRL_UCX_TLS", "KVLANE_UCX_NET_DEVICES"};
    kvl_config_t *config;
    unsigned i;

    for (i = 0; i < 3; i++) {
        CHECK_HAS(refused(names[i], ""), names[i]);
        CHECK_HAS(refused(names[i], ""), "(environment): empty; unset it");
    }
    config = create();
    CHECK_EQ(kvl_config_set(config, "KVLANE_UCX_TLS", "tcp"), KVL_OK);
    CHECK_EQ(kvl_config_set(config, "KVLANE_UCX_TLS", ""), KVL_ERR_CONFIG);
    CHECK_STR_EQ(kvl_config_get(config, "KVLANE_UCX_TLS"), "tcp"); /* as it was */
    kvl_config_destroy(config);
}

TEST(config_create, refuses_a_name_that_is_too_long)
{
    char name[200] = "KVLANE_";

    memset(name + 7, 'A', sizeof(name) - 8);
    CHECK_HAS(refused(name, "3"), "127 characters");
}

TEST(config_create, leaves_names_of_tools_and_adapters_alone)
{
    static const char *const names[] = {"KVLANE_LIBRARY", "KVLANE_AUTH", "KVLANE_TRACES",
                                        "KVLANE_CACHE", "KVLANE_TEST_ANYTHING"};
    kvl_config_t *config;
    size_t i;

    for (i = 0; i < 5; i++) {
        setenv(names[i], "x", 1);
    }
    config = create();
    for (i = 0; i < 5; i++) {
        unsetenv(names[i]);
    }
    CHECK_EQ(kvl_config_set(config, "KVLANE_TRACES", "1"), KVL_ERR_CONFIG);
    kvl_config_destroy(config);
}

TEST(config_create, names_the_value_its_source_and_what_is_accepted)
{
    const char *text = refused("KVLANE_DEPTH", "900");

    CHECK_HAS(text, "KVLANE_DEPTH=900 (environment)");
    CHECK_HAS(text, "1 to 256");
    CHECK_HAS(refused("KVLANE_PROGRESS", "maybe"), "thread, caller");
    CHECK_HAS(refused("KVLANE_CHUNK", "1K"), "64K to 64M");
    CHECK_HAS(refused("KVLANE_SPIN", "50"), "0 to 1s");
    CHECK_HAS(refused("KVLANE_FAULT", "ep.put:boom"), "'ep.put:boom'");
    CHECK_HAS(refused("KVLANE_PACK_MAX", "65M"), "auto, 0 to 64M");
}

TEST(config_create, refuses_bad_values)
{
    static const char *const bad[][2] = {
        {"KVLANE_DEPTH", ""},           {"KVLANE_DEPTH", "0"},
        {"KVLANE_DEPTH", "257"},        {"KVLANE_DEPTH", "-1"},
        {"KVLANE_DEPTH", "+1"},         {"KVLANE_DEPTH", " 1"},
        {"KVLANE_DEPTH", "1 "},         {"KVLANE_DEPTH", "0x10"},
        {"KVLANE_DEPTH", "4294967297"}, {"KVLANE_DEPTH", "18446744073709551617"},
        {"KVLANE_DEPTH", "1.5"},        {"KVLANE_TIMEOUT", "0"},
        {"KVLANE_TIMEOUT", "1441m"},    {"KVLANE_TIMEOUT", "5h"},
        {"KVLANE_RAILS", ""},           {"KVLANE_RAILS", ","},
        {"KVLANE_RAILS", "a,,b"},       {"KVLANE_RAILS", "a,"},
        {"KVLANE_RAILS", "a b"},        {"KVLANE_SG", ""},
        {"KVLANE_LOG_LEVEL", "5"},      {"KVLANE_MAX_SESSIONS", "0"},
        {"KVLANE_INLINE_MAX", "8193"},
    };
    size_t i;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK_HAS(refused(bad[i][0], bad[i][1]), "accepted");
    }
}

TEST(config_set, is_stronger_than_the_environment)
{
    kvl_config_t *config;

    setenv("KVLANE_DEPTH", "17", 1);
    config = create();
    unsetenv("KVLANE_DEPTH");
    CHECK_EQ(kvl_config_set(config, "KVLANE_DEPTH", "3"), KVL_OK);
    CHECK_EQ(kvl_config_settings(config)->depth, 3);
    CHECK_EQ(kvl_config_set(config, "KVLANE_PACK_MAX", "32K"), KVL_OK);
    CHECK_EQ(kvl_config_settings(config)->pack_max, 32768);
    CHECK_EQ(kvl_config_set(config, "KVLANE_RAILS", "mlx5_0:1,eth0"), KVL_OK);
    CHECK_STR_EQ(kvl_config_settings(config)->rails, "mlx5_0:1,eth0");
    CHECK_EQ(kvl_config_set(config, "KVLANE_LOG_LEVEL", "DEBUG"), KVL_OK);
    CHECK_EQ(kvl_config_settings(config)->log_level, KVL_LOG_DEBUG);
    kvl_config_destroy(config);
}

TEST(config_set, changes_nothing_when_it_fails)
{
    kvl_config_t *config = create();

    kvl_config_set(config, "KVLANE_DEPTH", "3");
    CHECK_EQ(kvl_config_set(config, "KVLANE_DEPTH", "300"), KVL_ERR_CONFIG);
    CHECK_HAS(kvl_error_text(), "kvl_config_set");
    CHECK_EQ(kvl_config_settings(config)->depth, 3);
    CHECK_STR_EQ(kvl_config_get(config, "KVLANE_DEPTH"), "3");
    CHECK_EQ(kvl_config_set(config, "KVLANE_RAILS", "a,,b"), KVL_ERR_CONFIG);
    CHECK_STR_EQ(kvl_config_settings(config)->rails, "auto");
    CHECK_EQ(kvl_config_set(config, "DEPTH", "3"), KVL_ERR_CONFIG);
    CHECK_EQ(kvl_config_set(config, "", "3"), KVL_ERR_CONFIG);
    CHECK_EQ(kvl_config_set(config, NULL, "3"), KVL_ERR_INVALID);
    CHECK_EQ(kvl_config_set(config, "KVLANE_DEPTH", NULL), KVL_ERR_INVALID);
    kvl_config_destroy(config);
}

TEST(config_get, gives_defaults_as_text_and_null_for_unknown)
{
    kvl_config_t *config = create();

    CHECK_STR_EQ(kvl_config_get(config, "KVLANE_CHUNK"), "8M");
    CHECK(kvl_config_get(config, "KVLANE_NONE") == NULL);
    CHECK(kvl_config_get(config, "KVLANE_UCX_TLS") == NULL);
    kvl_config_destroy(config);
}

TEST(config_ucx, lists_the_two_families_apart)
{
    kvl_config_t *config;
    const char *name = NULL, *value = NULL;

    setenv("KVLANE_UCX_TLS", "tcp", 1);
    config = create();
    unsetenv("KVLANE_UCX_TLS");
    CHECK_EQ(kvl_config_set(config, "KVLANE_CTRL_UCX_TLS", "shm"), KVL_OK);
    CHECK_EQ(kvl_config_set(config, "KVLANE_UCX_NET_DEVICES", "eth0"), KVL_OK);
    CHECK_EQ(kvl_config_set(config, "KVLANE_UCX_TLS", "self"), KVL_OK);
    REQUIRE(kvl_config_ucx(config, false, 0, &name, &value));
    CHECK_STR_EQ(name, "TLS");
    CHECK_STR_EQ(value, "self");
    REQUIRE(kvl_config_ucx(config, false, 1, &name, &value));
    CHECK_STR_EQ(name, "NET_DEVICES");
    CHECK(!kvl_config_ucx(config, false, 2, &name, &value));
    REQUIRE(kvl_config_ucx(config, true, 0, &name, &value));
    CHECK_STR_EQ(value, "shm");
    CHECK(!kvl_config_ucx(config, true, 1, &name, &value));
    CHECK_STR_EQ(kvl_config_get(config, "KVLANE_UCX_TLS"), "self");
    kvl_config_destroy(config);
}

TEST(config_copy, is_deep)
{
    kvl_config_t *config = create(), *copy = NULL;
    const char *name = NULL, *value = NULL;

    kvl_config_set(config, "KVLANE_RAILS", "eth7");
    kvl_config_set(config, "KVLANE_UCX_TLS", "tcp");
    REQUIRE(kvl_config_copy(config, &copy) == KVL_OK);
    kvl_config_set(config, "KVLANE_RAILS", "eth8");
    kvl_config_destroy(config);
    CHECK_STR_EQ(kvl_config_settings(copy)->rails, "eth7");
    REQUIRE(kvl_config_ucx(copy, false, 0, &name, &value));
    CHECK_STR_EQ(value, "tcp");
    kvl_config_destroy(copy);
    kvl_config_destroy(NULL);
}

TEST(config_copy, of_null_reads_the_environment)
{
    kvl_config_t *config = NULL;

    setenv("KVLANE_DEPTH", "5", 1);
    CHECK_EQ(kvl_config_copy(NULL, &config), KVL_OK);
    unsetenv("KVLANE_DEPTH");
    REQUIRE(config != NULL);
    CHECK_EQ(kvl_config_settings(config)->depth, 5);
    kvl_config_destroy(config);
}

static kvl_status_t create_set_copy(void)
{
    kvl_config_t *config = NULL, *copy = NULL;
    kvl_status_t st = kvl_config_create(&config);

    if (st == KVL_OK) {
        st = kvl_config_set(config, "KVLANE_RAILS", "eth0");
    }
    if (st == KVL_OK) {
        st = kvl_config_set(config, "KVLANE_UCX_TLS", "tcp");
    }
    if (st == KVL_OK) {
        st = kvl_config_copy(config, &copy);
    }
    kvl_config_destroy(copy);
    kvl_config_destroy(config);
    return st;
}

TEST(config_create, cleans_up_whichever_allocation_fails)
{
    long before     = kvl_live_objects();
    kvl_status_t st = KVL_ERR_NO_MEMORY;
    char rule[32];
    int n;

    for (n = 1; st != KVL_OK && n < 100; n++) {
        snprintf(rule, sizeof(rule), "alloc:fail@%d", n);
        kvl_fault_setup(rule, 0);
        st = create_set_copy();
        kvl_fault_setup(NULL, 0);
        CHECK(st == KVL_OK || st == KVL_ERR_NO_MEMORY);
        CHECK_EQ(kvl_live_objects(), before);
    }
    /* config; rails; three for the first ucx name; the same five for the copy; then none fails */
    CHECK_EQ(n - 1, 11);
}

TEST(config_apply, touches_only_what_was_set)
{
    kvl_config_t *config      = create();
    kvl_log_level_t old_level = kvl_log_level;

    REQUIRE(kvl_fault_setup("ep.put:fail@2", 0) == KVL_OK);
    kvl_log_level = KVL_LOG_ERROR;
    kvl_config_apply_process(config);
    CHECK_EQ(kvl_log_level, KVL_LOG_ERROR);
    CHECK(kvl_fault_enabled);
    kvl_config_set(config, "KVLANE_LOG_LEVEL", "info");
    kvl_config_set(config, "KVLANE_FAULT", "ep.get:fail@1");
    kvl_config_apply_process(config);
    CHECK_EQ(kvl_log_level, KVL_LOG_INFO);
    CHECK(kvl_fault_fails(KVL_FAULT_EP_GET));
    kvl_config_apply_process(config); /* the same rules: counting goes on */
    CHECK(!kvl_fault_fails(KVL_FAULT_EP_GET));
    kvl_config_set(config, "KVLANE_FAULT", "");
    kvl_config_apply_process(config);
    CHECK(!kvl_fault_enabled);
    kvl_log_level = old_level;
    kvl_config_destroy(config);
}

static char *print(const kvl_config_t *config, int json)
{
    char *text   = NULL;
    size_t size  = 0;
    FILE *stream = open_memstream(&text, &size);

    kvl_config_print(config, stream, json);
    fclose(stream);
    return text;
}

TEST(config_print, shows_value_default_source_and_doc)
{
    kvl_config_t *config = create();
    char *text;

    kvl_config_set(config, "KVLANE_CHUNK", "1M");
    kvl_config_set(config, "KVLANE_UCX_TLS", "tcp");
    text = print(config, 0);
    CHECK_HAS(text, "KVLANE_CHUNK             1M            8M        bytes   call");
    CHECK_HAS(text, "Longest operation");
    CHECK_HAS(text, "KVLANE_UCX_TLS");
    free(text);
    kvl_config_destroy(config);
}

TEST(config_print, writes_json_with_escapes)
{
    kvl_config_t *config = create();
    char *text;

    kvl_config_set(config, "KVLANE_UCX_TLS", "a\"b\\c\n\xff");
    text = print(config, 1);
    CHECK_HAS(text, "{\"name\": \"KVLANE_DEPTH\", \"value\": \"8\", \"default\": \"8\"");
    CHECK_HAS(text, "\"value\": \"a\\\"b\\\\c\\u000a?\"");
    CHECK_EQ(text[0], '{');
    CHECK_STR_EQ(text + strlen(text) - 3, "\n}\n");
    free(text);
    kvl_config_destroy(config);
}

TEST(parse_bytes, knows_units_of_1024)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"0", 0},
        {"1", 1},
        {"12B", 12},
        {"1K", 1024},
        {"1KB", 1024},
        {"1KiB", 1024},
        {"64k", 65536},
        {"3M", 3145728},
        {"2G", 2147483648},
        {"2GiB", 2147483648},
        {"18446744073709551615", UINT64_MAX},
    };
    uint64_t bytes;
    size_t i;

    for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        bytes = 77;
        CHECK_EQ(kvl_parse_bytes("size", good[i].text, &bytes), KVL_OK);
        CHECK(bytes == good[i].bytes);
    }
}

TEST(parse_bytes, refuses_the_rest)
{
    static const char *const bad[] = {"",
                                      "K",
                                      "-1",
                                      "+1",
                                      "1 K",
                                      "1KK",
                                      "1iB",
                                      "1Kb",
                                      "1T",
                                      "1.5K",
                                      "18446744073709551616",
                                      "18014398509481984K",
                                      "0x1",
                                      "1K "};
    uint64_t bytes                 = 77;
    size_t i;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK_EQ(kvl_parse_bytes("--slab", bad[i], &bytes), KVL_ERR_CONFIG);
        CHECK_HAS(kvl_error_text(), "--slab");
        CHECK_HAS(kvl_error_text(), bad[i]);
    }
    CHECK_EQ(bytes, 77);
}

TEST(parse_duration, knows_its_units_and_takes_seconds_bare)
{
    static const struct {
        const char *text;
        int64_t ns;
    } good[] = {
        {"0", 0},
        {"7", INT64_C(7000000000)},
        {"30s", INT64_C(30000000000)},
        {"2ms", 2000000},
        {"50us", 50000},
        {"2m", INT64_C(120000000000)},
        {"9223372036s", INT64_C(9223372036000000000)},
    };
    int64_t ns;
    size_t i;

    for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        ns = 77;
        CHECK_EQ(kvl_parse_duration("time", good[i].text, &ns), KVL_OK);
        CHECK(ns == good[i].ns);
    }
}

TEST(parse_duration, refuses_the_rest)
{
    static const char *const bad[] = {"",
                                      "s",
                                      "-1s",
                                      "1 s",
                                      "1h",
                                      "1S",
                                      "1.5s",
                                      "1ns",
                                      "1mss",
                                      "9223372037s",
                                      "18446744073709551617",
                                      "inf"};
    int64_t ns                     = 77;
    size_t i;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK_EQ(kvl_parse_duration("--for", bad[i], &ns), KVL_ERR_CONFIG);
        CHECK_HAS(kvl_error_text(), "--for");
    }
    CHECK_EQ(ns, 77);
}
