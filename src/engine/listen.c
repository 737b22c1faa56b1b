/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/error.h"
#include "base/log.h"
#include "engine/private.h"

#include <arpa/inet.h>
#include <string.h>

/* Where an engine listens: at the one address that it was given, and, if it has several rails and that
 * address is one rail's alone, at the other rails' addresses with the same port. All on the first rail's
 * ctrl worker: a connection may be accepted on any other. */

kvl_status_t kvl_engine_listen(kvl_engine_t *engine, const kvl_addr_t *addr, kvl_conn_func_t func,
                               void *arg)
{
    kvl_status_t status;

    if (engine->listen_func) {
        return kvl_error(KVL_ERR_BUSY, "engine: it listens already; one listener per engine");
    }
    engine->listen_func = func;
    engine->listen_arg  = arg;
    engine->listen_addr = *addr;
    status              = kvl_engine_listen_again(engine);
    if (status != KVL_OK) {
        engine->listen_func = NULL;
    }
    return status;
}

static uint16_t addr_port(const kvl_addr_t *addr)
{
    return ntohs(addr->storage.ss_family == AF_INET6
                     ? ((const struct sockaddr_in6 *)&addr->storage)->sin6_port
                     : ((const struct sockaddr_in *)&addr->storage)->sin_port);
}

/* the first that others can reach, with the port of @a like; false if there is none */
static bool rail_address(const kvl_rail_t *about, const kvl_addr_t *like, kvl_addr_t *addr_p)
{
    char text[KVL_RAIL_TEXT_SIZE + 16];
    unsigned i;

    for (i = 0; i < about->address_count; i++) {
        const char *ip = about->addresses[i];
        bool six       = strchr(ip, ':') != NULL;

        if (six != (like->storage.ss_family == AF_INET6) || !strncasecmp(ip, "fe80:", 5)) {
            continue;
        }
        snprintf(text, sizeof(text), six ? "[%s]:%u" : "%s:%u", ip, addr_port(like));
        if (kvl_addr_parse(text, addr_p) == KVL_OK) {
            return true;
        }
    }
    return false;
}

/* an RDMA device is connected to by the interface behind it */
static const kvl_rail_t *rail_with_address(const kvl_engine_t *engine, const kvl_rail_t *about)
{
    size_t at = about->kind == KVL_RAIL_RDMA ? kvl_rail_table_find(engine->table, about->interface)
                                             : engine->table->rail_count;

    return at < engine->table->rail_count ? &engine->table->rails[at] : about;
}

static bool is_covered(const kvl_addr_t *main, const kvl_addr_t *addr)
{
    char device[64];

    if (kvl_addr_device(main, device, sizeof(device)) != KVL_OK) {
        return true; /* any address */
    }
    return main->length == addr->length && !memcmp(&main->storage, &addr->storage, main->length);
}

static void listen_rail(kvl_engine_t *engine, unsigned index)
{
    kvl_engine_rail_t *rail = &engine->rails[index];
    kvl_addr_t addr;

    rail->listen_addr.length = 0;
    if (!rail->about || !rail_address(rail_with_address(engine, rail->about), &engine->listen_addr, &addr)) {
        return;
    }
    if (!is_covered(&engine->listen_addr, &addr) &&
        kvl_ucx_listen(engine->rails[0].workers[KVL_LANE_CTRL], &addr, engine->listen_func,
                       engine->listen_arg, &rail->listener) != KVL_OK) {
        kvl_warn("engine: rail %s: %s; clients reach it by its first address only", rail->about->name,
                 kvl_error_text());
        return;
    }
    rail->listen_addr = addr;
}

void kvl_engine_listen_stop(kvl_engine_t *engine)
{
    unsigned rail;

    kvl_ucx_listener_destroy(engine->listener);
    engine->listener = NULL;
    for (rail = 0; rail < engine->rail_count; rail++) {
        kvl_ucx_listener_destroy(engine->rails[rail].listener);
        engine->rails[rail].listener = NULL;
    }
}

bool kvl_engine_rail_addr(const kvl_engine_t *engine, unsigned rail, kvl_addr_t *addr_p)
{
    *addr_p = engine->rails[rail].listen_addr;
    return engine->rail_count > 1 && addr_p->length > 0;
}

kvl_status_t kvl_engine_listen_again(kvl_engine_t *engine)
{
    kvl_status_t status =
        kvl_ucx_listen(engine->rails[0].workers[KVL_LANE_CTRL], &engine->listen_addr,
                       engine->listen_func, engine->listen_arg, &engine->listener);
    unsigned rail;

    if (status != KVL_OK) {
        return status;
    }
    kvl_ucx_listener_addr(engine->listener, &engine->listen_addr);
    for (rail = 0; engine->rail_count > 1 && rail < engine->rail_count; rail++) {
        listen_rail(engine, rail);
    }
    return KVL_OK;
}

void kvl_engine_unlisten(kvl_engine_t *engine)
{
    engine->listen_func = NULL;
    kvl_engine_listen_stop(engine);
}

void kvl_engine_listen_addr(const kvl_engine_t *engine, kvl_addr_t *addr_p)
{
    *addr_p = engine->listen_addr;
}

