/* SPDX-License-Identifier: BSD-3-Clause */
/* A transport that a test scripts, in the place of src/ucx: it records what is posted, completes what
 * the test says, when the test says, and checks the credit of every endpoint on its own.
 *
 * It is as mean as UCX may be: a put reads its memory only when it completes, and reaches the peer only
 * when its endpoint was flushed by a flush that started after it was posted; a get and a receive write
 * their memory when they complete. */
#ifndef FAKE_LANE_TRANSPORT_H
#define FAKE_LANE_TRANSPORT_H

#include "lane/mover.h"

#define FAKE_REMOTE (512u << 10)           /* bytes of the peer's one region */
#define FAKE_BASE   UINT64_C(0x7000000000) /* its remote address on rail 0; rail r: + r << 24 */
#define FAKE_REGION 5
#define FAKE_EPS    24
#define FAKE_OPS    4096

typedef enum { FAKE_PUT, FAKE_GET, FAKE_AM, FAKE_RECV, FAKE_FLUSH } fake_kind_t;

typedef struct {
    fake_kind_t kind;
    kvl_ep_t *ep;
    kvl_req_t *req;
    uint64_t serial; /* order of posts */
    kvl_rma_t rma;
    unsigned am_id;
    kvl_data_head_t head;
    const uint8_t *head_bytes; /* where the mover keeps them */
    const kvl_iov_t *iov;
    size_t iov_count;
} fake_op_t;

/* a get of message mode that waits for its answer */
typedef struct {
    kvl_endpoint_t *endpoint;
    kvl_data_head_t head;
} fake_question_t;

/* bytes on their way to the peer */
typedef struct {
    uint64_t serial, offset;
    size_t length;
    kvl_ep_t *ep;
    uint8_t *bytes;
} fake_flight_t;

struct kvl_ep {
    unsigned window, ops, flushes; /* under way */
    unsigned posted;
    bool sg, closed;
    unsigned rail;
};

typedef struct {
    uint8_t remote[FAKE_REMOTE];
    uint8_t written[FAKE_REMOTE]; /* how often each byte was put */
    kvl_endpoint_t endpoints[FAKE_EPS];
    kvl_ep_t eps[FAKE_EPS];
    kvl_rkey_t *rkeys[1];
    unsigned ep_count;
    fake_op_t ops[FAKE_OPS]; /* under way, in order of posts */
    size_t op_count;
    fake_question_t questions[FAKE_OPS];
    size_t question_count;
    fake_flight_t flights[FAKE_OPS];
    size_t flight_count;
    uint64_t serial;
    fake_op_t last; /* the last post, also if it completed at once */
    unsigned puts, gets, ams, recvs, flushes, failed;
    bool (*at_once)(void); /* does this post complete at once? NULL: none does */
    unsigned fail_in;      /* the n-th post from now fails; 0: none */
    kvl_status_t fail_status;
    kvl_status_t (*ctrl)(kvl_ep_t *ep, const kvl_am_send_t *send, kvl_req_t *req); /* takes ctrl messages */
    const char *slice_base; /* registrations have slices; slice_bytes 0: one */
    size_t slice_bytes;
    kvl_status_t told; /* what endpoints were told to have failed with */
} fake_t;

extern fake_t fake;
extern const kvl_remote_region_t fake_region;

void fake_start(void);
void fake_end(void); /* nothing may be under way */
kvl_endpoint_t *fake_endpoint(kvl_lane_kind_t lane, unsigned rail);
bool fake_always(void); /* for fake.at_once */

/* Completes the i-th of what is under way. */
void fake_complete(size_t i, kvl_status_t status);
void fake_complete_all(kvl_status_t status);
/* index of the first op of this kind under way, -1: none */
long fake_find(fake_kind_t kind);
unsigned fake_ops_of(const kvl_endpoint_t *endpoint);
/* Is [address, length) named by anything under way? */
bool fake_touches(const void *address, size_t length);

/* Answers the i-th question: KVL_OK brings bytes, @a eager at once or by rendezvous. Returns what the
 * mover said. */
kvl_status_t fake_answer(kvl_mover_t *mover, size_t i, kvl_status_t status, bool eager);
/* Hands any reply to the mover. */
kvl_status_t fake_reply(kvl_mover_t *mover, kvl_endpoint_t *endpoint, const kvl_data_head_t *head,
                        const void *data, size_t length);

/* Closes every endpoint by force: all that is under way is canceled. */
void fake_close(void);

#endif
