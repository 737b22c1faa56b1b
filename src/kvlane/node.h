/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file node.h
 * A cache node inside this process.
 *
 *     kvl_node_params_t params = {.listen = "127.0.0.1:0", .memory_bytes = 1ull << 30};
 *     kvl_node_t *node;
 *     char address[128];
 *     if (kvl_node_create(&params, &node) != KVL_OK)
 *         errx(1, "%s", kvl_error_text());
 *     kvl_node_address(node, address, sizeof(address));
 *     kvl_node_run(node);      // until kvl_node_drain() from elsewhere
 *     kvl_node_destroy(node);
 */
#ifndef KVLANE_NODE_H
#define KVLANE_NODE_H

#include <kvlane/cache.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kvl_node kvl_node_t;

typedef struct {
    const kvl_config_t *config; /**< copied; NULL: the environment alone */
    const char *listen;         /**< "host:port"; port 0 picks one */
    uint64_t memory_bytes;      /**< limit of pinned memory; all but 64 KiB a session (a sixteenth at
                                     most, for their self-tests) takes values */
} kvl_node_params_t;

/** Registers the memory and listens. **Blocks** while memory is pinned. The node accepts as soon
 *  as it is run, or at once when KVLANE_PROGRESS=thread (the default) gives it a thread. */
KVL_API kvl_status_t kvl_node_create(const kvl_node_params_t *params, kvl_node_t **node_p);

/** The address in force, "host:port". */
KVL_API kvl_status_t kvl_node_address(const kvl_node_t *node, char *address, size_t size);

/** Serves on the calling thread until drained. Returns KVL_OK after a drain, or KVL_ERR_RAIL if a lane
 *  is stuck for good (a client was killed at the wrong instant of a write to shared memory): then only
 *  a new process helps. */
KVL_API kvl_status_t kvl_node_run(kvl_node_t *node);

/** Stops accepting, lets work under way end for at most @a timeout_ms, closes every session, and
 *  makes kvl_node_run() return. Async-signal-safe: it only leaves word. */
KVL_API void kvl_node_drain(kvl_node_t *node, int64_t timeout_ms);

KVL_API void kvl_node_stat(kvl_node_t *node, kvl_node_stat_t *stat_p);

/** Drains if still running, then frees. NULL is accepted. */
KVL_API void kvl_node_destroy(kvl_node_t *node);

#ifdef __cplusplus
}
#endif
#endif
