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
 * UCX versions that corrupt silently (see facts on IOV) must be found here, not in a user's page. */

#define SG_PIECES   16
#define HASH_TRIES  2000
#define HASH_PAUSE  KVL_MS

static bool selftest_answer(kvl_call_t *call, const kvl_msg_head_t *head, kvl_rbuf_t *body);

static void test_fail(kvl_link_t *link, kvl_status_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void test_fail(kvl_link_t *link, kvl_status_t status, const char *format, ...)
{
    char text[KVL_LINK_TEXT];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    kvl_pair_fail(link->test.pair, status, text);
}

/* the pair passed */
static void test_end(kvl_link_t *link)
{
    kvl_pair_t *pair = link->test.pair;

    kvl_link_test_cleanup(link);
    kvl_pair_tested(pair);
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
                                                       half * test->length + at};
            at += length;
        }
        *move = (kvl_move_t){.dir         = dir,
                             .lane        = half ? KVL_LANE_SG : KVL_LANE_DATA,
                             .pieces      = pieces,
                             .piece_count = count,
                             .remote      = kvl_link_region(link, link->terms.scratch_region),
                             .scope       = 1,
                             .token       = link->terms.scratch_region,
                             .only        = link->several ? test->pair->rail + 1 : 0,
                             .done        = test_moved};
        kvl_mover_submit(link->mover, &test->flow, move);
    }
}

static void test_compare(kvl_link_t *link)
{
    kvl_selftest_state_t *test = &link->test;
    uint8_t *expected          = kvl_malloc(2 * test->length);
    bool same;

    if (!expected) {
        test_fail(link, KVL_ERR_NO_MEMORY, "out of memory");
        return;
    }
    kvl_wire_pattern(expected, 2 * test->length, test->seed);
    same = !memcmp(expected, test->memory, 2 * test->length);
    kvl_free(expected);
    if (!same) {
        test_fail(link, KVL_ERR_RAIL,
                  "self-test: a get (%s over %s) brought wrong bytes; do not use this transport "
                  "with UCX %s, or try KVLANE_MODE=message",
                  kvl_mode_name(link->get_mode), link->info.transport, kvl_ucx_version());
        return;
    }
    test->seed = ~test->seed;
    kvl_wire_pattern(test->memory, 2 * test->length, test->seed);
    test_move(link, KVL_MOVE_PUT, KVL_TEST_PUT);
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
    if (--test->moving || test->pair->state != KVL_PAIR_TESTING || link->failed ||
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

    if (hash == XXH3_64bits(test->memory, 2 * test->length)) {
        test_end(link);
        return;
    }
    /* in message mode a put is done when our memory is free, not when it arrived */
    if (link->put_mode == KVL_MODE_IS_MESSAGE && ++test->tries < HASH_TRIES) {
        kvl_timer_set(kvl_engine_timers(link->engine), &test->timer,
                      kvl_time_add(kvl_engine_now(link->engine), HASH_PAUSE), test_again);
        return;
    }
    test_fail(link, KVL_ERR_RAIL,
              "self-test: a put (%s over %s) arrived with wrong bytes; do not use this transport "
              "with UCX %s, or try KVLANE_MODE=message",
              kvl_mode_name(link->put_mode), link->info.transport, kvl_ucx_version());
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
    unsigned rail;

    test->memory = kvl_calloc(2, test->length);
    if (!test->memory) {
        return kvl_error(KVL_ERR_NO_MEMORY, "out of memory");
    }
    for (rail = 0; rail < kvl_engine_rails(link->engine); rail++) {
        kvl_status_t status = kvl_mem_create(kvl_engine_context(link->engine, rail), test->memory,
                                             2 * test->length, &test->mems[rail]);

        if (status != KVL_OK) {
            return status;
        }
    }
    return KVL_OK;
}

void kvl_link_test_start(kvl_link_t *link, kvl_pair_t *pair)
{
    kvl_selftest_state_t *test        = &link->test;
    const kvl_remote_region_t *region = kvl_link_region(link, link->terms.scratch_region);
    uint64_t length                   = link->terms.scratch_length;

    memset(test, 0, sizeof(*test));
    test->pair = pair;
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
    kvl_free(test->memory);
    test->memory = NULL;
    test->pair   = NULL;
}
