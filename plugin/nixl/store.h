/* SPDX-License-Identifier: BSD-3-Clause */
/* The storage backend of one NIXL agent: a client of a cache node. An object (OBJ_SEG) is a key there: its text
 * (metaInfo), or its device number in decimal if it has none. The agent's own memory is the other side. Nothing
 * goes to other agents. Locks as in engine.h. */
#ifndef KVL_PLUGIN_NIXL_STORE_H
#define KVL_PLUGIN_NIXL_STORE_H

#include "nixl/memory.h"
#include "nixl/options.h"

#include <kvlane/cache.h>

namespace kvlane_nixl {

class Store final : public Engine {
  public:
    static constexpr OwnOption own_option = {"node", "KVLANE_NIXL_NODE"};
    static const char *plugin_name() { return "KVLANEKV"; }
    static Memories kinds();

    explicit Store(const InitParams &params) : Engine(params) {}
    void start();
    ~Store() override;

    bool supportsRemote() const override { return false; }
    bool supportsLocal() const override { return true; }
    bool supportsNotif() const override { return false; }
    Memories getSupportedMems() const override { return kinds(); }

    Status registerMem(const BlobDescriptor &memory, const Memory &kind, Metadata *&out) override;
    Status deregisterMem(Metadata *metadata) override;
    Status loadLocalMD(Metadata *in, Metadata *&out) override;
    Status unloadMD(Metadata *metadata) override;
    Status connect(const std::string &agent) override;
    Status disconnect(const std::string &agent) override;

    Status prepXfer(const Operation &operation, const List<MetaDescriptor> &local,
                    const List<MetaDescriptor> &objects, const std::string &agent, Request *&request,
                    const PostOptions *options) const override;
    Status postXfer(const Operation &operation, const List<MetaDescriptor> &local,
                    const List<MetaDescriptor> &objects, const std::string &agent, Request *&request,
                    const PostOptions *options) const override;
    Status checkXfer(Request *request) const override;
    Status releaseReqH(Request *request) const override;
    Status queryMem(const List<BlobDescriptor> &objects, QueryResults &out) const override;

  private:
    Configuration configuration_;
    kvl_engine_t *engine_ = nullptr;
    kvl_cache_t *cache_   = nullptr;
};

} /* namespace kvlane_nixl */

#endif
