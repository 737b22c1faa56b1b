/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file transport.h
 * Engine to engine, no node: import a peer's region and move segments from or to it.
 *
 *     // target                                    // initiator
 *     kvl_listen(engine, "0.0.0.0:0", NULL, NULL, &l);
 *     kvl_listener_address(l, addr, sizeof(addr)); kvl_connect(engine, addr, 0, &peer);
 *     kvl_region_export(region, blob, &size);      kvl_remote_import(peer, blob, size, &remote);
 *     kvl_transfer_t t = {.op = KVL_TRANSFER_PUT, .parts = parts, .part_count = 61,
 *                         .notification = "done", .notification_length = 4};
 *     kvl_transfer_submit(peer, &t, NULL, &batch);
 *     kvl_batch_wait(batch, -1);
 *     kvl_batch_release(batch);
 *     kvl_remote_release(remote);
 *     kvl_peer_close(peer);
 */
#ifndef KVLANE_TRANSPORT_H
#define KVLANE_TRANSPORT_H

#include <kvlane/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVL_NOTIFICATION_MAX ((1u << 20) + 4096u) /**< longest notification in bytes: 1 MiB and an adapter's header */
#define KVL_PARTS_MAX        (1u << 20)           /**< most parts of one transfer */

typedef struct kvl_listener kvl_listener_t;
typedef struct kvl_peer     kvl_peer_t;
typedef struct kvl_remote   kvl_remote_t;

/**
 * A notification arrived: all data of its transfer is visible. Called once per notification on the
 * thread that progresses the engine; @a data is valid during the call only (empty is legal). What it may
 * call: see the top of engine.h.
 */
typedef void (*kvl_notify_func_t)(const char *peer_name, const void *data, size_t length, void *arg);

/** Listens on "host:port" (port 0 picks one). One listener per engine. */
KVL_API kvl_status_t kvl_listen(kvl_engine_t *engine, const char *address, kvl_notify_func_t notify,
                                void *arg, kvl_listener_t **listener_p);
/** "host:port" in force; what a peer hands to kvl_connect(). */
KVL_API kvl_status_t kvl_listener_address(const kvl_listener_t *listener, char *address, size_t size);
/** Closes every accepted session, waits until all is quiet. NULL is accepted. */
KVL_API void kvl_listener_destroy(kvl_listener_t *listener);

/** Connects and waits for it at most @a timeout_ms (0: KVLANE_TIMEOUT). */
KVL_API kvl_status_t kvl_connect(kvl_engine_t *engine, const char *address, int64_t timeout_ms,
                                 kvl_peer_t **peer_p);
/**
 * How the peer is now; a peer that is lost is connected again by itself.
 * @return KVL_OK, KVL_INPROGRESS (being connected again), KVL_ERR_UNREACHABLE or KVL_ERR_REFUSED (lost, the text
 * says why; transfers fail at once until it is back), KVL_ERR_CLOSED, KVL_ERR_INVALID.
 * **Thread** any. **Blocks** never for long.
 */
KVL_API kvl_status_t kvl_peer_test(kvl_peer_t *peer);
/** Cancels what is under way, waits until quiet, closes. NULL is accepted. */
KVL_API void kvl_peer_close(kvl_peer_t *peer);

/** Imports what the peer's kvl_region_export() wrote. KVL_ERR_INVALID if the blob is damaged. */
KVL_API kvl_status_t kvl_remote_import(kvl_peer_t *peer, const void *blob, size_t length,
                                       kvl_remote_t **remote_p);
KVL_API size_t kvl_remote_length(const kvl_remote_t *remote);
KVL_API void kvl_remote_release(kvl_remote_t *remote);

/** One piece: local bytes from or to a range of an imported region. */
typedef struct {
    kvl_segment_t local;
    kvl_remote_t *remote;
    uint64_t remote_offset; /**< bytes from the region's start */
} kvl_part_t;

typedef enum { KVL_TRANSFER_PUT, KVL_TRANSFER_GET } kvl_transfer_op_t;

typedef struct {
    kvl_transfer_op_t op;
    const kvl_part_t *parts;
    size_t part_count;           /**< 0 is legal with a notification */
    const void *notification;    /**< NULL with length 0 and has_notification 0: none */
    size_t notification_length;
    int has_notification;        /**< not 0: deliver, even if empty */
} kvl_transfer_t;

/**
 * Submits a transfer as one batch of one item. It completes after all its bytes are visible (put:
 * at the target; get: here), and after the target got the notification.
 * @return KVL_INPROGRESS, or a final status and no batch.
 */
KVL_API kvl_status_t kvl_transfer_submit(kvl_peer_t *peer, const kvl_transfer_t *transfer,
                                         const kvl_batch_params_t *params, kvl_batch_t **batch_p);

#ifdef __cplusplus
}
#endif
#endif
