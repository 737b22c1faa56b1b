/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx/select.h"

#include "base/error.h"

#include <stdio.h>
#include <string.h>

/* No silent fallback: a rail that was asked for and is not there is an error that lists what there
 * is. tcp stays in every set, for the connection manager and the wire-up; which transport the data
 * takes is checked per endpoint once it is up (info.c).
 *
 * auto  everything but cma (1.22 prefers it to shared memory and gets slower) and sysv (with two
 *       kinds of shared memory the arena may be of the kind that the endpoint does not use)
 * tcp   tcp, self
 * shm   posix, self; tcp to connect
 * rdma  the reliable verbs transports; tcp to connect
 * DEV   the devices named; their transports as above
 *
 * The ctrl lane has the same without shared memory: its messages would share one queue per receiver, and a
 * peer that is killed in the middle of one holds up all others (engine/watch.c). KVLANE_CTRL_UCX_TLS decides
 * otherwise. */

#define SELECT_AUTO "^cma,sysv"

typedef struct {
    bool automatic, tcp, shm, rdma;
} wish_t;

static bool select_is_rdma(const char *transport)
{
    static const char *const names[] = {"rc_verbs", "rc_mlx5", "dc_mlx5"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(transport, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

bool kvl_select_rdma(const kvl_tables_t *tables)
{
    kvl_transport_t transport;

    for (size_t i = 0; kvl_tables_transport(tables, i, &transport); i++) {
        if (select_is_rdma(transport.transport)) {
            return true;
        }
    }
    return false;
}

/* Adds @a name to the list unless it is there. */
static void list_add(char *list, const char *name)
{
    size_t length = strlen(name), used = strlen(list);

    for (const char *at = list; (at = strstr(at, name)) != NULL; at += length) {
        if ((at == list || at[-1] == ',') && (at[length] == '\0' || at[length] == ',')) {
            return;
        }
    }
    if (used + length + 2 <= KVL_SELECT_MAX) {
        snprintf(list + used, KVL_SELECT_MAX - used, "%s%s", used ? "," : "", name);
    }
}

static bool device_named(const char *device, const char *name)
{
    size_t length = strlen(name);

    return strncmp(device, name, length) == 0 && (device[length] == '\0' || device[length] == ':');
}

static kvl_status_t select_missing(const kvl_tables_t *tables, const char *what, const char *name)
{
    char there[256];

    kvl_tables_list(tables, there, sizeof(there));
    return kvl_error(KVL_ERR_NO_DEVICE, "%s: no %s here; there is: %s", what, name,
                     there[0] ? there : "nothing");
}

/* The device that the user named: notes its exact names and what it is. */
static kvl_status_t select_device(const kvl_tables_t *tables, const char *name, wish_t *wish,
                                  kvl_selection_t *selection)
{
    kvl_transport_t transport;
    bool found = false;

    for (size_t i = 0; kvl_tables_transport(tables, i, &transport); i++) {
        bool rdma = select_is_rdma(transport.transport);

        if (!transport.network || !device_named(transport.device, name) ||
            !(rdma || strcmp(transport.transport, "tcp") == 0)) {
            continue;
        }
        *(rdma ? &wish->rdma : &wish->tcp) = true;
        list_add(selection->devices, transport.device);
        found = true;
    }
    return found ? KVL_OK : select_missing(tables, "KVLANE_RAILS", name);
}

static kvl_status_t select_token(const kvl_tables_t *tables, const char *token, wish_t *wish,
                                 kvl_selection_t *selection)
{
    if (strcmp(token, "auto") == 0) {
        wish->automatic = true;
    } else if (strcmp(token, "tcp") == 0) {
        wish->tcp = true;
    } else if (strcmp(token, "shm") == 0) {
        wish->shm = true;
    } else if (strcmp(token, "rdma") == 0) {
        wish->rdma = true;
        if (!kvl_select_rdma(tables)) {
            return select_missing(tables, "KVLANE_RAILS", "rdma transport (rc, dc)");
        }
    } else {
        return select_device(tables, token, wish, selection);
    }
    return KVL_OK;
}

/* Adds every device of the reliable verbs transports, and the transports to @a tls if not NULL. */
static void select_add_rdma(const kvl_tables_t *tables, char *tls, char *devices)
{
    kvl_transport_t transport;

    for (size_t i = 0; kvl_tables_transport(tables, i, &transport); i++) {
        if (select_is_rdma(transport.transport)) {
            if (tls) {
                list_add(tls, transport.transport);
            }
            if (devices) {
                list_add(devices, transport.device);
            }
        }
    }
}

/* Once a device is named, every other network device is off: those that the wish needs are named
 * as well. */
static bool select_has(const kvl_tables_t *tables, const char *name)
{
    kvl_transport_t transport;

    for (size_t i = 0; kvl_tables_transport(tables, i, &transport); i++) {
        if (strcmp(transport.transport, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Everything but shared memory; UCX warns of names that it does not know. */
static void select_auto_ctrl(const kvl_tables_t *tables, char *tls)
{
    static const char *const shared[] = {"cma", "sysv", "posix", "xpmem", "knem"};
    char without[KVL_SELECT_MAX / 2]  = "";

    for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++) {
        if (select_has(tables, shared[i])) {
            list_add(without, shared[i]);
        }
    }
    snprintf(tls, KVL_SELECT_MAX, "%s%s", without[0] ? "^" : "all", without);
}

static void select_finish(const kvl_tables_t *tables, const wish_t *wish, const char *device,
                          bool ctrl, kvl_selection_t *selection)
{
    bool devices_named = selection->devices[0] != '\0';

    if (wish->automatic) {
        if (ctrl) {
            select_auto_ctrl(tables, selection->tls);
        } else {
            list_add(selection->tls, SELECT_AUTO);
        }
    } else {
        if (wish->rdma) {
            select_add_rdma(tables, selection->tls, NULL);
        }
        if (wish->shm && !ctrl) {
            list_add(selection->tls, "posix");
        }
        list_add(selection->tls, "self");
        list_add(selection->tls, "tcp");
    }
    if (device && device[0]) {
        if (!devices_named && (wish->automatic || wish->rdma)) {
            select_add_rdma(tables, NULL, selection->devices);
        }
        list_add(selection->devices, device);
    }
}

kvl_status_t kvl_select(const kvl_tables_t *tables, const char *rails, const char *device,
                        bool ctrl, kvl_selection_t *selection_p)
{
    char copy[KVL_SELECT_MAX];
    char *rest, *token;
    wish_t wish = {0};

    *selection_p = (kvl_selection_t){.named = strcmp(rails, "auto") != 0};
    snprintf(copy, sizeof(copy), "%s", rails);
    for (token = strtok_r(copy, ",", &rest); token; token = strtok_r(NULL, ",", &rest)) {
        kvl_status_t status = select_token(tables, token, &wish, selection_p);

        if (status != KVL_OK) {
            return status;
        }
    }
    select_finish(tables, &wish, device, ctrl, selection_p);
    return KVL_OK;
}

static bool select_there(const kvl_tables_t *tables, const char *name)
{
    kvl_transport_t transport;

    for (size_t i = 0; kvl_tables_transport(tables, i, &transport); i++) {
        if (device_named(transport.device, name)) {
            return true;
        }
    }
    return false;
}

kvl_status_t kvl_select_check(const kvl_tables_t *tables, const char *what, const char *devices)
{
    char copy[KVL_SELECT_MAX];
    char *rest, *token;

    if (devices[0] == '^' || strpbrk(devices, "*?[")) {
        return KVL_OK; /* a pattern is UCX's to judge */
    }
    snprintf(copy, sizeof(copy), "%s", devices);
    for (token = strtok_r(copy, ",", &rest); token; token = strtok_r(NULL, ",", &rest)) {
        if (strcmp(token, "all") != 0 && !select_there(tables, token)) {
            return select_missing(tables, what, token);
        }
    }
    return KVL_OK;
}
