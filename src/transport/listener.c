/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "link/scratch.h"
#include "link/server.h"

#include <kvlane/transport.h>

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

/* The target of transfers: a server whose ops reach exported regions. A message-mode op names a region
 * and a range; both are checked against what this engine exported. FIN says how many ops a transfer
 * had; its notification is delivered and XFER_OK sent once that many landed. Engine thread only, but
 * for the public calls, which enter. */

#define SCRATCH_BYTES (32u << 10) /* of a session */
#define SCRATCH_SLOTS 64u
#define TRANSFERS_MAX 65536u      /* open ones of one session */

typedef struct {
    kvl_list_t link;
    uint64_t number;
    uint32_t landed, expected;
    bool fin, failed, notify;
    uint64_t request;
    uint32_t length;
    uint8_t *notification;
} incoming_t;

typedef struct {
    kvl_list_t link; /* in listener->visitors */
    kvl_list_t transfers;
    unsigned count;
    int scratch; /* slot, -1: none */
} visitor_t;

struct kvl_listener {
    kvl_engine_t *engine;
    kvl_server_t *server;
    kvl_notify_func_t notify;
    void *arg;
    kvl_scratch_t scratch;
    kvl_tenant_t tenant;
    kvl_list_t visitors;
    char address[128];
    _Atomic int closed;
};

/* ---- transfers ---- */

static incoming_t *incoming_find(visitor_t *visitor, uint64_t number)
{
    kvl_list_t *node;

    for (node = visitor->transfers.next; node != &visitor->transfers; node = node->next) {
        incoming_t *incoming = kvl_container(node, incoming_t, link);

        if (incoming->number == number) {
            return incoming;
        }
    }
    return NULL;
}

static incoming_t *incoming_get(kvl_session_t *session, uint64_t number)
{
    visitor_t *visitor   = kvl_session_data(session);
    incoming_t *incoming = incoming_find(visitor, number);

    if (incoming) {
        return incoming;
    }
    if (visitor->count >= TRANSFERS_MAX) {
        kvl_session_violation(session, "too many transfers without their end");
        return NULL;
    }
    incoming = kvl_calloc(1, sizeof(*incoming));
    if (!incoming) {
        kvl_session_close(session, "out of memory");
        return NULL;
    }
    incoming->number = number;
    visitor->count++;
    kvl_list_push_front(&visitor->transfers, &incoming->link);
    return incoming;
}

static void incoming_free(visitor_t *visitor, incoming_t *incoming)
{
    visitor->count--;
    kvl_list_remove(&incoming->link);
    kvl_free(incoming->notification);
    kvl_free(incoming);
}

static void incoming_finish(kvl_listener_t *listener, kvl_session_t *session, incoming_t *incoming)
{
    kvl_answer_t answer = {.index = 0, .status = incoming->failed ? KVL_ERR_RANGE : KVL_OK};
    kvl_wbuf_t *w;

    if (!incoming->fin || incoming->landed < incoming->expected) {
        return;
    }
    if (incoming->notify && !incoming->failed && listener->notify) {
        listener->notify(kvl_session_name(session), incoming->notification, incoming->length,
                         listener->arg);
    }
    w = kvl_session_begin(session);
    if (w) {
        kvl_put_answer(w, &answer);
        kvl_session_send(session, KVL_MSG_XFER_OK, incoming->request, KVL_OK);
    }
    incoming_free(kvl_session_data(session), incoming);
}

static void listener_fin(kvl_listener_t *listener, kvl_session_t *session, const kvl_msg_head_t *head,
                         kvl_rbuf_t *body)
{
    kvl_xfer_fin_t fin;
    incoming_t *incoming;

    if (kvl_get_xfer_fin(body, &fin) != KVL_OK || kvl_wire_close(body) != KVL_OK) {
        kvl_session_violation(session, kvl_error_text());
        return;
    }
    incoming = incoming_get(session, fin.transfer);
    if (!incoming) {
        return;
    }
    if (incoming->fin || incoming->landed > fin.ops) {
        kvl_session_violation(session, "a transfer ended twice, or with fewer ops than it sent");
        return;
    }
    incoming->notification = kvl_malloc(fin.notification_length ? fin.notification_length : 1);
    if (!incoming->notification) {
        kvl_session_close(session, "out of memory");
        return;
    }
    memcpy(incoming->notification, fin.notification, fin.notification_length);
    incoming->length   = fin.notification_length;
    incoming->notify   = fin.has_notification;
    incoming->fin      = true;
    incoming->expected = fin.ops;
    incoming->request  = head->request;
    incoming_finish(listener, session, incoming);
}

/* ---- server ops ---- */

static kvl_status_t listener_hello(void *arg, kvl_session_t *session, const kvl_hello_t *hello,
                                   kvl_hello_ok_t *terms)
{
    kvl_listener_t *listener = arg;
    visitor_t *visitor;

    if (!hello->transport) {
        return kvl_error(KVL_ERR_REFUSED, "this is an engine's listener, not a cache node");
    }
    visitor = kvl_calloc(1, sizeof(*visitor));
    if (!visitor) {
        return kvl_error(KVL_ERR_NO_MEMORY, "out of memory");
    }
    kvl_list_init(&visitor->transfers);
    kvl_list_push_back(&listener->visitors, &visitor->link);
    visitor->scratch = kvl_scratch_take(&listener->scratch, terms);
    kvl_session_set_data(session, visitor);
    return KVL_OK;
}

static size_t listener_regions(void *arg, kvl_session_t *session, kvl_region_t **regions, size_t max)
{
    kvl_listener_t *listener = arg;

    (void)session;
    if (!max) {
        return 0;
    }
    regions[0] = listener->scratch.region;
    return 1;
}

static void *listener_scratch(void *arg, kvl_session_t *session, size_t *length_p)
{
    kvl_listener_t *listener = arg;
    visitor_t *visitor       = kvl_session_data(session);

    return kvl_scratch_address(&listener->scratch, visitor->scratch, length_p);
}

static void listener_message(void *arg, kvl_session_t *session, const kvl_msg_head_t *head,
                             kvl_rbuf_t *body)
{
    if (head->type == KVL_MSG_XFER_FIN) {
        listener_fin(arg, session, head, body);
    } else {
        kvl_session_refuse(session, head->request, KVL_ERR_UNSUPPORTED,
                           "this is an engine's listener, not a cache node");
    }
}

static bool ranges_fit(const kvl_data_head_t *head, size_t length)
{
    unsigned i;

    for (i = 0; i < head->ranges; i++) {
        kvl_wire_range_t range = kvl_get_data_range(head, i);

        if (range.offset > length || range.length > length - range.offset) {
            return false;
        }
    }
    return head->ranges || (head->offset <= length && head->length <= length - head->offset);
}

/* what a message-mode op names, if it lies in what was exported; the region is held */
static kvl_status_t listener_resolve(kvl_listener_t *listener, const kvl_endpoint_t *endpoint,
                                     const kvl_data_head_t *head, kvl_target_t *target)
{
    kvl_region_t *region = head->scope == 1 ? kvl_region_by_id(listener->engine, head->token) : NULL;

    if (!region || !ranges_fit(head, region->length)) {
        return KVL_ERR_RANGE;
    }
    atomic_fetch_add(&region->users, 1);
    *target = (kvl_target_t){.address = (uint8_t *)region->address + head->offset,
                             .length  = head->ranges ? region->length : (size_t)head->length,
                             .cookie  = region,
                             .device  = region->device};
    target->mem = region->device ? NULL : kvl_region_mem(region, endpoint->rail, target->address, target->length);
    return KVL_OK;
}

static kvl_status_t listener_put(void *arg, kvl_session_t *session, const kvl_endpoint_t *endpoint,
                                 const kvl_data_head_t *head, kvl_target_t *target)
{
    kvl_status_t status  = listener_resolve(arg, endpoint, head, target);
    incoming_t *incoming = incoming_get(session, head->transfer);

    if (incoming && status != KVL_OK) { /* dropped: the initiator learns it from XFER_OK */
        incoming->landed++;
        incoming->failed = true;
        incoming_finish(arg, session, incoming);
    } else if (!incoming && status == KVL_OK) {
        atomic_fetch_sub(&((kvl_region_t *)target->cookie)->users, 1);
        status = KVL_ERR_LIMIT;
    }
    return status;
}

static void listener_put_done(void *arg, kvl_session_t *session, const kvl_data_head_t *head,
                              void *cookie, kvl_status_t status)
{
    visitor_t *visitor = kvl_session_data(session);
    incoming_t *incoming;

    atomic_fetch_sub(&((kvl_region_t *)cookie)->users, 1);
    incoming = visitor ? incoming_find(visitor, head->transfer) : NULL;
    if (incoming) {
        incoming->landed++;
        incoming->failed |= status != KVL_OK;
        incoming_finish(arg, session, incoming);
    }
}

static kvl_status_t listener_get(void *arg, kvl_session_t *session, const kvl_endpoint_t *endpoint,
                                 const kvl_data_head_t *head, kvl_target_t *target)
{
    (void)session;
    return listener_resolve(arg, endpoint, head, target);
}

static void listener_get_done(void *arg, kvl_session_t *session, const kvl_data_head_t *head,
                              void *cookie, kvl_status_t status)
{
    (void)arg;
    (void)session;
    (void)head;
    (void)status;
    atomic_fetch_sub(&((kvl_region_t *)cookie)->users, 1);
}

static void listener_closing(void *arg, kvl_session_t *session)
{
    visitor_t *visitor = kvl_session_data(session);

    (void)arg;
    while (!kvl_list_empty(&visitor->transfers)) {
        incoming_free(visitor, kvl_container(visitor->transfers.next, incoming_t, link));
    }
}

static void listener_gone(kvl_listener_t *listener, kvl_session_t *session)
{
    visitor_t *visitor = kvl_session_data(session);

    kvl_scratch_put(&listener->scratch, visitor->scratch);
    kvl_session_set_data(session, NULL);
    kvl_list_remove(&visitor->link);
    kvl_free(visitor);
}

static void listener_closed(void *arg, kvl_session_t *session, bool quiet)
{
    if (quiet) {
        listener_gone(arg, session);
    }
}

static void listener_quiet(void *arg, kvl_session_t *session)
{
    listener_gone(arg, session);
}

static const kvl_server_ops_t listener_ops = {
    .hello    = listener_hello,
    .regions  = listener_regions,
    .scratch  = listener_scratch,
    .message  = listener_message,
    .put      = listener_put,
    .put_done = listener_put_done,
    .get      = listener_get,
    .get_done = listener_get_done,
    .closing  = listener_closing,
    .closed   = listener_closed,
    .quiet    = listener_quiet,
}; /* all called by the server on the engine thread; none may block */

/* ---- public ---- */

static void listener_evicted(kvl_tenant_t *tenant)
{
    kvl_listener_destroy(kvl_container(tenant, kvl_listener_t, tenant));
}

kvl_status_t kvl_listen(kvl_engine_t *engine, const char *address, kvl_notify_func_t notify, void *arg,
                        kvl_listener_t **listener_p)
{
    kvl_server_params_t params = {.engine = engine, .listen = address, .ops = &listener_ops};
    kvl_listener_t *listener;
    kvl_status_t status;

    if (!engine || !address || !listener_p) {
        return kvl_error(KVL_ERR_INVALID, "listen: engine, address or listener_p is NULL");
    }
    listener = kvl_calloc(1, sizeof(*listener));
    if (!listener) {
        return kvl_error(KVL_ERR_NO_MEMORY, "listen: out of memory");
    }
    listener->engine = engine;
    listener->tenant = (kvl_tenant_t){.name = "listener", .close = listener_evicted};
    listener->notify = notify;
    listener->arg    = arg;
    kvl_list_init(&listener->visitors);
    params.arg       = listener;
    status = kvl_scratch_create(&listener->scratch, engine, SCRATCH_BYTES, SCRATCH_SLOTS);
    if (status != KVL_OK) {
        kvl_free(listener);
        return status;
    }
    kvl_engine_enter(engine);
    status = kvl_server_create(&params, &listener->server);
    if (status == KVL_OK) {
        kvl_server_address(listener->server, listener->address, sizeof(listener->address));
        kvl_engine_add_tenant(engine, &listener->tenant);
    }
    kvl_engine_leave(engine);
    if (status != KVL_OK) {
        kvl_scratch_cleanup(&listener->scratch);
        kvl_free(listener);
        return status;
    }
    *listener_p = listener;
    return KVL_OK;
}

kvl_status_t kvl_listener_address(const kvl_listener_t *listener, char *address, size_t size)
{
    if (!listener || !address) {
        return kvl_error(KVL_ERR_INVALID, "kvl_listener_address: %s is NULL",
                         listener ? "address" : "listener");
    }
    if (strlen(listener->address) >= size) {
        return kvl_error(KVL_ERR_LIMIT, "listener: its address takes %zu bytes, %zu given",
                         strlen(listener->address) + 1, size);
    }
    memcpy(address, listener->address, strlen(listener->address) + 1);
    return KVL_OK;
}

static void listener_done(void *arg)
{
    kvl_listener_t *listener = arg;

    atomic_store_explicit(&listener->closed, 1, memory_order_release);
    kvl_engine_notify(listener->engine, false);
}

void kvl_listener_destroy(kvl_listener_t *listener)
{
    kvl_list_t *link;

    if (!listener || !kvl_engine_may_end(listener->engine, "kvl_listener_destroy")) {
        return;
    }
    kvl_engine_enter(listener->engine);
    kvl_engine_remove_tenant(listener->engine, &listener->tenant);
    kvl_server_close(listener->server, 0, listener_done, listener);
    kvl_engine_leave(listener->engine);
    kvl_engine_wait(listener->engine, &listener->closed, KVL_TIME_MAX);
    kvl_engine_enter(listener->engine);
    kvl_server_destroy(listener->server);
    while ((link = kvl_list_pop_front(&listener->visitors)) != NULL) { /* gone, but never seen to be quiet */
        kvl_free(kvl_container(link, visitor_t, link));
    }
    kvl_engine_leave(listener->engine);
    kvl_scratch_cleanup(&listener->scratch);
    kvl_free(listener);
}
