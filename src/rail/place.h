/* SPDX-License-Identifier: BSD-3-Clause */
/* How far a rail is from memory. */
#ifndef KVL_RAIL_PLACE_H
#define KVL_RAIL_PLACE_H

#include "rail/table.h"

typedef enum {
    KVL_PLACE_ANY, /* all over, or nobody knows */
    KVL_PLACE_NODE,
    KVL_PLACE_GPU
} kvl_place_kind_t;

/* where memory is */
typedef struct {
    kvl_place_kind_t kind;
    int node;        /* of KVL_PLACE_NODE */
    const char *gpu; /* of KVL_PLACE_GPU: its PCI address */
} kvl_place_t;

/* nearest first */
typedef enum {
    KVL_NEAR_SWITCH, /* below a common PCIe switch or root port */
    KVL_NEAR_BRIDGE, /* below a common host bridge */
    KVL_NEAR_NODE,   /* on the same NUMA node */
    KVL_NEAR_OTHER,  /* on another */
    KVL_NEAR_UNKNOWN
} kvl_near_t;

typedef struct {
    kvl_near_t level;
    unsigned steps; /* of the same level: switch: how far up from the GPU it is; node and other: the
                       NUMA distance; else 0 */
} kvl_distance_t;

kvl_distance_t kvl_place_distance(const kvl_rail_table_t *table, const kvl_place_t *place,
                                  const kvl_rail_t *rail);
/* below 0: a is nearer */
int kvl_distance_compare(kvl_distance_t a, kvl_distance_t b);
/* KVLANE_NUMA_NODE: the node to have memory on, -1: any. A number: that node. "auto": that of @a process, which is
 * where its CPUs are; else that of all @a rails. Neither on a machine of one node. KVL_ERR_CONFIG: no such node, or
 * no such word; the text lists what there is. */
kvl_status_t kvl_place_memory(const kvl_rail_table_t *table, const char *setting, const kvl_place_t *process,
                              const kvl_rail_t *const *rails, size_t rail_count, int *node_p);
/* "gpu 0000:1b:00.0", "numa node 1", "memory anywhere" */
void kvl_place_format(const kvl_place_t *place, char *text, size_t size);
/* "same pcie switch", "other numa node (distance 21)" */
void kvl_distance_format(kvl_distance_t distance, char *text, size_t size);

#endif
