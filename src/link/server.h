/* SPDX-License-Identifier: BSD-3-Clause */
/* The acceptor's side: a listener, its sessions, and the target half of message mode. The owner
 * (node or transport) supplies the meaning through kvl_server_ops_t. Engine thread only.
 *
 * A session's life: OPEN (ctrl accepted, HELLO seen) -> CLOSING (every endpoint force-closed, then
 * the lanes' workers flushed, then receives under way are back) -> closed() -> gone. closed() says
 * whether the memory is quiet: over shared memory a live client that did not say goodbye can still
 * write; quiet() then follows when the process is dead or it retired the session (promise 5). */
#ifndef KVL_LINK_SERVER_H
#define KVL_LINK_SERVER_H

#include "engine/engine.h"
#include "wire/wire.h"

typedef struct kvl_server  kvl_server_t;
typedef struct kvl_session kvl_session_t;

/* Where the bytes of a message-mode op go or come from; filled by the owner. */
typedef struct {
    void *address;
    size_t length;
    const kvl_mem_t *mem; /* rail of the endpoint; may be NULL */
    void *cookie;         /* handed back to the done call */
    kvl_device_t *device; /* whose memory it is; NULL: host memory */
} kvl_target_t;

typedef struct {
    /* A client says HELLO. Fill the terms (depth ... in force are already the minima of both sides);
     * KVL_OK accepts; else it is refused with that status and kvl_error_text(). */
    kvl_status_t (*hello)(void *arg, kvl_session_t *session, const kvl_hello_t *hello,
                          kvl_hello_ok_t *terms);
    /* The regions that go into HELLO_OK. */
    size_t (*regions)(void *arg, kvl_session_t *session, kvl_region_t **regions, size_t max);
    /* The self-test's scratch memory of this session (terms.scratch_*); NULL: none. */
    void *(*scratch)(void *arg, kvl_session_t *session, size_t *length_p);
    /* A ctrl request that the server does not answer itself (HELLO, EP_HELLO, SELFTEST, PING and BYE
     * are its own). Answer by kvl_session_begin() and kvl_session_send(), now or later. Bytes that
     * make no sense: kvl_session_violation(). */
    void (*message)(void *arg, kvl_session_t *session, const kvl_msg_head_t *head, kvl_rbuf_t *body);
    /* A message-mode op arrived: check token, session, range; KVL_OK and a target, or a status that
     * refuses it (put: the bytes are dropped and counted; get: the reply carries the status). A head with
     * ranges (of scope 1): each is checked, and the target is all of the region. */
    kvl_status_t (*put)(void *arg, kvl_session_t *session, const kvl_endpoint_t *endpoint,
                        const kvl_data_head_t *head, kvl_target_t *target);
    void (*put_done)(void *arg, kvl_session_t *session, const kvl_data_head_t *head, void *cookie,
                     kvl_status_t status);
    kvl_status_t (*get)(void *arg, kvl_session_t *session, const kvl_endpoint_t *endpoint,
                        const kvl_data_head_t *head, kvl_target_t *target);
    void (*get_done)(void *arg, kvl_session_t *session, const kvl_data_head_t *head, void *cookie,
                     kvl_status_t status);
    /* The session is going: no message or op of it will be handed up any more. */
    void (*closing)(void *arg, kvl_session_t *session);
    /* All endpoints are closed, workers flushed, every put_done/get_done has fired. quiet false: see
     * above; the session object stays until quiet() was called. */
    void (*closed)(void *arg, kvl_session_t *session, bool quiet);
    void (*quiet)(void *arg, kvl_session_t *session);
} kvl_server_ops_t;

typedef struct {
    kvl_engine_t *engine;
    const char *listen; /* "host:port" */
    const kvl_server_ops_t *ops;
    void *arg;
} kvl_server_params_t;

kvl_status_t kvl_server_create(const kvl_server_params_t *params, kvl_server_t **server_p);
void kvl_server_address(const kvl_server_t *server, char *text, size_t size);
/* Stops accepting; closes every session (at once, or once they are idle until deadline_ns); done()
 * fires once all are closed. */
void kvl_server_close(kvl_server_t *server, int64_t deadline_ns, void (*done)(void *arg), void *arg);
void kvl_server_destroy(kvl_server_t *server); /* after done(), NULL is accepted */

/* ---- session ---- */
void kvl_session_set_data(kvl_session_t *session, void *data); /* the owner's object */
void *kvl_session_data(const kvl_session_t *session);
uint64_t kvl_session_id(const kvl_session_t *session);
const char *kvl_session_name(const kvl_session_t *session); /* "name@address", for logs */
const kvl_hello_ok_t *kvl_session_terms(const kvl_session_t *session);
/* Its client has several rails: what one of them lost is sent again over the others. */
bool kvl_session_repeats(const kvl_session_t *session);

/* Writer for one answer or message; NULL without memory. begin, add items, then send. Finished
 * messages wait if the endpoint is busy; a client that reads nothing is closed at a bound. */
kvl_wbuf_t *kvl_session_begin(kvl_session_t *session);
void kvl_session_send(kvl_session_t *session, kvl_msg_type_t type, uint64_t request,
                      kvl_status_t status);
/* Answers a request as a whole with a refusal and a reason. */
void kvl_session_refuse(kvl_session_t *session, uint64_t request, kvl_status_t status,
                        const char *reason);
/* The client broke the protocol: logs with its name, counts, closes the session. */
void kvl_session_violation(kvl_session_t *session, const char *what);
/* Closes the session for another reason (lease expired, drain). Idempotent. */
void kvl_session_close(kvl_session_t *session, const char *why);

typedef struct {
    uint64_t sessions, accepted, rejected, violations, dropped_ops, closed_not_quiet;
    uint64_t puts, gets, bytes_put, bytes_got; /* message mode */
} kvl_server_stats_t;
void kvl_server_stats(const kvl_server_t *server, kvl_server_stats_t *stats_p);

#endif
