/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file cache.h
 * A client of cache nodes: put, get, exists and remove on batches of items.
 *
 *     kvl_cache_t *cache;
 *     kvl_batch_t *batch;
 *     kvl_cache_create(engine, "10.0.0.7:7700", &cache);
 *     kvl_item_t item = {.key = "page-1", .key_length = 6, .segments = &page, .segment_count = 1};
 *     if (kvl_cache_submit(cache, KVL_CACHE_PUT, &item, 1, NULL, &batch) != KVL_INPROGRESS)
 *         errx(1, "%s", kvl_error_text());
 *     if (kvl_batch_wait(batch, -1) != KVL_OK)
 *         warnx("%s", kvl_batch_cause(batch));
 *     kvl_batch_release(batch);
 *     kvl_cache_destroy(cache);
 */
#ifndef KVLANE_CACHE_H
#define KVLANE_CACHE_H

#include <kvlane/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVL_KEY_MAX      255  /**< longest key in bytes */
#define KVL_SEGMENTS_MAX 1024 /**< most segments of one item */
#define KVL_BATCH_MAX    65536 /**< most items of one batch */

typedef struct kvl_cache kvl_cache_t;

typedef enum {
    KVL_CACHE_PUT,    /**< store the segments' bytes, in their order, as the key's value */
    KVL_CACHE_GET,    /**< fill the segments, in their order; their sum must be the value's length */
    KVL_CACHE_EXISTS, /**< KVL_OK or KVL_ERR_NOT_FOUND per item; segments are ignored */
    KVL_CACHE_REMOVE  /**< forget the key; KVL_ERR_NOT_FOUND if there was none */
} kvl_cache_op_t;

/** One key and its segments. A get may use another split than the put did. */
typedef struct {
    const void *key;   /**< 1..KVL_KEY_MAX arbitrary bytes */
    size_t key_length;
    const kvl_segment_t *segments;
    size_t segment_count; /**< 1..KVL_SEGMENTS_MAX for put and get */
} kvl_item_t;

/**
 * Creates a client. @a nodes is "host:port" (one node in this version; a list is refused by name).
 * Connects in the background; a batch waits for that inside its deadline.
 * @return KVL_OK, KVL_ERR_INVALID (the text names the address), KVL_ERR_UNREACHABLE (its host has no
 *         address), KVL_ERR_NO_MEMORY.
 */
KVL_API kvl_status_t kvl_cache_create(kvl_engine_t *engine, const char *nodes, kvl_cache_t **cache_p);

/** Waits until connected, or fails with the reason. @a timeout_ms 0: KVLANE_TIMEOUT. */
KVL_API kvl_status_t kvl_cache_connect(kvl_cache_t *cache, int64_t timeout_ms);

/** Cancels what is under way, waits until quiet, says goodbye, frees. NULL is accepted. */
KVL_API void kvl_cache_destroy(kvl_cache_t *cache);

/**
 * Submits one operation on @a count items.
 * @param params   NULL: defaults.
 * @param batch_p  the batch, to be released by the caller; set only with KVL_INPROGRESS.
 * @return KVL_INPROGRESS, or a final status and no batch: KVL_ERR_INVALID (the text names the item
 *         and the field), KVL_ERR_LIMIT, KVL_ERR_NO_MEMORY, KVL_ERR_CLOSED.
 * **Ownership** items, keys and segment arrays are copied; the memory they point to belongs to the
 * batch until it completes. **Thread** any. **Blocks** never.
 */
KVL_API kvl_status_t kvl_cache_submit(kvl_cache_t *cache, kvl_cache_op_t op, const kvl_item_t *items,
                                      size_t count, const kvl_batch_params_t *params,
                                      kvl_batch_t **batch_p);

/**
 * What a node says of itself.
 *
 * gets are values asked for by get, hits those of them that were there. misses are keys that were not there, asked
 * for by get or exists: who learns from exists that a value is missing does not get it, and who learns that it is
 * there counts with the get. So hits / (hits + misses) is the hit rate of clients that look first and of those
 * that do not.
 */
typedef struct {
    uint64_t keys, bytes_used, bytes_total, sessions;
    uint64_t leases, quarantined_slots, evictions, refused_messages;
    uint64_t puts, gets, hits, misses, commits, aborts;
    uint64_t uptime_ms;
} kvl_node_stat_t;

/** Asks the node. Waits at most @a timeout_ms (0: KVLANE_TIMEOUT). */
KVL_API kvl_status_t kvl_cache_stat(kvl_cache_t *cache, int64_t timeout_ms, kvl_node_stat_t *stat_p);

/** What the session with the node looks like. */
typedef struct {
    unsigned depth;        /**< in force: min(client, node) */
    unsigned sg_endpoints; /**< in force */
    unsigned data_depth;   /**< in force */
    char transport[64];    /**< what data and sg endpoints use, such as "posix" or "rc_verbs" */
    char put_mode[16];     /**< "onesided" or "message" */
    char get_mode[16];
    char node_version[32];
} kvl_session_info_t;

KVL_API kvl_status_t kvl_cache_session(kvl_cache_t *cache, kvl_session_info_t *info_p);

/**
 * Counters of each rail to the node, since the cache was created; also while there is no session.
 * @param stats    room for *@a count_p; rails in the order of the engine's choice.
 * @param count_p  in: room in @a stats; out: how many rails there are.
 * @return KVL_OK, KVL_ERR_INVALID, KVL_ERR_LIMIT (too little room: only *@a count_p is written).
 * **Thread** any. **Blocks** never for long.
 */
KVL_API kvl_status_t kvl_cache_rails(kvl_cache_t *cache, kvl_rail_stat_t *stats, size_t *count_p);

#ifdef __cplusplus
}
#endif
#endif
