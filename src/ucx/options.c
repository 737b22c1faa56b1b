/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx/options.h"

#include "ucx/defaults.h"
#include "ucx/private.h"

#include "base/alloc.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>
#include <ucs/config/global_opts.h>

/* Every name goes through ucp_config_modify(), which takes three kinds of names:
 *
 *   UCP's own     TLS, RNDV_THRESH: the same on every version
 *   process-wide  LOG_LEVEL, MEM_EVENTS: would change every other user of UCX in the process, so
 *                 kvlane refuses them; UCX_LOG_LEVEL is the way
 *   transports'   TCP_TX_SEG_SIZE: newer versions know them by this name. 1.13.1 answers OK to
 *                 any name and matches it later, without the transport's own prefix, in every
 *                 table that has it; the name that hits the right tables and no others is found by
 *                 trying (tables.h). Where there is none, the option is refused.
 *
 * ucp_config_read() is called with UCX's prefix only: with kvlane's, UCX would take its own names
 * from KVLANE_UCX_*, ignore transports' names, and warn about them. */

typedef struct {
    const kvl_tables_t *tables;
    ucp_config_t *config;
    kvl_options_t *options;
    char *own;    /* text of UCP's own options */
    char *global; /* ... and of the process-wide ones */
    bool bare;    /* this UCX wants transports' names without their prefix */
} apply_t;

/* All of UCX's options of one kind as text, "UCX_NAME=value" lines. */
static char *options_text(void (*print)(FILE *stream, const ucp_config_t *config),
                          const ucp_config_t *config)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    if (!stream) {
        return NULL;
    }
    print(stream, config);
    if (fclose(stream) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

static void print_own(FILE *stream, const ucp_config_t *config)
{
    ucp_config_print(config, stream, NULL, UCS_CONFIG_PRINT_CONFIG | UCS_CONFIG_PRINT_HIDDEN);
}

static void print_global(FILE *stream, const ucp_config_t *config)
{
    (void)config;
    ucs_global_opts_print(stream, UCS_CONFIG_PRINT_CONFIG | UCS_CONFIG_PRINT_HIDDEN);
}

static bool text_has(const char *text, const char *name)
{
    char line[80];
    const char *at;

    snprintf(line, sizeof(line), "UCX_%s=", name);
    at = strstr(text, line);
    while (at && at != text && at[-1] != '\n') {
        at = strstr(at + 1, line);
    }
    return at != NULL;
}

/* A name that starts like a table that several transports share: it needs no owner. */
static bool name_shared(const char *name)
{
    return strncmp(name, "RC_", 3) == 0 || strncmp(name, "UD_", 3) == 0 ||
           strncmp(name, "DC_", 3) == 0 || strncmp(name, "MM_", 3) == 0;
}

/* 1.13.1: finds the name that reaches @a owner's tables. posix and sysv share the MM_ ones. */
static void bare_try(const apply_t *apply, const kvl_option_t *option, const char *owner,
                     const char *rest, kvl_option_t *found, kvl_tables_hit_t *hit)
{
    kvl_tables_try(apply->tables, owner, rest, option->value, hit);
    snprintf(found->applied, sizeof(found->applied), "%s", rest);
    if (hit->owned == 0) {
        kvl_tables_hit_t shared;

        snprintf(found->applied, sizeof(found->applied), "MM_%.60s", rest);
        kvl_tables_try(apply->tables, owner, found->applied, option->value, &shared);
        if (shared.owned > 0) {
            shared.other = 0;
            *hit         = shared;
        }
    }
}

static void bare_find(const apply_t *apply, kvl_option_t *option, kvl_tables_hit_t *hit_p)
{
    char owner[64];
    kvl_option_t found   = {0};
    kvl_tables_hit_t hit = {0};

    if (name_shared(option->name)) {
        kvl_tables_try(apply->tables, NULL, option->name, option->value, hit_p);
        if (hit_p->owned > 0) {
            memcpy(option->applied, option->name, sizeof(option->applied));
            return;
        }
    }
    snprintf(owner, sizeof(owner), "%s", option->name);
    for (char *end = strrchr(owner, '_'); end; end = strrchr(owner, '_')) {
        *end = '\0';
        if (!kvl_tables_owner(apply->tables, owner)) {
            continue;
        }
        bare_try(apply, option, owner, option->name + (end - owner) + 1, &found, &hit);
        if (hit.owned > 0) {
            memcpy(option->applied, found.applied, sizeof(option->applied));
            *hit_p = hit;
            return;
        }
    }
}

static kvl_status_t option_refuse(const kvl_option_t *option, const char *reason)
{
    return kvl_error(KVL_ERR_CONFIG, "%s%s=%s: %s", kvl_origin_prefix(option->origin), option->name,
                     option->value, reason);
}

static kvl_status_t option_find(const apply_t *apply, kvl_option_t *option)
{
    kvl_tables_hit_t hit = {0};
    char reason[KVL_UCX_TEXT_MAX];

    if (apply->bare) {
        bare_find(apply, option, &hit);
    } else {
        kvl_tables_try(apply->tables, NULL, option->name, option->value, &hit);
        memcpy(option->applied, option->name, sizeof(option->applied));
    }
    if (hit.bad_value) {
        return option_refuse(option, "UCX does not accept this value");
    }
    if (hit.other > 0 &&
        option->origin != KVL_ORIGIN_DEFAULT) { /* kvlane's own may reach further */
        snprintf(reason, sizeof(reason),
                 "UCX %s would change %s as well; use the environment variable UCX_%s",
                 ucp_get_version_string(), hit.also, option->name);
        return option_refuse(option, reason);
    }
    if (hit.owned == 0 && option->origin == KVL_ORIGIN_DEFAULT) {
        return KVL_ERR_NOT_FOUND;
    }
    if (hit.owned == 0) {
        snprintf(reason, sizeof(reason), "UCX %s has no such option here",
                 ucp_get_version_string());
        return option_refuse(option, reason);
    }
    if (apply->bare && hit.used == 0) { /* 1.13.1 warns of what no transport in use has taken */
        option->applied[0] = '\0';
    }
    return KVL_OK;
}

static kvl_status_t option_apply(const apply_t *apply, kvl_option_t *option)
{
    kvl_status_t status;

    if (text_has(apply->own, option->name)) {
        memcpy(option->applied, option->name, sizeof(option->applied));
    } else if (text_has(apply->global, option->name)) {
        return option_refuse(option, "it holds for the whole process; set it without KVLANE_");
    } else {
        status = option_find(apply, option);
        if (status != KVL_OK) {
            return status;
        }
    }
    if (option->applied[0] == '\0') {
        return KVL_OK;
    }
    if (kvl_ucp_fails()) {
        return kvl_ucx_error("ucp_config_modify", UCS_ERR_IO_ERROR);
    }
    return ucp_config_modify(apply->config, option->applied, option->value) == UCS_OK
               ? KVL_OK
               : option_refuse(option, "UCX does not accept this name or value");
}

static kvl_status_t options_apply_all(apply_t *apply)
{
    kvl_tables_hit_t hit;

    if (!apply->own || !apply->global) {
        return kvl_error(KVL_ERR_NO_MEMORY, "ucx options: out of memory");
    }
    kvl_tables_try(apply->tables, "TCP", "TX_SEG_SIZE", "8k", &hit);
    apply->bare = hit.owned > 0;
    for (size_t i = 0; i < apply->options->count;) {
        kvl_status_t status = option_apply(apply, &apply->options->options[i]);

        if (status == KVL_ERR_NOT_FOUND) { /* a default that this version does not know */
            kvl_options_drop(apply->options, i);
        } else if (status == KVL_OK) {
            i++;
        } else {
            return status;
        }
    }
    return KVL_OK;
}

/* Is @a line among UCP's own options as they are now? */
static bool config_has(const ucp_config_t *config, const char *line)
{
    char *text = options_text(print_own, config);
    bool has   = text && strstr(text, line);

    free(text);
    return has;
}

kvl_status_t kvl_options_apply(const kvl_context_params_t *params, kvl_tables_t *tables,
                               ucp_config_t *config, kvl_options_t **options_p)
{
    apply_t apply          = {.tables = tables, .config = config};
    kvl_options_t *options = kvl_calloc(1, sizeof(*options));
    kvl_status_t status;

    if (!options) {
        return kvl_error(KVL_ERR_NO_MEMORY, "ucx options: %zu bytes", sizeof(*options));
    }
    status = kvl_defaults_want(options, tables, params);
    if (status != KVL_OK) {
        goto err_destroy;
    }
    kvl_tables_allow(tables, kvl_defaults_allow, options);
    apply.options = options;
    apply.own     = options_text(print_own, config);
    apply.global  = options_text(print_global, NULL);
    status        = options_apply_all(&apply);
    free(apply.own);
    free(apply.global);
    if (status != KVL_OK) {
        goto err_destroy;
    }
    kvl_defaults_note(options);
    options->proto_v2 = !config_has(config, "UCX_PROTO_ENABLE=n\n");
    *options_p        = options;
    return KVL_OK;

err_destroy:
    kvl_options_destroy(options);
    return status;
}

bool kvl_options_proto_v2(const kvl_options_t *options)
{
    return options->proto_v2;
}

bool kvl_options_are(const kvl_options_t *options, const char *name, const char *value)
{
    const kvl_option_t *option = kvl_options_find(options, name);

    return option && strcmp(option->value, value) == 0;
}

void kvl_options_destroy(kvl_options_t *options)
{
    kvl_free(options);
}
