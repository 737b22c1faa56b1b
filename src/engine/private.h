/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of src/engine share. */
#ifndef KVL_ENGINE_PRIVATE_H
#define KVL_ENGINE_PRIVATE_H

#include "engine/engine.h"
#include "rail/choose.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

/* what the watch knows of a worker (watch.c) */
typedef struct {
    uint64_t heard, seen; /* messages that came over shared memory; ... at the last look */
    unsigned rounds;      /* looks in a row at which it was suspect */
    bool stuck;
} kvl_watch_t;

typedef struct {
    const kvl_rail_t *about;     /* row of engine->table; NULL: whatever UCX takes */
    kvl_context_t *context;      /* data, sg and memory */
    kvl_context_t *ctrl_context; /* ctrl */
    kvl_worker_t *workers[KVL_LANE_COUNT];
    kvl_watch_t watch[KVL_LANE_COUNT];
    kvl_ucx_listener_t *listener; /* NULL: the engine's own hears for it */
    kvl_addr_t listen_addr;       /* length 0: nobody can connect to it by itself */
    bool drained;                 /* engine thread only: links use it no more */
} kvl_engine_rail_t;

struct kvl_engine {
    /* constant after create */
    kvl_config_t *config;
    const kvl_settings_t *settings;
    uint64_t nonce; /* 56 random bits << 8 */
    pid_t pid;      /* of the process that made it */
    kvl_rail_table_t *table;
    kvl_decision_t *decision; /* NULL: rails are left to UCX ... */
    const char *left_to_ucx;  /* ... by this setting */
    unsigned rail_count;
    kvl_engine_rail_t rails[KVL_RAILS_MAX];
    int epoll_fd, wake_fd, event_fd, timer_fd; /* timer_fd: caller mode only, else -1 */
    pthread_t thread;
    bool has_thread;

    /* engine thread only */
    kvl_timers_t timers;
    kvl_list_t pollers, printers, tenants;
    kvl_ucx_listener_t *listener; /* NULL: it does not listen, or not at the moment (renew.c) */
    kvl_conn_func_t listen_func;  /* NULL: it does not listen */
    void *listen_arg;
    kvl_addr_t listen_addr;       /* with the port it got */
    int64_t now_ns, idle_since_ns;
    unsigned inside_depth;
    kvl_timer_t watch_timer;
    bool renewing; /* renew.c */
    int64_t renew_began_ns, renew_next_ns;
    kvl_list_t *next_poller; /* of the turn under way */
    bool thread_drives;      /* the owner is the progress thread: it gives way to guests */

    /* paths, by device; bits: rails */
    uint32_t tested[KVL_DEVICES_MAX]; /* ... or being tested */
    uint32_t failed[KVL_DEVICES_MAX], direct[KVL_DEVICES_MAX];

    /* any thread */
    kvl_inbox_t inbox;
    _Atomic(kvl_device_t *) device; /* of the first region of device memory; NULL: there is none */
    _Atomic(kvl_device_t *) devices[KVL_DEVICES_MAX]; /* by number: those that regions are or were of */
    _Atomic unsigned device_count;                    /* of them */
    _Atomic bool sleeping;    /* the owner is in epoll_wait, or about to be */
    _Atomic unsigned wanting; /* threads that want the token for a moment */
    _Atomic bool stop;
    _Atomic int64_t turned_ns; /* when the engine was looked after last */
    _Atomic bool lost;        /* a worker is stuck for good (renew.c) */
    _Atomic bool event_used;  /* somebody asked for the event fd */

    /* under lock: who is in, who waits */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* the token became free, a flag was set, or the thread has to look */
    bool owned;
    _Atomic(uintptr_t) owner; /* written by the owner only; compared with one's own id by anybody */
    unsigned guests;          /* threads in kvl_engine_wait() */
    _Atomic unsigned sleepers;/* of them, those that sleep on changed */
    unsigned visits;          /* grows with each guest that left */
    _Atomic bool asked;       /* somebody looks in so often that he shall drive: the progress thread parks */
    _Atomic int64_t looked_ns;/* when somebody looked in last */
    bool parked;              /* the progress thread waits to be told that nobody drives any more */

    /* under device_lock, until `device` is set; then constant, and the engine thread's */
    pthread_mutex_t device_lock;
    kvl_region_t *stage_region;
    kvl_stages_t stages;

    /* under region_lock */
    pthread_mutex_t region_lock;
    kvl_list_t regions;
    int numa_node; /* that memory is allocated on, -1: any; also when the system does not let us */
    uint32_t last_region_id; /* begins anywhere: what a peer knows of an earlier engine is not found here */
};

/* rails.c */
kvl_status_t kvl_engine_rails_open(kvl_engine_t *engine, const char *address);
void kvl_engine_rails_close(kvl_engine_t *engine); /* after workers and memory */
void kvl_engine_rails_print(const kvl_engine_t *engine, FILE *stream, int json);

/* loop.c */
kvl_status_t kvl_engine_thread_start(kvl_engine_t *engine);
void kvl_engine_thread_stop(kvl_engine_t *engine);
void kvl_engine_wake(kvl_engine_t *engine);
/* for who is in: one turn without sleeping, the number of events; may it sleep in epoll now? */
unsigned kvl_engine_work(kvl_engine_t *engine);
bool kvl_engine_arm(kvl_engine_t *engine);
/* beside a progress thread: one turn of the caller's in its place, if the engine is free and he looks often */
unsigned kvl_engine_look(kvl_engine_t *engine);

/* engine.c */
kvl_status_t kvl_engine_worker_create(kvl_engine_t *engine, unsigned rail, unsigned lane,
                                      kvl_worker_t **worker_p);
kvl_status_t kvl_engine_listen_again(kvl_engine_t *engine);
void kvl_engine_listen_stop(kvl_engine_t *engine); /* for a while, or for good */

/* watch.c */
void kvl_engine_watch(kvl_engine_t *engine);

/* renew.c */
void kvl_engine_renew(kvl_engine_t *engine);
unsigned kvl_engine_renew_step(kvl_engine_t *engine);

/* memlock.c */
/* Do the system's limits let @a bytes more be registered, for @a what, if there are rails of RDMA, and what these
 * need by themselves? KVL_ERR_LIMIT says what to do. Under region_lock. */
kvl_status_t kvl_engine_may_pin(const kvl_engine_t *engine, uint64_t bytes, const char *what);

/* device.c */
/* There will be a region of its memory. KVL_ERR_NO_MEMORY, KVL_ERR_REGISTER, KVL_ERR_LIMIT, KVL_ERR_INVALID. */
kvl_status_t kvl_engine_device_use(kvl_engine_t *engine, kvl_device_t *device);
void kvl_engine_device_close(kvl_engine_t *engine); /* before its regions go */
void kvl_engine_devices_print(const kvl_engine_t *engine, FILE *stream, int json);

/* region.c */
void kvl_engine_release_regions(kvl_engine_t *engine);

#endif
