/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "link/private.h"

#include <stdarg.h>
#include <string.h>
#include <xxhash.h>

/* Before a pair is up it proves that bytes travel unharmed both ways on both lanes, in the modes that
 * were chosen: the peer fills its scratch with a pattern, we get one half by data and one by sg in
 * pieces, and compare; then we put another pattern the same way and the peer tells its hash.
 * UCX versions that corrupt silently (see facts on IOV) must be found here, not in a user's page.
 *
 * Where UCX takes device memory for onesided ops, the same is done with memory of each device of the engine, by the rail
 * itself: between some devices and NICs bytes get lost without an error. That test fails the path alone: the device's
 * memory goes through the host's then. It is marked as failed before it begins, so that one that takes the connection
 * along is not tried again. */

#define SG_PIECES   16
#define HASH_TRIES  2000
#define HASH_PAUSE  KVL_MS

static bool selftest_answer(kvl_call_t *call, const kvl_msg_head_t *head, kvl_rbuf_t *body);
static void test_end(kvl_link_t *link);

static void test_fail(kvl_link_t *link, kvl_status_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void test_fail(kvl_link_t *link, kvl_status_t status, const char *format, ...)
{
    char text[KVL_LINK_TEXT];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (link->test.device && !link->failed && !link->test.pair->failed) {
        kvl_warn("link %s: rail %s to memory of %s: %s; it goes through host memory there, as long as this engine lives",
                 link->address, kvl_pair_name(link->test.pair), kvl_device_name(link->test.device), text);
        kvl_engine_device_path(link->engine, link->test.device, link->test.pair->rail, KVL_PATH_FAILED);
        test_end(link);
        return;
    }
    kvl_pair_fail(link->test.pair, status, text);
}

static bool test_device(kvl_link_t *link, kvl_pair_t *pair);

/* the pair passed, or a device's path was tested; then the next device, if there is one */
static void test_end(kvl_link_t *link)
{
    kvl_pair_t *pair = link->test.pair;

    kvl_link_test_cleanup(link);
    if (!test_device(link, pair) && pair->state == KVL_PAIR_TESTING) {
        kvl_pair_tested(pair);
    }
}

/* ---- the mirror of a device's memory: copies that are waited for, of some KiB ---- */

static kvl_status_t mirror_copy(kvl_selftest_state_t *test, kvl_copy_dir_t dir)
{
    kvl_copy_t copy = dir == KVL_TO_HOST ? (kvl_copy_t){test->mirror, test->memory, 2 * test->length}
                                         : (kvl_copy_t){test->memory, test->mirror, 2 * test->length};
    kvl_status_t status;

    if (!test->device) {
        return KVL_OK;
    }
    status = kvl_device_copy(test->device, dir, &copy, 1);
    return status == KVL_OK ? kvl_device_settle(test->device, dir) : status;
}

static void test_ask(kvl_link_t *link, unsigned step, kvl_test_step_t stage)
{
    kvl_selftest_state_t *test = &link->test;
    kvl_selftest_t ask = {.step = (uint8_t)step, .seed = test->seed, .length = (uint32_t)(2 * test->length)};
    kvl_wbuf_t *w = kvl_link_call_begin(link);

    test->step = stage;
    if (!w) {
        test_fail(link, KVL_ERR_NO_MEMORY, "out of memory");
        return;
    }
    kvl_put_selftest(w, &ask);
    test->call.answer = selftest_answer;
    if (kvl_link_call_send(link, KVL_MSG_SELFTEST, &test->call, KVL_TIME_MAX) != KVL_INPROGRESS) {
        test_fail(link, KVL_ERR_PEER, "self-test: %s", kvl_error_text());
    }
}

static void test_moved(kvl_move_t *move, kvl_status_t status);

/* half 0 in one piece on data, half 1 in pieces of odd lengths, in reverse order, on sg */
static void test_move(kvl_link_t *link, kvl_move_dir_t dir, kvl_test_step_t stage)
{
    kvl_selftest_state_t *test = &link->test;
    unsigned half, i;

    test->step   = stage;
    test->moving = 2;
    test->status = KVL_OK;
    for (half = 0; half < 2; half++) {
        kvl_move_t *move     = &test->moves[half];
        kvl_piece_t *pieces  = test->pieces[half];
        uint8_t *base        = test->memory + half * test->length;
        unsigned count       = half ? SG_PIECES : 1;
        size_t step          = test->length / count, at = 0;

        for (i = 0; i < count; i++) {
            size_t length = i + 1 == count ? test->length - at : step + (i % 2 ? 3 : 0) - (i % 2 ? 0 : 3);

            pieces[i] = (kvl_piece_t){.address       = base + at,
                                      .length        = length,
                                      .mems          = test->mems,
                                      .remote_offset = link->terms.scratch_offset +
                                                       half * test->length + at,
                                      .device        = test->device};
            at += length;
        }
        *move = (kvl_move_t){.dir         = dir,
                             .lane        = half ? KVL_LANE_SG : KVL_LANE_DATA,
                             .pieces      = pieces,
                             .piece_count = count,
                             .device      = test->device,
                             .direct      = test->device != NULL,
                             .remote      = kvl_link_region(link, link->terms.scratch_region),
                             .scope       = 1,
                             .token       = link->terms.scratch_region,
                             .only        = link->several ? test->pair->rail + 1 : 0,
                             .done        = test_moved};
        kvl_mover_submit(link->mover, &test->flow, move);
    }
}

static void test_wrong(kvl_link_t *link, const char *what, kvl_mode_t mode, const char *did)
{
    if (link->test.device) {
        test_fail(link, KVL_ERR_RAIL, "self-test: a %s over %s %s wrong bytes", what, link->info.transport, did);
        return;
    }
    test_fail(link, KVL_ERR_RAIL,
              "self-test: a %s (%s over %s) %s wrong bytes; do not use this transport with UCX %s, or try "
              "KVLANE_MODE=message",
              what, kvl_mode_name(mode), link->info.transport, did, kvl_ucx_version());
}

static void test_compare(kvl_link_t *link)
{
    kvl_selftest_state_t *test = &link->test;
    uint8_t *expected          = kvl_malloc(2 * test->length);
    kvl_status_t status;
    bool same;

    if (!expected) {
        test_fail(link, KVL_ERR_NO_MEMORY, "out of memory");
        return;
    }
    kvl_wire_pattern(expected, 2 * test->length, test->seed);
    status = mirror_copy(test, KVL_TO_HOST);
    same   = !memcmp(expected, test->mirror, 2 * test->length);
    kvl_free(expected);
    if (status != KVL_OK) {
        test_fail(link, status, "self-test: %s", kvl_error_text());
        return;
    }
    if (!same) {
        test_wrong(link, "get", link->get_mode, "brought");
        return;
    }
    test->seed = ~test->seed;
    kvl_wire_pattern(test->mirror, 2 * test->length, test->seed);
    status = mirror_copy(test, KVL_TO_DEVICE);
    if (status != KVL_OK) {
        test_fail(link, status, "self-test: %s", kvl_error_text());
        return;
    }
    test_move(link, KVL_MOVE_PUT, KVL_TEST_PUT);
}

static bool pair_is_tested(const kvl_selftest_state_t *test)
{
    return test->pair->state == KVL_PAIR_TESTING || (test->device && test->pair->state == KVL_PAIR_UP);
}

static void test_moved(kvl_move_t *move, kvl_status_t status)
{
    unsigned half = move->lane == KVL_LANE_SG;
    kvl_link_t *link =
        kvl_container(move - half, kvl_link_t, test.moves[0]);
    kvl_selftest_state_t *test = &link->test;

    if (status != KVL_OK) {
        test->status = status;
    }
    if (--test->moving || !pair_is_tested(test) || link->failed ||
        (link->state != KVL_LINK_CONNECTING && link->state != KVL_LINK_UP)) {
        return;
    }
    if (test->status != KVL_OK) {
        test_fail(link, test->status, "self-test: a %s over %s failed (%s)",
                  test->step == KVL_TEST_GET ? "get" : "put", link->info.transport,
                  kvl_status_string(test->status));
    } else if (test->step == KVL_TEST_GET) {
        test_compare(link);
    } else {
        test_ask(link, 1, KVL_TEST_HASH);
    }
}

static void test_again(kvl_timer_t *timer)
{
    kvl_link_t *link = kvl_container(timer, kvl_link_t, test.timer);

    test_ask(link, 1, KVL_TEST_HASH);
}

static void test_hash(kvl_link_t *link, uint64_t hash)
{
    kvl_selftest_state_t *test = &link->test;

    if (hash == XXH3_64bits(test->mirror, 2 * test->length)) {
        if (test->device) {
            kvl_engine_device_path(link->engine, test->device, test->pair->rail, KVL_PATH_DIRECT);
        }
        test_end(link);
        return;
    }
    /* in message mode a put is done when our memory is free, not when it arrived */
    if (link->put_mode == KVL_MODE_IS_MESSAGE && ++test->tries < HASH_TRIES) {
        kvl_timer_set(kvl_engine_timers(link->engine), &test->timer,
                      kvl_time_add(kvl_engine_now(link->engine), HASH_PAUSE), test_again);
        return;
    }
    test_wrong(link, "put", link->put_mode, "arrived with");
}

static bool selftest_answer(kvl_call_t *call, const kvl_msg_head_t *head, kvl_rbuf_t *body)
{
    kvl_link_t *link = kvl_container(call, kvl_link_t, test.call);
    kvl_selftest_t answer;

    if (!body) {
        test_fail(link, KVL_ERR_PEER, "self-test: %s", kvl_status_string((kvl_status_t)head->status));
        return true;
    }
    if (head->type != KVL_MSG_SELFTEST_OK || kvl_get_selftest(body, &answer) != KVL_OK) {
        kvl_link_protocol_error(link, "a damaged answer to SELFTEST");
        return true;
    }
    kvl_link_call_end(link, call); /* the next step uses the same call */
    if (link->test.step == KVL_TEST_FILL) {
        test_move(link, KVL_MOVE_GET, KVL_TEST_GET);
    } else {
        test_hash(link, answer.hash);
    }
    return false;
}

static kvl_status_t test_memory(kvl_link_t *link)
{
    kvl_selftest_state_t *test = &link->test;
    kvl_status_t status        = KVL_OK;
    void *address              = NULL;
    unsigned rail;

    test->mirror = kvl_calloc(2, test->length);
    if (!test->mirror) {
        return kvl_error(KVL_ERR_NO_MEMORY, "out of memory");
    }
    if (test->device) {
        status       = kvl_device_alloc(test->device, 2 * test->length, &address);
        test->memory = address;
        rail         = test->pair->rail;
        return status == KVL_OK ? kvl_mem_create_device(kvl_engine_context(link->engine, rail), test->memory,
                                                        2 * test->length, &test->mems[rail])
                                : status;
    }
    test->memory = test->mirror;
    for (rail = 0; status == KVL_OK && rail < kvl_engine_rails(link->engine); rail++) {
        status = kvl_mem_create(kvl_engine_context(link->engine, rail), test->memory, 2 * test->length,
                                &test->mems[rail]);
    }
    return status;
}

static void test_start(kvl_link_t *link, kvl_pair_t *pair, kvl_device_t *device)
{
    kvl_selftest_state_t *test        = &link->test;
    const kvl_remote_region_t *region = kvl_link_region(link, link->terms.scratch_region);
    uint64_t length                   = link->terms.scratch_length;

    memset(test, 0, sizeof(*test));
    test->pair   = pair;
    test->device = device;
    kvl_list_init(&test->call.link);
    if (!length) { /* an engine without exported memory has no scratch to offer */
        test_end(link);
        return;
    }
    if (!region || length < 4096 || length > (1u << 20) || link->terms.scratch_offset > region->length ||
        length > region->length - link->terms.scratch_offset) {
        kvl_link_protocol_error(link, "HELLO_OK with a scratch outside of its region");
        return;
    }
    kvl_flow_init(&test->flow);
    test->length = length / 2;
    test->seed   = (uint64_t)kvl_now_ns() * UINT64_C(0x9e3779b97f4a7c15);
    if (test_memory(link) != KVL_OK) {
        test_fail(link, KVL_ERR_NO_MEMORY, "self-test: %s", kvl_error_text());
        return;
    }
    test_ask(link, 0, KVL_TEST_FILL);
}

void kvl_link_test_start(kvl_link_t *link, kvl_pair_t *pair)
{
    test_start(link, pair, NULL);
}

/* Starts the test of the next device that has not had one over this pair; false if there is none. */
static bool test_device(kvl_link_t *link, kvl_pair_t *pair)
{
    kvl_device_t *device = pair->info.device_memory && link->terms.scratch_length
                               ? kvl_engine_device_untested(link->engine, pair->rail)
                               : NULL;

    if (!device) {
        return false;
    }
    kvl_engine_device_path(link->engine, device, pair->rail, KVL_PATH_TESTING);
    test_start(link, pair, device);
    return true;
}

unsigned kvl_link_test_devices(kvl_link_t *link)
{
    unsigned seen = kvl_engine_device_count(link->engine), i;

    if (link->test.pair) {
        return 0; /* when that is over */
    }
    for (i = 0; i < link->pair_count; i++) {
        if (link->pairs[i].state == KVL_PAIR_UP && test_device(link, &link->pairs[i])) {
            return 1;
        }
    }
    link->devices_seen = seen;
    return 0;
}

void kvl_link_test_cleanup(kvl_link_t *link)
{
    kvl_selftest_state_t *test = &link->test;
    unsigned rail;

    if (test->pair) {
        kvl_link_call_end(link, &test->call);
    }
    kvl_timer_cancel(kvl_engine_timers(link->engine), &test->timer);
    for (rail = 0; rail < KVL_RAILS_MAX; rail++) {
        kvl_mem_destroy(test->mems[rail]);
        test->mems[rail] = NULL;
    }
    if (test->device) {
        kvl_device_free(test->device, test->memory);
    }
    kvl_free(test->mirror);
    test->memory = test->mirror = NULL;
    test->device                = NULL;
    test->pair                  = NULL;
}
