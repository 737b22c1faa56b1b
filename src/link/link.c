/* SPDX-License-Identifier: BSD-3-Clause */
#include "link/link.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "link/private.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* A link's life. States and moves:
 *
 *   IDLE -> CONNECTING (want) -> UP (self-test passed) -> RESETTING (failure, reset, close)
 *   CONNECTING -> RESETTING (refused, unreachable, timeout)
 *   RESETTING -> IDLE (a reset of our own) | DOWN (a fault: backoff) | CLOSED (close)
 *   DOWN -> CONNECTING (timer)
 *
 * Callbacks of UCX only note what happened (failed, up_due); the poller acts on it between two
 * progress calls, since endpoints may not be closed from callbacks. RESETTING ends when every
 * request of every endpoint is back: only then the caller's memory is quiet (promise 3). */

static const char *const state_names[] = {
    [KVL_LINK_IDLE] = "idle",           [KVL_LINK_CONNECTING] = "connecting",
    [KVL_LINK_UP] = "up",               [KVL_LINK_RESETTING] = "resetting",
    [KVL_LINK_DOWN] = "down",           [KVL_LINK_CLOSED] = "closed",
};

const char *kvl_link_state_name(kvl_link_state_t state)
{
    return state_names[state];
}

void kvl_link_fail(kvl_link_t *link, kvl_status_t status, const char *format, ...)
{
    va_list args;

    if (link->failed || (link->state != KVL_LINK_CONNECTING && link->state != KVL_LINK_UP)) {
        return; /* the first cause counts */
    }
    va_start(args, format);
    vsnprintf(link->cause, sizeof(link->cause), format, args);
    va_end(args);
    link->failed = true;
    link->status = status;
}

/* ---- what endpoints tell ---- */

static kvl_status_t link_am(kvl_endpoint_t *endpoint, const kvl_am_t *am)
{
    kvl_link_t *link = endpoint->owner;
    kvl_data_head_t head;

    if (link->state != KVL_LINK_CONNECTING && link->state != KVL_LINK_UP) {
        return KVL_OK;
    }
    switch (am->id) {
    case KVL_AM_CTRL:
        if (endpoint->lane == KVL_LANE_CTRL) {
            kvl_ctrl_heard(link, am);
            return KVL_OK;
        }
        break;
    case KVL_AM_EP_HELLO:
        if (endpoint->lane != KVL_LANE_CTRL) {
            kvl_link_endpoint_ready(link, endpoint, am);
            return KVL_OK;
        }
        break;
    case KVL_AM_GET_REPLY:
        if (endpoint->lane != KVL_LANE_CTRL && link->mover &&
            kvl_get_data_head(am->header, am->header_length, &head) == KVL_OK &&
            head.kind == KVL_AM_GET_REPLY) {
            kvl_status_t status = kvl_mover_reply(link->mover, endpoint, &head, am);

            if (status < 0) {
                kvl_link_protocol_error(link, kvl_error_text());
                return KVL_OK;
            }
            return status;
        }
        break;
    default:
        break;
    }
    kvl_link_protocol_error(link, "an active message that no node sends");
    return KVL_OK;
}

/* Promise 7: a peer that "went away" may have gone with our own port. Who closes first, the connection
 * manager or the device, is chance; what the system says of the port is not. */
static kvl_status_t link_blame(const kvl_link_t *link, unsigned rail, kvl_status_t status)
{
    kvl_evidence_t evidence = {.status = status == KVL_ERR_CANCELED ? KVL_ERR_PEER : status,
                               .link   = KVL_PORT_UP};

    if (!kvl_engine_rail_is_up(link->engine, rail) ||
        !kvl_engine_device_is_up(link->engine, link->pairs[rail].info.device)) {
        evidence.link = KVL_PORT_DOWN;
    }
    return kvl_blame(&evidence) == KVL_BLAME_RAIL ? KVL_ERR_RAIL : evidence.status;
}

static void link_ep_failed(kvl_endpoint_t *endpoint, kvl_status_t status)
{
    kvl_link_t *link = endpoint->owner;
    char text[160];

    endpoint->failed = true;
    if (link->state == KVL_LINK_CONNECTING && link->stage == KVL_STAGE_HELLO) {
        kvl_link_fail(link, status == KVL_ERR_REFUSED ? status : KVL_ERR_UNREACHABLE,
                      "%s: cannot connect (%s); is a node running there?", link->address,
                      kvl_status_string(status));
        return;
    }
    status = link_blame(link, endpoint->rail, status);
    snprintf(text, sizeof(text), "connection lost on endpoint %s %u (%s)", kvl_lane_name(endpoint->lane),
             endpoint->index, kvl_status_string(status));
    if (endpoint->lane == KVL_LANE_CTRL) {
        kvl_ctrl_lost(link, status, text);
    } else {
        kvl_pair_fail(&link->pairs[endpoint->rail], status, text);
    }
}

const kvl_endpoint_ops_t kvl_link_endpoint_ops = {
    .am     = link_am,        /* engine thread, in progress; must not block or close */
    .failed = link_ep_failed, /* engine thread, in progress; only notes it */
};

/* ---- reset ---- */

static void line_closed(kvl_req_t *req, kvl_status_t status)
{
    (void)status; /* the endpoint is gone either way */
    kvl_container(req, kvl_line_t, close_req)->closed = true;
}

void kvl_line_close(kvl_line_t *line)
{
    unsigned i;

    for (i = 0; i < line->endpoint.rkey_count; i++) {
        kvl_rkey_destroy(line->endpoint.rkeys[i]);
    }
    line->endpoint.rkey_count = 0;
    line->endpoint.failed     = true;
    line->closing             = true;
    line->close_req.done      = line_closed;
    if (!line->endpoint.ep ||
        kvl_ep_close(line->endpoint.ep, true, &line->close_req) != KVL_INPROGRESS) {
        line->closed = true;
    }
}

static void link_begin_reset(kvl_link_t *link)
{
    unsigned i;

    if (link->status == KVL_ERR_CANCELED) {
        kvl_info("link %s: resets: %s", link->address, link->cause);
    } else if (link->status != KVL_OK && !link->attempts) {
        kvl_warn("link: %s", link->cause);
    }
    if (!link->several && link->status != KVL_ERR_CANCELED && link->pairs[0].state == KVL_PAIR_UP) {
        link->pairs[0].fails++; /* pair.c counts those of several */
    }
    link->failed = link->up_due = false;
    link->state  = KVL_LINK_RESETTING;
    kvl_fill_stop(&link->fill);
    link->resets++;
    kvl_timer_cancel(kvl_engine_timers(link->engine), &link->timer);
    if (link->mover) {
        kvl_mover_stop(link->mover, link->status == KVL_OK ? KVL_ERR_CANCELED : link->status);
    }
    for (i = 0; i < link->line_count; i++) {
        if (!link->lines[i].closing) {
            kvl_line_close(&link->lines[i]);
        }
    }
    kvl_timer_cancel(kvl_engine_timers(link->engine), &link->watch_timer);
    kvl_ctrl_end(link);
}

static bool link_is_quiet(kvl_link_t *link)
{
    kvl_mover_stats_t stats = {0};
    unsigned i;

    for (i = 0; i < link->line_count; i++) {
        kvl_line_t *line = &link->lines[i];

        if (!line->closed || (line->endpoint.ep && kvl_ep_pending(line->endpoint.ep))) {
            return false;
        }
    }
    if (link->mover) {
        kvl_mover_stats(link->mover, &stats);
        if (!kvl_mover_idle(link->mover) || stats.active || stats.queued) {
            return false;
        }
    }
    return kvl_list_empty(&link->calls) && !link->pool.busy_count;
}

static void link_free_lines(kvl_link_t *link)
{
    unsigned i;

    for (i = 0; i < link->line_count; i++) {
        kvl_link_keep_line(link, &link->lines[i]);
        kvl_ep_destroy(link->lines[i].endpoint.ep);
        kvl_free(link->lines[i].endpoint.rkeys);
    }
    kvl_free(link->lines);
    link->lines      = NULL;
    link->line_count = 0;
}

/* the peer may free what it held back for this session: nothing of it can write any more */
static void link_retire(kvl_link_t *link)
{
    if (!link->terms.session) {
        return;
    }
    if (link->retired_count == sizeof(link->retired) / sizeof(link->retired[0])) {
        memmove(link->retired, link->retired + 1, sizeof(link->retired) - sizeof(link->retired[0]));
        link->retired_count--;
    }
    link->retired[link->retired_count++] = link->terms.session;
    link->terms.session                  = 0;
}

static void link_timer(kvl_timer_t *timer)
{
    kvl_link_start(kvl_container(timer, kvl_link_t, timer)); /* a failure comes back by down() */
}

/* doubles from min to max; up to half of it is jitter, so that clients do not come in step */
static void link_back_off(kvl_link_t *link)
{
    const kvl_settings_t *settings = kvl_engine_settings(link->engine);
    int64_t pause                  = settings->backoff_min_ns;
    unsigned i;

    for (i = 0; i < link->attempts && pause < settings->backoff_max_ns; i++) {
        pause *= 2;
    }
    if (pause > settings->backoff_max_ns) {
        pause = settings->backoff_max_ns;
    }
    pause = pause / 2 + (int64_t)((double)rand_r(&link->seed) / RAND_MAX * (double)(pause / 2));
    link->attempts++;
    link->state = KVL_LINK_DOWN;
    if (kvl_timer_set(kvl_engine_timers(link->engine), &link->timer,
                      kvl_time_add(kvl_engine_now(link->engine), pause), link_timer) != KVL_OK) {
        link->state = KVL_LINK_IDLE; /* no timer: the next batch tries again */
    }
}

static void link_end_reset(kvl_link_t *link)
{
    kvl_status_t status = link->status;

    kvl_link_test_cleanup(link);
    kvl_pairs_end(link);
    link_free_lines(link);
    kvl_link_drop_regions(link);
    kvl_link_keep_retries(link);
    kvl_mover_destroy(link->mover);
    link->mover        = NULL;
    link->devices_seen = 0;
    link->stage        = KVL_STAGE_NONE;
    link_retire(link);
    if (link->want_close) {
        link->state = KVL_LINK_CLOSED;
        kvl_engine_remove_poller(link->engine, &link->poller);
        kvl_engine_remove_printer(link->engine, &link->printer);
        link->closed(link, link->closed_arg);
        return;
    }
    if (status == KVL_ERR_CANCELED) {
        link->state = KVL_LINK_IDLE;
    } else {
        link_back_off(link);
    }
    link->ops->down(link, status, link->cause, link->arg);
}

void kvl_link_renew(kvl_link_t *link)
{
    kvl_link_fail(link, KVL_ERR_RAIL, "%s: a lane of this engine is stuck and starts anew", link->address);
}

static unsigned link_poll(kvl_poller_t *poller)
{
    kvl_link_t *link = kvl_container(poller, kvl_link_t, poller);
    unsigned n       = 0;

    if (kvl_engine_is_renewing(link->engine) &&
        (link->state == KVL_LINK_UP || link->state == KVL_LINK_CONNECTING)) {
        kvl_link_renew(link);
    }
    if (link->mover) {
        n += kvl_mover_pump(link->mover);
    }
    if (link->state == KVL_LINK_UP && !link->failed &&
        link->devices_seen != kvl_engine_device_count(link->engine)) {
        n += kvl_link_test_devices(link);
    }
    if (link->several && !link->failed &&
        (link->state == KVL_LINK_CONNECTING || link->state == KVL_LINK_UP)) {
        n += kvl_pairs_step(link) + kvl_ctrl_step(link);
    }
    if (link->state == KVL_LINK_CONNECTING && !link->failed) {
        kvl_link_handshake_step(link);
    }
    if (link->failed) {
        link_begin_reset(link);
        n++;
    }
    if (link->state == KVL_LINK_RESETTING) {
        n += kvl_link_calls_fail(link, link->status == KVL_OK ? KVL_ERR_CANCELED : link->status);
        if (link_is_quiet(link)) {
            link_end_reset(link);
            return n + 1;
        }
    } else if (link->up_due) {
        link->up_due = false;
        link->ops->up(link, link->arg);
        n++;
    }
    return n;
}

void kvl_link_set_up(kvl_link_t *link)
{
    kvl_timer_cancel(kvl_engine_timers(link->engine), &link->timer);
    link->state    = KVL_LINK_UP;
    link->stage    = KVL_STAGE_DONE;
    link->attempts = 0;
    link->up_due   = true;
    link->connects++;
    link->retired_count = 0; /* the peer heard of them in HELLO */
    kvl_link_prefault(link);
    if (link->several) {
        kvl_link_watch(link);
    }
    kvl_info("link %s: up: put %s, get %s over %s, depth %u, %u sg endpoints", link->address,
             kvl_mode_name(link->put_mode), kvl_mode_name(link->get_mode), link->info.transport,
             link->terms.depth, link->terms.sg_endpoints);
}

/* ---- public ---- */

kvl_status_t kvl_link_create(const kvl_link_params_t *params, kvl_link_t **link_p)
{
    kvl_link_t *link = kvl_calloc(1, sizeof(*link));
    kvl_status_t status;

    if (!link) {
        return kvl_error(KVL_ERR_NO_MEMORY, "link: out of memory");
    }
    status = kvl_addr_parse(params->address, &link->addr);
    if (status == KVL_OK && !(link->address = kvl_strdup(params->address))) {
        status = kvl_error(KVL_ERR_NO_MEMORY, "link: out of memory");
    }
    if (status != KVL_OK) {
        kvl_free(link);
        return status;
    }
    link->engine       = params->engine;
    link->transport    = params->transport;
    link->ops          = params->ops;
    link->arg          = params->arg;
    link->home_rail    = kvl_engine_rail_to(link->engine, &link->addr);
    link->seed         = (unsigned)(kvl_engine_nonce(link->engine) >> 8) ^ (unsigned)kvl_now_ns();
    link->poller.func  = link_poll;
    link->printer.func = kvl_link_print;
    kvl_list_init(&link->calls);
    kvl_stream_init(&link->ctrl.stream);
    kvl_sendpool_init(&link->pool, 1024);
    kvl_engine_add_poller(link->engine, &link->poller);
    kvl_engine_add_printer(link->engine, &link->printer);
    *link_p = link;
    return KVL_OK;
}

void kvl_link_close(kvl_link_t *link, void (*closed)(kvl_link_t *link, void *arg), void *arg)
{
    if (link->want_close) {
        return;
    }
    link->want_close = true;
    link->closed     = closed;
    link->closed_arg = arg;
    if (link->state == KVL_LINK_UP) {
        kvl_link_say_bye(link);
        return;
    }
    kvl_timer_cancel(kvl_engine_timers(link->engine), &link->timer);
    link->status = KVL_OK;
    if (link->state != KVL_LINK_RESETTING) {
        link->failed = true; /* the poller ends it */
    }
}

void kvl_link_destroy(kvl_link_t *link)
{
    if (!link) {
        return;
    }
    if (link->state != KVL_LINK_CLOSED) { /* never opened */
        kvl_timer_cancel(kvl_engine_timers(link->engine), &link->timer);
        kvl_engine_remove_poller(link->engine, &link->poller);
        kvl_engine_remove_printer(link->engine, &link->printer);
    }
    kvl_sendpool_cleanup(&link->pool);
    kvl_free(link->regions);
    kvl_free(link->address);
    kvl_free(link);
}

kvl_link_state_t kvl_link_state(const kvl_link_t *link)
{
    return link->state;
}

kvl_status_t kvl_link_want(kvl_link_t *link)
{
    if (link->want_close) {
        return kvl_error(KVL_ERR_CLOSED, "link %s: it is being closed", link->address);
    }
    switch (link->state) {
    case KVL_LINK_UP:
        return link->failed ? KVL_INPROGRESS : KVL_OK; /* failed: down() comes at the next turn */
    case KVL_LINK_IDLE:
        kvl_link_start(link);
        return KVL_INPROGRESS;
    case KVL_LINK_CONNECTING:
    case KVL_LINK_RESETTING:
        return KVL_INPROGRESS;
    default:
        return kvl_error(link->status == KVL_ERR_REFUSED ? KVL_ERR_REFUSED : KVL_ERR_UNREACHABLE,
                         "%s (trying again by itself)", link->cause);
    }
}

const char *kvl_link_cause(const kvl_link_t *link)
{
    return link->cause;
}

const char *kvl_link_address(const kvl_link_t *link)
{
    return link->address;
}

const kvl_hello_ok_t *kvl_link_terms(const kvl_link_t *link)
{
    return &link->terms;
}

kvl_mover_t *kvl_link_mover(kvl_link_t *link)
{
    return link->mover;
}

void kvl_link_info(const kvl_link_t *link, char transport[64], kvl_mode_t *put_p, kvl_mode_t *get_p)
{
    snprintf(transport, 64, "%s", link->info.transport);
    *put_p = link->put_mode;
    *get_p = link->get_mode;
}

void kvl_link_protocol_error(kvl_link_t *link, const char *what)
{
    link->protocol_errors++;
    kvl_link_fail(link, KVL_ERR_PROTOCOL, "%s: the peer makes no sense: %s", link->address, what);
}

void kvl_link_reset(kvl_link_t *link, const char *why)
{
    kvl_link_fail(link, KVL_ERR_CANCELED, "%s", why);
}
