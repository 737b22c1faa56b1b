/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "nixl/engine.h"

#include <cstring>
#include <unistd.h>

namespace kvlane_nixl {

namespace {

constexpr int BUSY_ROUNDS   = 5000;
constexpr useconds_t BUSY_US = 1000;

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

Transport::Transport(const InitParams &params) : Engine(params)
{
    try {
        start();
    } catch (const std::exception &e) {
        complain(agent(), e.what());
        fail();
    }
}

void Transport::start()
{
    kvl_engine_params_t params = {};
    char address[128];
    std::string why;

    if (agent().size() > AGENT_NAME_MAX) {
        complain(agent().substr(0, 32) + "...", "an agent's name has at most " +
                                                    std::to_string(AGENT_NAME_MAX) + " bytes");
        return fail();
    }
    if (!configure(options(), configuration_, why)) {
        complain(agent(), why);
        return fail();
    }
    params.config  = configuration_.settings.get();
    params.address = configuration_.listen.c_str();
    if (kvl_engine_create(&params, &engine_) != KVL_OK ||
        kvl_listen(engine_, configuration_.listen.c_str(), on_note, &notes_, &listener_) != KVL_OK ||
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

Memories memories()
{
#ifdef KVL_HAVE_CUDA
    return {DRAM, VRAM};
#else
    return {DRAM};
#endif
}

Memories Transport::getSupportedMems() const
{
    return memories();
}

/* Is it what it is said to be? Host memory needs no proof: kvlane moves a GPU's memory under that name, too. */
static std::string memory_doubt(const BlobDescriptor &memory, Memory kind)
{
    kvl_memory_t found;

    if (kind == DRAM) {
        return "";
    }
    if (kind != VRAM) {
        return "memory of type " + std::to_string(kind) + " cannot be registered; host memory (DRAM) and a GPU's (VRAM) can";
    }
    if (kvl_memory_query(reinterpret_cast<void *>(memory.address), memory.length, &found) != KVL_OK) {
        return kvl_error_text();
    }
    if (found.kind == KVL_MEMORY_HOST) {
        return "registered as VRAM, but host memory: register it as DRAM";
    }
    if (found.device != static_cast<int64_t>(memory.device)) {
        return "registered as memory of GPU " + std::to_string(memory.device) + ", but of GPU " +
               std::to_string(found.device);
    }
    return "";
}

Status Transport::registerMem(const BlobDescriptor &memory, const Memory &kind, Metadata *&out)
{
    auto region       = std::make_shared<Region>();
    std::string doubt = memory_doubt(memory, kind);

    if (!doubt.empty()) {
        complain(agent(), doubt);
        return kind == DRAM || kind == VRAM ? INVALID_PARAM : NOT_SUPPORTED;
    }
    region->address     = memory.address;
    region->length      = memory.length;
    kvl_status_t status = kvl_region_register(engine_, reinterpret_cast<void *>(memory.address),
                                              memory.length, &region->handle);

    if (status == KVL_OK && !region_export(*region)) {
        status = KVL_ERR_LIMIT;
        kvl_region_release(region->handle);
    }
    if (status != KVL_OK) {
        complain(agent(), kvl_error_text());
        return status_of(status);
    }
    out = new LocalMemory(region);
    return SUCCESS;
}

/* A peer may be reading or writing it at this moment: its operation ends soon, or is ended. NIXL's user
 * takes the memory back whatever is returned, so wait. */
Status Transport::deregisterMem(Metadata *metadata)
{
    LocalMemory *memory = static_cast<LocalMemory *>(metadata);
    kvl_status_t status = KVL_OK;
    int round;

    memory->region->released = true;
    for (round = 0; round < BUSY_ROUNDS; round++) {
        status = kvl_region_release(memory->region->handle);
        if (status != KVL_ERR_BUSY) {
            break;
        }
        usleep(BUSY_US);
    }
    if (status != KVL_OK) {
        complain(agent(), std::string(kvl_error_text()) + "; it stays registered");
    }
    delete memory;
    return status_of(status);
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
