/* SPDX-License-Identifier: BSD-3-Clause */
#include "link/pair.h"

#include "base/error.h"
#include "base/log.h"
#include "link/private.h"

#include <string.h>

/* The life of a pair:
 *
 *   JOINING -> OPENING -> OPEN -> TESTING -> UP      several rails; with one: OPENING to UP
 *   any of them -> CLOSING (failed) -> LEAVING -> DOWN -> JOINING (its health says when)
 *   UP -> DRAINING -> CLOSING: the user drains its rail, and another is up; DOWN until he adds it
 *
 * What a pair that fails had under way starts over on the others (lane/rails.c); only when the last one is
 * gone does the link fail. A pair is UP when every endpoint of it was answered and the self-test moved bytes
 * both ways over it alone: so a fabric that connects and does not carry is never used.
 *
 * LEAVING ends when the peer says that nothing of the pair can touch its memory any more. Until then
 * onesided puts of others may have replaced what the pair still delivers late, so no commit is sent. */

#define ATTEMPT_MAX (3 * KVL_SECOND)

static const char *const state_names[] = {
    [KVL_PAIR_OFF] = "off",         [KVL_PAIR_DOWN] = "down",       [KVL_PAIR_JOINING] = "joining",
    [KVL_PAIR_OPENING] = "opening", [KVL_PAIR_OPEN] = "open",       [KVL_PAIR_TESTING] = "testing",
    [KVL_PAIR_UP] = "up",           [KVL_PAIR_CLOSING] = "closing", [KVL_PAIR_LEAVING] = "leaving",
    [KVL_PAIR_DRAINING] = "draining",
};

const char *kvl_pair_state_name(kvl_pair_state_t state)
{
    return state_names[state];
}

const char *kvl_pair_name(const kvl_pair_t *pair)
{
    return kvl_engine_rail_name(pair->link->engine, pair->rail);
}

/* ---- an attempt ---- */

void kvl_pair_fail(kvl_pair_t *pair, kvl_status_t status, const char *text)
{
    kvl_link_t *link = pair->link;

    if (link->pair_count == 1) {
        kvl_link_fail(link, status, "%s: %s", link->address, text);
        return;
    }
    if (!pair->failed && pair->state >= KVL_PAIR_JOINING && pair->state <= KVL_PAIR_DRAINING) {
        pair->failed = true;
        pair->status = status;
        snprintf(pair->cause, sizeof(pair->cause), "%s", text);
    }
}

static void attempt_over(kvl_timer_t *timer)
{
    kvl_pair_t *pair = kvl_container(timer, kvl_pair_t, timer);
    char text[160];

    snprintf(text, sizeof(text), "no answer over it within %d s while %s", (int)(ATTEMPT_MAX / KVL_SECOND),
             state_names[pair->state]);
    kvl_pair_fail(pair, KVL_ERR_UNREACHABLE, text);
}

static void join_answered(kvl_link_t *link, kvl_pair_t *pair, const kvl_msg_head_t *head, kvl_rbuf_t *body)
{
    kvl_wire_rail_t answer;
    kvl_status_t status = kvl_get_rail(body, &answer);
    unsigned i;

    if (status == KVL_OK && (answer.leave || answer.rail != pair->rail || answer.target != pair->target)) {
        status = kvl_error(KVL_ERR_PROTOCOL, "RAIL_OK for another rail");
    }
    for (i = 0; status == KVL_OK && i < head->count; i++) {
        kvl_wire_region_t wire;

        status = kvl_get_region(body, &wire);
        if (status == KVL_OK) {
            status = kvl_link_region_key(link, &wire, pair->rail);
        }
    }
    if (status == KVL_OK) {
        status = kvl_wire_close(body);
    }
    if (status != KVL_OK) {
        kvl_link_protocol_error(link, kvl_error_text());
        return;
    }
    status = kvl_pair_open(pair);
    if (status != KVL_OK) {
        kvl_pair_fail(pair, status, kvl_error_text());
    }
}

static bool rail_answer(kvl_call_t *call, const kvl_msg_head_t *head, kvl_rbuf_t *body)
{
    kvl_pair_t *pair = kvl_container(call, kvl_pair_t, call);
    kvl_link_t *link = pair->link;

    if (link->state != KVL_LINK_CONNECTING && link->state != KVL_LINK_UP) {
        return true;
    }
    if (pair->state == KVL_PAIR_LEAVING) {
        link->leaving--;
        pair->state = KVL_PAIR_DOWN;
        return true;
    }
    if (!body) {
        kvl_pair_fail(pair, KVL_ERR_REFUSED, kvl_error_text());
    } else if (head->type != KVL_MSG_RAIL_OK) {
        kvl_link_protocol_error(link, "another answer than RAIL_OK");
    } else {
        kvl_link_call_end(link, call);
        join_answered(link, pair, head, body);
        return false;
    }
    return true;
}

/* false: no buffer now */
static bool rail_ask(kvl_pair_t *pair, bool leave)
{
    kvl_wire_rail_t ask = {.leave  = leave,
                           .rail   = (uint8_t)pair->rail,
                           .target = (uint8_t)pair->target};
    kvl_wbuf_t *w       = kvl_link_call_begin_always(pair->link);

    if (!w) {
        return false;
    }
    snprintf(ask.name, sizeof(ask.name), "%s", kvl_pair_name(pair));
    kvl_put_rail(w, &ask);
    pair->call.answer = rail_answer;
    return kvl_link_call_send(pair->link, KVL_MSG_RAIL, &pair->call, KVL_TIME_MAX) == KVL_INPROGRESS;
}

static void pair_start(kvl_pair_t *pair)
{
    int64_t now = kvl_engine_now(pair->link->engine);

    if (!kvl_engine_rail_is_up(pair->link->engine, pair->rail)) {
        kvl_health_probe(&pair->health, now);
        kvl_health_probed(&pair->health, pair->health.probe, false, "the port is down", now);
        snprintf(pair->cause, sizeof(pair->cause), "the port is down");
        return;
    }
    pair->failed = false;
    pair->ready  = 0;
    pair->state  = KVL_PAIR_JOINING;
    pair->probe  = kvl_health_probe(&pair->health, now);
    if (kvl_timer_set(kvl_engine_timers(pair->link->engine), &pair->timer,
                      kvl_time_add(now, ATTEMPT_MAX), attempt_over) != KVL_OK ||
        !rail_ask(pair, false)) {
        kvl_pair_fail(pair, KVL_ERR_NO_MEMORY, "out of memory");
    }
}

/* its endpoints have their keys and are the mover's */
static kvl_status_t pair_equip(kvl_pair_t *pair)
{
    kvl_link_t *link    = pair->link;
    kvl_status_t status = kvl_pair_unpack(pair);

    if (status == KVL_OK) {
        kvl_mover_rail_ready(link->mover, pair->rail);
    }
    return status;
}

void kvl_pair_tested(kvl_pair_t *pair)
{
    kvl_link_t *link = pair->link;
    int64_t now      = kvl_engine_now(link->engine);

    kvl_timer_cancel(kvl_engine_timers(link->engine), &pair->timer);
    pair->state = KVL_PAIR_UP;
    pair->ups++;
    pair->cause[0] = '\0';
    if (link->pair_count > 1) {
        kvl_mover_rail_on(link->mover, pair->rail);
    }
    if (link->several) {
        kvl_health_probed(&pair->health, pair->probe, true, "its self-test passed", now);
        kvl_info("link %s: rail %s to %s: up", link->address, kvl_pair_name(pair), pair->target_name);
    }
}

/* ---- failing ---- */

static void pair_shut(kvl_pair_t *pair)
{
    kvl_link_t *link = pair->link;
    unsigned i;

    kvl_timer_cancel(kvl_engine_timers(link->engine), &pair->timer);
    if (link->mover) {
        kvl_mover_rail_off(link->mover, pair->rail);
    }
    for (i = 0; i <= link->terms.sg_endpoints; i++) {
        kvl_line_t *line = &link->lines[pair->first + i];

        if (line->endpoint.ep) {
            kvl_line_close(line);
        }
    }
    pair->state = KVL_PAIR_CLOSING;
}

static void pair_close(kvl_pair_t *pair)
{
    kvl_link_t *link = pair->link;
    int64_t now      = kvl_engine_now(link->engine);

    kvl_warn("link %s: rail %s to %s: %s", link->address, kvl_pair_name(pair), pair->target_name,
             pair->cause);
    kvl_link_call_end(link, &pair->call);
    pair->fails++;
    pair->failed = false;
    if (pair->state >= KVL_PAIR_UP) {
        kvl_health_on(&pair->health, KVL_HEALTH_LINK_DOWN, pair->cause, now);
    } else {
        kvl_health_probed(&pair->health, pair->probe, false, pair->cause, now);
    }
    pair_shut(pair);
}

/* ---- draining ---- */

static bool pair_is_drained(const kvl_pair_t *pair)
{
    return kvl_engine_rail_is_drained(pair->link->engine, pair->rail);
}

static bool others_are_up(const kvl_pair_t *pair)
{
    const kvl_link_t *link = pair->link;
    unsigned i;

    for (i = 0; i < link->pair_count; i++) {
        if (&link->pairs[i] != pair && link->pairs[i].state == KVL_PAIR_UP && !link->pairs[i].failed) {
            return true;
        }
    }
    return false;
}

/* UP: the user drains it, and it is not the only one */
static unsigned pair_drain(kvl_pair_t *pair)
{
    kvl_link_t *link = pair->link;

    if (link->state != KVL_LINK_UP || !pair_is_drained(pair) || !others_are_up(pair)) {
        return 0;
    }
    kvl_info("link %s: rail %s to %s: drains", link->address, kvl_pair_name(pair), pair->target_name);
    pair->state = KVL_PAIR_DRAINING;
    kvl_mover_rail_drain(link->mover, pair->rail);
    if (link->lines[0].endpoint.rail == pair->rail) {
        kvl_ctrl_lost(link, KVL_ERR_PEER, "the rail drains");
    }
    return 1;
}

static unsigned pair_drains(kvl_pair_t *pair)
{
    kvl_link_t *link = pair->link;

    if (!pair_is_drained(pair) || !others_are_up(pair)) { /* on second thoughts */
        pair->state = KVL_PAIR_UP;
        kvl_mover_rail_on(link->mover, pair->rail);
        return 1;
    }
    if (!kvl_mover_rail_quiet(link->mover, pair->rail)) {
        return 0;
    }
    snprintf(pair->cause, sizeof(pair->cause), "drained");
    kvl_health_on(&pair->health, KVL_HEALTH_DRAIN, pair->cause, kvl_engine_now(link->engine));
    pair_shut(pair);
    return 1;
}

static bool pair_is_quiet(const kvl_pair_t *pair)
{
    const kvl_link_t *link = pair->link;
    unsigned i;

    for (i = 0; i <= link->terms.sg_endpoints; i++) {
        const kvl_line_t *line = &link->lines[pair->first + i];

        if (line->endpoint.ep && (!line->closed || kvl_ep_pending(line->endpoint.ep))) {
            return false;
        }
    }
    return (!link->mover || kvl_mover_rail_idle(link->mover, pair->rail)) &&
           (link->test.pair != pair || !link->test.moving);
}

static unsigned pair_leave(kvl_pair_t *pair)
{
    kvl_link_t *link = pair->link;
    unsigned i;

    if (!pair_is_quiet(pair)) {
        return 0;
    }
    if (link->test.pair == pair) {
        kvl_link_test_cleanup(link);
    }
    for (i = 0; i <= link->terms.sg_endpoints; i++) {
        kvl_line_t *line = &link->lines[pair->first + i];

        kvl_ep_destroy(line->endpoint.ep);
        line->endpoint.ep = NULL;
        line->ready = line->closing = line->closed = false;
    }
    if (!rail_ask(pair, true)) {
        return 0; /* the next turn */
    }
    link->leaving++;
    pair->state = KVL_PAIR_LEAVING;
    return 1;
}

/* ---- the poller ---- */

static void wake(kvl_timer_t *timer)
{
    (void)timer;
}

static unsigned pair_wait(kvl_pair_t *pair)
{
    kvl_link_t *link     = pair->link;
    int64_t now          = kvl_engine_now(link->engine);
    kvl_timers_t *timers = kvl_engine_timers(link->engine);

    if (link->state != KVL_LINK_UP) {
        return 0;
    }
    kvl_health_on(&pair->health, pair_is_drained(pair) ? KVL_HEALTH_DRAIN : KVL_HEALTH_ADD, "by the user", now);
    if (kvl_health_due(&pair->health, now)) {
        pair_start(pair);
        return 1;
    }
    if (!kvl_timer_armed(&pair->timer)) {
        (void)kvl_timer_set(timers, &pair->timer, kvl_health_next_ns(&pair->health), wake);
    }
    return 0;
}

/* one that comes back while others work */
static unsigned pair_return(kvl_pair_t *pair)
{
    kvl_link_t *link = pair->link;

    if (link->state != KVL_LINK_UP || link->test.pair) {
        return 0;
    }
    if (!kvl_pair_fits(pair) || pair_equip(pair) != KVL_OK) {
        kvl_pair_fail(pair, KVL_ERR_RAIL, kvl_error_text());
        return 1;
    }
    pair->state = KVL_PAIR_TESTING;
    kvl_link_test_start(link, pair);
    return 1;
}

static unsigned pair_step(kvl_pair_t *pair)
{
    if (pair->failed) {
        pair_close(pair);
        return 1;
    }
    switch (pair->state) {
    case KVL_PAIR_DOWN:
        return pair_wait(pair);
    case KVL_PAIR_UP:
        return pair_drain(pair);
    case KVL_PAIR_DRAINING:
        return pair_drains(pair);
    case KVL_PAIR_OPEN:
        return pair_return(pair);
    case KVL_PAIR_CLOSING:
        return pair_leave(pair);
    default:
        return 0;
    }
}

unsigned kvl_pairs_step(kvl_link_t *link)
{
    unsigned i, n = 0, alive = 0;

    for (i = 0; i < link->pair_count; i++) {
        n += pair_step(&link->pairs[i]);
        alive += link->pairs[i].state == KVL_PAIR_UP || link->pairs[i].state == KVL_PAIR_DRAINING;
    }
    if (link->several && link->state == KVL_LINK_UP && !alive) {
        kvl_link_fail(link, KVL_ERR_PEER, "%s: no rail is left (%s)", link->address, kvl_pairs_cause(link));
    }
    return n;
}

const char *kvl_pairs_cause(const kvl_link_t *link)
{
    unsigned i;

    for (i = 0; i < link->pair_count; i++) {
        if (link->pairs[i].cause[0]) {
            return link->pairs[i].cause;
        }
    }
    return "no rails";
}

/* ---- with the link ---- */

static void health_init(kvl_pair_t *pair)
{
    const kvl_settings_t *settings = kvl_engine_settings(pair->link->engine);
    kvl_health_params_t params     = {.window_ns        = KVL_SECOND,
                                      .calm_ns          = 10 * KVL_SECOND,
                                      .probe_timeout_ns = 2 * ATTEMPT_MAX,
                                      .backoff_min_ns   = settings->backoff_min_ns,
                                      .backoff_max_ns   = settings->backoff_max_ns,
                                      .seed             = pair->link->seed + pair->rail};
    int64_t now = kvl_engine_now(pair->link->engine);

    kvl_health_init(&pair->health, &params, now);
    kvl_health_on(&pair->health, KVL_HEALTH_LINK_DOWN, "not tried yet", now);
}

void kvl_pairs_start(kvl_link_t *link)
{
    unsigned i;

    for (i = 0; i < link->pair_count; i++) {
        kvl_pair_t *pair = &link->pairs[i];

        health_init(pair);
        if (pair->state == KVL_PAIR_DOWN && !pair_is_drained(pair)) {
            pair_start(pair);
        }
    }
}

void kvl_pairs_end(kvl_link_t *link)
{
    unsigned i;

    for (i = 0; i < link->pair_count; i++) {
        kvl_timer_cancel(kvl_engine_timers(link->engine), &link->pairs[i].timer);
        link->pairs[i].state  = KVL_PAIR_OFF;
        link->pairs[i].failed = false;
    }
    link->leaving = 0;
}
