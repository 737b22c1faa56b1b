/* SPDX-License-Identifier: BSD-3-Clause */
#include "nixl/notes.h"

#include <cstdio>

namespace kvlane_nixl {

void note_frame(const std::string &agent, const std::string &message, std::string &frame)
{
    frame.clear();
    frame.reserve(2 + agent.size() + message.size());
    frame.push_back(static_cast<char>(agent.size() & 0xff));
    frame.push_back(static_cast<char>(agent.size() >> 8));
    frame += agent;
    frame += message;
}

void Notes::push(const void *frame, size_t length)
{
    const unsigned char *bytes = static_cast<const unsigned char *>(frame);
    size_t name = length < 2 ? 0 : bytes[0] + 256u * bytes[1];

    if (length < 2 || name > AGENT_NAME_MAX || name > length - 2) {
        fprintf(stderr, "kvlane: nixl: a notification of %zu bytes without a sender was dropped\n", length);
        return;
    }
    const char *text = static_cast<const char *>(frame) + 2;
    std::lock_guard<std::mutex> lock(mutex_);

    waiting_.emplace_back(std::string(text, name), std::string(text + name, length - 2 - name));
}

void Notes::fetch(Notifications &out)
{
    std::lock_guard<std::mutex> lock(mutex_);

    out.swap(waiting_);
    waiting_.clear();
}

} /* namespace kvlane_nixl */
