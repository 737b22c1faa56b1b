/* SPDX-License-Identifier: BSD-3-Clause */
/* Fills a table with what this host has. Reads files and asks the kernel; opens no device. */
#ifndef KVL_RAIL_DISCOVER_H
#define KVL_RAIL_DISCOVER_H

#include "rail/table.h"

typedef struct {
    const char
        *root; /* in front of "/sys"; NULL or "": this host. Elsewhere, the kernel is not asked
                         for addresses. */
    const kvl_offer_t *offers; /* what UCX has; NULL: nobody asked, and no rail can be used */
    size_t offer_count;
} kvl_discover_params_t;

/* KVL_ERR_NO_MEMORY. What is not there or cannot be read is unknown, which is no failure. */
kvl_status_t kvl_discover(const kvl_discover_params_t *params, kvl_rail_table_t **table_p);

#endif
