/* SPDX-License-Identifier: BSD-3-Clause */
/* What kvlane needs of UCP, and nothing of UCP's own types: this folder is the only one that
 * includes <ucp/api/ucp.h>. Everything here is engine thread only unless it says otherwise.
 *
 * Submit contract of every call that takes a kvl_req_t: KVL_INPROGRESS means req->done fires
 * exactly once, later, from kvl_worker_progress(), kvl_ep_close() or a timer; any other return is
 * final and done never fires. A caller that gets KVL_OK must not recurse into his own pump. */
#ifndef KVL_UCX_UCX_H
#define KVL_UCX_UCX_H

#include "base/addr.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/list.h"

#include <kvlane/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct kvl_tables kvl_tables_t;
typedef struct kvl_context kvl_context_t;
typedef struct kvl_worker kvl_worker_t;
typedef struct kvl_ep kvl_ep_t;
typedef struct kvl_mem kvl_mem_t;
typedef struct kvl_rkey kvl_rkey_t;
typedef struct kvl_ucx_listener kvl_ucx_listener_t;
typedef struct kvl_conn kvl_conn_t; /* a connection request, to be accepted or rejected once */

/* One request in flight. Embedded in the caller's object; memory of the caller until done. */
typedef struct kvl_req kvl_req_t;
struct kvl_req {
    void (*done)(kvl_req_t *req, kvl_status_t status);
    size_t received; /* kvl_am_recv(): bytes received */
    /* private to src/ucx */
    kvl_timer_t timer; /* fault ep.complete:delay */
    kvl_ep_t *ep;         /* NULL: of a worker */
    kvl_list_t link;      /* in its worker, until it is done */
    kvl_worker_t *flushes; /* all of it; NULL: another request */
    bool receives;        /* waits for the peer's bytes */
    bool posting;         /* inside of the call into UCP */
    kvl_status_t delayed; /* status that waits for the timer or for the call to return */
};

/* Same layout as ucp_dt_iov_t (asserted); arrays must stay until the request is done. */
typedef struct {
    void *address;
    size_t length;
} kvl_iov_t;

/* ---- process (process.c) ---- kvl_ucx_version() and kvl_ucx_path() are there too */
/* Endpoints that one worker may have; UCX breaks at more. */
unsigned kvl_ucx_connections_max(void);
/* Is there room for the files of @a endpoints more, and for what UCX opens by itself? Without, UCX aborts the
 * process or serves nobody any more. Any thread. */
bool kvl_ucx_has_files(unsigned endpoints);

/* KVL_ERR_UNSUPPORTED if two different libucp are in the process; both paths in the error text.
 * Thread: any. */
kvl_status_t kvl_ucx_check(void);
/* From here on UCX hears of a connection that was reset from recv() alone (sends.c). kvl_ucx_check() does it. */
void kvl_ucx_sends_guard(void);
bool kvl_ucx_sends_guarded(void); /* false: libucs could not be changed */
/* From here on old events of a connection meet no other one (events.c). kvl_ucx_check() does it. */
void kvl_ucx_events_guard(void);
bool kvl_ucx_events_guarded(void); /* false: libuct could not be changed */
unsigned kvl_ucx_events_held(void); /* numbers of closed sockets that are kept now */
/* true if UCX_MEM_MMAP_HOOK_MODE=none: two starts at once cannot deadlock in UCX then. UCX reads it
 * when it is loaded, so tools set it and run themselves again. Thread: any. */
bool kvl_ucx_hooks_quiet(void);

/* ---- context (context.c): one per rail ---- */
typedef struct {
    const kvl_config_t *config; /* KVLANE_UCX_* and settings */
    bool ctrl;                  /* of the ctrl lane: KVLANE_CTRL_UCX_* over KVLANE_UCX_*; no shared memory */
    const char *rails;  /* one rail in the words of KVLANE_RAILS, or several that share the context; NULL:
                           KVLANE_RAILS as it is */
    const char *device; /* network device for tcp when the user named none; NULL: UCX picks */
    kvl_tables_t *tables; /* what UCX has here (tables.h); NULL: it is asked */
} kvl_context_params_t;

/* Reads UCX_*, then KVLANE_UCX_*; sets kvlane's defaults only where the user set nothing; refuses
 * by name what cannot be applied. KVL_ERR_NO_DEVICE lists what there is. */
kvl_status_t kvl_context_create(const kvl_context_params_t *params, kvl_context_t **context_p);
void kvl_context_destroy(kvl_context_t *context); /* after its workers and memory */
/* Does what is registered, and what its workers have, count against RLIMIT_MEMLOCK? It does for RDMA. */
bool kvl_context_pins(const kvl_context_t *context);
/* Can device memory be registered with it, and be put by RDMA? As far as UCX says. */
bool kvl_context_takes_devices(const kvl_context_t *context);
/* "name=value (origin)" lines of what was set, for kvlane_info */
void kvl_context_print(const kvl_context_t *context, FILE *stream);

/* ---- worker (worker.c): one per lane and rail ---- */

/* An active message that just arrived. Valid during the handler only. */
typedef struct {
    unsigned id;
    const void *header;
    size_t header_length;
    const void *data; /* NULL for a rendezvous message: use kvl_am_recv() */
    size_t length;    /* bytes of data, also of a rendezvous message */
    kvl_ep_t *ep;     /* the endpoint it came on; NULL if it is not (or no longer) known */
    void *ucp;        /* private */
} kvl_am_t;

/* Handler of all ids. KVL_OK: done with it (a rendezvous message that was not received is
 * refused to its sender). KVL_INPROGRESS: kvl_am_recv() was called on it and is under way. */
typedef kvl_status_t (*kvl_am_func_t)(void *arg, const kvl_am_t *am);

typedef struct {
    uint64_t client_id; /* seen by the accepting side */
    unsigned am_count;  /* ids 1..am_count-1 get the handler, with replies possible */
    kvl_am_func_t am;
    void *arg;
    kvl_timers_t *timers; /* of the engine: injected delays */
    unsigned endpoints;   /* estimated number, a hint */
} kvl_worker_params_t;

kvl_status_t kvl_worker_create(kvl_context_t *context, const kvl_worker_params_t *params,
                               kvl_worker_t **worker_p);
/* After its endpoints are closed. UCX aborts when a worker is destroyed for which it still has to do what
 * never ends, such as what was meant for a dead peer's full queue in shared memory: such a one is left behind
 * and never touched again. Requests that are not done end here, with KVL_ERR_CANCELED: without progress nothing
 * of them moves. Their endpoints are destroyed afterwards. */
void kvl_worker_destroy(kvl_worker_t *worker);
unsigned kvl_worker_progress(kvl_worker_t *worker);
/* KVL_OK: armed, sleep on the fd. KVL_ERR_BUSY: progress again first. */
kvl_status_t kvl_worker_arm(kvl_worker_t *worker);
int kvl_worker_fd(const kvl_worker_t *worker);
/* Makes a sleeping poll of the worker's fd return. Thread: any. */
void kvl_worker_wake(kvl_worker_t *worker);
/* Endpoints that are not closed; ... that are not destroyed. */
unsigned kvl_worker_open_endpoints(const kvl_worker_t *worker);
unsigned kvl_worker_endpoints(const kvl_worker_t *worker);
/* What its open endpoints send and is not done. */
unsigned kvl_worker_sends(const kvl_worker_t *worker);
/* Everything this worker still had under way towards closed endpoints is over when done fires. */
kvl_status_t kvl_worker_flush(kvl_worker_t *worker, kvl_req_t *req);

/* ---- endpoints (ep.c) ---- */
typedef struct {
    kvl_worker_t *worker;
    /* The connection is gone. Fires at most once, from progress, never after kvl_ep_close(). Only
     * note it there: closing happens outside of the callback. */
    void (*failed)(kvl_ep_t *ep, kvl_status_t status, void *arg);
    void *arg; /* also kvl_ep_arg() */
} kvl_ep_params_t;

/* Starts to connect; kvl_ep_flush() tells when it is up. */
kvl_status_t kvl_ep_connect(const kvl_ep_params_t *params, const kvl_addr_t *addr, kvl_ep_t **ep_p);
/* Takes @a conn; on failure it is rejected. */
kvl_status_t kvl_ep_accept(const kvl_ep_params_t *params, kvl_conn_t *conn, kvl_ep_t **ep_p);
void *kvl_ep_arg(const kvl_ep_t *ep);
void kvl_ep_set_arg(kvl_ep_t *ep, void *arg);
kvl_worker_t *kvl_ep_worker(const kvl_ep_t *ep);
/* remote address as text, "?" if unknown */
void kvl_ep_peer(const kvl_ep_t *ep, char *text, size_t size);

/* One put or get of a range at the peer; length > 0. mem may be NULL (unregistered). */
typedef struct {
    void *address;
    size_t length;        /* of all */
    const kvl_iov_t *iov; /* local pieces in place of address; only where shared_memory is (kvl_ep_info()) */
    size_t iov_count;
    const kvl_mem_t *mem;
    uint64_t remote;
    kvl_rkey_t *rkey; /* of this endpoint */
} kvl_rma_t;
kvl_status_t kvl_ep_put(kvl_ep_t *ep, const kvl_rma_t *rma, kvl_req_t *req);
kvl_status_t kvl_ep_get(kvl_ep_t *ep, const kvl_rma_t *rma, kvl_req_t *req);

/* One active message: header (at most 128 bytes, copied or kept by UCX: keep until done) and the
 * bytes of iov. iov_count 0: no data. mem: registration that covers all of iov, or NULL. */
typedef struct {
    unsigned id;
    const void *header;
    size_t header_length;
    const kvl_iov_t *iov; /* kept until done */
    size_t iov_count;
    const kvl_mem_t *mem;
    bool eager; /* control messages: never rendezvous */
} kvl_am_send_t;
kvl_status_t kvl_ep_am(kvl_ep_t *ep, const kvl_am_send_t *send, kvl_req_t *req);

/* Receives a rendezvous message of the running handler into iov (whose sum must be >= its length,
 * kept until done). req->received is set before done. KVL_OK: already received. */
kvl_status_t kvl_am_recv(const kvl_am_t *am, kvl_worker_t *worker, const kvl_iov_t *iov,
                         size_t iov_count, const kvl_mem_t *mem, kvl_req_t *req);

/* All ops posted before on this endpoint are visible at the peer when done fires. */
kvl_status_t kvl_ep_flush(kvl_ep_t *ep, kvl_req_t *req);

/* Ends the endpoint. force: everything under way is canceled (each req's done fires, before or
 * after this one: count them). Without force it waits for every req and flushes first; a second
 * call with force gives that up (its own req is not used then, the first one's done fires). After
 * done (or any final return) the endpoint may be destroyed once its reqs are done too. Not from
 * callbacks. */
kvl_status_t kvl_ep_close(kvl_ep_t *ep, bool force, kvl_req_t *req);
void kvl_ep_destroy(kvl_ep_t *ep); /* frees the wrapper; NULL is accepted */
/* requests of this endpoint that are not done, close and flush included */
unsigned kvl_ep_pending(const kvl_ep_t *ep);

/* What the endpoint really uses. Ask after the first flush. */
typedef struct {
    char transport[64]; /* of bulk data: "tcp", "posix", "rc_verbs", ... */
    char device[64];    /* that it goes by: "eth0", "mlx5_0:1", "memory" */
    char detail[256];   /* all transports with devices, for people */
    bool put_onesided;  /* puts move by true RMA, given memory that the peer exposed for it */
    bool get_onesided;
    bool shared_memory; /* the peer maps our memory: it can't be revoked while it lives */
    bool device_memory; /* onesided, also of device memory that is registered; as far as UCX says */
    bool iov_is_fast;   /* message mode: sending an IOV beats packing into one buffer */
    size_t header_max;  /* longest header of an active message */
} kvl_ep_info_t;
kvl_status_t kvl_ep_info(kvl_ep_t *ep, kvl_ep_info_t *info_p);

/* ---- memory (mem.c) ---- */
/* Registers [address, address + length) or, with address NULL, allocates (shared memory capable;
 * not zeroed: kvl_region_alloc() does that), in slices of KVLANE_REG_SLICE: all or none. An op that is given
 * the registration stays within a slice. Thread: any one at a time per context (the engine serialises). */
kvl_status_t kvl_mem_create(kvl_context_t *context, void *address, size_t length,
                            kvl_mem_t **mem_p);
/* ... of device memory at @a address; kvl_context_takes_devices() said that it may work */
kvl_status_t kvl_mem_create_device(kvl_context_t *context, void *address, size_t length, kvl_mem_t **mem_p);
void kvl_mem_destroy(kvl_mem_t *mem);
void *kvl_mem_address(const kvl_mem_t *mem);
size_t kvl_mem_length(const kvl_mem_t *mem);
/* how many were ever made with the context; any thread */
uint64_t kvl_context_registrations(const kvl_context_t *context);
unsigned kvl_mem_slices(const kvl_mem_t *mem);
void kvl_mem_slice(const kvl_mem_t *mem, unsigned slice, void **address_p, size_t *length_p);
/* Of a registration, whose memory @a address lies in, or of NULL, which has no slices: the number of the slice;
 * bytes from there to its end. */
unsigned kvl_mem_slice_of(const kvl_mem_t *mem, const void *address);
size_t kvl_mem_left(const kvl_mem_t *mem, const void *address);
/* Writes the packed remote key of a slice; KVL_ERR_LIMIT with the needed size in *length_p if it is small. */
kvl_status_t kvl_mem_pack(const kvl_mem_t *mem, unsigned slice, void *buffer, size_t *length_p);

/* Unpacks for use on this endpoint only. Damaged bytes: KVL_ERR_PROTOCOL where UCX notices. */
/* For use on this endpoint only. The key is of @a bytes from @a base on; over shared memory (kvl_ep_info() said
 * so before) that is checked and tried, for UCX crashes where it cannot map. KVL_ERR_PROTOCOL: damaged, or of
 * other memory; KVL_ERR_PEER: the peer is gone; KVL_ERR_LIMIT: no files or address space. */
kvl_status_t kvl_rkey_unpack(kvl_ep_t *ep, const void *packed, size_t length, uint64_t base, uint64_t bytes,
                             kvl_rkey_t **rkey_p);
/* Its part for shared memory: changes the key to name a file that is open here; the caller closes it after the
 * unpack. -1: the key names none. */
kvl_status_t kvl_rkey_hold(void *packed, size_t length, uint64_t base, uint64_t bytes, int *fd_p);
void kvl_rkey_destroy(kvl_rkey_t *rkey); /* before its endpoint is closed */
/* Local address of the peer's byte, when the memory is shared and mapped; else KVL_ERR_UNSUPPORTED. */
kvl_status_t kvl_rkey_pointer(kvl_rkey_t *rkey, uint64_t remote, void **address_p);

/* ---- listener (listen.c) ---- */
/* A peer wants to connect; accept, or reject, now or later (from outside of the callback). conn NULL: the
 * listener goes away for a moment, and with it all requests that wait: forget them (engine/renew.c). */
typedef void (*kvl_conn_func_t)(kvl_conn_t *conn, uint64_t client_id, void *arg);
kvl_status_t kvl_ucx_listen(kvl_worker_t *worker, const kvl_addr_t *addr, kvl_conn_func_t func,
                            void *arg, kvl_ucx_listener_t **listener_p);
void kvl_ucx_listener_addr(const kvl_ucx_listener_t *listener, kvl_addr_t *addr_p);
/* door.c: now and then; sends away who connected and brings no request */
void kvl_ucx_listener_sweep(kvl_ucx_listener_t *listener);
void kvl_ucx_listener_destroy(kvl_ucx_listener_t *listener); /* rejects what is still waiting */
void kvl_conn_reject(kvl_conn_t *conn);
void kvl_conn_peer(const kvl_conn_t *conn, char *text, size_t size);

#endif
