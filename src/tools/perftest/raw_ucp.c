/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perftest/raw_ucp.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define STALL_S     30.0 /* without any progress */
#define YIELD_AFTER 512  /* idle turns: tens of microseconds */
#define LOOK_EVERY  1024 /* idle turns between looks at the clock and the stop flag */
#define CLOSE_S     5.0

static int raw_fail(const char *what, ucs_status_t status)
{
    return perf_fail("%s: %s", what, ucs_status_string(status));
}

/* ---- waiting ---- */

void perf_raw_idle(unsigned turns)
{
    static int cpus; /* main thread only */
    cpu_set_t set;

    if (cpus == 0) {
        cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 2;
    }
    if (cpus == 1 || turns >= YIELD_AFTER) {
        sched_yield();
    }
}

/* One turn of progress; -1 (said) when nothing has moved for too long, or a signal came. */
typedef struct {
    unsigned idle;
    double since;
} patience_t;

static int raw_turn(perf_raw_t *raw, patience_t *patience)
{
    if (ucp_worker_progress(raw->worker) != 0) {
        patience->idle = 0;
        return 0;
    }
    perf_raw_idle(++patience->idle);
    if (patience->idle % LOOK_EVERY != 0) {
        return 0;
    }
    if (patience->idle == LOOK_EVERY) {
        patience->since = perf_now();
    }
    if (raw->failure != UCS_OK) {
        return raw_fail("the endpoint failed", raw->failure);
    }
    if (perf_stopped()) {
        return perf_fail("stopped by a signal");
    }
    return perf_now() - patience->since < STALL_S
               ? 0
               : perf_fail("nothing has moved for %.0f s", STALL_S);
}

int perf_raw_wait(perf_raw_t *raw, unsigned limit)
{
    patience_t patience = {0};

    while (raw->outstanding > limit) {
        if (raw_turn(raw, &patience)) {
            return -1;
        }
    }
    return raw->failure == UCS_OK ? 0 : raw_fail("the endpoint failed", raw->failure);
}

int perf_raw_wait_count(perf_raw_t *raw, const uint64_t *counter, uint64_t value)
{
    patience_t patience = {0};

    while (*counter < value) {
        if (raw_turn(raw, &patience)) {
            return -1;
        }
    }
    return 0;
}

/* ---- requests ---- */

static void raw_done(void *request, ucs_status_t status, void *arg)
{
    perf_raw_t *raw = arg;

    raw->outstanding--;
    if (status != UCS_OK && raw->failure == UCS_OK) {
        raw->failure = status;
    }
    ucp_request_free(request);
}

void perf_raw_param(perf_raw_t *raw, ucp_request_param_t *param)
{
    *param = (ucp_request_param_t){
        /* a put without a datatype sends nothing on some versions */
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_DATATYPE,
        .cb.send   = raw_done,
        .user_data = raw,
        .datatype  = ucp_dt_make_contig(1),
    };
}

int perf_raw_posted(perf_raw_t *raw, const char *what, ucs_status_ptr_t request)
{
    if (UCS_PTR_IS_ERR(request)) {
        return raw_fail(what, UCS_PTR_STATUS(request));
    }
    raw->outstanding += request != NULL;
    return 0;
}

int perf_raw_flush(perf_raw_t *raw)
{
    ucp_request_param_t param;

    perf_raw_param(raw, &param);
    return perf_raw_posted(raw, "flush", ucp_ep_flush_nbx(raw->ep, &param)) || perf_raw_wait(raw, 0)
               ? -1
               : 0;
}

/* ---- life ---- */

static int open_worker(perf_raw_t *raw)
{
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES,
        .features   = UCP_FEATURE_RMA | UCP_FEATURE_AM,
    };
    ucp_worker_params_t worker = {.field_mask  = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_config_t *config;
    ucs_status_t status = ucp_config_read(NULL, NULL, &config);

    if (status != UCS_OK) {
        return raw_fail("ucp_config_read", status);
    }
    status = ucp_init(&params, config, &raw->context);
    ucp_config_release(config);
    if (status != UCS_OK) {
        raw->context = NULL;
        return raw_fail("ucp_init", status);
    }
    status = ucp_worker_create(raw->context, &worker, &raw->worker);
    if (status != UCS_OK) {
        raw->worker = NULL;
        return raw_fail("ucp_worker_create", status);
    }
    return 0;
}

static int open_pool(perf_raw_t *raw, size_t slots, size_t bytes, bool shared)
{
    ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
        .length     = perf_pool_bytes(slots, bytes, 1),
        .flags      = UCP_MEM_MAP_ALLOCATE,
    };
    ucp_mem_attr_t attributes = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
    ucs_status_t status;

    if (!shared) {
        if (perf_pool_create(&raw->pool, slots, bytes, 1, false)) {
            return -1;
        }
        params.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_ADDRESS;
        params.address    = raw->pool.base;
    }
    status = ucp_mem_map(raw->context, &params, &raw->memory);
    if (status != UCS_OK) {
        raw->memory = NULL;
        return raw_fail("ucp_mem_map", status);
    }
    if (shared) {
        status = ucp_mem_query(raw->memory, &attributes);
        if (status != UCS_OK) {
            return raw_fail("ucp_mem_query", status);
        }
        perf_pool_place(&raw->pool, attributes.address, slots, bytes, 1);
        memset(raw->pool.base, 0x5a, raw->pool.bytes);
    }
    return 0;
}

int perf_raw_open(perf_raw_t *raw, size_t slots, size_t bytes, bool shared)
{
    *raw = (perf_raw_t){0};
    if (open_worker(raw) || open_pool(raw, slots, bytes, shared)) {
        perf_raw_close(raw);
        return -1;
    }
    return 0;
}

static void close_ep(perf_raw_t *raw)
{
    double until = perf_now() + CLOSE_S;
    ucp_request_param_t param;
    ucs_status_ptr_t request;

    perf_raw_param(raw, &param);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    /* what is still under way ends here: this side gave up, or all is complete */
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    request     = ucp_ep_close_nbx(raw->ep, &param);
    raw->outstanding += UCS_PTR_IS_PTR(request);
    while (raw->outstanding > 0 && perf_now() < until) {
        ucp_worker_progress(raw->worker);
    }
    raw->ep = NULL;
}

void perf_raw_close(perf_raw_t *raw)
{
    if (raw->rkey != NULL) {
        ucp_rkey_destroy(raw->rkey);
    }
    if (raw->ep != NULL) {
        close_ep(raw);
    }
    if (raw->memory != NULL) {
        ucp_mem_unmap(raw->context, raw->memory);
    }
    perf_pool_destroy(&raw->pool);
    if (raw->worker != NULL) {
        ucp_worker_destroy(raw->worker);
    }
    if (raw->context != NULL) {
        ucp_cleanup(raw->context);
    }
    *raw = (perf_raw_t){0};
}

/* ---- addresses ---- */

static int to_hex(const void *bytes, size_t length, char *hex, size_t size)
{
    const unsigned char *at = bytes;

    if (length * 2 >= size) {
        return perf_fail("%zu bytes of address: too long", length);
    }
    for (size_t i = 0; i < length; i++) {
        snprintf(hex + 2 * i, 3, "%02x", at[i]);
    }
    hex[2 * length] = '\0';
    return 0;
}

static void *from_hex(const char *hex)
{
    size_t length        = strlen(hex) / 2;
    unsigned char *bytes = malloc(length + 1);

    for (size_t i = 0; bytes != NULL && i < length; i++) {
        unsigned byte;

        if (sscanf(hex + 2 * i, "%2x", &byte) != 1) {
            free(bytes);
            return NULL;
        }
        bytes[i] = (unsigned char)byte;
    }
    return bytes;
}

int perf_raw_address(perf_raw_t *raw, char *hex, size_t size)
{
    ucp_address_t *address;
    size_t length;
    ucs_status_t status = ucp_worker_get_address(raw->worker, &address, &length);
    int result;

    if (status != UCS_OK) {
        return raw_fail("ucp_worker_get_address", status);
    }
    result = to_hex(address, length, hex, size);
    ucp_worker_release_address(raw->worker, address);
    return result;
}

int perf_raw_rkey(perf_raw_t *raw, char *hex, size_t size)
{
    void *packed;
    size_t length;
    ucs_status_t status = ucp_rkey_pack(raw->context, raw->memory, &packed, &length);
    int result;

    if (status != UCS_OK) {
        return raw_fail("ucp_rkey_pack", status);
    }
    result = to_hex(packed, length, hex, size);
    ucp_rkey_buffer_release(packed);
    return result;
}

static void raw_ep_failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    perf_raw_t *raw = arg;

    (void)ep;
    raw->failure = status;
}

int perf_raw_connect(perf_raw_t *raw, const char *address_hex)
{
    void *address          = from_hex(address_hex);
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address     = address,
        .err_mode    = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = raw_ep_failed, .arg = raw},
    };
    ucs_status_t status;

    if (address == NULL) {
        return perf_fail("the other side's address is damaged");
    }
    status = ucp_ep_create(raw->worker, &params, &raw->ep);
    free(address);
    if (status != UCS_OK) {
        raw->ep = NULL;
        return raw_fail("ucp_ep_create", status);
    }
    return 0;
}

int perf_raw_import(perf_raw_t *raw, const char *rkey_hex)
{
    void *packed = from_hex(rkey_hex);
    ucs_status_t status;

    if (packed == NULL) {
        return perf_fail("the other side's remote key is damaged");
    }
    status = ucp_ep_rkey_unpack(raw->ep, packed, &raw->rkey);
    free(packed);
    if (status != UCS_OK) {
        raw->rkey = NULL;
        return raw_fail("ucp_ep_rkey_unpack", status);
    }
    return 0;
}

void perf_raw_transport(perf_raw_t *raw, char *transport, size_t size)
{
    static const char *const names[] = {"posix",   "sysv",     "rc_mlx5", "rc_verbs",
                                        "dc_mlx5", "ud_verbs", "tcp",     "self"};
    char *text                       = NULL, word[24];
    size_t length;
    FILE *stream = open_memstream(&text, &length);

    snprintf(transport, size, "?");
    if (stream == NULL) {
        return;
    }
    ucp_ep_print_info(raw->ep, stream);
    if (fclose(stream) == 0 && text != NULL) {
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
            snprintf(word, sizeof(word), ":%s/", names[i]);
            if (strstr(text, word) != NULL) {
                snprintf(transport, size, "%s", names[i]);
                break;
            }
        }
    }
    free(text);
}
