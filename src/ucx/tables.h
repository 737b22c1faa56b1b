/* SPDX-License-Identifier: BSD-3-Clause */
/* What this UCX has on this machine: transports with their devices, and the option table of each
 * transport, memory domain and connection manager, to ask whether an option exists. */
#ifndef KVL_UCX_TABLES_H
#define KVL_UCX_TABLES_H

#include "ucx/ucx.h"

#include <kvlane/status.h>

#include <stdbool.h>
#include <stddef.h>

kvl_status_t kvl_tables_create(kvl_tables_t **tables_p);
void kvl_tables_destroy(kvl_tables_t *tables);

typedef struct {
    const char *transport; /* "tcp", "rc_verbs", ... */
    const char *device;    /* "eth0", "mlx5_0:1", "memory" */
    bool network;          /* reaches other hosts */
    bool cuda;             /* registers a GPU's memory: by peer memory modules, or dmabuf */
} kvl_transport_t;

/* index runs from 0; false after the last */
bool kvl_tables_transport(const kvl_tables_t *tables, size_t index, kvl_transport_t *transport_p);
/* "tcp/lo tcp/eth0 posix/memory", for messages; cut if it is long */
void kvl_tables_list(const kvl_tables_t *tables, char *text, size_t size);

/* Says which transports UCX may open: tables of the others, and of memory domains without any, are
 * not in use. All are until this is called. */
typedef bool (*kvl_tables_allow_func_t)(const char *transport, const void *arg);
void kvl_tables_allow(kvl_tables_t *tables, kvl_tables_allow_func_t allow, const void *arg);

/* What setting @a name would do in the tables. */
typedef struct {
    unsigned owned; /* tables of @a owner that take it */
    unsigned used;  /* ... and are in use */
    unsigned other; /* tables of others that would take it as well */
    bool bad_value; /* at least one knows the name and refuses the value */
    char also[64];  /* an owner of the others, for messages */
} kvl_tables_hit_t;

/* @a owner: upper case name of a transport, memory domain or connection manager such as "TCP" or
 * "RC_VERBS"; also the start of such names up to an underscore ("RC"). NULL: all own it. */
void kvl_tables_try(const kvl_tables_t *tables, const char *owner, const char *name,
                    const char *value, kvl_tables_hit_t *hit_p);
/* true if a transport, memory domain or connection manager has this name */
bool kvl_tables_owner(const kvl_tables_t *tables, const char *owner);

#endif
