/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/doctor.h"

#include "rail/discover.h"
#include "tools/client.h"
#include "tools/common.h"

#include <stdio.h>

/* The list of checks, and what becomes of their findings. One thread; nothing is changed on this host, and at a node a
 * few values are stored under keys of the doctor's own and removed again. */

#define NAME "kvlane_info"

static void (*const checks[])(kvl_doctor_t *doctor) = {
    kvl_doctor_ucx,       kvl_doctor_memlock, kvl_doctor_files,    kvl_doctor_huge_pages,
    kvl_doctor_shm,       kvl_doctor_devices, kvl_doctor_counters, kvl_doctor_distances,
    kvl_doctor_gpudirect, kvl_doctor_rails,   kvl_doctor_node,
};

/* paths and addresses need be no UTF-8, JSON must */
static void to_ascii(char *text)
{
    for (; *text; text++) {
        *text = (unsigned char)*text < 0x80 ? *text : '?';
    }
}

void kvl_doctor_say(kvl_doctor_t *doctor, kvl_finding_t *finding)
{
    const char *verdict = kvl_found_name(finding->found);

    to_ascii(finding->name);
    to_ascii(finding->text);

    if (finding->found > doctor->worst) {
        doctor->worst = finding->found;
    }
    if (doctor->json) {
        json_array_append_new(doctor->rows, json_pack("{s:s, s:s, s:s, s:s}", "verdict", verdict,
                                                      "name", finding->name, "text", finding->text,
                                                      "way_out", finding->way_out));
        return;
    }
    printf("%-4s  %s: %s%s%s%s\n", verdict, finding->name, finding->text,
           finding->way_out[0] ? "  (" : "", finding->way_out, finding->way_out[0] ? ")" : "");
    fflush(stdout); /* the next check may take its time */
}

bool kvl_doctor_shows(const kvl_rail_t *rail)
{
    return rail->kind == KVL_RAIL_RDMA || (rail->kind == KVL_RAIL_TCP && rail->address_count > 0);
}

bool kvl_doctor_has_rdma(const kvl_doctor_t *doctor)
{
    for (size_t i = 0; i < doctor->table->rail_count; i++) {
        if (doctor->table->rails[i].kind == KVL_RAIL_RDMA) {
            return true;
        }
    }
    return false;
}

int kvl_doctor(const char *node, int64_t timeout_ms, bool json)
{
    const kvl_discover_params_t discover = {.root = NULL};
    kvl_doctor_t doctor                  = {
                         .node = node, .timeout_ms = timeout_ms, .json = json, .rows = json_array()};

    if (!doctor.rows || kvl_discover(&discover, &doctor.table) != KVL_OK) {
        json_decref(doctor.rows);
        kvl_tool_failed(NAME, "no memory");
        return KVL_FOUND_FAIL;
    }
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        checks[i](&doctor);
    }
    if (json) {
        kvl_tool_print_json(NAME, json_pack("{s:s, s:o}", "verdict", kvl_found_name(doctor.worst),
                                            "checks", doctor.rows));
    } else {
        json_decref(doctor.rows);
    }
    kvl_rail_table_destroy(doctor.table);
    return (int)doctor.worst;
}
