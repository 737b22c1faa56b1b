/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/doctor_judge.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Of ports, GPUs, and pairs of rails; pure, as doctor_judge.c. */

#define LATENCY_SLOW INT64_C(10000000) /* ns */

/* ---- devices ---- */

unsigned kvl_roce_payload(unsigned mtu)
{
    unsigned payload = 4096;

    /* what the kernel takes off: GRH 40, UDP 8, BTH 12, its extensions 32, ICRC 4 */
    while (payload >= 256 && payload + 96 > mtu) {
        payload /= 2;
    }
    return payload >= 256 ? payload : 0;
}

static bool has_routable_gid(const kvl_rail_t *rail)
{
    for (unsigned i = 0; i < rail->gid_count; i++) {
        if (strcmp(rail->gids[i].type, "RoCE v2") == 0) {
            return true;
        }
    }
    return false;
}

/* NULL: all is well with it */
static const char *port_trouble(const kvl_rail_t *rail, char text[160], const char **way_out_p)
{
    bool roce        = rail->kind == KVL_RAIL_RDMA && rail->link_layer == KVL_LINK_ETHERNET;
    unsigned payload = kvl_roce_payload(rail->mtu);

    *way_out_p =
        "ip link set DEVICE up; look at cable and switch; for InfiniBand at the subnet manager";
    if (rail->state == KVL_PORT_DOWN) {
        return "is down";
    }
    *way_out_p = "give the interface behind it an IP address";
    if (rail->kind == KVL_RAIL_RDMA && rail->endpoints_known && rail->gid_count == 0) {
        return "has no GID";
    }
    if (roce && rail->gid_count && !has_routable_gid(rail)) {
        return "has no GID of RoCE v2: it reaches no other subnet";
    }
    *way_out_p = "an MTU of 4200 or more, on the interface, its peers and all switches between";
    if (roce && rail->mtu && payload < 2048) {
        snprintf(text, 160, "has mtu %u: a packet carries %u bytes of at most 4096", rail->mtu,
                 payload);
        return text;
    }
    return NULL;
}

kvl_finding_t kvl_judge_port(const kvl_rail_t *rail)
{
    const char *way_out, *trouble;
    char name[96], speed[32] = "speed unknown", gids[48] = "", numa[24] = "", text[160];

    trouble = port_trouble(rail, text, &way_out);
    snprintf(name, sizeof(name), "port %s", rail->name);
    if (rail->speed_mbits) {
        snprintf(speed, sizeof(speed), "%" PRIu64 " Mbit/s", rail->speed_mbits);
    }
    if (rail->kind == KVL_RAIL_RDMA) {
        snprintf(gids, sizeof(gids), ", %u GIDs%s", rail->gid_count,
                 has_routable_gid(rail) ? " (RoCE v2 among them)" : "");
    }
    if (rail->numa >= 0) {
        snprintf(numa, sizeof(numa), ", numa node %d", rail->numa);
    }
    return kvl_finding(
        trouble ? KVL_FOUND_WARN : KVL_FOUND_OK, name, trouble ? way_out : NULL,
        "%s%s%s %s, %s%s, %s, mtu %u%s%s", trouble ? trouble : "", trouble ? "; " : "",
        kvl_rail_kind_name(rail->kind), kvl_link_layer_name(rail->link_layer),
        rail->state == KVL_PORT_UP     ? "up"
        : rail->state == KVL_PORT_DOWN ? "down, "
                                       : "state unknown",
        rail->state == KVL_PORT_DOWN ? rail->state_text : "", speed, rail->mtu, gids, numa);
}

kvl_finding_t kvl_judge_errors(const char *rail, const kvl_error_count_t *counts, size_t count)
{
    char name[96], text[512] = "";
    size_t used = 0;

    snprintf(name, sizeof(name), "errors %.80s", rail);
    for (size_t i = 0; i < count && used < sizeof(text); i++) {
        if (counts[i].value) {
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s %" PRIu64,
                                     used ? ", " : "", counts[i].name, counts[i].value);
        }
    }
    if (used == 0) {
        return kvl_finding(KVL_FOUND_OK, name, NULL, "none in %zu counters", count);
    }
    return kvl_finding(KVL_FOUND_WARN, name, "if they grow: cable, transceiver, switch port",
                       "since it was started: %s", text);
}

kvl_finding_t kvl_judge_gpudirect(const kvl_gpudirect_t *has)
{
    if (has->gpus == 0) {
        return kvl_finding(KVL_FOUND_OK, "gpudirect", NULL, "no gpu is here");
    }
    if (!has->rdma) {
        return kvl_finding(KVL_FOUND_OK, "gpudirect", NULL,
                           "%zu gpus, and no RDMA device that could reach them", has->gpus);
    }
    if (!has->peermem && !has->dmabuf) {
        return kvl_finding(
            KVL_FOUND_WARN, "gpudirect",
            "modprobe nvidia_peermem, or NVIDIA's open kernel driver for dmabuf",
            "%zu gpus, but neither peermem nor dmabuf: RDMA devices cannot reach their memory",
            has->gpus);
    }
    return kvl_finding(KVL_FOUND_OK, "gpudirect", NULL, "%zu gpus; peermem: %s, dmabuf: %s",
                       has->gpus, has->peermem ? "yes" : "no", has->dmabuf ? "yes" : "no");
}

/* ---- a node ---- */

static bool begins(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static bool transport_is(const char *transport, kvl_rail_kind_t kind)
{
    bool tcp  = begins(transport, "tcp");
    bool rdma = begins(transport, "rc") || begins(transport, "dc") || begins(transport, "ud");

    return kind == KVL_RAIL_TCP ? tcp : kind == KVL_RAIL_RDMA ? rdma : !tcp && !rdma;
}

kvl_finding_t kvl_judge_transport(const char *pair, const char *rails, const kvl_rail_t *rail,
                                  const char *transport)
{
    bool automatic =
        strcmp(rails, "auto") == 0 || rails[0] == '^' || strcmp(rails, "left to ucx") == 0;
    bool fits = true;
    char name[96];

    snprintf(name, sizeof(name), "transport %.80s", pair);
    if (!automatic) {
        fits = rail                         ? transport_is(transport, rail->kind)
               : strcmp(rails, "shm") == 0  ? transport_is(transport, KVL_RAIL_SHM)
               : strcmp(rails, "tcp") == 0  ? transport_is(transport, KVL_RAIL_TCP)
               : strcmp(rails, "rdma") == 0 ? transport_is(transport, KVL_RAIL_RDMA)
                                            : true;
    }
    if (!fits) {
        return kvl_finding(
            KVL_FOUND_FAIL, name, "the node has to offer the same: KVLANE_RAILS there",
            "KVLANE_RAILS=%s asks for another, but bytes go by %s", rails, transport);
    }
    return kvl_finding(KVL_FOUND_OK, name, NULL, "KVLANE_RAILS=%s gives %s", rails, transport);
}

bool kvl_judge_mtus(const char *pair, const kvl_rail_t *rail, unsigned peer_mtu,
                    kvl_finding_t *finding_p)
{
    bool rdma;
    char name[96];

    if (!rail || !rail->mtu || !peer_mtu || rail->link_layer == KVL_LINK_LOOPBACK ||
        rail->kind == KVL_RAIL_SHM) {
        return false;
    }
    rdma = rail->kind == KVL_RAIL_RDMA;
    snprintf(name, sizeof(name), "mtu %.80s", pair);
    if (rail->mtu == peer_mtu) {
        *finding_p = kvl_finding(KVL_FOUND_OK, name, NULL, "%u at both ends", peer_mtu);
    } else {
        *finding_p = kvl_finding(
            rdma && kvl_roce_payload(rail->mtu) != kvl_roce_payload(peer_mtu) ? KVL_FOUND_FAIL
                                                                              : KVL_FOUND_WARN,
            name, "the same mtu at both ends, and at least that on every switch between",
            "%u here, %u at the node%s", rail->mtu, peer_mtu,
            rdma ? ": packets of the larger do not arrive" : "");
    }
    return true;
}

kvl_finding_t kvl_judge_latency(const char *pair, int64_t least_ns, int64_t median_ns,
                                unsigned count)
{
    bool slow = median_ns > LATENCY_SLOW;
    char name[96];

    snprintf(name, sizeof(name), "latency %.80s", pair);
    return kvl_finding(slow ? KVL_FOUND_WARN : KVL_FOUND_OK, name,
                       slow ? "look for other load on this host, the node or the network" : NULL,
                       "a lookup takes %.1f us (median), at best %.1f us (%u lookups)",
                       (double)median_ns / 1e3, (double)least_ns / 1e3, count);
}
