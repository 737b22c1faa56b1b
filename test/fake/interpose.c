/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts what a program does with the real libucp, from outside of kvlane: an independent witness
 * of "at most one outstanding op on an sg endpoint", "every sg endpoint used", "nothing left open".
 *
 *     LD_PRELOAD=libinterpose.so KVLANE_TEST_INTERPOSE_OUT=/tmp/report.%p.json program
 *
 * At exit it writes one JSON object (%p: the pid). Each call goes to the real function; its
 * callback is wrapped, so that an op is outstanding from the call to its completion. An op that
 * completes inside of the call was outstanding during the call.
 *
 * Data ops, per endpoint: ucp_put_nbx, ucp_get_nbx, ucp_rkey_ptr (before each copy over shared memory, and
 * once or twice besides), an active message with id 3 (put) until it is
 * sent, one with id 4 (get) until the message with id 5 that answers it was received on that
 * endpoint. "reply": ids 5 sent. "receive": rendezvous messages being received. Ids 1 and 2 are
 * control. (src/wire/wire.h names the ids.)
 *
 * Any thread may call: one lock guards the tables and is never held across a call into UCX. */
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

enum { AM_PUT = 3, AM_GET = 4, AM_GET_REPLY = 5 };

typedef struct {
    uint64_t current, max, total;
} counter_t;

typedef struct {
    ucp_context_h handle; /* NULL once closed */
} context_record_t;

typedef struct {
    ucp_worker_h handle;
    size_t context;
    uint64_t client_id;
} worker_record_t;

typedef struct {
    ucp_ep_h handle;
    size_t worker;
    counter_t data, reply, receive, control;
    uint64_t puts, gets, am_puts, am_gets, bytes, failed;
    int64_t unanswered; /* ids 4 sent minus ids 5 received; the answer may be first to be seen */
} ep_record_t;

typedef struct {
    ucp_rkey_h handle;
    size_t ep;
} key_record_t;

typedef struct {
    void *items;
    size_t count, capacity, size;
} table_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static table_t contexts     = {.size = sizeof(context_record_t)};
static table_t workers      = {.size = sizeof(worker_record_t)};
static table_t eps          = {.size = sizeof(ep_record_t)};
static table_t keys         = {.size = sizeof(key_record_t)};
static counter_t mems, rkeys, listeners, requests;

#define NONE SIZE_MAX

/* ---- tables; all under lock ---- */

static void *table_at(const table_t *table, size_t index)
{
    return (char *)table->items + index * table->size;
}

static size_t table_add(table_t *table)
{
    if (table->count == table->capacity) {
        table->capacity = table->capacity ? 2 * table->capacity : 64;
        table->items    = realloc(table->items, table->capacity * table->size);
        if (!table->items) {
            abort();
        }
    }
    memset(table_at(table, table->count), 0, table->size);
    return table->count++;
}

/* Every record begins with its handle; handles are used again, so the newest counts. */
static size_t table_find(const table_t *table, const void *handle)
{
    for (size_t i = table->count; handle && i-- > 0;) {
        if (*(void **)table_at(table, i) == handle) {
            return i;
        }
    }
    return NONE;
}

static void table_close(table_t *table, const void *handle)
{
    size_t index;

    pthread_mutex_lock(&lock);
    index = table_find(table, handle);
    if (index != NONE) {
        *(void **)table_at(table, index) = NULL;
    }
    pthread_mutex_unlock(&lock);
}

static void count_up(counter_t *counter)
{
    counter->total++;
    if (++counter->current > counter->max) {
        counter->max = counter->current;
    }
}

static void count_down(counter_t *counter)
{
    if (counter->current > 0) {
        counter->current--;
    }
}

/* An id 4 was sent (+1) or answered (-1); the op ends with the answer. */
static void ep_answered(ep_record_t *ep, int change)
{
    ep->unanswered += change;
    if (change < 0) {
        count_down(&ep->data);
    }
}

static void count(counter_t *counter, bool up)
{
    pthread_mutex_lock(&lock);
    if (up) {
        count_up(counter);
    } else {
        count_down(counter);
    }
    pthread_mutex_unlock(&lock);
}

static void *real(const char *name)
{
    void *symbol = dlsym(RTLD_NEXT, name);

    if (!symbol) {
        fprintf(stderr, "interpose: no %s in the real libucp\n", name);
        abort();
    }
    return symbol;
}

/* The real function of the same name and type. */
#define REAL(name)                                                                                 \
    static __typeof__(name) *call;                                                                 \
    call = call ? call : (__typeof__(name) *)real(#name)

/* ---- ops ---- */

typedef enum { OP_PUT, OP_GET, OP_COPY, OP_AM_PUT, OP_AM_GET, OP_REPLY, OP_RECEIVE, OP_CONTROL } op_kind_t;

typedef struct {
    size_t ep;
    op_kind_t kind;
    unsigned answer; /* OP_RECEIVE: id of the message */
    uint32_t fields; /* which of these the caller gave */
    ucp_send_nbx_callback_t send;
    ucp_am_recv_data_nbx_callback_t recv;
    void *user_data;
} op_t;

static counter_t *op_counter(ep_record_t *ep, op_kind_t kind)
{
    return kind == OP_REPLY     ? &ep->reply
           : kind == OP_RECEIVE ? &ep->receive
           : kind == OP_CONTROL ? &ep->control
                                : &ep->data;
}

static void op_kind_count(ep_record_t *ep, op_kind_t kind)
{
    ep->puts += kind == OP_PUT;
    ep->gets += kind == OP_GET;
    ep->am_puts += kind == OP_AM_PUT;
    ep->am_gets += kind == OP_AM_GET;
}

/* @a ep_index NONE: not counted. */
static op_t *op_begin(size_t ep_index, op_kind_t kind, uint64_t bytes,
                      const ucp_request_param_t *param)
{
    op_t *op = calloc(1, sizeof(*op));

    if (!op) {
        abort();
    }
    *op = (op_t){.ep        = ep_index,
                 .kind      = kind,
                 .fields    = param->op_attr_mask,
                 .send      = param->cb.send,
                 .recv      = param->cb.recv_am,
                 .user_data = param->user_data};
    pthread_mutex_lock(&lock);
    count_up(&requests);
    if (ep_index != NONE) {
        ep_record_t *ep = table_at(&eps, ep_index);

        count_up(op_counter(ep, kind));
        op_kind_count(ep, kind);
        ep->bytes += bytes;
    }
    pthread_mutex_unlock(&lock);
    return op;
}

static void op_end(op_t *op, ucs_status_t status)
{
    pthread_mutex_lock(&lock);
    count_down(&requests);
    if (op->ep != NONE) {
        ep_record_t *ep = table_at(&eps, op->ep);

        ep->failed += status != UCS_OK;
        if (op->kind == OP_AM_GET && status == UCS_OK) {
            ep_answered(ep, 1);
        } else {
            count_down(op_counter(ep, op->kind));
        }
        if (op->kind == OP_RECEIVE && op->answer == AM_GET_REPLY) {
            ep_answered(ep, -1);
        }
    }
    pthread_mutex_unlock(&lock);
    free(op);
}

static void op_sent(void *request, ucs_status_t status, void *user_data)
{
    op_t op = *(op_t *)user_data;

    op_end(user_data, status);
    if ((op.fields & UCP_OP_ATTR_FIELD_CALLBACK) && op.send) {
        op.send(request, status, op.user_data);
    }
}

static void op_received(void *request, ucs_status_t status, size_t length, void *user_data)
{
    op_t op = *(op_t *)user_data;

    op_end(user_data, status);
    if ((op.fields & UCP_OP_ATTR_FIELD_CALLBACK) && op.recv) {
        op.recv(request, status, length, op.user_data);
    }
}

static ucp_request_param_t op_param(op_t *op, const ucp_request_param_t *param)
{
    ucp_request_param_t wrapped = *param;

    wrapped.op_attr_mask |= UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    wrapped.user_data = op;
    if (op->kind == OP_RECEIVE) {
        wrapped.cb.recv_am = op_received;
    } else {
        wrapped.cb.send = op_sent;
    }
    return wrapped;
}

static ucs_status_ptr_t op_posted(op_t *op, ucs_status_ptr_t result)
{
    if (!UCS_PTR_IS_PTR(result)) {
        op_end(op, UCS_PTR_STATUS(result));
    }
    return result;
}

static size_t ep_index_of(ucp_ep_h ep)
{
    size_t index;

    pthread_mutex_lock(&lock);
    index = table_find(&eps, ep);
    pthread_mutex_unlock(&lock);
    return index;
}

static uint64_t bytes_of(const void *buffer, size_t count_, const ucp_request_param_t *param)
{
    const ucp_dt_iov_t *iov = buffer;
    uint64_t bytes          = 0;

    if (!(param->op_attr_mask & UCP_OP_ATTR_FIELD_DATATYPE) ||
        (param->datatype & UCP_DATATYPE_CLASS_MASK) != UCP_DATATYPE_IOV) {
        return count_;
    }
    for (size_t i = 0; i < count_; i++) {
        bytes += iov[i].length;
    }
    return bytes;
}

ucs_status_ptr_t ucp_put_nbx(ucp_ep_h ep, const void *buffer, size_t count_, uint64_t remote_addr,
                             ucp_rkey_h rkey, const ucp_request_param_t *param)
{
    REAL(ucp_put_nbx);
    op_t *op = op_begin(ep_index_of(ep), OP_PUT, bytes_of(buffer, count_, param), param);
    ucp_request_param_t wrapped = op_param(op, param);

    return op_posted(op, call(ep, buffer, count_, remote_addr, rkey, &wrapped));
}

ucs_status_ptr_t ucp_get_nbx(ucp_ep_h ep, void *buffer, size_t count_, uint64_t remote_addr,
                             ucp_rkey_h rkey, const ucp_request_param_t *param)
{
    REAL(ucp_get_nbx);
    op_t *op = op_begin(ep_index_of(ep), OP_GET, bytes_of(buffer, count_, param), param);
    ucp_request_param_t wrapped = op_param(op, param);

    return op_posted(op, call(ep, buffer, count_, remote_addr, rkey, &wrapped));
}

ucs_status_ptr_t ucp_am_send_nbx(ucp_ep_h ep, unsigned id, const void *header, size_t header_length,
                                 const void *buffer, size_t count_,
                                 const ucp_request_param_t *param)
{
    REAL(ucp_am_send_nbx);
    op_kind_t kind = id == AM_PUT         ? OP_AM_PUT
                     : id == AM_GET       ? OP_AM_GET
                     : id == AM_GET_REPLY ? OP_REPLY
                                          : OP_CONTROL;
    op_t *op       = op_begin(ep_index_of(ep), kind, bytes_of(buffer, count_, param), param);
    ucp_request_param_t wrapped = op_param(op, param);

    return op_posted(op, call(ep, id, header, header_length, buffer, count_, &wrapped));
}

/* ---- arriving messages: the handler runs on the thread that then calls ucp_am_recv_data_nbx ---- */

typedef struct {
    ucp_am_recv_callback_t cb;
    void *arg;
    unsigned id;
} handler_t;

static __thread unsigned arriving_id;
static __thread size_t arriving_ep = NONE;

static ucs_status_t handler_run(void *arg, const void *header, size_t header_length, void *data,
                                size_t length, const ucp_am_recv_param_t *param)
{
    const handler_t *handler = arg;
    ucs_status_t status;

    arriving_id = handler->id;
    arriving_ep =
        param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP ? ep_index_of(param->reply_ep) : NONE;
    if (handler->id == AM_GET_REPLY && !(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) &&
        arriving_ep != NONE) {
        pthread_mutex_lock(&lock);
        ep_answered(table_at(&eps, arriving_ep), -1);
        pthread_mutex_unlock(&lock);
    }
    status      = handler->cb(handler->arg, header, header_length, data, length, param);
    arriving_ep = NONE;
    arriving_id = 0;
    return status;
}

ucs_status_t ucp_worker_set_am_recv_handler(ucp_worker_h worker,
                                            const ucp_am_handler_param_t *param)
{
    REAL(ucp_worker_set_am_recv_handler);
    ucp_am_handler_param_t wrapped = *param;
    handler_t *handler             = malloc(sizeof(*handler)); /* lives as long as the process */

    if (!handler) {
        abort();
    }
    *handler =
        (handler_t){.cb  = param->cb,
                    .arg = param->field_mask & UCP_AM_HANDLER_PARAM_FIELD_ARG ? param->arg : NULL,
                    .id  = param->id};
    if (param->cb) {
        wrapped.field_mask |= UCP_AM_HANDLER_PARAM_FIELD_ARG;
        wrapped.cb  = handler_run;
        wrapped.arg = handler;
    }
    return call(worker, &wrapped);
}

ucs_status_ptr_t ucp_am_recv_data_nbx(ucp_worker_h worker, void *data_desc, void *buffer,
                                      size_t count_, const ucp_request_param_t *param)
{
    REAL(ucp_am_recv_data_nbx);
    op_t *op = op_begin(arriving_ep, OP_RECEIVE, 0, param);
    ucp_request_param_t wrapped;

    op->answer = arriving_id;
    wrapped    = op_param(op, param);
    return op_posted(op, call(worker, data_desc, buffer, count_, &wrapped));
}

/* ---- objects ---- */

ucs_status_t ucp_init_version(unsigned api_major, unsigned api_minor, const ucp_params_t *params,
                              const ucp_config_t *config, ucp_context_h *context_p)
{
    REAL(ucp_init_version);
    ucs_status_t status = call(api_major, api_minor, params, config, context_p);

    if (status == UCS_OK) {
        pthread_mutex_lock(&lock);
        size_t index                                    = table_add(&contexts);
        *(context_record_t *)table_at(&contexts, index) = (context_record_t){*context_p};
        pthread_mutex_unlock(&lock);
    }
    return status;
}

void ucp_cleanup(ucp_context_h context)
{
    REAL(ucp_cleanup);
    table_close(&contexts, context);
    call(context);
}

ucs_status_t ucp_worker_create(ucp_context_h context, const ucp_worker_params_t *params,
                               ucp_worker_h *worker_p)
{
    REAL(ucp_worker_create);
    ucs_status_t status = call(context, params, worker_p);

    if (status == UCS_OK) {
        bool named = params->field_mask & UCP_WORKER_PARAM_FIELD_CLIENT_ID;

        pthread_mutex_lock(&lock);
        size_t index = table_add(&workers);
        *(worker_record_t *)table_at(&workers, index) =
            (worker_record_t){.handle    = *worker_p,
                              .context   = table_find(&contexts, context),
                              .client_id = named ? params->client_id : 0};
        pthread_mutex_unlock(&lock);
    }
    return status;
}

void ucp_worker_destroy(ucp_worker_h worker)
{
    REAL(ucp_worker_destroy);
    call(worker);
    table_close(&workers, worker);
}

ucs_status_t ucp_ep_create(ucp_worker_h worker, const ucp_ep_params_t *params, ucp_ep_h *ep_p)
{
    REAL(ucp_ep_create);
    ucs_status_t status = call(worker, params, ep_p);

    if (status == UCS_OK) {
        pthread_mutex_lock(&lock);
        size_t index = table_add(&eps);
        *(ep_record_t *)table_at(&eps, index) =
            (ep_record_t){.handle = *ep_p, .worker = table_find(&workers, worker)};
        pthread_mutex_unlock(&lock);
    }
    return status;
}

/* Answers that have not come by the time of the close never will. */
static void ep_give_up(size_t index)
{
    pthread_mutex_lock(&lock);
    if (index != NONE) {
        ep_record_t *ep = table_at(&eps, index);

        for (; ep->unanswered > 0; ep->unanswered--) {
            count_down(&ep->data);
        }
    }
    pthread_mutex_unlock(&lock);
}

ucs_status_ptr_t ucp_ep_close_nbx(ucp_ep_h ep, const ucp_request_param_t *param)
{
    REAL(ucp_ep_close_nbx);
    ep_give_up(ep_index_of(ep));
    table_close(&eps, ep);
    return call(ep, param);
}

ucs_status_t ucp_mem_map(ucp_context_h context, const ucp_mem_map_params_t *params,
                         ucp_mem_h *memh_p)
{
    REAL(ucp_mem_map);
    ucs_status_t status = call(context, params, memh_p);

    if (status == UCS_OK) {
        count(&mems, true);
    }
    return status;
}

ucs_status_t ucp_mem_unmap(ucp_context_h context, ucp_mem_h memh)
{
    REAL(ucp_mem_unmap);
    count(&mems, false);
    return call(context, memh);
}

ucs_status_t ucp_ep_rkey_unpack(ucp_ep_h ep, const void *rkey_buffer, ucp_rkey_h *rkey_p)
{
    REAL(ucp_ep_rkey_unpack);
    ucs_status_t status = call(ep, rkey_buffer, rkey_p);

    if (status == UCS_OK) {
        pthread_mutex_lock(&lock);
        *(key_record_t *)table_at(&keys, table_add(&keys)) = (key_record_t){*rkey_p, table_find(&eps, ep)};
        count_up(&rkeys);
        pthread_mutex_unlock(&lock);
    }
    return status;
}

/* what is copied then is over before the endpoint is used again: see who calls it */
ucs_status_t ucp_rkey_ptr(ucp_rkey_h rkey, uint64_t remote_addr, void **local_addr_p)
{
    static const ucp_request_param_t none = {.op_attr_mask = 0};
    REAL(ucp_rkey_ptr);
    ucs_status_t status = call(rkey, remote_addr, local_addr_p);
    size_t index;

    pthread_mutex_lock(&lock);
    index = table_find(&keys, rkey);
    index = index == NONE ? NONE : ((key_record_t *)table_at(&keys, index))->ep;
    pthread_mutex_unlock(&lock);
    op_end(op_begin(index, OP_COPY, 0, &none), status);
    return status;
}

void ucp_rkey_destroy(ucp_rkey_h rkey)
{
    REAL(ucp_rkey_destroy);
    table_close(&keys, rkey);
    count(&rkeys, false);
    call(rkey);
}

ucs_status_t ucp_listener_create(ucp_worker_h worker, const ucp_listener_params_t *params,
                                 ucp_listener_h *listener_p)
{
    REAL(ucp_listener_create);
    ucs_status_t status = call(worker, params, listener_p);

    if (status == UCS_OK) {
        count(&listeners, true);
    }
    return status;
}

void ucp_listener_destroy(ucp_listener_h listener)
{
    REAL(ucp_listener_destroy);
    count(&listeners, false);
    call(listener);
}

/* ---- report ---- */

static void report_counter(FILE *out, const char *name, const counter_t *counter)
{
    fprintf(out, "\"%s\":{\"current\":%" PRIu64 ",\"max\":%" PRIu64 ",\"total\":%" PRIu64 "}", name,
            counter->current, counter->max, counter->total);
}

static size_t report_open(const table_t *table)
{
    size_t open = 0;

    for (size_t i = 0; i < table->count; i++) {
        open += *(void **)table_at(table, i) != NULL;
    }
    return open;
}

static void report_workers(FILE *out)
{
    fprintf(out, "\"workers\":[");
    for (size_t i = 0; i < workers.count; i++) {
        const worker_record_t *worker = table_at(&workers, i);

        fprintf(out, "%s{\"id\":%zu,\"context\":%zd,\"open\":%s,", i ? "," : "", i,
                (ssize_t)worker->context, worker->handle ? "true" : "false");
        fprintf(out, "\"client_id\":\"0x%016" PRIx64 "\",\"lane\":%u}", worker->client_id,
                (unsigned)(worker->client_id & 0xff));
    }
    fprintf(out, "]");
}

static void report_eps(FILE *out)
{
    fprintf(out, "\"endpoints\":[");
    for (size_t i = 0; i < eps.count; i++) {
        const ep_record_t *ep         = table_at(&eps, i);
        const worker_record_t *worker = ep->worker == NONE ? NULL : table_at(&workers, ep->worker);

        fprintf(out, "%s{\"id\":%zu,\"worker\":%zd,\"lane\":%d,\"open\":%s,", i ? "," : "", i,
                (ssize_t)ep->worker, worker ? (int)(worker->client_id & 0xff) : -1,
                ep->handle ? "true" : "false");
        report_counter(out, "data", &ep->data);
        fprintf(out, ",");
        report_counter(out, "reply", &ep->reply);
        fprintf(out, ",");
        report_counter(out, "receive", &ep->receive);
        fprintf(out, ",");
        report_counter(out, "control", &ep->control);
        fprintf(out,
                ",\"puts\":%" PRIu64 ",\"gets\":%" PRIu64 ",\"am_puts\":%" PRIu64
                ",\"am_gets\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"failed\":%" PRIu64 "}",
                ep->puts, ep->gets, ep->am_puts, ep->am_gets, ep->bytes, ep->failed);
    }
    fprintf(out, "]");
}

static FILE *report_file(void)
{
    const char *pattern = getenv("KVLANE_TEST_INTERPOSE_OUT");
    const char *mark    = pattern ? strstr(pattern, "%p") : NULL;
    char path[4096];

    if (!pattern) {
        return NULL;
    }
    if (!mark) {
        return fopen(pattern, "w");
    }
    snprintf(path, sizeof(path), "%.*s%d%s", (int)(mark - pattern), pattern, (int)getpid(),
             mark + 2);
    return fopen(path, "w");
}

/* Library users that are not UCX users (a shell, an awk) inherit the preload: they write nothing. */
__attribute__((destructor)) static void report(void)
{
    FILE *out = contexts.count ? report_file() : NULL;

    if (!out) {
        return;
    }
    pthread_mutex_lock(&lock);
    fprintf(out, "{\"pid\":%d,\"program\":\"%s\",", (int)getpid(), program_invocation_short_name);
    fprintf(out, "\"contexts\":{\"open\":%zu,\"total\":%zu},", report_open(&contexts),
            contexts.count);
    fprintf(out, "\"workers_open\":%zu,\"endpoints_open\":%zu,", report_open(&workers),
            report_open(&eps));
    report_counter(out, "mems", &mems);
    fprintf(out, ",");
    report_counter(out, "rkeys", &rkeys);
    fprintf(out, ",");
    report_counter(out, "listeners", &listeners);
    fprintf(out, ",");
    report_counter(out, "requests", &requests);
    fprintf(out, ",");
    report_workers(out);
    fprintf(out, ",");
    report_eps(out);
    fprintf(out, "}\n");
    pthread_mutex_unlock(&lock);
    fclose(out);
}
