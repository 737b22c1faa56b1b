/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/log.h"
#include "engine/process.h"
#include "link/server_private.h"

#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

/* Sessions come to be and go: HELLO and EP_HELLO bind endpoints. What is asked on the ctrl lane in between:
 * session_ctrl.c. */

#define SCRATCH_MAX (1u << 20)

/* ---- sending ---- */

static void session_sent(void *arg, kvl_endpoint_t *endpoint, kvl_status_t status)
{
    kvl_session_t *session = arg;

    (void)endpoint;
    session->sends--;
    if (status < 0 && status != KVL_ERR_CANCELED) {
        kvl_session_close(session, "a message could not be sent");
    }
}

kvl_wbuf_t *kvl_session_begin(kvl_session_t *session)
{
    kvl_server_t *server = session->server;

    if (session->sends >= KVL_SESSION_SENDS_MAX) {
        kvl_session_violation(session, "it reads nothing while we answer");
        return NULL;
    }
    server->building = kvl_sendbuf_get(&server->pool, KVL_WIRE_MAX);
    if (!server->building) {
        kvl_session_close(session, "no buffer for an answer");
        return NULL;
    }
    return &server->building->writer;
}

void kvl_session_send(kvl_session_t *session, kvl_msg_type_t type, uint64_t request,
                      kvl_status_t status)
{
    kvl_sendbuf_t *buf = session->server->building;

    session->server->building = NULL;
    if (session->state != KVL_SESSION_OPEN) { /* it left while the answer was made */
        kvl_sendbuf_put(buf);
        return;
    }
    buf->sent = session_sent;
    buf->arg  = session;
    session->sends++;
    if (session->stream.on) {
        kvl_stream_send(&session->stream, buf, session->ctrl ? &session->ctrl->endpoint : NULL, type,
                        request, status);
    } else {
        kvl_sendbuf_send(buf, &session->ctrl->endpoint, KVL_AM_CTRL, type, request, status);
    }
}

void kvl_session_refuse(kvl_session_t *session, uint64_t request, kvl_status_t status,
                        const char *reason)
{
    kvl_wbuf_t *w = kvl_session_begin(session);

    if (w) {
        kvl_put_text(w, reason);
        kvl_session_send(session, KVL_MSG_REFUSE, request, status);
    }
}

/* to a guest that has no session (yet) */
static void guest_send(kvl_guest_t *guest, kvl_sendbuf_t *buf, kvl_msg_type_t type, uint64_t request,
                       kvl_status_t status)
{
    unsigned am = guest->endpoint.lane == KVL_LANE_CTRL ? KVL_AM_CTRL : KVL_AM_EP_HELLO;

    if (kvl_sendbuf_send(buf, &guest->endpoint, am, type, request, status) < 0) {
        if (guest->session) {
            kvl_session_close(guest->session, "it went away while we answered");
        } else {
            kvl_guest_drop(guest);
        }
    }
}

/* the guest stays until the client goes or its handshake time is over, so that the reason arrives */
void kvl_guest_refuse(kvl_guest_t *guest, uint64_t request, kvl_status_t status, const char *reason)
{
    kvl_server_t *server = guest->server;
    kvl_sendbuf_t *buf   = kvl_sendbuf_get(&server->pool, KVL_WIRE_MAX);
    char peer[128];

    if (guest->refused) { /* one answer is enough */
        return;
    }
    guest->refused = true;
    server->stats.rejected++;
    kvl_ep_peer(guest->endpoint.ep, peer, sizeof(peer));
    kvl_warn("server: refused a client at %s: %s", peer, reason);
    if (!buf) {
        kvl_guest_drop(guest);
        return;
    }
    kvl_put_text(&buf->writer, reason);
    guest_send(guest, buf, KVL_MSG_REFUSE, request, status);
}

/* ---- HELLO ---- */

static uint16_t lower(unsigned a, unsigned b)
{
    return (uint16_t)(a < b ? a : b);
}

static void terms_fill(kvl_session_t *session)
{
    const kvl_settings_t *settings = kvl_engine_settings(session->server->engine);
    const kvl_hello_t *hello       = &session->hello;
    unsigned data_depth            = settings->data_depth ? settings->data_depth : settings->depth;

    session->terms = (kvl_hello_ok_t){
        .version      = lower(KVL_WIRE_VERSION, hello->version_max) & 0xff,
        .session      = session->id,
        .depth        = lower(settings->depth, hello->depth),
        .sg_endpoints = lower(settings->sg_endpoints, hello->sg_endpoints),
        .data_depth   = lower(data_depth, hello->data_depth),
        .inline_max   = hello->inline_max < settings->inline_max ? hello->inline_max
                                                                 : (uint32_t)settings->inline_max,
        .lease_max_ms = (uint32_t)(settings->lease_ns / KVL_MS),
        .chunk_bytes  = settings->chunk_bytes,
    };
    snprintf(session->terms.name, sizeof(session->terms.name), "kvlane %s", kvl_version());
}

static kvl_status_t hello_check(const kvl_hello_t *hello)
{
    if (hello->version_min > KVL_WIRE_VERSION || hello->version_max < KVL_WIRE_VERSION_MIN) {
        return kvl_error(KVL_ERR_VERSION,
                         "it speaks protocol versions %u to %u, this side %u to %u: use releases that "
                         "share one",
                         hello->version_min, hello->version_max, KVL_WIRE_VERSION_MIN, KVL_WIRE_VERSION);
    }
    if (!hello->depth || hello->depth > 256 || !hello->sg_endpoints || hello->sg_endpoints > 64 ||
        !hello->data_depth || hello->data_depth > 256) {
        return kvl_error(KVL_ERR_INVALID, "HELLO with depth %u, data depth %u, %u sg endpoints: accepted "
                         "are 1 to 256, 1 to 256, 1 to 64",
                         hello->depth, hello->data_depth, hello->sg_endpoints);
    }
    return KVL_OK;
}

static uint64_t session_new_id(kvl_server_t *server)
{
    uint64_t id = 0;

    while (!id || kvl_server_session_by_id(server, id)) {
        if (getrandom(&id, sizeof(id), 0) != (ssize_t)sizeof(id)) {
            id = (uint64_t)kvl_now_ns() * UINT64_C(0x9e3779b97f4a7c15);
        }
    }
    return id;
}

static kvl_session_t *session_create(kvl_guest_t *guest, const kvl_hello_t *hello)
{
    kvl_server_t *server   = guest->server;
    kvl_session_t *session = kvl_calloc(1, sizeof(*session));
    char peer[128];

    if (!session) {
        kvl_error(KVL_ERR_NO_MEMORY, "out of memory");
        return NULL;
    }
    session->server = server;
    session->hello  = *hello;
    session->id     = session_new_id(server);
    session->rails[0].joined = true; /* a client with several says so by RAIL */
    kvl_list_init(&session->link);
    kvl_list_init(&session->guests);
    kvl_stream_init(&session->stream);
    kvl_ep_peer(guest->endpoint.ep, peer, sizeof(peer));
    snprintf(session->name, sizeof(session->name), "%s (%s)", hello->name, peer);
    terms_fill(session);
    return session;
}

static kvl_status_t hello_ok_send(kvl_guest_t *guest, kvl_session_t *session, uint64_t request)
{
    kvl_sendbuf_t *buf = kvl_sendbuf_get(&guest->server->pool, KVL_WIRE_MAX);

    if (!buf) {
        return kvl_error(KVL_ERR_NO_MEMORY, "out of memory");
    }
    if (!kvl_put_hello_ok(&buf->writer, &session->terms) ||
        !kvl_session_put_regions(session, &buf->writer, 0) ||
        !kvl_session_put_rails(session, &buf->writer)) {
        kvl_sendbuf_put(buf);
        return kvl_error(KVL_ERR_LIMIT, "the regions do not fit HELLO_OK");
    }
    guest_send(guest, buf, KVL_MSG_HELLO_OK, request, KVL_OK);
    return KVL_OK;
}

void kvl_guest_bind(kvl_guest_t *guest, kvl_session_t *session)
{
    kvl_timer_cancel(kvl_engine_timers(guest->server->engine), &guest->timer);
    guest->session = session;
    kvl_list_remove(&guest->link);
    kvl_list_push_back(&session->guests, &guest->link);
    session->guest_count++;
}

static kvl_status_t session_open(kvl_guest_t *guest, const kvl_hello_t *hello, uint64_t request)
{
    kvl_server_t *server = guest->server;
    kvl_session_t *session;
    kvl_status_t status;

    status = kvl_server_has_room(server, hello->sg_endpoints);
    if (status != KVL_OK) {
        return status;
    }
    session = session_create(guest, hello);
    if (!session) {
        return KVL_ERR_NO_MEMORY;
    }
    status = server->ops->hello(server->arg, session, hello, &session->terms);
    if (status != KVL_OK) {
        kvl_free(session);
        return status;
    }
    session->scratch = server->ops->scratch ? server->ops->scratch(server->arg, session,
                                                                   &session->scratch_length)
                                            : NULL;
    if (session->scratch_length > SCRATCH_MAX) {
        session->scratch_length = SCRATCH_MAX;
    }
    session->ctrl = guest;
    server->session_count++;
    kvl_list_push_back(&server->sessions, &session->link);
    kvl_guest_bind(guest, session);
    server->stats.accepted++;
    status = hello_ok_send(guest, session, request);
    if (status != KVL_OK) {
        kvl_session_close(session, kvl_error_text());
        return KVL_OK;
    }
    kvl_info("server: session %016" PRIx64 ": %s: depth %u, %u sg endpoints", session->id, session->name,
             session->terms.depth, session->terms.sg_endpoints);
    return KVL_OK;
}

static kvl_status_t hello_do(kvl_guest_t *guest, const kvl_msg_head_t *head, kvl_rbuf_t *body)
{
    kvl_hello_t hello;
    kvl_status_t status;
    unsigned i;

    if (head->type != KVL_MSG_HELLO) {
        return kvl_error(KVL_ERR_PROTOCOL, "%s before HELLO", kvl_msg_name(head->type));
    }
    status = kvl_get_hello(body, &hello);
    if (status == KVL_OK) {
        status = kvl_wire_close(body);
    }
    if (status == KVL_OK) {
        status = hello_check(&hello);
    }
    if (status == KVL_OK && hello.nonce != guest->nonce) {
        status = kvl_error(KVL_ERR_INVALID, "HELLO of another engine than the one that connected");
    }
    if (status != KVL_OK) {
        return status;
    }
    for (i = 0; i < hello.retired_count; i++) {
        kvl_session_retired(guest->server, hello.nonce, hello.retired[i]);
    }
    return session_open(guest, &hello, head->request);
}

void kvl_session_hello(kvl_guest_t *guest, const kvl_am_t *am)
{
    kvl_msg_head_t head = {.request = 0};
    kvl_rbuf_t body;
    kvl_status_t status;

    if (!am->data) {
        status = kvl_error(KVL_ERR_PROTOCOL, "a control message by rendezvous");
    } else {
        status = kvl_wire_open(&body, am->data, am->length, &head);
    }
    if (status == KVL_OK && head.type == KVL_MSG_RESUME) {
        status = kvl_session_resume(guest, &head, &body);
    } else if (status == KVL_OK) {
        status = hello_do(guest, &head, &body);
    }
    if (status != KVL_OK) {
        kvl_guest_refuse(guest, head.request, status, kvl_error_text());
    }
}

/* ---- EP_HELLO ---- */

static kvl_status_t ep_hello_check(kvl_guest_t *guest, const kvl_ep_hello_t *hello,
                                   kvl_session_t **session_p)
{
    kvl_session_t *session = kvl_server_session_by_id(guest->server, hello->session);
    const kvl_session_rail_t *rail;

    if (!session || session->state != KVL_SESSION_OPEN || session->hello.nonce != guest->nonce) {
        return kvl_error(KVL_ERR_REFUSED, "EP_HELLO for a session that is not this engine's");
    }
    if (hello->lane != guest->endpoint.lane) {
        return kvl_error(KVL_ERR_REFUSED, "EP_HELLO for lane %u on the lane %s", hello->lane,
                         kvl_lane_name(guest->endpoint.lane));
    }
    rail = &session->rails[guest->rail];
    if (!rail->joined || rail->end != KVL_RAIL_STAYS || rail->target != guest->endpoint.rail) {
        return kvl_error(KVL_ERR_REFUSED, "EP_HELLO on rail %u of the client, which did not join", guest->rail);
    }
    if (hello->lane == KVL_LANE_DATA ? hello->index != 0 || rail->bound_data
                                     : hello->index >= session->terms.sg_endpoints ||
                                           rail->bound_sg >> hello->index & 1) {
        return kvl_error(KVL_ERR_REFUSED, "EP_HELLO for endpoint %s %u, which is taken or was not agreed",
                         kvl_lane_name(guest->endpoint.lane), hello->index);
    }
    *session_p = session;
    return KVL_OK;
}

static void ep_bind(kvl_guest_t *guest, kvl_session_t *session, const kvl_ep_hello_t *hello)
{
    kvl_session_rail_t *rail = &session->rails[guest->rail];
    kvl_ep_info_t info       = {.shared_memory = true, .put_onesided = true};

    guest->endpoint.index  = hello->index;
    guest->endpoint.window = hello->lane == KVL_LANE_SG ? 1 : session->terms.data_depth;
    if (hello->lane == KVL_LANE_DATA) {
        rail->bound_data = true;
    } else {
        rail->bound_sg |= UINT64_C(1) << hello->index;
    }
    kvl_guest_bind(guest, session);
    /* when in doubt, assume that the client can reach our memory behind our back */
    if (kvl_ep_info(guest->endpoint.ep, &info) != KVL_OK || info.shared_memory) {
        session->shared_memory        = true;
        guest->endpoint.shared_memory = true;
    }
    rail->onesided |= info.put_onesided;
}

void kvl_session_ep_hello(kvl_guest_t *guest, const kvl_am_t *am)
{
    kvl_msg_head_t head    = {.request = 0};
    kvl_session_t *session = NULL;
    kvl_ep_hello_t hello;
    kvl_sendbuf_t *buf;
    kvl_rbuf_t body;
    kvl_status_t status;

    status = am->data ? kvl_wire_open(&body, am->data, am->length, &head)
                      : kvl_error(KVL_ERR_PROTOCOL, "a control message by rendezvous");
    if (status == KVL_OK && head.type != KVL_MSG_EP_HELLO) {
        status = kvl_error(KVL_ERR_PROTOCOL, "%s instead of EP_HELLO", kvl_msg_name(head.type));
    }
    if (status == KVL_OK) {
        status = kvl_get_ep_hello(&body, &hello);
    }
    if (status == KVL_OK) {
        status = ep_hello_check(guest, &hello, &session);
    }
    if (status != KVL_OK) {
        kvl_guest_refuse(guest, head.request, status, kvl_error_text());
        return;
    }
    ep_bind(guest, session, &hello);
    buf = kvl_sendbuf_get(&guest->server->pool, KVL_WIRE_MAX);
    if (!buf) {
        kvl_session_close(session, "out of memory");
        return;
    }
    kvl_put_ep_hello(&buf->writer, &hello);
    kvl_sendbuf_send(buf, &guest->endpoint, KVL_AM_EP_HELLO, KVL_MSG_EP_OK, head.request, KVL_OK);
}

/* several rails: what came before it on this endpoint is here */
bool kvl_session_echo(kvl_guest_t *guest, const kvl_am_t *am)
{
    kvl_msg_head_t head;
    kvl_sendbuf_t *buf;
    kvl_rbuf_t body;

    if (guest->endpoint.lane == KVL_LANE_CTRL || !am->data ||
        kvl_wire_open(&body, am->data, am->length, &head) != KVL_OK || head.type != KVL_MSG_PING) {
        return false;
    }
    buf = kvl_sendbuf_get(&guest->server->pool, KVL_WIRE_HEAD_SIZE);
    if (!buf) {
        kvl_session_close(guest->session, "out of memory");
        return true;
    }
    kvl_sendbuf_send(buf, &guest->endpoint, KVL_AM_EP_HELLO, KVL_MSG_PONG, head.request, KVL_OK);
    return true;
}

/* ---- ending, and small things ---- */

void kvl_session_close(kvl_session_t *session, const char *why)
{
    kvl_server_t *server = session->server;

    if (session->state != KVL_SESSION_OPEN) {
        return;
    }
    snprintf(session->why, sizeof(session->why), "%s", why);
    session->state = KVL_SESSION_LEAVING;
    server->session_count--;
    kvl_session_rails_end(session);
    kvl_session_ctrl_end(session);
    kvl_list_remove(&session->link);
    kvl_list_push_back(&server->leaving, &session->link);
}

void kvl_session_violation(kvl_session_t *session, const char *what)
{
    if (session->state == KVL_SESSION_OPEN) {
        session->server->stats.violations++;
        kvl_warn("server: session %016" PRIx64 ": %s broke the protocol: %s", session->id, session->name,
                 what);
        kvl_session_close(session, what);
    }
}

void kvl_session_set_data(kvl_session_t *session, void *data)
{
    session->data = data;
}

void *kvl_session_data(const kvl_session_t *session)
{
    return session->data;
}

uint64_t kvl_session_id(const kvl_session_t *session)
{
    return session->id;
}

const char *kvl_session_name(const kvl_session_t *session)
{
    return session->name;
}

const kvl_hello_ok_t *kvl_session_terms(const kvl_session_t *session)
{
    return &session->terms;
}
