/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx/private.h"

#include "ucx/tables.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"

#include <ctype.h>
#include <string.h>
#include <uct/api/uct.h>

/* Reads UCT's inventory once per kvl_context_create(), then forgets it.
 *
 * A component has memory domains; a memory domain has transports; a transport has devices. Each of
 * them, and each connection manager, has a table of options. Only UCT itself can tell what is in a
 * table: kvl_tables_try() sets the option in a private copy that nobody uses. What cannot be opened
 * (no permission, no device) is simply not there. */

typedef struct {
    char owner[UCT_TL_NAME_MAX + UCT_COMPONENT_NAME_MAX]; /* upper case */
    char component[UCT_COMPONENT_NAME_MAX];
    char transport[UCT_TL_NAME_MAX]; /* "": of the memory domain or connection manager */
    bool manager;
    bool used;
    void *config;
} table_t;

typedef struct {
    char component[UCT_COMPONENT_NAME_MAX];
    char transport[UCT_TL_NAME_MAX];
    char device[UCT_DEVICE_NAME_MAX];
    bool network, cuda;
} device_t;

struct kvl_tables {
    table_t *tables;
    size_t table_count;
    device_t *devices;
    size_t device_count;
    bool failed; /* an allocation did */
};

static void *tables_grow(kvl_tables_t *tables, void *array, size_t count, size_t size)
{
    void *grown = kvl_realloc(array, (count + 1) * size);

    tables->failed |= !grown;
    return grown;
}

static void text_upper(char *upper, size_t size, const char *text)
{
    size_t i;

    for (i = 0; text[i] && i + 1 < size; i++) {
        upper[i] = (char)toupper((unsigned char)text[i]);
    }
    upper[i] = '\0';
}

/* Takes @a config. @a transport NULL: of the component itself. */
static table_t *tables_add(kvl_tables_t *tables, const char *component, const char *transport,
                           void *config)
{
    table_t *grown =
        tables_grow(tables, tables->tables, tables->table_count, sizeof(*tables->tables));

    if (!grown) {
        uct_config_release(config);
        return NULL;
    }
    tables->tables = grown;
    grown += tables->table_count++;
    *grown = (table_t){.used = true, .config = config};
    text_upper(grown->owner, sizeof(grown->owner), transport ? transport : component);
    snprintf(grown->component, sizeof(grown->component), "%s", component);
    snprintf(grown->transport, sizeof(grown->transport), "%s", transport ? transport : "");
    return grown;
}

static void tables_add_device(kvl_tables_t *tables, const char *component,
                              const uct_tl_resource_desc_t *resource, bool cuda)
{
    device_t *grown =
        tables_grow(tables, tables->devices, tables->device_count, sizeof(*tables->devices));

    if (!grown) {
        return;
    }
    tables->devices = grown;
    grown += tables->device_count++;
    snprintf(grown->component, sizeof(grown->component), "%s", component);
    snprintf(grown->transport, sizeof(grown->transport), "%s", resource->tl_name);
    snprintf(grown->device, sizeof(grown->device), "%s", resource->dev_name);
    grown->network = resource->dev_type == UCT_DEVICE_TYPE_NET;
    grown->cuda    = cuda;
}

static bool tables_seen(const kvl_tables_t *tables, const char *transport)
{
    for (size_t i = 0; i < tables->device_count; i++) {
        if (strcmp(tables->devices[i].transport, transport) == 0) {
            return true;
        }
    }
    return false;
}

static void tables_read_transports(kvl_tables_t *tables, const char *component, uct_md_h md)
{
    uct_tl_resource_desc_t *resources;
    uct_iface_config_t *config;
    uct_md_attr_t attr;
    unsigned count;
    bool cuda;

    cuda = uct_md_query(md, &attr) == UCS_OK && (attr.cap.reg_mem_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA));
    if (uct_md_query_tl_resources(md, &resources, &count) != UCS_OK) {
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        if (!tables_seen(tables, resources[i].tl_name) &&
            uct_md_iface_config_read(md, resources[i].tl_name, NULL, NULL, &config) == UCS_OK) {
            tables_add(tables, component, resources[i].tl_name, config);
        }
        tables_add_device(tables, component, &resources[i], cuda);
    }
    uct_release_tl_resource_list(resources);
}

/* Opens each memory domain just to see its transports; their tables outlive it. */
static void tables_read_domains(kvl_tables_t *tables, uct_component_h component,
                                const uct_component_attr_t *attr)
{
    uct_md_config_t *config;
    uct_md_h md;

    if ((attr->flags & UCT_COMPONENT_FLAG_CM) && attr->md_resource_count == 0) {
        return; /* a connection manager alone: asking for its options logs an error */
    }
    if (uct_md_config_read(component, NULL, NULL, &config) != UCS_OK) {
        return;
    }
    for (unsigned i = 0; i < attr->md_resource_count; i++) {
        if (uct_md_open(component, attr->md_resources[i].md_name, config, &md) == UCS_OK) {
            tables_read_transports(tables, attr->name, md);
            uct_md_close(md);
        }
    }
    tables_add(tables, attr->name, NULL, config);
}

static void tables_read_component(kvl_tables_t *tables, uct_component_h component)
{
    uct_component_attr_t attr = {
        .field_mask = UCT_COMPONENT_ATTR_FIELD_NAME | UCT_COMPONENT_ATTR_FIELD_FLAGS |
                      UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT,
    };
    uct_cm_config_t *config;
    table_t *table;

    if (uct_component_query(component, &attr) != UCS_OK) {
        return;
    }
    if ((attr.flags & UCT_COMPONENT_FLAG_CM) &&
        uct_cm_config_read(component, NULL, NULL, &config) == UCS_OK) {
        table = tables_add(tables, attr.name, NULL, config);
        if (table) {
            table->manager = true;
        }
    }
    attr.field_mask   = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
    attr.md_resources = kvl_calloc(attr.md_resource_count + 1, sizeof(*attr.md_resources));
    if (!attr.md_resources) {
        tables->failed = true;
        return;
    }
    if (uct_component_query(component, &attr) == UCS_OK) {
        tables_read_domains(tables, component, &attr);
    }
    kvl_free(attr.md_resources);
}

kvl_status_t kvl_tables_create(kvl_tables_t **tables_p)
{
    kvl_tables_t *tables = kvl_calloc(1, sizeof(*tables));
    uct_component_h *components;
    unsigned count;
    ucs_status_t status;

    if (!tables) {
        return kvl_error(KVL_ERR_NO_MEMORY, "ucx options: out of memory");
    }
    status = uct_query_components(&components, &count);
    if (status != UCS_OK) {
        kvl_free(tables);
        return kvl_ucx_error("uct_query_components", status);
    }
    for (unsigned i = 0; i < count; i++) {
        tables_read_component(tables, components[i]);
    }
    uct_release_component_list(components);
    if (tables->failed) {
        kvl_tables_destroy(tables);
        return kvl_error(KVL_ERR_NO_MEMORY, "ucx options: out of memory");
    }
    *tables_p = tables;
    return KVL_OK;
}

void kvl_tables_destroy(kvl_tables_t *tables)
{
    if (!tables) {
        return;
    }
    for (size_t i = 0; i < tables->table_count; i++) {
        uct_config_release(tables->tables[i].config);
    }
    kvl_free(tables->tables);
    kvl_free(tables->devices);
    kvl_free(tables);
}

bool kvl_tables_transport(const kvl_tables_t *tables, size_t index, kvl_transport_t *transport_p)
{
    const device_t *device;

    if (index >= tables->device_count) {
        return false;
    }
    device       = &tables->devices[index];
    *transport_p = (kvl_transport_t){device->transport, device->device, device->network, device->cuda};
    return true;
}

void kvl_tables_list(const kvl_tables_t *tables, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < tables->device_count && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%s/%s", i ? " " : "",
                                 tables->devices[i].transport, tables->devices[i].device);
    }
}

/* A connection manager is used whatever the transports are. */
static bool table_used(const kvl_tables_t *tables, const table_t *table,
                       kvl_tables_allow_func_t allow, const void *arg)
{
    for (size_t i = 0; i < tables->device_count; i++) {
        const device_t *device = &tables->devices[i];
        bool mine = table->transport[0] ? strcmp(device->transport, table->transport) == 0
                                        : strcmp(device->component, table->component) == 0;

        if (mine && allow(device->transport, arg)) {
            return true;
        }
    }
    return table->manager;
}

void kvl_tables_allow(kvl_tables_t *tables, kvl_tables_allow_func_t allow, const void *arg)
{
    for (size_t i = 0; i < tables->table_count; i++) {
        tables->tables[i].used = table_used(tables, &tables->tables[i], allow, arg);
    }
}

static bool table_owned(const table_t *table, const char *owner)
{
    size_t length = owner ? strlen(owner) : 0;

    return !owner || (strncmp(table->owner, owner, length) == 0 &&
                      (table->owner[length] == '\0' || table->owner[length] == '_'));
}

void kvl_tables_try(const kvl_tables_t *tables, const char *owner, const char *name,
                    const char *value, kvl_tables_hit_t *hit_p)
{
    *hit_p = (kvl_tables_hit_t){0};
    for (size_t i = 0; i < tables->table_count; i++) {
        const table_t *table = &tables->tables[i];
        ucs_status_t status  = uct_config_modify(table->config, name, value);

        if (status == UCS_ERR_NO_ELEM) {
            continue;
        }
        if (table_owned(table, owner)) {
            hit_p->owned++;
            hit_p->used += table->used;
            hit_p->bad_value |= status != UCS_OK;
        } else {
            hit_p->other++;
            snprintf(hit_p->also, sizeof(hit_p->also), "%s", table->owner);
        }
    }
}

bool kvl_tables_owner(const kvl_tables_t *tables, const char *owner)
{
    for (size_t i = 0; i < tables->table_count; i++) {
        if (table_owned(&tables->tables[i], owner)) {
            return true;
        }
    }
    return false;
}
