/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of a server share. */
#ifndef KVL_LINK_SERVER_PRIVATE_H
#define KVL_LINK_SERVER_PRIVATE_H

#include "link/sendbuf.h"
#include "link/server.h"
#include "link/stream.h"

#define KVL_SESSION_ENDPOINTS(sg) (2u + (sg)) /* ctrl, data, sg; of one rail */
#define KVL_RAIL_NAME         64
#define KVL_SESSION_SENDS_MAX 1024 /* messages under way to one client: more means it reads nothing */

/* an accepted endpoint: unbound until HELLO (ctrl) or EP_HELLO (data, sg) tells its session */
typedef struct {
    kvl_endpoint_t endpoint;
    kvl_server_t *server;
    kvl_session_t *session; /* NULL: unbound */
    kvl_list_t link;        /* in server->unbound, session->guests or server->leaving_guests */
    uint64_t nonce;
    unsigned rail;          /* of the client; endpoint.rail is this engine's */
    kvl_timer_t timer;      /* unbound: the handshake's end */
    kvl_req_t close_req;
    bool closing, closed;
    bool refused;
    bool unwanted;          /* to be closed by the poller */
    kvl_list_t replies;     /* GET replies that wait for credit */
    unsigned reply_count;
} kvl_guest_t;

typedef struct {
    kvl_iov_t iov[KVL_WIRE_RANGES_MAX];
    kvl_piece_t places[KVL_WIRE_RANGES_MAX]; /* in device memory */
    uint8_t *packed; /* a reply's bytes, where that is faster than sending them as they lie */
    size_t packed_size;
} kvl_target_ranges_t;

/* one message-mode op on the target side, while UCX works on it */
typedef struct {
    kvl_req_t req;
    kvl_list_t link;
    kvl_guest_t *guest;
    kvl_session_t *session;
    kvl_data_head_t head;
    uint8_t head_bytes[KVL_DATA_HEAD_SIZE];
    kvl_iov_t iov;
    size_t iov_count;
    kvl_target_ranges_t *ranges; /* of an op with several (iov_count), instead of iov; kept for the next op */
    const kvl_mem_t *mem;
    void *cookie;
    bool own; /* on the session's scratch: the owner is not asked */
    kvl_device_t *device; /* of its memory; NULL: the rest is not used */
    kvl_piece_t place;    /* ... which iov, of a stage, stands for; of several ranges: ranges->places */
    bool pooled;          /* the stage is of the engine's pool, else of the heap */
    kvl_fence_t fence;
} kvl_target_op_t;

typedef enum {
    KVL_SESSION_OPEN,
    KVL_SESSION_LEAVING, /* to be closed by the poller */
    KVL_SESSION_CLOSING, /* endpoints are closing */
    KVL_SESSION_FLUSHING,/* workers flush; receives come back */
    KVL_SESSION_LIMBO    /* closed, but its client may still write to shared memory */
} kvl_session_state_t;

/* A worker flush for a session. It may outlive it: UCX 1.22 never ends a flush of shared memory after
 * some aborted rendezvous. */
typedef struct {
    kvl_req_t req;
    kvl_session_t *session; /* NULL: nobody waits any more */
} kvl_session_flush_t;

/* A rail of the client in a session (session_rails.c): joined by RAIL or, with one rail, by itself. It
 * stays, or goes: PAUSING, CLOSING its endpoints, FLUSHING the workers that
 * served it, if it moved bytes by RMA. Then RAIL_OK tells the client. */
typedef enum { KVL_RAIL_STAYS, KVL_RAIL_PAUSING, KVL_RAIL_CLOSING, KVL_RAIL_FLUSHING } kvl_rail_end_t;

typedef struct {
    bool joined, onesided;
    unsigned target; /* rail of this engine */
    bool bound_data;
    uint64_t bound_sg; /* bit: index of a bound sg endpoint */
    kvl_rail_end_t end;
    uint64_t request; /* to be answered when it is gone; 0: none */
    kvl_timer_t timer;
    kvl_session_flush_t *flushes[2];
    char name[KVL_RAIL_NAME]; /* the client's device */
} kvl_session_rail_t;

/* Where the ctrl lane of a session with several rails is (session_ctrl.c). */
typedef enum {
    KVL_CTRL_HERE,
    KVL_CTRL_PAUSING, /* its endpoint is lost */
    KVL_CTRL_AWAY     /* waits for the client to resume by another */
} kvl_session_ctrl_t;

struct kvl_session {
    kvl_server_t *server;
    kvl_list_t link; /* in server->sessions, leaving or limbo */
    kvl_session_state_t state;
    uint64_t id;
    kvl_hello_t hello;
    kvl_hello_ok_t terms;
    char name[2 * KVL_WIRE_TEXT_MAX];
    char why[256];
    kvl_guest_t *ctrl; /* NULL while AWAY */
    kvl_stream_t stream;
    kvl_session_ctrl_t ctrl_state;
    kvl_guest_t *ctrl_next;      /* asked to resume; waits for the end of those before it */
    uint64_t ctrl_next_received; /* its client has our messages up to this one */
    uint64_t ctrl_next_request;
    kvl_timer_t ctrl_timer;
    kvl_list_t guests; /* all of it, ctrl too */
    unsigned guest_count;
    kvl_session_rail_t rails[KVL_WIRE_RAILS_MAX]; /* by rail of the client */
    bool several;           /* it joined rails: one of them may fail alone */
    unsigned leaving_rails; /* of them, that do not stay */
    bool shared_memory, bye;
    bool stopped;      /* LEAVING: the owner knows */
    unsigned sends;    /* messages under way */
    unsigned ops;      /* message-mode ops under way */
    kvl_session_flush_t *flush_reqs[KVL_RAILS_MAX][2]; /* under way */
    unsigned flushes;
    int64_t flush_deadline_ns, next_look_ns;
    uint8_t *scratch;
    size_t scratch_length;
    void *data;
};

typedef struct {
    kvl_list_t link;
    kvl_conn_t *conn;
    uint64_t client_id;
} kvl_waiting_t;

struct kvl_server {
    kvl_engine_t *engine;
    const kvl_server_ops_t *ops;
    void *arg;
    kvl_poller_t poller;
    kvl_printer_t printer;
    kvl_list_t waiting;        /* connection requests */
    unsigned waiting_count;
    kvl_list_t unbound;        /* guests without a session */
    kvl_list_t leaving_guests; /* unbound guests that are closing */
    kvl_list_t sessions, leaving, limbo;
    unsigned session_count;
    unsigned leaving_rails; /* of all open sessions */
    unsigned away_ctrls;    /* open sessions whose ctrl lane is not HERE */
    kvl_sendpool_t pool;
    kvl_sendbuf_t *building;
    kvl_list_t idle_ops;
    kvl_list_t copying;        /* ops whose bytes are between device memory and their stage */
    kvl_server_stats_t stats;
    bool listening, closing;
    int64_t close_deadline_ns;
    void (*close_done)(void *arg);
    void *close_arg;
};

/* server.c */
void kvl_guest_drop(kvl_guest_t *guest); /* unbound ones; the poller closes it */
kvl_session_t *kvl_server_session_by_id(kvl_server_t *server, uint64_t id);
/* for another session; else KVL_ERR_LIMIT and what to raise */
kvl_status_t kvl_server_has_room(const kvl_server_t *server, unsigned sg_endpoints);

/* session.c */
void kvl_session_hello(kvl_guest_t *guest, const kvl_am_t *am);
void kvl_session_ep_hello(kvl_guest_t *guest, const kvl_am_t *am);
void kvl_session_ctrl(kvl_guest_t *guest, const kvl_am_t *am);
bool kvl_session_echo(kvl_guest_t *guest, const kvl_am_t *am); /* false: it is none */

void kvl_guest_bind(kvl_guest_t *guest, kvl_session_t *session);
void kvl_guest_refuse(kvl_guest_t *guest, uint64_t request, kvl_status_t status, const char *reason);

/* session_ctrl.c */
/* A ctrl endpoint of the session failed. Notes it only; any callback. */
void kvl_session_ctrl_lost(kvl_session_t *session, kvl_guest_t *guest, const char *why);
/* An unbound guest's first message is RESUME. */
kvl_status_t kvl_session_resume(kvl_guest_t *guest, const kvl_msg_head_t *head, kvl_rbuf_t *body);
bool kvl_server_resumes(const kvl_server_t *server, uint64_t nonce); /* may that engine come to resume? */
unsigned kvl_session_ctrl_step(kvl_server_t *server);
void kvl_session_ctrl_end(kvl_session_t *session); /* it is not open any more */

/* session_rails.c */
bool kvl_session_rail_stays(const kvl_session_t *session); /* any */
unsigned kvl_session_endpoints(const kvl_session_t *session); /* that were agreed, of all rails */
bool kvl_session_put_regions(kvl_session_t *session, kvl_wbuf_t *w, unsigned rail);
bool kvl_session_put_rails(kvl_session_t *session, kvl_wbuf_t *w);
void kvl_session_rail(kvl_session_t *session, const kvl_msg_head_t *head, kvl_rbuf_t *body);
/* an endpoint of that rail of the client failed */
void kvl_session_rail_lost(kvl_session_t *session, unsigned rail);
unsigned kvl_session_rails_step(kvl_server_t *server);
void kvl_session_rails_end(kvl_session_t *session);  /* it is not open any more */
void kvl_session_rails_free(kvl_session_t *session); /* nothing of it may call back */
/* The session and this engine's rail for a data or sg connection; NULL: nobody expects it. */
kvl_session_t *kvl_server_expects(kvl_server_t *server, uint64_t client_id, unsigned *target_p);

/* leave.c */
void kvl_guest_close(kvl_guest_t *guest);
bool kvl_guest_is_over(const kvl_guest_t *guest);
void kvl_guest_free(kvl_guest_t *guest);
#define KVL_PEER_PAUSE (20 * KVL_MS) /* after the loss of a rail or ctrl: what else ends with it is heard of */
unsigned kvl_server_leave_step(kvl_server_t *server);
void kvl_session_retired(kvl_server_t *server, uint64_t nonce, uint64_t id);
void kvl_session_free(kvl_session_t *session);

/* target.c */
kvl_status_t kvl_target_put(kvl_guest_t *guest, const kvl_am_t *am);
kvl_status_t kvl_target_get(kvl_guest_t *guest, const kvl_am_t *am);
void kvl_target_pump(kvl_guest_t *guest);
/* ends the replies that were not posted; those at UCX end by themselves */
void kvl_target_stop(kvl_guest_t *guest);
void kvl_target_cleanup(kvl_server_t *server);
unsigned kvl_target_step(kvl_server_t *server); /* copies that are over */
/* the target half of a client's self-test */
void kvl_target_selftest(kvl_session_t *session, const kvl_msg_head_t *head, kvl_rbuf_t *body);

#endif
