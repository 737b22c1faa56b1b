/* SPDX-License-Identifier: BSD-3-Clause */
/* Machines written down by hand, from what their makers publish of their topology. */
#ifndef KVL_TEST_RAIL_MACHINE_H
#define KVL_TEST_RAIL_MACHINE_H

#include "rail/choose.h"
#include "rail/table.h"

/* rows; each REQUIREs that the table takes it */
kvl_rail_table_t *machine_create(unsigned numa_nodes); /* 10 and 21 apart */
void machine_rdma(kvl_rail_table_t *table, const char *name, const char *path, int numa,
                  kvl_port_state_t state);
void machine_tcp(kvl_rail_table_t *table, const char *name, int numa, kvl_port_state_t state);
void machine_gpu(kvl_rail_table_t *table, const char *path, int numa);
kvl_rail_t *machine_rail(kvl_rail_table_t *table, const char *name);
/* what UCX offers then: nothing on ports that are down */
void machine_ucx(kvl_rail_table_t *table);

/* 8 NICs and 8 GPUs, a pair below each PCIe switch, 4 pairs a socket; 2 tcp interfaces */
kvl_rail_table_t *machine_dgx(void);
extern const char *const machine_dgx_gpus[8];
/* 4 NICs and 8 GPUs: a NIC and two GPUs below each switch, 2 switches a socket */
kvl_rail_table_t *machine_hgx(void);
extern const char *const machine_hgx_gpus[8];
/* 2 sockets with a NIC each, no GPU */
kvl_rail_table_t *machine_two_sockets(void);
/* a virtual machine that tells no NUMA node: 4 virtio interfaces, the loopback and a bridge */
kvl_rail_table_t *machine_virtual(void);

/* A decision as text: "mlx5_0:1 mlx5_1:1", those with this verdict, in order. Static storage. */
const char *machine_names(const kvl_decision_t *decision, const kvl_rail_table_t *table,
                          kvl_verdict_t verdict);
const char *machine_reason(const kvl_decision_t *decision, const kvl_rail_table_t *table,
                           const char *name);

#endif
