/* SPDX-License-Identifier: BSD-3-Clause */
/* libplugin_KVLANE.so: memory between agents. */
#include "nixl/engine.h"
#include "nixl/entry.h"

KVL_NIXL_ENTRY(kvlane_nixl::Transport)
