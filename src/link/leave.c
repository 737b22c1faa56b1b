/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/alloc.h"
#include "base/log.h"
#include "engine/process.h"
#include "link/server_private.h"

#include <inttypes.h>

/* How a session ends, so that its slots can be used again without a late byte (promise 5):
 *
 *   LEAVING   no more work for it; force-close all its endpoints (only here, never in a callback)
 *   CLOSING   wait for the close requests and for every op of the endpoints
 *   FLUSHING  flush the data and sg workers: completion of a forced close alone does not stop writes,
 *             a worker flush after it does; wait for receives under way
 *   closed()  quiet, or LIMBO: over shared memory a live client keeps a mapping that we can't revoke;
 *             quiet once its process is dead, or it told (BYE, or a retired session in a later HELLO)
 *
 * A flush covers a whole worker, so another client that hangs can hold it up, and some versions of UCX
 * never end it: after FLUSH_TIMEOUT the session goes to LIMBO and its slots wait. */

#define FLUSH_TIMEOUT (5 * KVL_SECOND)
#define LOOK_PAUSE    (100 * KVL_MS)

static void guest_closed(kvl_req_t *req, kvl_status_t status)
{
    (void)status;
    kvl_container(req, kvl_guest_t, close_req)->closed = true;
}

void kvl_guest_close(kvl_guest_t *guest)
{
    kvl_timer_cancel(kvl_engine_timers(guest->server->engine), &guest->timer);
    kvl_target_stop(guest);
    guest->endpoint.failed = true;
    guest->closing         = true;
    guest->close_req.done  = guest_closed;
    if (kvl_ep_close(guest->endpoint.ep, true, &guest->close_req) != KVL_INPROGRESS) {
        guest->closed = true;
    }
}

bool kvl_guest_is_over(const kvl_guest_t *guest)
{
    return guest->closed && !kvl_ep_pending(guest->endpoint.ep);
}

void kvl_guest_free(kvl_guest_t *guest)
{
    kvl_list_remove(&guest->link);
    kvl_ep_destroy(guest->endpoint.ep);
    kvl_free(guest);
}

/* ---- unbound guests ---- */

static unsigned guests_step(kvl_server_t *server)
{
    kvl_list_t *node, *next;
    unsigned n = 0;

    for (node = server->leaving_guests.next; node != &server->leaving_guests; node = next) {
        kvl_guest_t *guest = kvl_container(node, kvl_guest_t, link);

        next = node->next;
        if (!guest->closing) {
            kvl_guest_close(guest);
            n++;
        }
        if (kvl_guest_is_over(guest)) {
            kvl_guest_free(guest);
            n++;
        }
    }
    return n;
}

/* ---- sessions ---- */

static void flush_done(kvl_req_t *req, kvl_status_t status)
{
    kvl_session_flush_t *flush = kvl_container(req, kvl_session_flush_t, req);
    kvl_session_t *session     = flush->session;
    unsigned i;

    (void)status; /* a failed flush of a worker whose endpoints are gone is over as well */
    for (i = 0; session && i < 2 * KVL_RAILS_MAX; i++) {
        if (session->flush_reqs[i / 2][i % 2] == flush) {
            session->flush_reqs[i / 2][i % 2] = NULL;
            session->flushes--;
        }
    }
    kvl_free(flush);
}

static void session_flush_worker(kvl_session_t *session, unsigned rail, unsigned i)
{
    kvl_worker_t *worker       = kvl_engine_worker(session->server->engine, rail,
                                                   i ? KVL_LANE_SG : KVL_LANE_DATA);
    kvl_session_flush_t *flush = kvl_malloc(sizeof(*flush));

    session->flushes++; /* stays if there is no memory: then only the client's death is proof */
    if (!flush) {
        return;
    }
    *flush = (kvl_session_flush_t){.req = {.done = flush_done}, .session = session};
    session->flush_reqs[rail][i] = flush;
    if (kvl_worker_flush(worker, &flush->req) != KVL_INPROGRESS) {
        flush_done(&flush->req, KVL_OK);
    }
}

static void session_flush(kvl_session_t *session)
{
    unsigned rail;

    session->state             = KVL_SESSION_FLUSHING;
    session->flush_deadline_ns = kvl_time_add(kvl_now_ns(), FLUSH_TIMEOUT);
    for (rail = 0; rail < kvl_engine_rails(session->server->engine); rail++) {
        session_flush_worker(session, rail, 0);
        session_flush_worker(session, rail, 1);
    }
}

static void session_stop(kvl_session_t *session)
{
    kvl_server_t *server = session->server;

    session->stopped = true;
    kvl_info("server: session %016" PRIx64 ": %s leaves: %s", session->id, session->name, session->why);
    server->ops->closing(server->arg, session);
}

static unsigned session_leave(kvl_session_t *session)
{
    kvl_list_t *node;

    if (!session->stopped) {
        session_stop(session);
    }
    session->state = KVL_SESSION_CLOSING;
    for (node = session->guests.next; node != &session->guests; node = node->next) {
        kvl_guest_t *guest = kvl_container(node, kvl_guest_t, link);

        if (!guest->closing) { /* its rail left before */
            kvl_guest_close(guest);
        }
    }
    return 1;
}

static bool session_is_closed(kvl_session_t *session)
{
    kvl_list_t *node;

    for (node = session->guests.next; node != &session->guests; node = node->next) {
        if (!kvl_guest_is_over(kvl_container(node, kvl_guest_t, link))) {
            return false;
        }
    }
    return session->sends == 0;
}

static void session_drop_guests(kvl_session_t *session)
{
    while (!kvl_list_empty(&session->guests)) {
        kvl_guest_free(kvl_container(session->guests.next, kvl_guest_t, link));
    }
    session->ctrl = NULL;
}

/* can nobody write into its slots any more? */
static bool session_is_quiet(kvl_session_t *session)
{
    if (session->ops) {
        return false;
    }
    if (!session->shared_memory) {
        return !session->flushes;
    }
    /* over shared memory the client's own processor writes: a dead one writes no more, flushed or not */
    return (session->bye && !session->flushes) || kvl_process_is_dead(&session->hello);
}

void kvl_session_free(kvl_session_t *session)
{
    unsigned i;

    for (i = 0; i < 2 * KVL_RAILS_MAX; i++) {
        if (session->flush_reqs[i / 2][i % 2]) {
            session->flush_reqs[i / 2][i % 2]->session = NULL;
        }
    }
    kvl_session_rails_free(session);
    kvl_list_remove(&session->link);
    kvl_free(session);
}

static void session_closed(kvl_session_t *session)
{
    kvl_server_t *server = session->server;
    bool quiet           = session_is_quiet(session);

    session->state = KVL_SESSION_LIMBO;
    kvl_list_remove(&session->link);
    kvl_list_push_back(&server->limbo, &session->link);
    session->next_look_ns = kvl_time_add(kvl_now_ns(), LOOK_PAUSE);
    if (!quiet) {
        server->stats.closed_not_quiet++;
        kvl_warn("server: session %016" PRIx64 ": %s is gone, but may still write to shared memory: its "
                 "slots stay in quarantine until its process ends",
                 session->id, session->name);
    }
    server->ops->closed(server->arg, session, quiet);
    if (quiet) {
        kvl_session_free(session);
    }
}

static unsigned session_step(kvl_session_t *session)
{
    switch (session->state) {
    case KVL_SESSION_LEAVING:
        return session_leave(session);
    case KVL_SESSION_CLOSING:
        if (session_is_closed(session)) {
            session_drop_guests(session);
            session_flush(session);
            return 1;
        }
        return 0;
    case KVL_SESSION_FLUSHING:
        if ((!session->flushes && !session->ops) || kvl_now_ns() >= session->flush_deadline_ns) {
            session_closed(session);
            return 1;
        }
        return 0;
    default:
        return 0;
    }
}

static void session_quiet(kvl_session_t *session)
{
    kvl_server_t *server = session->server;

    kvl_info("server: session %016" PRIx64 ": quiet now", session->id);
    server->ops->quiet(server->arg, session);
    kvl_session_free(session);
}

static unsigned limbo_step(kvl_server_t *server)
{
    kvl_list_t *node, *next;
    unsigned n = 0;

    for (node = server->limbo.next; node != &server->limbo; node = next) {
        kvl_session_t *session = kvl_container(node, kvl_session_t, link);
        int64_t now            = kvl_engine_now(server->engine);

        next = node->next;
        if (now < session->next_look_ns) {
            continue; /* looking costs a system call */
        }
        session->next_look_ns = kvl_time_add(now, LOOK_PAUSE);
        if (session_is_quiet(session)) {
            session_quiet(session);
            n++;
        }
    }
    return n;
}

unsigned kvl_server_leave_step(kvl_server_t *server)
{
    kvl_list_t *node, *next;
    unsigned n = guests_step(server) + kvl_session_rails_step(server) + kvl_session_ctrl_step(server);

    for (node = server->leaving.next; node != &server->leaving; node = next) {
        next = node->next;
        n += session_step(kvl_container(node, kvl_session_t, link));
    }
    return n + limbo_step(server);
}

/* the engine says that all its callbacks of that session ran: as good as a goodbye */
void kvl_session_retired(kvl_server_t *server, uint64_t nonce, uint64_t id)
{
    kvl_list_t *lists[] = {&server->sessions, &server->leaving, &server->limbo};
    kvl_list_t *node;
    unsigned i;

    for (i = 0; i < 3; i++) {
        for (node = lists[i]->next; node != lists[i]; node = node->next) {
            kvl_session_t *session = kvl_container(node, kvl_session_t, link);

            if (session->id == id && session->hello.nonce == nonce) {
                session->bye          = true;
                session->next_look_ns = 0;
                kvl_session_close(session, "the client opened a new session");
                return;
            }
        }
    }
}
