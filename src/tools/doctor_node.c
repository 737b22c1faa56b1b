/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/doctor.h"

#include "base/addr.h"
#include "tools/client.h"
#include "tools/doctor_load.h"

#include <stdio.h>
#include <string.h>

/* What UCX and the network really give: an engine as it is set, then a session with the node over each of its rails,
 * alone, so that a rail that does not work is not hidden by one that does. A session is up only after the self-test
 * moved a pattern both ways on the data and sg lanes: what is left to measure are times. */

static const char *member(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

static const kvl_rail_t *rail_named(const kvl_doctor_t *doctor, const char *name)
{
    size_t at = kvl_rail_table_find(doctor->table, name);

    return at < doctor->table->rail_count ? &doctor->table->rails[at] : NULL;
}

/* ---- the rails of an engine ---- */

/* The network rails that the decision uses: the number of them, and the @a index-th's name. */
static const char *used_rail(const json_t *decision, size_t index, size_t *count_p)
{
    const char *name = NULL;
    const json_t *choice;
    size_t i;

    *count_p = 0;
    json_array_foreach(json_object_get(decision, "choices"), i, choice)
    {
        if (strcmp(member(choice, "verdict"), "used") == 0 &&
            strcmp(member(choice, "kind"), "shm") != 0) {
            name = *count_p == index ? member(choice, "rail") : name;
            (*count_p)++;
        }
    }
    return name;
}

static kvl_finding_t decision_finding(const json_t *decision)
{
    bool degraded  = json_is_true(json_object_get(decision, "degraded"));
    char list[512] = "";
    const json_t *choice;
    size_t i, used = 0;

    json_array_foreach(json_object_get(decision, "choices"), i, choice)
    {
        if (strcmp(member(choice, "verdict"), "used") == 0 && used < sizeof(list)) {
            used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "",
                                     member(choice, "rail"));
        }
    }
    return kvl_finding(degraded ? KVL_FOUND_WARN : KVL_FOUND_OK, "rails",
                       degraded ? "kvlane_info -s says why each rail is used or not" : NULL,
                       "KVLANE_RAILS=%.100s, KVLANE_AFFINITY=%s gives %s (of %zu)%s%s",
                       member(decision, "rails"), member(decision, "affinity"),
                       used ? list : "none", json_array_size(json_object_get(decision, "choices")),
                       member(decision, "note")[0] ? ": " : "", member(decision, "note"));
}

void kvl_doctor_rails(kvl_doctor_t *doctor)
{
    kvl_tool_client_t client;
    kvl_finding_t finding;
    json_t *engine;
    kvl_status_t status;

    if (doctor->too_few_files) {
        finding = kvl_finding(KVL_FOUND_FAIL, "rails", "see files",
                              "not tried: UCX may abort without files");
    } else if ((status = kvl_tool_open(&client, doctor->node, NULL)) != KVL_OK) {
        finding = kvl_finding(KVL_FOUND_FAIL, "rails",
                              status == KVL_ERR_CONFIG
                                  ? "`kvlane_info -c' lists the settings"
                                  : "set KVLANE_RAILS to what there is, or bring the device up",
                              "%s", kvl_error_text());
        kvl_tool_disconnect(&client);
    } else {
        engine           = kvl_tool_engine_json(client.engine);
        doctor->started  = true;
        doctor->decision = json_incref(json_object_get(engine, "decision"));
        finding          = json_is_object(doctor->decision)
                               ? decision_finding(doctor->decision)
                               : kvl_finding(KVL_FOUND_OK, "rails", NULL,
                                             "left to UCX by its own settings TLS or NET_DEVICES");
        json_decref(engine);
        kvl_tool_disconnect(&client);
    }
    kvl_doctor_say(doctor, &finding);
}

/* ---- a session ---- */

typedef struct {
    kvl_doctor_t *doctor;
    const char *rails;      /* KVLANE_RAILS of this session; NULL: as it is set */
    const kvl_rail_t *rail; /* NULL: nobody knows */
    kvl_tool_client_t client;
    char name[96];    /* "vb0 to vb0": of the pair */
    char address[80]; /* of the node's rail */
    unsigned peer_mtu;
} session_t;

/* What the link says of the pair, also of one that did not come up. */
static void pair_read(session_t *session, json_t *engine)
{
    const json_t *part = json_array_get(json_object_get(engine, "parts"), 0);
    const json_t *pair = json_array_get(json_object_get(part, "pairs"), 0);
    const char *rail   = pair ? member(pair, "rail") : session->rail ? session->rail->name : "?";

    if (!session->rail) {
        session->rail = rail_named(session->doctor, rail);
    }
    snprintf(session->name, sizeof(session->name), "%.40s to %.40s", rail,
             pair ? member(pair, "peer_rail") : session->doctor->node);
    snprintf(session->address, sizeof(session->address), "%.79s",
             member(pair, "peer_address")[0] ? member(pair, "peer_address")
                                             : session->doctor->node);
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

static void session_failed(session_t *session)
{
    kvl_finding_t finding;
    char device[64], name[128],
        way_out[256] = "start kvlaned there; see that networks and firewalls let it pass both ways";

    if (is_elsewhere(session, device)) {
        snprintf(way_out, sizeof(way_out),
                 "the kernel reaches %.79s by %s, not by this rail: it is on another network",
                 session->address, device);
    }
    snprintf(name, sizeof(name), "reach %s", session->name);
    finding = kvl_finding(KVL_FOUND_FAIL, name, way_out, "%s", kvl_error_text());
    kvl_doctor_say(session->doctor, &finding);
}

static void session_found(session_t *session)
{
    kvl_session_info_t info;
    kvl_finding_t finding;
    char name[128], device[64];

    if (kvl_cache_session(session->client.cache, &info) != KVL_OK) {
        session_failed(session);
        return;
    }
    snprintf(name, sizeof(name), "reach %s", session->name);
    if (is_elsewhere(session, device)) {
        finding = kvl_finding(
            KVL_FOUND_WARN, name,
            "give the node's address in this rail's network, or name the other rail",
            "the kernel reaches %.79s by %s, not by this rail", session->address, device);
        kvl_doctor_say(session->doctor, &finding);
    }
    finding =
        kvl_finding(KVL_FOUND_OK, name, NULL,
                    "%.40s; a pattern went both ways unharmed on data and sg (put %s, get %s)",
                    info.node_version, info.put_mode, info.get_mode);
    kvl_doctor_say(session->doctor, &finding);
    finding = kvl_judge_transport(session->name,
                                  session->rails ? session->rails
                                  : session->doctor->decision
                                      ? kvl_config_get(session->client.config, "KVLANE_RAILS")
                                      : "left to ucx",
                                  session->rails ? session->rail : NULL, info.transport);
    kvl_doctor_say(session->doctor, &finding);
    kvl_doctor_load(session->doctor, session->client.engine, session->client.cache, session->name);
}

/* UCX binds no socket to a device: tcp goes where the kernel's routes say. */
static bool tcp_is_elsewhere(const session_t *session)
{
    char device[64];

    return session->rail && session->rail->kind == KVL_RAIL_TCP && is_elsewhere(session, device);
}

/* Over one rail, or as it is set. */
static void session_check(kvl_doctor_t *doctor, const char *rails, const kvl_rail_t *rail)
{
    session_t session   = {.doctor = doctor, .rails = rails, .rail = rail};
    kvl_status_t status = kvl_tool_open(&session.client, doctor->node, rails);
    kvl_finding_t finding;
    bool up;

    if (status == KVL_OK) {
        status = kvl_cache_create(session.client.engine, doctor->node, &session.client.cache);
    }
    if (status == KVL_OK) {
        status = kvl_cache_connect(session.client.cache, doctor->timeout_ms);
    }
    up = status == KVL_OK;
    if (session.client.cache) {
        pair_read(&session, kvl_tool_engine_json(session.client.engine));
    } else {
        snprintf(session.name, sizeof(session.name), "%.90s", doctor->node);
        snprintf(session.address, sizeof(session.address), "%.79s", doctor->node);
    }
    if (!up) {
        session_failed(&session);
    }
    if (!tcp_is_elsewhere(&session) &&
        kvl_judge_mtus(session.name, session.rail, session.peer_mtu, &finding)) {
        kvl_doctor_say(doctor, &finding);
    }
    if (up) {
        session_found(&session);
    }
    kvl_tool_disconnect(&session.client);
}

void kvl_doctor_node(kvl_doctor_t *doctor)
{
    size_t count, i;
    const char *name;

    if (!doctor->node || !doctor->started) {
        return;
    }
    name = used_rail(doctor->decision, 0, &count);
    if (count <= 1) {
        session_check(doctor, NULL, name ? rail_named(doctor, name) : NULL);
        return;
    }
    for (i = 0; i < count; i++) {
        name = used_rail(doctor->decision, i, &count);
        session_check(doctor, name, rail_named(doctor, name));
    }
}
