/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/rail_machine.h"

#include "shim/shim.h"

#include "base/fault.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static kvl_rail_table_t *table;

SETUP
{
    table = NULL;
    REQUIRE(kvl_rail_table_create(&table) == KVL_OK);
}

TEARDOWN
{
    kvl_rail_table_destroy(table);
}

static kvl_status_t add(const char *name)
{
    kvl_rail_t rail = {.kind = KVL_RAIL_TCP, .numa = -1};

    snprintf(rail.name, sizeof(rail.name), "%s", name);
    return kvl_rail_table_add(table, &rail);
}

static kvl_status_t offer(const char *transport, const char *device, bool network)
{
    kvl_offer_t one = {transport, device, network};

    return kvl_rail_table_offer(table, &one, 1);
}

TEST(rail_table_add, sorts_numbers_inside_names_as_numbers)
{
    static const char *const names[] = {"eth10", "eth2", "eth1", "eth02", "bond0", "eth10a", "eth"};
    static const char *const order[] = {"bond0", "eth", "eth1", "eth02", "eth2", "eth10", "eth10a"};

    for (size_t i = 0; i < 7; i++) {
        CHECK_EQ(add(names[i]), KVL_OK);
    }
    REQUIRE(table->rail_count == 7);
    for (size_t i = 0; i < 7; i++) {
        CHECK_STR_EQ(table->rails[i].name, order[i]);
        CHECK_EQ(kvl_rail_table_find(table, order[i]), i);
    }
    CHECK_EQ(kvl_rail_table_find(table, "eth3"), 7);
}

TEST(rail_table_add, puts_rdma_before_tcp_before_shm)
{
    machine_tcp(table, "a0", -1, KVL_PORT_UP);
    machine_rdma(table, "z0:1", NULL, -1, KVL_PORT_UP);
    machine_ucx(table);
    REQUIRE(table->rail_count == 3);
    CHECK_STR_EQ(table->rails[0].name, "z0:1");
    CHECK_STR_EQ(table->rails[1].name, "a0");
    CHECK_STR_EQ(table->rails[2].name, "shm");
    CHECK_STR_EQ(table->rails[2].transports, "posix,cma");
}

TEST(rail_table_add, refuses_names_that_the_setting_cannot_say)
{
    static const char *const bad[] = {"",    "a,b",  "a b", "^a",  "a/b",  "a\n",  "a*",  "auto",
                                      "tcp", "rdma", "shm", "all", "\xe4", "a\"b", "a[0]"};
    kvl_rail_t unended             = {.kind = KVL_RAIL_TCP};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK_EQ(add(bad[i]), KVL_ERR_INVALID);
    }
    memset(unended.name, 'x', sizeof(unended.name));
    CHECK_EQ(kvl_rail_table_add(table, &unended), KVL_ERR_INVALID);
    CHECK_EQ(add("eth0"), KVL_OK);
    CHECK_EQ(add("eth0"), KVL_ERR_INVALID); /* twice */
    CHECK_EQ(table->rail_count, 1);
}

TEST(rail_table_add, is_full_at_its_limit)
{
    char name[16];

    for (unsigned i = 0; i < 1024; i++) {
        snprintf(name, sizeof(name), "v%u", i);
        REQUIRE(add(name) == KVL_OK);
    }
    CHECK_EQ(add("one"), KVL_ERR_LIMIT);
    CHECK_EQ(table->rail_count, 1024);
}

TEST(rail_table_add, survives_each_failing_allocation)
{
    REQUIRE(kvl_fault_setup("alloc:fail@1", 0) == KVL_OK);
    CHECK_EQ(add("eth0"), KVL_ERR_NO_MEMORY);
    CHECK_EQ(add("eth0"), KVL_OK);
    REQUIRE(kvl_fault_setup("alloc:fail@1", 0) == KVL_OK);
    CHECK_EQ(add("eth1"), KVL_ERR_NO_MEMORY);
    REQUIRE(kvl_fault_setup(NULL, 0) == KVL_OK);
    CHECK_EQ(table->rail_count, 1);
    CHECK_STR_EQ(table->rails[0].name, "eth0");
}

TEST(rail_table_offer, takes_names_of_63_characters_and_a_port)
{
    char name[80];

    memset(name, 'n', 63);
    strcpy(name + 63, ":1");
    machine_rdma(table, name, NULL, -1, KVL_PORT_UP);
    CHECK_STR_EQ(table->rails[0].name, name);
    name[31] = '\0'; /* what ucx makes of it */
    CHECK_EQ(offer("rc_verbs", name, true), KVL_OK);
    REQUIRE(table->rail_count == 1);
    CHECK_STR_EQ(table->rails[0].device, name);
    CHECK_STR_EQ(table->rails[0].transports, "rc_verbs");
    CHECK(!table->rails[0].ambiguous);
}

TEST(rail_table_offer, gives_a_cut_name_to_none_of_two_that_begin_alike)
{
    char name[80];

    memset(name, 'n', 63);
    strcpy(name + 63, ":1");
    machine_rdma(table, name, NULL, -1, KVL_PORT_UP);
    strcpy(name + 63, ":2");
    machine_rdma(table, name, NULL, -1, KVL_PORT_UP);
    name[31] = '\0';
    CHECK_EQ(offer("rc_verbs", name, true), KVL_OK);
    REQUIRE(table->rail_count == 2);
    CHECK(table->rails[0].ambiguous && table->rails[1].ambiguous);
    CHECK_STR_EQ(table->rails[0].device, "");
    CHECK_STR_EQ(table->rails[1].device, "");
}

TEST(rail_table_offer, makes_a_rail_of_what_the_system_hides)
{
    CHECK_EQ(offer("tcp", "eth7", true), KVL_OK);
    CHECK_EQ(offer("rc_verbs", "mlx5_3:2", true), KVL_OK);
    CHECK_EQ(offer("ud_verbs", "mlx5_3:2", true), KVL_OK);
    CHECK_EQ(offer("rc_verbs", "mlx5_3:2", true), KVL_OK);
    CHECK_EQ(offer("cuda_copy", "cuda", false), KVL_OK);
    REQUIRE(table->rail_count == 2);
    CHECK_STR_EQ(table->rails[0].name, "mlx5_3:2");
    CHECK_STR_EQ(table->rails[0].transports, "rc_verbs,ud_verbs");
    CHECK_EQ(table->rails[0].port, 2);
    CHECK_EQ(table->rails[0].state, KVL_PORT_UNKNOWN);
    CHECK_EQ(table->rails[1].kind, KVL_RAIL_TCP);
    CHECK_EQ(table->rails[1].numa, -1);
}

TEST(rail_table_offer, counts_what_it_cannot_name)
{
    char name[200];

    memset(name, 'x', sizeof(name));
    name[199] = '\0';
    CHECK_EQ(offer("tcp", name, true), KVL_OK);
    CHECK_EQ(offer("tcp", "a,b", true), KVL_OK);
    CHECK_EQ(table->rail_count, 0);
    CHECK_EQ(table->left_out, 2);
}

TEST(rail_table_gpu, is_found_however_its_address_is_written)
{
    machine_gpu(table, "pci0000:15/0000:15:01.0/0000:1b:00.0", 0);
    CHECK(kvl_rail_table_gpu(table, "0000:1b:00.0") == &table->gpus[0]);
    CHECK(kvl_rail_table_gpu(table, "00000000:1B:00.0") == &table->gpus[0]); /* cuda */
    CHECK(kvl_rail_table_gpu(table, "1b:00.0") == &table->gpus[0]);          /* lspci */
    CHECK(kvl_rail_table_gpu(table, "0000:1b:00.1") == NULL);
    CHECK(kvl_rail_table_gpu(table, "0001:1b:00.0") == NULL);
    CHECK(kvl_rail_table_gpu(table, "1b:00.0x") == NULL);
    CHECK(kvl_rail_table_gpu(table, "") == NULL);
    CHECK(kvl_rail_table_gpu(table, NULL) == NULL);
}

TEST(rail_table_numa_distance, is_unknown_for_nodes_that_are_not_there)
{
    kvl_numa_node_t node = {.node = 3, .distance_count = 1, .distances = {10}};

    REQUIRE(kvl_rail_table_add_node(table, &node) == KVL_OK);
    node = (kvl_numa_node_t){.node = 1, .distance_count = 2, .distances = {10, 32}};
    REQUIRE(kvl_rail_table_add_node(table, &node) == KVL_OK);
    CHECK_EQ(kvl_rail_table_numa_distance(table, 1, 3), 32);
    CHECK_EQ(kvl_rail_table_numa_distance(table, 3, 3), 0); /* its row is too short */
    CHECK_EQ(kvl_rail_table_numa_distance(table, 1, 2), 0);
    CHECK_EQ(kvl_rail_table_numa_distance(table, -1, 1), 0);
}

TEST(rail_table_list, says_how_many_more_when_it_is_long)
{
    char text[128];

    kvl_rail_table_list(table, text, sizeof(text));
    CHECK_STR_EQ(text, "nothing");
    machine_tcp(table, "eth0", -1, KVL_PORT_UP);
    machine_tcp(table, "eth1", -1, KVL_PORT_DOWN);
    kvl_rail_table_list(table, text, sizeof(text));
    CHECK_STR_EQ(text, "eth0 (tcp, up), eth1 (tcp, down)");
    for (unsigned i = 2; i < 10; i++) {
        char name[8];

        snprintf(name, sizeof(name), "eth%u", i);
        machine_tcp(table, name, -1, KVL_PORT_UP);
    }
    kvl_rail_table_list(table, text, sizeof(text));
    CHECK(strstr(text, " and 5 more") != NULL);
}

TEST(rail_table_print, is_json_that_a_parser_takes)
{
    kvl_rail_table_t *machine = machine_dgx();
    char *text                = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    json_t *json, *rails;
    json_error_t error;

    machine_ucx(machine);
    strcpy(machine_rail(machine, "mlx5_0:1")->firmware, "28.39\"\\\x01\xff");
    kvl_rail_table_print(machine, stream, 1);
    fclose(stream);
    json = json_loads(text, 0, &error);
    CHECK_MSG(json != NULL, "%s at line %d: %s", error.text, error.line, text);
    rails = json_object_get(json, "rails");
    CHECK_EQ(json_array_size(rails), 12);
    CHECK_EQ(json_array_size(json_object_get(json, "gpus")), 8);
    CHECK_EQ(json_array_size(json_object_get(json, "numa_nodes")), 2);
    CHECK_STR_EQ(json_string_value(json_object_get(json_array_get(rails, 7), "name")), "mlx5_11:1");
    json_decref(json);
    free(text);
    kvl_rail_table_destroy(machine);
}

TEST(rail_table_print, has_a_line_per_rail)
{
    kvl_rail_table_t *machine = machine_two_sockets();
    char *text                = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    machine_ucx(machine);
    kvl_rail_table_print(machine, stream, 0);
    fclose(stream);
    CHECK(strstr(text, "mlx5_1:1 ") != NULL);
    CHECK(strstr(text, "400000 Mbit/s") != NULL);
    CHECK(strstr(text, "0000:b3:00.0") != NULL);
    CHECK(strstr(text, "numa node 1  distances 21 10") != NULL);
    free(text);
    kvl_rail_table_destroy(machine);
}
