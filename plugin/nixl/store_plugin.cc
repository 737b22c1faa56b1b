/* SPDX-License-Identifier: BSD-3-Clause */
/* libplugin_KVLANEKV.so: objects on a cache node. */
#include "nixl/entry.h"
#include "nixl/store.h"

KVL_NIXL_ENTRY(kvlane_nixl::Store)
