/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "link/server_private.h"

#include <inttypes.h>
#include <string.h>

/* The rails of a client that has several, or meets an engine with several. It joins one (RAIL): which of
 * its rails will connect to which of ours; then connections that name the client's rail are accepted on
 * that one's workers. One fails, or leaves, without the session: its endpoints are closed, and where they
 * moved bytes by RMA the workers that served them are flushed, so that nothing can land late; then the
 * client hears that it is gone, and may join it again. */

#define FLUSH_TIMEOUT (5 * KVL_SECOND)

/* ---- what HELLO_OK and RAIL_OK tell ---- */

bool kvl_session_put_regions(kvl_session_t *session, kvl_wbuf_t *w, unsigned rail)
{
    kvl_server_t *server = session->server;
    kvl_region_t *regions[KVL_WIRE_REGIONS_MAX];
    size_t count = server->ops->regions(server->arg, session, regions, KVL_WIRE_REGIONS_MAX), i;

    for (i = 0; i < count; i++) {
        unsigned slices = kvl_region_slices(regions[i]), slice;

        for (slice = 0; slice < slices; slice++) {
            uint8_t rkey[KVL_WIRE_RKEY_MAX];
            kvl_wire_region_t record;

            if (kvl_region_record(regions[i], rail, slice, rkey, &record) != KVL_OK ||
                !kvl_put_region(w, &record)) {
                return false;
            }
        }
    }
    return true;
}

static void peer_rail_fill(const kvl_engine_t *engine, unsigned index, kvl_peer_rail_t *rail)
{
    const kvl_rail_t *about = kvl_engine_rail(engine, index);
    kvl_addr_t addr;

    *rail = (kvl_peer_rail_t){.kind = about ? (uint8_t)about->kind : KVL_PEER_RAIL_TCP,
                              .mtu  = about ? about->mtu : 0};
    snprintf(rail->name, sizeof(rail->name), "%s", kvl_engine_rail_name(engine, index));
    if (!kvl_engine_rail_addr(engine, index, &addr)) {
        return;
    }
    if (addr.storage.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&addr.storage;

        rail->family = 6;
        rail->port   = ntohs(in6->sin6_port);
        memcpy(rail->address, &in6->sin6_addr, 16);
    } else {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&addr.storage;

        rail->family = 4;
        rail->port   = ntohs(in->sin_port);
        memcpy(rail->address, &in->sin_addr, 4);
    }
}

bool kvl_session_put_rails(kvl_session_t *session, kvl_wbuf_t *w)
{
    const kvl_engine_t *engine = session->server->engine;
    unsigned count             = kvl_engine_rails(engine), i;
    kvl_peer_rail_t rails[KVL_WIRE_RAILS_MAX];

    for (i = 0; i < count; i++) {
        peer_rail_fill(engine, i, &rails[i]);
    }
    return kvl_put_peer_rails(w, rails, count > 1 || kvl_engine_rail(engine, 0) ? count : 0);
}

bool kvl_session_repeats(const kvl_session_t *session)
{
    return session->several;
}

/* ---- connections ---- */

unsigned kvl_session_endpoints(const kvl_session_t *session)
{
    unsigned i, joined = 0;

    for (i = 0; i < KVL_WIRE_RAILS_MAX; i++) {
        joined += session->rails[i].joined;
    }
    return 1 + joined * (1u + session->terms.sg_endpoints);
}

kvl_session_t *kvl_server_expects(kvl_server_t *server, uint64_t client_id, unsigned *target_p)
{
    unsigned rail = KVL_CLIENT_RAIL(client_id);
    kvl_list_t *node;

    if (rail >= KVL_WIRE_RAILS_MAX || KVL_CLIENT_LANE(client_id) >= KVL_LANE_COUNT) {
        return NULL;
    }
    for (node = server->sessions.prev; node != &server->sessions; node = node->prev) {
        kvl_session_t *session = kvl_container(node, kvl_session_t, link);

        if (session->hello.nonce == KVL_CLIENT_NONCE(client_id) && session->rails[rail].joined &&
            session->rails[rail].end == KVL_RAIL_STAYS &&
            session->guest_count < kvl_session_endpoints(session)) {
            *target_p = session->rails[rail].target;
            return session;
        }
    }
    return NULL;
}

/* ---- coming ---- */

static void rail_answer(kvl_session_t *session, uint64_t request, const kvl_wire_rail_t *what)
{
    kvl_wire_rail_t answer = *what;
    kvl_wbuf_t *w          = kvl_session_begin(session);

    if (!w) {
        return;
    }
    snprintf(answer.name, sizeof(answer.name), "%s",
             kvl_engine_rail_name(session->server->engine, answer.target));
    kvl_put_rail(w, &answer);
    if (!answer.leave) {
        kvl_session_put_regions(session, w, answer.target);
    }
    kvl_session_send(session, KVL_MSG_RAIL_OK, request, KVL_OK);
}

/* The first RAIL of a session replaces the rail that is joined by itself. */
static void session_several(kvl_session_t *session)
{
    if (!session->several) {
        session->several         = true;
        session->rails[0].joined = false;
    }
}

static void rail_join(kvl_session_t *session, uint64_t request, const kvl_wire_rail_t *what)
{
    kvl_session_rail_t *rail = &session->rails[what->rail];

    if (session->guest_count > 1 && !session->several) {
        kvl_session_violation(session, "RAIL after its endpoints");
        return;
    }
    session_several(session);
    if (what->target >= kvl_engine_rails(session->server->engine)) {
        kvl_session_refuse(session, request, KVL_ERR_REFUSED, "no such rail here");
        return;
    }
    if (rail->joined) {
        kvl_session_refuse(session, request, KVL_ERR_BUSY, "that rail is there, or not gone yet");
        return;
    }
    *rail = (kvl_session_rail_t){.joined = true, .target = what->target};
    snprintf(rail->name, sizeof(rail->name), "%.*s", KVL_RAIL_NAME - 1, what->name);
    kvl_info("server: session %016" PRIx64 ": rail %s joins at %s", session->id, rail->name,
             kvl_engine_rail_name(session->server->engine, rail->target));
    rail_answer(session, request, what);
}

/* ---- going ---- */

static void timer_over(kvl_timer_t *timer)
{
    (void)timer; /* the engine turns: what waited is looked at */
}

static void rail_leave(kvl_session_t *session, kvl_session_rail_t *rail, const char *why)
{
    kvl_timers_t *timers = kvl_engine_timers(session->server->engine);

    if (rail->end != KVL_RAIL_STAYS) {
        return;
    }
    kvl_info("server: session %016" PRIx64 ": rail %s leaves: %s", session->id, rail->name, why);
    rail->end = KVL_RAIL_PAUSING;
    session->leaving_rails++;
    session->server->leaving_rails++;
    (void)kvl_timer_set(timers, &rail->timer, kvl_time_add(kvl_now_ns(), KVL_PEER_PAUSE), timer_over);
}

void kvl_session_rail_lost(kvl_session_t *session, unsigned rail)
{
    if (session->state == KVL_SESSION_OPEN) {
        rail_leave(session, &session->rails[rail], "an endpoint failed");
    }
}

static bool guest_is_of(const kvl_guest_t *guest, unsigned rail)
{
    return guest->rail == rail && guest->endpoint.lane != KVL_LANE_CTRL;
}

bool kvl_session_rail_stays(const kvl_session_t *session)
{
    unsigned i;

    for (i = 0; i < KVL_WIRE_RAILS_MAX; i++) {
        if (session->rails[i].joined && session->rails[i].end == KVL_RAIL_STAYS) {
            return true;
        }
    }
    return false;
}

static void rail_close(kvl_session_t *session, unsigned index)
{
    kvl_list_t *node;

    for (node = session->guests.next; node != &session->guests; node = node->next) {
        kvl_guest_t *guest = kvl_container(node, kvl_guest_t, link);

        if (guest_is_of(guest, index) && !guest->closing) {
            kvl_guest_close(guest);
        }
    }
    session->rails[index].end = KVL_RAIL_CLOSING;
}

/* frees those that are over; true if none is left */
static bool rail_is_closed(kvl_session_t *session, unsigned index)
{
    kvl_list_t *node, *next;
    bool closed = true;

    for (node = session->guests.next; node != &session->guests; node = next) {
        kvl_guest_t *guest = kvl_container(node, kvl_guest_t, link);

        next = node->next;
        if (!guest_is_of(guest, index)) {
            continue;
        }
        if (kvl_guest_is_over(guest)) {
            kvl_guest_free(guest);
            session->guest_count--;
        } else {
            closed = false;
        }
    }
    return closed;
}

static void flush_done(kvl_req_t *req, kvl_status_t status)
{
    kvl_session_flush_t *flush = kvl_container(req, kvl_session_flush_t, req);
    unsigned i;

    (void)status; /* of a worker whose endpoints are gone: over as well */
    for (i = 0; flush->session && i < 2 * KVL_WIRE_RAILS_MAX; i++) {
        if (flush->session->rails[i / 2].flushes[i % 2] == flush) {
            flush->session->rails[i / 2].flushes[i % 2] = NULL;
        }
    }
    kvl_free(flush);
}

static void rail_flush(kvl_session_t *session, kvl_session_rail_t *rail)
{
    kvl_engine_t *engine = session->server->engine;
    unsigned i;

    rail->end = KVL_RAIL_FLUSHING;
    (void)kvl_timer_set(kvl_engine_timers(engine), &rail->timer,
                        kvl_time_add(kvl_now_ns(), FLUSH_TIMEOUT), timer_over);
    for (i = 0; rail->onesided && i < 2; i++) {
        kvl_session_flush_t *flush = kvl_malloc(sizeof(*flush));

        if (!flush) {
            return; /* as long as it may take */
        }
        *flush           = (kvl_session_flush_t){.req = {.done = flush_done}, .session = session};
        rail->flushes[i] = flush;
        if (kvl_worker_flush(kvl_engine_worker(engine, rail->target, i ? KVL_LANE_SG : KVL_LANE_DATA),
                             &flush->req) != KVL_INPROGRESS) {
            flush_done(&flush->req, KVL_OK);
        }
    }
    if (!rail->flushes[0] && !rail->flushes[1]) {
        kvl_timer_cancel(kvl_engine_timers(engine), &rail->timer);
    }
}

static void rail_detach_flushes(kvl_session_rail_t *rail)
{
    unsigned i;

    for (i = 0; i < 2; i++) {
        if (rail->flushes[i]) {
            rail->flushes[i]->session = NULL;
            rail->flushes[i]          = NULL;
        }
    }
}

static void rail_gone(kvl_session_t *session, unsigned index)
{
    kvl_session_rail_t *rail = &session->rails[index];
    kvl_wire_rail_t what     = {.leave = true, .rail = (uint8_t)index, .target = (uint8_t)rail->target};
    uint64_t request         = rail->request;

    rail_detach_flushes(rail);
    kvl_timer_cancel(kvl_engine_timers(session->server->engine), &rail->timer);
    session->leaving_rails--;
    session->server->leaving_rails--;
    *rail = (kvl_session_rail_t){.joined = false};
    if (request) {
        rail_answer(session, request, &what);
    }
}

static bool rail_step(kvl_session_t *session, unsigned index)
{
    kvl_session_rail_t *rail = &session->rails[index];

    switch (rail->end) {
    case KVL_RAIL_PAUSING:
        if (kvl_timer_armed(&rail->timer)) {
            return false;
        }
        rail_close(session, index);
        return true;
    case KVL_RAIL_CLOSING:
        if (!rail_is_closed(session, index)) {
            return false;
        }
        rail_flush(session, rail);
        return true;
    case KVL_RAIL_FLUSHING:
        if ((rail->flushes[0] || rail->flushes[1]) && kvl_timer_armed(&rail->timer)) {
            return false;
        }
        rail_gone(session, index);
        return true;
    case KVL_RAIL_STAYS:
    default:
        return false;
    }
}

unsigned kvl_session_rails_step(kvl_server_t *server)
{
    kvl_list_t *node, *next;
    unsigned i, n = 0;

    for (node = server->sessions.next; server->leaving_rails && node != &server->sessions; node = next) {
        kvl_session_t *session = kvl_container(node, kvl_session_t, link);

        next = node->next;
        for (i = 0; session->leaving_rails && i < KVL_WIRE_RAILS_MAX; i++) {
            n += rail_step(session, i);
        }
    }
    return n;
}

void kvl_session_rail(kvl_session_t *session, const kvl_msg_head_t *head, kvl_rbuf_t *body)
{
    kvl_wire_rail_t what;
    kvl_session_rail_t *rail;

    if (kvl_get_rail(body, &what) != KVL_OK || kvl_wire_close(body) != KVL_OK || !head->request) {
        kvl_session_violation(session, "a damaged RAIL");
        return;
    }
    rail = &session->rails[what.rail];
    if (!what.leave) {
        rail_join(session, head->request, &what);
    } else if (!rail->joined) { /* it went by itself */
        what.target = 0;
        rail_answer(session, head->request, &what);
    } else {
        rail->request = head->request;
        rail_leave(session, rail, "so says the client");
    }
}

/* ---- the session goes ---- */

void kvl_session_rails_end(kvl_session_t *session)
{
    session->server->leaving_rails -= session->leaving_rails;
    session->leaving_rails = 0;
}

void kvl_session_rails_free(kvl_session_t *session)
{
    unsigned i;

    for (i = 0; i < KVL_WIRE_RAILS_MAX; i++) {
        rail_detach_flushes(&session->rails[i]);
        kvl_timer_cancel(kvl_engine_timers(session->server->engine), &session->rails[i].timer);
    }
}
