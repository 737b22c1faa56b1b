/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/doctor.h"

#include "rail/place.h"
#include "rail/sysfs.h"

#include <stdio.h>
#include <string.h>

/* Ports and GPUs, as the table of rails has them, and the kernel's error counters of each port. */

void kvl_doctor_devices(kvl_doctor_t *doctor)
{
    kvl_finding_t finding;

    for (size_t i = 0; i < doctor->table->rail_count; i++) {
        if (kvl_doctor_shows(&doctor->table->rails[i])) {
            finding = kvl_judge_port(&doctor->table->rails[i]);
            kvl_doctor_say(doctor, &finding);
        }
    }
    if (!kvl_doctor_has_rdma(doctor)) {
        finding = kvl_finding(KVL_FOUND_OK, "rdma", NULL, "no RDMA device is here");
        kvl_doctor_say(doctor, &finding);
    }
}

/* ---- counters ---- */

/* Counters that only grow when something is wrong: no losses by congestion, no links that were set down. */
static const char *const ib_counters[] = {
    "counters/symbol_error",
    "counters/link_error_recovery",
    "counters/local_link_integrity_errors",
    "counters/port_rcv_errors",
    "counters/port_rcv_remote_physical_errors",
    "counters/excessive_buffer_overrun_errors",
    "hw_counters/packet_seq_err",
    "hw_counters/local_ack_timeout_err",
    "hw_counters/rx_icrc_encapsulated",
    "hw_counters/roce_slow_restart",
    "hw_counters/retry_exceeded_err",
    "hw_counters/retry_rnr_exceeded_err",
};
static const char *const net_counters[] = {"rx_errors", "tx_errors", "rx_crc_errors",
                                           "rx_frame_errors", "tx_carrier_errors"};

#define COUNTERS_MAX (sizeof(ib_counters) / sizeof(ib_counters[0]))

static kvl_sysfs_t counters_folder(const kvl_rail_t *rail)
{
    char path[256];
    int device = (int)strcspn(rail->name, ":");

    if (rail->kind == KVL_RAIL_RDMA) {
        snprintf(path, sizeof(path), "/sys/class/infiniband/%.*s/ports/%u", device, rail->name,
                 rail->port);
    } else {
        snprintf(path, sizeof(path), "/sys/class/net/%s/statistics", rail->name);
    }
    return kvl_sysfs("", path);
}

static void errors_of(kvl_doctor_t *doctor, const kvl_rail_t *rail)
{
    const char *const *names = rail->kind == KVL_RAIL_RDMA ? ib_counters : net_counters;
    size_t known             = rail->kind == KVL_RAIL_RDMA ? COUNTERS_MAX
                                                           : sizeof(net_counters) / sizeof(net_counters[0]),
           count             = 0;
    kvl_error_count_t counts[COUNTERS_MAX];
    kvl_sysfs_t folder = counters_folder(rail);
    kvl_finding_t finding;
    long long value;

    for (size_t i = 0; i < known; i++) {
        if (kvl_sysfs_number(&folder, names[i], &value)) {
            const char *slash = strchr(names[i], '/');

            counts[count++] =
                (kvl_error_count_t){.name = slash ? slash + 1 : names[i], .value = (uint64_t)value};
        }
    }
    if (count > 0) { /* else the driver has none */
        finding = kvl_judge_errors(rail->name, counts, count);
        kvl_doctor_say(doctor, &finding);
    }
}

void kvl_doctor_counters(kvl_doctor_t *doctor)
{
    for (size_t i = 0; i < doctor->table->rail_count; i++) {
        if (kvl_doctor_shows(&doctor->table->rails[i])) {
            errors_of(doctor, &doctor->table->rails[i]);
        }
    }
}

/* ---- distances ---- */

/* the rail that is nearest to a GPU; NULL: there is no RDMA rail */
static const kvl_rail_t *nearest(const kvl_rail_table_t *table, const kvl_place_t *place,
                                 kvl_distance_t *distance_p)
{
    const kvl_rail_t *best = NULL;

    for (size_t i = 0; i < table->rail_count; i++) {
        const kvl_rail_t *rail  = &table->rails[i];
        kvl_distance_t distance = kvl_place_distance(table, place, rail);

        if (rail->kind == KVL_RAIL_RDMA &&
            (!best || kvl_distance_compare(distance, *distance_p) < 0)) {
            best        = rail;
            *distance_p = distance;
        }
    }
    return best;
}

static void gpu_distance(kvl_doctor_t *doctor, const kvl_gpu_t *gpu)
{
    kvl_place_t place       = {.kind = KVL_PLACE_GPU, .gpu = gpu->pci.address};
    kvl_distance_t distance = {.level = KVL_NEAR_UNKNOWN};
    const kvl_rail_t *rail  = nearest(doctor->table, &place, &distance);
    bool far                = rail && distance.level == KVL_NEAR_OTHER;
    kvl_finding_t finding;
    char name[64], text[64];

    snprintf(name, sizeof(name), "gpu %s", gpu->pci.address);
    kvl_distance_format(distance, text, sizeof(text));
    finding = rail ? kvl_finding(far ? KVL_FOUND_WARN : KVL_FOUND_OK, name,
                                 far ? "a NIC in a slot of the gpu's own NUMA node" : NULL,
                                 "numa node %d; nearest is %s: %s", gpu->numa, rail->name, text)
                   : kvl_finding(KVL_FOUND_OK, name, NULL, "numa node %d; no RDMA device is here",
                                 gpu->numa);
    kvl_doctor_say(doctor, &finding);
}

void kvl_doctor_distances(kvl_doctor_t *doctor)
{
    const kvl_rail_table_t *table = doctor->table;
    kvl_finding_t finding =
        kvl_finding(KVL_FOUND_OK, "numa", NULL, "one node, or the system does not tell");
    size_t used, i, j;

    if (table->node_count > 1) {
        used = (size_t)snprintf(finding.text, sizeof(finding.text), "%zu nodes; distances",
                                table->node_count);
        for (i = 0; i < table->node_count; i++) {
            for (j = i + 1; j < table->node_count && used < sizeof(finding.text); j++) {
                used += (size_t)snprintf(
                    finding.text + used, sizeof(finding.text) - used, "%s %u-%u: %u",
                    i + j > 1 ? "," : "", table->nodes[i].node, table->nodes[j].node,
                    j < table->nodes[i].distance_count ? table->nodes[i].distances[j] : 0);
            }
        }
    }
    kvl_doctor_say(doctor, &finding);
    for (i = 0; i < table->gpu_count; i++) {
        gpu_distance(doctor, &table->gpus[i]);
    }
}

/* ---- gpudirect ---- */

static bool is_loaded(const char *module)
{
    const kvl_sysfs_t modules = kvl_sysfs("", "/sys/module");

    return kvl_sysfs_exists(&modules, module);
}

void kvl_doctor_gpudirect(kvl_doctor_t *doctor)
{
    const kvl_sysfs_t driver = kvl_sysfs("", "/proc/driver/nvidia");
    char version[128]        = "";
    kvl_gpudirect_t has      = {.gpus    = doctor->table->gpu_count,
                                .rdma    = kvl_doctor_has_rdma(doctor),
                                .peermem = is_loaded("nvidia_peermem") || is_loaded("nv_peer_mem")};
    kvl_finding_t finding;

    kvl_sysfs_text(&driver, "version", version, sizeof(version));
    has.dmabuf = strstr(version, "Open Kernel Module") != NULL || is_loaded("amdgpu");
    finding    = kvl_judge_gpudirect(&has);
    kvl_doctor_say(doctor, &finding);
}
