/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KVL_PLUGIN_NIXL_ADDRESS_H
#define KVL_PLUGIN_NIXL_ADDRESS_H

#include <string>

namespace kvlane_nixl {

/**
 * Where this agent listens, and what it tells the others: one address that they reach.
 * @param wanted  "host", "host:port", the name of an interface, or that and ":port"; "": that of the first
 *                rail that is an interface, else the one from which this host talks to others, else the
 *                loopback. Port 0, or none: the system picks one.
 * @param rails   KVLANE_RAILS.
 * @param out     "host:port".
 * @return false, and why, if @a wanted cannot be one: an address of all interfaces tells others nothing.
 */
bool listen_address(const std::string &wanted, const char *rails, std::string &out, std::string &why);

} /* namespace kvlane_nixl */

#endif
