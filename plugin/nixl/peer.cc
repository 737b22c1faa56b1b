/* SPDX-License-Identifier: BSD-3-Clause */
#include "nixl/peer.h"

#include <thread>

namespace kvlane_nixl {

namespace {
const char info_prefix[]        = "kvlane-nixl 1 "; /* the number changes when frames or blobs do */
constexpr auto REMEMBER_FAILURE = std::chrono::seconds(1);
constexpr auto MOMENT           = std::chrono::milliseconds(200);
} /* namespace */

std::string connection_info(const std::string &address)
{
    return info_prefix + address;
}

std::string connection_address(const std::string &info)
{
    const size_t length = sizeof(info_prefix) - 1;

    return info.compare(0, length, info_prefix) == 0 && info.find('\0') == std::string::npos
               ? info.substr(length)
               : "";
}

Peer::Peer(kvl_engine_t *engine, const std::string &name, const std::string &address)
    : engine_(engine), name_(name), address_(address)
{
}

Peer::~Peer()
{
    if (!closed_ && peer_) {
        kvl_peer_close(peer_);
    }
}

Status Peer::connect_locked()
{
    if (closed_) {
        return NOT_FOUND;
    }
    if (peer_) {
        return SUCCESS;
    }
    if (failed_ != KVL_OK && std::chrono::steady_clock::now() < failed_until_) {
        return status_of(failed_);
    }
    failed_ = kvl_connect(engine_, address_.c_str(), 0, &peer_);
    if (failed_ != KVL_OK) {
        peer_         = nullptr;
        failed_until_ = std::chrono::steady_clock::now() + REMEMBER_FAILURE;
        complain(name_, kvl_error_text());
    }
    return status_of(failed_);
}

Status Peer::connect()
{
    std::lock_guard<std::mutex> lock(mutex_);

    return connect_locked();
}

Status Peer::reach()
{
    const auto until    = std::chrono::steady_clock::now() + MOMENT;
    Status status       = connect();
    kvl_status_t now    = status == SUCCESS ? kvl_peer_test(peer_) : KVL_OK;

    while (now == KVL_INPROGRESS && std::chrono::steady_clock::now() < until) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        now = kvl_peer_test(peer_);
    }
    if (now < 0) {
        complain(name_, kvl_error_text());
        return status_of(now);
    }
    return status; /* in progress: its requests have deadlines */
}

void Peer::close()
{
    std::lock_guard<std::mutex> lock(mutex_);

    if (!closed_) {
        closed_ = true;
        kvl_peer_close(peer_);
    }
}

bool Peer::closed() const
{
    std::lock_guard<std::mutex> lock(mutex_);

    return closed_;
}

Status Import::load()
{
    std::lock_guard<std::mutex> lock(mutex_);
    kvl_status_t status;

    if (remote_) {
        return SUCCESS;
    }
    status = kvl_remote_import(peer_->handle(), blob_.data(), blob_.size(), &remote_);
    if (status != KVL_OK) {
        remote_ = nullptr;
        complain(peer_->name(), kvl_error_text());
    } else if (kvl_remote_length(remote_) != length_) {
        complain(peer_->name(), "its memory is not as long as it says");
        kvl_remote_release(remote_);
        remote_ = nullptr;
        return INVALID_PARAM;
    }
    return status_of(status);
}

} /* namespace kvlane_nixl */
