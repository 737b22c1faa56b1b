/* SPDX-License-Identifier: BSD-3-Clause */
#include "nixl/engine.h"
#include "nixl/address.h"

#include <cstring>

namespace kvlane_nixl {

namespace {

void on_note(const char *, const void *frame, size_t length, void *notes)
{
    static_cast<Notes *>(notes)->push(frame, length);
}

/* of a region: its address and length (8 bytes each, as they lie in memory), then what kvlane wrote */
constexpr size_t EXPORT_HEAD = 16;

bool region_export(Region &region)
{
    uint64_t head[2] = {region.address, region.length};
    size_t size      = 0;

    if (kvl_region_export(region.handle, nullptr, &size) != KVL_ERR_LIMIT) {
        return false;
    }
    region.exported.resize(EXPORT_HEAD + size);
    memcpy(&region.exported[0], head, sizeof(head));
    return kvl_region_export(region.handle, &region.exported[EXPORT_HEAD], &size) == KVL_OK;
}

} /* namespace */

void Transport::start()
{
    kvl_engine_params_t params = {};
    char address[128];
    std::string listen, why;

    if (agent().size() > AGENT_NAME_MAX) {
        complain(agent().substr(0, 32) + "...", "an agent's name has at most " +
                                                    std::to_string(AGENT_NAME_MAX) + " bytes");
        return fail();
    }
    if (!configure(options(), own_option, configuration_, why) ||
        !listen_address(configuration_.own, kvl_config_get(configuration_.settings.get(), "KVLANE_RAILS"), listen, why)) {
        complain(agent(), why);
        return fail();
    }
    params.config  = configuration_.settings.get();
    params.address = listen.c_str();
    if (kvl_engine_create(&params, &engine_) != KVL_OK ||
        kvl_listen(engine_, listen.c_str(), on_note, &notes_, &listener_) != KVL_OK ||
        kvl_listener_address(listener_, address, sizeof(address)) != KVL_OK) {
        complain(agent(), kvl_error_text());
        return fail();
    }
    address_         = address;
    peers_[agent()] = std::make_shared<Peer>(engine_, agent(), address_);
}

Transport::~Transport()
{
    for (auto &[name, peer] : peers_) {
        peer->close();
    }
    peers_.clear();
    kvl_listener_destroy(listener_);
    kvl_engine_destroy(engine_);
}

/* ---- memory ---- */

Status Transport::registerMem(const BlobDescriptor &memory, const Memory &kind, Metadata *&out)
{
    std::shared_ptr<Region> region;
    Status status = region_register(engine_, agent(), memory, kind, region);

    if (status == SUCCESS && !region_export(*region)) {
        complain(agent(), kvl_error_text());
        region_release(agent(), *region);
        status = INVALID_PARAM;
    }
    if (status == SUCCESS) {
        out = new LocalMemory(region);
    }
    return status;
}

Status Transport::deregisterMem(Metadata *metadata)
{
    LocalMemory *memory = static_cast<LocalMemory *>(metadata);
    Status status       = region_release(agent(), *memory->region);

    delete memory;
    return status;
}

Status Transport::getPublicData(const Metadata *metadata, std::string &out) const
{
    out = static_cast<const LocalMemory *>(metadata)->region->exported;
    return SUCCESS;
}

Status Transport::import(std::shared_ptr<Peer> peer, const std::string &exported, Metadata *&out) const
{
    uint64_t head[2];

    if (!peer) {
        return NOT_FOUND;
    }
    if (exported.size() <= EXPORT_HEAD) {
        complain(peer->name(), "its memory's description has " + std::to_string(exported.size()) + " bytes");
        return INVALID_PARAM;
    }
    memcpy(head, exported.data(), sizeof(head));
    out = new RemoteMemory(std::make_shared<Import>(peer, head[0], head[1], exported.substr(EXPORT_HEAD)));
    return SUCCESS;
}

Status Transport::loadRemoteMD(const BlobDescriptor &memory, const Memory &, const std::string &name,
                               Metadata *&out)
{
    return import(find(name), memory.blob, out);
}

Status Transport::loadLocalMD(Metadata *in, Metadata *&out)
{
    return import(find(agent()), static_cast<LocalMemory *>(in)->region->exported, out);
}

Status Transport::unloadMD(Metadata *metadata)
{
    RemoteMemory *memory = static_cast<RemoteMemory *>(metadata);

    memory->import->unloaded = true;
    delete memory;
    return SUCCESS;
}

/* ---- agents ---- */

std::shared_ptr<Peer> Transport::find(const std::string &name) const
{
    std::lock_guard<std::mutex> lock(mutex_);
    auto it = peers_.find(name);

    return it == peers_.end() ? nullptr : it->second;
}

Status Transport::getConnInfo(std::string &out) const
{
    out = connection_info(address_);
    return SUCCESS;
}

/* nothing is connected yet; an agent that came back with another address replaces the old one */
Status Transport::loadRemoteConnInfo(const std::string &name, const std::string &info)
{
    std::string address = connection_address(info);

    if (address.empty()) {
        complain(name, "its connection info is not of this version of kvlane");
        return INVALID_PARAM;
    }
    if (name.size() > AGENT_NAME_MAX) {
        return INVALID_PARAM;
    }
    std::shared_ptr<Peer> old = find(name);

    if (old && old->address() == address) {
        return SUCCESS;
    }
    if (old && name == agent()) {
        complain(name, "another agent has the name of this one");
        return INVALID_PARAM;
    }
    if (old) {
        old->close();
    }
    std::lock_guard<std::mutex> lock(mutex_);

    peers_[name] = std::make_shared<Peer>(engine_, name, address);
    return SUCCESS;
}

/* NIXL does so with this agent itself at the start: that connection waits until it is needed */
Status Transport::connect(const std::string &name)
{
    std::shared_ptr<Peer> peer = find(name);

    if (name == agent()) {
        return SUCCESS;
    }
    return peer ? peer->connect() : NOT_FOUND;
}

Status Transport::disconnect(const std::string &name)
{
    std::shared_ptr<Peer> peer = find(name);

    if (!peer) {
        return NOT_FOUND;
    }
    if (name == agent()) {
        return SUCCESS;
    }
    peer->close();
    std::lock_guard<std::mutex> lock(mutex_);

    peers_.erase(name);
    return SUCCESS;
}

} /* namespace kvlane_nixl */
