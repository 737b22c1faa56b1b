/* SPDX-License-Identifier: BSD-3-Clause */
/* What NIXL finds in libplugin_KVLANE.so: these two symbols and no other. */
#include "nixl/engine.h"

namespace kvlane_nixl {

namespace {

/* NULL is what NIXL takes for "it did not work"; an exception would end its user's process */
Engine *create(const InitParams *params)
{
    try {
        return new Transport(*params);
    } catch (const std::exception &e) {
        complain(params->agent, e.what());
        return nullptr;
    }
}

void destroy(Engine *engine)
{
    delete engine;
}

const char *name()
{
    return "KVLANE";
}

} /* namespace */

} /* namespace kvlane_nixl */

extern "C" {

__attribute__((visibility("default"))) kvlane_nixl::Plugin *nixl_plugin_init();
__attribute__((visibility("default"))) void nixl_plugin_fini();

kvlane_nixl::Plugin *nixl_plugin_init()
{
    static kvlane_nixl::Plugin plugin = {kvlane_nixl::ABI_VERSION, kvlane_nixl::create,
                                         kvlane_nixl::destroy,     kvlane_nixl::name,
                                         kvl_version,              kvlane_nixl::options_in_force,
                                         kvlane_nixl::memories};

    return &plugin;
}

/* NIXL never takes the library out of the process: engines are gone with their agents */
void nixl_plugin_fini() {}
}
