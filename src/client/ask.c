/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/job.h"

#include "base/alloc.h"
#include "base/error.h"

#include <string.h>

/* One request that carries flights, from its message to its last answer. An ask belongs to the cache,
 * not to the batch: when a batch gives up, its flights leave the ask (detach) and the ask stays to
 * give back the leases that still come. It ends once: when everything was answered, when the call
 * failed, or when an answer made no sense; each flight that is still in it goes to kind->lost.
 *
 * How far to look ahead: enough leases that a free endpoint always finds the next move, few enough
 * that a batch does not hoard the node's memory. Values that ride in messages hold no lease and are
 * bounded apart. Requests are refilled in quarters of the look-ahead, not item by item. */

#define AHEAD_MIN   32
#define AHEAD_BYTES (UINT64_C(64) << 20)
#define SMALL_MAX   512
#define RUN_MAX     4                /* messages of one job in one turn */
#define GRACE_NS    (5 * KVL_SECOND) /* answers that come later than the deadline by this are lost */

/* ---- life ---- */

kvl_ask_t *kvl_ask_get(kvl_cache_t *cache, const kvl_ask_kind_t *kind)
{
    kvl_list_t *node = kvl_list_pop_front(&cache->idle_asks);
    kvl_ask_t *ask   = node ? kvl_container(node, kvl_ask_t, link) : kvl_malloc(sizeof(*ask));

    if (!ask) {
        return NULL;
    }
    memset(&ask->call, 0, sizeof(ask->call));
    memset(ask->answered, 0, sizeof(ask->answered));
    kvl_list_init(&ask->link);
    ask->cache = cache;
    ask->kind  = kind;
    ask->job   = NULL;
    ask->count = ask->left = 0;
    return ask;
}

void kvl_ask_put(kvl_ask_t *ask)
{
    kvl_list_remove(&ask->link);
    kvl_list_push_front(&ask->cache->idle_asks, &ask->link);
}

bool kvl_ask_add(kvl_ask_t *ask, kvl_wbuf_t *w, kvl_flight_t *flight)
{
    flight->ask   = ask;
    flight->place = (uint16_t)ask->count;
    if (ask->count == KVL_ASK_MAX || !ask->kind->add(w, flight)) {
        flight->ask = NULL;
        return false;
    }
    ask->flights[ask->count++] = flight;
    ask->left++;
    return true;
}

kvl_status_t kvl_ask_peek(kvl_ask_t *ask, unsigned index, kvl_flight_t **flight_p)
{
    if (index >= ask->count || (ask->answered[index / 64] >> (index % 64) & 1)) {
        return kvl_error(KVL_ERR_PROTOCOL, "%s: item %u %s", kvl_msg_name(ask->kind->answer), index,
                         index < ask->count ? "is answered twice" : "was not asked for");
    }
    *flight_p = ask->flights[index];
    return KVL_OK;
}

void kvl_ask_take(kvl_ask_t *ask, unsigned index)
{
    if (ask->flights[index]) {
        ask->flights[index]->ask = NULL;
    }
    ask->flights[index] = NULL;
    ask->answered[index / 64] |= UINT64_C(1) << (index % 64);
    ask->left--;
}

void kvl_ask_detach(kvl_flight_t *flight)
{
    flight->ask->flights[flight->place] = NULL;
    flight->ask                         = NULL;
}

kvl_status_t kvl_status_check(int32_t status)
{
    if (status != KVL_OK && kvl_status_group((kvl_status_t)status) == KVL_GROUP_NONE) {
        return kvl_error(KVL_ERR_PROTOCOL, "item status %d is none of an answer", status);
    }
    return KVL_OK;
}

/* ---- answers ---- */

static void ask_lose(kvl_ask_t *ask, kvl_lost_t how, kvl_status_t status)
{
    unsigned i;

    for (i = 0; i < ask->count; i++) {
        kvl_flight_t *flight = ask->flights[i];

        if (flight) {
            kvl_ask_detach(flight);
            ask->kind->lost(flight, how, status);
        }
    }
    kvl_ask_put(ask);
}

static void ask_fail(kvl_ask_t *ask, kvl_status_t status)
{
    if (kvl_link_state(ask->cache->link) == KVL_LINK_UP && status != KVL_ERR_TIMEOUT) {
        ask_lose(ask, KVL_LOST_REFUSED, status);
    } else {
        ask_lose(ask, ask->call.sent_once ? KVL_LOST_UNKNOWN : KVL_LOST_UNSENT, status);
    }
}

static kvl_status_t ask_read(kvl_ask_t *ask, const kvl_msg_head_t *head, kvl_rbuf_t *body)
{
    kvl_status_t status = KVL_OK;

    if (head->type != ask->kind->answer) {
        return kvl_error(KVL_ERR_PROTOCOL, "%s answers %s", kvl_msg_name(head->type),
                         kvl_msg_name(ask->kind->request));
    }
    while (body->left && status == KVL_OK) {
        status = ask->kind->read(ask, body);
    }
    return status == KVL_OK ? kvl_wire_close(body) : status;
}

static bool ask_answer(kvl_call_t *call, const kvl_msg_head_t *head, kvl_rbuf_t *body)
{
    kvl_ask_t *ask = kvl_container(call, kvl_ask_t, call);

    if (!body || head->status != KVL_OK) {
        ask_fail(ask, head->status < 0 ? (kvl_status_t)head->status : KVL_ERR_PROTOCOL);
        return true;
    }
    if (ask_read(ask, head, body) != KVL_OK) {
        kvl_link_protocol_error(ask->cache->link, kvl_error_text());
        ask_lose(ask, KVL_LOST_UNKNOWN, KVL_ERR_PROTOCOL);
        return true;
    }
    if (ask->left) {
        return false;
    }
    kvl_ask_put(ask);
    return true;
}

kvl_status_t kvl_ask_send(kvl_ask_t *ask, int64_t deadline_ns)
{
    kvl_status_t status;

    ask->call.answer = ask_answer;
    status           = kvl_link_call_send(ask->cache->link, ask->kind->request, &ask->call,
                                          kvl_time_add(deadline_ns, GRACE_NS));
    if (status != KVL_INPROGRESS) {
        ask_lose(ask, KVL_LOST_UNSENT, status);
    }
    return status;
}

/* ---- looking ahead ---- */

static bool entry_is_small(const kvl_job_t *job, const kvl_entry_t *entry)
{
    uint32_t max = kvl_link_terms(job->cache->link)->inline_max;

    /* a put of device memory is copied beside others, not alone while the message is made */
    return entry->length <= max && entry->length <= KVL_INLINE_CAP && !(entry->device && job->op == KVL_CACHE_PUT);
}

/* may this entry be asked for now? */
static bool window_allows(const kvl_job_t *job, const kvl_entry_t *entry)
{
    unsigned depth = kvl_link_terms(job->cache->link)->depth;
    unsigned ahead = 2 * depth > AHEAD_MIN ? 2 * depth : AHEAD_MIN;

    if (entry_is_small(job, entry)) {
        return job->small < SMALL_MAX;
    }
    return job->window <= depth + depth / 2 ||
           (job->window < depth + ahead && job->window_bytes + entry->length <= AHEAD_BYTES);
}

/* is the window empty enough for another message? */
static bool window_is_hungry(const kvl_job_t *job, const kvl_entry_t *entry)
{
    unsigned depth = kvl_link_terms(job->cache->link)->depth;
    unsigned ahead = 2 * depth > AHEAD_MIN ? 2 * depth : AHEAD_MIN;

    if (entry_is_small(job, entry)) {
        return job->small <= SMALL_MAX / 2;
    }
    return job->window <= depth || job->window + ahead / 4 <= depth + ahead ||
           job->window_bytes > AHEAD_BYTES / 2;
}

/* fills one message; returns the number of flights in it: 0 without memory */
static unsigned ask_fill(kvl_job_t *job, kvl_ask_t *ask, kvl_wbuf_t *w)
{
    unsigned most = KVL_ASK_MAX;
    kvl_entry_t *entry;
    uint32_t index;

    if (!job->started) { /* a short first message: the first move starts the sooner */
        most         = kvl_link_terms(job->cache->link)->depth;
        most         = most > KVL_ASK_MAX ? KVL_ASK_MAX : most;
        job->started = true;
    }
    while (ask->count < most && (entry = kvl_job_next(job, &index)) && window_allows(job, entry)) {
        kvl_flight_t *flight = kvl_flight_get(job, index, entry_is_small(job, entry));

        if (!flight) {
            break;
        }
        if (!kvl_ask_add(ask, w, flight)) {
            kvl_flight_restart(flight);
            break;
        }
    }
    return ask->count;
}

/* one message; false: nothing was sent */
static bool ask_next(kvl_job_t *job, const kvl_ask_kind_t *kind)
{
    kvl_cache_t *cache = job->cache;
    kvl_ask_t *ask     = kvl_ask_get(cache, kind);
    kvl_status_t status;
    kvl_wbuf_t *w;
    uint32_t ttl_ms;

    if (!ask) {
        return kvl_job_starve(job, KVL_ERR_NO_MEMORY);
    }
    w = kvl_link_call_begin(cache->link);
    if (!w) {
        kvl_ask_put(ask);
        return kvl_job_starve(job, KVL_ERR_BUSY);
    }
    ttl_ms            = kvl_job_ttl_ms(job);
    ask->lease_end_ns = kvl_time_add(kvl_now_ns(), (int64_t)ttl_ms * KVL_MS);
    kvl_put_ttl(w, ttl_ms);
    if (!ask_fill(job, ask, w)) {
        kvl_link_call_drop(cache->link);
        kvl_ask_put(ask);
        return kvl_job_starve(job, KVL_ERR_NO_MEMORY);
    }
    status = kvl_ask_send(ask, job->batch.deadline_ns);
    if (status != KVL_INPROGRESS) {
        return kvl_job_starve(job, status);
    }
    job->starved = 0;
    return true;
}

unsigned kvl_ask_run(kvl_job_t *job, const kvl_ask_kind_t *kind)
{
    unsigned sent = 0;
    kvl_entry_t *entry;
    uint32_t index;

    while (sent < RUN_MAX && (entry = kvl_job_next(job, &index)) && window_is_hungry(job, entry) &&
           window_allows(job, entry)) {
        if (!ask_next(job, kind)) {
            return sent;
        }
        sent++;
    }
    if (sent == RUN_MAX) {
        kvl_job_wake(job); /* the others first */
    }
    return sent;
}
