/* SPDX-License-Identifier: BSD-3-Clause */
/* libplugin_KVLANE.so: memory between agents. */
#include "nixl/engine.h"
#include "nixl/entry.h"

namespace kvlane_nixl {

namespace {

const char *name()
{
    return "KVLANE";
}

Options options()
{
    return options_in_force(Transport::own_option);
}

Plugin plugin = {ABI_VERSION, create<Transport>, destroy, name, kvl_version, options, memories};

} /* namespace */

} /* namespace kvlane_nixl */

KVL_NIXL_ENTRY(kvlane_nixl::plugin)
