/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx/option_list.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

static const char *const origin_prefixes[KVL_ORIGIN_COUNT] = {
    [KVL_ORIGIN_USER] = "KVLANE_UCX_", [KVL_ORIGIN_CTRL] = "KVLANE_CTRL_UCX_",
    [KVL_ORIGIN_RAILS] = "UCX_",       [KVL_ORIGIN_DEFAULT] = "UCX_",
    [KVL_ORIGIN_ENV] = "UCX_",
};

static const char *const origin_texts[KVL_ORIGIN_COUNT] = {
    [KVL_ORIGIN_USER]    = "KVLANE_UCX_",
    [KVL_ORIGIN_CTRL]    = "KVLANE_CTRL_UCX_",
    [KVL_ORIGIN_RAILS]   = "KVLANE_RAILS",
    [KVL_ORIGIN_DEFAULT] = "kvlane's default",
    [KVL_ORIGIN_ENV]     = "environment, left to UCX",
};

const char *kvl_origin_prefix(kvl_origin_t origin)
{
    return origin_prefixes[origin];
}

const kvl_option_t *kvl_options_find(const kvl_options_t *options, const char *name)
{
    for (size_t i = 0; i < options->count; i++) {
        if (strcmp(options->options[i].name, name) == 0) {
            return &options->options[i];
        }
    }
    return NULL;
}

kvl_status_t kvl_options_set(kvl_options_t *options, const char *name, const char *value,
                             kvl_origin_t origin, const char *why)
{
    kvl_option_t *option = (kvl_option_t *)kvl_options_find(options, name);

    if (strlen(name) >= sizeof(option->name) || strlen(value) >= sizeof(option->value) ||
        (!option && options->count == KVL_OPTIONS_MAX)) {
        return kvl_error(KVL_ERR_CONFIG, "%s%s: too long, or more than %d of them",
                         origin_prefixes[origin], name, KVL_OPTIONS_MAX);
    }
    option = option ? option : &options->options[options->count++];
    snprintf(option->name, sizeof(option->name), "%s", name);
    snprintf(option->value, sizeof(option->value), "%s", value);
    option->applied[0] = '\0';
    option->origin     = origin;
    option->why        = why;
    return KVL_OK;
}

void kvl_options_drop(kvl_options_t *options, size_t index)
{
    kvl_option_t *option = &options->options[index];

    options->count--;
    memmove(option, option + 1, (options->count - index) * sizeof(*option));
}

const char *kvl_options_value(const kvl_options_t *options, const char *name)
{
    const kvl_option_t *option = kvl_options_find(options, name);
    char variable[80];

    snprintf(variable, sizeof(variable), "UCX_%s", name);
    return option ? option->value : getenv(variable);
}

void kvl_options_print(const kvl_options_t *options, FILE *stream)
{
    for (size_t i = 0; i < options->count; i++) {
        const kvl_option_t *option = &options->options[i];

        fprintf(stream, "%s=%s (%s%s%s)%s\n", option->name, option->value,
                origin_texts[option->origin], option->why ? ": " : "",
                option->why ? option->why : "",
                option->applied[0] || option->origin == KVL_ORIGIN_ENV ? "" : ", not in use");
    }
}
