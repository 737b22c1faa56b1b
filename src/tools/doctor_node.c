/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/addr.h"
#include "rail/rank.h"
#include "tools/client.h"
#include "tools/doctor.h"
#include "tools/doctor_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A session with the node over each rail alone, so that one that does not work is not hidden by those that do. A session
 * is up only after the self-test moved a pattern both ways on the data and sg lanes: what is left to measure are times. */

typedef struct {
    kvl_doctor_t *doctor;
    kvl_tool_client_t client;
    bool alone; /* one of several rails; else as they are set */
    bool up;
    char cause[320];        /* unless it is up */
    const kvl_rail_t *rail; /* NULL: nobody knows */
    char name[96];          /* "vb0 to vb0": of the pair */
    char address[80];       /* of the node's rail */
    unsigned peer_mtu;
} session_t;

static kvl_status_t session_open(session_t *session, const char *rank)
{
    const char *node    = session->doctor->node;
    kvl_status_t status = kvl_tool_open(&session->client, node, rank);

    if (status == KVL_OK) {
        status = kvl_cache_create(session->client.engine, node, &session->client.cache);
    }
    if (status == KVL_OK) {
        status = kvl_cache_connect(session->client.cache, session->doctor->timeout_ms);
    }
    snprintf(session->cause, sizeof(session->cause), "%s", kvl_error_text());
    return status;
}

/* What the link says of the pair, also of one that did not come up. */
static void pair_read(session_t *session)
{
    json_t *engine = session->client.engine ? kvl_tool_engine_json(session->client.engine) : NULL;
    const json_t *part    = json_array_get(json_object_get(engine, "parts"), 0);
    const json_t *pair    = json_array_get(json_object_get(part, "pairs"), 0);
    const char *rail      = kvl_doctor_first_rail(json_object_get(engine, "decision"));
    const char *peer_rail = kvl_doctor_text(pair, "peer_rail");
    const char *address   = kvl_doctor_text(pair, "peer_address");
    size_t at             = kvl_rail_table_find(session->doctor->table, rail);

    if (at < session->doctor->table->rail_count) {
        session->rail = &session->doctor->table->rails[at];
    }
    snprintf(session->name, sizeof(session->name), "%.40s to %.40s", rail[0] ? rail : "ucx",
             peer_rail[0] ? peer_rail : session->doctor->node);
    snprintf(session->address, sizeof(session->address), "%.79s",
             address[0] ? address : session->doctor->node);
    session->peer_mtu = (unsigned)json_integer_value(json_object_get(pair, "peer_mtu"));
    json_decref(engine);
}

/* Would the kernel reach the node's rail by another device than ours? Then ours is of another network. */
static bool is_elsewhere(const session_t *session, char device[64])
{
    const kvl_rail_t *rail = session->rail;
    const char *interface  = rail ? rail->kind == KVL_RAIL_RDMA ? rail->interface : rail->name : "";
    kvl_addr_t addr;

    return interface[0] && kvl_addr_parse(session->address, &addr) == KVL_OK &&
           kvl_addr_device(&addr, device, 64) == KVL_OK && strcmp(device, interface) != 0;
}

static void say_reach(const session_t *session)
{
    char name[128], device[64],
        way_out[256] = "start kvlaned there; see that networks and firewalls let it pass both ways";
    bool elsewhere   = is_elsewhere(session, device);
    kvl_finding_t finding;

    snprintf(name, sizeof(name), "reach %s", session->name);
    if (session->up && elsewhere) {
        finding =
            kvl_finding(KVL_FOUND_WARN, name,
                        "give the node's address in this rail's network, or name the other rail",
                        "a pattern went both ways unharmed, but the kernel reaches %s by %s, not "
                        "by this rail",
                        session->address, device);
    } else if (session->up) {
        finding = kvl_finding(KVL_FOUND_OK, name, NULL,
                              "a pattern went both ways unharmed on the data and sg lanes");
    } else {
        if (elsewhere) {
            snprintf(way_out, sizeof(way_out),
                     "the kernel reaches %s by %s, not by this rail: it is on another network",
                     session->address, device);
        } else if (session->peer_mtu) { /* the node answered HELLO */
            snprintf(way_out, sizeof(way_out),
                     "small messages pass: look for a switch between with a smaller mtu than both "
                     "ends, and for firewalls");
        }
        finding = kvl_finding(KVL_FOUND_FAIL, name, way_out, "%s", session->cause);
    }
    kvl_doctor_say(session->doctor, &finding);
}

/* TCP is not bound to a device: where the kernel takes another, the rail's MTU does not matter. */
static void say_mtus(const session_t *session)
{
    char device[64];
    bool tcp = session->rail && session->rail->kind == KVL_RAIL_TCP;
    kvl_finding_t finding;

    if (!(tcp && is_elsewhere(session, device)) &&
        kvl_judge_mtus(session->name, session->rail, session->peer_mtu, &finding)) {
        kvl_doctor_say(session->doctor, &finding);
    }
}

static void say_transport(const session_t *session)
{
    const char *rails = session->doctor->left_to_ucx
                            ? "left to ucx"
                            : kvl_config_get(session->client.config, "KVLANE_RAILS");
    kvl_session_info_t info;
    kvl_finding_t finding;

    if (kvl_cache_session(session->client.cache, &info) == KVL_OK) {
        finding = kvl_judge_transport(session->name, rails, session->alone ? session->rail : NULL,
                                      info.transport);
        kvl_doctor_say(session->doctor, &finding);
    }
}

/* @a rank: over the one rail that it has, NULL: as it is set */
static void session_check(kvl_doctor_t *doctor, const char *rank)
{
    session_t session = {.doctor = doctor, .alone = rank != NULL};

    session.up = session_open(&session, rank) == KVL_OK;
    pair_read(&session);
    say_reach(&session);
    say_mtus(&session);
    if (session.up) {
        say_transport(&session);
        kvl_doctor_load(doctor, session.client.engine, session.client.cache, session.name);
    }
    kvl_tool_disconnect(&session.client);
}

/* Ranks are the doctor's own here: those that a launcher gave this process would contradict them. */
static const char *forget(const char *name, void *arg)
{
    (void)arg;
    unsetenv(name);
    return NULL;
}

void kvl_doctor_node(kvl_doctor_t *doctor)
{
    kvl_rank_source_t sources[KVL_RANK_SOURCES];
    char rank[16];

    if (!doctor->node || !doctor->started) {
        return;
    }
    if (doctor->rails <= 1) {
        session_check(doctor, NULL);
        return;
    }
    (void)kvl_rank_environment(forget, NULL, sources);
    for (unsigned i = 0; i < doctor->rails; i++) {
        snprintf(rank, sizeof(rank), "%u", i);
        session_check(doctor, rank);
    }
}
