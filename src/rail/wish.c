/* SPDX-License-Identifier: BSD-3-Clause */
#include "rail/wish.h"

#include "base/error.h"

#include <string.h>

/* ---- KVLANE_RAILS ---- */

#define ACCEPTED                                                                                   \
    "accepted: auto, tcp, shm, rdma, names with commas, or ^ before names that are not to be used"

static kvl_status_t wish_refuse(const char *text, const char *why)
{
    return kvl_error(KVL_ERR_CONFIG, "KVLANE_RAILS=%.256s: %s; " ACCEPTED, text, why);
}

static kvl_status_t wish_check(const kvl_wish_t *wish)
{
    const char *at = wish->terms;

    for (;;) {
        const char *term = at;
        size_t length    = strcspn(term, ",");

        at += length;
        if (*term == '^') {
            if (!wish->except) {
                return wish_refuse(wish->text, "^ belongs before the first name");
            }
            term++;
            length--;
        }
        if (length == 0) {
            return wish_refuse(wish->text, "an empty name in the list");
        }
        if (length >= KVL_RAIL_NAME_SIZE) {
            return wish_refuse(wish->text, "no rail has a name as long as that");
        }
        if (length == 4 && strncmp(term, "auto", 4) == 0) {
            return wish_refuse(wish->text, "auto stands alone");
        }
        if (*at++ == '\0') {
            return KVL_OK;
        }
    }
}

kvl_status_t kvl_wish_parse(const char *text, kvl_wish_t *wish_p)
{
    kvl_wish_t wish = {.text = text, .terms = text, .except = text[0] == '^'};
    kvl_status_t status;

    if (strcmp(text, "auto") == 0) {
        *wish_p = (kvl_wish_t){.text = text};
        return KVL_OK;
    }
    status = wish_check(&wish);
    if (status == KVL_OK) {
        *wish_p = wish;
    }
    return status;
}

bool kvl_wish_next(const char **at_p, char term[KVL_RAIL_NAME_SIZE])
{
    const char *at = *at_p;
    size_t length;

    if (!at || !*at) {
        return false;
    }
    at += *at == '^';
    length = strcspn(at, ",");
    snprintf(term, KVL_RAIL_NAME_SIZE, "%.*s", (int)length, at);
    at += length;
    *at_p = *at ? at + 1 : at;
    return true;
}

bool kvl_wish_kind(const char *term, kvl_rail_kind_t *kind_p)
{
    static const kvl_rail_kind_t kinds[] = {KVL_RAIL_RDMA, KVL_RAIL_TCP, KVL_RAIL_SHM};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(term, kvl_rail_kind_name(kinds[i])) == 0) {
            *kind_p = kinds[i];
            return true;
        }
    }
    return false;
}

bool kvl_wish_means(const char *term, const kvl_rail_t *rail)
{
    size_t length = strlen(term);
    kvl_rail_kind_t kind;

    if (kvl_wish_kind(term, &kind)) {
        return rail->kind == kind;
    }
    return strncmp(rail->name, term, length) == 0 &&
           (rail->name[length] == '\0' ||
            (rail->kind == KVL_RAIL_RDMA && rail->name[length] == ':'));
}

bool kvl_wish_find(const kvl_wish_t *wish, const kvl_rail_t *rail, unsigned *place_p, bool *named_p)
{
    char term[KVL_RAIL_NAME_SIZE];
    const char *at = wish->terms;
    kvl_rail_kind_t kind;

    for (unsigned place = 0; kvl_wish_next(&at, term); place++) {
        if (kvl_wish_means(term, rail)) {
            *place_p = place;
            *named_p = !kvl_wish_kind(term, &kind);
            return true;
        }
    }
    return false;
}

/* ---- what speaks against a rail ---- */

/* one that reads and writes remote memory reliably */
static bool transports_carry(const char *transports)
{
    static const char *const names[] = {"rc_verbs", "rc_mlx5", "dc_mlx5"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strstr(transports, names[i])) {
            return true;
        }
    }
    return false;
}

bool kvl_rail_usable(const kvl_rail_t *rail, char reason[KVL_REASON_SIZE])
{
    bool tcp = rail->kind == KVL_RAIL_TCP, rdma = rail->kind == KVL_RAIL_RDMA;
    bool tells = rail->state_text[0] && strcmp(rail->state_text, "down") != 0;

    reason[0] = '\0';
    if (rail->state == KVL_PORT_DOWN) {
        snprintf(reason, KVL_REASON_SIZE, "is down%s%s%s", tells ? " (" : "",
                 tells ? rail->state_text : "", tells ? ")" : "");
    } else if (rail->ambiguous) {
        snprintf(reason, KVL_REASON_SIZE,
                 "cannot be named to ucx, which cuts it to another device's name");
    } else if (tcp && rail->master[0] && !rail->device[0]) {
        snprintf(reason, KVL_REASON_SIZE, "is a port of %s, which stands for it", rail->master);
    } else if (tcp && rail->endpoints_known && rail->address_count == 0) {
        snprintf(reason, KVL_REASON_SIZE, "has no address, so nobody reaches it");
    } else if (rdma && rail->endpoints_known && rail->gid_count == 0) {
        snprintf(reason, KVL_REASON_SIZE, "has no gid, so nobody reaches it%s",
                 rail->link_layer == KVL_LINK_ETHERNET ? ": give its interface an address" : "");
    } else if (!rail->device[0]) {
        snprintf(reason, KVL_REASON_SIZE, "is not offered by ucx");
    } else if (rdma && !transports_carry(rail->transports)) {
        snprintf(reason, KVL_REASON_SIZE, "has no rc or dc transport in ucx, only %.64s",
                 rail->transports);
    }
    return reason[0] == '\0';
}

/* the usable rail of the physical function, which has the same port and all of its speed */
static const kvl_rail_t *rail_physical(const kvl_rail_table_t *table, const kvl_rail_t *rail)
{
    char ignored[KVL_REASON_SIZE];

    for (size_t i = 0; rail->physical[0] && i < table->rail_count; i++) {
        const kvl_rail_t *other = &table->rails[i];

        if (other->kind == rail->kind && strcmp(other->pci.address, rail->physical) == 0 &&
            kvl_rail_usable(other, ignored)) {
            return other;
        }
    }
    return NULL;
}

bool kvl_rail_plain(const kvl_rail_table_t *table, const kvl_rail_t *rail, const char *reach,
                    char reason[KVL_REASON_SIZE])
{
    const kvl_rail_t *physical = rail_physical(table, rail);

    reason[0] = '\0';
    if (rail->kind == KVL_RAIL_TCP && reach && strcmp(rail->name, reach) == 0) {
        return true;
    }
    if (rail->link_layer == KVL_LINK_LOOPBACK) {
        snprintf(reason, KVL_REASON_SIZE, "is the loopback, which does not reach the peer");
    } else if (rail->bridge) {
        snprintf(reason, KVL_REASON_SIZE, "is a bridge: used only when named");
    } else if (physical) {
        snprintf(reason, KVL_REASON_SIZE,
                 "is a virtual function of %s, which is used: only when "
                 "named",
                 physical->name);
    }
    return reason[0] == '\0';
}
