/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of a node share. Engine thread only, but for what says otherwise. */
#ifndef KVL_NODE_PRIVATE_H
#define KVL_NODE_PRIVATE_H

#include "engine/engine.h"
#include "engine/fill.h"
#include "link/scratch.h"
#include "link/server.h"
#include "node/store.h"

#include <kvlane/node.h>

#include <stdatomic.h>

/* A lease lasts longer here than the client was told: when the node takes a slot back, an honest client
 * has long stopped to use it, also if its clock or its scheduler is late. */
#define KVL_NODE_GRACE (2 * KVL_SECOND)

#define KVL_NODE_MEMORY_MIN (64u << 10)

/* a session's part at the node */
typedef struct {
    kvl_node_t *node;
    kvl_session_t *session;
    kvl_holder_t holder;
    kvl_list_t link;      /* in node->clients */
    kvl_list_t answering; /* in node->answering while deferred commits have answers */
    int scratch;          /* slot, -1: none */
} kvl_client_t;

struct kvl_node {
    /* constant after create */
    kvl_engine_t *engine;
    kvl_server_t *server;
    kvl_store_t *store;
    kvl_region_t *regions[KVL_SLABS_MAX]; /* by slab */
    unsigned region_count;
    int64_t started_ns;
    char address[128];
    bool has_timers;
    kvl_fill_t fill;
    /* engine thread only */
    kvl_poller_t poller;
    kvl_printer_t printer;
    kvl_timer_t expiry, drain_timer;
    kvl_list_t clients, answering;
    kvl_scratch_t scratch;
    uint64_t refused; /* requests refused as a whole */
    bool draining;
    int64_t drain_deadline_ns;
    /* atomic: kvl_node_drain() leaves word here, from any thread or a signal handler */
    _Atomic int64_t drain_timeout_ms;
    _Atomic bool drain_posted; /* drain_work is in the engine's inbox */
    _Atomic int drained;       /* set once, when every session is closed */
    kvl_work_t drain_work;
};

/* requests.c: a ctrl message of a client */
void kvl_node_message(void *arg, kvl_session_t *session, const kvl_msg_head_t *head,
                      kvl_rbuf_t *body);
/* sends the answers of deferred commits that were decided; returns how many */
unsigned kvl_node_answer(kvl_client_t *client);
/* sets the timer to the next lease that ends */
void kvl_node_arm(kvl_node_t *node);

/* clients.c: what the server asks and tells */
extern const kvl_server_ops_t kvl_node_server_ops;
void kvl_client_free(kvl_client_t *client);

/* stat.c */
void kvl_node_fill_stat(const kvl_node_t *node, kvl_node_stat_t *stat_p);
void kvl_node_print(kvl_printer_t *printer, FILE *stream, int json);

#endif
