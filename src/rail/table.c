/* SPDX-License-Identifier: BSD-3-Clause */
#include "rail/table.h"

#include "base/alloc.h"
#include "base/error.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Rows are copied in and stay sorted, so that the same devices give the same table in whatever order
 * the system names them: decisions number rails by their place. */

kvl_status_t kvl_rail_table_create(kvl_rail_table_t **table_p)
{
    kvl_rail_table_t *table = kvl_calloc(1, sizeof(*table));

    if (!table) {
        return kvl_error(KVL_ERR_NO_MEMORY, "rails: out of memory");
    }
    *table_p = table;
    return KVL_OK;
}

void kvl_rail_table_destroy(kvl_rail_table_t *table)
{
    if (table) {
        kvl_free(table->rails);
        kvl_free(table->gpus);
        kvl_free(table->nodes);
        kvl_free(table);
    }
}

const char *kvl_rail_kind_name(kvl_rail_kind_t kind)
{
    static const char *const names[] = {"rdma", "tcp", "shm"};

    return names[kind];
}

const char *kvl_port_state_name(kvl_port_state_t state)
{
    static const char *const names[] = {"unknown", "up", "down"};

    return names[state];
}

const char *kvl_link_layer_name(kvl_link_layer_t layer)
{
    static const char *const names[] = {"unknown", "ethernet", "infiniband", "loopback"};

    return names[layer];
}

/* the digits at both places as numbers of any length; moves both past them */
static int compare_numbers(const char **a_p, const char **b_p)
{
    const char *a = *a_p, *b = *b_p;
    size_t a_length, b_length;
    int order;

    a += strspn(a, "0");
    b += strspn(b, "0");
    a_length = strspn(a, "0123456789");
    b_length = strspn(b, "0123456789");
    order    = a_length == b_length ? strncmp(a, b, a_length) : a_length < b_length ? -1 : 1;
    *a_p     = a + a_length;
    *b_p     = b + b_length;
    return order;
}

int kvl_rail_name_compare(const char *a, const char *b)
{
    const char *from_a = a, *from_b = b;

    while (*a && *b) {
        int order;

        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            order = compare_numbers(&a, &b);
        } else {
            order = (unsigned char)*a++ - (unsigned char)*b++;
        }
        if (order != 0) {
            return order;
        }
    }
    /* "a01" and "a1" are two names */
    return *a || *b ? (*a ? 1 : -1) : strcmp(from_a, from_b);
}

static int rail_compare(const void *a_v, const void *b_v)
{
    const kvl_rail_t *a = a_v, *b = b_v;

    return a->kind != b->kind ? (int)a->kind - (int)b->kind
                              : kvl_rail_name_compare(a->name, b->name);
}

static int gpu_compare(const void *a_v, const void *b_v)
{
    const kvl_gpu_t *a = a_v, *b = b_v;

    return strcmp(a->pci.address, b->pci.address);
}

static int node_compare(const void *a_v, const void *b_v)
{
    const kvl_numa_node_t *a = a_v, *b = b_v;

    return a->node < b->node ? -1 : a->node > b->node;
}

typedef struct {
    void *rows;
    size_t count, size, max;
    int (*compare)(const void *a, const void *b);
} rows_t;

/* Makes room for @a row in its sorted place and copies it there. */
static kvl_status_t rows_add(rows_t *rows, const void *row, const char *what, const char *name)
{
    size_t at = rows->count;
    char *grown;

    while (at > 0 && rows->compare((char *)rows->rows + (at - 1) * rows->size, row) > 0) {
        at--;
    }
    if (at > 0 && rows->compare((char *)rows->rows + (at - 1) * rows->size, row) == 0) {
        return kvl_error(KVL_ERR_INVALID, "%s %s: twice in the table", what, name);
    }
    if (rows->count == rows->max) {
        return kvl_error(KVL_ERR_LIMIT, "%s %s: the table is full with %zu", what, name, rows->max);
    }
    grown = kvl_realloc(rows->rows, (rows->count + 1) * rows->size);
    if (!grown) {
        return kvl_error(KVL_ERR_NO_MEMORY, "%s %s: out of memory", what, name);
    }
    rows->rows = grown;
    memmove(grown + (at + 1) * rows->size, grown + at * rows->size,
            (rows->count - at) * rows->size);
    memcpy(grown + at * rows->size, row, rows->size);
    rows->count++;
    return KVL_OK;
}

/* a name that KVLANE_RAILS can say */
static bool name_is_good(const kvl_rail_t *rail)
{
    static const char *const words[] = {"auto", "tcp", "shm", "rdma", "all"};
    const char *name                 = rail->name;

    if (!memchr(name, '\0', sizeof(rail->name))) {
        return false;
    }
    if (rail->kind == KVL_RAIL_SHM) {
        return strcmp(name, "shm") == 0;
    }
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(name, words[i]) == 0) {
            return false;
        }
    }
    for (const char *at = name; *at; at++) {
        if (!isascii((unsigned char)*at) || !isgraph((unsigned char)*at) ||
            strchr(",/^*?[\"\\", *at)) {
            return false;
        }
    }
    return name[0] != '\0';
}

kvl_status_t kvl_rail_table_add(kvl_rail_table_t *table, const kvl_rail_t *rail)
{
    rows_t rows = {table->rails, table->rail_count, sizeof(*rail), KVL_TABLE_MAX, rail_compare};
    kvl_status_t status;

    if (!name_is_good(rail)) {
        return kvl_error(KVL_ERR_INVALID, "rail '%.*s': KVLANE_RAILS cannot name it",
                         (int)sizeof(rail->name) - 1, rail->name);
    }
    status            = rows_add(&rows, rail, "rail", rail->name);
    table->rails      = rows.rows;
    table->rail_count = rows.count;
    return status;
}

kvl_status_t kvl_rail_table_add_gpu(kvl_rail_table_t *table, const kvl_gpu_t *gpu)
{
    rows_t rows         = {table->gpus, table->gpu_count, sizeof(*gpu), KVL_TABLE_MAX, gpu_compare};
    kvl_status_t status = rows_add(&rows, gpu, "gpu", gpu->pci.address);

    table->gpus      = rows.rows;
    table->gpu_count = rows.count;
    return status;
}

kvl_status_t kvl_rail_table_add_node(kvl_rail_table_t *table, const kvl_numa_node_t *node)
{
    rows_t rows = {table->nodes, table->node_count, sizeof(*node), KVL_NUMA_NODES, node_compare};
    char name[16];
    kvl_status_t status;

    snprintf(name, sizeof(name), "%u", node->node);
    status            = rows_add(&rows, node, "numa node", name);
    table->nodes      = rows.rows;
    table->node_count = rows.count;
    return status;
}

size_t kvl_rail_table_find(const kvl_rail_table_t *table, const char *name)
{
    size_t i = 0;

    while (i < table->rail_count && strcmp(table->rails[i].name, name) != 0) {
        i++;
    }
    return i;
}

/* [DOMAIN:]BUS:DEVICE.FUNCTION in hexadecimal */
static bool pci_parse(const char *text, unsigned part[4])
{
    char end;

    if (sscanf(text, "%8x:%2x:%2x.%1x%c", &part[0], &part[1], &part[2], &part[3], &end) == 4) {
        return true;
    }
    part[0] = 0;
    return sscanf(text, "%2x:%2x.%1x%c", &part[1], &part[2], &part[3], &end) == 3;
}

const kvl_gpu_t *kvl_rail_table_gpu(const kvl_rail_table_t *table, const char *pci)
{
    unsigned wanted[4], part[4];

    if (!pci || !pci_parse(pci, wanted)) {
        return NULL;
    }
    for (size_t i = 0; i < table->gpu_count; i++) {
        if (pci_parse(table->gpus[i].pci.address, part) &&
            memcmp(part, wanted, sizeof(part)) == 0) {
            return &table->gpus[i];
        }
    }
    return NULL;
}

unsigned kvl_rail_table_numa_distance(const kvl_rail_table_t *table, int from, int to)
{
    const kvl_numa_node_t *row = NULL;
    size_t column              = KVL_NUMA_NODES;

    for (size_t i = 0; i < table->node_count; i++) {
        if (from >= 0 && table->nodes[i].node == (unsigned)from) {
            row = &table->nodes[i];
        }
        if (to >= 0 && table->nodes[i].node == (unsigned)to) {
            column = i;
        }
    }
    return row && column < row->distance_count && column < KVL_NUMA_NODES ? row->distances[column]
                                                                          : 0;
}

void kvl_rail_table_list(const kvl_rail_table_t *table, char *text, size_t size)
{
    size_t used = 0, room = size > 32 ? size - 32 : 0; /* "... and 1000 more" */

    snprintf(text, size, "%s", table->rail_count ? "" : "nothing");
    for (size_t i = 0; i < table->rail_count; i++) {
        const kvl_rail_t *rail = &table->rails[i];
        char item[KVL_RAIL_NAME_SIZE + 32];
        int length = snprintf(item, sizeof(item), "%s%s (%s, %s)", i ? ", " : "", rail->name,
                              kvl_rail_kind_name(rail->kind), kvl_port_state_name(rail->state));

        if (used + (size_t)length >= room) {
            snprintf(text + used, size - used, "%s%zu more", i ? " and " : "",
                     table->rail_count - i);
            return;
        }
        memcpy(text + used, item, (size_t)length + 1);
        used += (size_t)length;
    }
}
