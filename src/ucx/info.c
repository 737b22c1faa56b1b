/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx/options.h"
#include "ucx/private.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* What an endpoint really uses: the choice between MOVE modes rests on it.
 *
 * From 1.14 UCX answers a query with the list of its lanes. 1.13.1 only prints, for people:
 *     #   lane[1]:  2:posix/memory.0 md[2]  -> md[2]/posix/sysdev[255] am am_bw#0 keepalive
 * so the text is read. Neither says whether a put or get is emulated; that is a table, from
 * measurements: a row says from and until which version the transport writes and reads remote
 * memory by itself, given memory that the peer exposed for it (shared memory: allocated by UCX).
 * What is not in the table moves by messages.
 *
 *   posix, sysv   copies of our own (rma.c)
 *   rc, dc        put: every version; from 1.23 large ones may go to the tcp lane that is there for
 *                 the wire-up, unless TCP_PUT_ENABLE=n. get: the old protocols read directly (seen
 *                 with 1.13 and 1.18); the new ones emulate it up to 1.18, nobody looked since
 *   tcp           put and get are emulated or need the peer's progress
 *
 * Old and new: UCX's PROTO_ENABLE. */

#define API_ALL   UCP_VERSION(99, 0)
#define LANES_MAX 16

typedef struct {
    const char *transport;
    unsigned put_until;     /* first version that no longer writes by itself */
    unsigned get_until;     /* ... reads, with the old protocols; no version does with the new */
    unsigned tcp_put_until; /* ... when a tcp lane beside it may take puts */
    bool shared_memory;
} onesided_t;

/* in order of preference: the first that an endpoint has carries its bulk data */
static const onesided_t onesided_rows[] = {
    {"posix", API_ALL, API_ALL, API_ALL, true},
    {"sysv", API_ALL, API_ALL, API_ALL, true},
    {"rc_mlx5", API_ALL, UCP_VERSION(1, 19), UCP_VERSION(1, 23), false},
    {"rc_verbs", API_ALL, UCP_VERSION(1, 19), UCP_VERSION(1, 23), false},
    {"dc_mlx5", API_ALL, UCP_VERSION(1, 19), UCP_VERSION(1, 23), false},
    {"xpmem", 0, 0, API_ALL, true},
    {"tcp", 0, 0, API_ALL, false},
};

typedef struct {
    char transport[32], device[64];
} lane_t;

typedef struct {
    size_t count;
    lane_t lanes[LANES_MAX];
} lanes_t;

static void lanes_add(lanes_t *lanes, const char *transport, const char *device)
{
    lane_t *lane = &lanes->lanes[lanes->count];

    if (lanes->count == LANES_MAX || device[0] == '\0') { /* no device: a connection manager */
        return;
    }
    snprintf(lane->transport, sizeof(lane->transport), "%s", transport);
    snprintf(lane->device, sizeof(lane->device), "%s", device);
    lanes->count++;
}

/* "lane[1]:  2:posix/memory.0 md[2] ...": transport, device, number of the device's path */
static void lanes_read_line(lanes_t *lanes, const char *line)
{
    char transport[32], device[64];
    const char *lane = strstr(line, "lane[");
    char *path;

    if (!lane || sscanf(lane, "lane[%*d]: %*d:%31[^/ ]/%63[^ ]", transport, device) != 2) {
        return;
    }
    path = strrchr(device, '.');
    if (path) {
        *path = '\0';
    }
    lanes_add(lanes, transport, device);
}

static kvl_status_t lanes_parse(const kvl_ep_t *ep, lanes_t *lanes)
{
    char *text = NULL, *rest;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    if (!stream) {
        return kvl_error(KVL_ERR_NO_MEMORY, "%s: out of memory", ep->peer);
    }
    ucp_ep_print_info(ep->ucp, stream);
    if (fclose(stream) != 0 || !text) {
        free(text);
        return kvl_error(KVL_ERR_NO_MEMORY, "%s: out of memory", ep->peer);
    }
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        lanes_read_line(lanes, line);
    }
    free(text);
    return KVL_OK;
}

#if UCP_API_VERSION >= UCP_VERSION(1, 14)
static kvl_status_t lanes_query(const kvl_ep_t *ep, lanes_t *lanes)
{
    ucp_transport_entry_t entries[LANES_MAX];
    ucp_ep_attr_t attr = {
        .field_mask = UCP_EP_ATTR_FIELD_TRANSPORTS,
        .transports = {.entries     = entries,
                       .num_entries = LANES_MAX,
                       .entry_size  = sizeof(entries[0])},
    };
    ucs_status_t status = kvl_ucp_fails() ? UCS_ERR_IO_ERROR : ucp_ep_query(ep->ucp, &attr);

    if (status != UCS_OK) {
        return kvl_ucx_error("ucp_ep_query", status);
    }
    for (unsigned i = 0; i < attr.transports.num_entries; i++) {
        lanes_add(lanes, entries[i].transport_name ? entries[i].transport_name : "",
                  entries[i].device_name ? entries[i].device_name : "");
    }
    return KVL_OK;
}

static kvl_status_t lanes_get(const kvl_ep_t *ep, lanes_t *lanes)
{
    return kvl_ucx_api() >= UCP_VERSION(1, 14) ? lanes_query(ep, lanes) : lanes_parse(ep, lanes);
}
#else
static kvl_status_t lanes_get(const kvl_ep_t *ep, lanes_t *lanes)
{
    return lanes_parse(ep, lanes);
}
#endif

/* NULL: none */
static const lane_t *lanes_find(const lanes_t *lanes, const char *transport)
{
    for (size_t i = 0; i < lanes->count; i++) {
        if (strcmp(lanes->lanes[i].transport, transport) == 0) {
            return &lanes->lanes[i];
        }
    }
    return NULL;
}

static bool lanes_have(const lanes_t *lanes, const char *transport)
{
    return lanes_find(lanes, transport) != NULL;
}

static void lanes_list(const lanes_t *lanes, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < lanes->count && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%s/%s", i ? " " : "",
                                 lanes->lanes[i].transport, lanes->lanes[i].device);
    }
}

static const onesided_t *lanes_bulk(const lanes_t *lanes)
{
    for (size_t i = 0; i < sizeof(onesided_rows) / sizeof(onesided_rows[0]); i++) {
        if (lanes_have(lanes, onesided_rows[i].transport)) {
            return &onesided_rows[i];
        }
    }
    return NULL;
}

/* does UCX's own get read by itself? */
static bool get_is_native(const kvl_worker_t *worker, const onesided_t *row)
{
    return !worker->proto_v2 && kvl_ucx_api() < row->get_until;
}

static size_t header_max(const kvl_worker_t *worker)
{
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER};

    return ucp_worker_query(worker->ucp, &attr) == UCS_OK ? attr.max_am_header : 0;
}

static void info_judge(const kvl_worker_t *worker, const lanes_t *lanes, kvl_ep_info_t *info)
{
    const onesided_t *row = lanes_bulk(lanes);
    const lane_t *bulk    = row            ? lanes_find(lanes, row->transport)
                            : lanes->count ? &lanes->lanes[0]
                                           : NULL;
    unsigned api          = kvl_ucx_api();
    bool alone            = row && (api < row->tcp_put_until || !lanes_have(lanes, "tcp") ||
                         kvl_options_are(worker->context->options, "TCP_PUT_ENABLE", "n"));

    snprintf(info->transport, sizeof(info->transport), "%s", bulk ? bulk->transport : "?");
    snprintf(info->device, sizeof(info->device), "%s", bulk ? bulk->device : "");
    info->put_onesided  = row && alone && api < row->put_until;
    info->shared_memory = row && row->shared_memory;
    info->get_onesided  = info->shared_memory || (row && get_is_native(worker, row));
    info->device_memory = worker->context->cuda && info->put_onesided && !info->shared_memory;
    /* measured, 61 pieces of 4296 bytes: shared memory 20 GB/s, packed 15; tcp with 1.13 6.3 and
     * 5.9, with 1.22 2.9 and 5.7 */
    info->iov_is_fast = info->shared_memory || !worker->proto_v2;
    info->header_max  = header_max(worker);
}

kvl_status_t kvl_ep_info(kvl_ep_t *ep, kvl_ep_info_t *info_p)
{
    kvl_ep_info_t info = {0};
    lanes_t lanes      = {0};
    kvl_status_t status;

    if (ep->state != EP_OPEN) {
        return kvl_error(KVL_ERR_CLOSED, "%s: endpoint is closed", ep->peer);
    }
    status = lanes_get(ep, &lanes);
    if (status != KVL_OK) {
        return status;
    }
    info_judge(ep->worker, &lanes, &info);
    lanes_list(&lanes, info.detail, sizeof(info.detail));
    ep->shared = info.shared_memory; /* rma.c and rkey.c say why */
    *info_p    = info;
    return KVL_OK;
}
