/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx/options.h"

#include "ucx/private.h"
#include "ucx/select.h"

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

#define OPTIONS_MAX 64

typedef enum {
    ORIGIN_USER,    /* KVLANE_UCX_* */
    ORIGIN_CTRL,    /* KVLANE_CTRL_UCX_* */
    ORIGIN_RAILS,   /* from KVLANE_RAILS and the peer's address */
    ORIGIN_DEFAULT, /* kvlane's default */
    ORIGIN_ENV,     /* plain UCX_*, left alone: shown only */
    ORIGIN_COUNT
} origin_t;

typedef struct {
    char name[64];
    char value[KVL_SELECT_MAX];
    char applied[64]; /* the name that this UCX took; "": nothing here has it */
    const char *why;  /* static */
    origin_t origin;
} option_t;

struct kvl_options {
    bool proto_v2; /* the protocols in force: PROTO_ENABLE as UCX has it now */
    size_t count;
    option_t options[OPTIONS_MAX];
};

typedef struct {
    const kvl_tables_t *tables;
    ucp_config_t *config;
    kvl_options_t *options;
    char *own;    /* text of UCP's own options */
    char *global; /* ... and of the process-wide ones */
    bool bare;    /* this UCX wants transports' names without their prefix */
} apply_t;

static const char *const origin_prefixes[ORIGIN_COUNT] = {
    [ORIGIN_USER] = "KVLANE_UCX_", [ORIGIN_CTRL] = "KVLANE_CTRL_UCX_",
    [ORIGIN_RAILS] = "UCX_",       [ORIGIN_DEFAULT] = "UCX_",
    [ORIGIN_ENV] = "UCX_",
};

static const char *const origin_texts[ORIGIN_COUNT] = {
    [ORIGIN_USER]    = "KVLANE_UCX_",
    [ORIGIN_CTRL]    = "KVLANE_CTRL_UCX_",
    [ORIGIN_RAILS]   = "KVLANE_RAILS",
    [ORIGIN_DEFAULT] = "kvlane's default",
    [ORIGIN_ENV]     = "environment, left to UCX",
};

static const option_t *options_find(const kvl_options_t *options, const char *name)
{
    for (size_t i = 0; i < options->count; i++) {
        if (strcmp(options->options[i].name, name) == 0) {
            return &options->options[i];
        }
    }
    return NULL;
}

static kvl_status_t options_set(kvl_options_t *options, const char *name, const char *value,
                                origin_t origin, const char *why)
{
    option_t *option = (option_t *)options_find(options, name);

    if (strlen(name) >= sizeof(option->name) || strlen(value) >= sizeof(option->value) ||
        (!option && options->count == OPTIONS_MAX)) {
        return kvl_error(KVL_ERR_CONFIG, "%s%s: too long, or more than %d of them",
                         origin_prefixes[origin], name, OPTIONS_MAX);
    }
    option = option ? option : &options->options[options->count++];
    snprintf(option->name, sizeof(option->name), "%s", name);
    snprintf(option->value, sizeof(option->value), "%s", value);
    option->applied[0] = '\0';
    option->origin     = origin;
    option->why        = why;
    return KVL_OK;
}

/* Did the user say anything of UCX_@a name? */
static bool options_user(const kvl_options_t *options, const char *name)
{
    char variable[80];

    snprintf(variable, sizeof(variable), "UCX_%s", name);
    return options_find(options, name) || getenv(variable);
}

/* ---- what is wanted ---- */

static kvl_status_t want_user(kvl_options_t *options, const kvl_config_t *config, bool ctrl)
{
    const char *name, *value;

    for (size_t i = 0; kvl_config_ucx(config, ctrl, i, &name, &value); i++) {
        kvl_status_t status =
            options_set(options, name, value, ctrl ? ORIGIN_CTRL : ORIGIN_USER, NULL);

        if (status != KVL_OK) {
            return status;
        }
    }
    return KVL_OK;
}

/* An option from KVLANE_RAILS: KVLANE_UCX_* is stronger; plain UCX_* only if no rail was named. */
static kvl_status_t want_rail(kvl_options_t *options, const kvl_selection_t *selection,
                              const char *name, const char *value, const char *why)
{
    if (value[0] == '\0' || options_find(options, name) ||
        (!selection->named && options_user(options, name))) {
        return KVL_OK;
    }
    return options_set(options, name, value, ORIGIN_RAILS, why);
}

static kvl_status_t want_rails(kvl_options_t *options, const kvl_tables_t *tables,
                               const kvl_context_params_t *params)
{
    const option_t *devices = options_find(options, "NET_DEVICES");
    const char *rails       = kvl_config_settings(params->config)->rails;
    kvl_selection_t selection;
    kvl_status_t status;

    if (devices) {
        status = kvl_select_check(tables, "KVLANE_UCX_NET_DEVICES", devices->value);
        if (status != KVL_OK) {
            return status;
        }
    }
    status = kvl_select(tables, rails ? rails : "auto", params->device, &selection);
    if (status == KVL_OK) {
        status = want_rail(options, &selection, "TLS", selection.tls, "the rails asked for");
    }
    if (status == KVL_OK) {
        status = want_rail(options, &selection, "NET_DEVICES", selection.devices,
                           "else UCX spreads a transfer over unrelated devices");
    }
    return status;
}

/* kvlane's defaults. @a needs: without one of these transports (a word before the first underscore,
 * such as "rc", stands for all that begin so) the row means nothing. @a from, @a until: versions that
 * it is for, 0 for any. */
typedef struct {
    const char *name, *value, *needs, *why;
    unsigned from, until;
} default_t;

static const default_t default_rows[] = {
    {.name  = "SOCKADDR_TLS_PRIORITY",
     .value = "tcp",
     .why   = "connects over IP, with and without RDMA devices"},
    {.name  = "KEEPALIVE_INTERVAL",
     .value = "2s",
     .why   = "a dead peer on shared memory is noticed by this alone"},
    {.name  = "TCP_CM_REUSEADDR",
     .value = "y",
     .why   = "a node that is started again listens at its old address at once"},
    {.name  = "POSIX_ERROR_HANDLING",
     .value = "y",
     .needs = "posix",
     .why   = "off by default; without it no shared memory"},
    {.name  = "SYSV_ERROR_HANDLING",
     .value = "y",
     .needs = "sysv",
     .why   = "off by default; without it no shared memory"},
    {.name  = "TCP_TX_SEG_SIZE",
     .value = "256k",
     .needs = "tcp",
     .why   = "8k is 2 to 6 times slower"},
    {.name = "TCP_RX_SEG_SIZE", .value = "256k", .needs = "tcp", .why = "not below the sender's"},
    {.name  = "TCP_PUT_ENABLE",
     .value = "n",
     .needs = "tcp",
     .why   = "else messages over shared memory and verbs detour over tcp"},
    {.name  = "PROTO_ENABLE",
     .value = "n",
     .needs = "rc",
     .why   = "the new protocols emulate each get over verbs",
     .from  = UCP_VERSION(1, 16),
     .until = UCP_VERSION(1, 19)},
    {.name  = "IB_REG_METHODS",
     .value = "direct",
     .needs = "rc",
     .why   = "kvlane registers by itself: no cache, no hooks"},
    {.name  = "RC_TIMEOUT",
     .value = "50ms",
     .needs = "rc",
     .why   = "a broken link is noticed in half a second"},
    {.name  = "RC_RETRY_COUNT",
     .value = "4",
     .needs = "rc",
     .why   = "a broken link is noticed in half a second"},
};

/* Does this value of TLS let UCX use @a transport? Aliases that UCX has are known here. */
static bool tls_has(const char *tls, const char *transport)
{
    static const char *const aliases[][2] = {
        {"posix", "shm"},   {"posix", "sm"},   {"posix", "mm"},     {"sysv", "shm"},
        {"sysv", "sm"},     {"sysv", "mm"},    {"rc_verbs", "rc"},  {"rc_verbs", "rc_v"},
        {"rc_verbs", "ib"}, {"rc_mlx5", "rc"}, {"rc_mlx5", "rc_x"}, {"rc_mlx5", "ib"},
    };
    bool listed = false, negative = tls[0] == '^';
    char copy[KVL_SELECT_MAX];
    char *rest, *token;

    snprintf(copy, sizeof(copy), "%s", tls + negative);
    for (token = strtok_r(copy, ",", &rest); token; token = strtok_r(NULL, ",", &rest)) {
        token += token[0] == '\\';
        listed |= strcmp(token, "all") == 0 || strcmp(token, transport) == 0;
        for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++) {
            listed |= strcmp(aliases[i][0], transport) == 0 && strcmp(aliases[i][1], token) == 0;
        }
    }
    return listed != negative;
}

/* Is a transport that @a needs asks for here, and allowed? */
static bool needs_met(const kvl_tables_t *tables, const char *tls, const char *needs)
{
    size_t length = needs ? strlen(needs) : 0;
    kvl_transport_t transport;

    for (size_t i = 0; needs && kvl_tables_transport(tables, i, &transport); i++) {
        const char *name = transport.transport;

        if (strncmp(name, needs, length) == 0 && (name[length] == '\0' || name[length] == '_') &&
            tls_has(tls, name)) {
            return true;
        }
    }
    return !needs;
}

static const char *options_tls(const kvl_options_t *options)
{
    const option_t *tls     = options_find(options, "TLS");
    const char *environment = getenv("UCX_TLS");

    return tls ? tls->value : environment ? environment : "all";
}

static bool default_applies(const default_t *row, const kvl_options_t *options,
                            const kvl_tables_t *tables)
{
    unsigned api = kvl_ucx_api();

    return !options_user(options, row->name) && api >= row->from &&
           (row->until == 0 || api < row->until) &&
           needs_met(tables, options_tls(options), row->needs);
}

static kvl_status_t want_defaults(kvl_options_t *options, const kvl_tables_t *tables)
{
    for (size_t i = 0; i < sizeof(default_rows) / sizeof(default_rows[0]); i++) {
        const default_t *row = &default_rows[i];
        kvl_status_t status;

        if (!default_applies(row, options, tables)) {
            continue;
        }
        status = options_set(options, row->name, row->value, ORIGIN_DEFAULT, row->why);
        if (status != KVL_OK) {
            return status;
        }
    }
    return KVL_OK;
}

/* ---- how this UCX takes it ---- */

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
static void bare_try(const apply_t *apply, const option_t *option, const char *owner,
                     const char *rest, option_t *found, kvl_tables_hit_t *hit)
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

static void bare_find(const apply_t *apply, option_t *option, kvl_tables_hit_t *hit_p)
{
    char owner[64];
    option_t found       = {0};
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

static kvl_status_t option_refuse(const option_t *option, const char *reason)
{
    return kvl_error(KVL_ERR_CONFIG, "%s%s=%s: %s", origin_prefixes[option->origin], option->name,
                     option->value, reason);
}

static kvl_status_t option_find(const apply_t *apply, option_t *option)
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
    if (hit.other > 0 && option->origin != ORIGIN_DEFAULT) { /* kvlane's own may reach further */
        snprintf(reason, sizeof(reason),
                 "UCX %s would change %s as well; use the environment variable UCX_%s",
                 ucp_get_version_string(), hit.also, option->name);
        return option_refuse(option, reason);
    }
    if (hit.owned == 0) {
        snprintf(reason, sizeof(reason), "UCX %s has no such option here",
                 ucp_get_version_string());
        return option_refuse(option, reason);
    }
    return KVL_OK;
}

static kvl_status_t option_apply(const apply_t *apply, option_t *option)
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
    for (size_t i = 0; i < apply->options->count; i++) {
        kvl_status_t status = option_apply(apply, &apply->options->options[i]);

        if (status != KVL_OK) {
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

/* UCX_* of the user where kvlane would have set something: for the listing. */
static void options_note_env(kvl_options_t *options)
{
    static const char *const names[] = {"TLS", "NET_DEVICES"};
    char variable[80];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(variable, sizeof(variable), "UCX_%s", names[i]);
        if (!options_find(options, names[i]) && getenv(variable)) {
            options_set(options, names[i], getenv(variable), ORIGIN_ENV, NULL);
        }
    }
    for (size_t i = 0; i < sizeof(default_rows) / sizeof(default_rows[0]); i++) {
        snprintf(variable, sizeof(variable), "UCX_%s", default_rows[i].name);
        if (!options_find(options, default_rows[i].name) && getenv(variable)) {
            options_set(options, default_rows[i].name, getenv(variable), ORIGIN_ENV, NULL);
        }
    }
}

static kvl_status_t options_want(const kvl_context_params_t *params, const kvl_tables_t *tables,
                                 kvl_options_t *options)
{
    kvl_status_t status = want_user(options, params->config, false);

    if (status == KVL_OK && params->ctrl) {
        status = want_user(options, params->config, true);
    }
    if (status == KVL_OK) {
        status = want_rails(options, tables, params);
    }
    if (status == KVL_OK) {
        status = want_defaults(options, tables);
    }
    return status;
}

kvl_status_t kvl_options_apply(const kvl_context_params_t *params, const kvl_tables_t *tables,
                               ucp_config_t *config, kvl_options_t **options_p)
{
    apply_t apply          = {.tables = tables, .config = config};
    kvl_options_t *options = kvl_calloc(1, sizeof(*options));
    kvl_status_t status;

    if (!options) {
        return kvl_error(KVL_ERR_NO_MEMORY, "ucx options: %zu bytes", sizeof(*options));
    }
    status = options_want(params, tables, options);
    if (status != KVL_OK) {
        goto err_destroy;
    }
    apply.options = options;
    apply.own     = options_text(print_own, config);
    apply.global  = options_text(print_global, NULL);
    status        = options_apply_all(&apply);
    free(apply.own);
    free(apply.global);
    if (status != KVL_OK) {
        goto err_destroy;
    }
    options_note_env(options);
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
    const option_t *option = options_find(options, name);

    return option && strcmp(option->value, value) == 0;
}

void kvl_options_destroy(kvl_options_t *options)
{
    kvl_free(options);
}

void kvl_options_print(const kvl_options_t *options, FILE *stream)
{
    for (size_t i = 0; i < options->count; i++) {
        const option_t *option = &options->options[i];

        fprintf(stream, "%s=%s (%s%s%s)\n", option->name, option->value,
                origin_texts[option->origin], option->why ? ": " : "",
                option->why ? option->why : "");
    }
}
