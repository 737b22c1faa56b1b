/* SPDX-License-Identifier: BSD-3-Clause */
#include "rail/sysfs.h"

#include <net/if_arp.h>
#include <string.h>

/* /sys/class/net: a tcp rail per interface. */

#define SPEED_MAX 100000000 /* Mbit/s: 100 Tbit/s; what is above is no speed */

/* The kernel says "unknown" of interfaces that do not tell (loopback, tunnels): those count as up
 * when they have a carrier. */
static void net_read_state(const kvl_sysfs_t *net, kvl_rail_t *rail)
{
    long long carrier = 0;

    kvl_sysfs_text(net, "operstate", rail->state_text, sizeof(rail->state_text));
    if (strcmp(rail->state_text, "up") == 0) {
        rail->state = KVL_PORT_UP;
    } else if (strcmp(rail->state_text, "unknown") == 0 || !rail->state_text[0]) {
        bool known  = kvl_sysfs_number(net, "carrier", &carrier);
        rail->state = known && carrier == 1 ? KVL_PORT_UP : KVL_PORT_UNKNOWN;
    } else {
        rail->state = KVL_PORT_DOWN; /* down, dormant, lowerlayerdown, notpresent, testing */
    }
}

static void net_read_numbers(const kvl_sysfs_t *net, kvl_rail_t *rail)
{
    long long value = 0;

    if (kvl_sysfs_number(net, "speed", &value) && value > 0 && value <= SPEED_MAX) {
        rail->speed_mbits = (uint64_t)value;
    }
    if (kvl_sysfs_number(net, "mtu", &value) && value > 0 && value <= INT32_MAX) {
        rail->mtu = (unsigned)value;
    }
    if (kvl_sysfs_number(net, "type", &value)) {
        rail->link_layer = value == ARPHRD_ETHER        ? KVL_LINK_ETHERNET
                           : value == ARPHRD_INFINIBAND ? KVL_LINK_INFINIBAND
                           : value == ARPHRD_LOOPBACK   ? KVL_LINK_LOOPBACK
                                                        : KVL_LINK_UNKNOWN;
    }
}

static void net_read(const kvl_sysfs_t *net, kvl_rail_t *rail)
{
    kvl_sysfs_t device = kvl_sysfs_in(net, "device");

    net_read_state(net, rail);
    net_read_numbers(net, rail);
    kvl_sysfs_device(&device, rail);
    rail->bond   = kvl_sysfs_exists(net, "bonding");
    rail->bridge = kvl_sysfs_exists(net, "bridge");
    kvl_sysfs_link(net, "master", rail->master, sizeof(rail->master));
}

static kvl_status_t net_add(kvl_rail_table_t *table, const kvl_sysfs_t *folder, const char *name)
{
    kvl_rail_t rail = {.kind = KVL_RAIL_TCP, .numa = -1};
    kvl_sysfs_t net = kvl_sysfs_in(folder, name);

    if (!kvl_sysfs_exists(&net, "ifindex")) {
        return KVL_OK; /* bonding_masters and the like */
    }
    if (strlen(name) >= sizeof(rail.name)) {
        table->left_out++;
        return KVL_OK;
    }
    snprintf(rail.name, sizeof(rail.name), "%s", name);
    net_read(&net, &rail);
    return kvl_sysfs_taken(table, kvl_rail_table_add(table, &rail));
}

/* A bond has no place of its own: it is where its members are, if they agree. */
static void bond_locate(const kvl_rail_table_t *table, kvl_rail_t *bond)
{
    bool first = true;

    for (size_t i = 0; i < table->rail_count; i++) {
        const kvl_rail_t *member = &table->rails[i];

        if (member->kind == KVL_RAIL_TCP && strcmp(member->master, bond->name) == 0) {
            bond->numa = first || bond->numa == member->numa ? member->numa : -1;
            if (!first && bond->numa < 0) {
                return;
            }
            first = false;
        }
    }
}

kvl_status_t kvl_sysfs_read_net(kvl_rail_table_t *table, const char *root)
{
    kvl_status_t status = kvl_sysfs_each(table, root, "/sys/class/net", net_add);

    for (size_t i = 0; i < table->rail_count; i++) {
        if (table->rails[i].bond && table->rails[i].numa < 0) {
            bond_locate(table, &table->rails[i]);
        }
    }
    return status;
}
