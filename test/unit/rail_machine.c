/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/rail_machine.h"

#include "shim/shim.h"

#include <stdlib.h>
#include <string.h>

kvl_rail_table_t *machine_create(unsigned numa_nodes)
{
    kvl_rail_table_t *table = NULL;

    REQUIRE(kvl_rail_table_create(&table) == KVL_OK);
    for (unsigned i = 0; i < numa_nodes; i++) {
        kvl_numa_node_t node = {.node = i, .distance_count = numa_nodes};

        for (unsigned j = 0; j < numa_nodes; j++) {
            node.distances[j] = i == j ? 10 : 21;
        }
        REQUIRE(kvl_rail_table_add_node(table, &node) == KVL_OK);
    }
    return table;
}

static void set_pci(kvl_pci_t *pci, const char *path)
{
    const char *last = path ? strrchr(path, '/') : NULL;

    if (last) {
        snprintf(pci->path, sizeof(pci->path), "%s", path);
        snprintf(pci->address, sizeof(pci->address), "%.12s", last + 1);
    }
}

void machine_rdma(kvl_rail_table_t *table, const char *name, const char *path, int numa,
                  kvl_port_state_t state)
{
    kvl_rail_t rail  = {.kind            = KVL_RAIL_RDMA,
                        .link_layer      = KVL_LINK_INFINIBAND,
                        .state           = state,
                        .speed_mbits     = 400000,
                        .numa            = numa,
                        .endpoints_known = true,
                        .gid_count       = 1};
    const char *port = strrchr(name, ':');

    REQUIRE(port != NULL);
    rail.port = (unsigned)atoi(port + 1);
    snprintf(rail.name, sizeof(rail.name), "%s", name);
    snprintf(rail.state_text, sizeof(rail.state_text), "%s",
             state == KVL_PORT_UP ? "ACTIVE" : "INIT");
    snprintf(rail.gids[0].text, sizeof(rail.gids[0].text), "fe80::1");
    set_pci(&rail.pci, path);
    REQUIRE(kvl_rail_table_add(table, &rail) == KVL_OK);
}

void machine_tcp(kvl_rail_table_t *table, const char *name, int numa, kvl_port_state_t state)
{
    kvl_rail_t rail = {.kind            = KVL_RAIL_TCP,
                       .link_layer      = KVL_LINK_ETHERNET,
                       .state           = state,
                       .speed_mbits     = 25000,
                       .mtu             = 1500,
                       .numa            = numa,
                       .endpoints_known = true,
                       .address_count   = 1};

    snprintf(rail.name, sizeof(rail.name), "%s", name);
    snprintf(rail.state_text, sizeof(rail.state_text), "%s",
             state == KVL_PORT_UP ? "up" : "lowerlayerdown");
    snprintf(rail.addresses[0], sizeof(rail.addresses[0]), "10.0.0.1");
    if (strcmp(name, "lo") == 0) {
        rail.link_layer = KVL_LINK_LOOPBACK;
    }
    REQUIRE(kvl_rail_table_add(table, &rail) == KVL_OK);
}

void machine_gpu(kvl_rail_table_t *table, const char *path, int numa)
{
    kvl_gpu_t gpu = {.numa = numa, .vendor = 0x10de, .device = 0x2330};

    set_pci(&gpu.pci, path);
    REQUIRE(kvl_rail_table_add_gpu(table, &gpu) == KVL_OK);
}

kvl_rail_t *machine_rail(kvl_rail_table_t *table, const char *name)
{
    size_t at = kvl_rail_table_find(table, name);

    REQUIRE(at < table->rail_count);
    return &table->rails[at];
}

void machine_ucx(kvl_rail_table_t *table)
{
    static const char *const rdma[] = {"rc_verbs", "rc_mlx5", "dc_mlx5", "ud_mlx5"};
    const kvl_offer_t memory[]      = {
             {"self", "memory", false}, {"posix", "memory", false}, {"cma", "memory", false}};
    size_t count = table->rail_count;
    char names[64][KVL_RAIL_NAME_SIZE];
    kvl_rail_kind_t kinds[64];

    REQUIRE(count <= 64);
    for (size_t i = 0; i < count; i++) {
        snprintf(names[i], sizeof(names[i]), "%s", table->rails[i].name);
        kinds[i] = table->rails[i].kind;
        if (table->rails[i].state == KVL_PORT_DOWN) {
            names[i][0] = '\0';
        }
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; names[i][0] && j < (kinds[i] == KVL_RAIL_RDMA ? 4 : 1); j++) {
            kvl_offer_t offer = {kinds[i] == KVL_RAIL_RDMA ? rdma[j] : "tcp", names[i], true};

            REQUIRE(kvl_rail_table_offer(table, &offer, 1) == KVL_OK);
        }
    }
    REQUIRE(kvl_rail_table_offer(table, memory, 3) == KVL_OK);
}

/* ---- machines ---- */

/* DGX H100: each GPU and its ConnectX-7 are below one switch, four of those below each socket */
static const struct {
    const char *nic, *nic_path, *gpu_path;
    int numa;
} dgx[8] = {
    {"mlx5_0:1", "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0",
     "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0/0000:1b:00.0", 0},
    {"mlx5_3:1", "pci0000:37/0000:37:01.0/0000:38:00.0/0000:39:00.0/0000:40:00.0",
     "pci0000:37/0000:37:01.0/0000:38:00.0/0000:39:02.0/0000:43:00.0", 0},
    {"mlx5_4:1", "pci0000:48/0000:48:01.0/0000:49:00.0/0000:4a:00.0/0000:4f:00.0",
     "pci0000:48/0000:48:01.0/0000:49:00.0/0000:4a:02.0/0000:52:00.0", 0},
    {"mlx5_5:1", "pci0000:59/0000:59:01.0/0000:5a:00.0/0000:5b:00.0/0000:5e:00.0",
     "pci0000:59/0000:59:01.0/0000:5a:00.0/0000:5b:02.0/0000:61:00.0", 0},
    {"mlx5_6:1", "pci0000:97/0000:97:01.0/0000:98:00.0/0000:99:00.0/0000:9a:00.0",
     "pci0000:97/0000:97:01.0/0000:98:00.0/0000:99:02.0/0000:9d:00.0", 1},
    {"mlx5_9:1", "pci0000:b7/0000:b7:01.0/0000:b8:00.0/0000:b9:00.0/0000:c0:00.0",
     "pci0000:b7/0000:b7:01.0/0000:b8:00.0/0000:b9:02.0/0000:c3:00.0", 1},
    {"mlx5_10:1", "pci0000:c7/0000:c7:01.0/0000:c8:00.0/0000:c9:00.0/0000:ce:00.0",
     "pci0000:c7/0000:c7:01.0/0000:c8:00.0/0000:c9:02.0/0000:d1:00.0", 1},
    {"mlx5_11:1", "pci0000:d7/0000:d7:01.0/0000:d8:00.0/0000:d9:00.0/0000:dc:00.0",
     "pci0000:d7/0000:d7:01.0/0000:d8:00.0/0000:d9:02.0/0000:df:00.0", 1},
};

const char *const machine_dgx_gpus[8] = {"0000:1b:00.0", "0000:43:00.0", "0000:52:00.0",
                                         "0000:61:00.0", "0000:9d:00.0", "0000:c3:00.0",
                                         "0000:d1:00.0", "0000:df:00.0"};

kvl_rail_table_t *machine_dgx(void)
{
    kvl_rail_table_t *table = machine_create(2);

    for (int i = 7; i >= 0; i--) { /* the system names them in any order */
        machine_rdma(table, dgx[i].nic, dgx[i].nic_path, dgx[i].numa, KVL_PORT_UP);
        machine_gpu(table, dgx[i].gpu_path, dgx[i].numa);
    }
    machine_tcp(table, "eno3", 0, KVL_PORT_UP);
    machine_tcp(table, "ens6f1", 0, KVL_PORT_DOWN);
    machine_tcp(table, "lo", -1, KVL_PORT_UP);
    return table;
}

const char *const machine_hgx_gpus[8] = {"0000:07:00.0", "0000:0b:00.0", "0000:48:00.0",
                                         "0000:4c:00.0", "0000:88:00.0", "0000:8b:00.0",
                                         "0000:c8:00.0", "0000:cb:00.0"};

kvl_rail_table_t *machine_hgx(void)
{
    static const char *const nics[]  = {"mlx5_0:1", "mlx5_1:1", "mlx5_2:1", "mlx5_3:1"};
    static const char *const roots[] = {
        "pci0000:00/0000:00:01.1/0000:01:00.0", "pci0000:40/0000:40:01.1/0000:41:00.0",
        "pci0000:80/0000:80:01.1/0000:81:00.0", "pci0000:c0/0000:c0:01.1/0000:c1:00.0"};
    kvl_rail_table_t *table = machine_create(2);
    char path[256];

    for (unsigned i = 0; i < 4; i++) {
        snprintf(path, sizeof(path), "%s/0000:%02x:00.0/0000:%02x:00.0", roots[i], 2 + 64 * i,
                 3 + 64 * i);
        machine_rdma(table, nics[i], path, (int)i / 2, KVL_PORT_UP);
        for (unsigned j = 0; j < 2; j++) {
            snprintf(path, sizeof(path), "%s/0000:%02x:%02x.0/%s", roots[i], 2 + 64 * i, j + 1,
                     machine_hgx_gpus[2 * i + j]);
            machine_gpu(table, path, (int)i / 2);
        }
    }
    return table;
}

kvl_rail_table_t *machine_two_sockets(void)
{
    kvl_rail_table_t *table = machine_create(2);

    machine_rdma(table, "mlx5_0:1", "pci0000:17/0000:17:00.0/0000:18:00.0", 0, KVL_PORT_UP);
    machine_rdma(table, "mlx5_1:1", "pci0000:b2/0000:b2:00.0/0000:b3:00.0", 1, KVL_PORT_UP);
    machine_tcp(table, "eno1", 0, KVL_PORT_UP);
    return table;
}

kvl_rail_table_t *machine_virtual(void)
{
    kvl_rail_table_t *table = machine_create(1);

    machine_tcp(table, "eth0", -1, KVL_PORT_UP);
    machine_tcp(table, "eth1", -1, KVL_PORT_UP);
    machine_tcp(table, "eth2", -1, KVL_PORT_UP);
    machine_tcp(table, "eth3", -1, KVL_PORT_UP);
    machine_tcp(table, "lo", -1, KVL_PORT_UP);
    machine_tcp(table, "docker0", -1, KVL_PORT_UP);
    machine_rail(table, "docker0")->bridge = true;
    return table;
}

/* ---- decisions ---- */

const char *machine_names(const kvl_decision_t *decision, const kvl_rail_table_t *table,
                          kvl_verdict_t verdict)
{
    static char text[4096];
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < decision->count; i++) {
        if (decision->choices[i].verdict == verdict && used < sizeof(text)) {
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", used ? " " : "",
                                     table->rails[decision->choices[i].rail].name);
        }
    }
    return text;
}

const char *machine_reason(const kvl_decision_t *decision, const kvl_rail_table_t *table,
                           const char *name)
{
    for (size_t i = 0; i < decision->count; i++) {
        if (strcmp(table->rails[decision->choices[i].rail].name, name) == 0) {
            return decision->choices[i].reason;
        }
    }
    return "(not in the decision)";
}
