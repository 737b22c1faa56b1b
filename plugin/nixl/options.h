/* SPDX-License-Identifier: BSD-3-Clause */
/* What a user may say to NIXL's create_backend(..., {...}), and the engine settings it becomes. */
#ifndef KVL_PLUGIN_NIXL_OPTIONS_H
#define KVL_PLUGIN_NIXL_OPTIONS_H

#include "nixl/abi.h"

#include <kvlane/engine.h>

#include <memory>

namespace kvlane_nixl {

struct ConfigDestroy {
    void operator()(kvl_config_t *config) const { kvl_config_destroy(config); }
};

struct Configuration {
    std::unique_ptr<kvl_config_t, ConfigDestroy> settings;
    std::string own; /* the backend's own option; "" if nobody said it */
};

/* the one option of a backend that is no setting of kvlane's engine */
struct OwnOption {
    const char *name, *variable;
};

/* Takes the environment, then @a options over it; an empty value says nothing. False: @a why has the
 * name, the value and the way out. */
bool configure(const Options &options, const OwnOption &own, Configuration &out, std::string &why);

/* The options and the values in force, as NIXL shows them to its user, who may hand them back. Empty if
 * the environment is wrong. */
Options options_in_force(const OwnOption &own);

} /* namespace kvlane_nixl */

#endif
