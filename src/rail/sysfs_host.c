/* SPDX-License-Identifier: BSD-3-Clause */
#include "rail/sysfs.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* GPUs (/sys/bus/pci) and NUMA nodes (/sys/devices/system/node). */

#define CLASS_VGA         0x0300
#define CLASS_3D          0x0302
#define CLASS_DISPLAY     0x0380
#define CLASS_ACCELERATOR 0x1200

#define VENDOR_AMD    0x1002
#define VENDOR_NVIDIA 0x10de
#define VENDOR_INTEL  0x8086

/* A server's management chip is a VGA device as well, and so is a processor's own graphics: those
 * hold no KV cache. */
static bool gpu_is_one(long long vendor, long long class)
{
    unsigned kind = (unsigned)(class >> 8) & 0xffff;

    switch (vendor) {
    case VENDOR_NVIDIA:
        return kind == CLASS_VGA || kind == CLASS_3D;
    case VENDOR_AMD:
        return kind == CLASS_VGA || kind == CLASS_DISPLAY || kind == CLASS_ACCELERATOR;
    case VENDOR_INTEL:
        return kind == CLASS_DISPLAY || kind == CLASS_ACCELERATOR;
    default:
        return false;
    }
}

static kvl_status_t gpu_add(kvl_rail_table_t *table, const kvl_sysfs_t *folder, const char *name)
{
    kvl_sysfs_t device = kvl_sysfs_in(folder, name);
    long long class = 0, vendor = 0, id = 0;
    kvl_gpu_t gpu = {.numa = -1};

    if (!kvl_sysfs_number(&device, "class", &class) ||
        !kvl_sysfs_number(&device, "vendor", &vendor) || !gpu_is_one(vendor, class)) {
        return KVL_OK;
    }
    kvl_sysfs_number(&device, "device", &id);
    kvl_sysfs_pci(&device, ".", &gpu.pci);
    if (!gpu.pci.address[0]) {
        table->left_out++;
        return KVL_OK;
    }
    gpu.numa   = kvl_sysfs_numa(&device, "numa_node");
    gpu.vendor = (unsigned)vendor;
    gpu.device = (unsigned)id & 0xffff;
    return kvl_sysfs_taken(table, kvl_rail_table_add_gpu(table, &gpu));
}

kvl_status_t kvl_sysfs_read_gpus(kvl_rail_table_t *table, const char *root)
{
    return kvl_sysfs_each(table, root, "/sys/bus/pci/devices", gpu_add);
}

/* "node12" */
static bool node_number(const char *name, unsigned *number_p)
{
    const char *digits = name + strlen("node");
    unsigned long number;
    char *end;

    if (strncmp(name, "node", strlen("node")) != 0 || *digits < '0' || *digits > '9') {
        return false;
    }
    number    = strtoul(digits, &end, 10);
    *number_p = (unsigned)number;
    return !*end && number <= INT_MAX;
}

/* "10 21": one number per node that is there */
static void node_read_distances(const kvl_sysfs_t *node, kvl_numa_node_t *row)
{
    char text[KVL_NUMA_NODES * 6], *at = text, *end;

    kvl_sysfs_text(node, "distance", text, sizeof(text));
    while (row->distance_count < KVL_NUMA_NODES) {
        unsigned long distance = strtoul(at, &end, 10);

        if (end == at || distance > USHRT_MAX) {
            break;
        }
        row->distances[row->distance_count++] = (unsigned)distance;
        at                                    = end;
    }
}

static kvl_status_t node_add(kvl_rail_table_t *table, const kvl_sysfs_t *folder, const char *name)
{
    kvl_numa_node_t row = {0};
    kvl_sysfs_t node    = kvl_sysfs_in(folder, name);

    if (!node_number(name, &row.node)) {
        return KVL_OK;
    }
    node_read_distances(&node, &row);
    return kvl_sysfs_taken(table, kvl_rail_table_add_node(table, &row));
}

kvl_status_t kvl_sysfs_read_nodes(kvl_rail_table_t *table, const char *root)
{
    return kvl_sysfs_each(table, root, "/sys/devices/system/node", node_add);
}
