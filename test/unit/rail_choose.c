/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/rail_machine.h"

#include "shim/shim.h"

#include "base/fault.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* KVLANE_RAILS: which rails are in, which are off and why, and what is refused. The affinity is off,
 * or has nothing to choose; rail_affinity.c is about it. */

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

static kvl_status_t choose(const char *rails, const char *reach)
{
    kvl_choose_params_t params = {.rails = rails, .affinity = KVL_AFFINITY_OFF, .reach = reach};

    kvl_decision_destroy(decision);
    decision = NULL;
    return kvl_decision_create(table, &params, &decision);
}

static const char *used(void)
{
    return decision ? machine_names(decision, table, KVL_VERDICT_USED) : "(no decision)";
}

static const char *reason(const char *name)
{
    return machine_reason(decision, table, name);
}

/* ---- auto ---- */

TEST(rails_auto, takes_rdma_and_says_why_not_the_others)
{
    table = machine_dgx();
    machine_ucx(table);
    CHECK_EQ(choose("auto", "eno3"), KVL_OK);
    CHECK_STR_EQ(used(), "mlx5_0:1 mlx5_3:1 mlx5_4:1 mlx5_5:1 mlx5_6:1 mlx5_9:1 mlx5_10:1 "
                         "mlx5_11:1");
    CHECK_STR_EQ(reason("eno3"), "turned off by KVLANE_RAILS=auto: rdma rails are used");
    CHECK_STR_EQ(reason("ens6f1"), "is down (lowerlayerdown)");
    CHECK_HAS(reason("lo"), "loopback");
    CHECK_HAS(reason("mlx5_9:1"), "found by itself");
    CHECK(!decision->degraded);
    CHECK_EQ(decision->count, 12);
    CHECK_EQ(decision->used, 8);
    CHECK_EQ(decision->spare, 0);
}

TEST(rails_auto, is_what_no_setting_means)
{
    table = machine_two_sockets();
    machine_ucx(table);
    CHECK_EQ(choose(NULL, NULL), KVL_OK);
    CHECK_STR_EQ(used(), "mlx5_0:1 mlx5_1:1");
}

TEST(rails_auto, never_takes_a_port_that_is_down)
{
    table = machine_dgx();
    machine_ucx(table);
    machine_rail(table, "mlx5_4:1")->state = KVL_PORT_DOWN;
    strcpy(machine_rail(table, "mlx5_4:1")->state_text, "INIT");
    CHECK_EQ(choose("auto", NULL), KVL_OK);
    CHECK_STR_EQ(used(), "mlx5_0:1 mlx5_3:1 mlx5_5:1 mlx5_6:1 mlx5_9:1 mlx5_10:1 mlx5_11:1");
    CHECK_STR_EQ(reason("mlx5_4:1"), "is down (INIT)");
}

TEST(rails_auto, is_loud_when_it_passes_over_rdma)
{
    table                                  = machine_two_sockets();
    machine_rail(table, "mlx5_0:1")->state = KVL_PORT_DOWN;
    machine_rail(table, "mlx5_1:1")->state = KVL_PORT_DOWN;
    machine_ucx(table);
    CHECK_EQ(choose("auto", "eno1"), KVL_OK);
    CHECK_STR_EQ(used(), "eno1");
    CHECK(decision->degraded);
    CHECK_HAS(decision->note, "no rdma rail can be used (mlx5_0:1 is down");
    CHECK_HAS(decision->note, "using tcp");
}

TEST(rails_auto, takes_the_interface_that_reaches_the_peer)
{
    table = machine_virtual();
    machine_ucx(table);
    CHECK_EQ(choose("auto", "eth2"), KVL_OK);
    CHECK_STR_EQ(used(), "eth2");
    CHECK_HAS(reason("eth0"), "the peer is reached by eth2");
    CHECK(!decision->degraded);
    CHECK_EQ(choose("auto", "lo"), KVL_OK);
    CHECK_STR_EQ(used(), "lo");
    CHECK_EQ(choose("auto", "eth9"), KVL_OK); /* nobody knows that one */
    CHECK_STR_EQ(used(), "eth0 eth1 eth2 eth3");
    CHECK_EQ(choose("auto", NULL), KVL_OK);
    CHECK_STR_EQ(used(), "eth0 eth1 eth2 eth3");
    CHECK_HAS(reason("docker0"), "bridge");
}

TEST(rails_auto, takes_shared_memory_when_there_is_nothing_else)
{
    table = machine_create(1);
    machine_tcp(table, "lo", -1, KVL_PORT_UP);
    machine_ucx(table);
    CHECK_EQ(choose("auto", NULL), KVL_OK);
    CHECK_STR_EQ(used(), "shm");
}

TEST(rails_auto, fails_on_an_empty_table)
{
    table = machine_create(0);
    CHECK_EQ(choose("auto", NULL), KVL_ERR_NO_DEVICE);
    CHECK_STR_EQ(kvl_error_text(), "KVLANE_RAILS=auto: no rail can be used; there is: nothing");
}

/* ---- lists ---- */

TEST(rails_named, keeps_the_order_of_the_user)
{
    table = machine_virtual();
    machine_ucx(table);
    CHECK_EQ(choose("eth3,eth0,eth2", "lo"), KVL_OK);
    CHECK_STR_EQ(used(), "eth3 eth0 eth2");
    CHECK_STR_EQ(reason("eth1"), "not in KVLANE_RAILS=eth3,eth0,eth2");
    CHECK_HAS(reason("eth3"), "named in KVLANE_RAILS");
    CHECK_EQ(choose("eth1,eth1", NULL), KVL_OK);
    CHECK_STR_EQ(used(), "eth1");
}

TEST(rails_named, may_be_what_auto_leaves_out)
{
    table = machine_virtual();
    machine_ucx(table);
    CHECK_EQ(choose("docker0,lo", NULL), KVL_OK);
    CHECK_STR_EQ(used(), "docker0 lo");
}

TEST(rails_named, means_all_ports_of_a_device)
{
    table = machine_create(1);
    machine_rdma(table, "mlx5_0:1", NULL, 0, KVL_PORT_UP);
    machine_rdma(table, "mlx5_0:2", NULL, 0, KVL_PORT_UP);
    machine_rdma(table, "mlx5_01:1", NULL, 0, KVL_PORT_UP);
    machine_ucx(table);
    CHECK_EQ(choose("mlx5_0", NULL), KVL_OK);
    CHECK_STR_EQ(used(), "mlx5_0:1 mlx5_0:2");
    CHECK_EQ(choose("mlx5_0:2", NULL), KVL_OK);
    CHECK_STR_EQ(used(), "mlx5_0:2");
    /* dual port, one of them without a cable */
    machine_rail(table, "mlx5_0:2")->state = KVL_PORT_DOWN;
    CHECK_EQ(choose("mlx5_0", NULL), KVL_OK);
    CHECK_STR_EQ(used(), "mlx5_0:1");
    CHECK_EQ(choose("mlx5_0:2", NULL), KVL_ERR_NO_DEVICE);
}

TEST(rails_named, are_refused_when_unknown_with_a_list_of_what_there_is)
{
    table = machine_two_sockets();
    machine_ucx(table);
    CHECK_EQ(choose("mlx5_0:1,mlx5_7:1", NULL), KVL_ERR_NO_DEVICE);
    CHECK_STR_EQ(kvl_error_text(),
                 "KVLANE_RAILS=mlx5_0:1,mlx5_7:1: no rail mlx5_7:1 is here; there is: mlx5_0:1 "
                 "(rdma, up), mlx5_1:1 (rdma, up), eno1 (tcp, up), shm (shm, up)");
    CHECK_EQ(choose("mlx5_0:2", NULL), KVL_ERR_NO_DEVICE);
    CHECK_EQ(choose("mlx5", NULL), KVL_ERR_NO_DEVICE);
    CHECK_EQ(choose("eno", NULL), KVL_ERR_NO_DEVICE);
    CHECK_EQ(choose("^eno2", NULL), KVL_ERR_NO_DEVICE);
    CHECK(decision == NULL);
}

TEST(rails_named, are_refused_when_down_also_beside_others)
{
    table = machine_dgx();
    machine_ucx(table);
    CHECK_EQ(choose("eno3,ens6f1", NULL), KVL_ERR_NO_DEVICE);
    CHECK_HAS(kvl_error_text(), "ens6f1 is down (lowerlayerdown); there is: ");
    CHECK_HAS(kvl_error_text(), "eno3 (tcp, up)");
}

TEST(rails_named, are_refused_when_nobody_can_reach_them)
{
    table = machine_virtual();
    machine_ucx(table);
    machine_rail(table, "eth1")->address_count = 0;
    CHECK_EQ(choose("eth1", NULL), KVL_ERR_NO_DEVICE);
    CHECK_HAS(kvl_error_text(), "eth1 has no address");
    machine_rail(table, "eth2")->device[0] = '\0';
    CHECK_EQ(choose("eth2", NULL), KVL_ERR_NO_DEVICE);
    CHECK_HAS(kvl_error_text(), "eth2 is not offered by ucx");
    machine_rail(table, "eth3")->ambiguous = true;
    CHECK_EQ(choose("eth3", NULL), KVL_ERR_NO_DEVICE);
    CHECK_HAS(kvl_error_text(), "eth3 cannot be named to ucx");
    CHECK_EQ(choose("auto", NULL), KVL_OK);
    CHECK_STR_EQ(used(), "eth0");
}

TEST(rails_named, need_a_gid_and_a_transport_that_carries)
{
    table = machine_create(1);
    machine_rdma(table, "mlx5_0:1", NULL, 0, KVL_PORT_UP);
    machine_rdma(table, "mlx5_1:1", NULL, 0, KVL_PORT_UP);
    machine_ucx(table);
    machine_rail(table, "mlx5_0:1")->gid_count  = 0;
    machine_rail(table, "mlx5_0:1")->link_layer = KVL_LINK_ETHERNET;
    strcpy(machine_rail(table, "mlx5_1:1")->transports, "ud_verbs");
    CHECK_EQ(choose("mlx5_0:1", NULL), KVL_ERR_NO_DEVICE);
    CHECK_HAS(kvl_error_text(), "mlx5_0:1 has no gid, so nobody reaches it: give its interface an");
    CHECK_EQ(choose("mlx5_1:1", NULL), KVL_ERR_NO_DEVICE);
    CHECK_HAS(kvl_error_text(), "only ud_verbs");
}

TEST(rails_except, leave_out_what_they_name)
{
    table = machine_virtual();
    machine_ucx(table);
    CHECK_EQ(choose("^eth0", "eth0"), KVL_OK);
    CHECK_STR_EQ(used(), "eth1 eth2 eth3");
    CHECK_STR_EQ(reason("eth0"), "turned off by KVLANE_RAILS=^eth0");
    CHECK_EQ(choose("^eth0,eth3", NULL), KVL_OK);
    CHECK_STR_EQ(used(), "eth1 eth2");
    CHECK_EQ(choose("^eth0,^eth3", NULL), KVL_OK);
    CHECK_STR_EQ(used(), "eth1 eth2");
    CHECK_EQ(choose("^rdma,eth1", NULL), KVL_OK); /* no rdma is here to leave out */
    CHECK_STR_EQ(used(), "eth0 eth2 eth3");
    CHECK_EQ(choose("^tcp", NULL), KVL_OK);
    CHECK_STR_EQ(used(), "shm");
    CHECK_EQ(choose("^tcp,shm", NULL), KVL_ERR_NO_DEVICE);
}

TEST(rails_except, of_rdma_are_no_silent_fallback)
{
    table = machine_two_sockets();
    machine_ucx(table);
    CHECK_EQ(choose("^rdma", NULL), KVL_OK);
    CHECK_STR_EQ(used(), "eno1");
    CHECK(!decision->degraded);
    CHECK_STR_EQ(decision->note, "");
}

/* ---- kinds ---- */

TEST(rails_kind, is_an_error_when_there_is_none_of_it)
{
    table = machine_virtual();
    machine_ucx(table);
    CHECK_EQ(choose("rdma", NULL), KVL_ERR_NO_DEVICE);
    CHECK_HAS(kvl_error_text(), "KVLANE_RAILS=rdma: no rdma rail is here; there is: docker0 (tcp");
    CHECK_EQ(choose("rdma,eth0", NULL), KVL_ERR_NO_DEVICE);
}

TEST(rails_kind, is_an_error_when_none_of_it_can_be_used)
{
    table                                  = machine_two_sockets();
    machine_rail(table, "mlx5_0:1")->state = KVL_PORT_DOWN;
    machine_rail(table, "mlx5_1:1")->state = KVL_PORT_DOWN;
    machine_ucx(table);
    CHECK_EQ(choose("rdma", NULL), KVL_ERR_NO_DEVICE);
    CHECK_HAS(kvl_error_text(), "no rdma rail can be used: mlx5_0:1 is down");
    machine_rail(table, "mlx5_1:1")->state =
        KVL_PORT_UP; /* it came up, but ucx was not asked yet */
    CHECK_EQ(choose("rdma", NULL), KVL_ERR_NO_DEVICE);
}

TEST(rails_kind, takes_all_of_it)
{
    table = machine_dgx();
    machine_ucx(table);
    CHECK_EQ(choose("tcp", "eno3"), KVL_OK);
    CHECK_STR_EQ(used(), "eno3");
    CHECK_HAS(reason("eno3"), "of the kind that KVLANE_RAILS asks for");
    CHECK_EQ(choose("shm", NULL), KVL_OK);
    CHECK_STR_EQ(used(), "shm");
    CHECK_EQ(choose("shm,tcp", NULL), KVL_OK);
    CHECK_STR_EQ(used(), "eno3 shm"); /* shared memory behind the others */
    kvl_rail_table_destroy(table);
    table = machine_virtual();
    machine_ucx(table);
    CHECK_EQ(choose("tcp", "eth1"), KVL_OK);
    CHECK_STR_EQ(used(), "eth0 eth1 eth2 eth3");
    CHECK_EQ(choose("tcp", "lo"), KVL_OK);
    CHECK_STR_EQ(used(), "lo");
}

/* ---- bonds and virtual functions ---- */

TEST(rails_bond, stands_for_its_ports)
{
    table = machine_create(2);
    machine_tcp(table, "ens1f0", 0, KVL_PORT_UP);
    machine_tcp(table, "ens1f1", 0, KVL_PORT_UP);
    for (unsigned i = 0; i < 2; i++) {
        strcpy(table->rails[i].master, "bond0");
        table->rails[i].address_count = 0;
    }
    machine_tcp(table, "bond0", 0, KVL_PORT_UP);
    machine_rail(table, "bond0")->bond = true;
    CHECK_EQ(kvl_rail_table_offer(table, &(kvl_offer_t){"tcp", "bond0", true}, 1), KVL_OK);
    CHECK_EQ(choose("auto", NULL), KVL_OK);
    CHECK_STR_EQ(used(), "bond0");
    CHECK_STR_EQ(reason("ens1f1"), "is a port of bond0, which stands for it");
    CHECK_EQ(choose("ens1f0", NULL), KVL_ERR_NO_DEVICE);
    CHECK_HAS(kvl_error_text(), "ens1f0 is a port of bond0");
}

TEST(rails_virtual_function, gives_way_to_its_physical_one)
{
    table = machine_create(1);
    machine_rdma(table, "mlx5_0:1", "pci0000:17/0000:17:00.0/0000:18:00.0", 0, KVL_PORT_UP);
    machine_rdma(table, "mlx5_1:1", "pci0000:17/0000:17:00.0/0000:18:00.2", 0, KVL_PORT_UP);
    machine_ucx(table);
    strcpy(machine_rail(table, "mlx5_1:1")->physical, "0000:18:00.0");
    CHECK_EQ(choose("auto", NULL), KVL_OK);
    CHECK_STR_EQ(used(), "mlx5_0:1");
    CHECK_HAS(reason("mlx5_1:1"), "is a virtual function of mlx5_0:1, which is used");
    CHECK_EQ(choose("mlx5_1:1", NULL), KVL_OK);
    CHECK_STR_EQ(used(), "mlx5_1:1");
    machine_rail(table, "mlx5_0:1")->device[0] = '\0'; /* a container has the function alone */
    CHECK_EQ(choose("auto", NULL), KVL_OK);
    CHECK_STR_EQ(used(), "mlx5_1:1");
    strcpy(machine_rail(table, "mlx5_1:1")->physical, "?");
    CHECK_EQ(choose("auto", NULL), KVL_OK);
    CHECK_STR_EQ(used(), "mlx5_1:1");
}

/* ---- bad lists ---- */

TEST(rails_list, is_refused_when_it_makes_no_sense)
{
    static const char *const bad[] = {"",      ",",      "eth0,",      ",eth0",     "eth0,,eth1",
                                      "^",     "^,eth0", "eth0,^eth1", "auto,eth0", "eth0,auto",
                                      "^auto", "^eth0,", "^^"};

    table = machine_virtual();
    machine_ucx(table);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        kvl_status_t status = choose(bad[i], NULL);

        /* the last is a name that is not there */
        CHECK_MSG(status == (strcmp(bad[i], "^^") == 0 ? KVL_ERR_NO_DEVICE : KVL_ERR_CONFIG),
                  "'%s' gave %d", bad[i], status);
        CHECK_HAS(kvl_error_text(), "KVLANE_RAILS=");
    }
    CHECK_EQ(choose("eth0,^eth1", NULL), KVL_ERR_CONFIG);
    CHECK_HAS(kvl_error_text(), "accepted: auto, tcp, shm, rdma, names");
}

TEST(rails_list, takes_names_of_63_characters_and_refuses_longer_ones)
{
    char name[80], twice[160], longer[400];

    memset(name, 'n', 63);
    strcpy(name + 63, ":1");
    table = machine_create(1);
    machine_rdma(table, name, NULL, 0, KVL_PORT_UP);
    machine_tcp(table, "eth0", 0, KVL_PORT_UP);
    machine_ucx(table);
    strcpy(machine_rail(table, name)->device, "nnn");
    CHECK_EQ(choose(name, NULL), KVL_OK);
    CHECK_STR_EQ(used(), name);
    snprintf(twice, sizeof(twice), "eth0,%s", name);
    CHECK_EQ(choose(twice, NULL), KVL_OK);
    CHECK_EQ(decision->used, 2);
    memset(longer, 'n', sizeof(longer));
    longer[sizeof(longer) - 1] = '\0';
    CHECK_EQ(choose(longer, NULL), KVL_ERR_CONFIG);
    longer[71] = '\0';
    CHECK_EQ(choose(longer, NULL), KVL_ERR_NO_DEVICE);
}

/* ---- the object ---- */

TEST(decision_create, survives_each_failing_allocation)
{
    table = machine_dgx();
    machine_ucx(table);
    for (unsigned n = 1; n <= 2; n++) {
        char rule[32];

        snprintf(rule, sizeof(rule), "alloc:fail@%u", n);
        REQUIRE(kvl_fault_setup(rule, 0) == KVL_OK);
        CHECK_EQ(choose("auto", NULL), KVL_ERR_NO_MEMORY);
        REQUIRE(kvl_fault_setup(NULL, 0) == KVL_OK);
    }
}

static char *printed(int json)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    kvl_decision_print(decision, table, stream, json);
    fclose(stream);
    return text;
}

TEST(decision_print, tells_each_rail_with_its_reason)
{
    char *text;

    table = machine_dgx();
    machine_ucx(table);
    CHECK_EQ(choose("^mlx5_9:1", "eno3"), KVL_OK);
    text = printed(0);
    CHECK_HAS(text, "KVLANE_RAILS=^mlx5_9:1 KVLANE_AFFINITY=off, memory anywhere: 7 used, 0 spare, "
                    "5 off\n");
    CHECK_HAS(text, "used   mlx5_0:1 ");
    CHECK_HAS(text, "off    mlx5_9:1              turned off by KVLANE_RAILS=^mlx5_9:1\n");
    free(text);
}

TEST(decision_print, is_json_that_a_parser_takes)
{
    json_t *json, *choices, *first;
    char *text;

    table = machine_two_sockets();
    machine_ucx(table);
    CHECK_EQ(choose("auto", NULL), KVL_OK);
    text = printed(1);
    json = json_loads(text, 0, NULL);
    CHECK_MSG(json != NULL, "%s", text);
    choices = json_object_get(json, "choices");
    first   = json_array_get(choices, 0);
    CHECK_EQ(json_array_size(choices), 4);
    CHECK_EQ(json_integer_value(json_object_get(json, "used")), 2);
    CHECK_STR_EQ(json_string_value(json_object_get(first, "rail")), "mlx5_0:1");
    CHECK_STR_EQ(json_string_value(json_object_get(first, "verdict")), "used");
    json_decref(json);
    free(text);
}

TEST(decision_summary, is_one_line_however_small_the_buffer)
{
    char text[256], small[12];

    table = machine_two_sockets();
    machine_ucx(table);
    CHECK_EQ(choose("auto", NULL), KVL_OK);
    kvl_decision_summary(decision, table, text, sizeof(text));
    CHECK_STR_EQ(text, "mlx5_0:1 mlx5_1:1 of 4 rails (auto, off, memory anywhere)");
    kvl_decision_summary(decision, table, small, sizeof(small));
    CHECK_STR_EQ(small, "mlx5_0:1 ml");
}
