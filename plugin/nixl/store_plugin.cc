/* SPDX-License-Identifier: BSD-3-Clause */
/* libplugin_KVLANEKV.so: objects on a cache node. */
#include "nixl/entry.h"
#include "nixl/store.h"

namespace kvlane_nixl {

namespace {

const char *name()
{
    return "KVLANEKV";
}

Options options()
{
    return options_in_force(Store::own_option);
}

Plugin plugin = {ABI_VERSION, create<Store>, destroy, name, kvl_version, options, Store::kinds};

} /* namespace */

} /* namespace kvlane_nixl */

KVL_NIXL_ENTRY(kvlane_nixl::plugin)
