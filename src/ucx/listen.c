/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx/private.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The listener and the connection requests that wait at it. A request is accepted (ep.c) or
 * rejected exactly once; destroying the listener rejects the rest.
 *
 * A listener that is destroyed while somebody connects takes the process along (door.c). So it is not
 * destroyed but retired: it rejects whoever comes, and goes with its worker. */

static void conn_refuse(kvl_ucx_listener_t *listener, ucp_conn_request_h request)
{
    ucs_status_t status = ucp_listener_reject(listener->ucp, request);

    if (status != UCS_OK) { /* the peer went away meanwhile */
        kvl_debug("listener: reject: %s", ucs_status_string(status));
    }
}

static void conn_arrived(ucp_conn_request_h request, void *arg)
{
    kvl_ucx_listener_t *listener = arg;
    ucp_conn_request_attr_t attr = {
        .field_mask =
            UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR | UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ID,
    };
    ucs_status_t status;
    kvl_conn_t *conn;

    if (!listener->func) {
        conn_refuse(listener, request);
        return;
    }
    status = kvl_ucp_fails() ? UCS_ERR_IO_ERROR : ucp_conn_request_query(request, &attr);
    conn   = status == UCS_OK ? kvl_calloc(1, sizeof(*conn)) : NULL;
    if (!conn) {
        kvl_debug("listener: request refused: %s",
                  status == UCS_OK ? "out of memory" : ucs_status_string(status));
        conn_refuse(listener, request);
        return;
    }
    conn->listener = listener;
    conn->ucp      = request;
    conn->client   = attr.client_address;
    kvl_addr_format((const struct sockaddr *)&attr.client_address, conn->peer, sizeof(conn->peer));
    kvl_list_push_back(&listener->waiting, &conn->link);
    listener->func(conn, attr.client_id, listener->arg);
}

static ucs_status_t listener_open(kvl_ucx_listener_t *listener, const kvl_addr_t *addr)
{
    ucp_listener_params_t params = {
        .field_mask   = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
        .sockaddr     = {(const struct sockaddr *)&addr->storage, addr->length},
        .conn_handler = {conn_arrived, listener},
    };

    return kvl_ucp_fails() ? UCS_ERR_IO_ERROR
                           : ucp_listener_create(listener->worker->ucp, &params, &listener->ucp);
}

static ucs_status_t listener_query(kvl_ucx_listener_t *listener)
{
    ucp_listener_attr_t attr = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};
    ucs_status_t status =
        kvl_ucp_fails() ? UCS_ERR_IO_ERROR : ucp_listener_query(listener->ucp, &attr);

    if (status == UCS_OK) {
        listener->addr.storage = attr.sockaddr;
        listener->addr.length  = attr.sockaddr.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                                     : sizeof(struct sockaddr_in);
    }
    return status;
}

/* UCX does not tell why; the kernel does. Returns the reason and the way out, or NULL. */
static const char *listen_cause(const kvl_addr_t *addr)
{
    int fd = socket(addr->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int error =
        fd >= 0 && bind(fd, (const struct sockaddr *)&addr->storage, addr->length) ? errno : 0;

    if (fd >= 0) {
        close(fd);
    }
    switch (error) {
    case EADDRINUSE:
        return "the port is in use: stop who listens there, or choose another (0 picks a free one)";
    case EADDRNOTAVAIL:
        return "no device of this host has that address: see `ip addr', or use 0.0.0.0";
    case EACCES:
        return "the port is for privileged processes: choose one from 1024";
    default:
        return NULL;
    }
}

static bool addr_is(const kvl_addr_t *a, const kvl_addr_t *b)
{
    char text_a[80], text_b[80];

    kvl_addr_format((const struct sockaddr *)&a->storage, text_a, sizeof(text_a));
    kvl_addr_format((const struct sockaddr *)&b->storage, text_b, sizeof(text_b));
    return strcmp(text_a, text_b) == 0;
}

/* the one that still has this address; NULL: none */
static kvl_ucx_listener_t *listener_retired(kvl_worker_t *worker, const kvl_addr_t *addr)
{
    kvl_list_t *node;

    for (node = worker->retired.next; node != &worker->retired; node = node->next) {
        kvl_ucx_listener_t *listener = kvl_container(node, kvl_ucx_listener_t, link);

        if (addr_is(&listener->addr, addr)) {
            return listener;
        }
    }
    return NULL;
}

kvl_status_t kvl_ucx_listen(kvl_worker_t *worker, const kvl_addr_t *addr, kvl_conn_func_t func,
                            void *arg, kvl_ucx_listener_t **listener_p)
{
    kvl_ucx_listener_t *listener = listener_retired(worker, addr);
    char text[80];
    const char *cause;
    ucs_status_t status;

    if (listener) {
        kvl_list_remove(&listener->link);
        listener->func = func;
        listener->arg  = arg;
        *listener_p    = listener;
        return KVL_OK;
    }
    listener = kvl_calloc(1, sizeof(*listener));
    if (!listener) {
        return kvl_error(KVL_ERR_NO_MEMORY, "listener: %zu bytes", sizeof(*listener));
    }
    listener->worker = worker;
    listener->func   = func;
    listener->arg    = arg;
    kvl_list_init(&listener->waiting);
    kvl_list_init(&listener->link);
    status = listener_open(listener, addr);
    if (status != UCS_OK) {
        goto err_free;
    }
    status = listener_query(listener);
    if (status != UCS_OK) {
        goto err_destroy;
    }
    kvl_ucx_listener_guard(listener);
    *listener_p = listener;
    return KVL_OK;

err_destroy:
    ucp_listener_destroy(listener->ucp);
err_free:
    kvl_free(listener);
    kvl_addr_format((const struct sockaddr *)&addr->storage, text, sizeof(text));
    cause = listen_cause(addr);
    return kvl_error(kvl_status_of(status), "cannot listen on %s: %s", text,
                     cause ? cause : ucs_status_string(status));
}

void kvl_ucx_listener_addr(const kvl_ucx_listener_t *listener, kvl_addr_t *addr_p)
{
    *addr_p = listener->addr;
}

void kvl_ucx_listener_destroy(kvl_ucx_listener_t *listener)
{
    if (!listener) {
        return;
    }
    while (!kvl_list_empty(&listener->waiting)) {
        kvl_conn_reject(kvl_container(listener->waiting.next, kvl_conn_t, link));
    }
    listener->func = NULL;
    kvl_list_push_back(&listener->worker->retired, &listener->link);
}

void kvl_ucx_listeners_free(kvl_worker_t *worker)
{
    kvl_list_t *node;

    while ((node = kvl_list_pop_front(&worker->retired)) != NULL) {
        kvl_ucx_listener_t *listener = kvl_container(node, kvl_ucx_listener_t, link);

        kvl_ucx_listener_quiet(listener);
        ucp_listener_destroy(listener->ucp);
        kvl_free(listener);
    }
}

void kvl_conn_reject(kvl_conn_t *conn)
{
    conn_refuse(conn->listener, conn->ucp);
    kvl_list_remove(&conn->link);
    kvl_free(conn);
}

void kvl_conn_peer(const kvl_conn_t *conn, char *text, size_t size)
{
    snprintf(text, size, "%s", conn->peer);
}
