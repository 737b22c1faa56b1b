/* SPDX-License-Identifier: BSD-3-Clause */
/* The ctrl messages of a connection with several rails, as a stream that outlives its endpoint: numbered in
 * each direction, kept until the other side has them, and sent again, in order, when another endpoint takes
 * over. So each is acted on exactly once. Links and sessions each own one. Engine thread only. */
#ifndef KVL_LINK_STREAM_H
#define KVL_LINK_STREAM_H

#include "link/sendbuf.h"

typedef struct kvl_stream {
    kvl_list_t sent;    /* buffers that the peer did not confirm, in order */
    uint64_t number;    /* of the last message that was sent */
    uint64_t received;  /* of the last that came */
    uint64_t confirmed; /* the peer was told that it came, up to this one */
    bool on;            /* messages are numbered */
    bool held;          /* there is no endpoint: what is sent waits */
} kvl_stream_t;

typedef enum {
    KVL_STREAM_NEXT,  /* to be acted on */
    KVL_STREAM_EMPTY, /* it only confirms */
    KVL_STREAM_WRONG  /* the peer makes no sense; the error text says how */
} kvl_stream_take_t;

void kvl_stream_init(kvl_stream_t *stream);
/* Lets go of everything; what is at UCX ends by itself. The next message has number 1 again. */
void kvl_stream_drop(kvl_stream_t *stream);

/* As kvl_sendbuf_send() on the ctrl lane; @a endpoint may be NULL while the stream is held. A message that
 * cannot be posted now is no error: the endpoint's owner hears that it failed. */
kvl_status_t kvl_stream_send(kvl_stream_t *stream, kvl_sendbuf_t *buf, kvl_endpoint_t *endpoint,
                             kvl_msg_type_t type, uint64_t request, kvl_status_t answer);
kvl_stream_take_t kvl_stream_take(kvl_stream_t *stream, const kvl_am_t *am);
/* After a message was acted on: tells the peer what came, if it was not told for a while. */
void kvl_stream_confirm(kvl_stream_t *stream, kvl_sendpool_t *pool, kvl_endpoint_t *endpoint);

/* The endpoint is lost. */
void kvl_stream_hold(kvl_stream_t *stream);
/* Goes on over another, on which nothing was sent; all requests of the last one are back. @a received: the
 * last that the peer has. KVL_ERR_PROTOCOL: it cannot be. */
kvl_status_t kvl_stream_resume(kvl_stream_t *stream, kvl_endpoint_t *endpoint, uint64_t received);

#endif
