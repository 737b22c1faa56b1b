/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets UCX's options for one context: the user's KVLANE_UCX_*, then kvlane's defaults where the
 * user set nothing. */
#ifndef KVL_UCX_OPTIONS_H
#define KVL_UCX_OPTIONS_H

#include "ucx/option_list.h"
#include "ucx/ucx.h"

#include <ucp/api/ucp.h>

/* Changes @a config, which was read with UCX's own prefix. KVL_ERR_CONFIG names an option that
 * cannot be applied. */
kvl_status_t kvl_options_apply(const kvl_context_params_t *params, kvl_tables_t *tables,
                               ucp_config_t *config, kvl_options_t **options_p);
/* Does UCX choose its protocols the new way (default from 1.16)? */
bool kvl_options_proto_v2(const kvl_options_t *options);
/* Was @a name set to @a value, by whomever kvl_options_print() tells? */
bool kvl_options_are(const kvl_options_t *options, const char *name, const char *value);
void kvl_options_destroy(kvl_options_t *options);

#endif
