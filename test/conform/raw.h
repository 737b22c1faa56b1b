/* SPDX-License-Identifier: BSD-3-Clause */
/* A client that says whatever it likes: plain messages over the real UCX below src/ucx, on the test's
 * thread. It knows how to behave up to the point where a test wants it not to. */
#ifndef KVL_TEST_CONFORM_RAW_H
#define KVL_TEST_CONFORM_RAW_H

#include "ucx/ucx.h"
#include "wire/wire.h"

#define RAW_MESSAGES 64
#define RAW_LANES    3 /* ctrl, data, sg: as kvl_lane_kind_t */

typedef struct {
    unsigned am;
    size_t length; /* of data */
    uint8_t data[KVL_WIRE_MAX];
    uint8_t head[KVL_DATA_HEAD_SIZE];
    size_t head_length;
    /* a control message, opened */
    kvl_msg_head_t msg;
    kvl_rbuf_t body;
} raw_message_t;

typedef struct raw raw_t;
typedef struct {
    raw_t *raw;
    kvl_worker_t *worker;
    kvl_ep_t *ep; /* NULL: not connected */
    bool failed;
} raw_lane_t;

struct raw {
    kvl_config_t *config;
    kvl_context_t *context;
    kvl_timers_t timers;
    kvl_addr_t addr;
    uint64_t nonce;
    bool transport; /* the other side is an engine, not a node */
    raw_lane_t lanes[RAW_LANES];
    raw_message_t *messages; /* those that came and were not taken */
    unsigned count;
    uint8_t buffer[KVL_WIRE_MAX];
    kvl_wbuf_t w;
    uint64_t request;
    kvl_hello_ok_t terms;
    kvl_wire_region_t region; /* the first one, without key */
};

void raw_open(raw_t *raw, const char *rails, const char *address);
void raw_close(raw_t *raw);
void raw_connect(raw_t *raw, unsigned lane);

/* the hello of an honest client */
kvl_hello_t raw_hello(const raw_t *raw);
/* Connects ctrl and says HELLO; reads the terms. */
void raw_login(raw_t *raw);
/* Connects a lane and introduces it. */
void raw_bind(raw_t *raw, unsigned lane);

/* Starts a message; add items to raw->w, then raw_send(). */
kvl_wbuf_t *raw_begin(raw_t *raw);
/* Sends it on ctrl; returns its request number. */
uint64_t raw_send(raw_t *raw, kvl_msg_type_t type);
/* Sends bytes as they are. */
void raw_bytes(raw_t *raw, unsigned lane, unsigned am, const void *bytes, size_t length);
void raw_data(raw_t *raw, unsigned lane, const kvl_data_head_t *head, const void *bytes,
              size_t length);

/* Waits for the next message; NULL if none came within 10 s or the lane failed. */
raw_message_t *raw_take(raw_t *raw);
/* ... of this type to this request; fails the test if another one comes. */
raw_message_t *raw_answer(raw_t *raw, kvl_msg_type_t type, uint64_t request);
/* Waits until the node closes the endpoint; false after 10 s. */
bool raw_is_closed(raw_t *raw, unsigned lane);
/* Progresses for a moment, so that what was sent is there. */
void raw_step(raw_t *raw, unsigned ms);
/* Everything before was seen by the node when this returns: a PING and its answer. */
void raw_sync(raw_t *raw);

/* ---- requests of an honest client, of one item ---- */
kvl_reserved_t raw_reserve(raw_t *raw, const char *key, uint64_t length);
kvl_status_t raw_commit(raw_t *raw, const kvl_wire_lease_t *lease, uint64_t length, uint32_t ops);
kvl_found_t raw_lookup(raw_t *raw, const char *key);
kvl_status_t raw_exists(raw_t *raw, const char *key, uint64_t *length_p);
/* RELEASE or ABORT */
void raw_give_back(raw_t *raw, kvl_msg_type_t type, const kvl_wire_lease_t *lease);
/* One message-mode get; its status, bytes in the message returned by *reply_p. */
kvl_status_t raw_get(raw_t *raw, unsigned lane, const kvl_data_head_t *head,
                     raw_message_t **reply_p);

#endif
