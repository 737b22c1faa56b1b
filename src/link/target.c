/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "lane/stage.h"
#include "link/server_private.h"

#include <string.h>
#include <xxhash.h>

/* The target half of message mode: a put is received into the place that the owner names, a get is
 * answered from there. Bytes from the client: every field of the head is checked by the owner (token,
 * range) or here (kind, length, credit). An op is finished exactly once: op_finish().
 *
 * A place in device memory is reached through a stage: of the engine's pool or, since a message that is here cannot
 * wait, of the heap. A put is copied on when it is there, a get before it is answered (op_copy()). */

#define REPLIES_MAX 8 /* above the window: more than that no honest client has under way */

static kvl_target_op_t *op_get(kvl_server_t *server)
{
    kvl_list_t *node = kvl_list_pop_front(&server->idle_ops);

    return node ? kvl_container(node, kvl_target_op_t, link) : kvl_calloc(1, sizeof(kvl_target_op_t));
}

/* Where the bytes of an op lie; the owner has checked them. False: no memory. */
static bool op_places(kvl_target_op_t *op, const kvl_target_t *target)
{
    unsigned i;

    op->iov       = (kvl_iov_t){target->address, (size_t)op->head.length};
    op->iov_count = 1;
    if (!op->head.ranges) {
        return true;
    }
    op->ranges = op->ranges ? op->ranges : kvl_calloc(1, sizeof(*op->ranges));
    if (!op->ranges) {
        return false;
    }
    for (i = 0; i < op->head.ranges; i++) {
        kvl_wire_range_t range = kvl_get_data_range(&op->head, i);

        op->ranges->iov[i] = (kvl_iov_t){(uint8_t *)target->address + range.offset, range.length};
    }
    op->iov_count        = op->head.ranges;
    op->head.range_bytes = NULL; /* of the message, which goes */
    return true;
}

static const kvl_iov_t *op_iov(const kvl_target_op_t *op)
{
    return op->iov_count > 1 ? op->ranges->iov : &op->iov;
}

static void op_scatter(const kvl_target_op_t *op, const uint8_t *from)
{
    const kvl_iov_t *iov = op_iov(op);
    size_t i;

    for (i = 0; i < op->iov_count; i++) {
        memcpy(iov[i].address, from, iov[i].length);
        from += iov[i].length;
    }
}

/* A reply of several ranges goes as one piece of memory, since UCX takes small pieces slowly. The bytes are
 * copied at the moment that they are sent. */
static bool op_pack(kvl_target_op_t *op)
{
    kvl_target_ranges_t *ranges = op->ranges;
    size_t at = 0, i;

    if (op->iov_count < 2) {
        return true;
    }
    if (ranges->packed_size < op->head.length) {
        uint8_t *packed = kvl_realloc(ranges->packed, (size_t)op->head.length);

        if (!packed) {
            return false;
        }
        ranges->packed      = packed;
        ranges->packed_size = (size_t)op->head.length;
    }
    for (i = 0; i < op->iov_count; i++) {
        memcpy(ranges->packed + at, ranges->iov[i].address, ranges->iov[i].length);
        at += ranges->iov[i].length;
    }
    op->iov       = (kvl_iov_t){ranges->packed, at};
    op->iov_count = 1;
    op->mem       = NULL;
    return true;
}

static kvl_piece_t *op_device_places(kvl_target_op_t *op)
{
    return op->head.ranges ? op->ranges->places : &op->place;
}

/* Gives it a stage in the place of its memory. */
static kvl_status_t op_stage(kvl_target_op_t *op, const kvl_target_t *target)
{
    kvl_stages_t *stages = kvl_engine_stages(op->session->server->engine);
    size_t length        = (size_t)op->head.length;
    uint8_t *stage       = kvl_stage_get(stages, length);
    kvl_piece_t *places  = op_device_places(op);
    const kvl_iov_t *iov = op_iov(op);
    size_t i;

    op->pooled = stage != NULL;
    if (!stage) {
        stage = kvl_malloc(length);
    }
    if (!stage) {
        return kvl_error(KVL_ERR_NO_MEMORY, "a stage of %zu bytes for %s", length, kvl_device_name(target->device));
    }
    op->device = target->device;
    for (i = 0; i < op->iov_count; i++) {
        places[i] = (kvl_piece_t){.address = iov[i].address, .length = iov[i].length, .device = target->device};
    }
    op->iov       = (kvl_iov_t){stage, length};
    op->iov_count = 1;
    op->mem       = op->pooled ? stages->mems[op->guest->endpoint.rail] : NULL;
    return KVL_OK;
}

static void op_unstage(kvl_target_op_t *op)
{
    kvl_fence_cleanup(&op->fence);
    if (op->pooled) {
        kvl_stage_put(kvl_engine_stages(op->session->server->engine), op->iov.address);
    } else {
        kvl_free(op->iov.address);
    }
    op->device = NULL;
}

static void op_finish(kvl_target_op_t *op, kvl_status_t status)
{
    kvl_session_t *session = op->session;
    kvl_server_t *server   = session->server;

    if (!op->own && op->cookie) {
        if (op->head.kind == KVL_AM_PUT) {
            server->ops->put_done(server->arg, session, &op->head, op->cookie, status);
        } else {
            server->ops->get_done(server->arg, session, &op->head, op->cookie, status);
        }
    }
    session->ops--;
    if (op->device) {
        op_unstage(op);
    }
    kvl_list_push_front(&server->idle_ops, &op->link);
}

/* the copy to or from its device; KVL_INPROGRESS: kvl_target_step() goes on */
static kvl_status_t op_copy(kvl_target_op_t *op, kvl_copy_dir_t dir)
{
    kvl_status_t status = kvl_stage_copy(op->iov.address, op_device_places(op), 0, (size_t)op->head.length, op->device,
                                         dir);

    if (status == KVL_OK) {
        status = kvl_fence_set(&op->fence, op->device, dir);
    }
    if (status != KVL_OK) {
        kvl_device_settle(op->device, dir);
        return status;
    }
    kvl_list_push_back(&op->session->server->copying, &op->link);
    return KVL_INPROGRESS;
}

/* the bytes of a put are here */
static void op_put(kvl_target_op_t *op, kvl_status_t status)
{
    if (status == KVL_OK && op->device) {
        status = op_copy(op, KVL_TO_DEVICE);
    }
    if (status != KVL_INPROGRESS) {
        op_finish(op, status);
    }
}

/* the session's own scratch is reached by region (scope 1), before the owner is asked */
static bool scratch_target(const kvl_session_t *session, const kvl_data_head_t *head,
                           kvl_target_t *target)
{
    uint64_t at = head->offset - session->terms.scratch_offset;

    if (!session->scratch || head->ranges || head->scope != 1 || head->token != session->terms.scratch_region ||
        head->offset < session->terms.scratch_offset || at > session->scratch_length ||
        head->length > session->scratch_length - at) {
        return false;
    }
    *target = (kvl_target_t){.address = session->scratch + at, .length = (size_t)head->length};
    return true;
}

static kvl_status_t head_read(kvl_guest_t *guest, const kvl_am_t *am, kvl_data_head_t *head)
{
    kvl_status_t status;

    if (guest->endpoint.lane == KVL_LANE_CTRL) {
        return kvl_error(KVL_ERR_PROTOCOL, "data on the ctrl lane");
    }
    status = kvl_get_data_head(am->header, am->header_length, head);
    if (status != KVL_OK) {
        return status;
    }
    if (head->kind != am->id || !head->length || head->length > guest->session->terms.chunk_bytes) {
        return kvl_error(KVL_ERR_PROTOCOL, "a data head whose kind or length is wrong");
    }
    if (am->id == KVL_AM_PUT && head->length != am->length) {
        return kvl_error(KVL_ERR_PROTOCOL, "a put that announces %llu bytes and brings %zu",
                         (unsigned long long)head->length, am->length);
    }
    return KVL_OK;
}

static void put_done(kvl_req_t *req, kvl_status_t status)
{
    kvl_target_op_t *op = kvl_container(req, kvl_target_op_t, req);

    if (status == KVL_OK && req->received != op->head.length) {
        status = KVL_ERR_PROTOCOL;
    }
    op_put(op, status);
}

kvl_status_t kvl_target_put(kvl_guest_t *guest, const kvl_am_t *am)
{
    kvl_session_t *session = guest->session;
    kvl_server_t *server   = guest->server;
    kvl_target_t target    = {0};
    kvl_data_head_t head;
    kvl_target_op_t *op;
    kvl_status_t status;
    bool own;

    if (head_read(guest, am, &head) != KVL_OK) {
        kvl_session_violation(session, kvl_error_text());
        return KVL_OK;
    }
    own    = scratch_target(session, &head, &target);
    status = own ? KVL_OK
                 : server->ops->put(server->arg, session, &guest->endpoint, &head, &target);
    if (status != KVL_OK) {
        server->stats.dropped_ops++;
        return KVL_OK;
    }
    op = op_get(server);
    if (!op) { /* the commit will find bytes missing */
        if (!own) {
            server->ops->put_done(server->arg, session, &head, target.cookie, KVL_ERR_NO_MEMORY);
        }
        return KVL_OK;
    }
    *op = (kvl_target_op_t){.guest = guest, .session = session, .head = head, .cookie = target.cookie,
                            .own = own, .mem = target.mem, .ranges = op->ranges};
    kvl_list_init(&op->link);
    op->req.done = put_done;
    session->ops++;
    if (!op_places(op, &target)) {
        op_finish(op, KVL_ERR_NO_MEMORY);
        return KVL_OK;
    }
    server->stats.puts++;
    server->stats.bytes_put += head.length;
    status = target.device ? op_stage(op, &target) : KVL_OK;
    if (status != KVL_OK) {
        op_finish(op, status);
        return KVL_OK;
    }
    if (am->data) {
        op_scatter(op, am->data);
        op_put(op, KVL_OK);
        return KVL_OK;
    }
    status = kvl_am_recv(am, kvl_ep_worker(guest->endpoint.ep), op_iov(op), op->iov_count, op->mem,
                         &op->req);
    if (status != KVL_INPROGRESS) {
        op_put(op, status);
    }
    return KVL_INPROGRESS; /* UCX has the message now, also if receiving it failed at once */
}

/* ---- get ---- */

static void reply_done(kvl_req_t *req, kvl_status_t status)
{
    kvl_target_op_t *op = kvl_container(req, kvl_target_op_t, req);
    kvl_guest_t *guest  = op->guest;

    guest->endpoint.outstanding--;
    kvl_op_counts_end(&guest->endpoint.counts, status, op->iov.length);
    op_finish(op, status);
    kvl_target_pump(guest);
}

static void reply_post(kvl_guest_t *guest, kvl_target_op_t *op)
{
    bool packed        = op_pack(op);
    kvl_am_send_t send = {.id            = KVL_AM_GET_REPLY,
                          .header        = op->head_bytes,
                          .header_length = sizeof(op->head_bytes),
                          .iov           = &op->iov,
                          .iov_count     = op->iov.address ? 1 : 0,
                          .mem           = op->mem};
    kvl_data_head_t head = op->head;
    kvl_status_t status;

    head.kind   = KVL_AM_GET_REPLY;
    head.ranges = 0;
    kvl_put_data_head(op->head_bytes, &head);
    op->req.done = reply_done;
    guest->endpoint.counts.posted++;
    status = packed ? kvl_ep_am(guest->endpoint.ep, &send, &op->req) : KVL_ERR_NO_MEMORY;
    if (status == KVL_INPROGRESS) {
        guest->endpoint.outstanding++;
        return;
    }
    kvl_op_counts_end(&guest->endpoint.counts, status, op->iov.length);
    op_finish(op, status);
    if (status < 0) {
        kvl_session_close(guest->session, "a reply could not be sent");
    }
}

void kvl_target_pump(kvl_guest_t *guest)
{
    while (guest->endpoint.outstanding < guest->endpoint.window && !guest->endpoint.failed) {
        kvl_list_t *node = kvl_list_pop_front(&guest->replies);

        if (!node) {
            return;
        }
        guest->reply_count--;
        reply_post(guest, kvl_container(node, kvl_target_op_t, link));
    }
}

static void reply_queue(kvl_target_op_t *op)
{
    kvl_guest_t *guest = op->guest;

    kvl_list_push_back(&guest->replies, &op->link);
    kvl_target_pump(guest);
}

/* it says so, and brings no bytes */
static void reply_fails(kvl_target_op_t *op, kvl_status_t status)
{
    op->head.status = (int32_t)status;
    if (op->device) {
        op_unstage(op);
    }
    op->iov       = (kvl_iov_t){NULL, 0};
    op->iov_count = 0;
    op->mem       = NULL;
}

kvl_status_t kvl_target_get(kvl_guest_t *guest, const kvl_am_t *am)
{
    kvl_session_t *session = guest->session;
    kvl_server_t *server   = guest->server;
    kvl_target_t target    = {0};
    kvl_target_op_t *op;
    kvl_data_head_t head;
    bool own;

    if (head_read(guest, am, &head) != KVL_OK) {
        kvl_session_violation(session, kvl_error_text());
        return KVL_OK;
    }
    if (guest->reply_count >= guest->endpoint.window + REPLIES_MAX) {
        kvl_session_violation(session, "more gets under way than it has credit for");
        return KVL_OK;
    }
    op = op_get(server);
    if (!op) {
        kvl_session_close(session, "out of memory");
        return KVL_OK;
    }
    own = scratch_target(session, &head, &target);
    if (!own) {
        head.status = (int32_t)server->ops->get(server->arg, session, &guest->endpoint, &head, &target);
    }
    *op = (kvl_target_op_t){.guest = guest, .session = session, .head = head, .own = own, .ranges = op->ranges};
    kvl_list_init(&op->link);
    if (head.status == KVL_OK) {
        op->mem    = target.mem;
        op->cookie = target.cookie;
        server->stats.bytes_got += head.length;
    }
    server->stats.gets++;
    session->ops++;
    if (head.status == KVL_OK && !op_places(op, &target)) {
        op_finish(op, KVL_ERR_NO_MEMORY);
        kvl_session_close(session, "out of memory");
        return KVL_OK;
    }
    guest->reply_count++;
    if (head.status == KVL_OK && target.device) {
        kvl_status_t status = op_stage(op, &target);

        if (status == KVL_OK) {
            status = op_copy(op, KVL_TO_HOST);
        }
        if (status == KVL_INPROGRESS) {
            return KVL_OK;
        }
        reply_fails(op, status);
    }
    reply_queue(op);
    return KVL_OK;
}

unsigned kvl_target_step(kvl_server_t *server)
{
    kvl_list_t *node, *next;
    unsigned n = 0;

    for (node = server->copying.next; node != &server->copying; node = next) {
        kvl_target_op_t *op = kvl_container(node, kvl_target_op_t, link);
        kvl_status_t status = kvl_fence_test(&op->fence);

        n++; /* nobody wakes the engine when a copy is over */
        next = node->next;
        if (status == KVL_INPROGRESS) {
            continue;
        }
        kvl_list_remove(&op->link);
        if (op->head.kind == KVL_AM_PUT || !op->guest) {
            op_finish(op, op->head.kind == KVL_AM_PUT ? status : KVL_ERR_PEER);
            continue;
        }
        if (status != KVL_OK) {
            reply_fails(op, status);
        }
        reply_queue(op);
    }
    return n;
}

void kvl_target_stop(kvl_guest_t *guest)
{
    kvl_list_t *node;

    for (node = guest->server->copying.next; node != &guest->server->copying; node = node->next) {
        kvl_target_op_t *op = kvl_container(node, kvl_target_op_t, link);

        op->guest = op->guest == guest ? NULL : op->guest;
    }
    while ((node = kvl_list_pop_front(&guest->replies)) != NULL) {
        guest->reply_count--;
        op_finish(kvl_container(node, kvl_target_op_t, link), KVL_ERR_PEER);
    }
}

void kvl_target_cleanup(kvl_server_t *server)
{
    kvl_list_t *node;

    while ((node = kvl_list_pop_front(&server->idle_ops)) != NULL) {
        kvl_target_op_t *op = kvl_container(node, kvl_target_op_t, link);

        if (op->ranges) {
            kvl_free(op->ranges->packed);
        }
        kvl_free(op->ranges);
        kvl_free(op);
    }
}

void kvl_target_selftest(kvl_session_t *session, const kvl_msg_head_t *head, kvl_rbuf_t *body)
{
    kvl_selftest_t test;
    kvl_wbuf_t *w;

    if (kvl_get_selftest(body, &test) != KVL_OK || kvl_wire_close(body) != KVL_OK || test.step > 1 ||
        test.length > session->scratch_length) {
        kvl_session_violation(session, "a SELFTEST that does not fit its scratch");
        return;
    }
    if (test.step == 0) {
        kvl_wire_pattern(session->scratch, test.length, test.seed);
    } else {
        test.hash = XXH3_64bits(session->scratch, test.length);
    }
    w = kvl_session_begin(session);
    if (w) {
        kvl_put_selftest(w, &test);
        kvl_session_send(session, KVL_MSG_SELFTEST_OK, head->request, KVL_OK);
    }
}
