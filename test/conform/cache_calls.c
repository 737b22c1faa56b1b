/* SPDX-License-Identifier: BSD-3-Clause */
#include "conform/stage.h"

#include "base/fault.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* how batches are handed over and heard back from */

static stage_t stage;

static void open_on(const char *rails, const char *progress)
{
    stage_params_t params = {.rails = rails, .progress = progress};

    stage_open(&stage, &params);
}

static kvl_item_t item_of(const char *key, kvl_segment_t *segment, size_t at, size_t length)
{
    *segment =
        (kvl_segment_t){.address = stage.pool + at, .length = length, .region = stage.region};
    return (kvl_item_t){key, strlen(key), segment, 1};
}

typedef struct {
    kvl_batch_t *second;
    _Atomic int calls, seconds;
} chain_t;

static void chain_second(kvl_batch_t *batch, void *arg)
{
    chain_t *chain = arg;

    CHECK_EQ(kvl_batch_test(batch), KVL_OK);
    atomic_fetch_add(&chain->seconds, 1);
}

static void chain_first(kvl_batch_t *batch, void *arg)
{
    chain_t *chain            = arg;
    kvl_batch_params_t params = {.callback = chain_second, .arg = chain};
    kvl_segment_t segment;
    kvl_item_t item = item_of("chained", &segment, 0, 5000);

    CHECK_EQ(kvl_batch_test(batch), KVL_OK);
    CHECK_EQ(kvl_batch_wait(batch, -1), KVL_OK);
    CHECK_EQ(kvl_cache_connect(stage.cache, 1), KVL_ERR_INVALID); /* would wait for itself */
    CHECK_EQ(kvl_cache_submit(stage.cache, KVL_CACHE_GET, &item, 1, &params, &chain->second),
             KVL_INPROGRESS);
    atomic_fetch_add(&chain->calls, 1);
}

BOTH(batch, calls_back_and_may_submit_from_there)
{
    chain_t chain             = {0};
    kvl_batch_params_t params = {.callback = chain_first, .arg = &chain};
    kvl_batch_t *batch;
    kvl_segment_t segment;
    kvl_item_t item;

    open_on(rails, NULL);
    item = item_of("chained", &segment, 0, 5000);
    REQUIRE(kvl_cache_submit(stage.cache, KVL_CACHE_PUT, &item, 1, &params, &batch) ==
            KVL_INPROGRESS);
    CHECK_EQ(kvl_batch_wait(batch, -1), KVL_OK);
    while (!atomic_load(&chain.calls)) {
    }
    CHECK_EQ(kvl_batch_wait(chain.second, -1), KVL_OK);
    while (!atomic_load(&chain.seconds)) {
    }
    CHECK_EQ(atomic_load(&chain.calls), 1);
    kvl_batch_release(batch);
    kvl_batch_release(chain.second);
    stage_close(&stage);
}

BOTH(batch, makes_the_event_fd_readable)
{
    kvl_batch_t *batch;
    kvl_segment_t segment;
    kvl_item_t item;
    struct pollfd fd = {.events = POLLIN};
    int i;

    open_on(rails, NULL);
    fd.fd = kvl_engine_event_fd(stage.engine);
    item  = item_of("key", &segment, 0, 70000);
    for (i = 0; i < 5; i++) {
        CHECK_EQ(poll(&fd, 1, 0), 0);
        REQUIRE(kvl_cache_submit(stage.cache, KVL_CACHE_PUT, &item, 1, NULL, &batch) ==
                KVL_INPROGRESS);
        CHECK_EQ(poll(&fd, 1, 10000), 1);
        kvl_engine_clear_event(stage.engine);
        CHECK_EQ(kvl_batch_test(batch), KVL_OK);
        kvl_batch_release(batch);
    }
    stage_close(&stage);
}

BOTH(batch, is_driven_by_the_caller_when_he_wants_to)
{
    kvl_batch_t *batch;
    kvl_segment_t segment;
    kvl_item_t item;
    struct pollfd fd = {.events = POLLIN};

    open_on(rails, "caller");
    fd.fd = kvl_engine_event_fd(stage.engine);
    item  = item_of("key", &segment, 0, 70000);
    REQUIRE(kvl_cache_submit(stage.cache, KVL_CACHE_PUT, &item, 1, NULL, &batch) == KVL_INPROGRESS);
    while (kvl_batch_test(batch) == KVL_INPROGRESS) {
        if (!kvl_engine_progress(stage.engine)) {
            CHECK_EQ(poll(&fd, 1, 10000), 1);
        }
        kvl_engine_clear_event(stage.engine);
    }
    CHECK_EQ(kvl_batch_test(batch), KVL_OK);
    kvl_batch_release(batch);
    CHECK_EQ(stage_get(&stage, "key", 1u << 20, 70000), KVL_OK);
    stage_close(&stage);
}

BOTH(batch, of_many_segments_is_accepted_without_work_per_segment)
{
    enum { ITEMS = 16, SEGMENTS = 1024, COUNT = ITEMS * SEGMENTS };
    static kvl_segment_t segments[COUNT];
    static char keys[ITEMS][16];
    kvl_item_t items[ITEMS];
    kvl_batch_t *batch = NULL;
    uint64_t before;
    int i;

    open_on(rails, "caller"); /* no engine thread: what is counted is the caller's */
    CHECK_EQ(kvl_cache_connect(stage.cache, 0), KVL_OK);
    fill(stage.pool, COUNT * 512, 8);
    for (i = 0; i < COUNT; i++) {
        segments[i] = (kvl_segment_t){.address = stage.pool + i * 512, .length = 256};
    }
    for (i = 0; i < ITEMS; i++) {
        items[i] = (kvl_item_t){keys[i], (size_t)snprintf(keys[i], 16, "page %d", i),
                                segments + i * SEGMENTS, SEGMENTS};
    }
    CHECK_EQ(kvl_fault_setup("alloc:fail@1000000000", 0), KVL_OK); /* counts */
    before = kvl_fault_hits(KVL_FAULT_ALLOC);
    REQUIRE(kvl_cache_submit(stage.cache, KVL_CACHE_PUT, items, ITEMS, NULL, &batch) ==
            KVL_INPROGRESS);
    CHECK(kvl_fault_hits(KVL_FAULT_ALLOC) - before <= 2); /* one, and the node may be at work */
    kvl_fault_setup(NULL, 0);
    CHECK_EQ(kvl_batch_wait(batch, -1), KVL_OK);
    kvl_batch_release(batch);
    stage_close(&stage);
}

BOTH(batch, holds_its_region)
{
    kvl_batch_t *batch;
    kvl_segment_t segment;
    kvl_item_t item;

    open_on(rails, "caller");
    item = item_of("key", &segment, 0, 70000);
    REQUIRE(kvl_cache_submit(stage.cache, KVL_CACHE_PUT, &item, 1, NULL, &batch) == KVL_INPROGRESS);
    CHECK_EQ(kvl_region_release(stage.region), KVL_ERR_BUSY);
    CHECK_EQ(kvl_batch_release(batch), KVL_ERR_BUSY);
    CHECK_EQ(kvl_batch_wait(batch, -1), KVL_OK);
    kvl_batch_release(batch);
    stage_close(&stage);
}

enum { THREADS = 4, ROUNDS = 30, KEYS = 8 };

static void *worker(void *arg)
{
    size_t id = (size_t)(uintptr_t)arg, round, i;

    for (round = 0; round < ROUNDS; round++) {
        kvl_segment_t from[KEYS], to[KEYS];
        kvl_item_t put[KEYS], get[KEYS];
        char keys[KEYS][16];
        kvl_batch_t *batch = NULL;

        for (i = 0; i < KEYS; i++) {
            size_t length = 1 + (id * 7919 + round * 104729 + i * 31337) % 50000;
            size_t at     = (id * KEYS + i) * 65536;

            snprintf(keys[i], sizeof(keys[i]), "%zu-%zu", id, i);
            put[i] = item_of(keys[i], &from[i], at, length);
            get[i] = item_of(keys[i], &to[i], at + (32u << 20), length);
            fill(from[i].address, length, id * 1000 + round * 10 + i);
        }
        CHECK_EQ(kvl_cache_submit(stage.cache, KVL_CACHE_PUT, put, KEYS, NULL, &batch),
                 KVL_INPROGRESS);
        CHECK_EQ(kvl_batch_wait(batch, -1), KVL_OK);
        kvl_batch_release(batch);
        CHECK_EQ(kvl_cache_submit(stage.cache, KVL_CACHE_GET, get, KEYS, NULL, &batch),
                 KVL_INPROGRESS);
        CHECK_EQ(kvl_batch_wait(batch, -1), KVL_OK);
        kvl_batch_release(batch);
        for (i = 0; i < KEYS; i++) {
            CHECK_EQ(differs(to[i].address, to[i].length, id * 1000 + round * 10 + i),
                     to[i].length);
        }
    }
    return NULL;
}

BOTH(cache, serves_many_threads)
{
    pthread_t threads[THREADS];
    size_t i;

    open_on(rails, NULL);
    for (i = 0; i < THREADS; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, worker, (void *)(uintptr_t)i) == 0);
    }
    for (i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    stage_close(&stage);
}

BOTH(cache, tells_its_session_and_the_nodes_state)
{
    kvl_session_info_t info = {0};
    kvl_node_stat_t stat    = {0};
    kvl_item_t a = {"a", 1, NULL, 0}, none = {"none", 4, NULL, 0};

    open_on(rails, NULL);
    CHECK_EQ(kvl_cache_connect(stage.cache, 5000), KVL_OK);
    CHECK_EQ(kvl_cache_session(stage.cache, &info), KVL_OK);
    CHECK(info.depth >= 1 && info.sg_endpoints >= 1 && info.data_depth >= 1);
    CHECK(info.transport[0] && info.put_mode[0] && info.get_mode[0] && info.node_version[0]);
    CHECK_EQ(stage_put(&stage, "a", 0, 5000), KVL_OK);
    CHECK_EQ(stage_put(&stage, "b", 0, 10), KVL_OK);
    CHECK_EQ(stage_get(&stage, "a", 0, 5000), KVL_OK);
    CHECK_EQ(stage_get(&stage, "none", 0, 5000), KVL_ERR_NOT_FOUND);
    CHECK_EQ(kvl_cache_stat(stage.cache, 5000, &stat), KVL_OK);
    CHECK_EQ(stat.keys, 2);
    CHECK_EQ(stat.sessions, 1);
    CHECK_EQ(stat.hits, 1);
    CHECK_EQ(stat.misses, 1);
    CHECK_EQ(stage_run(&stage, KVL_CACHE_EXISTS, &none, 1, NULL, NULL), KVL_ERR_NOT_FOUND);
    CHECK_EQ(stage_run(&stage, KVL_CACHE_EXISTS, &a, 1, NULL, NULL), KVL_OK); /* no hit: the get is one */
    CHECK_EQ(kvl_cache_stat(stage.cache, 5000, &stat), KVL_OK);
    CHECK_EQ(stat.gets, 2);
    CHECK_EQ(stat.hits, 1);
    CHECK_EQ(stat.misses, 2);
    CHECK_EQ(stat.leases, 0);
    CHECK(stat.bytes_total >= (256u << 20) * 9ull / 10 && stat.bytes_used >= 5010);
    stage_close(&stage);
}

BOTH(cache, without_a_node_says_so)
{
    kvl_session_info_t info;
    kvl_node_stat_t stat;
    kvl_batch_t *batch = NULL;
    kvl_item_t item    = {"key", 3, NULL, 0};

    open_on(rails, NULL);
    CHECK_EQ(kvl_cache_connect(stage.cache, 0), KVL_OK);
    stage_kill_node(&stage);
    stage_run(&stage, KVL_CACHE_EXISTS, &item, 1, NULL, NULL); /* notices */
    CHECK_EQ(kvl_cache_connect(stage.cache, 2000), KVL_ERR_UNREACHABLE);
    CHECK(strstr(kvl_error_text(), stage.address) != NULL);
    CHECK_EQ(kvl_cache_stat(stage.cache, 2000, &stat), KVL_ERR_UNREACHABLE);
    CHECK_EQ(kvl_cache_session(stage.cache, &info), KVL_ERR_UNREACHABLE);
    REQUIRE(kvl_cache_submit(stage.cache, KVL_CACHE_EXISTS, &item, 1, NULL, &batch) ==
            KVL_INPROGRESS);
    CHECK_EQ(kvl_batch_wait(batch, -1), KVL_ERR_UNREACHABLE);
    kvl_batch_release(batch);
    stage_close(&stage);
}

BOTH(cache, refuses_addresses_that_are_none)
{
    static const char *const bad[] = {"", "nowhere", "127.0.0.1:99999", "127.0.0.1:1,127.0.0.1:2"};
    kvl_cache_t *cache             = NULL;
    size_t i;

    open_on(rails, NULL);
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK_EQ(kvl_cache_create(stage.engine, bad[i], &cache), KVL_ERR_INVALID);
        CHECK_MSG(strstr(kvl_error_text(), bad[i]) != NULL, "%s", kvl_error_text());
        CHECK(cache == NULL);
    }
    stage_close(&stage);
}

BOTH(cache, is_destroyed_in_the_middle_of_work)
{
    kvl_segment_t segments[8];
    kvl_item_t items[8];
    kvl_batch_t *batches[8];
    stage_params_t params = {.rails = rails, .elsewhere = true};
    int i, round;

    stage_open(&stage, &params);
    for (round = 0; round < 3; round++) {
        for (i = 0; i < 8; i++) {
            items[i] = item_of("key", &segments[i], (size_t)i << 20, 1u << 20);
        }
        for (i = 0; i < 8; i++) {
            REQUIRE(kvl_cache_submit(stage.cache, KVL_CACHE_PUT, items, 8, NULL, &batches[i]) ==
                    KVL_INPROGRESS);
        }
        kvl_batch_wait(batches[0], round);
        kvl_cache_destroy(stage.cache);
        for (i = 0; i < 8; i++) {
            kvl_status_t status = kvl_batch_test(batches[i]);

            CHECK(status == KVL_OK || status == KVL_ERR_CANCELED);
            CHECK_EQ(kvl_batch_release(batches[i]), KVL_OK);
        }
        REQUIRE(kvl_cache_create(stage.engine, stage.address, &stage.cache) == KVL_OK);
    }
    stage_close(&stage);
}

/* ---- many who ask ---- */

#define ASKERS 8

static _Atomic int ask_on;

static void *ask_main(void *arg)
{
    kvl_session_info_t info;

    while (atomic_load(&ask_on)) {
        (void)kvl_cache_session(stage.cache, &info);
    }
    return arg;
}

/* each call takes the engine for a moment; together they must not keep it from its work */
static void asked_on(const char *rails, const char *progress)
{
    const kvl_item_t item        = {.key = "none", .key_length = 4};
    kvl_batch_params_t in_time   = {.timeout_ms = 5000};
    const stage_params_t params  = {.rails = rails, .progress = progress};
    kvl_batch_t *batch;
    pthread_t askers[ASKERS];
    unsigned i;

    stage_open(&stage, &params);
    atomic_store(&ask_on, 1);
    for (i = 0; i < ASKERS; i++) {
        REQUIRE(pthread_create(&askers[i], NULL, ask_main, NULL) == 0);
    }
    for (i = 0; i < 20; i++) {
        REQUIRE(kvl_cache_submit(stage.cache, KVL_CACHE_EXISTS, &item, 1, &in_time, &batch) == KVL_INPROGRESS);
        CHECK_EQ(kvl_batch_wait(batch, -1), KVL_ERR_NOT_FOUND);
        kvl_batch_release(batch);
    }
    atomic_store(&ask_on, 0);
    for (i = 0; i < ASKERS; i++) {
        pthread_join(askers[i], NULL);
    }
    stage_close(&stage);
}

TEST(cache_asked, by_many_threads_still_ends_batches_in_time)
{
    asked_on("tcp", NULL);
}

TEST(cache_asked, by_many_threads_still_ends_batches_in_time_where_callers_drive)
{
    asked_on("tcp", "caller");
}
