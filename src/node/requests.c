/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/error.h"
#include "base/fault.h"
#include "node/private.h"

/* What clients ask on the ctrl lane. A request is a row of items of one kind; each is read, done and
 * answered in turn. An answer that grows over one message goes on in the next one. Bytes that make no
 * sense end the session: what was done before stands, and its leases come back with the session. */

#define ITEM_ROOM 64 /* more than any item of an answer takes without its value */

typedef struct {
    kvl_client_t *client;
    kvl_node_t *node;
    const kvl_msg_head_t *head;
    kvl_rbuf_t *body;
    kvl_msg_type_t answer;
    kvl_wbuf_t *w;       /* NULL: no message begun */
    uint64_t request;    /* of the answers; 0: none are sent */
    int64_t deadline_ns; /* of new leases */
    uint64_t inline_max;
    bool fail; /* an injected fault */
    bool over; /* the session is going */
} request_t;

/* one kind of request */
typedef struct {
    kvl_msg_type_t answer;
    bool answered; /* false: no answer is ever sent */
    bool leases;   /* the body starts with a ttl; refused while draining */
    void (*item)(request_t *r);
} row_t;

/* ---- answers ---- */

static void answer_send(request_t *r)
{
    if (r->w) {
        r->w = NULL;
        kvl_session_send(r->client->session, r->answer, r->request, KVL_OK);
    }
}

/* A writer with room for one more item; NULL: nobody wants to know, or the session is going. */
static kvl_wbuf_t *answer_room(request_t *r, size_t bytes)
{
    if (!r->request || r->over) {
        return NULL;
    }
    if (r->w && kvl_wbuf_room(r->w) < bytes) {
        answer_send(r);
    }
    if (!r->w) {
        r->w    = kvl_session_begin(r->client->session);
        r->over = !r->w;
    }
    return r->w;
}

static void answer_status(request_t *r, uint16_t index, kvl_status_t status, uint64_t length)
{
    kvl_answer_t item = {.index = index, .status = (int32_t)status, .length = length};
    kvl_wbuf_t *w     = answer_room(r, ITEM_ROOM);

    if (w) {
        kvl_put_answer(w, &item);
    }
}

static void violation(request_t *r, const char *what)
{
    kvl_session_violation(r->client->session, what);
    r->over = true;
}

static kvl_key_t key_of(const kvl_wire_key_t *key)
{
    return (kvl_key_t){key->data, key->length};
}

static kvl_wire_lease_t lease_on_wire(const kvl_node_t *node, const kvl_grant_t *grant)
{
    return (kvl_wire_lease_t){.id         = grant->id,
                              .generation = grant->generation,
                              .region     = node->regions[grant->slab]->id,
                              .offset     = grant->offset};
}

/* ---- items ---- */

static void reserve_item(request_t *r)
{
    kvl_reserved_t out = {.index = 0};
    kvl_reserve_t item;
    kvl_grant_t grant;
    kvl_wbuf_t *w;

    if (kvl_get_reserve(r->body, &item) != KVL_OK) {
        violation(r, kvl_error_text());
        return;
    }
    if (item.has_inline && item.length > r->inline_max) {
        violation(r, "RESERVE with a value inside that is longer than agreed");
        return;
    }
    out.index = item.index;
    if (item.has_inline) {
        out.status = kvl_store_put(&r->client->holder, key_of(&item.key), item.bytes, item.length);
    } else {
        out.status = kvl_store_reserve(&r->client->holder, key_of(&item.key), item.length,
                                       r->deadline_ns, &grant);
        if (out.status == KVL_OK) {
            out.lease = lease_on_wire(r->node, &grant);
        }
    }
    w = answer_room(r, ITEM_ROOM);
    if (w) {
        kvl_put_reserved(w, &out);
    }
}

static void lookup_item(request_t *r)
{
    kvl_found_t out = {.index = 0};
    kvl_found_value_t found;
    kvl_lookup_t item;
    kvl_wbuf_t *w;

    if (kvl_get_lookup(r->body, &item) != KVL_OK) {
        violation(r, kvl_error_text());
        return;
    }
    out.index  = item.index;
    out.status = kvl_store_read(&r->client->holder, key_of(&item.key), r->inline_max,
                                r->deadline_ns, &found);
    if (out.status == KVL_OK) {
        out.length     = found.length;
        out.has_inline = !found.leased;
        if (found.leased) {
            out.lease = lease_on_wire(r->node, &found.grant);
        } else {
            out.bytes = found.address;
        }
    }
    w = answer_room(r, ITEM_ROOM + (out.has_inline ? (size_t)out.length : 0));
    if (w) {
        kvl_put_found(w, &out);
    }
}

static void commit_item(request_t *r)
{
    kvl_commit_t item;
    kvl_store_commit_t commit;
    kvl_status_t status;

    if (kvl_get_commit(r->body, &item) != KVL_OK) {
        violation(r, kvl_error_text());
        return;
    }
    commit = (kvl_store_commit_t){.id         = item.lease,
                                  .generation = item.generation,
                                  .length     = item.length,
                                  .ops        = item.ops,
                                  .request    = r->request,
                                  .index      = item.index};
    if (r->fail) {
        (void)kvl_store_abort(&r->client->holder, item.lease, item.generation);
        status = KVL_ERR_LEASE;
    } else {
        status = kvl_store_commit(&r->client->holder, &commit);
    }
    if (status != KVL_INPROGRESS) {
        answer_status(r, item.index, status, 0);
    }
}

static void release_item(request_t *r)
{
    kvl_commit_t item;

    if (kvl_get_commit(r->body, &item) != KVL_OK) {
        violation(r, kvl_error_text());
        return;
    }
    (void)kvl_store_release(&r->client->holder, item.lease,
                            item.generation); /* it counts refusals */
}

static void abort_item(request_t *r)
{
    kvl_commit_t item;

    if (kvl_get_commit(r->body, &item) != KVL_OK) {
        violation(r, kvl_error_text());
        return;
    }
    (void)kvl_store_abort(&r->client->holder, item.lease, item.generation);
}

static void exists_item(request_t *r)
{
    kvl_lookup_t item;
    kvl_status_t status;
    uint64_t length = 0;

    if (kvl_get_lookup(r->body, &item) != KVL_OK) {
        violation(r, kvl_error_text());
        return;
    }
    status = kvl_store_exists(r->node->store, key_of(&item.key), &length);
    answer_status(r, item.index, status, length);
}

static void remove_item(request_t *r)
{
    kvl_lookup_t item;

    if (kvl_get_lookup(r->body, &item) != KVL_OK) {
        violation(r, kvl_error_text());
        return;
    }
    answer_status(r, item.index, kvl_store_remove(r->node->store, key_of(&item.key)), 0);
}

/* ---- requests ---- */

static bool row_find(unsigned type, row_t *row_p)
{
    switch (type) {
    case KVL_MSG_RESERVE:
        *row_p = (row_t){KVL_MSG_RESERVED, true, true, reserve_item};
        return true;
    case KVL_MSG_LOOKUP:
        *row_p = (row_t){KVL_MSG_FOUND, true, true, lookup_item};
        return true;
    case KVL_MSG_COMMIT:
        *row_p = (row_t){KVL_MSG_COMMITTED, true, false, commit_item};
        return true;
    case KVL_MSG_EXISTS:
        *row_p = (row_t){KVL_MSG_EXISTS_OK, true, false, exists_item};
        return true;
    case KVL_MSG_REMOVE:
        *row_p = (row_t){KVL_MSG_REMOVED, true, false, remove_item};
        return true;
    case KVL_MSG_RELEASE:
        *row_p = (row_t){.item = release_item};
        return true;
    case KVL_MSG_ABORT:
        *row_p = (row_t){.item = abort_item};
        return true;
    default:
        return false;
    }
}

static kvl_fault_action_t request_fault(unsigned type)
{
    switch (type) {
    case KVL_MSG_RESERVE:
        return kvl_fault(KVL_FAULT_NODE_RESERVE).action;
    case KVL_MSG_LOOKUP:
        return kvl_fault(KVL_FAULT_NODE_LOOKUP).action;
    case KVL_MSG_COMMIT:
        return kvl_fault(KVL_FAULT_NODE_COMMIT).action;
    default:
        return KVL_FAULT_NONE;
    }
}

static void request_refuse(request_t *r, kvl_status_t status, const char *reason)
{
    r->node->refused++;
    kvl_session_refuse(r->client->session, r->head->request, status, reason);
    r->over = true;
}

/* reads the time for which the client wants its leases; never more than agreed */
static void request_ttl(request_t *r)
{
    uint32_t lease_max_ms = kvl_session_terms(r->client->session)->lease_max_ms;
    uint32_t ttl_ms;

    if (kvl_get_ttl(r->body, &ttl_ms) != KVL_OK) {
        violation(r, kvl_error_text());
        return;
    }
    ttl_ms = ttl_ms < lease_max_ms ? ttl_ms : lease_max_ms;
    r->deadline_ns =
        kvl_time_add(kvl_engine_now(r->node->engine), ttl_ms * KVL_MS + KVL_NODE_GRACE);
}

/* false: not to be done */
static bool request_begin(request_t *r, const row_t *row)
{
    kvl_fault_action_t fault = request_fault(r->head->type);

    if (!r->head->count) {
        violation(r, "a request without items");
    } else if (row->answered && !r->head->request) {
        violation(r, "a request without a number");
    } else if (row->leases && r->node->draining) {
        request_refuse(r, KVL_ERR_REFUSED, "the node is draining");
    } else if (row->leases && fault == KVL_FAULT_FAIL) {
        request_refuse(r, KVL_ERR_BUSY, "injected fault");
    } else if (row->leases && fault == KVL_FAULT_DROP) {
        return false;
    } else if (row->leases) {
        request_ttl(r);
    }
    r->fail = fault == KVL_FAULT_FAIL;
    if (fault == KVL_FAULT_DROP || !row->answered) {
        r->request = 0; /* done, but nobody hears of it */
    }
    return !r->over;
}

static void request_run(request_t *r, const row_t *row)
{
    unsigned left = r->head->count;

    r->answer = row->answer;
    if (!request_begin(r, row)) {
        return;
    }
    for (; left && !r->over; left--) {
        row->item(r);
    }
    if (!r->over && kvl_wire_close(r->body) != KVL_OK) {
        violation(r, kvl_error_text());
    }
    answer_send(r); /* also if the session is going: it takes the buffer back */
}

static void request_stat(request_t *r)
{
    kvl_node_stat_t s;
    kvl_wbuf_t *w;

    if (kvl_wire_close(r->body) != KVL_OK) {
        violation(r, kvl_error_text());
        return;
    }
    kvl_node_fill_stat(r->node, &s);
    w = kvl_session_begin(r->client->session);
    if (w) {
        /* the order of kvl_node_stat_t */
        const uint64_t values[] = {s.keys,        s.bytes_used,
                                   s.bytes_total, s.sessions,
                                   s.leases,      s.quarantined_slots,
                                   s.evictions,   s.refused_messages,
                                   s.puts,        s.gets,
                                   s.hits,        s.misses,
                                   s.commits,     s.aborts,
                                   s.uptime_ms};

        kvl_put_stats(w, values, sizeof(values) / sizeof(values[0]));
        kvl_session_send(r->client->session, KVL_MSG_STAT_OK, r->head->request, KVL_OK);
    }
}

void kvl_node_message(void *arg, kvl_session_t *session, const kvl_msg_head_t *head,
                      kvl_rbuf_t *body)
{
    kvl_client_t *client = kvl_session_data(session);
    request_t r          = {.client     = client,
                            .node       = arg,
                            .head       = head,
                            .body       = body,
                            .request    = head->request,
                            .inline_max = kvl_session_terms(session)->inline_max};
    row_t row;

    if (head->type == KVL_MSG_STAT) {
        request_stat(&r);
    } else if (row_find(head->type, &row)) {
        request_run(&r, &row);
        kvl_node_arm(r.node);
    } else {
        violation(&r, "a message that no client sends to a node");
    }
}

unsigned kvl_node_answer(kvl_client_t *client)
{
    request_t r = {.client = client, .node = client->node, .answer = KVL_MSG_COMMITTED};
    kvl_store_answer_t answer;
    unsigned n = 0;

    while (!r.over && kvl_holder_answer(&client->holder, &answer)) {
        if (answer.request != r.request) {
            answer_send(&r);
            r.request = answer.request;
        }
        answer_status(&r, answer.index, answer.status, 0);
        n++;
    }
    answer_send(&r);
    return n;
}
