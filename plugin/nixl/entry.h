/* SPDX-License-Identifier: BSD-3-Clause */
/* What NIXL finds in a plugin: two symbols and a table. */
#ifndef KVL_PLUGIN_NIXL_ENTRY_H
#define KVL_PLUGIN_NIXL_ENTRY_H

#include "nixl/options.h"
#include "nixl/report.h"

namespace kvlane_nixl {

/* A backend has start(), which may fail(), and own_option, kinds() and plugin_name(). */
template <class Backend> struct Entry {
    /* NULL is what NIXL takes for "it did not work"; an exception would end its user's process */
    static Engine *create(const InitParams *params)
    {
        try {
            auto backend = std::make_unique<Backend>(*params);

            backend->start();
            return backend.release();
        } catch (const std::exception &e) {
            complain(params->agent, e.what());
            return nullptr;
        }
    }
    static void destroy(Engine *engine) { delete engine; }
    static Options options() { return options_in_force(Backend::own_option); }

    static Plugin *table()
    {
        static Plugin plugin = {ABI_VERSION, create, destroy, Backend::plugin_name, kvl_version, options, Backend::kinds};

        return &plugin;
    }
};

} /* namespace kvlane_nixl */

/* NIXL never takes the library out of the process: engines are gone with their agents */
#define KVL_NIXL_ENTRY(backend)                                                                \
    extern "C" {                                                                               \
    __attribute__((visibility("default"))) kvlane_nixl::Plugin *nixl_plugin_init();            \
    __attribute__((visibility("default"))) void nixl_plugin_fini();                            \
    kvlane_nixl::Plugin *nixl_plugin_init()                                                    \
    {                                                                                          \
        return kvlane_nixl::Entry<backend>::table();                                           \
    }                                                                                          \
    void nixl_plugin_fini() {}                                                                 \
    }

#endif
