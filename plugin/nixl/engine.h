/* SPDX-License-Identifier: BSD-3-Clause */
/* The backend of one NIXL agent: a kvlane engine with a progress thread of its own, a listener, and the
 * agents that it knows. NIXL calls it under a lock of its agent: what is const (post, check, release)
 * shared, the rest alone. Notifications come from the engine's thread. */
#ifndef KVL_PLUGIN_NIXL_ENGINE_H
#define KVL_PLUGIN_NIXL_ENGINE_H

#include "nixl/notes.h"
#include "nixl/options.h"
#include "nixl/peer.h"

#include <map>

namespace kvlane_nixl {

class Transport final : public Engine {
  public:
    static constexpr OwnOption own_option = {"address", "KVLANE_NIXL_ADDRESS"};

    static const char *plugin_name() { return "KVLANE"; }
    static Memories kinds() { return memories(); }

    explicit Transport(const InitParams &params) : Engine(params) {}
    void start();
    ~Transport() override;

    bool supportsRemote() const override { return true; }
    bool supportsLocal() const override { return true; }
    bool supportsNotif() const override { return true; }
    Memories getSupportedMems() const override { return kinds(); }

    Status registerMem(const BlobDescriptor &memory, const Memory &kind, Metadata *&out) override;
    Status deregisterMem(Metadata *metadata) override;
    Status getPublicData(const Metadata *metadata, std::string &out) const override;
    Status getConnInfo(std::string &out) const override;
    Status loadRemoteConnInfo(const std::string &agent, const std::string &info) override;
    Status loadRemoteMD(const BlobDescriptor &memory, const Memory &kind, const std::string &agent,
                        Metadata *&out) override;
    Status loadLocalMD(Metadata *in, Metadata *&out) override;
    Status unloadMD(Metadata *metadata) override;
    Status connect(const std::string &agent) override;
    Status disconnect(const std::string &agent) override;

    /* request.cc */
    Status prepXfer(const Operation &operation, const List<MetaDescriptor> &local,
                    const List<MetaDescriptor> &remote, const std::string &agent, Request *&request,
                    const PostOptions *options) const override;
    Status postXfer(const Operation &operation, const List<MetaDescriptor> &local,
                    const List<MetaDescriptor> &remote, const std::string &agent, Request *&request,
                    const PostOptions *options) const override;
    Status checkXfer(Request *request) const override;
    Status releaseReqH(Request *request) const override;
    Status getNotifs(Notifications &out) override;
    Status genNotif(const std::string &agent, const std::string &message) const override;

  private:
    Status import(std::shared_ptr<Peer> peer, const std::string &exported, Metadata *&out) const;
    std::shared_ptr<Peer> find(const std::string &agent) const;

    Configuration configuration_;
    kvl_engine_t *engine_     = nullptr;
    kvl_listener_t *listener_ = nullptr;
    std::string address_; /* of the listener */
    Notes notes_;
    mutable std::mutex mutex_;
    std::map<std::string, std::shared_ptr<Peer>> peers_; /* under mutex_ */
};

} /* namespace kvlane_nixl */

#endif
