/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/job.h"

#include "base/error.h"

/* exists and remove: as many keys as fit in one message, answered by index, no leases, no flights.
 * A query covers entries that lie side by side. An exists may be asked again after the connection
 * was lost; a remove may not, since it could take away what somebody stored meanwhile. */

#define QUERY_ITEMS 1024 /* of one message: a long batch leaves room for others' messages */
#define QUERY_MAX   2    /* messages of one job under way */
#define GRACE_NS    (5 * KVL_SECOND)

static void query_free(kvl_ask_t *query)
{
    query->job->query_count--;
    kvl_job_wake(query->job);
    kvl_ask_put(query);
}

/* what becomes of the entries that got no answer; the query is gone */
static void query_lose(kvl_ask_t *query, kvl_lost_t how, kvl_status_t status)
{
    kvl_job_t *job = query->job;
    uint32_t i;

    for (i = query->first; i < query->first + query->count; i++) {
        if (job->entries[i].state != KVL_ENTRY_FLYING) {
            continue;
        }
        if (how == KVL_LOST_REFUSED && status != KVL_ERR_BUSY) {
            kvl_job_end(job, i, status, 0, kvl_error_text());
        } else if (how == KVL_LOST_UNKNOWN && job->op == KVL_CACHE_REMOVE) {
            kvl_job_end(job, i, KVL_ERR_AMBIGUOUS, 0,
                        "the connection ended before the remove was "
                        "answered; ask whether the key exists");
        } else {
            kvl_job_restart(job, i);
        }
    }
    if (how == KVL_LOST_REFUSED && status == KVL_ERR_BUSY) {
        kvl_job_back_off(job);
    }
    query_free(query);
}

static void query_fail(kvl_ask_t *query, kvl_status_t status)
{
    if (kvl_link_state(query->cache->link) == KVL_LINK_UP && status != KVL_ERR_TIMEOUT) {
        query_lose(query, KVL_LOST_REFUSED, status);
    } else {
        query_lose(query, query->call.sent_once ? KVL_LOST_UNKNOWN : KVL_LOST_UNSENT, status);
    }
}

static kvl_status_t query_item(kvl_ask_t *query, kvl_rbuf_t *body)
{
    kvl_job_t *job = query->job;
    kvl_answer_t item;
    uint32_t i;

    if (kvl_get_answer(body, &item) != KVL_OK || kvl_status_check(item.status) != KVL_OK) {
        return KVL_ERR_PROTOCOL;
    }
    i = query->first + item.index;
    if (item.index >= query->count || job->entries[i].state != KVL_ENTRY_FLYING) {
        return kvl_error(KVL_ERR_PROTOCOL, "item %u was not asked for, or is answered twice",
                         item.index);
    }
    query->left--;
    kvl_job_end(job, i, (kvl_status_t)item.status, job->op == KVL_CACHE_EXISTS ? item.length : 0,
                item.status == KVL_ERR_NOT_FOUND ? "the node does not have it" : NULL);
    return KVL_OK;
}

static kvl_status_t query_read(kvl_ask_t *query, const kvl_msg_head_t *head, kvl_rbuf_t *body)
{
    unsigned want       = query->job->op == KVL_CACHE_EXISTS ? KVL_MSG_EXISTS_OK : KVL_MSG_REMOVED;
    kvl_status_t status = KVL_OK;

    if (head->type != want) {
        return kvl_error(KVL_ERR_PROTOCOL, "%s instead of %s", kvl_msg_name(head->type),
                         kvl_msg_name(want));
    }
    while (body->left && status == KVL_OK) {
        status = query_item(query, body);
    }
    return status == KVL_OK ? kvl_wire_close(body) : status;
}

static bool query_answer(kvl_call_t *call, const kvl_msg_head_t *head, kvl_rbuf_t *body)
{
    kvl_ask_t *query = kvl_container(call, kvl_ask_t, call);

    if (!body || head->status != KVL_OK) {
        query_fail(query, head->status < 0 ? (kvl_status_t)head->status : KVL_ERR_PROTOCOL);
        return true;
    }
    if (query_read(query, head, body) != KVL_OK) {
        kvl_link_protocol_error(query->cache->link, kvl_error_text());
        query_lose(query, KVL_LOST_UNKNOWN, KVL_ERR_PROTOCOL);
        return true;
    }
    if (query->left) {
        return false;
    }
    query_free(query);
    return true;
}

/* side by side from the first entry to do, until the message is full */
static void query_fill(kvl_ask_t *query, kvl_wbuf_t *w)
{
    kvl_job_t *job = query->job;
    kvl_entry_t *entry;
    uint32_t index;

    while (query->count < QUERY_ITEMS && (entry = kvl_job_next(job, &index))) {
        kvl_lookup_t item = {.index = (uint16_t)query->count,
                             .key   = {entry->key, entry->key_length}};

        if (query->count && index != query->first + query->count) {
            break;
        }
        if (!kvl_put_lookup(w, &item)) {
            break;
        }
        if (!query->count++) {
            query->first = index;
        }
        kvl_job_take(job, index);
    }
    query->left = query->count;
}

static bool query_next(kvl_job_t *job)
{
    kvl_cache_t *cache = job->cache;
    kvl_ask_t *query   = kvl_ask_get(cache, NULL);
    kvl_wbuf_t *w      = query ? kvl_link_call_begin(cache->link) : NULL;
    kvl_status_t status;

    if (!w) {
        if (query) {
            kvl_ask_put(query);
        }
        return kvl_job_starve(job, query ? KVL_ERR_BUSY : KVL_ERR_NO_MEMORY);
    }
    query->job         = job;
    query->call.answer = query_answer;
    query_fill(query, w);
    kvl_list_push_back(&job->queries, &query->link);
    job->query_count++;
    status = kvl_link_call_send(cache->link,
                                job->op == KVL_CACHE_EXISTS ? KVL_MSG_EXISTS : KVL_MSG_REMOVE,
                                &query->call, kvl_time_add(job->batch.deadline_ns, GRACE_NS));
    if (status != KVL_INPROGRESS) {
        query_lose(query, KVL_LOST_UNSENT, status);
        return kvl_job_starve(job, status);
    }
    job->starved = 0;
    return true;
}

unsigned kvl_query_run(kvl_job_t *job)
{
    unsigned sent = 0;

    while (job->todo && job->query_count < QUERY_MAX && query_next(job)) {
        sent++;
    }
    return sent;
}

void kvl_query_stop(kvl_job_t *job, bool late)
{
    kvl_list_t *node, *next;

    if (job->op == KVL_CACHE_REMOVE && !late) {
        return; /* an answer may still come in time */
    }
    for (node = job->queries.next; node != &job->queries; node = next) {
        kvl_ask_t *query = kvl_container(node, kvl_ask_t, link);

        next = node->next;
        kvl_link_call_end(job->cache->link, &query->call);
        query_lose(query, KVL_LOST_UNKNOWN, job->stop);
    }
}
