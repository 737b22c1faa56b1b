/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/alloc.h"
#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "engine/process.h"
#include "link/private.h"

#include <string.h>
#include <unistd.h>

/* From nothing to a session: ctrl endpoint, HELLO, regions; then data and sg endpoints, each of which
 * introduces itself (EP_HELLO) because connections are accepted in any order. What comes then: establish.c. */

#define BYE_TIMEOUT KVL_SECOND

void kvl_line_init(kvl_link_t *link, kvl_line_t *line, kvl_lane_kind_t lane, unsigned rail, unsigned index)
{
    kvl_endpoint_t *endpoint = &line->endpoint;

    endpoint->lane  = lane;
    endpoint->rail  = rail;
    endpoint->index = index;
    endpoint->ops   = &kvl_link_endpoint_ops;
    endpoint->owner = link;
}

/* else UCX fails later, and the peer would be blamed */
static kvl_status_t files_check(unsigned endpoints)
{
    char limit[64];

    if (kvl_ucx_has_files(endpoints)) {
        return KVL_OK;
    }
    kvl_files_limit(limit, sizeof(limit));
    return kvl_error(KVL_ERR_LIMIT, "no files are left for %u connections in this process (%s); raise it",
                     endpoints, limit);
}

kvl_status_t kvl_line_open(kvl_link_t *link, kvl_line_t *line, const kvl_addr_t *addr)
{
    kvl_endpoint_t *endpoint = &line->endpoint;
    kvl_ep_params_t params   = {.worker = kvl_engine_worker(link->engine, endpoint->rail, endpoint->lane),
                                .failed = kvl_endpoint_failed,
                                .arg    = endpoint};

    return kvl_ep_connect(&params, addr, &endpoint->ep);
}

static uint8_t mode_on_wire(kvl_mode_policy_t mode)
{
    return (uint8_t)mode;
}

static void hello_fill(const kvl_link_t *link, kvl_hello_t *hello)
{
    const kvl_settings_t *settings = kvl_engine_settings(link->engine);
    unsigned data_depth            = settings->data_depth ? settings->data_depth : settings->depth;

    *hello = (kvl_hello_t){.version_min   = KVL_WIRE_VERSION_MIN,
                           .version_max   = KVL_WIRE_VERSION,
                           .nonce         = kvl_engine_nonce(link->engine),
                           .depth         = (uint16_t)settings->depth,
                           .sg_endpoints  = (uint16_t)settings->sg_endpoints,
                           .data_depth    = (uint16_t)data_depth,
                           .mode          = mode_on_wire(settings->mode),
                           .transport     = link->transport,
                           .inline_max    = (uint32_t)settings->inline_max,
                           .retired_count = (uint16_t)link->retired_count};
    memcpy(hello->retired, link->retired, sizeof(hello->retired[0]) * link->retired_count);
    kvl_process_identity(hello);
}

static kvl_status_t terms_check(kvl_link_t *link)
{
    const kvl_settings_t *settings = kvl_engine_settings(link->engine);
    kvl_hello_ok_t *terms          = &link->terms;
    unsigned data_depth            = settings->data_depth ? settings->data_depth : settings->depth;

    if (!terms->depth || terms->depth > settings->depth || !terms->sg_endpoints ||
        terms->sg_endpoints > settings->sg_endpoints || !terms->data_depth ||
        terms->data_depth > data_depth || terms->inline_max > settings->inline_max ||
        !terms->session || terms->chunk_bytes < 4096) {
        return kvl_error(KVL_ERR_PROTOCOL, "HELLO_OK with terms that were not offered");
    }
    return KVL_OK;
}

static kvl_status_t hello_read(kvl_link_t *link, const kvl_msg_head_t *head, kvl_rbuf_t *body)
{
    kvl_status_t status = kvl_get_hello_ok(body, &link->terms);

    if (status == KVL_OK) {
        status = terms_check(link);
    }
    if (status == KVL_OK) {
        status = kvl_link_regions_read(link, body, head->count);
    }
    if (status == KVL_OK) {
        status = kvl_get_peer_rails(body, link->peer_rails, &link->peer_rail_count);
    }
    return status == KVL_OK ? kvl_wire_close(body) : status;
}

static bool hello_answer(kvl_call_t *call, const kvl_msg_head_t *head, kvl_rbuf_t *body)
{
    kvl_link_t *link = kvl_container(call, kvl_link_t, hello);

    if (!body) {
        if (head->status == KVL_ERR_REFUSED || head->status == KVL_ERR_VERSION ||
            kvl_status_group((kvl_status_t)head->status) == KVL_GROUP_BATCH) {
            kvl_link_fail(link, KVL_ERR_REFUSED, "refused by %s", kvl_error_text());
        } else {
            kvl_link_fail(link, KVL_ERR_UNREACHABLE, "%s: HELLO failed (%s)", link->address,
                          kvl_status_string((kvl_status_t)head->status));
        }
        return true;
    }
    if (head->type != KVL_MSG_HELLO_OK || hello_read(link, head, body) != KVL_OK) {
        link->terms.session = 0;
        kvl_link_protocol_error(link, head->type == KVL_MSG_HELLO_OK ? kvl_error_text()
                                                                     : "another answer than HELLO_OK");
        return true;
    }
    link->stage = KVL_STAGE_ENDPOINTS;
    return true;
}

static kvl_status_t hello_send(kvl_link_t *link)
{
    kvl_hello_t hello;
    kvl_wbuf_t *w = kvl_link_call_begin(link);

    if (!w) {
        return KVL_ERR_NO_MEMORY;
    }
    hello_fill(link, &hello);
    kvl_put_hello(w, &hello);
    link->hello.answer = hello_answer;
    return kvl_link_call_send(link, KVL_MSG_HELLO, &link->hello, KVL_TIME_MAX);
}

static void attempt_timer(kvl_timer_t *timer)
{
    kvl_link_t *link = kvl_container(timer, kvl_link_t, timer);

    kvl_link_fail(link, KVL_ERR_UNREACHABLE, "%s: no session within KVLANE_CONNECT_TIMEOUT (%s)",
                  link->address,
                  link->stage == KVL_STAGE_HELLO       ? "no answer to HELLO"
                  : link->stage == KVL_STAGE_ENDPOINTS ? "not all endpoints came up"
                                                       : "the self-test did not end");
}

/* To the given address; if our rail to it is down, to one of the peer's others that the last session told
 * of. */
static kvl_addr_t ctrl_way(const kvl_link_t *link, unsigned *rail_p)
{
    unsigned i;

    *rail_p = link->home_rail;
    if (kvl_engine_rails(link->engine) == 1 || kvl_engine_rail_is_up(link->engine, *rail_p)) {
        return link->addr;
    }
    for (i = 0; i < link->pair_count; i++) {
        if (link->pairs[i].addr.length && kvl_engine_rail_is_up(link->engine, i)) {
            *rail_p = i;
            return link->pairs[i].addr;
        }
    }
    return link->addr;
}

static kvl_status_t start_ctrl(kvl_link_t *link)
{
    int64_t end = kvl_time_add(kvl_engine_now(link->engine),
                               kvl_engine_settings(link->engine)->connect_timeout_ns);
    kvl_status_t status = files_check(1);

    if (status != KVL_OK) {
        return status;
    }
    link->lines = kvl_calloc(1, sizeof(*link->lines));
    if (!link->lines) {
        return kvl_error(KVL_ERR_NO_MEMORY, "link %s: out of memory", link->address);
    }
    link->line_count = 1;
    status = kvl_timer_set(kvl_engine_timers(link->engine), &link->timer, end, attempt_timer);
    if (status == KVL_OK) {
        kvl_addr_t addr;
        unsigned rail;

        addr = ctrl_way(link, &rail);
        kvl_line_init(link, &link->lines[0], KVL_LANE_CTRL, rail, 0);
        status = kvl_line_open(link, &link->lines[0], &addr);
    }
    return status == KVL_OK ? hello_send(link) : status;
}

void kvl_link_start(kvl_link_t *link)
{
    kvl_status_t status;

    link->cause[0] = '\0';
    link->state    = KVL_LINK_CONNECTING;
    link->stage    = KVL_STAGE_HELLO;
    link->failed   = false;
    if (kvl_engine_is_renewing(link->engine)) {
        kvl_link_renew(link);
        return;
    }
    status = start_ctrl(link);
    if (status < 0) { /* down() follows from the poller */
        kvl_link_fail(link, kvl_status_group(status) == KVL_GROUP_BATCH ? status : KVL_ERR_UNREACHABLE,
                      "%s: %s", link->address, kvl_error_text());
    }
}

/* ---- data and sg endpoints ---- */

static kvl_status_t ep_hello_send(kvl_link_t *link, kvl_line_t *line)
{
    kvl_ep_hello_t hello = {.session = link->terms.session,
                            .lane    = (uint8_t)line->endpoint.lane,
                            .index   = (uint16_t)line->endpoint.index};
    kvl_sendbuf_t *buf   = kvl_sendbuf_get(&link->pool, KVL_WIRE_MAX);
    kvl_status_t status;

    if (!buf) {
        return kvl_error(KVL_ERR_NO_MEMORY, "link %s: out of memory", link->address);
    }
    kvl_put_ep_hello(&buf->writer, &hello);
    status = kvl_sendbuf_send(buf, &line->endpoint, KVL_AM_EP_HELLO, KVL_MSG_EP_HELLO,
                              ++link->last_request, KVL_OK);
    return status < 0 ? status : KVL_OK;
}

/* lines for all pairs, also for those that cannot be used now */
static kvl_status_t lines_make(kvl_link_t *link)
{
    unsigned endpoints = 1u + link->terms.sg_endpoints, i;
    unsigned count     = 1u + link->pair_count * endpoints;
    kvl_line_t *lines  = kvl_calloc(count, sizeof(*lines));

    if (!lines) {
        return kvl_error(KVL_ERR_NO_MEMORY, "link %s: out of memory", link->address);
    }
    /* the ctrl endpoint moves: tell UCX its new place before anything can arrive on it */
    lines[0] = link->lines[0];
    kvl_ep_set_arg(lines[0].endpoint.ep, &lines[0].endpoint);
    kvl_free(link->lines);
    link->lines      = lines;
    link->line_count = count;
    for (i = 1; i < count; i++) {
        unsigned index = (i - 1) % endpoints;

        kvl_line_init(link, &lines[i], index ? KVL_LANE_SG : KVL_LANE_DATA, (i - 1) / endpoints,
                  index ? index - 1 : 0);
    }
    return KVL_OK;
}

kvl_status_t kvl_pair_open(kvl_pair_t *pair)
{
    kvl_link_t *link    = pair->link;
    kvl_status_t status;
    unsigned i;

    pair->state = KVL_PAIR_OPENING;
    status      = files_check(1u + link->terms.sg_endpoints);
    for (i = 0; status == KVL_OK && i <= link->terms.sg_endpoints; i++) {
        status = kvl_line_open(link, &link->lines[pair->first + i], &pair->addr);
        if (status == KVL_OK) {
            status = ep_hello_send(link, &link->lines[pair->first + i]);
        }
    }
    return status;
}

kvl_status_t kvl_pairs_open(kvl_link_t *link)
{
    kvl_status_t status = kvl_pairs_make(link);

    if (status == KVL_OK) {
        status = lines_make(link);
    }
    if (status == KVL_OK && link->several) {
        kvl_pairs_start(link);
    } else if (status == KVL_OK) {
        status = kvl_pair_open(&link->pairs[0]);
    }
    return status;
}

/* the answer to an echo (lane/rails.c) */
static void endpoint_echoed(kvl_link_t *link, kvl_endpoint_t *endpoint, const kvl_msg_head_t *head)
{
    if (!link->mover || kvl_mover_echoed(link->mover, endpoint, head->request) != KVL_OK) {
        kvl_link_protocol_error(link, "a PONG that nobody waits for");
    }
}

void kvl_link_endpoint_ready(kvl_link_t *link, kvl_endpoint_t *endpoint, const kvl_am_t *am)
{
    kvl_line_t *line = kvl_container(endpoint, kvl_line_t, endpoint);
    kvl_pair_t *pair = &link->pairs[endpoint->rail];
    char text[KVL_WIRE_TEXT_MAX + 1], cause[KVL_WIRE_TEXT_MAX + 32];
    kvl_ep_hello_t hello;
    kvl_msg_head_t head;
    kvl_rbuf_t body;

    if (!am->data || kvl_wire_open(&body, am->data, am->length, &head) != KVL_OK) {
        kvl_link_protocol_error(link, "a damaged answer to EP_HELLO");
        return;
    }
    if (head.type == KVL_MSG_PONG && link->several) {
        endpoint_echoed(link, endpoint, &head);
        return;
    }
    if (head.type == KVL_MSG_REFUSE && kvl_get_text(&body, text) == KVL_OK) {
        snprintf(cause, sizeof(cause), "endpoint refused: %s", text);
        kvl_pair_fail(pair, KVL_ERR_REFUSED, cause);
        return;
    }
    if (head.type != KVL_MSG_EP_OK || kvl_get_ep_hello(&body, &hello) != KVL_OK ||
        hello.session != link->terms.session || hello.lane != endpoint->lane ||
        hello.index != endpoint->index || line->ready || pair->state != KVL_PAIR_OPENING) {
        kvl_link_protocol_error(link, "an answer to EP_HELLO that does not fit");
        return;
    }
    line->ready = true;
    if (++pair->ready == 1u + link->terms.sg_endpoints) {
        pair->state = KVL_PAIR_OPEN;
    }
}

/* ---- goodbye: tells the peer that nothing of this session can touch its memory any more ---- */

static bool bye_answer(kvl_call_t *call, const kvl_msg_head_t *head, kvl_rbuf_t *body)
{
    kvl_link_t *link = kvl_container(call, kvl_link_t, hello);

    (void)head;
    (void)body;
    kvl_link_fail(link, KVL_OK, "closed");
    return true;
}

void kvl_link_say_bye(kvl_link_t *link)
{
    kvl_mover_stats_t stats;
    kvl_status_t status = KVL_ERR_BUSY;

    kvl_mover_stats(link->mover, &stats);
    if (!stats.active && !stats.queued && kvl_mover_idle(link->mover) &&
        kvl_link_call_begin(link)) {
        link->hello.answer = bye_answer;
        status = kvl_link_call_send(link, KVL_MSG_BYE, &link->hello,
                                    kvl_time_add(kvl_engine_now(link->engine), BYE_TIMEOUT));
    }
    if (status != KVL_INPROGRESS) {
        kvl_link_fail(link, KVL_OK, "closed");
    }
}
