/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/alloc.h"
#include "base/error.h"
#include "transport/transfer.h"

#include <string.h>

/* What the caller hands in, checked and copied. */

void kvl_transfer_free(transfer_t *transfer)
{
    kvl_free(transfer->pieces);
    kvl_free(transfer->regions);
    kvl_free(transfer->runs);
    kvl_free(transfer->notification);
    kvl_free(transfer);
}

static kvl_status_t part_check(kvl_peer_t *peer, const kvl_part_t *part, size_t i, kvl_region_t **region_p)
{
    const kvl_segment_t *local = &part->local;
    kvl_region_t *region = local->region;
    size_t at;

    if (!local->address || !local->length || !part->remote || part->remote->peer != peer) {
        return kvl_error(KVL_ERR_INVALID, "transfer: part %zu: no local bytes, or no remote region of "
                         "this peer", i);
    }
    if (!region) {
        region = kvl_region_find(peer->engine, local->address, local->length);
    }
    at = region ? (size_t)((uintptr_t)local->address - (uintptr_t)region->address) : 0;
    if (!region || region->engine != peer->engine ||
        (uintptr_t)local->address < (uintptr_t)region->address || at > region->length ||
        local->length > region->length - at) {
        return kvl_error(KVL_ERR_INVALID, "transfer: part %zu: %zu bytes at %p are not inside of a region "
                         "of this engine", i, local->length, local->address);
    }
    if (part->remote_offset > part->remote->length ||
        local->length > part->remote->length - part->remote_offset) {
        return kvl_error(KVL_ERR_RANGE, "transfer: part %zu: %zu bytes at offset %llu end past the "
                         "remote region's %llu bytes", i, local->length,
                         (unsigned long long)part->remote_offset,
                         (unsigned long long)part->remote->length);
    }
    *region_p = region;
    return KVL_OK;
}

static kvl_status_t transfer_check(kvl_peer_t *peer, const kvl_transfer_t *in)
{
    if (!peer || !in || (in->part_count && !in->parts) || (in->notification_length && !in->notification)) {
        return kvl_error(KVL_ERR_INVALID, "transfer: peer, transfer, parts or notification is NULL");
    }
    if (in->op != KVL_TRANSFER_PUT && in->op != KVL_TRANSFER_GET) {
        return kvl_error(KVL_ERR_INVALID, "transfer: op is %d; accepted: put, get", (int)in->op);
    }
    if (in->part_count > KVL_PARTS_MAX || in->notification_length > KVL_NOTIFICATION_MAX) {
        return kvl_error(KVL_ERR_LIMIT, "transfer: %zu parts and %zu bytes of notification; at most %u "
                         "and %u", in->part_count, in->notification_length, KVL_PARTS_MAX,
                         KVL_NOTIFICATION_MAX);
    }
    if (!in->part_count && !in->notification_length && !in->has_notification) {
        return kvl_error(KVL_ERR_INVALID, "transfer: neither parts nor a notification");
    }
    return KVL_OK;
}

static kvl_status_t transfer_alloc(const kvl_transfer_t *in, transfer_t **transfer_p)
{
    size_t count         = in->part_count ? in->part_count : 1;
    transfer_t *transfer = kvl_calloc(1, sizeof(*transfer));

    if (!transfer) {
        return kvl_error(KVL_ERR_NO_MEMORY, "transfer: out of memory");
    }
    transfer->pieces       = kvl_calloc(count, sizeof(*transfer->pieces));
    transfer->regions      = kvl_calloc(count, sizeof(*transfer->regions));
    transfer->notification = kvl_malloc(in->notification_length ? in->notification_length : 1);
    if (!transfer->pieces || !transfer->regions || !transfer->notification) {
        kvl_transfer_free(transfer);
        return kvl_error(KVL_ERR_NO_MEMORY, "transfer: out of memory");
    }
    if (in->notification_length) {
        memcpy(transfer->notification, in->notification, in->notification_length);
    }
    transfer->notification_length = in->notification_length;
    transfer->has_notification    = in->has_notification || in->notification_length;
    transfer->op                  = in->op;
    *transfer_p                   = transfer;
    return KVL_OK;
}

static size_t runs_count(const kvl_transfer_t *in)
{
    size_t i, runs = in->part_count ? 1 : 0;

    for (i = 1; i < in->part_count; i++) {
        runs += in->parts[i].remote != in->parts[i - 1].remote;
    }
    return runs;
}

/* A transfer may use a device and host memory, not two devices: one engine copies it. */
static kvl_status_t part_piece(transfer_t *transfer, const kvl_part_t *part, size_t i)
{
    kvl_device_t *device = transfer->regions[i]->device;

    if (device && transfer->device && device != transfer->device) {
        return kvl_error(KVL_ERR_INVALID, "transfer: part %zu is on %s, one before it on %s; split the transfer", i,
                         kvl_device_name(device), kvl_device_name(transfer->device));
    }
    transfer->device    = device ? device : transfer->device;
    transfer->pieces[i] = (kvl_piece_t){.address       = part->local.address,
                                        .length        = part->local.length,
                                        .mems          = transfer->regions[i]->mems,
                                        .remote_offset = part->remote_offset,
                                        .device        = device};
    transfer->bytes += part->local.length;
    return KVL_OK;
}

/* whose memory the move has to do with; NULL: host memory alone */
static kvl_device_t *move_device(const kvl_move_t *move)
{
    kvl_device_t *device = NULL;
    size_t i;

    for (i = 0; !device && i < move->piece_count; i++) {
        device = move->pieces[i].device;
    }
    return device;
}

static kvl_status_t transfer_runs(transfer_t *transfer, const kvl_transfer_t *in)
{
    kvl_sg_policy_t policy = kvl_engine_settings(transfer->peer->engine)->sg;
    size_t runs            = runs_count(in), first = 0, i;

    transfer->runs = kvl_calloc(runs ? runs : 1, sizeof(*transfer->runs));
    if (!transfer->runs) {
        return kvl_error(KVL_ERR_NO_MEMORY, "transfer: out of memory");
    }
    for (i = 0; i < in->part_count; i++) {
        const kvl_part_t *part = &in->parts[i];
        kvl_status_t status    = part_check(transfer->peer, part, i, &transfer->regions[i]);
        run_t *run;

        if (status == KVL_OK) {
            status = part_piece(transfer, part, i);
        }
        if (status != KVL_OK) {
            return status;
        }
        if (i + 1 < in->part_count && in->parts[i + 1].remote == part->remote) {
            continue;
        }
        run         = &transfer->runs[transfer->run_count++];
        run->remote = part->remote;
        run->transfer = transfer;
        run->move = (kvl_move_t){.dir         = in->op == KVL_TRANSFER_PUT ? KVL_MOVE_PUT : KVL_MOVE_GET,
                                 .pieces      = &transfer->pieces[first],
                                 .piece_count = kvl_pieces_merge(&transfer->pieces[first], i + 1 - first),
                                 .scope       = 1,
                                 .token       = part->remote->id,
                                 .done        = kvl_run_done};
        run->move.device = move_device(&run->move);
        run->move.lane   = kvl_lane_choose(policy, run->move.piece_count, run->move.device != NULL);
        first          = i + 1;
    }
    return KVL_OK;
}

kvl_status_t kvl_transfer_make(kvl_peer_t *peer, const kvl_transfer_t *in, transfer_t **transfer_p)
{
    kvl_status_t status = transfer_check(peer, in);

    if (status == KVL_OK) {
        status = transfer_alloc(in, transfer_p);
    }
    if (status != KVL_OK) {
        return status;
    }
    (*transfer_p)->peer = peer;
    status              = transfer_runs(*transfer_p, in);
    if (status != KVL_OK) {
        kvl_transfer_free(*transfer_p);
        return status;
    }
    (*transfer_p)->part_count = in->part_count;
    return KVL_OK;
}
