/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx/private.h"
kvl_status_t kvl_ep_info(kvl_ep_t *ep, kvl_ep_info_t *info_p)
{
    ucp_ep_print_info(ep->ucp, stdout);
    *info_p = (kvl_ep_info_t){0};
    return KVL_OK;
}
