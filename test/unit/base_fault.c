/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/shim.h"

#include "base/error.h"
#include "base/fault.h"

#include <pthread.h>
#include <string.h>

/* one character a hit: what kvl_fault() said */
static const char *hits(kvl_fault_point_t point, int count)
{
    static char text[128];
    int i;

    for (i = 0; i < count; i++) {
        text[i] = ".FDX"[kvl_fault(point).action];
    }
    text[i] = '\0';
    return text;
}

TEST(fault_setup, off_by_default_and_with_no_rules)
{
    CHECK(!kvl_fault_enabled);
    CHECK_EQ(kvl_fault_setup("", 1), KVL_OK);
    CHECK(!kvl_fault_enabled);
    CHECK_STR_EQ(hits(KVL_FAULT_EP_PUT, 3), "...");
    CHECK_EQ(kvl_fault_hits(KVL_FAULT_EP_PUT), 0);
}

TEST(fault_hit, follows_the_number_of_the_hit)
{
    REQUIRE(kvl_fault_setup("ep.put:fail@3,ep.get:fail@2+,ep.am:drop,ep.put:fail@5", 0) == KVL_OK);
    CHECK(kvl_fault_enabled);
    CHECK_STR_EQ(hits(KVL_FAULT_EP_PUT, 7), "..F.F..");
    CHECK_STR_EQ(hits(KVL_FAULT_EP_GET, 4), ".FFF");
    CHECK_STR_EQ(hits(KVL_FAULT_EP_AM, 3), "XXX");
    CHECK_STR_EQ(hits(KVL_FAULT_UCP, 3), "...");
    CHECK_EQ(kvl_fault_hits(KVL_FAULT_EP_PUT), 7);
    CHECK_EQ(kvl_fault_hits(KVL_FAULT_UCP), 3);
    kvl_fault_setup(NULL, 0);
}

TEST(fault_hit, takes_the_first_rule_that_applies)
{
    REQUIRE(kvl_fault_setup("ctrl.send:drop@2,ctrl.send:delay=3ms@2+,ctrl.send:fail@1", 0) ==
            KVL_OK);
    CHECK_STR_EQ(hits(KVL_FAULT_CTRL_SEND, 4), "FXDD");
    kvl_fault_setup(NULL, 0);
}

TEST(fault_hit, carries_the_delay)
{
    kvl_fault_t fault;

    REQUIRE(kvl_fault_setup("ep.complete:delay=2ms", 0) == KVL_OK);
    fault = kvl_fault(KVL_FAULT_EP_COMPLETE);
    CHECK_EQ(fault.action, KVL_FAULT_DELAY);
    CHECK_EQ(fault.delay_ns, 2000000);
    CHECK(!kvl_fault_fails(KVL_FAULT_EP_COMPLETE));
    kvl_fault_setup(NULL, 0);
}

static int count_failures(const char *rules, uint64_t seed, int count, char *pattern)
{
    int i, failed = 0;

    CHECK_EQ(kvl_fault_setup(rules, seed), KVL_OK);
    for (i = 0; i < count; i++) {
        pattern[i] = kvl_fault_fails(KVL_FAULT_UCP);
        failed += pattern[i];
    }
    kvl_fault_setup(NULL, 0);
    return failed;
}

TEST(fault_share, hits_about_its_share_and_repeats_with_its_seed)
{
    static char a[10000], b[10000];

    /* a binomial's mean 2000 and deviation 40: five of them are never left by a fair hash */
    CHECK(count_failures("ucp:fail%20", 1, 10000, a) > 1800);
    CHECK(count_failures("ucp:fail%20", 1, 10000, b) < 2200);
    CHECK_MEM_EQ(a, b, sizeof(a));
    count_failures("ucp:fail%20", 2, 10000, b);
    CHECK(memcmp(a, b, sizeof(a)) != 0);
    CHECK_EQ(count_failures("ucp:fail%100", 7, 10000, a), 10000);
    CHECK(count_failures("ucp:fail%0.5", 7, 10000, a) < 100);
    CHECK(count_failures("ucp:fail%0.001", 7, 10000, a) < 10);
}

TEST(fault_setup, refuses_what_it_does_not_know)
{
    static const char *const bad[] = {
        "ep.put",
        "ep.put:",
        ":fail",
        "ep.putt:fail",
        "ep.put:explode",
        "ep.put:none",
        "ep.put:drop",
        "ep.put:fail=1",
        "ep.put:fail@",
        "ep.put:fail@0",
        "ep.put:fail@x",
        "ep.put:fail@1x",
        "ep.put:fail@1++",
        "ep.put:fail@-1",
        "ep.put:fail%0",
        "ep.put:fail%101",
        "ep.put:fail%100.001",
        "ep.put:fail%1.",
        "ep.put:fail%1.2345",
        "ep.put:fail%.5",
        "ep.put:fail%x",
        "ep.complete:delay",
        "ep.complete:delay=",
        "ep.complete:delay=2xs",
        ",ep.put:fail",
        "ep.put:fail,",
        "ep.put:fail,,ep.get:fail",
        "ep.put:fail@99999999999999999999",
        " ep.put:fail",
        "ep.put:fail ",
    };
    size_t i;

    REQUIRE(kvl_fault_setup("ep.put:fail@2", 0) == KVL_OK);
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK_EQ(kvl_fault_check(bad[i]), KVL_ERR_CONFIG);
        if (kvl_fault_setup(bad[i], 0) != KVL_ERR_CONFIG) {
            CHECK_STR_EQ(bad[i], "is accepted");
        }
    }
    CHECK_STR_EQ(hits(KVL_FAULT_EP_PUT, 3), ".F.");
    kvl_fault_setup(NULL, 0);
}

TEST(fault_setup, names_the_rule_and_the_known_words)
{
    CHECK_EQ(kvl_fault_setup("ep.put:fail,node.comit:drop", 0), KVL_ERR_CONFIG);
    CHECK(strstr(kvl_error_text(), "'node.comit:drop'") != NULL);
    CHECK(strstr(kvl_error_text(), "node.commit") != NULL);
    CHECK_EQ(kvl_fault_setup("ctrl.recv:fail", 0), KVL_ERR_CONFIG);
    CHECK(strstr(kvl_error_text(), "delay=TIME drop") != NULL);
}

TEST(fault_setup, limits_the_number_and_length_of_rules)
{
    char text[33 * 10] = "ucp:fail@1";
    char rule[200]     = "ucp:fail@";
    int i;

    for (i = 1; i < 32; i++) {
        strcat(text, ",ucp:fail");
    }
    CHECK_EQ(kvl_fault_check(text), KVL_OK);
    strcat(text, ",ucp:fail");
    CHECK_EQ(kvl_fault_check(text), KVL_ERR_CONFIG);
    memset(rule + 9, '0', sizeof(rule) - 10);
    CHECK_EQ(kvl_fault_check(rule), KVL_ERR_CONFIG);
}

TEST(fault_update, keeps_the_counts_of_the_same_rules)
{
    REQUIRE(kvl_fault_setup("ep.put:fail@3", 5) == KVL_OK);
    CHECK_STR_EQ(hits(KVL_FAULT_EP_PUT, 2), "..");
    CHECK_EQ(kvl_fault_update("ep.put:fail@3", 5), KVL_OK);
    CHECK_STR_EQ(hits(KVL_FAULT_EP_PUT, 1), "F");
    CHECK_EQ(kvl_fault_update("ep.put:fail@2", 5), KVL_OK);
    CHECK_STR_EQ(hits(KVL_FAULT_EP_PUT, 3), ".F.");
    CHECK_EQ(kvl_fault_update("", 5), KVL_OK);
    CHECK(!kvl_fault_enabled);
}

TEST(fault_point_name, names_every_point)
{
    int i;

    CHECK_STR_EQ(kvl_fault_point_name(KVL_FAULT_NODE_COMMIT), "node.commit");
    CHECK_STR_EQ(kvl_fault_point_name(KVL_FAULT_MEM_REGISTER), "mem.register");
    CHECK_STR_EQ(kvl_fault_point_name(KVL_FAULT_COUNT), "unknown");
    for (i = 0; i < KVL_FAULT_COUNT; i++) {
        CHECK(strlen(kvl_fault_point_name((kvl_fault_point_t)i)) > 2);
    }
}

static void *hit_many(void *arg)
{
    int *failed = arg;
    int i;

    for (i = 0; i < 10000; i++) {
        *failed += kvl_fault_fails(KVL_FAULT_UCP);
    }
    return NULL;
}

TEST(fault_hit, fails_once_although_two_threads_count)
{
    int failed[2] = {0};
    pthread_t threads[2];
    int i;

    REQUIRE(kvl_fault_setup("ucp:fail@10001", 0) == KVL_OK);
    for (i = 0; i < 2; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, hit_many, &failed[i]) == 0);
    }
    for (i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_EQ(failed[0] + failed[1], 1);
    CHECK_EQ(kvl_fault_hits(KVL_FAULT_UCP), 20000);
    kvl_fault_setup(NULL, 0);
}

static void *hit_until_stopped(void *arg)
{
    int *stop   = arg;
    long others = 0;

    while (!__atomic_load_n(stop, __ATOMIC_ACQUIRE)) {
        kvl_fault_t fault = kvl_fault(KVL_FAULT_CTRL_SEND);

        others += fault.action != KVL_FAULT_DELAY ||
                  (fault.delay_ns != 3000000 && fault.delay_ns != 5000000);
    }
    return (void *)others;
}

/* what a second engine of the process does; ThreadSanitizer is the stricter judge of it */
TEST(fault_setup, replaces_the_rules_under_a_thread_that_hits_them)
{
    static const char *const rules[] = {"ctrl.send:delay=3ms", "ucp:fail,ctrl.send:delay=5ms"};
    pthread_t thread;
    void *others = NULL;
    int stop     = 0;
    int i;

    REQUIRE(kvl_fault_setup(rules[0], 0) == KVL_OK);
    REQUIRE(pthread_create(&thread, NULL, hit_until_stopped, &stop) == 0);
    for (i = 0; i < 2000; i++) {
        CHECK_EQ(kvl_fault_update(rules[i % 2], 0), KVL_OK);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    pthread_join(thread, &others);
    CHECK_EQ((long)others, 0);
    kvl_fault_setup(NULL, 0);
}
