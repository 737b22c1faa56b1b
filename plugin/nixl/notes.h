/* SPDX-License-Identifier: BSD-3-Clause */
/* Notifications: what goes over the wire before the message, and those that wait to be fetched. */
#ifndef KVL_PLUGIN_NIXL_NOTES_H
#define KVL_PLUGIN_NIXL_NOTES_H

#include "nixl/abi.h"

namespace kvlane_nixl {

constexpr size_t AGENT_NAME_MAX = 4000; /* bytes: fits, with a message of 1 MiB, KVL_NOTIFICATION_MAX */

/* a frame: the length of the sender's name (2 bytes, little endian), the name, the message as it is */
void note_frame(const std::string &agent, const std::string &message, std::string &frame);

class Notes {
  public:
    /* Any thread. A frame that makes no sense is dropped, and said. */
    void push(const void *frame, size_t length);
    /* all that came, in the order in which they came */
    void fetch(Notifications &out);

  private:
    std::mutex mutex_;
    Notifications waiting_; /* under mutex_ */
};

} /* namespace kvlane_nixl */

#endif
