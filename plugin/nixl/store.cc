/* SPDX-License-Identifier: BSD-3-Clause */
#include "nixl/store.h"
#include "nixl/work.h"

#include <algorithm>

/* A request: descriptors of one object that follow each other are the segments of one item, in the order of their
 * offsets. A value is put and got whole, so they begin at 0 and have no gaps. */

namespace kvlane_nixl {

namespace {

struct Object final : Metadata {
    explicit Object(std::string it) : Metadata(true), key(std::move(it)) {}
    const std::string key;
};

std::string key_of(const BlobDescriptor &object)
{
    return object.blob.empty() ? std::to_string(object.device) : object.blob;
}

/* The node is not one of NIXL's agents, whose loss is a number of its own. */
Status at_node(Status status)
{
    return status == REMOTE_DISCONNECT ? BACKEND : status;
}

} /* namespace */

struct Access final : Work {
    explicit Access(const std::string &node) : Work(node) {}

    kvl_cache_op_t op = KVL_CACHE_PUT;
    std::vector<std::string> keys;
    std::vector<kvl_segment_t> segments;
    std::vector<kvl_item_t> items;
    std::vector<std::shared_ptr<Region>> regions;
    size_t reached = 0; /* in the last object */

    Status add(const MetaDescriptor &local, const MetaDescriptor &object);
    void close();
};

Status Access::add(const MetaDescriptor &local, const MetaDescriptor &object)
{
    const std::string &key = static_cast<Object *>(object.metadata)->key;
    const auto &region     = static_cast<LocalMemory *>(local.metadata)->region;
    bool goes_on           = !keys.empty() && keys.back() == key && object.address != 0;

    reached = goes_on ? reached : 0;
    if (local.length != object.length || !local.length || object.address != reached) {
        complain(about(), "object " + key + ": " + std::to_string(local.length) + " bytes here, " +
                              std::to_string(object.length) + " at offset " + std::to_string(object.address) +
                              " there; an object is moved whole: equal lengths, in order, from offset 0");
        return INVALID_PARAM;
    }
    if (!goes_on) {
        keys.push_back(key);
        items.push_back({});
    }
    items.back().segment_count++;
    segments.push_back({reinterpret_cast<void *>(local.address), local.length, region->handle});
    reached += local.length;
    hold(regions, region);
    return SUCCESS;
}

/* The lists are whole and do not move any more. */
void Access::close()
{
    const kvl_segment_t *next = segments.data();

    for (size_t i = 0; i < items.size(); i++) {
        items[i].key        = keys[i].data();
        items[i].key_length = keys[i].size();
        items[i].segments   = next;
        next += items[i].segment_count;
    }
}

void Store::start()
{
    kvl_engine_params_t params = {};
    std::string why;

    if (!configure(options(), own_option, configuration_, why)) {
        complain(agent(), why);
        return fail();
    }
    if (configuration_.own.empty()) {
        complain(agent(), std::string("no cache node: say \"node\": \"host:port\" to create_backend, or set ") +
                              own_option.variable);
        return fail();
    }
    params.config = configuration_.settings.get();
    if (kvl_engine_create(&params, &engine_) != KVL_OK ||
        kvl_cache_create(engine_, configuration_.own.c_str(), &cache_) != KVL_OK) {
        complain(agent(), kvl_error_text());
        return fail();
    }
}

Store::~Store()
{
    kvl_cache_destroy(cache_);
    kvl_engine_destroy(engine_);
}

/* ---- memory and objects ---- */

Memories Store::kinds()
{
    Memories all = memories();

    all.push_back(OBJECT);
    return all;
}

Status Store::registerMem(const BlobDescriptor &memory, const Memory &kind, Metadata *&out)
{
    std::shared_ptr<Region> region;
    Status status;

    if (kind == OBJECT) {
        std::string key = key_of(memory);

        if (key.size() > KVL_KEY_MAX) {
            complain(agent(), "object " + key.substr(0, 32) + "...: its key has " + std::to_string(key.size()) +
                                  " bytes; at most " + std::to_string(KVL_KEY_MAX));
            return INVALID_PARAM;
        }
        out = new Object(key);
        return SUCCESS;
    }
    status = region_register(engine_, agent(), memory, kind, region);
    if (status == SUCCESS) {
        out = new LocalMemory(region);
    }
    return status;
}

Status Store::deregisterMem(Metadata *metadata)
{
    LocalMemory *memory = dynamic_cast<LocalMemory *>(metadata);
    Status status       = memory ? region_release(agent(), *memory->region) : SUCCESS;

    delete metadata;
    return status;
}

/* this side is all there is */
Status Store::loadLocalMD(Metadata *in, Metadata *&out)
{
    out = in;
    return SUCCESS;
}

Status Store::unloadMD(Metadata *)
{
    return SUCCESS;
}

Status Store::connect(const std::string &)
{
    return SUCCESS;
}

Status Store::disconnect(const std::string &)
{
    return SUCCESS;
}

/* ---- requests ---- */

Status Store::prepXfer(const Operation &operation, const List<MetaDescriptor> &local,
                       const List<MetaDescriptor> &objects, const std::string &, Request *&request,
                       const PostOptions *) const
{
    auto access   = std::make_unique<Access>(configuration_.own);
    size_t count  = local.items().size();
    Status status = SUCCESS;

    if (objects.memory() != OBJECT || local.memory() == OBJECT || objects.items().size() != count) {
        complain(agent(), "a request is between this agent's memory and as many objects");
        return INVALID_PARAM;
    }
    access->op = operation == WRITE ? KVL_CACHE_PUT : KVL_CACHE_GET;
    access->segments.reserve(count);
    for (size_t i = 0; i < count && status == SUCCESS; i++) {
        status = access->add(local.items()[i], objects.items()[i]);
    }
    if (status == SUCCESS && access->items.size() > KVL_BATCH_MAX) {
        complain(agent(), "a request of " + std::to_string(access->items.size()) + " objects; at most " +
                              std::to_string(KVL_BATCH_MAX) + ": make several");
        status = INVALID_PARAM;
    }
    if (status == SUCCESS) {
        access->close();
        request = access.release();
    }
    return status;
}

Status Store::postXfer(const Operation &, const List<MetaDescriptor> &, const List<MetaDescriptor> &,
                       const std::string &, Request *&request, const PostOptions *options) const
{
    Access *access            = static_cast<Access *>(request);
    kvl_batch_params_t params = {};
    Status status             = access->begin(options, &params);

    if (status != SUCCESS) {
        return status;
    }
    if (std::any_of(access->regions.begin(), access->regions.end(), [](const auto &it) { return it->released; })) {
        complain(agent(), "a request whose memory was taken away since it was made: make a new one");
        return NOT_FOUND;
    }
    if (access->items.empty()) {
        return SUCCESS;
    }
    return at_node(access->submitted(kvl_cache_submit(cache_, access->op, access->items.data(), access->items.size(),
                                                      &params, access->batch())));
}

Status Store::checkXfer(Request *request) const
{
    return at_node(static_cast<Access *>(request)->look(engine_));
}

Status Store::releaseReqH(Request *request) const
{
    Access *access = static_cast<Access *>(request);
    Status status  = access->end();

    if (status == SUCCESS) {
        delete access;
    }
    return status;
}

/* For each object: an answer without contents if it is there. */
Status Store::queryMem(const List<BlobDescriptor> &objects, QueryResults &out) const
{
    std::vector<std::string> keys;
    std::vector<kvl_item_t> items;

    for (const BlobDescriptor &object : objects.items()) {
        keys.push_back(key_of(object));
    }
    for (const std::string &key : keys) {
        kvl_item_t item = {};

        item.key        = key.data();
        item.key_length = key.size();
        items.push_back(item);
    }
    out.clear();
    for (size_t at = 0; at < items.size(); at += KVL_BATCH_MAX) {
        size_t count       = std::min(items.size() - at, static_cast<size_t>(KVL_BATCH_MAX));
        kvl_batch_t *batch = nullptr;
        kvl_status_t status = kvl_cache_submit(cache_, KVL_CACHE_EXISTS, &items[at], count, nullptr, &batch);

        if (status == KVL_INPROGRESS) {
            status = kvl_batch_wait(batch, -1);
        } else {
            complain(agent(), kvl_error_text());
            return at_node(status_of(status));
        }
        for (size_t i = 0; i < count; i++) {
            kvl_status_t found = kvl_batch_item(batch, i, nullptr);

            if (found == KVL_OK) {
                out.emplace_back(Options());
            } else if (found == KVL_ERR_NOT_FOUND) {
                out.emplace_back(std::nullopt);
            } else {
                complain(agent(), kvl_batch_cause(batch));
                kvl_batch_release(batch);
                return at_node(status_of(found));
            }
        }
        kvl_batch_release(batch);
    }
    return SUCCESS;
}

} /* namespace kvlane_nixl */
