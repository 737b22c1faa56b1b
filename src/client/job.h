/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of a cache share. A job is one batch of a cache; its entries are the items, checked
 * and copied; a flight is one entry on its way through the phases; an ask is one request under way.
 *
 *     put   TODO -> ASKED (RESERVE) -> MOVING -> READY -> COMMITTING (COMMIT) -> DONE
 *           a small value rides in RESERVE: TODO -> ASKED -> DONE
 *     get   TODO -> ASKED (LOOKUP) -> MOVING -> DONE, and the lease goes back with RELEASE
 *     query TODO -> in an ask -> DONE, no flight
 *
 * An entry ends exactly once (kvl_job_end). A job completes when every entry ended and it has neither
 * flight nor query left: then nothing touches the caller's memory. Flights and asks come from pools
 * of the cache that only grow, so that a warm cache allocates one block per batch. */
#ifndef KVL_CLIENT_JOB_H
#define KVL_CLIENT_JOB_H

#include "client/batch.h"
#include "lane/mover.h"
#include "link/link.h"
#include "wire/wire.h"

#include <kvlane/cache.h>

#define KVL_ASK_MAX    256  /* most flights of one request */
#define KVL_BACK_MAX   512  /* leases that wait to be given back, of each kind */
#define KVL_INLINE_CAP 8192 /* longest value inside a message, whatever the peer says */

typedef struct kvl_job kvl_job_t;
typedef struct kvl_ask kvl_ask_t;
typedef struct kvl_flight kvl_flight_t;

typedef enum {
    KVL_ENTRY_TODO,   /* nothing under way for it */
    KVL_ENTRY_FLYING, /* a flight or a query carries it */
    KVL_ENTRY_DONE    /* its result stands */
} kvl_entry_state_t;

typedef struct {
    const uint8_t *key;
    kvl_piece_t *pieces; /* segments after merging; offsets are set when a lease is there */
    uint64_t length;     /* sum of the segments */
    kvl_device_t *device; /* of those in device memory; NULL: none is */
    uint32_t piece_count;
    uint8_t key_length;
    uint8_t state; /* kvl_entry_state_t */
} kvl_entry_t;

typedef enum {
    KVL_FLIGHT_ASKED,     /* in a RESERVE or LOOKUP that has no answer for it yet */
    KVL_FLIGHT_MOVING,    /* leased, with the mover */
    KVL_FLIGHT_READY,     /* put: all bytes are there; waits for the next COMMIT message */
    KVL_FLIGHT_COMMITTING /* put: in a COMMIT that has no answer for it yet */
} kvl_flight_state_t;

struct kvl_flight {
    kvl_list_t link;  /* in job->flights, or cache->idle_flights */
    kvl_list_t ready; /* in cache->commits while READY */
    kvl_job_t *job;
    uint32_t index; /* of the entry */
    uint8_t state;  /* kvl_flight_state_t */
    bool inlined;   /* put: the value rides in RESERVE */
    bool small;     /* counts for job->small and not for the window */
    bool counted;   /* counts for either */
    uint16_t place; /* in ask->flights, while ASKED or COMMITTING */
    kvl_ask_t *ask;
    kvl_wire_lease_t lease;
    int64_t lease_end_ns; /* not used after this moment */
    kvl_move_t move;
};

/* Why a request brought no answer for a flight. */
typedef enum {
    KVL_LOST_UNSENT,  /* it never left: may be sent again */
    KVL_LOST_UNKNOWN, /* sent, and the link went down: its effects are unknown */
    KVL_LOST_REFUSED  /* the peer refused it as a whole; a status says why */
} kvl_lost_t;

/* One kind of request that carries flights. */
typedef struct {
    kvl_msg_type_t request, answer;
    /* Adds the flight's item at flight->place; false if there is no room. */
    bool (*add)(kvl_wbuf_t *w, kvl_flight_t *flight);
    /* Reads the next item of an answer and acts on it; KVL_ERR_PROTOCOL with a text. */
    kvl_status_t (*read)(kvl_ask_t *ask, kvl_rbuf_t *body);
    void (*lost)(kvl_flight_t *flight, kvl_lost_t how, kvl_status_t status);
} kvl_ask_kind_t;

struct kvl_ask {
    kvl_call_t call;
    kvl_list_t link; /* in cache->idle_asks, or job->queries */
    kvl_cache_t *cache;
    const kvl_ask_kind_t *kind; /* NULL: a query */
    unsigned count, left;       /* items sent, items without an answer */
    int64_t lease_end_ns;       /* of the leases that it asks for */
    kvl_job_t *job;             /* query: entries [first, first + count) of this job */
    uint32_t first;
    kvl_flight_t *flights[KVL_ASK_MAX]; /* NULL: its batch gave up; what comes is given back */
    uint64_t answered[KVL_ASK_MAX / 64];
};

typedef struct {
    uint64_t id;
    uint32_t generation;
} kvl_back_t;

typedef struct {
    kvl_back_t leases[KVL_BACK_MAX];
    unsigned count;
} kvl_back_list_t;

/* A thread that waits for the link (kvl_cache_connect). On its stack, under the engine's token. */
typedef struct {
    kvl_list_t link;
    _Atomic int flag;
    kvl_status_t status;
    char text[256];
} kvl_waiter_t;

struct kvl_cache {
    /* constant after create */
    kvl_engine_t *engine;
    const kvl_settings_t *settings;
    kvl_link_t *link;
    /* atomic */
    _Atomic bool closing; /* no new batches */
    _Atomic long open;    /* batches accepted and not complete; grows on any thread */
    _Atomic int quiet;    /* closing, and open fell to 0 */
    _Atomic int closed;   /* the link is closed */
    /* engine thread only */
    kvl_poller_t poller;
    kvl_tenant_t tenant;
    kvl_timer_t retry;             /* ends the earliest pause */
    kvl_list_t jobs;               /* attached and not complete (job->link) */
    kvl_list_t runnable;           /* to be looked at in this turn (job->run) */
    kvl_list_t paused;             /* until their pause_until_ns (job->run) */
    kvl_list_t commits;            /* flights that wait for COMMIT (flight->ready) */
    bool commit_urgent;            /* one of them is the last of its batch */
    unsigned moving;               /* flights with the mover */
    int64_t gather_since_ns;       /* the first commit or return that waits for others; 0: none */
    kvl_mode_t put_mode;           /* of the link, when the last COMMIT was built */
    int64_t hold_until_ns;         /* no commits and returns before: the ctrl lane was full */
    kvl_back_list_t reads, writes; /* leases to give back */
    kvl_list_t idle_flights, idle_asks;
    kvl_list_t waiters;
    uint64_t random;
};

struct kvl_job {
    kvl_batch_t batch;
    /* constant after submit */
    kvl_cache_t *cache;
    kvl_cache_op_t op;
    kvl_entry_t *entries;
    kvl_work_t work; /* the crossing from the submitter to the engine */
    /* engine thread only */
    kvl_list_t link, run;
    kvl_timer_t deadline; /* then: end of the quiesce time */
    kvl_flow_t flow;
    kvl_list_t flights, queries;
    size_t todo, cursor; /* entries to do; all before cursor are not */
    unsigned window;     /* entries asked for or moving ... */
    uint64_t window_bytes;
    unsigned small; /* ... and those whose value rides in the message */
    unsigned query_count;
    bool timers_reserved, started;
    kvl_status_t stop; /* KVL_OK, or why it ends early */
    unsigned starved;  /* failed allocations in a row */
    int64_t backoff_ns, pause_until_ns;
};

/* ---- job.c: memory, results, pauses ---- */
/* Checks and copies; error texts name the item and the field. Any thread. */
kvl_status_t kvl_job_create(kvl_cache_t *cache, kvl_cache_op_t op, const kvl_item_t *items,
                            size_t count, const kvl_batch_params_t *params, kvl_job_t **job_p);
void kvl_job_destroy(kvl_job_t *job);
/* Counts the job in (1) or out (-1) as a user of the regions that its pieces lie in. */
void kvl_job_hold(kvl_job_t *job, long step);
/* The entry's end. why: NULL or the reason and the way out, for the cause. */
void kvl_job_end(kvl_job_t *job, uint32_t index, kvl_status_t status, uint64_t stored,
                 const char *why);
void kvl_job_end_todo(kvl_job_t *job, kvl_status_t status, const char *why);
/* To be looked at in this turn. */
void kvl_job_wake(kvl_job_t *job);
/* Another try later: after a backoff (the node has no space now), or a moment (no buffer here). */
void kvl_job_back_off(kvl_job_t *job);
void kvl_job_pause(kvl_job_t *job, int64_t until_ns);
/* The next entry to do, its index in *index_p; NULL if none. */
kvl_entry_t *kvl_job_next(kvl_job_t *job, uint32_t *index_p);
void kvl_job_take(kvl_job_t *job, uint32_t index);    /* TODO -> FLYING */
void kvl_job_restart(kvl_job_t *job, uint32_t index); /* FLYING -> TODO, or ends a stopped job's */
uint32_t kvl_job_ttl_ms(const kvl_job_t *job);
/* A request could not be sent: a pause, then another try; after several in a row what is to do ends
 * with @a status. KVL_ERR_BUSY (no control buffer now) waits until the deadline. Returns false. */
bool kvl_job_starve(kvl_job_t *job, kvl_status_t status);

/* ---- flight.c ---- */
kvl_flight_t *kvl_flight_get(kvl_job_t *job, uint32_t index, bool small); /* NULL: no memory */
void kvl_flight_put(kvl_flight_t *flight);
void kvl_flight_uncount(kvl_flight_t *flight); /* it holds no place in the window any more */
/* Starts to move; the lease was checked. */
void kvl_flight_move(kvl_flight_t *flight, kvl_move_dir_t dir, const kvl_remote_region_t *region,
                     void (*done)(kvl_move_t *move, kvl_status_t status));
/* Ends the entry and the flight. */
void kvl_flight_end(kvl_flight_t *flight, kvl_status_t status, uint64_t stored, const char *why);
void kvl_flight_restart(kvl_flight_t *flight);
/* The answer of RESERVE or LOOKUP did not come, or said no. */
void kvl_flight_lost(kvl_flight_t *flight, kvl_lost_t how, kvl_status_t status);
#define KVL_NODE_SAYS "so says the node; its log has the reason"
void kvl_flight_refused(kvl_flight_t *flight, kvl_status_t status, const char *reason);
/* Region that a lease of @a length bytes lies in; NULL with an error text if it lies in none. */
const kvl_remote_region_t *kvl_lease_region(kvl_link_t *link, const kvl_wire_lease_t *lease,
                                            uint64_t length);
/* Gives a lease back with the next RELEASE (write false) or ABORT (write true). */
void kvl_lease_back(kvl_cache_t *cache, const kvl_wire_lease_t *lease, bool write);
unsigned kvl_lease_send(kvl_cache_t *cache); /* the number of messages sent */

/* ---- ask.c ---- */
kvl_ask_t *kvl_ask_get(kvl_cache_t *cache, const kvl_ask_kind_t *kind); /* NULL: no memory */
void kvl_ask_put(kvl_ask_t *ask);
/* Adds a flight to the message; false if there is no room for it. */
bool kvl_ask_add(kvl_ask_t *ask, kvl_wbuf_t *w, kvl_flight_t *flight);
/* Sends; not KVL_INPROGRESS: every flight was handed to kind->lost as unsent, the ask is gone. */
kvl_status_t kvl_ask_send(kvl_ask_t *ask, int64_t deadline_ns);
/* The flight that item @a index of an answer is about: NULL in *flight_p if its batch gave up.
 * KVL_ERR_PROTOCOL if there is no such item, or it was answered already. */
kvl_status_t kvl_ask_peek(kvl_ask_t *ask, unsigned index, kvl_flight_t **flight_p);
void kvl_ask_take(kvl_ask_t *ask, unsigned index); /* it is answered */
/* The flight's batch gives up; an answer for it is for nobody. */
void kvl_ask_detach(kvl_flight_t *flight);
/* Next messages of a put or get; returns how many were sent. */
unsigned kvl_ask_run(kvl_job_t *job, const kvl_ask_kind_t *kind);
kvl_status_t kvl_status_check(int32_t status); /* of an item: a known code, or KVL_ERR_PROTOCOL */

/* ---- put.c, get.c, query.c ---- */
unsigned kvl_put_run(kvl_job_t *job);
void kvl_commit_ready(kvl_flight_t *flight); /* its bytes are there: waits for the next COMMIT */
unsigned kvl_commit_run(kvl_cache_t *cache); /* sends what is READY */
unsigned kvl_get_run(kvl_job_t *job);
unsigned kvl_query_run(kvl_job_t *job);
/* The job stops: exists end at once, removes only when @a late. */
void kvl_query_stop(kvl_job_t *job, bool late);

/* ---- stop.c ---- */
/* An early end: status is KVL_ERR_TIMEOUT or KVL_ERR_CANCELED. The first one counts. */
void kvl_job_stop(kvl_job_t *job, kvl_status_t status);
void kvl_job_deadline(kvl_timer_t *timer); /* job->deadline */
void kvl_job_cancel(kvl_batch_t *batch);

/* ---- conductor.c ---- */
void kvl_conductor_attach(kvl_work_t *work); /* job->work */
unsigned kvl_conductor_poll(kvl_poller_t *poller);
void kvl_conductor_retry(kvl_timer_t *timer); /* cache->retry */
extern const kvl_link_ops_t kvl_conductor_link_ops;
void kvl_cache_hold(kvl_cache_t *cache); /* commits and returns wait a moment */
/* The link takes requests and moves now. */
bool kvl_cache_is_up(const kvl_cache_t *cache);
/* Fires cache->retry at @a at_ns or before. */
void kvl_cache_retry_at(kvl_cache_t *cache, int64_t at_ns);

/* ---- key.c ---- */
#define KVL_KEY_TEXT 48
/* The key for people: printable, cut, always terminated. */
const char *kvl_key_text(const uint8_t *key, size_t length, char text[KVL_KEY_TEXT]);

#endif
