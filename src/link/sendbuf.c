/* SPDX-License-Identifier: BSD-3-Clause */
#include "link/sendbuf.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"

#define IDLE_MAX 64 /* of 64 KiB each: more are freed */

void kvl_sendpool_init(kvl_sendpool_t *pool, unsigned limit)
{
    kvl_list_init(&pool->idle);
    pool->idle_count = pool->busy_count = 0;
    pool->limit                         = limit;
}

void kvl_sendpool_cleanup(kvl_sendpool_t *pool)
{
    kvl_list_t *node;

    while ((node = kvl_list_pop_front(&pool->idle)) != NULL) {
        kvl_free(kvl_container(node, kvl_sendbuf_t, link));
    }
    pool->idle_count = 0;
}

kvl_sendbuf_t *kvl_sendbuf_get(kvl_sendpool_t *pool, size_t size)
{
    kvl_list_t *node = NULL;
    kvl_sendbuf_t *buf;

    if (pool->busy_count >= pool->limit) {
        return NULL;
    }
    if (size <= KVL_WIRE_MAX) {
        size = KVL_WIRE_MAX;
        node = kvl_list_pop_front(&pool->idle);
    }
    if (node) {
        pool->idle_count--;
        buf = kvl_container(node, kvl_sendbuf_t, link);
    } else {
        buf = kvl_malloc(sizeof(*buf) + size);
        if (!buf) {
            return NULL;
        }
        *buf = (kvl_sendbuf_t){.pool = pool, .size = size};
        kvl_list_init(&buf->link);
    }
    buf->sent     = NULL;
    buf->stream   = NULL;
    buf->back     = NULL;
    buf->posted   = false;
    buf->endpoint = NULL;
    kvl_wbuf_init(&buf->writer, buf->data, buf->size);
    pool->busy_count++;
    return buf;
}

void kvl_sendbuf_put(kvl_sendbuf_t *buf)
{
    kvl_sendpool_t *pool = buf->pool;

    pool->busy_count--;
    if (buf->size != KVL_WIRE_MAX || pool->idle_count >= IDLE_MAX) {
        kvl_free(buf);
        return;
    }
    pool->idle_count++;
    kvl_list_push_front(&pool->idle, &buf->link);
}

void kvl_sendbuf_end(kvl_sendbuf_t *buf, kvl_status_t status)
{
    void (*sent)(void *, kvl_endpoint_t *, kvl_status_t) = buf->sent;
    kvl_endpoint_t *endpoint                              = buf->endpoint;
    void *arg                                             = buf->arg;

    kvl_sendbuf_put(buf);
    if (sent) {
        sent(arg, endpoint, status);
    }
}

static void sendbuf_done(kvl_req_t *req, kvl_status_t status)
{
    kvl_sendbuf_t *buf = kvl_container(req, kvl_sendbuf_t, req);

    if (buf->back) {
        buf->back(buf, status);
    } else {
        kvl_sendbuf_end(buf, status);
    }
}

bool kvl_sendbuf_write(kvl_sendbuf_t *buf, kvl_msg_type_t type, uint64_t request, kvl_status_t answer,
                       kvl_status_t *status_p)
{
    size_t length = kvl_wbuf_finish(&buf->writer, type, request, answer);
    kvl_fault_t fault;

    if (!length) {
        kvl_sendbuf_end(buf, KVL_ERR_LIMIT);
        *status_p = kvl_error(KVL_ERR_LIMIT, "message %s: does not fit %zu bytes", kvl_msg_name(type),
                              (size_t)KVL_WIRE_MAX);
        return false;
    }
    fault = kvl_fault(KVL_FAULT_CTRL_SEND);
    if (fault.action == KVL_FAULT_FAIL || fault.action == KVL_FAULT_DROP) {
        *status_p = fault.action == KVL_FAULT_FAIL ? KVL_ERR_RAIL : KVL_OK;
        kvl_sendbuf_end(buf, *status_p);
        return false;
    }
    buf->iov = (kvl_iov_t){buf->data, length};
    return true;
}

static kvl_status_t sendbuf_post(kvl_sendbuf_t *buf, kvl_endpoint_t *endpoint, kvl_am_send_t *send)
{
    kvl_status_t status;

    send->iov       = &buf->iov;
    send->iov_count = 1;
    send->eager     = true;
    buf->endpoint   = endpoint;
    buf->req.done   = sendbuf_done;
    status          = kvl_ep_am(endpoint->ep, send, &buf->req);
    /* counted now: the endpoint may have moved when the buffer is back */
    endpoint->counts.posted++;
    kvl_op_counts_end(&endpoint->counts, status < 0 ? status : KVL_OK, buf->iov.length);
    return status;
}

kvl_status_t kvl_sendbuf_post_numbered(kvl_sendbuf_t *buf, kvl_endpoint_t *endpoint)
{
    kvl_am_send_t send = {.id = KVL_AM_CTRL, .header = buf->head, .header_length = sizeof(buf->head)};

    return sendbuf_post(buf, endpoint, &send);
}

kvl_status_t kvl_sendbuf_send(kvl_sendbuf_t *buf, kvl_endpoint_t *endpoint, unsigned am,
                              kvl_msg_type_t type, uint64_t request, kvl_status_t answer)
{
    kvl_am_send_t send = {.id = am};
    kvl_status_t status;

    buf->endpoint = endpoint;
    if (!kvl_sendbuf_write(buf, type, request, answer, &status)) {
        return status;
    }
    status = sendbuf_post(buf, endpoint, &send);
    if (status != KVL_INPROGRESS) {
        kvl_sendbuf_end(buf, status);
    }
    return status;
}
