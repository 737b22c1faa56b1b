/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/rail_machine.h"

#include "shim/shim.h"

#include <stdlib.h>
#include <string.h>

/* KVLANE_AFFINITY and KVLANE_MAX_RAILS over recorded machines. */

static kvl_rail_table_t *table;
static kvl_decision_t *decision;

SETUP
{
    table    = NULL;
    decision = NULL;
}

TEARDOWN
{
    kvl_decision_destroy(decision);
    kvl_rail_table_destroy(table);
}

static kvl_status_t choose(const kvl_choose_params_t *params)
{
    kvl_decision_destroy(decision);
    decision = NULL;
    return kvl_decision_create(table, params, &decision);
}

static const char *used_for(kvl_place_t place, unsigned max_rails)
{
    kvl_choose_params_t params = {.place = place, .max_rails = max_rails};

    return choose(&params) == KVL_OK ? machine_names(decision, table, KVL_VERDICT_USED)
                                     : kvl_error_text();
}

static kvl_place_t gpu(const char *pci)
{
    return (kvl_place_t){.kind = KVL_PLACE_GPU, .gpu = pci};
}

static kvl_place_t node(int number)
{
    return (kvl_place_t){.kind = KVL_PLACE_NODE, .node = number};
}

static const char *spare(void)
{
    return machine_names(decision, table, KVL_VERDICT_SPARE);
}

static const char *reason(const char *name)
{
    return machine_reason(decision, table, name);
}

/* ---- numa ---- */

TEST(affinity_numa, gives_each_gpu_of_eight_the_nic_of_its_switch)
{
    static const char *const nics[] = {"mlx5_0:1", "mlx5_3:1", "mlx5_4:1",  "mlx5_5:1",
                                       "mlx5_6:1", "mlx5_9:1", "mlx5_10:1", "mlx5_11:1"};

    table = machine_dgx();
    machine_ucx(table);
    for (unsigned i = 0; i < 8; i++) {
        CHECK_STR_EQ(used_for(gpu(machine_dgx_gpus[i]), 0), nics[i]);
        CHECK(!decision->degraded);
        CHECK_EQ(decision->spare, 7);
    }
    CHECK_HAS(reason("mlx5_11:1"), "same pcie switch as gpu 0000:df:00.0");
    CHECK_HAS(reason("mlx5_9:1"), "turned off by KVLANE_AFFINITY=numa: same numa node");
    /* spare ones come in the order in which they would be taken: its own socket first */
    CHECK_STR_EQ(spare(), "mlx5_6:1 mlx5_9:1 mlx5_10:1 mlx5_0:1 mlx5_3:1 mlx5_4:1 mlx5_5:1");
}

TEST(affinity_numa, shares_a_nic_between_the_two_gpus_of_its_switch)
{
    static const char *const nics[] = {"mlx5_0:1", "mlx5_1:1", "mlx5_2:1", "mlx5_3:1"};

    table = machine_hgx();
    machine_ucx(table);
    for (unsigned i = 0; i < 8; i++) {
        CHECK_STR_EQ(used_for(gpu(machine_hgx_gpus[i]), 0), nics[i / 2]);
    }
}

TEST(affinity_numa, takes_all_rails_of_the_node_of_host_memory)
{
    table = machine_dgx();
    machine_ucx(table);
    CHECK_STR_EQ(used_for(node(0), 0), "mlx5_0:1 mlx5_3:1 mlx5_4:1 mlx5_5:1");
    CHECK_STR_EQ(used_for(node(1), 0), "mlx5_6:1 mlx5_9:1 mlx5_10:1 mlx5_11:1");
    CHECK_HAS(reason("mlx5_6:1"), "same numa node as numa node 1");
    CHECK_HAS(reason("mlx5_0:1"), "other numa node (distance 21), and there is a nearer one");
    CHECK_STR_EQ(decision->note, "");
}

TEST(affinity_numa, falls_back_to_the_next_distance_and_says_so)
{
    table = machine_two_sockets();
    machine_ucx(table);
    CHECK_STR_EQ(used_for(node(1), 0), "mlx5_1:1");
    machine_rail(table, "mlx5_1:1")->state = KVL_PORT_DOWN;
    CHECK_STR_EQ(used_for(node(1), 0), "mlx5_0:1");
    CHECK(decision->degraded);
    CHECK_STR_EQ(decision->note,
                 "mlx5_1:1 is nearer to numa node 1 (same numa node) but is down (ACTIVE): using "
                 "the next, other numa node (distance 21)");
}

TEST(affinity_numa, falls_back_from_switch_to_socket_to_the_other_socket)
{
    table = machine_hgx();
    machine_ucx(table);
    machine_rail(table, "mlx5_0:1")->state = KVL_PORT_DOWN;
    CHECK_STR_EQ(used_for(gpu(machine_hgx_gpus[0]), 0), "mlx5_1:1");
    CHECK(decision->degraded);
    CHECK_HAS(decision->note, "mlx5_0:1 is nearer to gpu 0000:07:00.0 (same pcie switch)");
    CHECK_HAS(decision->note, "using the next, same numa node");
    machine_rail(table, "mlx5_1:1")->state = KVL_PORT_DOWN;
    CHECK_STR_EQ(used_for(gpu(machine_hgx_gpus[0]), 0), "mlx5_2:1 mlx5_3:1");
    CHECK_HAS(decision->note, "mlx5_0:1 is nearer"); /* the nearest of those lost */
    CHECK_STR_EQ(used_for(gpu(machine_hgx_gpus[7]), 0), "mlx5_3:1");
    CHECK(!decision->degraded);
}

TEST(affinity_numa, says_when_no_rail_is_near)
{
    table = machine_create(2);
    machine_rdma(table, "mlx5_0:1", "pci0000:17/0000:17:00.0/0000:18:00.0", 0, KVL_PORT_UP);
    machine_ucx(table);
    CHECK_STR_EQ(used_for(node(1), 0), "mlx5_0:1");
    CHECK(decision->degraded);
    CHECK_STR_EQ(decision->note,
                 "no rail is near numa node 1: using the next, other numa node (distance 21)");
}

TEST(affinity_numa, takes_the_nearer_of_two_far_nodes)
{
    kvl_numa_node_t nodes[3] = {{0, 3, {10, 12, 32}}, {1, 3, {12, 10, 32}}, {2, 3, {32, 32, 10}}};

    table = machine_create(0);
    for (unsigned i = 0; i < 3; i++) {
        REQUIRE(kvl_rail_table_add_node(table, &nodes[i]) == KVL_OK);
    }
    machine_tcp(table, "eth0", 2, KVL_PORT_UP);
    machine_tcp(table, "eth1", 1, KVL_PORT_UP);
    machine_tcp(table, "eth2", -1, KVL_PORT_UP);
    machine_ucx(table);
    CHECK_STR_EQ(used_for(node(0), 0), "eth1");
    CHECK_STR_EQ(spare(), "eth0 eth2"); /* one that does not tell comes last */
}

TEST(affinity_numa, takes_all_where_nobody_tells_distances)
{
    table = machine_virtual();
    machine_ucx(table);
    CHECK_STR_EQ(used_for(node(0), 0), "eth0 eth1 eth2 eth3");
    CHECK_STR_EQ(decision->note, ""); /* a machine of one node has one place */
    CHECK_STR_EQ(used_for((kvl_place_t){0}, 0), "eth0 eth1 eth2 eth3");
    kvl_rail_table_destroy(table);
    table = machine_create(2);
    machine_tcp(table, "eth0", -1, KVL_PORT_UP);
    machine_tcp(table, "eth1", -1, KVL_PORT_UP);
    machine_ucx(table);
    CHECK_STR_EQ(used_for(node(1), 0), "eth0 eth1");
    CHECK_STR_EQ(decision->note, "nobody says how far rails are from numa node 1: using all");
    CHECK(!decision->degraded);
    CHECK_STR_EQ(used_for(gpu("0000:99:00.0"), 0), "eth0 eth1"); /* no such gpu */
    CHECK_HAS(decision->note, "gpu 0000:99:00.0");
}

TEST(affinity_numa, takes_all_for_memory_that_is_anywhere)
{
    table = machine_two_sockets();
    machine_ucx(table);
    CHECK_STR_EQ(used_for((kvl_place_t){0}, 0), "mlx5_0:1 mlx5_1:1");
    CHECK_HAS(reason("mlx5_0:1"), "memory may be anywhere");
    CHECK_STR_EQ(decision->note, "");
}

TEST(affinity_numa, tells_cascaded_switches_apart)
{
    table = machine_create(1);
    machine_rdma(table, "near:1", "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0",
                 0, KVL_PORT_UP);
    machine_rdma(table, "far:1", "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:05:00.0",
                 0, KVL_PORT_UP);
    machine_rdma(table, "bridge:1", "pci0000:00/0000:00:02.0/0000:07:00.0", 0, KVL_PORT_UP);
    machine_gpu(table,
                "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:01.0/0000:04:00.0", 0);
    machine_ucx(table);
    CHECK_STR_EQ(used_for(gpu("04:00.0"), 0), "near:1");
    CHECK_STR_EQ(spare(), "far:1 bridge:1");
    machine_rail(table, "near:1")->state = KVL_PORT_DOWN;
    CHECK_STR_EQ(used_for(gpu("04:00.0"), 0), "far:1");
    machine_rail(table, "far:1")->state = KVL_PORT_DOWN;
    CHECK_STR_EQ(used_for(gpu("04:00.0"), 0), "bridge:1");
    CHECK_HAS(reason("bridge:1"), "same host bridge");
}

TEST(affinity_numa, prefers_a_common_root_port_to_a_common_host_bridge)
{
    table = machine_create(1);
    machine_rdma(table, "b:1", "pci0000:00/0000:00:01.0/0000:01:00.0", 0, KVL_PORT_UP);
    machine_rdma(table, "a:1", "pci0000:00/0000:00:02.0/0000:02:00.0", 0, KVL_PORT_UP);
    machine_gpu(table, "pci0000:00/0000:00:01.0/0000:01:00.1", 0); /* a card with both on it */
    machine_ucx(table);
    CHECK_STR_EQ(used_for(gpu("0000:01:00.1"), 0), "b:1");
}

TEST(affinity_numa, uses_both_ports_of_a_card)
{
    table = machine_create(2);
    machine_rdma(table, "mlx5_0:1", "pci0000:17/0000:17:00.0/0000:18:00.0", 0, KVL_PORT_UP);
    machine_rdma(table, "mlx5_0:2", "pci0000:17/0000:17:00.0/0000:18:00.0", 0, KVL_PORT_UP);
    machine_rdma(table, "mlx5_1:1", "pci0000:b2/0000:b2:00.0/0000:b3:00.0", 1, KVL_PORT_UP);
    machine_ucx(table);
    CHECK_STR_EQ(used_for(node(0), 0), "mlx5_0:1 mlx5_0:2");
    machine_rail(table, "mlx5_0:2")->state = KVL_PORT_DOWN;
    CHECK_STR_EQ(used_for(node(0), 0), "mlx5_0:1");
    CHECK(!decision->degraded); /* as near as it gets */
}

TEST(affinity_numa, leaves_shared_memory_alone)
{
    kvl_choose_params_t params = {.rails = "shm,mlx5_0:1,mlx5_1:1", .place = node(1)};

    table = machine_two_sockets();
    machine_ucx(table);
    CHECK_EQ(choose(&params), KVL_OK);
    CHECK_STR_EQ(machine_names(decision, table, KVL_VERDICT_USED), "mlx5_1:1 shm");
}

/* ---- the limit ---- */

TEST(max_rails, takes_the_first_and_keeps_the_others_as_spare)
{
    table = machine_dgx();
    machine_ucx(table);
    CHECK_STR_EQ(used_for(node(1), 2), "mlx5_6:1 mlx5_9:1");
    CHECK_STR_EQ(reason("mlx5_10:1"), "turned off by KVLANE_MAX_RAILS=2");
    CHECK_EQ(decision->spare, 6);
}

TEST(max_rails, leaves_no_nic_dark_when_gpus_share_them)
{
    static const char *const nics[] = {"mlx5_0:1", "mlx5_1:1", "mlx5_2:1", "mlx5_3:1"};

    table = machine_create(1);
    for (unsigned i = 0; i < 4; i++) {
        char path[64];

        snprintf(path, sizeof(path), "pci0000:00/0000:00:01.0/0000:01:%02x.0/0000:%02x:00.0", i,
                 0x10 + i);
        machine_rdma(table, nics[i], path, 0, KVL_PORT_UP);
        snprintf(path, sizeof(path), "pci0000:00/0000:00:01.0/0000:01:%02x.0/0000:%02x:00.0", i + 8,
                 0x20 + i);
        machine_gpu(table, path, 0);
    }
    machine_ucx(table);
    for (unsigned i = 0; i < 4; i++) {
        char pci[16];

        snprintf(pci, sizeof(pci), "0000:%02x:00.0", 0x20 + i);
        CHECK_STR_EQ(used_for(gpu(pci), 1), nics[i]);
    }
    CHECK_STR_EQ(used_for(gpu("0000:23:00.0"), 2), "mlx5_3:1 mlx5_0:1");
}

TEST(max_rails, is_sixteen_at_most)
{
    table = machine_create(1);
    for (unsigned i = 0; i < 20; i++) {
        char name[8];

        snprintf(name, sizeof(name), "eth%u", i);
        machine_tcp(table, name, -1, KVL_PORT_UP);
    }
    machine_ucx(table);
    used_for(node(0), 0);
    CHECK_EQ(decision->used, 16);
    CHECK_EQ(decision->spare, 4);
    CHECK_STR_EQ(reason("eth16"), "turned off by the limit of kvlane: 16");
    used_for(node(0), 100);
    CHECK_EQ(decision->used, 16);
}

/* ---- rank ---- */

TEST(affinity_rank, takes_rank_modulo_rails_for_every_rank_and_number)
{
    for (unsigned rails = 1; rails <= 8; rails++) {
        table = machine_create(2);
        for (unsigned i = 0; i < rails; i++) {
            char name[16];

            snprintf(name, sizeof(name), "mlx5_%u:1", 3 * i); /* up to mlx5_21 */
            machine_rdma(table, name, NULL, (int)(i & 1), KVL_PORT_UP);
        }
        machine_ucx(table);
        for (unsigned r = 0; r < 16; r++) {
            kvl_rank_t rank            = {.rank = r, .source = "KVLANE_RANK"};
            kvl_choose_params_t params = {
                .affinity = KVL_AFFINITY_RANK, .rank = &rank, .place = node(1)};
            char name[16];

            snprintf(name, sizeof(name), "mlx5_%u:1", 3 * (r % rails));
            CHECK_EQ(choose(&params), KVL_OK);
            CHECK_STR_EQ(machine_names(decision, table, KVL_VERDICT_USED), name);
            CHECK_EQ(decision->spare, rails - 1);
            CHECK(!decision->degraded);
        }
        kvl_rail_table_destroy(table);
        table = NULL;
    }
}

TEST(affinity_rank, counts_in_the_order_of_the_user)
{
    kvl_rank_t rank            = {.rank = 6, .source = "KVLANE_RANK"};
    kvl_choose_params_t params = {
        .rails = "eth3,eth1,eth0,eth2", .affinity = KVL_AFFINITY_RANK, .rank = &rank};

    table = machine_virtual();
    machine_ucx(table);
    CHECK_EQ(choose(&params), KVL_OK);
    CHECK_STR_EQ(machine_names(decision, table, KVL_VERDICT_USED), "eth0");
    CHECK_HAS(reason("eth0"), "rank 6 (KVLANE_RANK) modulo 4 rails is 2");
    CHECK_STR_EQ(reason("eth1"), "turned off by KVLANE_AFFINITY=rank: rank 6 takes eth0");
    CHECK_STR_EQ(spare(), "eth3 eth1 eth2");
}

TEST(affinity_rank, counts_rails_that_can_be_used)
{
    kvl_rank_t rank            = {.rank = 1, .source = "KVLANE_RANK"};
    kvl_choose_params_t params = {.affinity = KVL_AFFINITY_RANK, .rank = &rank};

    table = machine_dgx();
    machine_ucx(table);
    machine_rail(table, "mlx5_3:1")->state = KVL_PORT_DOWN;
    CHECK_EQ(choose(&params), KVL_OK);
    CHECK_STR_EQ(machine_names(decision, table, KVL_VERDICT_USED), "mlx5_4:1");
}

TEST(affinity_rank, is_an_error_without_a_rank)
{
    kvl_choose_params_t params = {.affinity = KVL_AFFINITY_RANK};

    table = machine_dgx();
    machine_ucx(table);
    CHECK_EQ(choose(&params), KVL_ERR_CONFIG);
    CHECK_HAS(kvl_error_text(), "set KVLANE_RANK");
}

/* ---- off ---- */

TEST(affinity_off, takes_all_in_table_order)
{
    kvl_choose_params_t params = {.affinity = KVL_AFFINITY_OFF, .place = node(1)};

    table = machine_dgx();
    machine_ucx(table);
    CHECK_EQ(choose(&params), KVL_OK);
    CHECK_STR_EQ(machine_names(decision, table, KVL_VERDICT_USED),
                 "mlx5_0:1 mlx5_3:1 mlx5_4:1 mlx5_5:1 mlx5_6:1 mlx5_9:1 mlx5_10:1 mlx5_11:1");
    CHECK_HAS(reason("mlx5_6:1"), "KVLANE_AFFINITY=off takes all");
    params.max_rails = 3;
    CHECK_EQ(choose(&params), KVL_OK);
    CHECK_STR_EQ(machine_names(decision, table, KVL_VERDICT_USED), "mlx5_0:1 mlx5_3:1 mlx5_4:1");
}
