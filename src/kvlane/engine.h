/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file engine.h
 * Settings, the engine that moves everything, and batches.
 *
 *     kvl_config_t *config;
 *     kvl_engine_t *engine;
 *     kvl_config_create(&config);
 *     kvl_config_set(config, "KVLANE_DEPTH", "16");
 *     kvl_engine_params_t params = {.config = config, .address = "10.0.0.7:7700"};
 *     if (kvl_engine_create(&params, &engine) != KVL_OK)
 *         errx(1, "%s", kvl_error_text());
 *     ...
 *     kvl_engine_destroy(engine);
 *     kvl_config_destroy(config);
 *
 * Settings come from the environment (KVLANE_*); kvl_config_set() overrides them for one engine,
 * so two engines of a process may differ. `kvlane_info -c` lists every setting.
 *
 * **NULL** where an object or a place for a result is wanted: KVL_ERR_INVALID with a text, or nothing
 * (0, NULL, "") from a call without a status. Only what frees accepts it.
 *
 * **In a callback** of a batch or a listener everything may be called that does not wait: submit, test,
 * cancel, create, register, release (the batch itself too), print. What waits says no, for its engine:
 * kvl_cache_connect(), kvl_cache_stat(), kvl_connect(), kvl_node_run() return KVL_ERR_INVALID;
 * kvl_batch_wait() looks once, as kvl_batch_test(); kvl_engine_progress() does nothing and returns 0; and
 * kvl_engine_destroy(), kvl_cache_destroy(), kvl_peer_close(), kvl_listener_destroy(),
 * kvl_node_destroy() do nothing but say so in the log: the object stays open.
 *
 * **fork()** a child must not use its parent's objects; it may call exec or _exit. It can make an engine of
 * its own only if the parent had none when it forked: UCX does not work in a child of a process that uses it,
 * so kvl_engine_create() returns KVL_ERR_UNSUPPORTED there. Calls that destroy or release do nothing in it
 * but say so in the log, so that what a language or an exit handler cleans up in a child cannot break the
 * parent.
 */
#ifndef KVLANE_ENGINE_H
#define KVLANE_ENGINE_H

#include <kvlane/export.h>
#include <kvlane/status.h>

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kvl_config kvl_config_t;
typedef struct kvl_engine kvl_engine_t;
typedef struct kvl_batch  kvl_batch_t;

/** Reads the environment. KVL_ERR_CONFIG if a KVLANE_ name is unknown or a value is bad. */
KVL_API kvl_status_t kvl_config_create(kvl_config_t **config_p);
/** Overrides one setting. @a name is a full name such as "KVLANE_DEPTH". KVL_ERR_CONFIG if bad. */
KVL_API kvl_status_t kvl_config_set(kvl_config_t *config, const char *name, const char *value);
/** The value in force as text, or NULL for an unknown name. Owned by @a config. */
KVL_API const char *kvl_config_get(const kvl_config_t *config, const char *name);
/** Prints every setting: value, default, unit, source and doc; as JSON if @a json is not 0. */
KVL_API void kvl_config_print(const kvl_config_t *config, FILE *stream, int json);
KVL_API void kvl_config_destroy(kvl_config_t *config);

typedef struct {
    const kvl_config_t *config; /**< copied; NULL: the environment alone */
    const char *address;        /**< "host:port" it will talk to or listen on; NULL: unknown.
                                     Picks the tcp device when the user named none. */
} kvl_engine_params_t;

/**
 * Creates an engine: UCX contexts and workers, and a progress thread unless
 * KVLANE_PROGRESS=caller.
 * @param params  NULL: all defaults.
 * @return KVL_OK, KVL_ERR_CONFIG, KVL_ERR_NO_DEVICE, KVL_ERR_RAIL, KVL_ERR_NO_MEMORY,
 *         KVL_ERR_UNSUPPORTED (two different libucp in the process: both paths in the text).
 * **Blocks** while UCX starts (milliseconds).
 */
KVL_API kvl_status_t kvl_engine_create(const kvl_engine_params_t *params, kvl_engine_t **engine_p);

/** Closes what is still open on the engine (caches, peers, listeners; their batches end as canceled),
 *  waits until all is quiet, frees. NULL is accepted. The handles of what it closed and of its regions are
 *  gone with it; batches and imported regions still have to be released. No other thread may be in a call
 *  for the engine. */
KVL_API void kvl_engine_destroy(kvl_engine_t *engine);

/** KVLANE_PROGRESS=caller: does what can be done now; returns the number of events handled. With a progress
 *  thread it never has to be called; a caller that looks in a loop anyway (with kvl_batch_test(), say) does that
 *  thread's work with it, and spares the switch between threads. Never waits. In a callback: does nothing,
 *  returns 0. */
KVL_API unsigned kvl_engine_progress(kvl_engine_t *engine);

/**
 * A file descriptor that is readable when a batch without a callback has completed, or (with
 * KVLANE_PROGRESS=caller) when kvl_engine_progress() has work. Owned by the engine. Level
 * triggered; kvl_engine_clear_event() resets it before the batches are tested. Unless the caller drives the engine
 * it is an eventfd(2): writing to it makes it readable.
 */
KVL_API int kvl_engine_event_fd(kvl_engine_t *engine);
KVL_API void kvl_engine_clear_event(kvl_engine_t *engine);

/** Prints contexts, workers, peers, endpoints, modes, depth in force and counters. */
KVL_API void kvl_engine_print(kvl_engine_t *engine, FILE *stream, int json);

/** What went over one lane of a rail, self-tests included. Of ctrl: messages, which count as complete when
 *  they are handed over. Errors by what they cost (see status.h): the rail's own, the peer's, an item's, and
 *  those of ops that were given up on (deadline, cancel, a reset). */
typedef struct {
    uint64_t ops;         /**< handed to UCX */
    uint64_t completions; /**< of these, came back well */
    uint64_t bytes;       /**< of these */
    uint64_t errors_rail, errors_peer, errors_item, errors_batch;
} kvl_lane_stat_t;

/** A rail of this engine and what went over it to one peer; numbers only grow, also when it reconnects. */
typedef struct {
    char name[72];  /**< as in KVLANE_RAILS; its value where the choice is left to UCX */
    char peer[72];  /**< the peer's rail that it is paired with; "": none, or never connected */
    char state[16]; /**< "up", or why not: "off", "down", "joining", "opening", "open", "testing", "draining", "closing",
                         "leaving", "drained" */
    uint64_t ups, fails;    /**< how often it came up, and failed */
    uint64_t retries;       /**< items that started over on other rails because of it */
    uint64_t registrations; /**< of memory with it, by all of the engine */
    kvl_lane_stat_t ctrl, data, sg;
} kvl_rail_stat_t;

/**
 * Takes a rail out of use, for maintenance say: nothing new is posted on it, what is under way ends well, then its
 * connections are closed. Memory stays registered with it. Returns at once; it is done when kvl_cache_rails() says
 * "drained". Peers for which no other rail is up keep it until one is.
 * @param rail  as in KVLANE_RAILS: one that the engine uses.
 * @return KVL_OK (also if it is drained already), KVL_ERR_INVALID, KVL_ERR_NO_DEVICE (the text lists the rails of the
 *         engine), KVL_ERR_BUSY (it is the last one), KVL_ERR_UNSUPPORTED (the engine listens: drain it at the peers).
 * **Thread** any. **Blocks** never for long.
 */
KVL_API kvl_status_t kvl_rail_drain(kvl_engine_t *engine, const char *rail);
/** Takes a drained rail back into use: it is tried at once, and used when its self-test passed. KVL_OK also if it is not
 *  drained; else as kvl_rail_drain(). */
KVL_API kvl_status_t kvl_rail_add(kvl_engine_t *engine, const char *rail);

/** Called once when the batch is complete and quiet; on the thread that progresses the engine.
 *  It may submit and release; it cannot wait or destroy (see the top of this file). */
typedef void (*kvl_batch_func_t)(kvl_batch_t *batch, void *arg);

typedef struct {
    int64_t timeout_ms;         /**< from now; 0: KVLANE_TIMEOUT; there is no "forever" */
    kvl_batch_func_t callback;  /**< NULL: use test, wait or the event fd */
    void *arg;                  /**< handed to @a callback */
    /** With segments in device memory, of one device: what has to be done there before kvlane reads (put) or writes
     *  (get) any of them. NULL: nothing. All that is in this stream at the time of the call (CUstream or cudaStream_t;
     *  the legacy default stream is cudaStreamLegacy) ... */
    void *stream;
    /** ... and what this event was recorded after (CUevent or cudaEvent_t; it must stay until the batch completes).
     *  There is nothing to wait for afterwards: when a get completes its bytes are in the device's memory, and work
     *  that is launched then sees them. */
    void *event;
} kvl_batch_params_t;

/** KVL_INPROGRESS, or the batch's status: KVL_OK if every item is KVL_OK, else the worst. */
KVL_API kvl_status_t kvl_batch_test(kvl_batch_t *batch);

/**
 * Waits until the batch is complete or @a timeout_ms passed (negative: until its own deadline,
 * which always comes). Progresses the engine meanwhile. In a callback it does not wait.
 * @return as kvl_batch_test().
 */
KVL_API kvl_status_t kvl_batch_wait(kvl_batch_t *batch, int64_t timeout_ms);

/** Asks for an early end; the batch still completes through its usual way, quiet. Idempotent. */
KVL_API void kvl_batch_cancel(kvl_batch_t *batch);

/** Number of items in the batch. */
KVL_API size_t kvl_batch_count(const kvl_batch_t *batch);

/**
 * Status of item @a index of a complete batch (KVL_INPROGRESS before).
 * @param length_p  may be NULL; get and exists: the stored length in bytes if known, else 0.
 */
KVL_API kvl_status_t kvl_batch_item(const kvl_batch_t *batch, size_t index, uint64_t *length_p);

/** A text for the failure that decided the status of a complete batch (the first of its group): what
 *  failed, where, and the way out. "" before, and if all is well. */
KVL_API const char *kvl_batch_cause(const kvl_batch_t *batch);

/** Gives the batch back. KVL_ERR_BUSY if it is not complete (cancel and wait first). */
KVL_API kvl_status_t kvl_batch_release(kvl_batch_t *batch);

/** kvlane's version, such as "0.1.0", and the version of the libucp that is loaded. */
KVL_API const char *kvl_version(void);
KVL_API const char *kvl_ucx_version(void);
/** Path of the loaded libucp; "" if unknown. */
KVL_API const char *kvl_ucx_path(void);

#ifdef __cplusplus
}
#endif
#endif
