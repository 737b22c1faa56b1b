/* SPDX-License-Identifier: BSD-3-Clause */
/* What NIXL (1.0 to 1.5) and a backend plugin of it share in memory, in our own words: no header of
 * NIXL's is in any package registry. Sizes and offsets are asserted below, the order of the virtual
 * functions is compared with a plugin of the installed NIXL by test/frameworks/nixl_slots.py: NIXL's own
 * version number has stayed 1 while that order changed.
 *
 * Their objects are only read here (descriptor lists, init parameters, options) and ours are only used
 * through their virtual functions and, of Engine, the fields of its base. Names of the virtual functions
 * are those that NIXL's documentation uses; the others are ours. */
#ifndef KVL_PLUGIN_NIXL_ABI_H
#define KVL_PLUGIN_NIXL_ABI_H

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace kvlane_nixl {

constexpr int ABI_VERSION = 1;

enum Status : int {
    IN_PROGRESS       = 1,
    SUCCESS           = 0,
    INVALID_PARAM     = -2,
    BACKEND           = -3,
    NOT_FOUND         = -4,
    NOT_ALLOWED       = -6,
    NOT_SUPPORTED     = -9,
    REMOTE_DISCONNECT = -10, /* NIXL forgets all that it knows of the agent */
    CANCELED          = -11
};

enum Memory : int { DRAM = 0, VRAM = 1, OBJECT = 3 };
enum Operation : int { READ = 0, WRITE = 1 };
enum CostMethod : int { COST_UNKNOWN = 1 };

using Options       = std::unordered_map<std::string, std::string>;
using Memories      = std::vector<Memory>;
using Notifications = std::vector<std::pair<std::string, std::string>>; /* agent, message */
using QueryResults  = std::vector<std::optional<Options>>;

struct Descriptor {
    uintptr_t address;
    size_t length;
    uint64_t device;
};

struct BlobDescriptor : Descriptor {
    std::string blob;
};

class Metadata;

struct MetaDescriptor : Descriptor {
    Metadata *metadata;
};

/* theirs: only looked at */
template <class Item> class List {
  public:
    List() = delete;
    Memory memory() const { return memory_; }
    const std::vector<Item> &items() const { return items_; }

  private:
    virtual void first_slot(); /* theirs has a table of virtual functions; none is called */
    Memory memory_;
    std::vector<Item> items_;
};

struct RemoteMetaDescriptor;
struct AgentOptions; /* of estimateXferCost */

/* memory that is registered here, or known at another agent */
class Metadata {
  public:
    virtual ~Metadata() = default;

  protected:
    explicit Metadata(bool is_local) : is_local_(is_local) {}

  private:
    bool is_local_;
};

class Request {
  public:
    virtual ~Request() = default;
};

struct PostOptions {
    std::string notification;
    bool has_notification;
    std::string custom;
};

struct InitParams {
    std::string agent;
    std::string type;
    Options *options;
    bool progress_thread;
    uint64_t progress_delay_us;
    int sync_mode;
    bool telemetry;
};

class Engine {
  public:
    Engine(const Engine &) = delete;
    Engine &operator=(const Engine &) = delete;

    virtual ~Engine() = default;
    virtual bool supportsRemote() const = 0;
    virtual bool supportsLocal() const = 0;
    virtual bool supportsNotif() const = 0;
    virtual Memories getSupportedMems() const = 0;
    virtual Status registerMem(const BlobDescriptor &, const Memory &, Metadata *&) = 0;
    virtual Status deregisterMem(Metadata *) = 0;
    virtual Status connect(const std::string &agent) = 0;
    virtual Status disconnect(const std::string &agent) = 0;
    virtual Status unloadMD(Metadata *) = 0;
    virtual Status prepXfer(const Operation &, const List<MetaDescriptor> &local,
                            const List<MetaDescriptor> &remote, const std::string &agent, Request *&,
                            const PostOptions *) const = 0;
    virtual Status postXfer(const Operation &, const List<MetaDescriptor> &local,
                            const List<MetaDescriptor> &remote, const std::string &agent, Request *&,
                            const PostOptions *) const = 0;
    virtual Status checkXfer(Request *) const = 0;
    virtual Status releaseReqH(Request *) const = 0;
    virtual Status prepMemView(const List<RemoteMetaDescriptor> &, void *&, const PostOptions *) const
    {
        return NOT_SUPPORTED;
    }
    virtual Status prepMemView(const List<MetaDescriptor> &, void *&, const PostOptions *) const
    {
        return NOT_SUPPORTED;
    }
    virtual void releaseMemView(void *) const {}
    virtual Status getPublicData(const Metadata *, std::string &) const { return BACKEND; }
    virtual Status getConnInfo(std::string &) const { return BACKEND; }
    virtual Status loadRemoteConnInfo(const std::string &, const std::string &) { return BACKEND; }
    virtual Status loadRemoteMD(const BlobDescriptor &, const Memory &, const std::string &, Metadata *&)
    {
        return BACKEND;
    }
    virtual Status loadLocalMD(Metadata *, Metadata *&) { return BACKEND; }
    virtual Status getNotifs(Notifications &) { return BACKEND; }
    virtual Status genNotif(const std::string &, const std::string &) const { return BACKEND; }
    virtual Status queryMem(const List<BlobDescriptor> &, QueryResults &) const { return NOT_SUPPORTED; }
    virtual Status estimateXferCost(const Operation &, const List<MetaDescriptor> &,
                                    const List<MetaDescriptor> &, const std::string &, Request *const &,
                                    std::chrono::microseconds &, std::chrono::microseconds &, CostMethod &,
                                    const AgentOptions *) const
    {
        return NOT_SUPPORTED;
    }

  protected:
    explicit Engine(const InitParams &params)
        : type_(params.type), options_(params.options ? *params.options : Options()),
          agent_(params.agent), telemetry_(params.telemetry)
    {
    }
    void fail() { failed_ = true; }
    const std::string &agent() const { return agent_; }
    const Options &options() const { return options_; }

  private:
    friend struct Layout;
    std::string type_;
    Options options_;
    std::vector<uint64_t> events_; /* of their telemetry: stays empty */
    std::mutex events_mutex_;
    bool failed_ = false;
    std::string agent_;
    bool telemetry_;
};

struct Plugin {
    int version;
    Engine *(*create)(const InitParams *);
    void (*destroy)(Engine *);
    const char *(*name)();
    const char *(*release)();
    Options (*options)();
    Memories (*memories)();
};

/* what was seen in NIXL 1.4 and 1.5 on x86-64 */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
struct Layout {
    static_assert(sizeof(Plugin) == 56);
    static_assert(sizeof(Engine) == 208 && offsetof(Engine, type_) == 8 && offsetof(Engine, options_) == 40 &&
                  offsetof(Engine, events_) == 96 && offsetof(Engine, events_mutex_) == 120 &&
                  offsetof(Engine, failed_) == 160 && offsetof(Engine, agent_) == 168 &&
                  offsetof(Engine, telemetry_) == 200);
    static_assert(sizeof(InitParams) == 96 && offsetof(InitParams, type) == 32 &&
                  offsetof(InitParams, options) == 64 && offsetof(InitParams, progress_thread) == 72 &&
                  offsetof(InitParams, progress_delay_us) == 80 && offsetof(InitParams, sync_mode) == 88 &&
                  offsetof(InitParams, telemetry) == 92);
    static_assert(sizeof(Metadata) == 16 && sizeof(Request) == 8);
    static_assert(sizeof(PostOptions) == 72 && offsetof(PostOptions, has_notification) == 32 &&
                  offsetof(PostOptions, custom) == 40);
    static_assert(sizeof(Descriptor) == 24 && sizeof(BlobDescriptor) == 56 &&
                  offsetof(BlobDescriptor, blob) == 24 && sizeof(MetaDescriptor) == 32 &&
                  offsetof(MetaDescriptor, metadata) == 24);
    static_assert(sizeof(List<MetaDescriptor>) == 40);
    static_assert(sizeof(std::string) == 32 && sizeof(Options) == 56 && sizeof(std::mutex) == 40);
};
#pragma GCC diagnostic pop

} /* namespace kvlane_nixl */

#endif
