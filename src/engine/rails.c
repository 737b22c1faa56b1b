/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "engine/private.h"
#include "rail/discover.h"
#include "ucx/tables.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Which rails an engine has: what UCX and the system offer becomes a table, src/rail decides over it,
 * and each rail that is used gets its two contexts. Done once, at create; constant afterwards.
 *
 * Shared memory is no rail with contexts of its own: the first rail's take it along, because whether a
 * peer is on this host is found out when it is connected to. A single rail that nobody named leaves the
 * devices to UCX; so does a user who gives UCX's own TLS or NET_DEVICES, and then nothing is decided. */

typedef struct {
    kvl_engine_t *engine;
    kvl_tables_t *tables;
    const char *reach; /* device that reaches the address of the engine; NULL: unknown */
    char reach_name[64];
    kvl_place_t place; /* of the process's memory */
} setup_t;

/* ---- what the user left to UCX ---- */

static const char *left_to_ucx(const kvl_engine_t *engine)
{
    bool automatic = !strcmp(engine->settings->rails, "auto");
    const char *name, *value;
    size_t i;

    for (i = 0; kvl_config_ucx(engine->config, false, i, &name, &value); i++) {
        if (!strcmp(name, "TLS")) {
            return "KVLANE_UCX_TLS";
        }
        if (!strcmp(name, "NET_DEVICES")) {
            return "KVLANE_UCX_NET_DEVICES";
        }
    }
    if (automatic && getenv("UCX_TLS")) {
        return "UCX_TLS";
    }
    return automatic && getenv("UCX_NET_DEVICES") ? "UCX_NET_DEVICES" : NULL;
}

/* ---- the table ---- */

static kvl_status_t table_make(setup_t *setup)
{
    kvl_discover_params_t discover = {.root = NULL};
    kvl_transport_t transport;
    kvl_offer_t *offers;
    kvl_status_t status;
    size_t count = 0, i;

    while (kvl_tables_transport(setup->tables, count, &transport)) {
        count++;
    }
    offers = kvl_calloc(count + 1, sizeof(*offers));
    if (!offers) {
        return kvl_error(KVL_ERR_NO_MEMORY, "engine: out of memory");
    }
    for (i = 0; kvl_tables_transport(setup->tables, i, &transport); i++) {
        offers[i] = (kvl_offer_t){.transport = transport.transport,
                                  .device    = transport.device,
                                  .network   = transport.network};
    }
    discover.offers      = offers;
    discover.offer_count = count;
    status               = kvl_discover(&discover, &setup->engine->table);
    kvl_free(offers);
    return status;
}

/* ---- the decision ---- */

static int cpu_node(const kvl_rail_table_t *table, int cpu)
{
    char path[96];
    size_t i;

    for (i = 0; i < table->node_count; i++) {
        snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/cpu%d", table->nodes[i].node, cpu);
        if (access(path, F_OK) == 0) {
            return (int)table->nodes[i].node;
        }
    }
    return -1;
}

/* A process that may run on one NUMA node alone has its memory there; of others nobody knows. */
static kvl_place_t place_of_process(const kvl_rail_table_t *table)
{
    kvl_place_t place = {.kind = KVL_PLACE_ANY};
    cpu_set_t cpus;
    int cpu, node = -1;

    if (table->node_count < 2 || sched_getaffinity(0, sizeof(cpus), &cpus)) {
        return place;
    }
    for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        int mine = CPU_ISSET(cpu, &cpus) ? cpu_node(table, cpu) : node;

        if (node >= 0 && mine != node) {
            return place;
        }
        node = mine;
    }
    if (node >= 0) {
        place = (kvl_place_t){.kind = KVL_PLACE_NODE, .node = node};
    }
    return place;
}

/* where the memory is to be; its rails are those that are chosen already: none before decide() */
static kvl_status_t memory_node(const setup_t *setup)
{
    kvl_engine_t *engine = setup->engine;
    const kvl_rail_t *rails[KVL_RAILS_MAX];
    size_t count = 0;
    unsigned i;

    for (i = 0; i < engine->rail_count; i++) {
        if (engine->rails[i].about) {
            rails[count++] = engine->rails[i].about;
        }
    }
    return kvl_place_memory(engine->table, engine->settings->numa_node, &setup->place, rails, count, &engine->numa_node);
}

static const char *rank_get(const char *name, void *arg)
{
    const setup_t *setup = arg;

    if (strcmp(name, "KVLANE_RANK") == 0) {
        return setup->engine->settings->rank[0] ? setup->engine->settings->rank : NULL;
    }
    return getenv(name);
}

static kvl_status_t decide(setup_t *setup)
{
    kvl_engine_t *engine           = setup->engine;
    const kvl_settings_t *settings = engine->settings;
    kvl_rank_source_t sources[KVL_RANK_SOURCES];
    kvl_rank_t rank = {0};
    kvl_choose_params_t choose = {.rails     = settings->rails,
                                  .affinity  = (kvl_affinity_t)settings->affinity,
                                  .max_rails = settings->max_rails,
                                  .place     = setup->place,
                                  .reach     = setup->reach};

    if (choose.affinity == KVL_AFFINITY_RANK) {
        size_t count        = kvl_rank_environment(rank_get, setup, sources);
        kvl_status_t status = kvl_rank_decide(sources, count, &rank);

        if (status != KVL_OK) {
            return status;
        }
        choose.rank = &rank;
    }
    return kvl_decision_create(engine->table, &choose, &engine->decision);
}

/* ---- contexts ---- */

static const kvl_rail_t *used_rail(const kvl_engine_t *engine, size_t index)
{
    return &engine->table->rails[engine->decision->choices[index].rail];
}

static kvl_status_t rail_contexts(setup_t *setup, unsigned index, kvl_context_params_t *params,
                                  const char *ctrl_rails)
{
    kvl_engine_rail_t *rail = &setup->engine->rails[index];
    kvl_status_t status;

    params->config = setup->engine->config;
    params->tables = setup->tables;
    params->ctrl   = false;
    status         = kvl_context_create(params, &rail->context);
    if (status == KVL_OK) {
        params->ctrl  = true;
        params->rails = ctrl_rails;
        status        = kvl_context_create(params, &rail->ctrl_context);
    }
    return status;
}

/* one rail as KVLANE_RAILS has it: UCX picks the devices that were not named */
static kvl_status_t single_rail(setup_t *setup)
{
    kvl_context_params_t params = {.device = setup->reach};

    setup->engine->rail_count = 1;
    return rail_contexts(setup, 0, &params, NULL);
}

/* The first rail's ctrl lane goes where the peer's first address is, also if no rail that is used does.
 * One device alone: of several, UCX would take one that the peer's does not reach. */
static const char *ctrl_device(const setup_t *setup, const kvl_rail_t *about, unsigned index, size_t count)
{
    size_t i;

    if (index > 0 || !setup->reach || about->kind != KVL_RAIL_TCP) {
        return about->device;
    }
    for (i = 0; i < count; i++) {
        if (strcmp(used_rail(setup->engine, i)->name, setup->reach) == 0) {
            return about->device;
        }
    }
    return setup->reach;
}

/* An RDMA device is connected to through the interface behind it. A peer on this host may come by the
 * loopback where the address does not say who comes. */
static const char *extra_device(const setup_t *setup, const kvl_rail_t *rail, unsigned index)
{
    if (rail->kind == KVL_RAIL_RDMA) {
        return rail->interface[0] ? rail->interface : setup->reach;
    }
    return setup->reach || index > 0 ? NULL : "lo";
}

static kvl_status_t several_rails(setup_t *setup, size_t count, bool shared_memory)
{
    kvl_status_t status = KVL_OK;
    unsigned i;

    for (i = 0; status == KVL_OK && i < count; i++) {
        const kvl_rail_t *about     = used_rail(setup->engine, i);
        kvl_context_params_t params = {.device = extra_device(setup, about, i)};
        char words[KVL_RAIL_NAME_SIZE + 8];

        snprintf(words, sizeof(words), "%s%s", about->device, i == 0 && shared_memory ? ",shm" : "");
        params.rails                   = words;
        setup->engine->rails[i].about = about;
        setup->engine->rail_count     = i + 1;
        status                        = rail_contexts(setup, i, &params, ctrl_device(setup, about, i, count));
    }
    return status;
}

static kvl_status_t contexts_open(setup_t *setup)
{
    const kvl_engine_t *engine     = setup->engine;
    const kvl_decision_t *decision = engine->decision;
    const char *rails              = engine->settings->rails;
    bool shared_memory             = !strcmp(rails, "auto") || rails[0] == '^';
    size_t network                 = decision->used;
    kvl_status_t status;

    if (network && used_rail(engine, network - 1)->kind == KVL_RAIL_SHM) {
        network--;
        shared_memory = true;
    }
    if (network == 0 || (network == 1 && !decision->spare && rails[0] != '^')) {
        status = single_rail(setup);
        if (status == KVL_OK && network) {
            setup->engine->rails[0].about = used_rail(engine, 0);
        }
        return status;
    }
    return several_rails(setup, network, shared_memory);
}

/* ---- all of it ---- */

static kvl_status_t setup_reach(setup_t *setup, const char *address)
{
    kvl_addr_t addr;
    kvl_status_t status = address ? kvl_addr_parse(address, &addr) : KVL_OK;

    if (address && status == KVL_OK &&
        kvl_addr_device(&addr, setup->reach_name, sizeof(setup->reach_name)) == KVL_OK) {
        setup->reach = setup->reach_name;
    }
    return status;
}

static kvl_status_t setup_run(setup_t *setup)
{
    kvl_engine_t *engine = setup->engine;
    kvl_status_t status;
    char text[512];

    engine->left_to_ucx = left_to_ucx(engine);
    status              = table_make(setup);
    if (status == KVL_OK) {
        setup->place = place_of_process(engine->table);
        status       = memory_node(setup);
    }
    if (status == KVL_OK && engine->numa_node >= 0) {
        setup->place = (kvl_place_t){.kind = KVL_PLACE_NODE, .node = engine->numa_node};
    }
    if (status != KVL_OK || engine->left_to_ucx) {
        return status == KVL_OK ? single_rail(setup) : status;
    }
    status = decide(setup);
    if (status == KVL_OK) {
        status = contexts_open(setup);
    }
    if (status == KVL_OK) {
        status = memory_node(setup);
    }
    if (status == KVL_OK) {
        kvl_decision_summary(engine->decision, engine->table, text, sizeof(text));
        kvl_info("engine: rails %s", text);
    }
    return status;
}

kvl_status_t kvl_engine_rails_open(kvl_engine_t *engine, const char *address)
{
    setup_t setup       = {.engine = engine};
    kvl_status_t status = setup_reach(&setup, address);

    if (status == KVL_OK) {
        status = kvl_tables_create(&setup.tables);
    }
    if (status == KVL_OK) {
        status = setup_run(&setup);
    }
    kvl_tables_destroy(setup.tables);
    return status;
}

void kvl_engine_rails_close(kvl_engine_t *engine)
{
    unsigned i;

    for (i = 0; i < KVL_RAILS_MAX; i++) {
        kvl_context_destroy(engine->rails[i].context);
        kvl_context_destroy(engine->rails[i].ctrl_context);
    }
    kvl_decision_destroy(engine->decision);
    kvl_rail_table_destroy(engine->table);
}

void kvl_engine_rails_print(const kvl_engine_t *engine, FILE *stream, int json)
{
    if (json) {
        fputs("\"decision\": ", stream);
        if (engine->decision) {
            kvl_decision_print(engine->decision, engine->table, stream, json);
        } else {
            fputs("null", stream);
        }
        fputs(", ", stream);
        return;
    }
    if (engine->numa_node >= 0) {
        fprintf(stream, "  memory on numa node %d\n", engine->numa_node);
    }
    if (engine->decision) {
        kvl_decision_print(engine->decision, engine->table, stream, json);
    } else {
        fprintf(stream, "  rails are left to ucx by %s\n", engine->left_to_ucx);
    }
    /* the options of the first; those of the others differ in their device alone */
    kvl_context_print(engine->rails[0].context, stream);
    fprintf(stream, "  ctrl lane\n");
    kvl_context_print(engine->rails[0].ctrl_context, stream);
}

const kvl_rail_t *kvl_engine_rail(const kvl_engine_t *engine, unsigned rail)
{
    return engine->rails[rail].about;
}

const char *kvl_engine_rail_name(const kvl_engine_t *engine, unsigned rail)
{
    return engine->rails[rail].about ? engine->rails[rail].about->name : engine->settings->rails;
}

unsigned kvl_engine_rail_to(const kvl_engine_t *engine, const kvl_addr_t *addr)
{
    char device[64];
    unsigned i;

    if (engine->rail_count == 1 || kvl_addr_device(addr, device, sizeof(device)) != KVL_OK) {
        return 0;
    }
    for (i = 0; i < engine->rail_count; i++) {
        const kvl_rail_t *about = engine->rails[i].about;

        if (strcmp(about->kind == KVL_RAIL_TCP ? about->name : about->interface, device) == 0) {
            return i;
        }
    }
    return 0;
}

/* ---- drain and add ---- */

static void rails_list(const kvl_engine_t *engine, char *text, size_t size)
{
    size_t used = 0;
    unsigned i;

    for (i = 0; i < engine->rail_count && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", kvl_engine_rail_name(engine, i));
    }
}

/* under the token */
static kvl_status_t rail_set(kvl_engine_t *engine, const char *name, bool drain)
{
    kvl_engine_rail_t *rail = NULL;
    unsigned i, others = 0;
    char list[512];

    for (i = 0; i < engine->rail_count; i++) {
        if (strcmp(kvl_engine_rail_name(engine, i), name) == 0) {
            rail = &engine->rails[i];
        } else {
            others += !engine->rails[i].drained;
        }
    }
    if (!rail) {
        rails_list(engine, list, sizeof(list));
        return kvl_error(KVL_ERR_NO_DEVICE, "rail %s: this engine does not use it; it uses: %s", name, list);
    }
    if (drain && engine->listen_func) {
        return kvl_error(KVL_ERR_UNSUPPORTED, "rail %s: this engine listens; drain the rail at its peers", name);
    }
    if (drain && !others) {
        return kvl_error(KVL_ERR_BUSY, "rail %s: it is the last one; add another before", name);
    }
    rail->drained = drain;
    return KVL_OK;
}

static kvl_status_t rail_change(kvl_engine_t *engine, const char *name, bool drain)
{
    kvl_status_t status;

    if (!engine || !name) {
        return kvl_error(KVL_ERR_INVALID, "rail: %s is NULL", engine ? "its name" : "engine");
    }
    if (kvl_engine_is_foreign(engine, drain ? "kvl_rail_drain" : "kvl_rail_add")) {
        return kvl_error(KVL_ERR_INVALID, "rail: the engine is the parent's");
    }
    kvl_engine_enter(engine);
    status = rail_set(engine, name, drain);
    kvl_engine_leave(engine);
    kvl_engine_wake(engine); /* links look at it in their next turn */
    return status;
}

kvl_status_t kvl_rail_drain(kvl_engine_t *engine, const char *rail)
{
    return rail_change(engine, rail, true);
}

kvl_status_t kvl_rail_add(kvl_engine_t *engine, const char *rail)
{
    return rail_change(engine, rail, false);
}

bool kvl_engine_rail_is_drained(const kvl_engine_t *engine, unsigned rail)
{
    return engine->rails[rail].drained;
}
