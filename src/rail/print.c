/* SPDX-License-Identifier: BSD-3-Clause */
#include "rail/choose.h"

#include "base/json.h"

#include <inttypes.h>
#include <string.h>

/* Tables and decisions, for people and as JSON. */

const char *kvl_verdict_name(kvl_verdict_t verdict)
{
    static const char *const names[] = {"used", "spare", "off"};

    return names[verdict];
}

const char *kvl_affinity_name(kvl_affinity_t affinity)
{
    static const char *const names[] = {"numa", "rank", "off"};

    return names[affinity];
}

/* ---- tables ---- */

static void rail_print_text(const kvl_rail_t *rail, FILE *stream)
{
    fprintf(stream, "%-20s  %-4s  %-10s  %-7s  ", rail->name, kvl_rail_kind_name(rail->kind),
            kvl_link_layer_name(rail->link_layer), kvl_port_state_name(rail->state));
    if (rail->speed_mbits) {
        fprintf(stream, "%8" PRIu64 " Mbit/s  ", rail->speed_mbits);
    } else {
        fprintf(stream, "%15s  ", "?");
    }
    fprintf(stream, "mtu %-5u  numa %-2d  %-12s  %s%s%s%s%s\n", rail->mtu, rail->numa,
            rail->pci.address[0] ? rail->pci.address : "-",
            rail->transports[0] ? rail->transports : "not offered by ucx",
            rail->bond ? "  bond" : "", rail->master[0] ? "  port of " : "", rail->master,
            rail->physical[0] ? "  virtual function" : "");
    for (unsigned i = 0; i < rail->address_count; i++) {
        fprintf(stream, "%22s%s\n", "", rail->addresses[i]);
    }
    for (unsigned i = 0; i < rail->gid_count; i++) {
        fprintf(stream, "%22sgid %u %s %s\n", "", rail->gids[i].index, rail->gids[i].text,
                rail->gids[i].type);
    }
}

static void rail_print_json(const kvl_rail_t *rail, FILE *stream)
{
    fputs("    {", stream);
    kvl_json_member("name", rail->name, ", ", stream);
    kvl_json_member("device", rail->device, ", ", stream);
    kvl_json_member("kind", kvl_rail_kind_name(rail->kind), ", ", stream);
    kvl_json_member("link_layer", kvl_link_layer_name(rail->link_layer), ", ", stream);
    kvl_json_member("state", kvl_port_state_name(rail->state), ", ", stream);
    kvl_json_member("state_text", rail->state_text, ", ", stream);
    kvl_json_member("transports", rail->transports, ",\n     ", stream);
    fprintf(stream,
            "\"port\": %u, \"speed_mbits\": %" PRIu64 ", \"mtu\": %u, \"numa\": %d, \"bond\": %s, "
            "\"bridge\": %s, ",
            rail->port, rail->speed_mbits, rail->mtu, rail->numa, rail->bond ? "true" : "false",
            rail->bridge ? "true" : "false");
    kvl_json_member("pci", rail->pci.address, ", ", stream);
    kvl_json_member("pci_path", rail->pci.path, ",\n     ", stream);
    kvl_json_member("firmware", rail->firmware, ", ", stream);
    kvl_json_member("interface", rail->interface, ", ", stream);
    kvl_json_member("master", rail->master, ", ", stream);
    kvl_json_member("virtual_function_of", rail->physical, ", \"addresses\": [", stream);
    for (unsigned i = 0; i < rail->address_count; i++) {
        fputs(i ? ", " : "", stream);
        kvl_json_string(rail->addresses[i], stream);
    }
    fputs("], \"gids\": [", stream);
    for (unsigned i = 0; i < rail->gid_count; i++) {
        fprintf(stream, "%s{\"index\": %u, ", i ? ", " : "", rail->gids[i].index);
        kvl_json_member("gid", rail->gids[i].text, ", ", stream);
        kvl_json_member("type", rail->gids[i].type, "}", stream);
    }
    fputs("]}", stream);
}

static void gpu_print(const kvl_gpu_t *gpu, FILE *stream, int json)
{
    if (json) {
        fputs("    {", stream);
        kvl_json_member("pci", gpu->pci.address, ", ", stream);
        kvl_json_member("pci_path", gpu->pci.path, ", ", stream);
        fprintf(stream, "\"numa\": %d, \"vendor\": %u, \"device\": %u}", gpu->numa, gpu->vendor,
                gpu->device);
    } else {
        fprintf(stream, "gpu %s  numa %-2d  %04x:%04x\n", gpu->pci.address, gpu->numa, gpu->vendor,
                gpu->device);
    }
}

static void node_print(const kvl_numa_node_t *node, FILE *stream, int json)
{
    fprintf(stream, json ? "    {\"node\": %u, \"distances\": [" : "numa node %u  distances",
            node->node);
    for (unsigned i = 0; i < node->distance_count; i++) {
        fprintf(stream, "%s%u", !json ? " " : i ? ", " : "", node->distances[i]);
    }
    fputs(json ? "]}" : "\n", stream);
}

void kvl_rail_table_print(const kvl_rail_table_t *table, FILE *stream, int json)
{
    const char *between = json ? ",\n" : "";

    fputs(json ? "{\n  \"rails\": [\n" : "", stream);
    for (size_t i = 0; i < table->rail_count; i++) {
        fputs(i ? between : "", stream);
        (json ? rail_print_json : rail_print_text)(&table->rails[i], stream);
    }
    fputs(json ? "\n  ],\n  \"gpus\": [\n" : "", stream);
    for (size_t i = 0; i < table->gpu_count; i++) {
        fputs(i ? between : "", stream);
        gpu_print(&table->gpus[i], stream, json);
    }
    fputs(json ? "\n  ],\n  \"numa_nodes\": [\n" : "", stream);
    for (size_t i = 0; i < table->node_count; i++) {
        fputs(i ? between : "", stream);
        node_print(&table->nodes[i], stream, json);
    }
    if (json) {
        fprintf(stream, "\n  ],\n  \"left_out\": %zu\n}\n", table->left_out);
    } else if (table->left_out) {
        fprintf(stream, "%zu devices left out: strange names, or too many\n", table->left_out);
    }
}

/* ---- decisions ---- */

void kvl_decision_summary(const kvl_decision_t *decision, const kvl_rail_table_t *table, char *text,
                          size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < decision->used && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s ",
                                 table->rails[decision->choices[i].rail].name);
    }
    if (used < size) {
        snprintf(text + used, size - used, "of %zu rails (%s, %s, %s)%s%s", decision->count,
                 decision->rails, kvl_affinity_name(decision->affinity), decision->memory,
                 decision->note[0] ? ": " : "", decision->note);
    }
}

static void decision_print_text(const kvl_decision_t *decision, const kvl_rail_table_t *table,
                                FILE *stream)
{
    fprintf(stream, "KVLANE_RAILS=%s KVLANE_AFFINITY=%s, %s: %zu used, %zu spare, %zu off\n",
            decision->rails, kvl_affinity_name(decision->affinity), decision->memory,
            decision->used, decision->spare, decision->count - decision->used - decision->spare);
    if (decision->note[0]) {
        fprintf(stream, "note: %s\n", decision->note);
    }
    for (size_t i = 0; i < decision->count; i++) {
        const kvl_choice_t *choice = &decision->choices[i];

        fprintf(stream, "%-5s  %-20s  %s\n", kvl_verdict_name(choice->verdict),
                table->rails[choice->rail].name, choice->reason);
    }
}

static void choice_print_json(const kvl_choice_t *choice, const kvl_rail_table_t *table,
                              FILE *stream)
{
    char distance[64];

    kvl_distance_format(choice->distance, distance, sizeof(distance));
    fputs("    {", stream);
    kvl_json_member("rail", table->rails[choice->rail].name, ", ", stream);
    kvl_json_member("kind", kvl_rail_kind_name(table->rails[choice->rail].kind), ", ", stream);
    kvl_json_member("verdict", kvl_verdict_name(choice->verdict), ", ", stream);
    kvl_json_member("distance", distance, ", ", stream);
    kvl_json_member("reason", choice->reason, "}", stream);
}

void kvl_decision_print(const kvl_decision_t *decision, const kvl_rail_table_t *table, FILE *stream,
                        int json)
{
    if (!json) {
        decision_print_text(decision, table, stream);
        return;
    }
    fputs("{\n  ", stream);
    kvl_json_member("rails", decision->rails, ", ", stream);
    kvl_json_member("affinity", kvl_affinity_name(decision->affinity), ", ", stream);
    kvl_json_member("memory", decision->memory, ", ", stream);
    kvl_json_member("note", decision->note, ", ", stream);
    fprintf(stream, "\"degraded\": %s, \"used\": %zu, \"spare\": %zu,\n  \"choices\": [\n",
            decision->degraded ? "true" : "false", decision->used, decision->spare);
    for (size_t i = 0; i < decision->count; i++) {
        fputs(i ? ",\n" : "", stream);
        choice_print_json(&decision->choices[i], table, stream);
    }
    fputs("\n  ]\n}\n", stream);
}
