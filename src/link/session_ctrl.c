/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/error.h"
#include "base/fault.h"
#include "base/log.h"
#include "link/server_private.h"

#include <inttypes.h>

/* The ctrl lane of a session: SELFTEST, PING, RAIL and BYE are answered here, everything else goes up to the
 * owner.
 *
 * The ctrl lane of a client with several rails may lose its rail while the others go on. Its session then
 * stays, with all leases, and waits for the client to come by another (RESUME); what it has to say meanwhile
 * waits in the stream. A session whose rails are gone as well has nobody to wait for.
 *
 *   HERE -> PAUSING (lost) -> AWAY -> HERE (RESUME_OK; both sides send what the other has not got)
 *
 * Endpoints of the ctrl lane that are neither ctrl nor ctrl_next are closed here; RESUME_OK waits until the
 * last of them is gone, so that no message of theirs can come after it. */

#define RESUME_WAIT (10 * KVL_SECOND)

static void timer_over(kvl_timer_t *timer)
{
    (void)timer; /* the engine turns: what waited is looked at */
}

static void ctrl_wait(kvl_session_t *session, int64_t time_ns)
{
    (void)kvl_timer_set(kvl_engine_timers(session->server->engine), &session->ctrl_timer,
                        kvl_time_add(kvl_now_ns(), time_ns), timer_over);
}

/* ---- requests ---- */

static void session_short(kvl_session_t *session, const kvl_msg_head_t *head, kvl_msg_type_t type)
{
    if (kvl_session_begin(session)) {
        kvl_session_send(session, type, head->request, KVL_OK);
    }
}

static void session_request(kvl_session_t *session, const kvl_am_t *am)
{
    kvl_server_t *server = session->server;
    kvl_msg_head_t head;
    kvl_rbuf_t body;

    if (kvl_fault(KVL_FAULT_CTRL_RECV).action == KVL_FAULT_DROP) {
        return;
    }
    if (!am->data || kvl_wire_open(&body, am->data, am->length, &head) != KVL_OK) {
        kvl_session_violation(session, am->data ? kvl_error_text() : "a control message by rendezvous");
        return;
    }
    switch (head.type) {
    case KVL_MSG_SELFTEST:
        kvl_target_selftest(session, &head, &body);
        break;
    case KVL_MSG_PING:
        session_short(session, &head, KVL_MSG_PONG);
        break;
    case KVL_MSG_RAIL:
        kvl_session_rail(session, &head, &body);
        break;
    case KVL_MSG_BYE:
        session->bye = true;
        session_short(session, &head, KVL_MSG_BYE_OK);
        break;
    case KVL_MSG_HELLO:
        kvl_session_violation(session, "a second HELLO");
        break;
    default:
        server->ops->message(server->arg, session, &head, &body);
        break;
    }
}

void kvl_session_ctrl(kvl_guest_t *guest, const kvl_am_t *am)
{
    kvl_session_t *session = guest->session;

    if (guest != session->ctrl) {
        return; /* it was replaced, or has to wait: what it says comes again */
    }
    switch (kvl_stream_take(&session->stream, am)) {
    case KVL_STREAM_EMPTY:
        return;
    case KVL_STREAM_WRONG:
        kvl_session_violation(session, kvl_error_text());
        return;
    case KVL_STREAM_NEXT:
    default:
        session_request(session, am);
    }
    if (session->state == KVL_SESSION_OPEN) {
        kvl_stream_confirm(&session->stream, &session->server->pool, &guest->endpoint);
    }
}

/* ---- lost ---- */

static void ctrl_pause(kvl_session_t *session, bool failed)
{
    if (session->ctrl_state == KVL_CTRL_HERE) {
        session->server->away_ctrls++;
    }
    kvl_stream_hold(&session->stream);
    session->ctrl_state = KVL_CTRL_PAUSING;
    if (failed) {
        ctrl_wait(session, KVL_PEER_PAUSE);
    } else {
        kvl_timer_cancel(kvl_engine_timers(session->server->engine), &session->ctrl_timer);
    }
}

void kvl_session_ctrl_lost(kvl_session_t *session, kvl_guest_t *guest, const char *why)
{
    if (session->state != KVL_SESSION_OPEN) {
        return;
    }
    if (guest == session->ctrl_next) {
        session->ctrl_next = NULL;
        ctrl_pause(session, true);
        return;
    }
    if (guest != session->ctrl || session->ctrl_state != KVL_CTRL_HERE) {
        return;
    }
    if (session->bye || !session->stream.on || !kvl_session_rail_stays(session)) {
        kvl_session_close(session, session->bye ? "goodbye" : why);
        return;
    }
    kvl_info("server: session %016" PRIx64 ": its ctrl lane is lost: %s", session->id, why);
    ctrl_pause(session, true);
}

/* ---- it comes again ---- */

static kvl_session_t *session_of(const kvl_server_t *server, uint64_t nonce, uint64_t id)
{
    const kvl_list_t *node;

    for (node = server->sessions.next; node != &server->sessions; node = node->next) {
        kvl_session_t *session = kvl_container(node, kvl_session_t, link);

        if (session->hello.nonce == nonce && (!id || session->id == id) && session->stream.on) {
            return session;
        }
    }
    return NULL;
}

bool kvl_server_resumes(const kvl_server_t *server, uint64_t nonce)
{
    return session_of(server, nonce, 0) != NULL;
}

kvl_status_t kvl_session_resume(kvl_guest_t *guest, const kvl_msg_head_t *head, kvl_rbuf_t *body)
{
    kvl_wire_resume_t resume;
    kvl_session_t *session;
    kvl_status_t status = kvl_get_resume(body, &resume);

    if (status == KVL_OK) {
        status = kvl_wire_close(body);
    }
    if (status != KVL_OK) {
        return status;
    }
    session = resume.session ? session_of(guest->server, guest->nonce, resume.session) : NULL;
    if (!session) {
        return kvl_error(KVL_ERR_REFUSED, "RESUME of a session that is not open");
    }
    kvl_guest_bind(guest, session);
    session->ctrl_next          = guest;
    session->ctrl_next_received = resume.received;
    session->ctrl_next_request  = head->request;
    if (session->ctrl_state == KVL_CTRL_HERE) { /* it knows before we do */
        ctrl_pause(session, session->ctrl->endpoint.failed);
    }
    return KVL_OK;
}

/* ---- the poller ---- */

/* closes and frees those that were replaced; true if none is left */
static bool replaced_are_gone(kvl_session_t *session)
{
    kvl_list_t *node, *next;
    bool gone = true;

    for (node = session->guests.next; node != &session->guests; node = next) {
        kvl_guest_t *guest = kvl_container(node, kvl_guest_t, link);

        next = node->next;
        if (guest->endpoint.lane != KVL_LANE_CTRL || guest == session->ctrl || guest == session->ctrl_next) {
            continue;
        }
        if (!guest->closing) {
            kvl_guest_close(guest);
        }
        if (kvl_guest_is_over(guest)) {
            kvl_guest_free(guest);
            session->guest_count--;
        } else {
            gone = false;
        }
    }
    return gone;
}

static void resume_answer(kvl_session_t *session, uint64_t request)
{
    kvl_wire_resume_t answer = {session->id, session->stream.received};
    kvl_sendbuf_t *buf       = kvl_sendbuf_get(&session->server->pool, KVL_WIRE_HEAD_SIZE);

    if (!buf) {
        kvl_session_close(session, "no buffer for RESUME_OK");
        return;
    }
    kvl_put_resume(&buf->writer, &answer);
    (void)kvl_sendbuf_send(buf, &session->ctrl->endpoint, KVL_AM_CTRL, KVL_MSG_RESUME_OK, request, KVL_OK);
}

static void ctrl_return(kvl_session_t *session)
{
    kvl_timer_cancel(kvl_engine_timers(session->server->engine), &session->ctrl_timer);
    session->ctrl       = session->ctrl_next;
    session->ctrl_next  = NULL;
    session->ctrl_state = KVL_CTRL_HERE;
    session->server->away_ctrls--;
    kvl_info("server: session %016" PRIx64 ": its ctrl lane is back, at %s", session->id,
             kvl_engine_rail_name(session->server->engine, session->ctrl->endpoint.rail));
    resume_answer(session, session->ctrl_next_request);
    if (session->state == KVL_SESSION_OPEN &&
        kvl_stream_resume(&session->stream, &session->ctrl->endpoint, session->ctrl_next_received) != KVL_OK) {
        kvl_session_violation(session, kvl_error_text());
    }
}

static unsigned ctrl_step(kvl_session_t *session)
{
    bool waits = kvl_timer_armed(&session->ctrl_timer);

    if (session->ctrl_state == KVL_CTRL_PAUSING) {
        if (waits) {
            return 0;
        }
        session->ctrl       = NULL;
        session->ctrl_state = KVL_CTRL_AWAY;
        ctrl_wait(session, RESUME_WAIT);
        return 1;
    }
    if (replaced_are_gone(session) && session->ctrl_next) {
        ctrl_return(session);
        return 1;
    }
    if (!waits || (!session->ctrl_next && !kvl_session_rail_stays(session))) {
        kvl_session_close(session, "its ctrl lane did not come back");
        return 1;
    }
    return 0;
}

unsigned kvl_session_ctrl_step(kvl_server_t *server)
{
    kvl_list_t *node, *next;
    unsigned n = 0;

    for (node = server->sessions.next; server->away_ctrls && node != &server->sessions; node = next) {
        kvl_session_t *session = kvl_container(node, kvl_session_t, link);

        next = node->next;
        if (session->ctrl_state != KVL_CTRL_HERE) {
            n += ctrl_step(session);
        }
    }
    return n;
}

void kvl_session_ctrl_end(kvl_session_t *session)
{
    kvl_timer_cancel(kvl_engine_timers(session->server->engine), &session->ctrl_timer);
    if (session->ctrl_state != KVL_CTRL_HERE) {
        session->server->away_ctrls--;
        session->ctrl_state = KVL_CTRL_HERE;
    }
    kvl_stream_drop(&session->stream);
}
