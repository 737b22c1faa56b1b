/* SPDX-License-Identifier: BSD-3-Clause */
#include <kvlane/plugin.h>

/* One versioned table, 1:1 onto the API; no logic but the check of the number. */

static const kvl_plugin_t table = {
    .abi  = KVL_PLUGIN_ABI,
    .size = sizeof(kvl_plugin_t),
    .status_string = kvl_status_string,
    .status_name = kvl_status_name,
    .status_group = kvl_status_group,
    .error_text = kvl_error_text,
    .config_create = kvl_config_create,
    .config_set = kvl_config_set,
    .config_get = kvl_config_get,
    .config_print = kvl_config_print,
    .config_destroy = kvl_config_destroy,
    .engine_create = kvl_engine_create,
    .engine_destroy = kvl_engine_destroy,
    .engine_progress = kvl_engine_progress,
    .engine_event_fd = kvl_engine_event_fd,
    .engine_clear_event = kvl_engine_clear_event,
    .engine_print = kvl_engine_print,
    .batch_test = kvl_batch_test,
    .batch_wait = kvl_batch_wait,
    .batch_cancel = kvl_batch_cancel,
    .batch_count = kvl_batch_count,
    .batch_item = kvl_batch_item,
    .batch_cause = kvl_batch_cause,
    .rail_drain = kvl_rail_drain,
    .rail_add = kvl_rail_add,
    .batch_release = kvl_batch_release,
    .version = kvl_version,
    .ucx_version = kvl_ucx_version,
    .ucx_path = kvl_ucx_path,
    .memory_query = kvl_memory_query,
    .region_register = kvl_region_register,
    .region_alloc = kvl_region_alloc,
    .region_address = kvl_region_address,
    .region_length = kvl_region_length,
    .region_release = kvl_region_release,
    .region_export = kvl_region_export,
    .listen = kvl_listen,
    .listener_address = kvl_listener_address,
    .listener_destroy = kvl_listener_destroy,
    .connect = kvl_connect,
    .peer_close = kvl_peer_close,
    .remote_import = kvl_remote_import,
    .remote_length = kvl_remote_length,
    .remote_release = kvl_remote_release,
    .transfer_submit = kvl_transfer_submit,
    .cache_create = kvl_cache_create,
    .cache_connect = kvl_cache_connect,
    .cache_destroy = kvl_cache_destroy,
    .cache_submit = kvl_cache_submit,
    .cache_stat = kvl_cache_stat,
    .cache_session = kvl_cache_session,
    .cache_rails = kvl_cache_rails,
    .node_create = kvl_node_create,
    .node_address = kvl_node_address,
    .node_run = kvl_node_run,
    .node_drain = kvl_node_drain,
    .node_stat = kvl_node_stat,
    .node_destroy = kvl_node_destroy,
    .peer_test = kvl_peer_test,
};

static _Thread_local char text[160];

kvl_status_t kvl_plugin_get(uint32_t abi, const kvl_plugin_t **table_p)
{
    if (abi != KVL_PLUGIN_ABI) {
        snprintf(text, sizeof(text),
                 "plugin: the caller was built for table version %u, this is kvlane %s with version %u: "
                 "use the header and the library of one release",
                 abi, kvl_version(), KVL_PLUGIN_ABI);
        return KVL_ERR_VERSION;
    }
    if (!table_p) {
        snprintf(text, sizeof(text), "plugin: table_p is NULL");
        return KVL_ERR_INVALID;
    }
    *table_p = &table;
    return KVL_OK;
}

const char *kvl_plugin_text(void)
{
    return text;
}
