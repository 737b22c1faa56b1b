/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/error.h"
#include "base/fault.h"
#include "base/log.h"
#include "link/private.h"

/* Requests on the ctrl lane. A call is in link->calls from the send until its last answer, its
 * deadline, or the end of the link; then answer() told it, exactly once per message, and once if it
 * failed. */

static kvl_wbuf_t *call_begin(kvl_link_t *link, size_t size)
{
    link->building = kvl_sendbuf_get(&link->pool, size);
    if (!link->building) {
        kvl_error(KVL_ERR_NO_MEMORY, "link %s: no buffer for a control message", link->address);
        return NULL;
    }
    return &link->building->writer;
}

kvl_wbuf_t *kvl_link_call_begin(kvl_link_t *link)
{
    return kvl_link_call_begin_size(link, KVL_WIRE_MAX);
}

kvl_wbuf_t *kvl_link_call_begin_size(kvl_link_t *link, size_t size)
{
    /* late bytes of a pair that leaves may still land where a commit would make them visible (pair.c) */
    if (link->leaving && link->put_mode == KVL_MODE_IS_ONESIDED) {
        kvl_error(KVL_ERR_BUSY, "link %s: a rail is leaving", link->address);
        return NULL;
    }
    return call_begin(link, size);
}

kvl_wbuf_t *kvl_link_call_begin_always(kvl_link_t *link)
{
    return call_begin(link, KVL_WIRE_MAX);
}

void kvl_link_call_drop(kvl_link_t *link)
{
    kvl_sendbuf_put(link->building);
    link->building = NULL;
}

static void call_fail(kvl_call_t *call, kvl_status_t status)
{
    kvl_msg_head_t head = {.request = call->request, .status = status};

    kvl_link_call_end(call->owner, call);
    call->answer(call, &head, NULL);
}

static void call_expired(kvl_timer_t *timer)
{
    call_fail(kvl_container(timer, kvl_call_t, timer), KVL_ERR_TIMEOUT);
}

kvl_status_t kvl_link_call_send(kvl_link_t *link, kvl_msg_type_t type, kvl_call_t *call,
                                int64_t deadline_ns)
{
    kvl_sendbuf_t *buf = link->building;
    uint64_t request   = call ? ++link->last_request : 0;
    kvl_status_t status;

    link->building = NULL;
    if (call) {
        call->request   = request;
        call->owner     = link;
        call->sent_once = false;
        call->timer     = (kvl_timer_t){0};
        status = kvl_timer_set(kvl_engine_timers(link->engine), &call->timer, deadline_ns,
                               call_expired);
        if (status != KVL_OK) {
            kvl_sendbuf_put(buf);
            return status;
        }
        kvl_list_push_back(&link->calls, &call->link);
    }
    status = link->ctrl.stream.on ? kvl_stream_send(&link->ctrl.stream, buf, &link->lines[0].endpoint, type,
                                                    request, KVL_OK)
                                  : kvl_sendbuf_send(buf, &link->lines[0].endpoint, KVL_AM_CTRL, type,
                                                     request, KVL_OK);
    if (status < 0) {
        if (call) {
            kvl_link_call_end(link, call);
        }
        return status;
    }
    if (call) {
        call->sent_once = true;
    }
    return KVL_INPROGRESS;
}

void kvl_link_call_end(kvl_link_t *link, kvl_call_t *call)
{
    kvl_timer_cancel(kvl_engine_timers(link->engine), &call->timer);
    kvl_list_remove(&call->link);
}

static kvl_call_t *call_find(kvl_link_t *link, uint64_t request)
{
    kvl_list_t *node;

    for (node = link->calls.next; node != &link->calls; node = node->next) {
        kvl_call_t *call = kvl_container(node, kvl_call_t, link);

        if (call->request == request) {
            return call;
        }
    }
    return NULL;
}

void kvl_link_answered(kvl_link_t *link, const kvl_am_t *am)
{
    kvl_msg_head_t head;
    kvl_rbuf_t body;
    kvl_call_t *call;

    if (kvl_fault(KVL_FAULT_CTRL_RECV).action == KVL_FAULT_DROP) {
        return;
    }
    if (!am->data || kvl_wire_open(&body, am->data, am->length, &head) != KVL_OK) {
        kvl_link_protocol_error(link, am->data ? kvl_error_text() : "a control message by rendezvous");
        return;
    }
    call = call_find(link, head.request);
    if (!call) { /* the caller gave up on it; or the peer made it up: no harm either way */
        kvl_debug("link %s: %s answers request %llu, which nobody waits for", link->address,
                  kvl_msg_name(head.type), (unsigned long long)head.request);
        return;
    }
    if (head.type == KVL_MSG_REFUSE) {
        char text[KVL_WIRE_TEXT_MAX + 1] = "no reason given";

        kvl_get_text(&body, text);
        if (head.status >= 0) {
            head.status = KVL_ERR_PROTOCOL;
        }
        kvl_error((kvl_status_t)head.status, "%s: %s", link->address, text);
        kvl_link_call_end(link, call);
        call->answer(call, &head, NULL);
        return;
    }
    if (call->answer(call, &head, &body)) {
        kvl_link_call_end(link, call);
    }
}

unsigned kvl_link_calls_fail(kvl_link_t *link, kvl_status_t status)
{
    unsigned n = 0;

    while (!kvl_list_empty(&link->calls)) {
        call_fail(kvl_container(link->calls.next, kvl_call_t, link), status);
        n++;
    }
    return n;
}
