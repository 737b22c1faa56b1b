/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx/private.h"

#include "base/error.h"

/* The one place where a ucs_status_t becomes a kvl_status_t.
 *
 * Blame: what UCX reports about the other side costs the peer, what it reports about this side
 * costs the rail. UCX itself does not always know: a broken link and a dead process are both
 * "Endpoint timeout". Those go to the peer, since another rail to the same peer is tried anyway. */

static const struct {
    ucs_status_t ucs;
    kvl_status_t kvl;
} status_rows[] = {
    {UCS_OK, KVL_OK},
    {UCS_INPROGRESS, KVL_INPROGRESS},
    {UCS_ERR_CONNECTION_RESET, KVL_ERR_PEER},
    {UCS_ERR_ENDPOINT_TIMEOUT, KVL_ERR_PEER},
    {UCS_ERR_NOT_CONNECTED, KVL_ERR_PEER},
    {UCS_ERR_UNREACHABLE, KVL_ERR_UNREACHABLE},
    {UCS_ERR_REJECTED, KVL_ERR_REFUSED},
    {UCS_ERR_CANCELED, KVL_ERR_CANCELED},
    {UCS_ERR_TIMED_OUT, KVL_ERR_TIMEOUT},
    {UCS_ERR_NO_MEMORY, KVL_ERR_NO_MEMORY},
    {UCS_ERR_NO_DEVICE, KVL_ERR_NO_DEVICE},
    {UCS_ERR_NO_RESOURCE, KVL_ERR_BUSY},
    {UCS_ERR_BUSY, KVL_ERR_BUSY},
    {UCS_ERR_MESSAGE_TRUNCATED, KVL_ERR_PROTOCOL},
    {UCS_ERR_INVALID_ADDR, KVL_ERR_PROTOCOL},
    {UCS_ERR_UNSUPPORTED, KVL_ERR_UNSUPPORTED},
    {UCS_ERR_NOT_IMPLEMENTED, KVL_ERR_UNSUPPORTED},
    {UCS_ERR_EXCEEDS_LIMIT, KVL_ERR_LIMIT},
};

kvl_status_t kvl_status_of(ucs_status_t status)
{
    for (size_t i = 0; i < sizeof(status_rows) / sizeof(status_rows[0]); i++) {
        if (status_rows[i].ucs == status) {
            return status_rows[i].kvl;
        }
    }
    return KVL_ERR_RAIL;
}

kvl_status_t kvl_ucx_error(const char *call, ucs_status_t status)
{
    return kvl_error(kvl_status_of(status), "%s: %s", call, ucs_status_string(status));
}
