/* SPDX-License-Identifier: BSD-3-Clause */
#include "nixl/options.h"

#include <cstdlib>

namespace kvlane_nixl {

namespace {

struct Known {
    const char *name, *setting;
};

const Known known[] = {
    {"depth", "KVLANE_DEPTH"},       {"sg_endpoints", "KVLANE_SG_ENDPOINTS"},
    {"data_depth", "KVLANE_DATA_DEPTH"}, {"rails", "KVLANE_RAILS"},
    {"affinity", "KVLANE_AFFINITY"}, {"rank", "KVLANE_RANK"},
    {"timeout", "KVLANE_TIMEOUT"},   {"connect_timeout", "KVLANE_CONNECT_TIMEOUT"},
    {"quiesce", "KVLANE_QUIESCE"},
};

std::string known_names(const OwnOption &own)
{
    std::string names = own.name;

    for (const Known &option : known) {
        names = names + ", " + option.name;
    }
    return names + ", and settings by their full name (KVLANE_...)";
}

/* the full name of a setting, or NULL */
const char *setting_of(const std::string &name)
{
    for (const Known &option : known) {
        if (name == option.name) {
            return option.setting;
        }
    }
    return name.compare(0, 7, "KVLANE_") == 0 ? name.c_str() : nullptr;
}

std::string own_in_force(const OwnOption &own)
{
    const char *value = getenv(own.variable);

    return value ? value : "";
}

} /* namespace */

bool configure(const Options &options, const OwnOption &own, Configuration &out, std::string &why)
{
    kvl_config_t *config;

    if (kvl_config_create(&config) != KVL_OK) {
        why = kvl_error_text();
        return false;
    }
    out.settings.reset(config);
    out.own = own_in_force(own);
    for (const auto &[name, value] : options) {
        const char *setting = setting_of(name);

        if (name == own.name || name == own.variable) {
            out.own = value.empty() ? out.own : value;
        } else if (!setting) {
            why = "unknown option " + name + "; known: " + known_names(own);
            return false;
        } else if (!value.empty() && kvl_config_set(config, setting, value.c_str()) != KVL_OK) {
            why = "option " + name + ": " + kvl_error_text();
            return false;
        }
    }
    /* NIXL lets nobody else drive a backend while its user computes */
    if (kvl_config_set(config, "KVLANE_PROGRESS", "thread") != KVL_OK) {
        why = kvl_error_text();
        return false;
    }
    return true;
}

Options options_in_force(const OwnOption &own)
{
    kvl_config_t *config;
    Options shown;

    if (kvl_config_create(&config) != KVL_OK) {
        fprintf(stderr, "kvlane: nixl: %s\n", kvl_error_text());
        return shown;
    }
    for (const Known &option : known) {
        const char *value = kvl_config_get(config, option.setting);

        shown[option.name] = value ? value : "";
    }
    shown[own.name] = own_in_force(own);
    kvl_config_destroy(config);
    return shown;
}

} /* namespace kvlane_nixl */
