/* SPDX-License-Identifier: BSD-3-Clause */
/* A config is plain memory of one thread until an engine copied it. The text of a value that is in
 * force is kept beside what it was parsed to; settings.rails and settings.fault point into it. */
#include "base/alloc.h"
#include "base/config_row.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/log.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PREFIX          "KVLANE_"
#define PREFIX_UCX      "KVLANE_UCX_"
#define PREFIX_CTRL_UCX "KVLANE_CTRL_UCX_"
#define PREFIX_TEST     "KVLANE_TEST_"
#define NAME_SIZE       128

extern char **environ;

/* read by tools and adapters from the environment: ours, but no settings of an engine */
static const char *const foreign_names[] = {"KVLANE_LIBRARY", "KVLANE_AUTH", "KVLANE_TRACES",
                                            "KVLANE_CACHE", "KVLANE_NIXL_ADDRESS", "KVLANE_NIXL_NODE"};

static bool has_prefix(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* one more character at least, or it names nothing */
static bool is_ucx_name(const char *name)
{
    return (has_prefix(name, PREFIX_UCX) && name[strlen(PREFIX_UCX)]) ||
           (has_prefix(name, PREFIX_CTRL_UCX) && name[strlen(PREFIX_CTRL_UCX)]);
}

static bool is_foreign_name(const char *name)
{
    size_t i;

    for (i = 0; i < sizeof(foreign_names) / sizeof(foreign_names[0]); i++) {
        if (strcmp(name, foreign_names[i]) == 0) {
            return true;
        }
    }
    return has_prefix(name, PREFIX_TEST);
}

static const char *source_name(kvl_config_source_t source)
{
    return source == KVL_SOURCE_CALL ? "kvl_config_set" : "environment";
}

static kvl_status_t error_no_memory(const char *name)
{
    return kvl_error(KVL_ERR_NO_MEMORY, "config %s: no memory", name);
}

static kvl_status_t error_unknown(const char *name, kvl_config_source_t source)
{
    const char *closest = kvl_row_closest(name);

    if (closest) {
        return kvl_error(KVL_ERR_CONFIG,
                         "%s (%s): no such setting; the closest is %s; `kvlane_info -c` lists all",
                         name, source_name(source), closest);
    }
    return kvl_error(KVL_ERR_CONFIG, "%s (%s): no such setting; `kvlane_info -c` lists all", name,
                     source_name(source));
}

static kvl_status_t error_value(const kvl_row_t *row, const char *value, kvl_config_source_t source,
                                const char *why)
{
    char accepted[128];

    kvl_row_accepted(row, accepted, sizeof(accepted));
    return kvl_error(KVL_ERR_CONFIG, "%s=%s (%s): %s; accepted: %s", row->name, value,
                     source_name(source), why, accepted);
}

static kvl_status_t config_set_row(kvl_config_t *config, size_t row, const char *value,
                                   kvl_config_source_t source)
{
    char *text = kvl_strdup(value);
    const char *why;

    if (!text) {
        return error_no_memory(kvl_rows[row].name);
    }
    why = kvl_row_parse(&kvl_rows[row], text, &config->settings);
    if (why) {
        kvl_free(text);
        return error_value(&kvl_rows[row], value, source, why);
    }
    kvl_free(config->text[row]);
    config->text[row]   = text;
    config->source[row] = source;
    return KVL_OK;
}

static kvl_ucx_setting_t *config_find_ucx(const kvl_config_t *config, const char *name)
{
    size_t i;

    for (i = 0; i < config->ucx_count; i++) {
        if (strcmp(config->ucx[i].name, name) == 0) {
            return &config->ucx[i];
        }
    }
    return NULL;
}

/* a new, empty place at the end */
static kvl_ucx_setting_t *config_add_ucx(kvl_config_t *config, const char *name)
{
    size_t size            = (config->ucx_count + 1) * sizeof(*config->ucx);
    char *copy             = kvl_strdup(name);
    kvl_ucx_setting_t *ucx = copy ? kvl_realloc(config->ucx, size) : NULL;

    if (!ucx) {
        kvl_free(copy);
        return NULL;
    }
    config->ucx = ucx;
    ucx         = &config->ucx[config->ucx_count++];
    *ucx        = (kvl_ucx_setting_t){.name = copy};
    return ucx;
}

static kvl_status_t config_set_ucx(kvl_config_t *config, const char *name, const char *value,
                                   kvl_config_source_t source)
{
    kvl_ucx_setting_t *ucx = config_find_ucx(config, name);
    char *copy;

    if (!*value) { /* UCX takes it for "none": no transports, no devices; who means that? */
        return kvl_error(KVL_ERR_CONFIG, "%s= (%s): empty; unset it for UCX's or kvlane's default, or give a value",
                         name, source_name(source));
    }
    copy = kvl_strdup(value);
    if (copy && !ucx) {
        ucx = config_add_ucx(config, name);
    }
    if (!copy || !ucx) {
        kvl_free(copy);
        return error_no_memory(name);
    }
    kvl_free(ucx->value);
    ucx->value  = copy;
    ucx->source = source;
    return KVL_OK;
}

static kvl_status_t config_assign(kvl_config_t *config, const char *name, const char *value,
                                  kvl_config_source_t source)
{
    size_t row = kvl_row_find(name);

    if (row < KVL_ROWS) {
        return config_set_row(config, row, value, source);
    }
    if (is_ucx_name(name)) {
        return config_set_ucx(config, name, value, source);
    }
    return error_unknown(name, source);
}

/* one "NAME=VALUE" that starts with our prefix */
static kvl_status_t config_read_variable(kvl_config_t *config, const char *variable)
{
    char name[NAME_SIZE];
    size_t length = strcspn(variable, "=");

    if (length >= sizeof(name)) {
        return kvl_error(KVL_ERR_CONFIG, "%.40s... (environment): name over %d characters",
                         variable, NAME_SIZE - 1);
    }
    snprintf(name, sizeof(name), "%.*s", (int)length, variable);
    if (is_foreign_name(name)) {
        return KVL_OK;
    }
    return config_assign(config, name, variable + length + (variable[length] == '='),
                         KVL_SOURCE_ENVIRONMENT);
}

static kvl_status_t config_read_environment(kvl_config_t *config)
{
    char **variable;

    for (variable = environ; variable && *variable; variable++) {
        if (has_prefix(*variable, PREFIX)) {
            kvl_status_t st = config_read_variable(config, *variable);

            if (st != KVL_OK) {
                return st;
            }
        }
    }
    return KVL_OK;
}

static void config_set_defaults(kvl_config_t *config)
{
    size_t i;

    for (i = 0; i < KVL_ROWS; i++) {
        const char *why = kvl_row_parse(&kvl_rows[i], kvl_rows[i].initial, &config->settings);

        assert(!why);
        (void)why;
    }
}

static kvl_config_t *config_new(void)
{
    kvl_config_t *config = kvl_calloc(1, sizeof(*config));

    if (!config) {
        error_no_memory("create");
        return NULL;
    }
    config_set_defaults(config);
    return config;
}

kvl_status_t kvl_config_create(kvl_config_t **config_p)
{
    kvl_config_t *config;
    kvl_status_t st;

    if (!config_p) {
        return kvl_error(KVL_ERR_INVALID, "kvl_config_create: config_p is NULL");
    }
    config = config_new();
    if (!config) {
        return KVL_ERR_NO_MEMORY;
    }
    st = config_read_environment(config);
    if (st != KVL_OK) {
        kvl_config_destroy(config);
        return st;
    }
    *config_p = config;
    return KVL_OK;
}

static kvl_status_t config_copy_values(kvl_config_t *to, const kvl_config_t *from)
{
    kvl_status_t st = KVL_OK;
    size_t i;

    for (i = 0; i < KVL_ROWS && st == KVL_OK; i++) {
        if (from->text[i]) {
            st = config_set_row(to, i, from->text[i], from->source[i]);
        }
    }
    for (i = 0; i < from->ucx_count && st == KVL_OK; i++) {
        st = config_set_ucx(to, from->ucx[i].name, from->ucx[i].value, from->ucx[i].source);
    }
    return st;
}

kvl_status_t kvl_config_copy(const kvl_config_t *source, kvl_config_t **config_p)
{
    kvl_config_t *config;
    kvl_status_t st;

    if (!source) {
        return kvl_config_create(config_p);
    }
    config = config_new();
    if (!config) {
        return KVL_ERR_NO_MEMORY;
    }
    st = config_copy_values(config, source);
    if (st != KVL_OK) {
        kvl_config_destroy(config);
        return st;
    }
    *config_p = config;
    return KVL_OK;
}

kvl_status_t kvl_config_set(kvl_config_t *config, const char *name, const char *value)
{
    if (!config || !name || !value) {
        return kvl_error(KVL_ERR_INVALID, "kvl_config_set: config, name or value is NULL");
    }
    return config_assign(config, name, value, KVL_SOURCE_CALL);
}

const char *kvl_config_get(const kvl_config_t *config, const char *name)
{
    const kvl_ucx_setting_t *ucx;
    size_t row;

    if (!config || !name) {
        return NULL;
    }
    row = kvl_row_find(name);
    if (row < KVL_ROWS) {
        return config->text[row] ? config->text[row] : kvl_rows[row].initial;
    }
    ucx = config_find_ucx(config, name);
    return ucx ? ucx->value : NULL;
}

const kvl_settings_t *kvl_config_settings(const kvl_config_t *config)
{
    return &config->settings;
}

bool kvl_config_ucx(const kvl_config_t *config, bool ctrl, size_t index, const char **name_p,
                    const char **value_p)
{
    const char *prefix = ctrl ? PREFIX_CTRL_UCX : PREFIX_UCX;
    size_t i;

    for (i = 0; i < config->ucx_count; i++) {
        if (has_prefix(config->ucx[i].name, prefix) && index-- == 0) {
            *name_p  = config->ucx[i].name + strlen(prefix);
            *value_p = config->ucx[i].value;
            return true;
        }
    }
    return false;
}

/* Only what somebody asked for: an engine with defaults must not undo what a test, or another engine
 * of the process, has set. */
void kvl_config_apply_process(const kvl_config_t *config)
{
    const kvl_settings_t *settings = &config->settings;

    if (config->source[kvl_row_find("KVLANE_LOG_LEVEL")] != KVL_SOURCE_DEFAULT) {
        __atomic_store_n(&kvl_log_level, (kvl_log_level_t)settings->log_level, __ATOMIC_RELAXED);
    }
    if (config->source[kvl_row_find("KVLANE_FAULT")] != KVL_SOURCE_DEFAULT) {
        /* cannot fail: the rules were checked when they were set */
        (void)kvl_fault_update(settings->fault, settings->fault_seed);
    }
}

void kvl_config_destroy(kvl_config_t *config)
{
    size_t i;

    if (!config) {
        return;
    }
    for (i = 0; i < KVL_ROWS; i++) {
        kvl_free(config->text[i]);
    }
    for (i = 0; i < config->ucx_count; i++) {
        kvl_free(config->ucx[i].name);
        kvl_free(config->ucx[i].value);
    }
    kvl_free(config->ucx);
    kvl_free(config);
}
