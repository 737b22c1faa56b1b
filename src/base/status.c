/* SPDX-License-Identifier: BSD-3-Clause */
#include <kvlane/status.h>

#include <stddef.h>

typedef struct {
    kvl_status_t status;
    const char *name, *text;
} status_row_t;

static const status_row_t status_rows[] = {
    {KVL_OK, "OK", "success"},
    {KVL_INPROGRESS, "INPROGRESS", "in progress"},
    {KVL_ERR_NOT_FOUND, "NOT_FOUND", "not found"},
    {KVL_ERR_LENGTH, "LENGTH", "length differs from the stored length"},
    {KVL_ERR_INVALID, "INVALID", "invalid argument"},
    {KVL_ERR_NO_SPACE, "NO_SPACE", "no space for this value"},
    {KVL_ERR_BUSY, "BUSY", "busy, try again"},
    {KVL_ERR_LEASE, "LEASE", "lease expired or revoked"},
    {KVL_ERR_AMBIGUOUS, "AMBIGUOUS", "commit got no answer, stored or not is unknown"},
    {KVL_ERR_RANGE, "RANGE", "outside of the exported range"},
    {KVL_ERR_CHECKSUM, "CHECKSUM", "checksum mismatch"},
    {KVL_ERR_RAIL, "RAIL", "local transport fault"},
    {KVL_ERR_NO_DEVICE, "NO_DEVICE", "no such device or transport"},
    {KVL_ERR_REGISTER, "REGISTER", "memory registration failed"},
    {KVL_ERR_PEER, "PEER", "peer went away"},
    {KVL_ERR_UNREACHABLE, "UNREACHABLE", "peer is unreachable"},
    {KVL_ERR_REFUSED, "REFUSED", "refused by the peer"},
    {KVL_ERR_PROTOCOL, "PROTOCOL", "protocol error by the peer"},
    {KVL_ERR_TIMEOUT, "TIMEOUT", "deadline passed"},
    {KVL_ERR_CANCELED, "CANCELED", "canceled"},
    {KVL_ERR_NO_MEMORY, "NO_MEMORY", "out of memory"},
    {KVL_ERR_CONFIG, "CONFIG", "bad setting"},
    {KVL_ERR_UNSUPPORTED, "UNSUPPORTED", "not supported by this build or this ucx"},
    {KVL_ERR_VERSION, "VERSION", "versions do not fit"},
    {KVL_ERR_LIMIT, "LIMIT", "over a limit"},
    {KVL_ERR_CLOSED, "CLOSED", "object is being destroyed"},
};

static const status_row_t *status_find(kvl_status_t status)
{
    static const status_row_t unknown = {KVL_OK, "UNKNOWN", "unknown status"};
    size_t i;

    for (i = 0; i < sizeof(status_rows) / sizeof(status_rows[0]); i++) {
        if (status_rows[i].status == status) {
            return &status_rows[i];
        }
    }
    return &unknown;
}

const char *kvl_status_string(kvl_status_t status)
{
    return status_find(status)->text;
}

const char *kvl_status_name(kvl_status_t status)
{
    return status_find(status)->name;
}

/* By range, so that a code of a newer peer still lands in its group. */
kvl_status_group_t kvl_status_group(kvl_status_t status)
{
    int code = (int)status;

    if (code >= 0) {
        return KVL_GROUP_NONE;
    }
    if (code <= -101 && code >= -199) {
        return KVL_GROUP_ITEM;
    }
    if (code <= -201 && code >= -299) {
        return KVL_GROUP_RAIL;
    }
    if (code <= -301 && code >= -399) {
        return KVL_GROUP_PEER;
    }
    return KVL_GROUP_BATCH;
}
