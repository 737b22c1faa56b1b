/* SPDX-License-Identifier: BSD-3-Clause */
#include "link/server.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "link/server_private.h"

#include <inttypes.h>

/* The listener and its guests. A connection request is queued in the callback and accepted by the
 * poller: ctrl from anybody (within limits), data and sg only for a nonce that has a session. An
 * accepted endpoint has the handshake's time to say which session it belongs to. */

#define WAITING_MAX 4096 /* connection requests not yet accepted */

/* ---- endpoints ---- */

static kvl_status_t guest_am(kvl_endpoint_t *endpoint, const kvl_am_t *am)
{
    kvl_guest_t *guest = kvl_container(endpoint, kvl_guest_t, endpoint);

    if (guest->closing || guest->unwanted) {
        return KVL_OK;
    }
    if (!guest->session) {
        if (guest->endpoint.lane == KVL_LANE_CTRL && am->id == KVL_AM_CTRL) {
            kvl_session_hello(guest, am);
        } else if (guest->endpoint.lane != KVL_LANE_CTRL && am->id == KVL_AM_EP_HELLO) {
            kvl_session_ep_hello(guest, am);
        } else {
            guest->server->stats.violations++;
            kvl_guest_drop(guest);
        }
        return KVL_OK;
    }
    if (guest->session->state != KVL_SESSION_OPEN) {
        return KVL_OK;
    }
    switch (am->id) {
    case KVL_AM_CTRL:
        if (guest->endpoint.lane == KVL_LANE_CTRL) {
            kvl_session_ctrl(guest, am);
            return KVL_OK;
        }
        break;
    case KVL_AM_EP_HELLO:
        if (kvl_session_echo(guest, am)) {
            return KVL_OK;
        }
        break;
    case KVL_AM_PUT:
        return kvl_target_put(guest, am);
    case KVL_AM_GET:
        return kvl_target_get(guest, am);
    default:
        break;
    }
    kvl_session_violation(guest->session, "an active message that no client sends");
    return KVL_OK;
}

static void guest_failed(kvl_endpoint_t *endpoint, kvl_status_t status)
{
    kvl_guest_t *guest = kvl_container(endpoint, kvl_guest_t, endpoint);

    endpoint->failed = true;
    if (guest->session && guest->session->several && endpoint->lane == KVL_LANE_CTRL) {
        kvl_session_ctrl_lost(guest->session, guest, kvl_status_string(status));
    } else if (guest->session && guest->session->several) {
        kvl_session_rail_lost(guest->session, guest->rail);
    } else if (guest->session) {
        kvl_session_close(guest->session, guest->session->bye ? "goodbye" : kvl_status_string(status));
    } else {
        kvl_guest_drop(guest);
    }
}

static const kvl_endpoint_ops_t guest_ops = {
    .am     = guest_am,     /* engine thread, in progress; must not block or close */
    .failed = guest_failed, /* engine thread, in progress; only notes it */
};

void kvl_guest_drop(kvl_guest_t *guest)
{
    if (!guest->unwanted) {
        guest->unwanted = true;
        kvl_list_remove(&guest->link);
        kvl_list_push_back(&guest->server->leaving_guests, &guest->link);
    }
}

static void guest_late(kvl_timer_t *timer)
{
    kvl_guest_drop(kvl_container(timer, kvl_guest_t, timer));
}

/* ---- accepting ---- */

static void server_forget_waiting(kvl_server_t *server)
{
    kvl_list_t *node;

    while ((node = kvl_list_pop_front(&server->waiting)) != NULL) {
        kvl_free(kvl_container(node, kvl_waiting_t, link));
    }
    server->waiting_count = 0;
}

static void server_conn(kvl_conn_t *conn, uint64_t client_id, void *arg)
{
    kvl_server_t *server = arg;
    kvl_waiting_t *waiting;

    if (!conn) {
        server_forget_waiting(server);
        return;
    }
    waiting = server->closing || server->waiting_count == WAITING_MAX ? NULL : kvl_malloc(sizeof(*waiting));
    if (!waiting) {
        server->stats.rejected++;
        kvl_conn_reject(conn);
        return;
    }
    waiting->conn      = conn;
    waiting->client_id = client_id;
    kvl_list_push_back(&server->waiting, &waiting->link);
    server->waiting_count++;
}

static bool server_has_files(const kvl_server_t *server, unsigned endpoints)
{
    const kvl_list_t *node;

    for (node = server->sessions.next; node != &server->sessions; node = node->next) {
        const kvl_session_t *session = kvl_container(node, kvl_session_t, link);
        unsigned agreed              = kvl_session_endpoints(session);

        endpoints += agreed > session->guest_count ? agreed - session->guest_count : 0; /* they will come */
    }
    return kvl_ucx_has_files(endpoints);
}

static bool server_has_connections(const kvl_server_t *server, unsigned sg_endpoints)
{
    const kvl_list_t *node;

    for (node = server->sessions.next; node != &server->sessions; node = node->next) {
        sg_endpoints += kvl_container(node, kvl_session_t, link)->terms.sg_endpoints;
    }
    return sg_endpoints <= kvl_ucx_connections_max();
}

kvl_status_t kvl_server_has_room(const kvl_server_t *server, unsigned sg_endpoints)
{
    const kvl_settings_t *settings = kvl_engine_settings(server->engine);
    char limit[64];

    if (sg_endpoints > settings->sg_endpoints) {
        sg_endpoints = (unsigned)settings->sg_endpoints; /* as the terms will say */
    }
    if (server->session_count >= settings->max_sessions) {
        return kvl_error(KVL_ERR_LIMIT, "%u sessions are open, KVLANE_MAX_SESSIONS allows no more",
                         server->session_count);
    }
    if (!server_has_files(server, KVL_SESSION_ENDPOINTS(sg_endpoints))) {
        kvl_files_limit(limit, sizeof(limit));
        return kvl_error(KVL_ERR_LIMIT,
                         "no files are left for another session (%u are open, %s there); raise it",
                         server->session_count, limit);
    }
    if (!server_has_connections(server, sg_endpoints)) {
        return kvl_error(KVL_ERR_LIMIT,
                         "no room for another session (%u are open; UCX takes %u sg endpoints); start "
                         "the node with UCX_ASYNC_MAX_EVENTS set higher",
                         server->session_count, kvl_ucx_connections_max());
    }
    return KVL_OK;
}

static void server_reject(kvl_server_t *server, kvl_conn_t *conn)
{
    server->stats.rejected++;
    kvl_conn_reject(conn);
}

/* where a client's ctrl connection comes from */
static unsigned conn_rail(const kvl_server_t *server, const kvl_conn_t *conn)
{
    kvl_addr_t addr;
    char peer[128];

    if (kvl_engine_rails(server->engine) == 1) {
        return 0;
    }
    kvl_conn_peer(conn, peer, sizeof(peer));
    return kvl_addr_parse(peer, &addr) == KVL_OK ? kvl_engine_rail_to(server->engine, &addr) : 0;
}

static bool server_wants(kvl_server_t *server, const kvl_conn_t *conn, uint64_t client_id, unsigned *target_p)
{
    if (KVL_CLIENT_LANE(client_id) == KVL_LANE_CTRL) {
        *target_p = conn_rail(server, conn);
        return (server->session_count < kvl_engine_settings(server->engine)->max_sessions ||
                kvl_server_resumes(server, KVL_CLIENT_NONCE(client_id))) &&
               server_has_files(server, 1);
    }
    return kvl_ucx_has_files(0) && kvl_server_expects(server, client_id, target_p) != NULL;
}

static void server_accept(kvl_server_t *server, kvl_conn_t *conn, uint64_t client_id)
{
    int64_t timeout = kvl_engine_settings(server->engine)->connect_timeout_ns;
    kvl_ep_params_t params = {.failed = kvl_endpoint_failed};
    kvl_guest_t *guest;
    unsigned target;

    guest = server_wants(server, conn, client_id, &target) ? kvl_calloc(1, sizeof(*guest)) : NULL;
    if (!guest) {
        server_reject(server, conn);
        return;
    }
    guest->endpoint.lane  = (kvl_lane_kind_t)KVL_CLIENT_LANE(client_id);
    guest->endpoint.rail  = target;
    guest->endpoint.ops   = &guest_ops;
    guest->endpoint.owner = guest;
    guest->server         = server;
    guest->nonce          = KVL_CLIENT_NONCE(client_id);
    guest->rail           = KVL_CLIENT_RAIL(client_id);
    kvl_list_init(&guest->replies);
    params.worker = kvl_engine_worker(server->engine, target, guest->endpoint.lane);
    params.arg    = &guest->endpoint;
    if (kvl_ep_accept(&params, conn, &guest->endpoint.ep) != KVL_OK) {
        server->stats.rejected++;
        kvl_free(guest);
        return;
    }
    kvl_list_push_back(&server->unbound, &guest->link);
    if (kvl_timer_set(kvl_engine_timers(server->engine), &guest->timer,
                      kvl_time_add(kvl_now_ns(), timeout), guest_late) != KVL_OK) {
        kvl_guest_drop(guest);
    }
}

static unsigned server_accept_waiting(kvl_server_t *server)
{
    kvl_list_t *node;
    unsigned n = 0;

    while ((node = kvl_list_pop_front(&server->waiting)) != NULL) {
        kvl_waiting_t *waiting = kvl_container(node, kvl_waiting_t, link);

        server->waiting_count--;
        server_accept(server, waiting->conn, waiting->client_id);
        kvl_free(waiting);
        n++;
    }
    return n;
}

kvl_session_t *kvl_server_session_by_id(kvl_server_t *server, uint64_t id)
{
    kvl_list_t *node;

    for (node = server->sessions.next; node != &server->sessions; node = node->next) {
        kvl_session_t *session = kvl_container(node, kvl_session_t, link);

        if (session->id == id) {
            return session;
        }
    }
    return NULL;
}

/* ---- closing ---- */

static void server_drop_all(kvl_server_t *server, const char *why)
{
    while (!kvl_list_empty(&server->sessions)) {
        kvl_session_close(kvl_container(server->sessions.next, kvl_session_t, link), why);
    }
    while (!kvl_list_empty(&server->unbound)) {
        kvl_guest_drop(kvl_container(server->unbound.next, kvl_guest_t, link));
    }
}

static unsigned server_close_step(kvl_server_t *server)
{
    void (*done)(void *) = server->close_done;

    if (server->listening) {
        server->listening = false;
        server_forget_waiting(server); /* they go with the listener */
        kvl_engine_unlisten(server->engine);
        return 1;
    }
    if (kvl_engine_now(server->engine) >= server->close_deadline_ns) {
        server_drop_all(server, "the node is closing");
    }
    if (!kvl_list_empty(&server->sessions) || !kvl_list_empty(&server->leaving) ||
        !kvl_list_empty(&server->unbound) || !kvl_list_empty(&server->leaving_guests) || !done) {
        return 0;
    }
    server->close_done = NULL;
    done(server->close_arg);
    return 1;
}

static unsigned server_poll(kvl_poller_t *poller)
{
    kvl_server_t *server = kvl_container(poller, kvl_server_t, poller);
    unsigned n           = kvl_target_step(server) + kvl_server_leave_step(server);

    if (!kvl_engine_is_renewing(server->engine)) {
        n += server_accept_waiting(server);
    } else { /* who comes now waits until that is over */
        server_drop_all(server, "a lane of this engine is stuck and starts anew");
    }
    return server->closing ? n + server_close_step(server) : n;
}

/* ---- public ---- */

static void print_session(const kvl_session_t *session, FILE *stream, int json)
{
    if (json) {
        fprintf(stream, "{\"session\": \"%016" PRIx64 "\", ", session->id);
        kvl_json_member("client", session->name, ", ", stream); /* a peer's text */
    } else {
        fprintf(stream, "    %016" PRIx64 "  %s  ", session->id, session->name);
    }
    fprintf(stream,
            json ? "\"depth\": %u, \"sg_endpoints\": %u, \"data_depth\": %u}"
                 : "depth %u, sg endpoints %u, data depth %u\n",
            session->terms.depth, session->terms.sg_endpoints, session->terms.data_depth);
}

static void server_print(kvl_printer_t *printer, FILE *stream, int json)
{
    const kvl_server_t *server = kvl_container(printer, kvl_server_t, printer);
    kvl_list_t *node;
    char text[128];

    kvl_server_address(server, text, sizeof(text));
    fprintf(stream,
            json ? "{\"server\": \"%s\", \"sessions\": %u, \"accepted\": %" PRIu64 ", \"rejected\": %" PRIu64
                   ", \"violations\": %" PRIu64 ", \"dropped_ops\": %" PRIu64 ", \"clients\": ["
                 : "server %s\n  sessions     %u\n  accepted     %" PRIu64 ", rejected %" PRIu64
                   ", violations %" PRIu64 ", dropped ops %" PRIu64 "\n",
            text, server->session_count, server->stats.accepted, server->stats.rejected,
            server->stats.violations, server->stats.dropped_ops);
    for (node = server->sessions.next; node != &server->sessions; node = node->next) {
        print_session(kvl_container(node, kvl_session_t, link), stream, json);
        fputs(json && node->next != &server->sessions ? ", " : "", stream);
    }
    fputs(json ? "]}" : "", stream);
}

kvl_status_t kvl_server_create(const kvl_server_params_t *params, kvl_server_t **server_p)
{
    kvl_server_t *server = kvl_calloc(1, sizeof(*server));
    kvl_status_t status;
    kvl_addr_t addr;

    if (!server) {
        return kvl_error(KVL_ERR_NO_MEMORY, "server: out of memory");
    }
    server->engine       = params->engine;
    server->ops          = params->ops;
    server->arg          = params->arg;
    server->poller.func  = server_poll;
    server->printer.func = server_print;
    kvl_list_init(&server->waiting);
    kvl_list_init(&server->unbound);
    kvl_list_init(&server->leaving_guests);
    kvl_list_init(&server->sessions);
    kvl_list_init(&server->leaving);
    kvl_list_init(&server->limbo);
    kvl_list_init(&server->idle_ops);
    kvl_list_init(&server->copying);
    kvl_sendpool_init(&server->pool, 65536);
    status = kvl_addr_parse(params->listen, &addr);
    if (status == KVL_OK) {
        status = kvl_engine_listen(server->engine, &addr, server_conn, server);
    }
    if (status != KVL_OK) {
        kvl_free(server);
        return status;
    }
    server->listening = true;
    kvl_engine_add_poller(server->engine, &server->poller);
    kvl_engine_add_printer(server->engine, &server->printer);
    *server_p = server;
    return KVL_OK;
}

void kvl_server_address(const kvl_server_t *server, char *text, size_t size)
{
    kvl_addr_t addr;

    if (!server->listening) {
        snprintf(text, size, "closed");
        return;
    }
    kvl_engine_listen_addr(server->engine, &addr);
    kvl_addr_format((const struct sockaddr *)&addr.storage, text, size);
}

void kvl_server_close(kvl_server_t *server, int64_t deadline_ns, void (*done)(void *arg), void *arg)
{
    server->closing           = true;
    server->close_deadline_ns = deadline_ns;
    server->close_done        = done;
    server->close_arg         = arg;
}

void kvl_server_destroy(kvl_server_t *server)
{
    if (!server) {
        return;
    }
    server_forget_waiting(server);
    if (server->listening) { /* a create that failed later on: nobody was accepted yet */
        kvl_engine_unlisten(server->engine);
    }
    while (!kvl_list_empty(&server->limbo)) {
        kvl_session_free(kvl_container(server->limbo.next, kvl_session_t, link));
    }
    kvl_engine_remove_poller(server->engine, &server->poller);
    kvl_engine_remove_printer(server->engine, &server->printer);
    kvl_target_cleanup(server);
    kvl_sendpool_cleanup(&server->pool);
    kvl_free(server);
}

void kvl_server_stats(const kvl_server_t *server, kvl_server_stats_t *stats_p)
{
    *stats_p          = server->stats;
    stats_p->sessions = server->session_count;
}
