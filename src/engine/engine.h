/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine: contexts and workers of all rails, timers, the inbox, and the loop that drives them.
 *
 * One thread at a time is "in" the engine (the token). The progress thread holds it while it has
 * work; a thread that waits for a batch takes it over and progresses by itself, so that nobody
 * pays for two thread switches. Everything below src/engine is called only by the thread that is in.
 * Functions say "any thread" where that is not so. */
#ifndef KVL_ENGINE_ENGINE_H
#define KVL_ENGINE_ENGINE_H

#include "base/clock.h"
#include "base/config.h"
#include "base/list.h"
#include "base/ring.h"
#include "lane/endpoint.h"
#include "lane/stage.h"
#include "mem/device.h"
#include "rail/table.h"
#include "ucx/ucx.h"
#include "wire/wire.h"

#include <kvlane/engine.h>
#include <kvlane/memory.h>

#include <stdbool.h>

#define KVL_RAILS_MAX 16

/* Work for the engine thread. Embedded in the caller's object; func is called once. */
typedef struct kvl_work kvl_work_t;
struct kvl_work {
    kvl_inbox_node_t node;
    void (*func)(kvl_work_t *work);
};

/* Hands work in. Any thread; never blocks; wakes the engine if it sleeps. */
void kvl_engine_post(kvl_engine_t *engine, kvl_work_t *work);

/* Something to look after at each turn of the loop; returns the number of things done. Embedded. */
typedef struct kvl_poller kvl_poller_t;
struct kvl_poller {
    kvl_list_t link;
    unsigned (*func)(kvl_poller_t *poller);
};
void kvl_engine_add_poller(kvl_engine_t *engine, kvl_poller_t *poller);
void kvl_engine_remove_poller(kvl_engine_t *engine, kvl_poller_t *poller);

/* Takes the token / gives it back. Any thread; enter blocks until the other leaves. Recursive
 * entry by the thread that is in is allowed (callbacks of batches may submit). */
void kvl_engine_enter(kvl_engine_t *engine);
void kvl_engine_leave(kvl_engine_t *engine);
bool kvl_engine_is_inside(kvl_engine_t *engine);

/* Progresses until *flag is not 0 or until_ns passed; any thread that is not inside a callback.
 * Returns true if the flag was set. The flag is set by the engine thread with release order, and
 * kvl_engine_notify() follows. */
bool kvl_engine_wait(kvl_engine_t *engine, _Atomic int *flag, int64_t until_ns);
/* Wakes threads that wait in kvl_engine_wait() and makes the event fd readable. */
void kvl_engine_notify(kvl_engine_t *engine, bool event_fd);

/* A worker is stuck and is to be replaced: while this is true, close every endpoint and open none. */
bool kvl_engine_is_renewing(const kvl_engine_t *engine);
/* ... and could not be replaced; only a new process helps. Any thread. */
bool kvl_engine_is_lost(kvl_engine_t *engine);

const kvl_settings_t *kvl_engine_settings(const kvl_engine_t *engine);
const kvl_config_t *kvl_engine_config(const kvl_engine_t *engine);
kvl_timers_t *kvl_engine_timers(kvl_engine_t *engine);
uint64_t kvl_engine_nonce(const kvl_engine_t *engine);
/* What a worker's connections say of it: nonce (the high 56 bits), rail, lane. */
#define KVL_CLIENT_ID(nonce, rail, lane) ((nonce) | (uint64_t)(rail) << 2 | (unsigned)(lane))
#define KVL_CLIENT_NONCE(id)             ((id) & ~UINT64_C(0xff))
#define KVL_CLIENT_RAIL(id)              ((unsigned)((id) >> 2 & 0x3f))
#define KVL_CLIENT_LANE(id)              ((unsigned)((id) & 3))
unsigned kvl_engine_rails(const kvl_engine_t *engine);
/* What is known of a rail, NULL if its device is left to UCX; and its name for people. */
const kvl_rail_t *kvl_engine_rail(const kvl_engine_t *engine, unsigned rail);
const char *kvl_engine_rail_name(const kvl_engine_t *engine, unsigned rail);
kvl_context_t *kvl_engine_context(kvl_engine_t *engine, unsigned rail);
kvl_worker_t *kvl_engine_worker(kvl_engine_t *engine, unsigned rail, kvl_lane_kind_t lane);
/* now, read once per turn of the loop */
int64_t kvl_engine_now(const kvl_engine_t *engine);

/* Prints its part for kvl_engine_print(); registered by links, servers and nodes. Embedded. */
typedef struct kvl_printer kvl_printer_t;
struct kvl_printer {
    kvl_list_t link;
    void (*func)(kvl_printer_t *printer, FILE *stream, int json);
};
void kvl_engine_add_printer(kvl_engine_t *engine, kvl_printer_t *printer);
void kvl_engine_remove_printer(kvl_engine_t *engine, kvl_printer_t *printer);

/* What a caller opened on the engine: kvl_engine_destroy() closes what is still there. Embedded. */
typedef struct kvl_tenant kvl_tenant_t;
struct kvl_tenant {
    kvl_list_t link;
    const char *name;                   /* "cache", ... */
    void (*close)(kvl_tenant_t *tenant); /* waits until it is closed and removed; not inside */
};
void kvl_engine_add_tenant(kvl_engine_t *engine, kvl_tenant_t *tenant);
void kvl_engine_remove_tenant(kvl_engine_t *engine, kvl_tenant_t *tenant);

/* May @a call of the public API wait for this engine? KVL_ERR_INVALID in a callback (it would wait for
 * itself) and in a child of fork(). Any thread. */
kvl_status_t kvl_engine_may_wait(kvl_engine_t *engine, const char *call);
/* ... for calls that destroy and have no status: says it in the log. */
bool kvl_engine_may_end(kvl_engine_t *engine, const char *call);
/* Is this a child of the process that made the engine? Says so in the log: nothing is to be done. */
bool kvl_engine_is_foreign(kvl_engine_t *engine, const char *call);

/* Handles a connection request; the server (link/server.c) registers itself. One per engine. */
kvl_status_t kvl_engine_listen(kvl_engine_t *engine, const kvl_addr_t *addr, kvl_conn_func_t func,
                               void *arg);
void kvl_engine_unlisten(kvl_engine_t *engine);
void kvl_engine_listen_addr(const kvl_engine_t *engine, kvl_addr_t *addr_p);
/* Where it listens on a rail: several rails, and that one has an address; else false. */
bool kvl_engine_rail_addr(const kvl_engine_t *engine, unsigned rail, kvl_addr_t *addr_p);
/* The rail that the kernel would send by to @a addr; 0 if none. Asks the kernel. */
unsigned kvl_engine_rail_to(const kvl_engine_t *engine, const kvl_addr_t *addr);
/* Did the user take it out of use (kvl_rail_drain)? */
bool kvl_engine_rail_is_drained(const kvl_engine_t *engine, unsigned rail);
/* Is the rail's port up, as far as the system says? Asks the kernel: microseconds. */
bool kvl_engine_rail_is_up(const kvl_engine_t *engine, unsigned rail);
/* ... of the port of @a device, as UCX names it; true if nobody knows it */
bool kvl_engine_device_is_up(const kvl_engine_t *engine, const char *device);

/* KVLANE_PROGRESS=thread gives the engine its own thread at create; a node that is run by
 * kvl_node_run() or a test may run the loop itself: */
void kvl_engine_turn(kvl_engine_t *engine, bool may_sleep, int64_t until_ns);

/* ---- device memory (device.c) ---- */
/* What it goes through; of use once a region of it is registered. */
kvl_stages_t *kvl_engine_stages(kvl_engine_t *engine);
/* Devices that it has had regions of; only grows. */
unsigned kvl_engine_device_count(const kvl_engine_t *engine);
/* By device: rails (bits) whose self-test with its memory passed. */
const uint32_t *kvl_engine_direct(const kvl_engine_t *engine);
/* A device whose path to @a rail was not tested; NULL: there is none, or it is not wanted. */
kvl_device_t *kvl_engine_device_untested(kvl_engine_t *engine, unsigned rail);
/* It is being tested, which counts as failed; then what came of it. */
typedef enum { KVL_PATH_TESTING, KVL_PATH_FAILED, KVL_PATH_DIRECT } kvl_path_t;
void kvl_engine_device_path(kvl_engine_t *engine, const kvl_device_t *device, unsigned rail, kvl_path_t path);

/* ---- regions (region.c) ---- */
struct kvl_region {
    kvl_engine_t *engine;          /* constant after create */
    uint32_t id;                   /* constant; never reused within the engine's life, not 0 */
    void *address;                 /* constant */
    size_t length;                 /* constant */
    kvl_device_t *device;          /* constant: whose memory it is; NULL: host memory */
    kvl_mem_t *mems[KVL_RAILS_MAX];/* constant; device memory that goes through stages: NULL */
    _Atomic long users;            /* batches under way */
    bool exported;                 /* in the engine: peers may reach it by id */
    kvl_list_t link;               /* in the engine: all regions */
};

/* kvl_region_alloc() without touching the memory: its owner fills it (fill.h), having looked whether
 * there is room; else its first use may be a SIGBUS. */
kvl_status_t kvl_region_alloc_untouched(kvl_engine_t *engine, size_t length, kvl_region_t **region_p);

/* The region that holds [address, address + length), NULL if none. Any thread. */
kvl_region_t *kvl_region_find(kvl_engine_t *engine, const void *address, size_t length);
/* The region with this id if it is exported, NULL if not. */
kvl_region_t *kvl_region_by_id(kvl_engine_t *engine, uint64_t id);
/* How many slices it is registered in; what peers are told of one of them, with its key in @a rkey. */
unsigned kvl_region_slices(const kvl_region_t *region);
kvl_status_t kvl_region_record(const kvl_region_t *region, unsigned rail, unsigned slice,
                               uint8_t rkey[KVL_WIRE_RKEY_MAX], kvl_wire_region_t *record);
/* The registration that covers all of a range of it; NULL if it lies in several slices, which is harmless, but
 * an honest peer does not ask for it. */
kvl_mem_t *kvl_region_mem(const kvl_region_t *region, unsigned rail, const void *address, size_t length);

#endif
