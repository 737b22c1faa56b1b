/* SPDX-License-Identifier: BSD-3-Clause */
/* One side of a plain UCP loop: a context, a worker, an endpoint, a pool. The only code outside of
 * src/ucx that calls UCP: it is what kvlane is compared with. */
#ifndef KVL_PERFTEST_RAW_UCP_H
#define KVL_PERFTEST_RAW_UCP_H

#include "tools/perftest/pool.h"

#include <ucp/api/ucp.h>

/* ids of active messages */
enum {
    PERF_RAW_AM_DATA = 1, /* header: perf_raw_header_t */
    PERF_RAW_AM_PING,     /* answered by a PONG */
    PERF_RAW_AM_PONG
};

typedef struct {
    uint64_t item;
} perf_raw_header_t;

typedef struct perf_raw perf_raw_t;
struct perf_raw {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h ep;
    ucp_mem_h memory;
    ucp_rkey_h rkey;      /* client: of the other side's pool */
    ucs_status_t failure; /* of the endpoint; UCS_OK: none */
    perf_pool_t pool;
    unsigned outstanding; /* ops posted and not complete */
    /* responder */
    uint64_t received; /* data messages that are wholly here */
    uint64_t refused;  /* ... that made no sense */
    /* client */
    uint64_t pongs;
};

/* Sets UCX_* of this process to what kvlane would use towards @a address (host:port). */
int perf_raw_settings(const char *address);

/* Context, worker, and a pool in memory that UCX allocated (@a shared) or of the usual kind.
 * Zeroed memory is accepted by close. */
int perf_raw_open(perf_raw_t *raw, size_t slots, size_t bytes, bool shared);
void perf_raw_close(perf_raw_t *raw);

/* this worker's address and the pool's remote key, as hex digits */
int perf_raw_address(perf_raw_t *raw, char *hex, size_t size);
int perf_raw_rkey(perf_raw_t *raw, char *hex, size_t size);
int perf_raw_connect(perf_raw_t *raw, const char *address_hex);
int perf_raw_import(perf_raw_t *raw, const char *rkey_hex);
/* "posix", "tcp", ...: what carries bulk data */
void perf_raw_transport(perf_raw_t *raw, char *transport, size_t size);

/* request parameters that count the op out of raw->outstanding when it completes */
void perf_raw_param(perf_raw_t *raw, ucp_request_param_t *param);
/* Counts a posted op; -1 (said) if it failed at once. */
int perf_raw_posted(perf_raw_t *raw, const char *what, ucs_status_ptr_t request);
/* Progresses until at most @a limit ops are outstanding; -1 (said) if that fails or stalls. */
int perf_raw_wait(perf_raw_t *raw, unsigned limit);
/* After the @a turns-th turn in a row without progress. A yield costs a short round trip its double,
 * so it comes late; but it comes, since on a busy host the other side may wait for this CPU. */
void perf_raw_idle(unsigned turns);
/* Flushes the endpoint, and waits. */
int perf_raw_flush(perf_raw_t *raw);
/* Progresses until *counter reaches @a value. */
int perf_raw_wait_count(perf_raw_t *raw, const uint64_t *counter, uint64_t value);

/* the responder's loop, on the control connection @a fd, until it is closed */
int perf_raw_respond(int fd);

#endif
