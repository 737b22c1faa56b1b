/* SPDX-License-Identifier: BSD-3-Clause */
#include "rail/sysfs.h"

#include <stdlib.h>
#include <string.h>

/* /sys/class/infiniband: an rdma rail per port of each device. */

#define GIDS_MAX  256 /* entries of a port's table that are looked at */
#define PORT_MAX  254
#define RATE_MAX  100000.0 /* Gbit/s */
#define NO_GID    "0000:0000:0000:0000:0000:0000:0000:0000"
#define LOCAL_GID "fe80:0000:0000:0000:0000:0000:0000:0000" /* prefix without a port's own part */

/* "4: ACTIVE" */
static void port_read_state(const kvl_sysfs_t *port, kvl_rail_t *rail)
{
    char text[24], *word;
    unsigned long number;

    if (!kvl_sysfs_text(port, "state", text, sizeof(text))) {
        return;
    }
    number = strtoul(text, &word, 10);
    word += strspn(word, ": ");
    snprintf(rail->state_text, sizeof(rail->state_text), "%s", *word ? word : text);
    rail->state = number == 4                  ? KVL_PORT_UP
                  : number >= 1 && number <= 5 ? KVL_PORT_DOWN
                                               : KVL_PORT_UNKNOWN;
}

/* "100 Gb/sec (4X EDR)", "2.5 Gb/sec (1X SDR)" */
static void port_read_rate(const kvl_sysfs_t *port, kvl_rail_t *rail)
{
    char text[48], *unit;
    double rate;

    if (!kvl_sysfs_text(port, "rate", text, sizeof(text))) {
        return;
    }
    rate = strtod(text, &unit);
    if (strncmp(unit, " Gb/sec", 7) == 0 && rate > 0 && rate <= RATE_MAX) {
        rail->speed_mbits = (uint64_t)(rate * 1000);
    }
}

static void port_read_gid(const kvl_sysfs_t *port, unsigned index, kvl_rail_t *rail)
{
    kvl_gid_t gid = {.index = index};
    char name[40], interface[KVL_RAIL_TEXT_SIZE];

    snprintf(name, sizeof(name), "gids/%u", index);
    if (!kvl_sysfs_text(port, name, gid.text, sizeof(gid.text)) || strcmp(gid.text, NO_GID) == 0 ||
        strcmp(gid.text, LOCAL_GID) == 0) {
        return;
    }
    snprintf(name, sizeof(name), "gid_attrs/types/%u", index);
    kvl_sysfs_text(port, name, gid.type, sizeof(gid.type));
    snprintf(name, sizeof(name), "gid_attrs/ndevs/%u", index);
    if (!rail->interface[0] && kvl_sysfs_text(port, name, interface, sizeof(interface))) {
        memcpy(rail->interface, interface, sizeof(interface));
    }
    rail->gids[rail->gid_count++] = gid;
}

static void port_read(const kvl_sysfs_t *port, kvl_rail_t *rail)
{
    char layer[24];

    port_read_state(port, rail);
    port_read_rate(port, rail);
    kvl_sysfs_text(port, "link_layer", layer, sizeof(layer));
    rail->link_layer = strcmp(layer, "Ethernet") == 0     ? KVL_LINK_ETHERNET
                       : strcmp(layer, "InfiniBand") == 0 ? KVL_LINK_INFINIBAND
                                                          : KVL_LINK_UNKNOWN;
    for (unsigned i = 0; i < GIDS_MAX && rail->gid_count < KVL_RAIL_GIDS; i++) {
        port_read_gid(port, i, rail);
    }
    rail->endpoints_known = kvl_sysfs_exists(port, "gids");
}

static unsigned port_number(const char *name)
{
    char *end;
    unsigned long number = strtoul(name, &end, 10);

    return *end || number > PORT_MAX ? 0 : (unsigned)number;
}

/* What the network interface behind it knows: the MTU that its frames have to fit in, and that the
 * device is two ports bonded into one. */
static void rail_read_interface(const kvl_rail_table_t *table, kvl_rail_t *rail)
{
    size_t at = kvl_rail_table_find(table, rail->interface);

    if (at < table->rail_count && table->rails[at].kind == KVL_RAIL_TCP) {
        rail->mtu  = table->rails[at].mtu;
        rail->bond = table->rails[at].bond;
    }
}

static kvl_status_t device_add(kvl_rail_table_t *table, const kvl_sysfs_t *folder,
                               const char *device)
{
    kvl_rail_t row      = {.kind = KVL_RAIL_RDMA, .numa = -1};
    kvl_sysfs_t base    = kvl_sysfs_in(folder, device);
    kvl_sysfs_t place   = kvl_sysfs_in(&base, "device");
    kvl_sysfs_t ports   = kvl_sysfs_in(&base, "ports");
    DIR *dir            = kvl_sysfs_open(&ports);
    kvl_status_t status = KVL_OK;
    const char *name;

    kvl_sysfs_text(&base, "fw_ver", row.firmware, sizeof(row.firmware));
    kvl_sysfs_device(&place, &row);
    while (dir && status == KVL_OK && (name = kvl_sysfs_next(dir)) != NULL) {
        kvl_rail_t rail  = row;
        kvl_sysfs_t port = kvl_sysfs_in(&ports, name);
        int length;

        rail.port = port_number(name);
        length    = snprintf(rail.name, sizeof(rail.name), "%s:%u", device, rail.port);
        if (rail.port == 0 || (size_t)length >= sizeof(rail.name)) {
            table->left_out++;
            continue;
        }
        port_read(&port, &rail);
        rail_read_interface(table, &rail);
        status = kvl_sysfs_taken(table, kvl_rail_table_add(table, &rail));
    }
    if (dir) {
        closedir(dir);
    }
    return status;
}

kvl_status_t kvl_sysfs_read_ib(kvl_rail_table_t *table, const char *root)
{
    return kvl_sysfs_each(table, root, "/sys/class/infiniband", device_add);
}
