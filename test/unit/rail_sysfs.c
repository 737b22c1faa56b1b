/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/shim.h"

#include "rail/discover.h"

#include "base/fault.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Discovery below a root of our own, made as the kernel makes it: devices in their folders, classes of
 * links to them. */

static char root[64];
static kvl_rail_table_t *table;

SETUP
{
    table = NULL;
    strcpy(root, "/tmp/kvl_sysfs_XXXXXX");
    REQUIRE(mkdtemp(root) != NULL);
}

TEARDOWN
{
    char command[128];

    kvl_rail_table_destroy(table);
    snprintf(command, sizeof(command), "rm -rf '%s'", root);
    CHECK_EQ(system(command), 0);
}

/* "<root>/sys/<path>", with its folders made */
static void place(char full[PATH_MAX], const char *format, va_list args)
{
    int used = snprintf(full, PATH_MAX, "%s/sys/", root);

    vsnprintf(full + used, (size_t)(PATH_MAX - used), format, args);
    for (char *at = strchr(full + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(full, 0755);
        *at = '/';
    }
}

__attribute__((format(printf, 2, 3))) static void put(const char *text, const char *format, ...)
{
    char full[PATH_MAX];
    va_list args;
    FILE *file;

    va_start(args, format);
    place(full, format, args);
    va_end(args);
    file = fopen(full, "w");
    REQUIRE(file != NULL);
    fputs(text, file);
    fclose(file);
}

__attribute__((format(printf, 2, 3))) static void put_link(const char *target, const char *format,
                                                           ...)
{
    char full[PATH_MAX], absolute[PATH_MAX];
    va_list args;

    va_start(args, format);
    place(full, format, args);
    va_end(args);
    snprintf(absolute, sizeof(absolute), "%s/sys/%s", root, target);
    REQUIRE(symlink(absolute, full) == 0);
}

static void interface(const char *name, const char *operstate, const char *speed, const char *type)
{
    put("7\n", "class/net/%s/ifindex", name);
    put(operstate, "class/net/%s/operstate", name);
    put(speed, "class/net/%s/speed", name);
    put(type, "class/net/%s/type", name);
    put("9000\n", "class/net/%s/mtu", name);
}

static kvl_status_t discover(void)
{
    kvl_discover_params_t params = {.root = root};

    return kvl_discover(&params, &table);
}

static const kvl_rail_t *rail(const char *name)
{
    size_t at = kvl_rail_table_find(table, name);

    REQUIRE(at < table->rail_count);
    return &table->rails[at];
}

TEST(discover_net, reads_interfaces)
{
    interface("eth0", "up\n", "25000\n", "1\n");
    interface("eth1", "lowerlayerdown\n", "-1\n", "1\n");
    interface("ib0", "dormant\n", "", "32\n");
    interface("lo", "unknown\n", "", "772\n");
    put("1\n", "class/net/lo/carrier");
    interface("tun0", "unknown\n", "10\n", "65534\n");
    put("bond0\n", "class/net/bonding_masters");
    put("1\n", "devices/pci0000:17/0000:17:00.0/0000:18:00.0/numa_node");
    put_link("devices/pci0000:17/0000:17:00.0/0000:18:00.0", "class/net/eth0/device");
    REQUIRE(discover() == KVL_OK);
    CHECK_EQ(table->rail_count, 5);
    CHECK_EQ(rail("eth0")->state, KVL_PORT_UP);
    CHECK_EQ(rail("eth0")->speed_mbits, 25000);
    CHECK_EQ(rail("eth0")->mtu, 9000);
    CHECK_EQ(rail("eth0")->link_layer, KVL_LINK_ETHERNET);
    CHECK_EQ(rail("eth0")->numa, 1);
    CHECK_STR_EQ(rail("eth0")->pci.address, "0000:18:00.0");
    CHECK_STR_EQ(rail("eth0")->pci.path, "pci0000:17/0000:17:00.0/0000:18:00.0");
    CHECK_STR_EQ(rail("eth0")->physical, "");
    CHECK(!rail("eth0")->endpoints_known);
    CHECK_EQ(rail("eth1")->state, KVL_PORT_DOWN);
    CHECK_STR_EQ(rail("eth1")->state_text, "lowerlayerdown");
    CHECK_EQ(rail("eth1")->speed_mbits, 0);
    CHECK_EQ(rail("eth1")->numa, -1);
    CHECK_EQ(rail("ib0")->link_layer, KVL_LINK_INFINIBAND);
    CHECK_EQ(rail("ib0")->state, KVL_PORT_DOWN);
    CHECK_EQ(rail("lo")->state, KVL_PORT_UP);
    CHECK_EQ(rail("lo")->link_layer, KVL_LINK_LOOPBACK);
    CHECK_EQ(rail("tun0")->state, KVL_PORT_UNKNOWN);
}

TEST(discover_net, locates_a_bond_by_its_ports)
{
    interface("bond0", "up\n", "50000\n", "1\n");
    put("ens1f0 ens1f1\n", "class/net/bond0/bonding/slaves");
    interface("bond1", "up\n", "50000\n", "1\n");
    put("", "class/net/bond1/bonding/slaves");
    for (int i = 0; i < 4; i++) {
        char name[32], master[40];

        snprintf(name, sizeof(name), "ens%df%d", 1 + i / 2, i % 2);
        snprintf(master, sizeof(master), "class/net/bond%d", i / 2);
        interface(name, "up\n", "25000\n", "1\n");
        put_link(master, "class/net/%s/master", name);
        /* both on node 1; one here and one there */
        put(i == 2 ? "0\n" : "1\n", "class/net/%s/device/numa_node", name);
    }
    REQUIRE(discover() == KVL_OK);
    CHECK(rail("bond0")->bond);
    CHECK_EQ(rail("bond0")->numa, 1);
    CHECK_EQ(rail("bond1")->numa, -1);
    CHECK_STR_EQ(rail("ens1f1")->master, "bond0");
    CHECK(!rail("ens1f1")->bond);
}

static void hca(const char *device, unsigned port, const char *state, const char *rate,
                const char *layer)
{
    put("28.39.2048\n", "class/infiniband/%s/fw_ver", device);
    put(state, "class/infiniband/%s/ports/%u/state", device, port);
    put(rate, "class/infiniband/%s/ports/%u/rate", device, port);
    put(layer, "class/infiniband/%s/ports/%u/link_layer", device, port);
}

TEST(discover_ib, reads_ports_with_their_gids)
{
    interface("ens2f0", "up\n", "100000\n", "1\n");
    hca("mlx5_0", 1, "4: ACTIVE\n", "400 Gb/sec (4X NDR)\n", "InfiniBand\n");
    hca("mlx5_1", 1, "4: ACTIVE\n", "100 Gb/sec (4X EDR)\n", "Ethernet\n");
    hca("mlx5_1", 2, "1: DOWN\n", "2.5 Gb/sec (1X SDR)\n", "Ethernet\n");
    hca("mlx5_2", 1, "2: INIT\n", "40 Gb/sec (4X QDR)\n", "InfiniBand\n");
    put("fe80:0000:0000:0000:b859:9f03:00d4:a2f4\n", "class/infiniband/mlx5_0/ports/1/gids/0");
    put("fe80:0000:0000:0000:0000:0000:0000:0000\n", "class/infiniband/mlx5_1/ports/1/gids/0");
    put("0000:0000:0000:0000:0000:ffff:0a00:0007\n", "class/infiniband/mlx5_1/ports/1/gids/3");
    put("RoCE v2\n", "class/infiniband/mlx5_1/ports/1/gid_attrs/types/3");
    put("ens2f0\n", "class/infiniband/mlx5_1/ports/1/gid_attrs/ndevs/3");
    put("0000:0000:0000:0000:0000:0000:0000:0000\n", "class/infiniband/mlx5_1/ports/2/gids/0");
    put("1\n", "devices/pci0000:b2/0000:b2:00.0/0000:b3:00.0/numa_node");
    put_link("devices/pci0000:b2/0000:b2:00.0/0000:b3:00.0", "class/infiniband/mlx5_0/device");
    REQUIRE(discover() == KVL_OK);
    CHECK_EQ(table->rail_count, 5);
    CHECK_EQ(rail("mlx5_0:1")->state, KVL_PORT_UP);
    CHECK_EQ(rail("mlx5_0:1")->speed_mbits, 400000);
    CHECK_EQ(rail("mlx5_0:1")->link_layer, KVL_LINK_INFINIBAND);
    CHECK_EQ(rail("mlx5_0:1")->numa, 1);
    CHECK_EQ(rail("mlx5_0:1")->port, 1);
    CHECK_STR_EQ(rail("mlx5_0:1")->pci.address, "0000:b3:00.0");
    CHECK_STR_EQ(rail("mlx5_0:1")->firmware, "28.39.2048");
    CHECK_EQ(rail("mlx5_1:1")->gid_count, 1);
    CHECK_EQ(rail("mlx5_1:1")->gids[0].index, 3);
    CHECK_STR_EQ(rail("mlx5_1:1")->gids[0].type, "RoCE v2");
    CHECK_STR_EQ(rail("mlx5_1:1")->gids[0].text, "0000:0000:0000:0000:0000:ffff:0a00:0007");
    CHECK_STR_EQ(rail("mlx5_1:1")->interface, "ens2f0");
    CHECK_EQ(rail("mlx5_1:1")->mtu, 9000); /* of the interface */
    CHECK_EQ(rail("mlx5_1:2")->state, KVL_PORT_DOWN);
    CHECK_EQ(rail("mlx5_1:2")->speed_mbits, 2500);
    CHECK(rail("mlx5_1:2")->endpoints_known);
    CHECK_EQ(rail("mlx5_1:2")->gid_count, 0);
    CHECK_EQ(rail("mlx5_2:1")->state, KVL_PORT_DOWN);
    CHECK_STR_EQ(rail("mlx5_2:1")->state_text, "INIT");
}

TEST(discover_ib, marks_virtual_functions_and_bonds)
{
    interface("bond0", "up\n", "200000\n", "1\n");
    put("", "class/net/bond0/bonding/slaves");
    hca("mlx5_bond_0", 1, "4: ACTIVE\n", "200 Gb/sec (4X HDR)\n", "Ethernet\n");
    put("0000:0000:0000:0000:0000:ffff:0a00:0007\n", "class/infiniband/mlx5_bond_0/ports/1/gids/0");
    put("bond0\n", "class/infiniband/mlx5_bond_0/ports/1/gid_attrs/ndevs/0");
    hca("mlx5_3", 1, "4: ACTIVE\n", "100 Gb/sec (4X EDR)\n", "InfiniBand\n");
    put("0\n", "devices/pci0000:17/0000:17:00.0/0000:18:00.0/numa_node");
    put("0\n", "devices/pci0000:17/0000:17:00.0/0000:18:00.2/numa_node");
    put_link("devices/pci0000:17/0000:17:00.0/0000:18:00.0",
             "devices/pci0000:17/0000:17:00.0/0000:18:00.2/physfn");
    put_link("devices/pci0000:17/0000:17:00.0/0000:18:00.2", "class/infiniband/mlx5_3/device");
    REQUIRE(discover() == KVL_OK);
    CHECK(rail("mlx5_bond_0:1")->bond);
    CHECK_STR_EQ(rail("mlx5_3:1")->physical, "0000:18:00.0");
    CHECK_STR_EQ(rail("mlx5_3:1")->pci.address, "0000:18:00.2");
}

TEST(discover_ib, takes_names_of_63_characters_and_leaves_longer_ones_out)
{
    char name[80], port[96];

    memset(name, 'n', 63);
    name[63] = '\0';
    hca(name, 1, "4: ACTIVE\n", "100 Gb/sec\n", "InfiniBand\n");
    snprintf(port, sizeof(port), "%s:1", name);
    memset(name, 'm', 75);
    name[75] = '\0';
    hca(name, 1, "4: ACTIVE\n", "100 Gb/sec\n", "InfiniBand\n");
    REQUIRE(discover() == KVL_OK);
    CHECK_EQ(table->rail_count, 1);
    CHECK_STR_EQ(table->rails[0].name, port);
    CHECK_EQ(table->left_out, 1);
}

TEST(discover_gpus, knows_them_from_management_chips)
{
    static const struct {
        const char *path, *vendor, *class, *numa;
    } rows[] = {
        {"pci0000:15/0000:15:01.0/0000:1b:00.0", "0x10de\n", "0x030200\n", "1\n"},
        {"pci0000:15/0000:15:02.0/0000:0b:00.0", "0x1002\n", "0x120000\n", "0\n"},
        {"pci0000:00/0000:00:1c.0/0000:02:00.0", "0x1a03\n", "0x030000\n", "0\n"},  /* aspeed */
        {"pci0000:00/0000:00:02.0", "0x8086\n", "0x030000\n", "0\n"},               /* cpu's own */
        {"pci0000:15/0000:15:03.0/0000:1c:00.0", "0x10de\n", "0x068000\n", "1\n"},  /* nvswitch */
        {"pci0000:15/0000:15:04.0/0000:1d:00.0", "nvidia\n", "0x030200\n", "-1\n"}, /* nonsense */
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char target[128];

        put(rows[i].vendor, "devices/%s/vendor", rows[i].path);
        put(rows[i].class, "devices/%s/class", rows[i].path);
        put("0x2330\n", "devices/%s/device", rows[i].path);
        put(rows[i].numa, "devices/%s/numa_node", rows[i].path);
        snprintf(target, sizeof(target), "devices/%s", rows[i].path);
        put_link(target, "bus/pci/devices/%s", strrchr(rows[i].path, '/') + 1);
    }
    REQUIRE(discover() == KVL_OK);
    REQUIRE(table->gpu_count == 2);
    CHECK_STR_EQ(table->gpus[0].pci.address, "0000:0b:00.0");
    CHECK_STR_EQ(table->gpus[1].pci.path, "pci0000:15/0000:15:01.0/0000:1b:00.0");
    CHECK_EQ(table->gpus[1].numa, 1);
    CHECK_EQ(table->gpus[1].vendor, 0x10de);
    CHECK_EQ(table->gpus[1].device, 0x2330);
}

TEST(discover_nodes, reads_distances)
{
    put("10 21\n", "devices/system/node/node0/distance");
    put("21 10\n", "devices/system/node/node1/distance");
    put("0-1\n", "devices/system/node/online");
    put("x\n", "devices/system/node/nodeX/distance");
    put("1\n", "devices/system/node/node/distance");
    REQUIRE(discover() == KVL_OK);
    CHECK_EQ(table->node_count, 2);
    CHECK_EQ(kvl_rail_table_numa_distance(table, 0, 1), 21);
    CHECK_EQ(kvl_rail_table_numa_distance(table, 1, 1), 10);
}

TEST(discover_anything, survives_files_that_say_nonsense)
{
    static const char *const nonsense[] = {"",
                                           "\n",
                                           "\xff\xfe\x01",
                                           "999999999999999999999999",
                                           "-9223372036854775808",
                                           "4: ACTIVE\x1b[31m",
                                           "1e400 Gb/sec",
                                           "nan Gb/sec",
                                           "0x",
                                           ": : :",
                                           "%s%n%s",
                                           "up"};
    static const char *const files[]    = {"class/net/e0/ifindex",
                                           "class/net/e0/operstate",
                                           "class/net/e0/speed",
                                           "class/net/e0/mtu",
                                           "class/net/e0/type",
                                           "class/net/e0/carrier",
                                           "class/net/e0/device",
                                           "class/infiniband/i0/fw_ver",
                                           "class/infiniband/i0/device",
                                           "class/infiniband/i0/ports/1/state",
                                           "class/infiniband/i0/ports/1/rate",
                                           "class/infiniband/i0/ports/1/link_layer",
                                           "class/infiniband/i0/ports/1/gids/0",
                                           "class/infiniband/i0/ports/1/gid_attrs/ndevs/0",
                                           "class/infiniband/i0/ports/999/state",
                                           "class/infiniband/i0/ports/-1/state",
                                           "class/infiniband/i1/ports",
                                           "bus/pci/devices/0000:00:00.0/class",
                                           "bus/pci/devices/0000:00:00.0/vendor",
                                           "devices/system/node/node0/distance",
                                           "devices/system/node/node99999999999999999999/distance"};
    char long_text[8192];

    memset(long_text, '7', sizeof(long_text));
    long_text[sizeof(long_text) - 1] = '\0';
    for (size_t n = 0; n <= sizeof(nonsense) / sizeof(nonsense[0]); n++) {
        const char *text = n < sizeof(nonsense) / sizeof(nonsense[0]) ? nonsense[n] : long_text;

        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
            put(text, "%s", files[i]);
        }
        REQUIRE(discover() == KVL_OK);
        CHECK_EQ(rail("e0")->numa, -1);
        CHECK(rail("e0")->mtu <= INT32_MAX && rail("i0:1")->speed_mbits <= 100000000);
        for (const char *at = rail("i0:1")->state_text; *at; at++) {
            CHECK(*at >= ' ' && *at <= '~');
        }
        CHECK(table->left_out >= 2);
        kvl_rail_table_destroy(table);
        table = NULL;
    }
}

TEST(discover_anything, survives_links_that_lead_nowhere)
{
    char full[PATH_MAX];

    interface("eth0", "up\n", "1000\n", "1\n");
    put_link("class/net/eth0/device", "class/net/eth0/device"); /* to itself */
    put_link("no/where", "class/net/eth0/master");
    put_link("class/net", "class/infiniband");
    put_link("no/where", "bus/pci/devices/0000:00:01.0");
    snprintf(full, sizeof(full), "%s/sys/class/net/eth0/carrier", root);
    REQUIRE(mkfifo(full, 0644) == 0); /* nobody writes to it */
    put("unknown\n", "class/net/eth0/operstate");
    REQUIRE(discover() == KVL_OK);
    CHECK_EQ(table->rail_count, 1);
    CHECK_EQ(rail("eth0")->state, KVL_PORT_UNKNOWN);
    CHECK_STR_EQ(rail("eth0")->pci.path, "");
}

TEST(discover_anything, is_empty_where_there_is_no_sysfs)
{
    kvl_discover_params_t params = {.root = "/no/such/root"};

    REQUIRE(kvl_discover(&params, &table) == KVL_OK);
    CHECK_EQ(table->rail_count + table->gpu_count + table->node_count, 0);
}

TEST(discover_anything, survives_each_failing_allocation)
{
    kvl_status_t status = KVL_ERR_NO_MEMORY;

    interface("eth0", "up\n", "1000\n", "1\n");
    interface("eth1", "up\n", "1000\n", "1\n");
    hca("mlx5_0", 1, "4: ACTIVE\n", "100 Gb/sec\n", "InfiniBand\n");
    put("10\n", "devices/system/node/node0/distance");
    for (unsigned n = 1; status == KVL_ERR_NO_MEMORY; n++) {
        char rule[32];

        snprintf(rule, sizeof(rule), "alloc:fail@%u", n);
        REQUIRE(kvl_fault_setup(rule, 0) == KVL_OK);
        status = discover();
        REQUIRE(kvl_fault_setup(NULL, 0) == KVL_OK);
        CHECK_EQ(status, n <= 5 ? KVL_ERR_NO_MEMORY : KVL_OK); /* the table and its four rows */
    }
}

TEST(discover_here, finds_the_loopback_with_its_address)
{
    kvl_offer_t offers[]         = {{"tcp", "lo", true}, {"posix", "memory", false}};
    kvl_discover_params_t params = {.offers = offers, .offer_count = 2};

    REQUIRE(kvl_discover(&params, &table) == KVL_OK);
    if (access("/sys/class/net/lo", F_OK) != 0) {
        SKIP("no /sys here");
    }
    CHECK_EQ(rail("lo")->link_layer, KVL_LINK_LOOPBACK);
    CHECK_STR_EQ(rail("lo")->device, "lo");
    CHECK_STR_EQ(rail("lo")->transports, "tcp");
    CHECK(rail("lo")->endpoints_known);
    CHECK_EQ(rail("shm")->kind, KVL_RAIL_SHM);
}
