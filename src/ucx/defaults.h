/* SPDX-License-Identifier: BSD-3-Clause */
/* What is wanted of UCX: the user's options, what the rails need, and kvlane's defaults. */
#ifndef KVL_UCX_DEFAULTS_H
#define KVL_UCX_DEFAULTS_H

#include "ucx/option_list.h"
#include "ucx/ucx.h"

kvl_status_t kvl_defaults_want(kvl_options_t *options, const kvl_tables_t *tables,
                               const kvl_context_params_t *params);
/* Adds the plain UCX_* of the user where kvlane would have set something else, for the listing. */
void kvl_defaults_note(kvl_options_t *options);
/* May UCX use @a transport, by the TLS in force? @a options: a kvl_options_t. */
bool kvl_defaults_allow(const char *transport, const void *options);

/* ... is an RDMA transport among those, on a device that NET_DEVICES has? */
bool kvl_defaults_rdma(const kvl_options_t *options, const kvl_tables_t *tables);
/* ... one that registers a GPU's memory? */
bool kvl_defaults_cuda(const kvl_options_t *options, const kvl_tables_t *tables);

#endif
