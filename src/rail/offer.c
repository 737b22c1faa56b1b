/* SPDX-License-Identifier: BSD-3-Clause */
#include "rail/table.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* UCX keeps 31 characters of a device's name and its port together. A longer name of the system is
 * found by its beginning; where two begin alike, naming one to UCX would open either, so neither is
 * offered. */
#define OFFER_NAME_MAX 31

static const char *const shm_transports[] = {"posix", "sysv", "xpmem", "cma"};

static bool offer_is_shm(const kvl_offer_t *offer)
{
    for (size_t i = 0; i < sizeof(shm_transports) / sizeof(shm_transports[0]); i++) {
        if (!offer->network && strcmp(offer->transport, shm_transports[i]) == 0) {
            return true;
        }
    }
    return false;
}

static kvl_rail_kind_t offer_kind(const kvl_offer_t *offer)
{
    if (!offer->network) {
        return KVL_RAIL_SHM;
    }
    return strcmp(offer->transport, "tcp") == 0 ? KVL_RAIL_TCP : KVL_RAIL_RDMA;
}

static bool offer_fits(const kvl_offer_t *offer, const kvl_rail_t *rail)
{
    size_t length = strlen(offer->device);

    if (offer_kind(offer) != rail->kind) {
        return false;
    }
    if (rail->kind == KVL_RAIL_SHM || strcmp(offer->device, rail->name) == 0) {
        return true;
    }
    return length == OFFER_NAME_MAX && strncmp(offer->device, rail->name, length) == 0;
}

static void rail_add_transport(kvl_rail_t *rail, const char *transport)
{
    size_t used = strlen(rail->transports), length = strlen(transport);
    const char *at = rail->transports;

    while ((at = strstr(at, transport)) != NULL) {
        if ((at == rail->transports || at[-1] == ',') && (at[length] == ',' || !at[length])) {
            return;
        }
        at += length;
    }
    if (used + length + 2 <= sizeof(rail->transports)) {
        snprintf(rail->transports + used, sizeof(rail->transports) - used, "%s%s", used ? "," : "",
                 transport);
    }
}

/* the rails that it may mean: marks them if there are several, else gives it to the one */
static size_t offer_place(kvl_rail_table_t *table, const kvl_offer_t *offer)
{
    kvl_rail_t *found = NULL;
    size_t count      = 0;

    for (size_t i = 0; i < table->rail_count; i++) {
        if (offer_fits(offer, &table->rails[i])) {
            table->rails[i].ambiguous |= count > 0;
            if (found) {
                found->ambiguous = true;
            }
            found = &table->rails[i];
            count++;
        }
    }
    if (count == 1) {
        snprintf(found->device, sizeof(found->device), "%s", offer->device);
        rail_add_transport(found, offer->transport);
    }
    return count;
}

static kvl_status_t offer_add(kvl_rail_table_t *table, const kvl_offer_t *offer)
{
    kvl_rail_t rail  = {.kind = offer_kind(offer), .numa = -1};
    const char *name = rail.kind == KVL_RAIL_SHM ? "shm" : offer->device;
    const char *port = strrchr(name, ':');
    kvl_status_t status;

    if (strlen(name) >= sizeof(rail.name)) {
        table->left_out++;
        return KVL_OK;
    }
    snprintf(rail.name, sizeof(rail.name), "%s", name);
    rail.state = rail.kind == KVL_RAIL_SHM ? KVL_PORT_UP : KVL_PORT_UNKNOWN;
    rail.port  = rail.kind == KVL_RAIL_RDMA && port ? (unsigned)strtoul(port + 1, NULL, 10) : 0;
    status     = kvl_rail_table_add(table, &rail);
    if (status == KVL_ERR_INVALID || status == KVL_ERR_LIMIT) {
        table->left_out++;
        return KVL_OK;
    }
    if (status == KVL_OK) {
        offer_place(table, offer);
    }
    return status;
}

kvl_status_t kvl_rail_table_offer(kvl_rail_table_t *table, const kvl_offer_t *offers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const kvl_offer_t *offer = &offers[i];
        kvl_status_t status;

        if (!offer->network && !offer_is_shm(offer)) {
            continue; /* self, copies of device memory */
        }
        if (offer_place(table, offer) == 0) {
            status = offer_add(table, offer);
            if (status != KVL_OK) {
                return status;
            }
        }
    }
    return KVL_OK;
}
