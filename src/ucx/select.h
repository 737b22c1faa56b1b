/* SPDX-License-Identifier: BSD-3-Clause */
/* KVLANE_RAILS to UCX's TLS and NET_DEVICES. Decides over the inventory, changes nothing. */
#ifndef KVL_UCX_SELECT_H
#define KVL_UCX_SELECT_H

#include "ucx/tables.h"

#define KVL_SELECT_MAX 512

typedef struct {
    char tls[KVL_SELECT_MAX];
    char devices[KVL_SELECT_MAX]; /* "": UCX picks */
    bool named;                   /* the user named rails: stronger than plain UCX_TLS */
} kvl_selection_t;

/* @a rails as in KVLANE_RAILS; @a device: tcp device that reaches the peer, or NULL; @a ctrl: for the
 * ctrl lane. KVL_ERR_NO_DEVICE lists what there is. */
kvl_status_t kvl_select(const kvl_tables_t *tables, const char *rails, const char *device, bool ctrl,
                        kvl_selection_t *selection_p);
/* KVL_ERR_NO_DEVICE unless each of @a devices ("mlx5_0:1,eth0", "all") is there. @a what names the
 * setting. */
kvl_status_t kvl_select_check(const kvl_tables_t *tables, const char *what, const char *devices);
bool kvl_select_rdma(const kvl_tables_t *tables);

#endif
