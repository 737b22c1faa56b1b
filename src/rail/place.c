/* SPDX-License-Identifier: BSD-3-Clause */
#include "rail/place.h"

#include "base/error.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A PCI path names every bridge from the host bridge down. What two paths have in common is the road
 * that they share: only the host bridge, or a root port or switch below it as well; the deeper the
 * last common bridge, the nearer. */

static unsigned path_length(const char *path)
{
    unsigned length = path[0] != '\0';

    for (; *path; path++) {
        length += *path == '/';
    }
    return length;
}

/* how many components they share at the start */
static unsigned path_common(const char *a, const char *b)
{
    unsigned common = 0;

    while (*a && *b) {
        size_t length = strcspn(a, "/");

        if (length != strcspn(b, "/") || strncmp(a, b, length) != 0) {
            break;
        }
        common++;
        a += length;
        b += length;
        if (!*a || !*b) {
            break;
        }
        a++;
        b++;
    }
    return common;
}

static kvl_distance_t node_distance(const kvl_rail_table_t *table, int node, int rail_node)
{
    unsigned steps;

    if (table->node_count <= 1 && (node < 0 || rail_node < 0)) {
        return (kvl_distance_t){KVL_NEAR_NODE, 0}; /* there is one place only */
    }
    if (node < 0 || rail_node < 0) {
        return (kvl_distance_t){KVL_NEAR_UNKNOWN, 0};
    }
    if (node == rail_node) {
        return (kvl_distance_t){KVL_NEAR_NODE, 0};
    }
    steps = kvl_rail_table_numa_distance(table, node, rail_node);
    return (kvl_distance_t){KVL_NEAR_OTHER, steps ? steps : UINT_MAX};
}

static kvl_distance_t gpu_distance(const kvl_rail_table_t *table, const kvl_gpu_t *gpu,
                                   const kvl_rail_t *rail)
{
    unsigned common = path_common(gpu->pci.path, rail->pci.path);

    if (common > 1) {
        return (kvl_distance_t){KVL_NEAR_SWITCH, path_length(gpu->pci.path) - common};
    }
    if (common == 1) {
        return (kvl_distance_t){KVL_NEAR_BRIDGE, 0};
    }
    return node_distance(table, gpu->numa, rail->numa);
}

kvl_distance_t kvl_place_distance(const kvl_rail_table_t *table, const kvl_place_t *place,
                                  const kvl_rail_t *rail)
{
    const kvl_gpu_t *gpu;

    switch (place->kind) {
    case KVL_PLACE_NODE:
        return node_distance(table, place->node, rail->numa);
    case KVL_PLACE_GPU:
        gpu = kvl_rail_table_gpu(table, place->gpu);
        if (gpu) {
            return gpu_distance(table, gpu, rail);
        }
        break;
    case KVL_PLACE_ANY:
        break;
    }
    return (kvl_distance_t){KVL_NEAR_UNKNOWN, 0};
}

int kvl_distance_compare(kvl_distance_t a, kvl_distance_t b)
{
    if (a.level != b.level) {
        return a.level < b.level ? -1 : 1;
    }
    return a.steps < b.steps ? -1 : a.steps > b.steps;
}

/* the one node of all rails; -1: several, or nobody knows */
static int rails_node(const kvl_rail_t *const *rails, size_t rail_count)
{
    int node = rail_count ? rails[0]->numa : -1;
    size_t i;

    for (i = 1; i < rail_count; i++) {
        node = rails[i]->numa == node ? node : -1;
    }
    return node;
}

static bool has_node(const kvl_rail_table_t *table, long node)
{
    size_t i;

    for (i = 0; i < table->node_count; i++) {
        if ((long)table->nodes[i].node == node) {
            return true;
        }
    }
    return false;
}

static kvl_status_t memory_refused(const kvl_rail_table_t *table, const char *setting)
{
    char there[128] = "";
    size_t at = 0, i;

    for (i = 0; i < table->node_count && at < sizeof(there); i++) {
        at += (size_t)snprintf(there + at, sizeof(there) - at, ", %u", table->nodes[i].node);
    }
    return kvl_error(KVL_ERR_CONFIG, "KVLANE_NUMA_NODE=%s: no such node; accepted: auto, off%s", setting, there);
}

kvl_status_t kvl_place_memory(const kvl_rail_table_t *table, const char *setting, const kvl_place_t *process,
                              const kvl_rail_t *const *rails, size_t rail_count, int *node_p)
{
    char *end;
    long node;

    if (!strcmp(setting, "off")) {
        *node_p = -1;
        return KVL_OK;
    }
    if (!strcmp(setting, "auto")) {
        node    = process->kind == KVL_PLACE_NODE ? process->node : rails_node(rails, rail_count);
        *node_p = table->node_count > 1 && has_node(table, node) ? (int)node : -1;
        return KVL_OK;
    }
    node = strtol(setting, &end, 10);
    if (setting[0] < '0' || setting[0] > '9' || *end || !has_node(table, node)) {
        return memory_refused(table, setting);
    }
    *node_p = (int)node;
    return KVL_OK;
}

void kvl_place_format(const kvl_place_t *place, char *text, size_t size)
{
    if (place->kind == KVL_PLACE_GPU) {
        snprintf(text, size, "gpu %.32s", place->gpu ? place->gpu : "?");
    } else if (place->kind == KVL_PLACE_NODE) {
        snprintf(text, size, "numa node %d", place->node);
    } else {
        snprintf(text, size, "memory anywhere");
    }
}

void kvl_distance_format(kvl_distance_t distance, char *text, size_t size)
{
    static const char *const names[] = {"same pcie switch", "same host bridge", "same numa node",
                                        "other numa node", "distance unknown"};

    if (distance.level == KVL_NEAR_OTHER && distance.steps != UINT_MAX) {
        snprintf(text, size, "%s (distance %u)", names[distance.level], distance.steps);
    } else {
        snprintf(text, size, "%s", names[distance.level]);
    }
}
