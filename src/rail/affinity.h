/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of rail: orders the rails that are in, and cuts the list. */
#ifndef KVL_RAIL_AFFINITY_H
#define KVL_RAIL_AFFINITY_H

#include "rail/choose.h"

/* Sorts @a decision's choices, counts them, and turns those beyond the affinity and the limit into
 * spare ones. KVL_ERR_CONFIG without a rank where there must be one. */
kvl_status_t kvl_affinity_apply(const kvl_rail_table_t *table, const kvl_choose_params_t *params,
                                kvl_decision_t *decision);

#endif
