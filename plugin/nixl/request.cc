/* SPDX-License-Identifier: BSD-3-Clause */
#include "nixl/engine.h"
#include "nixl/work.h"

#include <algorithm>
#include <cinttypes>

/* A request: prepared once, posted many times, one batch at a time. What NIXL hands in at the preparation
 * is turned into parts then, neighbours merged, so that a post costs no allocation here. It holds the
 * memory it names on both sides: what NIXL takes away meanwhile is marked, and a post refused. */

namespace kvlane_nixl {

struct Transfer final : Work {
    explicit Transfer(const std::string &name) : Work(name) {}

    std::shared_ptr<Peer> peer;
    kvl_transfer_op_t op = KVL_TRANSFER_PUT;
    std::vector<kvl_part_t> parts;
    std::vector<std::shared_ptr<Region>> regions;
    std::vector<std::shared_ptr<Import>> imports;
    std::string frame; /* of the notification */

    Status add(const MetaDescriptor &local, const MetaDescriptor &remote);
    void push(const kvl_part_t &part);
    bool is_whole() const;
};

void Transfer::push(const kvl_part_t &part)
{
    if (!parts.empty()) {
        kvl_part_t &last = parts.back();

        if (last.local.region == part.local.region && last.remote == part.remote &&
            static_cast<char *>(last.local.address) + last.local.length == part.local.address &&
            last.remote_offset + last.local.length == part.remote_offset) {
            last.local.length += part.local.length;
            return;
        }
    }
    parts.push_back(part);
}

Status Transfer::add(const MetaDescriptor &local, const MetaDescriptor &remote)
{
    const auto &region  = static_cast<LocalMemory *>(local.metadata)->region;
    const auto &import  = static_cast<RemoteMemory *>(remote.metadata)->import;
    kvl_part_t part     = {};
    Status status       = SUCCESS;

    if (local.length != remote.length || !import->has(remote.address, remote.length)) {
        char text[160];

        snprintf(text, sizeof(text), "%zu bytes here, %zu there at 0x%" PRIxPTR ": not equal, or not inside "
                 "of what it registered", local.length, remote.length, remote.address);
        complain(peer->name(), text);
        return INVALID_PARAM;
    }
    if (imports.empty() || imports.back() != import) {
        status = import->peer() == peer ? import->load() : INVALID_PARAM;
        hold(imports, import);
    }
    hold(regions, region);
    if (status == SUCCESS && local.length) {
        part.local.address = reinterpret_cast<void *>(local.address);
        part.local.length  = local.length;
        part.local.region  = region->handle;
        part.remote        = import->remote();
        part.remote_offset = import->offset(remote.address);
        push(part);
    }
    return status;
}

bool Transfer::is_whole() const
{
    return std::none_of(regions.begin(), regions.end(), [](const auto &it) { return it->released; }) &&
           std::none_of(imports.begin(), imports.end(), [](const auto &it) { return it->unloaded; });
}

Status Transport::prepXfer(const Operation &operation, const List<MetaDescriptor> &local,
                           const List<MetaDescriptor> &remote, const std::string &name, Request *&request,
                           const PostOptions *) const
{
    auto transfer = std::make_unique<Transfer>(name);
    size_t count  = local.items().size();
    Status status;

    transfer->peer = find(name);
    transfer->op   = operation == WRITE ? KVL_TRANSFER_PUT : KVL_TRANSFER_GET;
    if (!transfer->peer) {
        return NOT_FOUND;
    }
    if (remote.items().size() != count) {
        return INVALID_PARAM;
    }
    status = transfer->peer->reach();
    transfer->parts.reserve(count);
    for (size_t i = 0; i < count && status == SUCCESS; i++) {
        status = transfer->add(local.items()[i], remote.items()[i]);
    }
    if (status == SUCCESS && transfer->parts.size() > KVL_PARTS_MAX) {
        complain(name, "a request of " + std::to_string(transfer->parts.size()) + " separate pieces; at most " +
                           std::to_string(KVL_PARTS_MAX) + ": make several");
        status = INVALID_PARAM;
    }
    if (status == SUCCESS) {
        request = transfer.release();
    }
    return status;
}

Status Transport::postXfer(const Operation &, const List<MetaDescriptor> &, const List<MetaDescriptor> &,
                           const std::string &name, Request *&request, const PostOptions *options) const
{
    Transfer *transfer        = static_cast<Transfer *>(request);
    kvl_batch_params_t params = {};
    kvl_transfer_t what       = {};
    Status status             = transfer->begin(options, &params);

    if (status != SUCCESS) {
        return status;
    }
    if (transfer->peer->closed() || !transfer->is_whole()) {
        complain(name, "a request whose memory or agent was taken away since it was made: make a new one");
        return NOT_FOUND;
    }
    what.op         = transfer->op;
    what.parts      = transfer->parts.data();
    what.part_count = transfer->parts.size();
    if (options && options->has_notification) {
        note_frame(agent(), options->notification, transfer->frame);
        what.notification        = transfer->frame.data();
        what.notification_length = transfer->frame.size();
        what.has_notification    = 1;
    }
    if (!what.part_count && !what.has_notification) {
        return SUCCESS;
    }
    return transfer->submitted(kvl_transfer_submit(transfer->peer->handle(), &what, &params, transfer->batch()));
}

Status Transport::checkXfer(Request *request) const
{
    return static_cast<Transfer *>(request)->look(engine_);
}

Status Transport::releaseReqH(Request *request) const
{
    Transfer *transfer = static_cast<Transfer *>(request);
    Status status      = transfer->end();

    if (status == SUCCESS) {
        delete transfer;
    }
    return status;
}

/* ---- notifications ---- */

Status Transport::getNotifs(Notifications &out)
{
    if (!out.empty()) {
        return INVALID_PARAM;
    }
    kvl_engine_progress(engine_);
    notes_.fetch(out);
    return SUCCESS;
}

static void note_sent(kvl_batch_t *batch, void *)
{
    if (kvl_batch_test(batch) != KVL_OK) {
        fprintf(stderr, "kvlane: nixl: a notification: %s\n", kvl_batch_cause(batch));
    }
    kvl_batch_release(batch);
}

/* it is on its way when this returns */
Status Transport::genNotif(const std::string &name, const std::string &message) const
{
    std::shared_ptr<Peer> peer = find(name);
    kvl_batch_params_t params  = {};
    kvl_transfer_t what        = {};
    kvl_batch_t *batch;
    std::string frame;
    kvl_status_t status;
    Status connected = peer ? peer->reach() : NOT_FOUND;

    if (connected != SUCCESS) {
        return connected;
    }
    note_frame(agent(), message, frame);
    params.callback          = note_sent;
    what.op                  = KVL_TRANSFER_PUT;
    what.notification        = frame.data();
    what.notification_length = frame.size();
    what.has_notification    = 1;
    status                   = kvl_transfer_submit(peer->handle(), &what, &params, &batch);
    if (status != KVL_INPROGRESS) {
        complain(name, kvl_error_text());
        return status_of(status);
    }
    return SUCCESS;
}

} /* namespace kvlane_nixl */
