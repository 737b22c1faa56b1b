/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "link/private.h"

#include <arpa/inet.h>
#include <string.h>

/* Which rail of ours goes to which of the peer's: one of the same kind whose address the kernel would send
 * to by our rail's device, the least used first, and of those the one at the same place in the list. An
 * RDMA rail whose address nobody knows is tried by the address that was given: UCX judges reachability.
 *
 * A rail that reaches none is not used; if the user named it, the link is refused. If no rail reaches any,
 * the first two are tried by the address that was given: so do clients and nodes on one host. */

static bool peer_rail_addr(const kvl_peer_rail_t *rail, kvl_addr_t *addr)
{
    *addr = (kvl_addr_t){.length = 0};
    if (rail->family == 4) {
        struct sockaddr_in *in = (struct sockaddr_in *)&addr->storage;

        in->sin_family = AF_INET;
        in->sin_port   = htons(rail->port);
        memcpy(&in->sin_addr, rail->address, 4);
        addr->length = sizeof(*in);
    } else if (rail->family == 6) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&addr->storage;

        in6->sin6_family = AF_INET6;
        in6->sin6_port   = htons(rail->port);
        memcpy(&in6->sin6_addr, rail->address, 16);
        addr->length = sizeof(*in6);
    }
    return addr->length > 0;
}

/* the network interface that a rail of ours sends by; NULL: nobody knows */
static const char *rail_interface(const kvl_rail_t *about)
{
    if (!about) {
        return NULL;
    }
    return about->kind == KVL_RAIL_TCP ? about->name : about->interface[0] ? about->interface : NULL;
}

static bool pair_reaches(const kvl_link_t *link, unsigned rail, const kvl_peer_rail_t *peer,
                         kvl_addr_t *addr)
{
    const kvl_rail_t *about = kvl_engine_rail(link->engine, rail);
    const char *interface   = rail_interface(about);
    char device[64];

    if (about && (unsigned)about->kind != peer->kind) {
        return false;
    }
    if (!peer_rail_addr(peer, addr)) {
        *addr = link->addr;
        return about && about->kind == KVL_RAIL_RDMA && !interface;
    }
    if (kvl_addr_device(addr, device, sizeof(device)) != KVL_OK) {
        return false;
    }
    return !interface || strcmp(device, interface) == 0;
}

static void pair_set(kvl_pair_t *pair, unsigned target, const kvl_addr_t *addr)
{
    kvl_link_t *link = pair->link;

    pair->state  = KVL_PAIR_DOWN;
    pair->target = target;
    pair->addr   = *addr;
    snprintf(pair->target_name, sizeof(pair->target_name), "%.71s",
             target < link->peer_rail_count ? link->peer_rails[target].name : "its only rail");
}

/* a peer with one rail tells no address: it is where HELLO went to */
static void peer_rails_default(kvl_link_t *link)
{
    kvl_peer_rail_t *rail = &link->peer_rails[0];

    if (link->peer_rail_count > 1 || (link->peer_rail_count == 1 && rail->family)) {
        return;
    }
    *rail = (kvl_peer_rail_t){.kind = KVL_PEER_RAIL_TCP, .mtu = link->peer_rail_count ? rail->mtu : 0};
    snprintf(rail->name, sizeof(rail->name), "its rail at %.200s", link->address);
    if (link->addr.storage.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&link->addr.storage;

        rail->family = 4;
        rail->port   = ntohs(in->sin_port);
        memcpy(rail->address, &in->sin_addr, 4);
    } else {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&link->addr.storage;

        rail->family = 6;
        rail->port   = ntohs(in6->sin6_port);
        memcpy(rail->address, &in6->sin6_addr, 16);
    }
    link->peer_rail_count = 1;
}

/* @a before: of the link's last life; a rail whose port is down now reaches nobody, and will again */
static void pair_find(kvl_pair_t *pair, const kvl_pair_t *before, unsigned *uses)
{
    kvl_link_t *link = pair->link;
    unsigned best    = KVL_WIRE_RAILS_MAX, i;
    kvl_addr_t addr, best_addr;

    for (i = 0; i < link->peer_rail_count; i++) {
        unsigned target = (pair->rail + i) % link->peer_rail_count;

        if (pair_reaches(link, pair->rail, &link->peer_rails[target], &addr) &&
            (best == KVL_WIRE_RAILS_MAX || uses[target] < uses[best])) {
            best      = target;
            best_addr = addr;
        }
    }
    if (best < KVL_WIRE_RAILS_MAX) {
        pair_set(pair, best, &best_addr);
        uses[best]++;
        return;
    }
    if (before->addr.length && before->target < link->peer_rail_count &&
        !kvl_engine_rail_is_up(link->engine, pair->rail)) {
        pair_set(pair, before->target, &before->addr);
        uses[before->target]++;
        return;
    }
    snprintf(pair->cause, sizeof(pair->cause), "no rail of the peer is reached by it");
    kvl_info("link %s: rail %s: %s", link->address, kvl_pair_name(pair), pair->cause);
}

static void peer_rails_list(const kvl_link_t *link, char *text, size_t size)
{
    size_t used = 0;
    unsigned i;

    text[0] = '\0';
    for (i = 0; i < link->peer_rail_count && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", link->peer_rails[i].name);
    }
}

/* named rails all have to be of use */
static kvl_status_t pairs_judge(kvl_link_t *link, unsigned found)
{
    const char *rails = kvl_engine_settings(link->engine)->rails;
    char list[256];
    unsigned i;

    if (!found) {
        pair_set(&link->pairs[0], 0, &link->addr);
        return KVL_OK;
    }
    for (i = 0; i < link->pair_count; i++) {
        const kvl_pair_t *pair = &link->pairs[i];

        if (pair->state == KVL_PAIR_OFF && strstr(rails, kvl_pair_name(pair)) && rails[0] != '^') {
            peer_rails_list(link, list, sizeof(list));
            return kvl_error(KVL_ERR_UNREACHABLE,
                             "KVLANE_RAILS=%s, but %s reaches no rail of the peer, which has: %s", rails,
                             kvl_pair_name(pair), list);
        }
    }
    return KVL_OK;
}

kvl_status_t kvl_pairs_make(kvl_link_t *link)
{
    unsigned count = kvl_engine_rails(link->engine), endpoints, i, found = 0;
    unsigned uses[KVL_WIRE_RAILS_MAX] = {0};

    link->several = count > 1 || link->peer_rail_count > 1;
    if (link->several) {
        peer_rails_default(link);
        link->ctrl.stream.on = true; /* from RAIL on */
    }
    if (link->terms.sg_endpoints > KVL_LINE_MAX / count - 1) { /* the mover takes no more */
        link->terms.sg_endpoints = (uint16_t)(KVL_LINE_MAX / count - 1);
    }
    endpoints        = 1u + link->terms.sg_endpoints;
    link->pair_count = count;
    for (i = 0; i < count; i++) {
        kvl_pair_t before = link->pairs[i];

        link->pairs[i] = (kvl_pair_t){
            .link = link, .rail = i, .first = 1 + i * endpoints, .ups = before.ups, .fails = before.fails};
        kvl_list_init(&link->pairs[i].call.link);
        if (!link->several) {
            pair_set(&link->pairs[i], 0, &link->addr);
        } else {
            pair_find(&link->pairs[i], &before, uses);
            found += link->pairs[i].state != KVL_PAIR_OFF;
        }
    }
    return link->several ? pairs_judge(link, found) : KVL_OK;
}
