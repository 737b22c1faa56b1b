/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers of control messages: one is filled by a kvl_wbuf_t, handed to UCX and comes back when the
 * message was sent. Links and servers each own a pool. Engine thread only. */
#ifndef KVL_LINK_SENDBUF_H
#define KVL_LINK_SENDBUF_H

#include "lane/endpoint.h"
#include "wire/wire.h"

typedef struct kvl_sendbuf kvl_sendbuf_t;

struct kvl_stream;

typedef struct {
    kvl_list_t idle; /* of the usual size */
    unsigned idle_count, busy_count, limit;
} kvl_sendpool_t;

struct kvl_sendbuf {
    kvl_req_t req;
    kvl_list_t link; /* in pool->idle, or stream->sent */
    kvl_sendpool_t *pool;
    kvl_endpoint_t *endpoint;
    /* Told when the buffer is back, before it is used again; may be NULL. */
    void (*sent)(void *arg, kvl_endpoint_t *endpoint, kvl_status_t status);
    void *arg;
    kvl_wbuf_t writer;
    kvl_iov_t iov;
    /* of a stream (stream.h), which keeps it until the peer has it */
    struct kvl_stream *stream;
    void (*back)(kvl_sendbuf_t *buf, kvl_status_t status); /* UCX is done with it; NULL: it ends */
    uint64_t number;
    bool posted; /* it is at UCX */
    uint8_t head[KVL_STREAM_HEAD_SIZE];
    size_t size;
    uint8_t data[];
};

void kvl_sendpool_init(kvl_sendpool_t *pool, unsigned limit);
void kvl_sendpool_cleanup(kvl_sendpool_t *pool); /* none may be busy */

/* A buffer for a message of at most @a size bytes; NULL at the limit or without memory. */
kvl_sendbuf_t *kvl_sendbuf_get(kvl_sendpool_t *pool, size_t size);
void kvl_sendbuf_put(kvl_sendbuf_t *buf);
/* Completes the message in buf->writer and sends it on @a endpoint as active message @a am. The
 * buffer goes back to its pool by itself, also on failure. KVL_OK, KVL_INPROGRESS (both: handed
 * over), or why not. */
kvl_status_t kvl_sendbuf_send(kvl_sendbuf_t *buf, kvl_endpoint_t *endpoint, unsigned am,
                              kvl_msg_type_t type, uint64_t request, kvl_status_t status);

/* The same in two steps, for a stream. The message is completed; false: it ended, *status_p is what
 * kvl_sendbuf_send() returns then. */
bool kvl_sendbuf_write(kvl_sendbuf_t *buf, kvl_msg_type_t type, uint64_t request, kvl_status_t answer,
                       kvl_status_t *status_p);
/* With buf->head before it. KVL_INPROGRESS: buf->back() follows; else it does not. */
kvl_status_t kvl_sendbuf_post_numbered(kvl_sendbuf_t *buf, kvl_endpoint_t *endpoint);
/* Back to its pool, and told. */
void kvl_sendbuf_end(kvl_sendbuf_t *buf, kvl_status_t status);

#endif
