/* SPDX-License-Identifier: BSD-3-Clause */
/* Two sides of a connection in one process, on one thread, over a transport of choice: the real
 * UCX below src/ucx. Side a connects, side b listens. */
#ifndef KVL_TEST_CONFORM_PAIR_H
#define KVL_TEST_CONFORM_PAIR_H

#include "ucx/ucx.h"

#define PAIR_EPS  32
#define PAIR_AMS  256
#define PAIR_DATA (4u << 20)

typedef struct {
    kvl_req_t req;
    int done;            /* times that done() ran */
    kvl_status_t status; /* of the post if final, else of done() */
} waiter_t;

typedef struct {
    unsigned id;
    size_t header_length, length;
    char header[128];
    bool rendezvous, known;
    waiter_t recv;
} arrived_t;

typedef struct {
    kvl_config_t *config;
    kvl_context_t *context_a, *context_b;
    kvl_worker_t *worker_a, *worker_b;
    kvl_timers_t timers;
    kvl_ucx_listener_t *listener;
    kvl_addr_t addr;
    kvl_conn_t *conns[PAIR_EPS]; /* that wait */
    uint64_t client_ids[PAIR_EPS];
    size_t conn_count;
    kvl_ep_t *a[PAIR_EPS], *b[PAIR_EPS];
    size_t ep_count;
    unsigned failed_a, failed_b; /* times that failed() ran */
    kvl_status_t failed_status;
    /* what side b received */
    arrived_t arrived[PAIR_AMS];
    size_t arrived_count;
    char *data;                /* PAIR_DATA bytes: received data, one message at a time */
    kvl_iov_t iov[3];          /* pair->data in three uneven pieces, for rendezvous */
    size_t iov_count;          /* 0: refuse rendezvous messages; 1: contiguous; 3: pieces */
    const kvl_mem_t *recv_mem; /* registration of pair->data, or NULL */
} pair_t;

/* Rails "rdma" connect to the address in KVL_TEST_RDMA ("10.77.0.1,va0": address, tcp device beside
 * it); such a test skips itself without it. */
void pair_needs_rdma(void);
/* @a rails: KVLANE_RAILS. @a options: "NAME=VALUE NAME=VALUE" of further settings, or NULL. */
kvl_status_t pair_open(pair_t *pair, const char *rails, const char *options);
void pair_close(pair_t *pair); /* closes endpoints that are open, by force */
/* Connects @a count further endpoints and waits until they are up. */
kvl_status_t pair_connect(pair_t *pair, size_t count);
void pair_step(pair_t *pair);
void pair_spin_ms(pair_t *pair, int ms);
/* The status of a post: waits for done() if it is under way. Fails the test after 20 s. */
kvl_status_t pair_wait(pair_t *pair, waiter_t *waiter, kvl_status_t posted);
/* Steps until *value >= count; false after 20 s. */
bool pair_until(pair_t *pair, const size_t *value, size_t count);
bool pair_until_int(pair_t *pair, const int *value, int count);
kvl_status_t pair_flush(pair_t *pair, kvl_ep_t *ep);
/* Closes by force, waits until nothing is pending, destroys. */
void pair_end(pair_t *pair, kvl_ep_t *ep);
void waiter_init(waiter_t *waiter);
int pair_open_fds(void);
/* byte i of pattern seed */
void pair_fill(void *data, size_t length, unsigned seed);
bool pair_same(const void *data, size_t length, unsigned seed);

#endif
