/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/peer.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"

#include <string.h>

/* The initiator of transfers. Imported regions outlive a reconnect: the link forgets them when it goes
 * down, and they are imported again when it is up. */

static void peer_drained(kvl_peer_t *peer)
{
    if (peer->closing && kvl_list_empty(&peer->running) && kvl_list_empty(&peer->waiting)) {
        atomic_store_explicit(&peer->drained, 1, memory_order_release);
        kvl_engine_notify(peer->engine, false);
    }
}

static kvl_status_t remote_import(kvl_remote_t *remote, kvl_link_t *link)
{
    kvl_region_blob_t in;
    kvl_status_t status = kvl_get_region_blob(remote->blob, remote->blob_length, &in);

    return status == KVL_OK ? kvl_link_import(link, in.slices, in.count, &remote->region) : status;
}

static void peer_up(kvl_link_t *link, void *arg)
{
    kvl_peer_t *peer = arg;
    kvl_list_t *node;

    for (node = peer->remotes.next; node != &peer->remotes; node = node->next) {
        kvl_remote_t *remote = kvl_container(node, kvl_remote_t, link);

        if (remote_import(remote, link) != KVL_OK) {
            remote->region = NULL;
            kvl_warn("peer %s: a region could not be imported again: %s", kvl_link_address(link),
                     kvl_error_text());
        }
    }
    peer->status = KVL_OK;
    atomic_store_explicit(&peer->connected, 1, memory_order_release);
    kvl_engine_notify(peer->engine, false);
    kvl_transfers_start(peer);
}

static void peer_down(kvl_link_t *link, kvl_status_t status, const char *text, void *arg)
{
    kvl_peer_t *peer = arg;
    kvl_list_t *node;

    (void)link;
    for (node = peer->remotes.next; node != &peer->remotes; node = node->next) {
        kvl_container(node, kvl_remote_t, link)->region = NULL;
    }
    if (!atomic_load(&peer->connected)) {
        peer->status = status;
        snprintf(peer->text, sizeof(peer->text), "%s", text);
        atomic_store_explicit(&peer->connected, 1, memory_order_release);
    }
    kvl_transfers_down(peer, status, text);
    peer_drained(peer);
    kvl_engine_notify(peer->engine, false);
}

static const kvl_link_ops_t peer_ops = {
    .up   = peer_up,   /* engine thread, from the poller */
    .down = peer_down, /* engine thread, from the poller */
};

static void peer_closed(kvl_link_t *link, void *arg)
{
    kvl_peer_t *peer     = arg;
    kvl_engine_t *engine = peer->engine;

    kvl_link_destroy(link);
    atomic_store_explicit(&peer->closed, 1, memory_order_release);
    kvl_engine_notify(engine, false);
}

static void peer_evicted(kvl_tenant_t *tenant)
{
    kvl_peer_close(kvl_container(tenant, kvl_peer_t, tenant));
}

kvl_status_t kvl_connect(kvl_engine_t *engine, const char *address, int64_t timeout_ms,
                         kvl_peer_t **peer_p)
{
    kvl_link_params_t params = {.engine = engine, .address = address, .transport = true, .ops = &peer_ops};
    kvl_batch_params_t time  = {.timeout_ms = timeout_ms};
    kvl_status_t status;
    kvl_peer_t *peer;
    int64_t until;

    if (!engine || !address || !peer_p) {
        return kvl_error(KVL_ERR_INVALID, "connect: engine, address or peer_p is NULL");
    }
    status = kvl_engine_may_wait(engine, "kvl_connect");
    if (status == KVL_OK) {
        status = kvl_batch_deadline(engine, &time, &until);
    }
    if (status != KVL_OK) {
        return status;
    }
    peer = kvl_calloc(1, sizeof(*peer));
    if (!peer) {
        return kvl_error(KVL_ERR_NO_MEMORY, "connect: out of memory");
    }
    peer->engine = engine;
    peer->status = KVL_ERR_TIMEOUT;
    peer->tenant = (kvl_tenant_t){.name = "peer", .close = peer_evicted};
    snprintf(peer->text, sizeof(peer->text), "%s: not connected in time", address);
    kvl_list_init(&peer->remotes);
    kvl_list_init(&peer->waiting);
    kvl_list_init(&peer->running);
    params.arg = peer;
    kvl_engine_enter(engine);
    status = kvl_link_create(&params, &peer->link);
    if (status == KVL_OK) {
        kvl_link_want(peer->link);
        kvl_engine_add_tenant(engine, &peer->tenant);
    }
    kvl_engine_leave(engine);
    if (status != KVL_OK) {
        kvl_free(peer);
        return status;
    }
    kvl_engine_wait(engine, &peer->connected, until);
    kvl_engine_enter(engine);
    status = kvl_error(peer->status, "%s", peer->text);
    kvl_engine_leave(engine);
    if (status != KVL_OK) {
        char text[sizeof(peer->text)];

        memcpy(text, peer->text, sizeof(text));
        kvl_peer_close(peer);
        return kvl_error(status, "%s", text);
    }
    *peer_p = peer;
    return KVL_OK;
}

kvl_status_t kvl_peer_test(kvl_peer_t *peer)
{
    kvl_status_t status;

    if (!peer) {
        return kvl_error(KVL_ERR_INVALID, "kvl_peer_test: peer is NULL");
    }
    kvl_engine_enter(peer->engine);
    status = kvl_link_want(peer->link);
    kvl_engine_leave(peer->engine);
    return status;
}

void kvl_peer_close(kvl_peer_t *peer)
{
    if (!peer || !kvl_engine_may_end(peer->engine, "kvl_peer_close")) {
        return;
    }
    kvl_engine_enter(peer->engine);
    kvl_engine_remove_tenant(peer->engine, &peer->tenant);
    peer->closing = true;
    kvl_transfers_cancel(peer);
    peer_drained(peer);
    kvl_engine_leave(peer->engine);
    kvl_engine_wait(peer->engine, &peer->drained, KVL_TIME_MAX);
    kvl_engine_enter(peer->engine);
    kvl_link_close(peer->link, peer_closed, peer);
    kvl_engine_leave(peer->engine);
    kvl_engine_wait(peer->engine, &peer->closed, KVL_TIME_MAX);
    kvl_engine_enter(peer->engine); /* who set the flag is out of here */
    while (!kvl_list_empty(&peer->remotes)) { /* remotes that the caller kept become harmless */
        kvl_remote_t *remote = kvl_container(peer->remotes.next, kvl_remote_t, link);

        kvl_list_remove(&remote->link);
        remote->peer   = NULL;
        remote->region = NULL;
        if (remote->released) {
            kvl_free(remote);
        }
    }
    kvl_engine_leave(peer->engine);
    kvl_free(peer);
}

kvl_status_t kvl_remote_import(kvl_peer_t *peer, const void *blob, size_t length,
                               kvl_remote_t **remote_p)
{
    kvl_region_blob_t in;
    kvl_remote_t *remote;
    kvl_status_t status;

    if (!peer || !blob || !remote_p) {
        return kvl_error(KVL_ERR_INVALID, "import: peer, blob or remote_p is NULL");
    }
    if (kvl_get_region_blob(blob, length, &in) != KVL_OK) {
        return kvl_error(KVL_ERR_INVALID, "import: %zu bytes that no kvl_region_export() wrote", length);
    }
    remote = kvl_calloc(1, sizeof(*remote) + length);
    if (!remote) {
        return kvl_error(KVL_ERR_NO_MEMORY, "import: out of memory");
    }
    remote->peer        = peer;
    remote->id          = in.slices[0].id;
    remote->length      = in.slices[in.count - 1].base + in.slices[in.count - 1].length - in.slices[0].base;
    remote->blob_length = length;
    memcpy(remote->blob, blob, length);
    kvl_engine_enter(peer->engine);
    status = kvl_link_state(peer->link) == KVL_LINK_UP
                 ? remote_import(remote, peer->link)
                 : kvl_link_want(peer->link);
    if (status == KVL_INPROGRESS) { /* peer_up() imports it */
        status = KVL_OK;
    }
    if (status == KVL_OK) {
        kvl_list_push_back(&peer->remotes, &remote->link);
    }
    kvl_engine_leave(peer->engine);
    if (status != KVL_OK) {
        kvl_free(remote);
        return status;
    }
    *remote_p = remote;
    return KVL_OK;
}

size_t kvl_remote_length(const kvl_remote_t *remote)
{
    return remote ? (size_t)remote->length : 0;
}

void kvl_remote_release(kvl_remote_t *remote)
{
    if (!remote) {
        return;
    }
    if (remote->peer) {
        kvl_engine_t *engine = remote->peer->engine;

        if (kvl_engine_is_foreign(engine, "kvl_remote_release")) {
            return;
        }
        kvl_engine_enter(engine);
        if (atomic_load(&remote->users)) {
            kvl_error_log("peer: a remote region was released under a transfer; it is kept until the peer is "
                          "closed");
            remote->released = true;
            kvl_engine_leave(engine);
            return;
        }
        if (remote->region) {
            kvl_link_forget(remote->peer->link, remote->region);
        }
        kvl_list_remove(&remote->link);
        kvl_engine_leave(engine);
    }
    kvl_free(remote);
}
