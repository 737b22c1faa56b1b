/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx/defaults.h"
#include "ucx/options.h"
#include "ucx/private.h"

#include "base/alloc.h"
#include "base/error.h"

#include <assert.h>

/* One ucp_context per rail: UCX chooses devices per context, not per worker. mt_workers_shared,
 * because the workers of one context may be driven by different threads. */

static ucs_status_t context_open(kvl_context_t *context, const ucp_config_t *config)
{
    ucp_params_t params = {
        .field_mask        = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED,
        .features          = UCP_FEATURE_RMA | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
        .mt_workers_shared = 1,
    };

    return kvl_ucp_fails() ? UCS_ERR_IO_ERROR : ucp_init(&params, config, &context->ucp);
}

static kvl_status_t context_no_device(const kvl_tables_t *tables)
{
    char there[256];

    kvl_tables_list(tables, there, sizeof(there));
    return kvl_error(KVL_ERR_NO_DEVICE, "ucp_init: no usable transport; there is: %s", there);
}

static kvl_status_t context_start(kvl_context_t *context, const kvl_context_params_t *params,
                                  kvl_tables_t *tables)
{
    ucp_config_t *config;
    ucs_status_t ucs_status =
        kvl_ucp_fails() ? UCS_ERR_IO_ERROR : ucp_config_read(NULL, NULL, &config);
    kvl_status_t status;

    if (ucs_status != UCS_OK) {
        return kvl_ucx_error("ucp_config_read", ucs_status);
    }
    status = kvl_options_apply(params, tables, config, &context->options);
    if (status == KVL_OK) {
        ucs_status = context_open(context, config);
    }
    ucp_config_release(config);
    if (status != KVL_OK) {
        return status;
    }
    if (ucs_status == UCS_OK) {
        context->pins = kvl_defaults_rdma(context->options, tables);
        /* UCX's older protocols take a GPU's memory for the host's when they put */
        context->cuda = kvl_options_proto_v2(context->options) && kvl_defaults_cuda(context->options, tables);
        return KVL_OK;
    }
    kvl_options_destroy(context->options);
    return ucs_status == UCS_ERR_NO_DEVICE ? context_no_device(tables)
                                           : kvl_ucx_error("ucp_init", ucs_status);
}

kvl_status_t kvl_context_create(const kvl_context_params_t *params, kvl_context_t **context_p)
{
    kvl_context_t *context;
    kvl_tables_t *tables = params->tables;
    kvl_status_t status  = kvl_ucx_check();

    if (status != KVL_OK) {
        return status;
    }
    context = kvl_calloc(1, sizeof(*context));
    if (!context) {
        return kvl_error(KVL_ERR_NO_MEMORY, "context: %zu bytes", sizeof(*context));
    }
    status = tables ? KVL_OK : kvl_tables_create(&tables);
    if (status != KVL_OK) {
        goto err_free;
    }
    context->slice_bytes = kvl_config_settings(params->config)->reg_slice;
    status               = context_start(context, params, tables);
    if (!params->tables) {
        kvl_tables_destroy(tables);
    }
    if (status != KVL_OK) {
        goto err_free;
    }
    *context_p = context;
    return KVL_OK;

err_free:
    kvl_free(context);
    return status;
}

void kvl_context_destroy(kvl_context_t *context)
{
    if (!context) {
        return;
    }
    assert(context->workers == 0 && context->mems == 0); /* else 1.13.1 aborts in ucp_cleanup() */
    if (!context->haunted) {
        ucp_cleanup(context->ucp);
    }
    kvl_options_destroy(context->options);
    kvl_free(context);
}

bool kvl_context_pins(const kvl_context_t *context)
{
    return context->pins;
}

bool kvl_context_takes_devices(const kvl_context_t *context)
{
    return context->cuda;
}

void kvl_context_print(const kvl_context_t *context, FILE *stream)
{
    kvl_options_print(context->options, stream);
}
