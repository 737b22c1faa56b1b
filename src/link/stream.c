/* SPDX-License-Identifier: BSD-3-Clause */
#include "link/stream.h"

#include "base/error.h"

#include <assert.h>

/* A buffer is in stream->sent from its send until the peer confirmed it. It may be at UCX (posted) longer
 * than that, or less: it ends when it is neither. Its owner hears of its end as if it was sent just then.
 *
 * An endpoint delivers in order or fails, so a number that is not the next one is the peer's fault. */

#define CONFIRM_EVERY 8 /* messages; most are confirmed by an answer before */

void kvl_stream_init(kvl_stream_t *stream)
{
    *stream = (kvl_stream_t){.on = false};
    kvl_list_init(&stream->sent);
}

static void stream_release(kvl_sendbuf_t *buf)
{
    kvl_list_remove(&buf->link);
    buf->stream = NULL;
    if (!buf->posted) {
        kvl_sendbuf_end(buf, KVL_OK);
    }
}

void kvl_stream_drop(kvl_stream_t *stream)
{
    while (!kvl_list_empty(&stream->sent)) {
        stream_release(kvl_container(stream->sent.next, kvl_sendbuf_t, link));
    }
    kvl_stream_init(stream);
}

/* ---- sending ---- */

static void endpoint_broke(kvl_endpoint_t *endpoint, kvl_status_t status)
{
    if (!endpoint->failed) {
        endpoint->ops->failed(endpoint, status);
    }
}

static void stream_back(kvl_sendbuf_t *buf, kvl_status_t status)
{
    kvl_endpoint_t *endpoint = buf->endpoint;

    buf->posted = false;
    if (!buf->stream) {
        kvl_sendbuf_end(buf, KVL_OK);
    }
    if (status < 0 && status != KVL_ERR_CANCELED) {
        endpoint_broke(endpoint, status);
    }
}

static void stream_post(kvl_stream_t *stream, kvl_sendbuf_t *buf, kvl_endpoint_t *endpoint)
{
    const kvl_stream_head_t head = {buf->number, stream->received};
    kvl_status_t status;

    assert(!buf->posted);
    kvl_put_stream_head(buf->head, &head);
    stream->confirmed = stream->received;
    buf->posted       = true;
    status            = kvl_sendbuf_post_numbered(buf, endpoint);
    if (status != KVL_INPROGRESS) {
        stream_back(buf, status);
    }
}

kvl_status_t kvl_stream_send(kvl_stream_t *stream, kvl_sendbuf_t *buf, kvl_endpoint_t *endpoint,
                             kvl_msg_type_t type, uint64_t request, kvl_status_t answer)
{
    kvl_status_t status;

    if (!kvl_sendbuf_write(buf, type, request, answer, &status)) {
        return status;
    }
    buf->stream = stream;
    buf->back   = stream_back;
    buf->number = ++stream->number;
    kvl_list_push_back(&stream->sent, &buf->link);
    if (!stream->held) {
        stream_post(stream, buf, endpoint);
    }
    return KVL_INPROGRESS;
}

/* ---- receiving ---- */

static kvl_status_t stream_heard(kvl_stream_t *stream, uint64_t received)
{
    kvl_sendbuf_t *buf;

    if (received > stream->number) {
        return kvl_error(KVL_ERR_PROTOCOL, "it received more messages than were sent");
    }
    while (!kvl_list_empty(&stream->sent)) {
        buf = kvl_container(stream->sent.next, kvl_sendbuf_t, link);
        if (buf->number > received) {
            break;
        }
        stream_release(buf);
    }
    return KVL_OK;
}

kvl_stream_take_t kvl_stream_take(kvl_stream_t *stream, const kvl_am_t *am)
{
    kvl_stream_head_t head;

    if (!am->header_length && !stream->on) {
        return KVL_STREAM_NEXT;
    }
    if (kvl_get_stream_head(am->header, am->header_length, &head) != KVL_OK ||
        stream_heard(stream, head.received) != KVL_OK) {
        return KVL_STREAM_WRONG;
    }
    if (head.number == 0) {
        return KVL_STREAM_EMPTY;
    }
    if (head.number != stream->received + 1) {
        kvl_error(KVL_ERR_PROTOCOL, "a ctrl message is missing or came twice");
        return KVL_STREAM_WRONG;
    }
    stream->received++;
    stream->on = true;
    return KVL_STREAM_NEXT;
}

void kvl_stream_confirm(kvl_stream_t *stream, kvl_sendpool_t *pool, kvl_endpoint_t *endpoint)
{
    kvl_sendbuf_t *buf;
    kvl_status_t status;

    if (stream->held || stream->received - stream->confirmed < CONFIRM_EVERY) {
        return;
    }
    buf = kvl_sendbuf_get(pool, KVL_WIRE_HEAD_SIZE);
    if (buf && kvl_sendbuf_write(buf, KVL_MSG_RECEIVED, 0, KVL_OK, &status)) {
        buf->number = 0;
        buf->back   = stream_back;
        stream_post(stream, buf, endpoint);
    }
}

/* ---- another endpoint ---- */

void kvl_stream_hold(kvl_stream_t *stream)
{
    stream->held = true;
}

kvl_status_t kvl_stream_resume(kvl_stream_t *stream, kvl_endpoint_t *endpoint, uint64_t received)
{
    kvl_list_t *node;

    if (!kvl_list_empty(&stream->sent) &&
        received + 1 < kvl_container(stream->sent.next, kvl_sendbuf_t, link)->number) {
        return kvl_error(KVL_ERR_PROTOCOL, "it asks for messages that it had confirmed");
    }
    if (stream_heard(stream, received) != KVL_OK) {
        return KVL_ERR_PROTOCOL;
    }
    stream->held = false;
    for (node = stream->sent.next; node != &stream->sent; node = node->next) {
        stream_post(stream, kvl_container(node, kvl_sendbuf_t, link), endpoint);
    }
    return KVL_OK;
}
