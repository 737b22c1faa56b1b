/* SPDX-License-Identifier: BSD-3-Clause */
#include "system/box.h"

#include <stdlib.h>
#include <string.h>

/* A node that is stopped (SIGSTOP) in the middle of a batch and goes on later. The batch ends by its
 * deadline; what the caller then does to its buffers is seen by nobody, and nobody changes them.
 * KVLANE_TEST_LATE_MS: how late a batch may end (100 is promised; a busy machine gets more). */

#define ITEMS      16
#define LENGTH     (2u << 20)
#define HALF       ((size_t)ITEMS * LENGTH)
#define TIMEOUT_MS 500
#define LATE_MS    400
#define POISON     0xee

typedef struct {
    box_node_t node;
    box_client_t client;
    kvl_segment_t segments[ITEMS];
    kvl_item_t items[ITEMS];
    char keys[ITEMS][16];
    kvl_status_t statuses[ITEMS];
    kvl_session_info_t info;
    int64_t worst_late_ms;
    unsigned ended[3]; /* items that were OK, TIMEOUT, AMBIGUOUS */
} scene_t;

static scene_t scene;

TEARDOWN
{
    box_kill_all();
}

static void scene_open(const char *rails, const char *mode)
{
    const box_setting_t settings[] = {{"KVLANE_RAILS", rails}, {"KVLANE_MODE", mode}, {NULL, NULL}};

    scene = (scene_t){.worst_late_ms = INT64_MIN};
    box_node_set(&scene.node, rails, "128M", settings + 1);
    box_node_start(&scene.node);
    box_client_open(&scene.client, scene.node.address, 2 * HALF, settings);
    REQUIRE(kvl_cache_session(scene.client.cache, &scene.info) == KVL_OK);
}

static void scene_close(bool put)
{
    printf("%s by %s over %s: a batch ended at most %lld ms after its deadline; items: %u OK, %u "
           "TIMEOUT, %u AMBIGUOUS\n",
           put ? "put" : "get", put ? scene.info.put_mode : scene.info.get_mode,
           scene.info.transport, (long long)scene.worst_late_ms, scene.ended[0], scene.ended[1],
           scene.ended[2]);
    box_client_close(&scene.client);
    box_node_end(&scene.node);
}

/* All items, their values in the first (0) or second (1) half of the pool. */
static void set_items(size_t half)
{
    size_t i;

    for (i = 0; i < ITEMS; i++) {
        scene.segments[i] = (kvl_segment_t){.address = scene.client.pool + half * HALF + i * LENGTH,
                                            .length  = LENGTH};
        snprintf(scene.keys[i], sizeof(scene.keys[i]), "page%zu", i);
        scene.items[i] = (kvl_item_t){scene.keys[i], strlen(scene.keys[i]), &scene.segments[i], 1};
    }
}

static void fill_generation(uint32_t generation)
{
    uint32_t i;

    for (i = 0; i < ITEMS; i++) {
        pattern_fill(scene.client.pool + (size_t)i * LENGTH, LENGTH, i, generation);
    }
}

static void put_all(uint32_t generation)
{
    set_items(0);
    fill_generation(generation);
    CHECK_EQ(box_run(&scene.client, KVL_CACHE_PUT, scene.items, ITEMS, 20000, NULL), KVL_OK);
}

static void measure(int64_t started_ms)
{
    int64_t late = box_now_ms() - started_ms - TIMEOUT_MS;

    scene.worst_late_ms = late > scene.worst_late_ms ? late : scene.worst_late_ms;
    CHECK_MSG(late <= (int64_t)box_number("KVLANE_TEST_LATE_MS", LATE_MS),
              "the batch ended %lld ms after its deadline", (long long)late);
}

/* Runs the batch, stops the node after @a us (0: before). Its statuses are in scene.statuses; false if
 * it was over before the node stood. */
static bool run_into_stop(kvl_cache_op_t op, unsigned us)
{
    kvl_batch_params_t params = {.timeout_ms = TIMEOUT_MS};
    kvl_batch_t *batch        = NULL;
    int64_t started           = box_now_ms();
    kvl_status_t status;
    size_t i;

    if (!us) {
        box_stop(&scene.node.child);
    }
    REQUIRE(kvl_cache_submit(scene.client.cache, op, scene.items, ITEMS, &params, &batch) ==
            KVL_INPROGRESS);
    if (us) {
        box_pause_us(us);
        box_stop(&scene.node.child);
    }
    status = kvl_batch_wait(batch, -1);
    if (status != KVL_OK) {
        measure(started);
        CHECK_EQ(status, KVL_ERR_TIMEOUT);
    }
    for (i = 0; i < ITEMS; i++) {
        scene.statuses[i] = kvl_batch_item(batch, i, NULL);
        scene.ended[0] += scene.statuses[i] == KVL_OK;
        scene.ended[1] += scene.statuses[i] == KVL_ERR_TIMEOUT;
        scene.ended[2] += scene.statuses[i] == KVL_ERR_AMBIGUOUS;
    }
    CHECK_EQ(kvl_batch_release(batch), KVL_OK);
    return status != KVL_OK;
}

static void node_goes_on(void)
{
    box_continue(&scene.node.child);
    box_works_again(&scene.client, 10000, 100);
}

/* What may be stored under a key after a put of @a generation over an older one. */
static void check_stored(uint32_t key, uint32_t generation, kvl_status_t put, kvl_status_t got)
{
    const uint8_t *value = scene.client.pool + HALF + (size_t)key * LENGTH;
    uint32_t claims;
    size_t at;

    CHECK_MSG(got == KVL_OK, "key %u: %s", (unsigned)key, kvl_status_name(got));
    if (got != KVL_OK) {
        return;
    }
    claims = pattern_claims(value);
    at     = pattern_differs(value, LENGTH, key, claims);
    CHECK_MSG(at == LENGTH, "key %u is no whole put: byte %zu is 0x%02x, generation %u",
              (unsigned)key, at, at < LENGTH ? value[at] : 0, (unsigned)claims);
    switch (put) {
    case KVL_OK:
        CHECK_EQ(claims, generation);
        break;
    case KVL_ERR_AMBIGUOUS:
        CHECK(claims == generation || claims < generation);
        break;
    default: /* nothing was stored */
        CHECK_MSG(claims < generation, "key %u was put with %s and is stored", (unsigned)key,
                  kvl_status_name(put));
        break;
    }
}

static bool put_round(uint32_t generation, unsigned us)
{
    kvl_status_t puts[ITEMS], gets[ITEMS];
    bool stopped;
    uint32_t i;

    set_items(0);
    fill_generation(generation);
    stopped = run_into_stop(KVL_CACHE_PUT, us);
    memcpy(puts, scene.statuses, sizeof(puts));
    memset(scene.client.pool, POISON, HALF); /* ours again: nobody may see this */
    node_goes_on();
    set_items(1);
    memset(scene.client.pool + HALF, 0, HALF);
    box_run(&scene.client, KVL_CACHE_GET, scene.items, ITEMS, 20000, gets);
    for (i = 0; i < ITEMS; i++) {
        check_stored(i, generation, puts[i], gets[i]);
    }
    return stopped;
}

static size_t not_poison(const uint8_t *bytes, size_t length)
{
    size_t i = 0;

    while (i < length && bytes[i] == POISON) {
        i++;
    }
    return i;
}

static bool get_round(unsigned us)
{
    uint32_t i;
    bool stopped;
    size_t at;

    set_items(1);
    memset(scene.client.pool + HALF, 0, HALF);
    stopped = run_into_stop(KVL_CACHE_GET, us);
    for (i = 0; i < ITEMS; i++) {
        const uint8_t *value = scene.client.pool + HALF + (size_t)i * LENGTH;

        CHECK(scene.statuses[i] == KVL_OK || scene.statuses[i] == KVL_ERR_TIMEOUT);
        CHECK(scene.statuses[i] != KVL_OK || pattern_differs(value, LENGTH, i, 1) == LENGTH);
    }
    memset(scene.client.pool + HALF, POISON, HALF); /* ours again: nobody may change this */
    node_goes_on();
    at = not_poison(scene.client.pool + HALF, HALF);
    CHECK_MSG(at == HALF, "byte %zu of the buffers changed after the batch had ended", at);
    return stopped;
}

/* Stops in all kinds of moments: before the batch, and in the middle, later and later until the batch is
 * over first, and then sooner again. */
static void rounds(bool put)
{
    unsigned count = box_number("KVLANE_TEST_STOPS", 6), us = 0, in_time = 0, i;

    put_all(1);
    for (i = 0; i < count; i++) {
        bool stopped = put ? put_round(i + 2, us) : get_round(us);

        in_time += stopped;
        us = !stopped ? us / 3 : us ? us * 2 : 1000;
    }
    CHECK(in_time > 0); /* a onesided get needs the node for a moment only */
}

#define STOP(rails_, mode_, name_)                                                                 \
    TEST(trouble_stop, name_##_of_the_node_in_mid_put_stores_no_later_byte)                        \
    {                                                                                              \
        scene_open(rails_, mode_);                                                                 \
        rounds(true);                                                                              \
        scene_close(true);                                                                         \
    }                                                                                              \
    TEST(trouble_stop, name_##_of_the_node_in_mid_get_changes_no_byte_later)                       \
    {                                                                                              \
        scene_open(rails_, mode_);                                                                 \
        rounds(false);                                                                             \
        scene_close(false);                                                                        \
    }

STOP("tcp", "auto", over_tcp)
STOP("shm", "auto", over_shared_memory)
