/* SPDX-License-Identifier: BSD-3-Clause */
#include "rail/discover.h"

#include "rail/sysfs.h"

#include "base/log.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>

/* Interfaces come first: rdma ports look up the one behind them. */

static bool address_format(const struct sockaddr *addr, char text[KVL_RAIL_TEXT_SIZE])
{
    const void *in;

    if (!addr) {
        return false;
    }
    if (addr->sa_family == AF_INET) {
        in = &((const struct sockaddr_in *)(const void *)addr)->sin_addr;
    } else if (addr->sa_family == AF_INET6) {
        in = &((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr;
    } else {
        return false;
    }
    return inet_ntop(addr->sa_family, in, text, KVL_RAIL_TEXT_SIZE) != NULL;
}

static void read_addresses(kvl_rail_table_t *table)
{
    struct ifaddrs *list;

    if (getifaddrs(&list) != 0) {
        return;
    }
    for (size_t i = 0; i < table->rail_count; i++) {
        table->rails[i].endpoints_known |= table->rails[i].kind == KVL_RAIL_TCP;
    }
    for (const struct ifaddrs *ifa = list; ifa; ifa = ifa->ifa_next) {
        size_t at        = kvl_rail_table_find(table, ifa->ifa_name);
        kvl_rail_t *rail = at < table->rail_count ? &table->rails[at] : NULL;

        if (rail && rail->kind == KVL_RAIL_TCP && rail->address_count < KVL_RAIL_ADDRESSES &&
            address_format(ifa->ifa_addr, rail->addresses[rail->address_count])) {
            rail->address_count++;
        }
    }
    freeifaddrs(list);
}

static kvl_status_t read_all(kvl_rail_table_t *table, const kvl_discover_params_t *params)
{
    const char *root    = params->root ? params->root : "";
    kvl_status_t status = kvl_sysfs_read_net(table, root);

    if (status == KVL_OK) {
        status = kvl_sysfs_read_ib(table, root);
    }
    if (status == KVL_OK) {
        status = kvl_sysfs_read_gpus(table, root);
    }
    if (status == KVL_OK) {
        status = kvl_sysfs_read_nodes(table, root);
    }
    if (status == KVL_OK && !root[0]) {
        read_addresses(table);
    }
    if (status == KVL_OK) {
        status = kvl_rail_table_offer(table, params->offers, params->offer_count);
    }
    return status;
}

kvl_status_t kvl_discover(const kvl_discover_params_t *params, kvl_rail_table_t **table_p)
{
    kvl_rail_table_t *table;
    kvl_status_t status = kvl_rail_table_create(&table);

    if (status != KVL_OK) {
        return status;
    }
    status = read_all(table, params);
    if (status != KVL_OK) {
        kvl_rail_table_destroy(table);
        return status;
    }
    if (table->left_out) {
        kvl_info("rails: %zu devices left out: a name that KVLANE_RAILS cannot say, or more than "
                 "%d",
                 table->left_out, KVL_TABLE_MAX);
    }
    *table_p = table;
    return KVL_OK;
}
