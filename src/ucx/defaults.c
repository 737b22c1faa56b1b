/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx/defaults.h"

#include "ucx/private.h"

#include <stdlib.h>
#include <string.h>

/* Strength, from the strongest: KVLANE_CTRL_UCX_* (control context), KVLANE_UCX_*, rails that the
 * user named, plain UCX_* of the environment (read by UCX itself), automatic rails, and defaults. */

/* Did the user say anything of UCX_@a name? */
static bool options_user(const kvl_options_t *options, const char *name)
{
    return kvl_options_value(options, name) != NULL;
}

static kvl_status_t want_user(kvl_options_t *options, const kvl_config_t *config, bool ctrl)
{
    const char *name, *value;

    for (size_t i = 0; kvl_config_ucx(config, ctrl, i, &name, &value); i++) {
        kvl_status_t status =
            kvl_options_set(options, name, value, ctrl ? KVL_ORIGIN_CTRL : KVL_ORIGIN_USER, NULL);

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
    if (value[0] == '\0' || kvl_options_find(options, name) ||
        (!selection->named && options_user(options, name))) {
        return KVL_OK;
    }
    return kvl_options_set(options, name, value, KVL_ORIGIN_RAILS, why);
}

static kvl_status_t want_rails(kvl_options_t *options, const kvl_tables_t *tables,
                               const kvl_context_params_t *params)
{
    const kvl_option_t *devices = kvl_options_find(options, "NET_DEVICES");
    const char *rails = params->rails ? params->rails : kvl_config_settings(params->config)->rails;
    kvl_selection_t selection;
    kvl_status_t status;

    if (devices) {
        status = kvl_select_check(tables, "KVLANE_UCX_NET_DEVICES", devices->value);
        if (status != KVL_OK) {
            return status;
        }
    }
    status = kvl_select(tables, rails ? rails : "auto", params->device, params->ctrl, &selection);
    if (status == KVL_OK) {
        status = want_rail(options, &selection, "TLS", selection.tls,
                           params->ctrl ? "control stays off shared memory: a peer that dies there would hold up all"
                                        : "the rails asked for");
    }
    if (status == KVL_OK) {
        status = want_rail(options, &selection, "NET_DEVICES", selection.devices,
                           "else UCX spreads a transfer over unrelated devices");
    }
    return status;
}

/* kvlane's defaults. @a needs: without one of these transports (a word before the first underscore,
 * such as "rc", stands for all that begin so) the row means nothing. @a unless: it would not fit what
 * the user set there. @a from, @a until: versions that it is for, 0 for any. */
typedef struct {
    const char *name, *value, *needs, *unless, *why;
    unsigned from, until;
} default_t;

static const default_t default_rows[] = {
    {.name  = "SOCKADDR_TLS_PRIORITY",
     .value = "tcp",
     .why   = "connects over IP, with and without RDMA devices"},
    {.name  = "KEEPALIVE_INTERVAL",
     .value = "inf",
     .needs = "posix",
     .why   = "crashes where a peer died while it connected; its sockets tell of the end"},
    {.name  = "KEEPALIVE_INTERVAL",
     .value = "2s",
     .why   = "a host that went silent is noticed by this alone"},
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
    {.name   = "TCP_TX_SEG_SIZE",
     .value  = "256k",
     .needs  = "tcp",
     .unless = "TCP_RX_SEG_SIZE",
     .why    = "8k is 2 to 6 times slower"},
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
    /* the cache of registrations: of the verbs domain in 1.13, of UCP later */
    {.name  = "IB_REG_METHODS",
     .value = "direct",
     .needs = "rc",
     .why   = "kvlane registers by itself: no cache, no hooks"},
    {.name  = "RCACHE_ENABLE",
     .value = "n",
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

/* Is @a name in a list of UCX's, such as "eth0,mlx5_0:1", "all" or "^eth0"? */
static bool list_has(const char *list, const char *name)
{
    bool listed = false, negative = list[0] == '^';
    char copy[KVL_SELECT_MAX];
    char *rest, *token;

    snprintf(copy, sizeof(copy), "%s", list + negative);
    for (token = strtok_r(copy, ",", &rest); token; token = strtok_r(NULL, ",", &rest)) {
        listed |= strcmp(token, "all") == 0 || strcmp(token, name) == 0;
    }
    return listed != negative;
}

/* Does this value of TLS let UCX use @a transport? Aliases that UCX has are known here. */
static bool tls_has(const char *tls, const char *transport)
{
    static const char *const aliases[][2] = {
        {"posix", "shm"},   {"posix", "sm"},   {"posix", "mm"},     {"sysv", "shm"},
        {"sysv", "sm"},     {"sysv", "mm"},    {"rc_verbs", "rc"},  {"rc_verbs", "rc_v"},
        {"rc_verbs", "ib"}, {"rc_mlx5", "rc"}, {"rc_mlx5", "rc_x"}, {"rc_mlx5", "ib"},
        {"ud_verbs", "ud"}, {"ud_verbs", "ud_v"}, {"ud_verbs", "ib"}, {"ud_mlx5", "ud"},
        {"ud_mlx5", "ud_x"}, {"ud_mlx5", "ib"}, {"dc_mlx5", "dc"}, {"dc_mlx5", "dc_x"}, {"dc_mlx5", "ib"},
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

/* what is in force of "TLS" or "NET_DEVICES" */
static const char *options_list(const kvl_options_t *options, const char *name)
{
    const char *value = kvl_options_value(options, name);

    return value ? value : "all";
}

static const char *options_tls(const kvl_options_t *options)
{
    return options_list(options, "TLS");
}

/* a transport in use of RDMA, and if @a cuda, one that takes a GPU's memory */
static bool rdma_is_used(const kvl_options_t *options, const kvl_tables_t *tables, bool cuda)
{
    static const char *const kinds[] = {"rc_", "ud_", "dc_"};
    kvl_transport_t transport;
    size_t i, kind;

    for (i = 0; kvl_tables_transport(tables, i, &transport); i++) {
        for (kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++) {
            if (strncmp(transport.transport, kinds[kind], 3) == 0 && (transport.cuda || !cuda) &&
                tls_has(options_tls(options), transport.transport) &&
                list_has(options_list(options, "NET_DEVICES"), transport.device)) {
                return true;
            }
        }
    }
    return false;
}

bool kvl_defaults_rdma(const kvl_options_t *options, const kvl_tables_t *tables)
{
    return rdma_is_used(options, tables, false);
}

bool kvl_defaults_cuda(const kvl_options_t *options, const kvl_tables_t *tables)
{
    return rdma_is_used(options, tables, true);
}

bool kvl_defaults_allow(const char *transport, const void *options)
{
    return tls_has(options_tls(options), transport);
}

static bool default_applies(const default_t *row, const kvl_options_t *options,
                            const kvl_tables_t *tables)
{
    unsigned api = kvl_ucx_api();

    return !options_user(options, row->name) &&
           (!row->unless || !options_user(options, row->unless)) && api >= row->from &&
           (row->until == 0 || api < row->until) &&
           needs_met(tables, options_tls(options), row->needs);
}

/* UCX wants the receiving segment to be no smaller than the sending one. */
static const char *default_value(const default_t *row, const kvl_options_t *options)
{
    const char *tx = kvl_options_value(options, "TCP_TX_SEG_SIZE");
    uint64_t bytes;

    if (strcmp(row->name, "TCP_RX_SEG_SIZE") == 0 && tx &&
        kvl_parse_bytes("TCP_TX_SEG_SIZE", tx, &bytes) == KVL_OK && bytes > 256 * 1024) {
        return tx;
    }
    return row->value;
}

static kvl_status_t want_defaults(kvl_options_t *options, const kvl_tables_t *tables)
{
    for (size_t i = 0; i < sizeof(default_rows) / sizeof(default_rows[0]); i++) {
        const default_t *row = &default_rows[i];
        kvl_status_t status;

        if (!default_applies(row, options, tables)) {
            continue;
        }
        status = kvl_options_set(options, row->name, default_value(row, options),
                                 KVL_ORIGIN_DEFAULT, row->why);
        if (status != KVL_OK) {
            return status;
        }
    }
    return KVL_OK;
}

void kvl_defaults_note(kvl_options_t *options)
{
    static const char *const names[] = {"TLS", "NET_DEVICES"};
    char variable[80];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(variable, sizeof(variable), "UCX_%s", names[i]);
        if (!kvl_options_find(options, names[i]) && getenv(variable)) {
            kvl_options_set(options, names[i], getenv(variable), KVL_ORIGIN_ENV, NULL);
        }
    }
    for (size_t i = 0; i < sizeof(default_rows) / sizeof(default_rows[0]); i++) {
        snprintf(variable, sizeof(variable), "UCX_%s", default_rows[i].name);
        if (!kvl_options_find(options, default_rows[i].name) && getenv(variable)) {
            kvl_options_set(options, default_rows[i].name, getenv(variable), KVL_ORIGIN_ENV, NULL);
        }
    }
}

kvl_status_t kvl_defaults_want(kvl_options_t *options, const kvl_tables_t *tables,
                               const kvl_context_params_t *params)
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
