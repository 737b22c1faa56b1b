/* SPDX-License-Identifier: BSD-3-Clause */
/* Another agent, and its memory as it is known here. */
#ifndef KVL_PLUGIN_NIXL_PEER_H
#define KVL_PLUGIN_NIXL_PEER_H

#include "nixl/memory.h"

#include <kvlane/transport.h>

#include <memory>

namespace kvlane_nixl {

/* what an agent tells the others of itself: text, so that a person can read it */
std::string connection_info(const std::string &address);
/* the address in it; "" if it is none of ours */
std::string connection_address(const std::string &info);

class Peer {
  public:
    Peer(kvl_engine_t *engine, const std::string &name, const std::string &address);
    ~Peer();

    const std::string &name() const { return name_; }
    const std::string &address() const { return address_; }

    /* Connects if it is not connected. After a failure that took time, the next one within a second is the
     * same, at once: an agent that is hung costs its callers one wait, not one each. */
    Status connect();
    /* connect(), and is it there now? One that was lost and is being connected again gets a moment. */
    Status reach();
    /* cancels what is under way, waits until all is quiet; nothing goes to it any more */
    void close();
    bool closed() const;
    /* only between connect() and close() */
    kvl_peer_t *handle() const { return peer_; }

  private:
    Status connect_locked();

    kvl_engine_t *const engine_;
    const std::string name_, address_;
    mutable std::mutex mutex_;
    /* under mutex_; handle() may be read by who called connect() */
    kvl_peer_t *peer_ = nullptr;
    bool closed_      = false;
    std::chrono::steady_clock::time_point failed_until_;
    kvl_status_t failed_ = KVL_OK;
};

/* registered at the peer. Requests hold it too, since NIXL may unload it under them: then it is only
 * marked, and nothing is posted to it any more. */
class Import {
  public:
    Import(std::shared_ptr<Peer> peer, uintptr_t address, size_t length, const std::string &blob)
        : peer_(std::move(peer)), address_(address), length_(length), blob_(blob)
    {
    }
    ~Import() { kvl_remote_release(remote_); }
    Import(const Import &) = delete;
    Import &operator=(const Import &) = delete;

    /* the peer is connected */
    Status load();
    kvl_remote_t *remote() const { return remote_; }
    const std::shared_ptr<Peer> &peer() const { return peer_; }
    bool has(uintptr_t address, size_t length) const
    {
        return address >= address_ && address - address_ <= length_ &&
               length <= length_ - (address - address_);
    }
    uint64_t offset(uintptr_t address) const { return address - address_; }

    bool unloaded = false;

  private:
    const std::shared_ptr<Peer> peer_;
    const uintptr_t address_;
    const size_t length_;
    const std::string blob_;
    std::mutex mutex_;
    kvl_remote_t *remote_ = nullptr; /* under mutex_, constant once set */
};

struct RemoteMemory final : Metadata {
    explicit RemoteMemory(std::shared_ptr<Import> it) : Metadata(false), import(std::move(it)) {}
    const std::shared_ptr<Import> import;
};

} /* namespace kvlane_nixl */

#endif
