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
    buf->sent = NULL;
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

static void sendbuf_finish(kvl_sendbuf_t *buf, kvl_status_t status)
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
    sendbuf_finish(kvl_container(req, kvl_sendbuf_t, req), status);
}

kvl_status_t kvl_sendbuf_send(kvl_sendbuf_t *buf, kvl_endpoint_t *endpoint, unsigned am,
                              kvl_msg_type_t type, uint64_t request, kvl_status_t answer)
{
    kvl_am_send_t send = {.id = am, .iov = &buf->iov, .iov_count = 1, .eager = true};
    kvl_fault_t fault;
    kvl_status_t status;
    size_t length;

    buf->endpoint = endpoint;
    length        = kvl_wbuf_finish(&buf->writer, type, request, answer);
    if (!length) {
        sendbuf_finish(buf, KVL_ERR_LIMIT);
        return kvl_error(KVL_ERR_LIMIT, "message %s: does not fit %zu bytes", kvl_msg_name(type),
                         (size_t)KVL_WIRE_MAX);
    }
    fault = kvl_fault(KVL_FAULT_CTRL_SEND);
    if (fault.action == KVL_FAULT_FAIL || fault.action == KVL_FAULT_DROP) {
        status = fault.action == KVL_FAULT_FAIL ? KVL_ERR_RAIL : KVL_OK;
        sendbuf_finish(buf, status);
        return status;
    }
    buf->iov      = (kvl_iov_t){buf->data, length};
    buf->req.done = sendbuf_done;
    status        = kvl_ep_am(endpoint->ep, &send, &buf->req);
    if (status != KVL_INPROGRESS) {
        sendbuf_finish(buf, status);
    }
    return status;
}
