/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of src/ucx share. Nobody else includes this. */
#ifndef KVL_UCX_PRIVATE_H
#define KVL_UCX_PRIVATE_H

#include "ucx/option_list.h"
#include "ucx/ucx.h"

#include "base/fault.h"

#include <dirent.h>
#include <stdatomic.h>
#include <ucp/api/ucp.h>

/* Longest message that this folder takes from UCX text output; longer ones are cut. */
#define KVL_UCX_TEXT_MAX 256

/* Version of the libucp that is loaded, comparable with UCP_VERSION(major, minor). Behaviour is
 * chosen by this one, never by the headers: they only say which names compile. */
unsigned kvl_ucx_api(void);

struct kvl_context {
    ucp_context_h ucp;
    kvl_options_t *options; /* constant after create */
    bool pins;              /* constant after create: RDMA, so that registered memory is locked */
    bool cuda;              /* constant after create: a GPU's memory can be registered, and put as it is */
    size_t slice_bytes;     /* constant after create: longest registration */
    unsigned workers;      /* engine thread only: live objects */
    bool haunted;          /* engine thread only: UCX's worker of a destroyed one is still there */
    _Atomic unsigned mems; /* atomic: regions come and go on any thread */
    _Atomic uint64_t registrations; /* atomic: ever made */
};

#define KVL_EP_BUCKETS 64
#define KVL_AM_IDS_MAX 16

/* argument of UCX's handler: it is not told the id */
typedef struct {
    kvl_worker_t *worker;
    unsigned id;
} kvl_am_handler_t;

struct kvl_worker {
    ucp_worker_h ucp;
    kvl_context_t *context;
    kvl_worker_params_t params; /* constant after create */
    int fd;                     /* constant after create */
    bool memh;                  /* constant: this UCX honours memory handles everywhere */
    bool needs_memh;            /* constant: messages without a memory handle go as an IOV (am.c) */
    bool proto_v2;              /* constant: ... and chooses protocols the new way */
    kvl_am_handler_t handlers[KVL_AM_IDS_MAX]; /* constant after create */
    unsigned eps;                              /* engine thread only: live wrappers */
    kvl_list_t reqs;                           /* engine thread only: kvl_req_t that are not done */
    bool ended;                                /* destroyed, all but this object: it has endpoints */
    kvl_list_t closing;                        /* eps whose graceful close can go on */
    kvl_list_t waiting;                        /* kvl_req_t: flushes that wait for others to end */
    unsigned flushes;                          /* under way */
    kvl_list_t retired;                        /* listeners that accept nothing any more */
    kvl_list_t buckets[KVL_EP_BUCKETS];        /* eps by their ucp handle */
    kvl_list_t peers;                          /* all workers of the process; events.c has the lock */
    _Atomic uint64_t closes;                   /* of its sockets, whose numbers wait for it; events.c */
    uint64_t seen;                             /* of these, by its last progress */
};

/* open: ops are accepted. draining: a graceful close waits for requests. flushing: ... for its
 * flush. closed: the ucp handle is gone, requests may still be under way. */
typedef enum { EP_OPEN, EP_DRAINING, EP_FLUSHING, EP_CLOSED } ep_state_t;

struct kvl_ep {
    kvl_worker_t *worker;
    ucp_ep_h ucp; /* NULL once closed */
    ep_state_t state;
    void (*failed)(kvl_ep_t *ep, kvl_status_t status, void *arg);
    void *arg;
    bool told;                /* failed() ran */
    bool shared;              /* over shared memory: keys are mapped, puts and gets are copies */
    unsigned pending;         /* requests that are not done */
    unsigned receiving;       /* ... of them, those that wait for the peer's bytes */
    int64_t connect_delay_ns; /* fault ep.connect:delay, spent by the first flush */
    kvl_req_t *close_req;     /* while EP_DRAINING and EP_FLUSHING */
    kvl_list_t bucket;        /* worker->buckets */
    kvl_list_t closing;       /* worker->closing */
    char peer[80];
};

/* constant after create */
struct kvl_mem {
    kvl_context_t *context;
    void *address;
    size_t length, slice_bytes; /* of each slice but the last */
    unsigned count;
    bool device;
    ucp_mem_h slices[];
};

static inline ucp_mem_h kvl_mem_handle(const kvl_mem_t *mem, const void *address)
{
    return mem->slices[kvl_mem_slice_of(mem, address)];
}

struct kvl_rkey {
    ucp_rkey_h ucp;
};

struct kvl_ucx_listener {
    ucp_listener_h ucp;
    kvl_worker_t *worker;
    kvl_conn_func_t func; /* NULL: retired */
    void *arg;
    kvl_addr_t addr;
    kvl_list_t waiting; /* kvl_conn_t */
    kvl_list_t link;    /* in worker->retired */
    DIR *files;         /* of this process; where the sweep is */
    bool guarded;       /* its socket has a filter */
    int last_fd;        /* socket of the request accepted last */
};

struct kvl_conn {
    kvl_ucx_listener_t *listener;
    ucp_conn_request_h ucp;
    kvl_list_t link;
    struct sockaddr_storage client;
    char peer[80];
};

/* listen.c: with the worker, see there */
void kvl_ucx_listeners_free(kvl_worker_t *worker);
/* door.c: once it listens; before a request is accepted; before the listener is destroyed */
void kvl_ucx_listener_guard(kvl_ucx_listener_t *listener);
void kvl_ucx_listener_admit(kvl_ucx_listener_t *listener, const struct sockaddr_storage *peer);
void kvl_ucx_listener_quiet(kvl_ucx_listener_t *listener);

/* ---- events.c ---- */
/* Between these two, numbers of sockets wait for the worker. */
void kvl_events_watch(kvl_worker_t *worker);
void kvl_events_unwatch(kvl_worker_t *worker);
/* It was progressed: of its sockets, @a seen had been closed before that. */
void kvl_events_seen(kvl_worker_t *worker, uint64_t seen);

/* ---- status.c ---- */
kvl_status_t kvl_status_of(ucs_status_t status);
/* Sets the error text "CALL: what UCX says" and returns the status. */
kvl_status_t kvl_ucx_error(const char *call, ucs_status_t status);

/* true when the fault table wants this call into UCP to fail; the caller then goes on as if UCP
 * had answered UCS_ERR_IO_ERROR, without having called it */
static inline bool kvl_ucp_fails(void)
{
    return kvl_fault_fails(KVL_FAULT_UCP);
}

/* ---- req.c ---- */
typedef enum {
    REQ_DATA, /* subject to the fault ep.complete */
    REQ_CTRL  /* flush, close, eager messages */
} req_class_t;

/* Attributes of every request: callback by class, user data. */
void kvl_req_param(ucp_request_param_t *param, kvl_req_t *req, req_class_t class);
/* Before the call into UCP: counts the request at its endpoint (NULL: none). */
void kvl_req_begin(kvl_req_t *req, kvl_worker_t *worker, kvl_ep_t *ep);
/* its worker is gone, and UCX's request with it */
void kvl_req_abandon(kvl_req_t *req);
/* After it: what the submit contract returns. */
kvl_status_t kvl_req_posted(kvl_req_t *req, ucs_status_ptr_t result, req_class_t class);
/* UCP's callback of kvl_am_recv() */
void kvl_am_received(void *request, ucs_status_t status, size_t length, void *user_data);

/* ---- ep.c ---- */
kvl_ep_t *kvl_ep_find(const kvl_worker_t *worker, ucp_ep_h ucp);
/* A request of @a ep ended: a graceful close may go on, from the next progress. */
void kvl_ep_settle(kvl_ep_t *ep);
/* Goes on with graceful closes that have nothing under way any more; returns how many. */
unsigned kvl_ep_close_settled(kvl_worker_t *worker);

/* ---- am.c ---- */
ucs_status_t kvl_am_arrived(void *arg, const void *header, size_t header_length, void *data,
                            size_t length, const ucp_am_recv_param_t *param);

#endif
