/* SPDX-License-Identifier: BSD-3-Clause */
#include "conform/stage.h"

#include "base/clock.h"

#include <kvlane/transport.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What callers get wrong: NULL, calls from callbacks, an engine that goes first, a fork. */

static stage_t stage;
static kvl_listener_t *listener;
static kvl_engine_t *target;
static kvl_peer_t *peer;
static kvl_remote_t *remote;

static kvl_item_t page(const char *key, kvl_segment_t *segment, size_t at, size_t length)
{
    *segment = (kvl_segment_t){.address = stage.pool + at, .length = length, .region = stage.region};
    return (kvl_item_t){key, strlen(key), segment, 1};
}

static void all_open(const char *rails, const char *progress, kvl_notify_func_t notify)
{
    stage_params_t params = {.rails = rails, .progress = progress, .elsewhere = true};
    kvl_region_t *region;
    char address[128];
    uint8_t blob[2048];
    size_t length = sizeof(blob);

    stage_open(&stage, &params);
    stage.params.progress = NULL;
    target                = stage_engine(&stage, "127.0.0.1:0");
    REQUIRE(kvl_listen(target, "127.0.0.1:0", notify, NULL, &listener) == KVL_OK);
    REQUIRE(kvl_listener_address(listener, address, sizeof(address)) == KVL_OK);
    REQUIRE(kvl_region_alloc(target, 65536, &region) == KVL_OK);
    REQUIRE(kvl_region_export(region, blob, &length) == KVL_OK);
    REQUIRE(kvl_connect(stage.engine, address, 0, &peer) == KVL_OK);
    REQUIRE(kvl_remote_import(peer, blob, length, &remote) == KVL_OK);
}

static void all_close(void)
{
    kvl_remote_release(remote);
    kvl_peer_close(peer);
    kvl_listener_destroy(listener);
    kvl_engine_destroy(target);
    stage_close(&stage);
}

/* ---- NULL ---- */

#define IS_INVALID(call)                                                                           \
    do {                                                                                           \
        (void)kvl_config_set(NULL, NULL, NULL); /* another text */                                 \
        CHECK_EQ(call, KVL_ERR_INVALID);                                                           \
        CHECK_MSG(strstr(kvl_error_text(), "NULL") != NULL && !strstr(kvl_error_text(), "config_set"), \
                  "%s: \"%s\"", #call, kvl_error_text());                                          \
    } while (0)

static void null_settings(void)
{
    kvl_config_t *config = NULL;

    IS_INVALID(kvl_config_create(NULL));
    REQUIRE(kvl_config_create(&config) == KVL_OK);
    CHECK_EQ(kvl_config_set(NULL, "KVLANE_DEPTH", "1"), KVL_ERR_INVALID);
    CHECK_EQ(kvl_config_set(config, NULL, "1"), KVL_ERR_INVALID);
    CHECK_EQ(kvl_config_set(config, "KVLANE_DEPTH", NULL), KVL_ERR_INVALID);
    CHECK(kvl_config_get(NULL, "KVLANE_DEPTH") == NULL);
    CHECK(kvl_config_get(config, NULL) == NULL);
    kvl_config_print(NULL, stdout, 0);
    kvl_config_print(config, NULL, 1);
    kvl_config_destroy(config);
    kvl_config_destroy(NULL);
}

static void null_engine(void)
{
    kvl_engine_params_t params = {.address = "127.0.0.1:0"};

    IS_INVALID(kvl_engine_create(&params, NULL));
    kvl_engine_destroy(NULL);
    CHECK_EQ(kvl_engine_progress(NULL), 0);
    CHECK_EQ(kvl_engine_event_fd(NULL), -1);
    kvl_engine_clear_event(NULL);
    kvl_engine_print(NULL, stdout, 0);
    kvl_engine_print(stage.engine, NULL, 1);
    IS_INVALID(kvl_batch_test(NULL));
    IS_INVALID(kvl_batch_wait(NULL, 1));
    IS_INVALID(kvl_batch_item(NULL, 0, NULL));
    kvl_batch_cancel(NULL);
    CHECK_EQ(kvl_batch_count(NULL), 0);
    CHECK_STR_EQ(kvl_batch_cause(NULL), "");
    CHECK_EQ(kvl_batch_release(NULL), KVL_OK);
}

static void null_region(void)
{
    kvl_region_t *region = NULL;
    uint8_t blob[2048];

    IS_INVALID(kvl_region_register(NULL, blob, 1, &region));
    CHECK_EQ(kvl_region_register(stage.engine, NULL, 1, &region), KVL_ERR_INVALID);
    IS_INVALID(kvl_region_register(stage.engine, blob, 1, NULL));
    IS_INVALID(kvl_region_alloc(NULL, 1, &region));
    IS_INVALID(kvl_region_alloc(stage.engine, 1, NULL));
    IS_INVALID(kvl_region_export(NULL, blob, NULL));
    IS_INVALID(kvl_region_export(stage.region, NULL, NULL));
    IS_INVALID(kvl_region_export(stage.region, blob, NULL));
    CHECK(kvl_region_address(NULL) == NULL);
    CHECK_EQ(kvl_region_length(NULL), 0);
    CHECK_EQ(kvl_region_release(NULL), KVL_OK);
    CHECK(region == NULL);
}

static void null_transport(void)
{
    kvl_part_t part     = {.local = {stage.pool, 8, NULL}, .remote = NULL};
    kvl_transfer_t none = {.op = KVL_TRANSFER_PUT, .part_count = 1};
    kvl_transfer_t bad  = {.op = KVL_TRANSFER_PUT, .part_count = 1, .parts = &part};
    kvl_transfer_t good = {.op = KVL_TRANSFER_PUT, .has_notification = 1};
    kvl_batch_t *batch;
    kvl_listener_t *second;
    kvl_peer_t *other;
    kvl_remote_t *import;
    char text[128];

    IS_INVALID(kvl_listen(NULL, "127.0.0.1:0", NULL, NULL, &second));
    IS_INVALID(kvl_listen(target, NULL, NULL, NULL, &second));
    IS_INVALID(kvl_listen(target, "127.0.0.1:0", NULL, NULL, NULL));
    IS_INVALID(kvl_listener_address(NULL, text, sizeof(text)));
    IS_INVALID(kvl_listener_address(listener, NULL, sizeof(text)));
    kvl_listener_destroy(NULL);
    IS_INVALID(kvl_connect(NULL, "127.0.0.1:1", 1, &other));
    IS_INVALID(kvl_connect(stage.engine, NULL, 1, &other));
    IS_INVALID(kvl_connect(stage.engine, "127.0.0.1:1", 1, NULL));
    IS_INVALID(kvl_peer_test(NULL));
    kvl_peer_close(NULL);
    IS_INVALID(kvl_remote_import(NULL, text, 1, &import));
    IS_INVALID(kvl_remote_import(peer, NULL, 1, &import));
    IS_INVALID(kvl_remote_import(peer, text, 1, NULL));
    CHECK_EQ(kvl_remote_length(NULL), 0);
    kvl_remote_release(NULL);
    IS_INVALID(kvl_transfer_submit(NULL, &good, NULL, &batch));
    IS_INVALID(kvl_transfer_submit(peer, NULL, NULL, &batch));
    IS_INVALID(kvl_transfer_submit(peer, &none, NULL, &batch));
    IS_INVALID(kvl_transfer_submit(peer, &good, NULL, NULL));
    CHECK_EQ(kvl_transfer_submit(peer, &bad, NULL, &batch), KVL_ERR_INVALID);
}

static void null_cache(void)
{
    kvl_session_info_t info;
    kvl_node_stat_t stat;
    kvl_segment_t segment;
    kvl_item_t item = page("k", &segment, 0, 8);
    kvl_cache_t *cache;
    kvl_batch_t *batch;

    IS_INVALID(kvl_cache_create(NULL, stage.address, &cache));
    IS_INVALID(kvl_cache_create(stage.engine, NULL, &cache));
    IS_INVALID(kvl_cache_create(stage.engine, stage.address, NULL));
    IS_INVALID(kvl_cache_connect(NULL, 0));
    kvl_cache_destroy(NULL);
    IS_INVALID(kvl_cache_submit(NULL, KVL_CACHE_PUT, &item, 1, NULL, &batch));
    IS_INVALID(kvl_cache_submit(stage.cache, KVL_CACHE_PUT, &item, 1, NULL, NULL));
    CHECK_EQ(kvl_cache_submit(stage.cache, KVL_CACHE_PUT, NULL, 1, NULL, &batch), KVL_ERR_INVALID);
    IS_INVALID(kvl_cache_stat(NULL, 0, &stat));
    IS_INVALID(kvl_cache_stat(stage.cache, 0, NULL));
    IS_INVALID(kvl_cache_session(NULL, &info));
    IS_INVALID(kvl_cache_session(stage.cache, NULL));
}

static void null_node(void)
{
    kvl_node_params_t params = {.listen = "127.0.0.1:0", .memory_bytes = 16u << 20};
    kvl_node_params_t bad    = {.memory_bytes = 16u << 20};
    kvl_node_stat_t stat;
    kvl_node_t *node;
    char text[128];

    IS_INVALID(kvl_node_create(NULL, &node));
    IS_INVALID(kvl_node_create(&bad, &node));
    IS_INVALID(kvl_node_create(&params, NULL));
    REQUIRE(kvl_node_create(&params, &node) == KVL_OK);
    IS_INVALID(kvl_node_address(NULL, text, sizeof(text)));
    IS_INVALID(kvl_node_address(node, NULL, sizeof(text)));
    IS_INVALID(kvl_node_run(NULL));
    kvl_node_drain(NULL, 1);
    kvl_node_stat(NULL, &stat);
    kvl_node_stat(node, NULL);
    kvl_node_destroy(node);
    kvl_node_destroy(NULL);
}

TEST(api, refuses_null_everywhere)
{
    all_open("tcp", NULL, NULL);
    REQUIRE(kvl_cache_connect(stage.cache, 0) == KVL_OK);
    null_settings();
    null_engine();
    null_region();
    null_transport();
    null_cache();
    null_node();
    all_close();
}

/* ---- in a callback ---- */

static _Atomic int calls;

static void try_what_waits(kvl_engine_t *engine)
{
    kvl_node_stat_t stat;
    kvl_peer_t *other;

    CHECK_EQ(kvl_engine_progress(engine), 0);
    kvl_engine_destroy(engine);
    CHECK_EQ(kvl_connect(engine, "127.0.0.1:1", 100, &other), KVL_ERR_INVALID);
    if (engine == target) {
        kvl_listener_destroy(listener);
        return;
    }
    CHECK_EQ(kvl_cache_connect(stage.cache, 100), KVL_ERR_INVALID);
    CHECK_EQ(kvl_cache_stat(stage.cache, 100, &stat), KVL_ERR_INVALID);
    kvl_cache_destroy(stage.cache);
    kvl_peer_close(peer);
}

static void try_what_does_not(kvl_engine_t *engine)
{
    FILE *stream = fopen("/dev/null", "w");
    kvl_session_info_t info;
    kvl_listener_t *second;
    kvl_cache_t *cache;
    kvl_region_t *region;

    kvl_engine_print(engine, stream, 1);
    fclose(stream);
    CHECK_EQ(kvl_region_alloc(engine, 100000, &region), KVL_OK);
    CHECK_EQ(kvl_region_release(region), KVL_OK);
    kvl_engine_clear_event(engine);
    if (engine == target) {
        CHECK_EQ(kvl_listen(engine, "127.0.0.1:0", NULL, NULL, &second), KVL_ERR_BUSY);
        return;
    }
    CHECK_EQ(kvl_cache_session(stage.cache, &info), KVL_OK);
    CHECK_EQ(kvl_cache_create(engine, stage.address, &cache), KVL_OK); /* closed with the engine */
}

static void from_batch(kvl_batch_t *batch, void *arg)
{
    kvl_batch_t **second = arg;
    kvl_segment_t segment;
    kvl_item_t item = page("second", &segment, 0, 50000);

    CHECK_EQ(kvl_batch_wait(batch, 100), KVL_OK);
    try_what_waits(stage.engine);
    try_what_does_not(stage.engine);
    CHECK_EQ(kvl_cache_submit(stage.cache, KVL_CACHE_PUT, &item, 1, NULL, second), KVL_INPROGRESS);
    CHECK_EQ(kvl_batch_wait(*second, 100), KVL_INPROGRESS); /* it cannot complete before we return */
    CHECK_EQ(kvl_batch_wait(*second, -1), KVL_INPROGRESS);
    CHECK_EQ(kvl_batch_release(*second), KVL_ERR_BUSY);
    CHECK_EQ(kvl_region_release(stage.region), KVL_ERR_BUSY);
    kvl_batch_cancel(*second);
    CHECK_EQ(kvl_batch_release(batch), KVL_OK);
    atomic_fetch_add(&calls, 1);
}

static void from_transfer(kvl_batch_t *batch, void *arg)
{
    (void)arg;
    try_what_waits(stage.engine);
    kvl_remote_release(remote);
    remote = NULL;
    CHECK_EQ(kvl_batch_release(batch), KVL_OK);
    atomic_fetch_add(&calls, 1);
}

static void from_note(const char *name, const void *data, size_t length, void *arg)
{
    (void)name;
    (void)data;
    (void)length;
    (void)arg;
    try_what_waits(target);
    try_what_does_not(target);
    atomic_fetch_add(&calls, 1);
}

static void until_calls(int count)
{
    int64_t end = kvl_now_ns() + 20 * KVL_SECOND;

    while (atomic_load(&calls) < count && kvl_now_ns() < end) {
        kvl_engine_progress(stage.engine);
        usleep(100);
    }
    CHECK_EQ(atomic_load(&calls), count);
}

static void call_back(const char *rails, const char *progress)
{
    kvl_batch_t *batch, *second   = NULL;
    kvl_batch_params_t in_batch   = {.callback = from_batch, .arg = &second};
    kvl_batch_params_t in_transfer = {.callback = from_transfer};
    kvl_segment_t segment;
    kvl_item_t item;
    kvl_part_t part;
    kvl_transfer_t put = {.op = KVL_TRANSFER_PUT, .part_count = 1, .parts = &part, .has_notification = 1};

    all_open(rails, progress, from_note);
    atomic_store(&calls, 0);
    item = page("first", &segment, 0, 50000);
    part = (kvl_part_t){.local = segment, .remote = remote};
    REQUIRE(kvl_cache_submit(stage.cache, KVL_CACHE_PUT, &item, 1, &in_batch, &batch) ==
            KVL_INPROGRESS);
    until_calls(1);
    REQUIRE(second != NULL);
    CHECK(kvl_batch_wait(second, -1) != KVL_INPROGRESS);
    CHECK_EQ(kvl_batch_release(second), KVL_OK);
    REQUIRE(kvl_transfer_submit(peer, &put, &in_transfer, &batch) == KVL_INPROGRESS);
    until_calls(3);
    CHECK_EQ(stage_put(&stage, "still", 0, 50000), KVL_OK); /* nothing was destroyed */
    all_close();
}

BOTH(callback, may_call_anything_that_does_not_wait)
{
    call_back(rails, NULL);
}

BOTH(callback, may_call_anything_when_the_caller_progresses)
{
    call_back(rails, "caller");
}

/* ---- an engine that goes first ---- */

BOTH(engine_destroy, closes_what_is_open_on_it)
{
    enum { BATCHES = 20 };
    kvl_batch_t *batches[BATCHES], *transfer;
    kvl_segment_t segments[BATCHES];
    kvl_transfer_t put = {.op = KVL_TRANSFER_PUT, .part_count = 1};
    kvl_part_t part;
    int i;

    all_open(rails, NULL, NULL);
    for (i = 0; i < BATCHES; i++) {
        kvl_item_t item = page("key", &segments[i], (size_t)i << 20, 1u << 20);

        REQUIRE(kvl_cache_submit(stage.cache, KVL_CACHE_PUT, &item, 1, NULL, &batches[i]) ==
                KVL_INPROGRESS);
    }
    part      = (kvl_part_t){.local = {stage.pool, 65536, stage.region}, .remote = remote};
    put.parts = &part;
    REQUIRE(kvl_transfer_submit(peer, &put, NULL, &transfer) == KVL_INPROGRESS);
    kvl_engine_destroy(stage.engine);
    kvl_engine_destroy(target);
    for (i = 0; i < BATCHES; i++) {
        CHECK(kvl_batch_test(batches[i]) != KVL_INPROGRESS);
        kvl_batch_cancel(batches[i]);
        CHECK_EQ(kvl_batch_release(batches[i]), KVL_OK);
    }
    CHECK(kvl_batch_test(transfer) != KVL_INPROGRESS);
    CHECK_EQ(kvl_batch_release(transfer), KVL_OK);
    kvl_remote_release(remote);
    stage_end_elsewhere(&stage);
}

/* ---- a child of fork() ---- */

static void child_cleans_up(void)
{
    kvl_engine_t *engine = NULL;

    if (kvl_engine_create(NULL, &engine) != KVL_ERR_UNSUPPORTED || !strstr(kvl_error_text(), "forked")) {
        _exit(3); /* it would never hear an answer */
    }
    CHECK_EQ(kvl_region_release(stage.region), KVL_OK);
    kvl_remote_release(remote);
    kvl_peer_close(peer);
    kvl_cache_destroy(stage.cache);
    kvl_listener_destroy(listener);
    kvl_engine_destroy(stage.engine);
    kvl_engine_destroy(target);
    _exit(0);
}

BOTH(fork, leaves_a_child_that_cannot_break_its_parent)
{
    int status = -1, i;
    pid_t child;

    all_open(rails, NULL, NULL);
    for (i = 0; i < 3; i++) {
        child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            alarm(20);
            child_cleans_up();
        }
        CHECK_EQ(stage_put(&stage, "key", 0, 1u << 20), KVL_OK);
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK_EQ(status, 0);
        CHECK_EQ(stage_get(&stage, "key", 2u << 20, 1u << 20), KVL_OK);
    }
    all_close();
}
