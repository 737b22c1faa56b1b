/* SPDX-License-Identifier: BSD-3-Clause */
/* One table of what bytes can take on this host (rails), and of what they come from (GPUs, NUMA
 * nodes). Filled by discovery (discover.h) or by hand; decisions are pure functions over it. */
#ifndef KVL_RAIL_TABLE_H
#define KVL_RAIL_TABLE_H

#include <kvlane/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define KVL_RAIL_NAME_SIZE 72 /* devices have names of up to 63 characters, then ":PORT" */
#define KVL_RAIL_TEXT_SIZE 64
#define KVL_RAIL_GIDS      8
#define KVL_RAIL_ADDRESSES 8
#define KVL_NUMA_NODES     64
#define KVL_TABLE_MAX      1024 /* rails, and GPUs */

typedef enum { KVL_RAIL_RDMA, KVL_RAIL_TCP, KVL_RAIL_SHM } kvl_rail_kind_t; /* in table order */
typedef enum { KVL_PORT_UNKNOWN, KVL_PORT_UP, KVL_PORT_DOWN } kvl_port_state_t;
typedef enum {
    KVL_LINK_UNKNOWN,
    KVL_LINK_ETHERNET,
    KVL_LINK_INFINIBAND,
    KVL_LINK_LOOPBACK
} kvl_link_layer_t;

/* Where a device sits on PCI; both empty if it does not. */
typedef struct {
    char address[16]; /* "0000:17:00.0" */
    char path[256];   /* from its host bridge down: "pci0000:15/0000:15:01.0/0000:17:00.0" */
} kvl_pci_t;

typedef struct {
    char text[40]; /* "fe80:0000:..." */
    char type[12]; /* "RoCE v2", "IB/RoCE v1" */
    unsigned index;
} kvl_gid_t;

typedef struct {
    char name[KVL_RAIL_NAME_SIZE];   /* as in KVLANE_RAILS: "mlx5_0:1", "eth0", "shm" */
    char device[KVL_RAIL_NAME_SIZE]; /* as in UCX_NET_DEVICES, which cuts long names; "": UCX does
                                        not offer it */
    char transports[128];            /* of UCX on it: "rc_verbs,ud_verbs" */
    bool ambiguous;                  /* UCX cuts its name and another's to the same one */
    kvl_rail_kind_t kind;
    kvl_link_layer_t link_layer;
    kvl_port_state_t state;
    char state_text[24];  /* the system's word: "INIT", "lowerlayerdown" */
    unsigned port;        /* 0: it has none */
    uint64_t speed_mbits; /* 0: unknown */
    unsigned mtu;         /* bytes; 0: unknown */
    int numa;             /* -1: unknown */
    kvl_pci_t pci;
    char firmware[KVL_RAIL_TEXT_SIZE];
    char interface[KVL_RAIL_TEXT_SIZE]; /* rdma over ethernet: the network interface behind it */
    kvl_gid_t gids[KVL_RAIL_GIDS];
    unsigned gid_count;
    char addresses[KVL_RAIL_ADDRESSES][KVL_RAIL_TEXT_SIZE];
    unsigned address_count;
    bool endpoints_known; /* discovery looked for its GIDs or addresses: none means none */
    bool bond, bridge;
    char master[KVL_RAIL_TEXT_SIZE]; /* the bond or bridge that it is a port of */
    char physical[16]; /* virtual function: PCI address of its physical function, "?" if hidden */
} kvl_rail_t;

typedef struct {
    kvl_pci_t pci;
    int numa;                /* -1: unknown */
    unsigned vendor, device; /* PCI ids */
} kvl_gpu_t;

typedef struct {
    unsigned node;
    unsigned distance_count; /* to the nodes of the table, in its order */
    unsigned distances[KVL_NUMA_NODES];
} kvl_numa_node_t;

/* Sorted: rails by kind and by name ("mlx5_2:1" before "mlx5_10:1"), GPUs by PCI address, nodes by
 * number. Owner: whoever created it; constant once filled, so any thread may read. */
typedef struct {
    kvl_rail_t *rails;
    size_t rail_count;
    kvl_gpu_t *gpus;
    size_t gpu_count;
    kvl_numa_node_t *nodes;
    size_t node_count;
    size_t left_out; /* devices that discovery saw and could not take: strange names, too many */
} kvl_rail_table_t;

kvl_status_t kvl_rail_table_create(kvl_rail_table_t **table_p);
void kvl_rail_table_destroy(kvl_rail_table_t *table);

/* Copies into its place. KVL_ERR_INVALID: a name that is empty, has characters that a list of
 * names gives a meaning, is a word of KVLANE_RAILS, or is there already. KVL_ERR_LIMIT: full. */
kvl_status_t kvl_rail_table_add(kvl_rail_table_t *table, const kvl_rail_t *rail);
kvl_status_t kvl_rail_table_add_gpu(kvl_rail_table_t *table, const kvl_gpu_t *gpu);
kvl_status_t kvl_rail_table_add_node(kvl_rail_table_t *table, const kvl_numa_node_t *node);

/* A transport on a device, as UCX lists them. */
typedef struct {
    const char *transport; /* "tcp", "rc_verbs", "posix", ... */
    const char *device;    /* "eth0", "mlx5_0:1", "memory" */
    bool network;
} kvl_offer_t;

/* Notes what UCX offers. A network device that the table does not have becomes a rail of unknown
 * state; shared memory becomes the rail "shm". */
kvl_status_t kvl_rail_table_offer(kvl_rail_table_t *table, const kvl_offer_t *offers, size_t count);

/* index of the rail with this very name; rail_count if there is none */
size_t kvl_rail_table_find(const kvl_rail_table_t *table, const char *name);
/* The GPU at a PCI address as CUDA ("00000000:17:00.0"), sysfs or lspci ("17:00.0") write it; NULL if
 * there is none. */
const kvl_gpu_t *kvl_rail_table_gpu(const kvl_rail_table_t *table, const char *pci);
/* distance as the firmware tells it (10: the same node); 0: unknown */
unsigned kvl_rail_table_numa_distance(const kvl_rail_table_t *table, int from, int to);

/* "mlx5_0:1 (rdma, up), eth0 (tcp, down)", for messages; says how many more if it is long */
void kvl_rail_table_list(const kvl_rail_table_t *table, char *text, size_t size);
/* print.c: all that is known */
void kvl_rail_table_print(const kvl_rail_table_t *table, FILE *stream, int json);

const char *kvl_rail_kind_name(kvl_rail_kind_t kind);
const char *kvl_port_state_name(kvl_port_state_t state);
const char *kvl_link_layer_name(kvl_link_layer_t layer);
/* order of names with numbers inside: below 0, 0, above 0 */
int kvl_rail_name_compare(const char *a, const char *b);

#endif
