/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake/lane/transport.h"

#include "shim/shim.h"

#include <stdlib.h>
#include <string.h>

fake_t fake;

const kvl_remote_region_t fake_region = {.id     = FAKE_REGION,
                                         .slot   = 0,
                                         .base   = {FAKE_BASE, FAKE_BASE + (UINT64_C(1) << 24)},
                                         .length = FAKE_REMOTE};

static void endpoint_failed(kvl_endpoint_t *endpoint, kvl_status_t status)
{
    (void)endpoint;
    fake.told = status;
}

static const kvl_endpoint_ops_t endpoint_ops = {.failed = endpoint_failed};

void fake_start(void)
{
    size_t i;

    memset(&fake, 0, sizeof(fake));
    fake.rkeys[0] = (kvl_rkey_t *)&fake.rkeys;
    for (i = 0; i < FAKE_REMOTE; i++) {
        fake.remote[i] = (uint8_t)(i * 7 + (i >> 8));
    }
}

void fake_end(void)
{
    CHECK_EQ(fake.op_count, 0);
    while (fake.flight_count) { /* of canceled puts */
        free(fake.flights[--fake.flight_count].bytes);
    }
}

kvl_endpoint_t *fake_endpoint(kvl_lane_kind_t lane, unsigned rail)
{
    kvl_endpoint_t *endpoint = &fake.endpoints[fake.ep_count];

    REQUIRE(fake.ep_count < FAKE_EPS);
    *endpoint               = (kvl_endpoint_t){.ep         = &fake.eps[fake.ep_count],
                                               .lane       = lane,
                                               .rail       = rail,
                                               .index      = fake.ep_count,
                                               .ops        = &endpoint_ops,
                                               .rkeys      = fake.rkeys,
                                               .rkey_count = 1};
    fake.eps[fake.ep_count] = (kvl_ep_t){.sg = lane == KVL_LANE_SG, .rail = rail};
    fake.ep_count++;
    return endpoint;
}

bool fake_always(void)
{
    return true;
}

static kvl_endpoint_t *endpoint_of(kvl_ep_t *ep)
{
    return &fake.endpoints[ep - fake.eps];
}

/* ---- bytes ---- */

static uint8_t *remote_at(uint64_t offset, size_t length)
{
    REQUIRE(offset <= FAKE_REMOTE && length <= FAKE_REMOTE - offset);
    return &fake.remote[offset];
}

static void remote_write(uint64_t offset, const uint8_t *bytes, size_t length)
{
    uint8_t *to = remote_at(offset, length);
    size_t i;

    memcpy(to, bytes, length);
    for (i = 0; i < length; i++) {
        fake.written[offset + i]++;
    }
}

static uint64_t rma_offset(const fake_op_t *op)
{
    return op->rma.remote - fake_region.base[op->ep->rail];
}

/* a test gives moves of scope 0 their value_offset as token */
static uint64_t am_offset(const kvl_data_head_t *head)
{
    return head->offset + (head->scope ? 0 : head->token);
}

/* the pieces of a put or get, from or to @a bytes */
static void rma_copy(const fake_op_t *op, uint8_t *bytes, bool gather)
{
    kvl_iov_t whole      = {op->rma.address, op->rma.length};
    const kvl_iov_t *iov = op->iov ? op->iov : &whole;
    size_t left          = op->rma.length, i;

    for (i = 0; left; i++, bytes += iov[i - 1].length) {
        REQUIRE(i < (op->iov ? op->iov_count : 1) && iov[i].length <= left);
        if (gather) {
            memcpy(bytes, iov[i].address, iov[i].length);
        } else {
            memcpy(iov[i].address, bytes, iov[i].length);
        }
        left -= iov[i].length;
    }
}

static void put_flies(const fake_op_t *op)
{
    fake_flight_t *flight = &fake.flights[fake.flight_count++];

    REQUIRE(fake.flight_count < FAKE_OPS);
    *flight =
        (fake_flight_t){op->serial, rma_offset(op), op->rma.length, op->ep, malloc(op->rma.length)};
    rma_copy(op, flight->bytes, true);
}

static void flights_land(const kvl_ep_t *ep, uint64_t before)
{
    size_t i, kept = 0;

    for (i = 0; i < fake.flight_count; i++) {
        fake_flight_t *flight = &fake.flights[i];

        if (flight->ep == ep && flight->serial < before) {
            remote_write(flight->offset, flight->bytes, flight->length);
            free(flight->bytes);
        } else {
            fake.flights[kept++] = *flight;
        }
    }
    fake.flight_count = kept;
}

static void am_lands(const fake_op_t *op)
{
    uint64_t at = am_offset(&op->head);
    uint8_t again[KVL_DATA_HEAD_SIZE];
    size_t i;

    kvl_put_data_head(again, &op->head);
    CHECK_MEM_EQ(op->head_bytes, again, sizeof(again)); /* kept until done */
    for (i = 0; op->am_id == KVL_AM_PUT && i < op->iov_count; i++) {
        remote_write(at, op->iov[i].address, op->iov[i].length);
        at += op->iov[i].length;
    }
}

static void recv_lands(const fake_op_t *op)
{
    const uint8_t *from = remote_at(am_offset(&op->head), (size_t)op->head.length);
    size_t left         = (size_t)op->head.length, i;

    for (i = 0; i < op->iov_count && left; i++) {
        size_t length = op->iov[i].length < left ? op->iov[i].length : left;

        memcpy(op->iov[i].address, from, length);
        from += length;
        left -= length;
    }
    CHECK_EQ(left, 0);
    op->req->received = (size_t)op->head.length;
}

/* what an op does when it completes well */
static void op_lands(const fake_op_t *op)
{
    switch (op->kind) {
    case FAKE_PUT:
        put_flies(op);
        break;
    case FAKE_GET:
        rma_copy(op, remote_at(rma_offset(op), op->rma.length), false);
        break;
    case FAKE_AM:
        am_lands(op);
        break;
    case FAKE_RECV:
        recv_lands(op);
        break;
    case FAKE_FLUSH:
        flights_land(op->ep, op->serial);
        break;
    }
}

/* ---- posts ---- */

static void credit_check(const fake_op_t *op)
{
    const kvl_ep_t *ep = op->ep;

    CHECK_MSG(!ep->closed, "a post on a closed endpoint");
    CHECK_MSG(!endpoint_of(op->ep)->failed, "a post on a failed endpoint");
    if (ep->sg) {
        CHECK_MSG(ep->ops + ep->flushes == 0, "a second op on sg endpoint %u",
                  endpoint_of(op->ep)->index);
    } else if (op->kind != FAKE_FLUSH) {
        CHECK_MSG(ep->ops < endpoint_of(op->ep)->window, "an op over the window");
    } else {
        CHECK_EQ(ep->flushes, 0);
    }
}

static void op_counts(const fake_op_t *op, int change)
{
    if (op->kind == FAKE_FLUSH) {
        op->ep->flushes += (unsigned)change;
    } else if (!(op->kind == FAKE_AM && op->am_id == KVL_AM_GET)) {
        op->ep->ops += (unsigned)change; /* a get of message mode: until it is answered */
    }
}

static kvl_status_t op_post(fake_op_t *op)
{
    op->serial = ++fake.serial;
    fake.last  = *op;
    if (op->kind != FAKE_RECV) {
        credit_check(op);
        op->ep->posted++;
    }
    if (fake.fail_in && !--fake.fail_in) {
        fake.failed++;
        return fake.fail_status;
    }
    if (op->kind == FAKE_AM && op->am_id == KVL_AM_GET) {
        REQUIRE(fake.question_count < FAKE_OPS);
        fake.questions[fake.question_count++] = (fake_question_t){endpoint_of(op->ep), op->head};
        op->ep->ops++;
    }
    if (fake.at_once && fake.at_once()) {
        op_lands(op);
        return KVL_OK;
    }
    REQUIRE(fake.op_count < FAKE_OPS);
    op_counts(op, 1);
    fake.ops[fake.op_count++] = *op;
    return KVL_INPROGRESS;
}

kvl_status_t kvl_ep_put(kvl_ep_t *ep, const kvl_rma_t *rma, kvl_req_t *req)
{
    fake_op_t op = {.kind      = FAKE_PUT,
                    .ep        = ep,
                    .req       = req,
                    .rma       = *rma,
                    .iov       = rma->iov,
                    .iov_count = rma->iov_count};

    fake.puts++;
    CHECK(rma->rkey == fake.rkeys[0]);
    return op_post(&op);
}

kvl_status_t kvl_ep_get(kvl_ep_t *ep, const kvl_rma_t *rma, kvl_req_t *req)
{
    fake_op_t op = {.kind      = FAKE_GET,
                    .ep        = ep,
                    .req       = req,
                    .rma       = *rma,
                    .iov       = rma->iov,
                    .iov_count = rma->iov_count};

    fake.gets++;
    CHECK(rma->rkey == fake.rkeys[0]);
    return op_post(&op);
}

kvl_status_t kvl_ep_am(kvl_ep_t *ep, const kvl_am_send_t *send, kvl_req_t *req)
{
    fake_op_t op  = {.kind       = FAKE_AM,
                     .ep         = ep,
                     .req        = req,
                     .am_id      = send->id,
                     .head_bytes = send->header,
                     .iov        = send->iov,
                     .iov_count  = send->iov_count};
    size_t length = 0, i;

    if (send->id == KVL_AM_CTRL) {
        return fake.ctrl(ep, send, req);
    }
    fake.ams++;
    CHECK_EQ(kvl_get_data_head(send->header, send->header_length, &op.head), KVL_OK);
    CHECK_EQ(op.head.kind, send->id);
    for (i = 0; i < send->iov_count; i++) {
        length += send->iov[i].length;
    }
    CHECK_EQ(length, send->id == KVL_AM_PUT ? op.head.length : 0);
    return op_post(&op);
}

kvl_status_t kvl_am_recv(const kvl_am_t *am, kvl_worker_t *worker, const kvl_iov_t *iov,
                         size_t iov_count, const kvl_mem_t *mem, kvl_req_t *req)
{
    fake_op_t op = {
        .kind = FAKE_RECV, .ep = am->ep, .req = req, .iov = iov, .iov_count = iov_count};

    (void)worker;
    (void)mem;
    fake.recvs++;
    CHECK(!am->data);
    op.head = *(const kvl_data_head_t *)am->ucp;
    return op_post(&op);
}

kvl_status_t kvl_ep_flush(kvl_ep_t *ep, kvl_req_t *req)
{
    fake_op_t op = {.kind = FAKE_FLUSH, .ep = ep, .req = req};

    fake.flushes++;
    return op_post(&op);
}

kvl_worker_t *kvl_ep_worker(const kvl_ep_t *ep)
{
    return (kvl_worker_t *)ep;
}

/* ---- completions ---- */

void fake_complete(size_t i, kvl_status_t status)
{
    fake_op_t op = fake.ops[i];

    REQUIRE(i < fake.op_count);
    fake.op_count--;
    memmove(&fake.ops[i], &fake.ops[i + 1], (fake.op_count - i) * sizeof(op));
    op_counts(&op, -1);
    if (status == KVL_OK) {
        op_lands(&op);
    }
    op.req->done(op.req, status);
}

void fake_complete_all(kvl_status_t status)
{
    while (fake.op_count) {
        fake_complete(0, status);
    }
}

long fake_find(fake_kind_t kind)
{
    size_t i;

    for (i = 0; i < fake.op_count; i++) {
        if (fake.ops[i].kind == kind) {
            return (long)i;
        }
    }
    return -1;
}

unsigned fake_ops_of(const kvl_endpoint_t *endpoint)
{
    return endpoint->ep->ops;
}

static bool overlaps(const void *a, size_t a_length, const void *b, size_t b_length)
{
    uintptr_t a0 = (uintptr_t)a, b0 = (uintptr_t)b;

    return a0 < b0 + b_length && b0 < a0 + a_length;
}

bool fake_touches(const void *address, size_t length)
{
    size_t i, j;

    for (i = 0; i < fake.op_count; i++) {
        const fake_op_t *op = &fake.ops[i];

        if ((op->kind == FAKE_PUT || op->kind == FAKE_GET) && !op->iov &&
            overlaps(op->rma.address, op->rma.length, address, length)) {
            return true;
        }
        for (j = 0; j < op->iov_count; j++) {
            if (overlaps(op->iov[j].address, op->iov[j].length, address, length)) {
                return true;
            }
        }
    }
    return false;
}

/* ---- answers ---- */

kvl_status_t fake_reply(kvl_mover_t *mover, kvl_endpoint_t *endpoint, const kvl_data_head_t *head,
                        const void *data, size_t length)
{
    kvl_data_head_t reply = *head;
    kvl_am_t am           = {
                  .id = KVL_AM_GET_REPLY, .data = data, .length = length, .ep = endpoint->ep, .ucp = &reply};

    reply.kind = KVL_AM_GET_REPLY;
    return kvl_mover_reply(mover, endpoint, &reply, &am);
}

kvl_status_t fake_answer(kvl_mover_t *mover, size_t i, kvl_status_t status, bool eager)
{
    fake_question_t question = fake.questions[i];
    size_t length            = (size_t)question.head.length;
    const uint8_t *from      = remote_at(am_offset(&question.head), length);

    REQUIRE(i < fake.question_count);
    fake.questions[i]    = fake.questions[--fake.question_count];
    question.head.status = status;
    question.endpoint->ep->ops--;
    if (status != KVL_OK) {
        return fake_reply(mover, question.endpoint, &question.head, NULL, 0);
    }
    return fake_reply(mover, question.endpoint, &question.head, eager ? from : NULL, length);
}

void fake_close(void)
{
    unsigned i;

    for (i = 0; i < fake.ep_count; i++) {
        fake.eps[i].closed       = true;
        fake.endpoints[i].failed = true;
    }
    fake.question_count = 0;
    fake_complete_all(KVL_ERR_CANCELED);
}

/* ---- registrations ---- slices of fake.slice_bytes from fake.slice_base on, of any registration but NULL */
unsigned kvl_mem_slice_of(const kvl_mem_t *mem, const void *address)
{
    return mem && fake.slice_bytes ? (unsigned)((size_t)((const char *)address - fake.slice_base) / fake.slice_bytes)
                                   : 0;
}

size_t kvl_mem_left(const kvl_mem_t *mem, const void *address)
{
    return mem && fake.slice_bytes
               ? fake.slice_bytes - (size_t)((const char *)address - fake.slice_base) % fake.slice_bytes
               : SIZE_MAX;
}
