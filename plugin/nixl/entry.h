/* SPDX-License-Identifier: BSD-3-Clause */
/* What NIXL finds in a plugin: two symbols and a table. */
#ifndef KVL_PLUGIN_NIXL_ENTRY_H
#define KVL_PLUGIN_NIXL_ENTRY_H

#include "nixl/report.h"

namespace kvlane_nixl {

/* NULL is what NIXL takes for "it did not work"; an exception would end its user's process */
template <class Backend> Engine *create(const InitParams *params)
{
    try {
        return new Backend(*params);
    } catch (const std::exception &e) {
        complain(params->agent, e.what());
        return nullptr;
    }
}

inline void destroy(Engine *engine)
{
    delete engine;
}

} /* namespace kvlane_nixl */

/* NIXL never takes the library out of the process: engines are gone with their agents */
#define KVL_NIXL_ENTRY(table)                                                                  \
    extern "C" {                                                                               \
    __attribute__((visibility("default"))) kvlane_nixl::Plugin *nixl_plugin_init();            \
    __attribute__((visibility("default"))) void nixl_plugin_fini();                            \
    kvlane_nixl::Plugin *nixl_plugin_init()                                                    \
    {                                                                                          \
        return &(table);                                                                       \
    }                                                                                          \
    void nixl_plugin_fini() {}                                                                 \
    }

#endif
