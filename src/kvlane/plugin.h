/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file plugin.h
 * libkvlane_plugin.so: kvlane behind one symbol, for programs that load a transport at run time.
 *
 *     void *lib = dlopen("libkvlane_plugin.so", RTLD_NOW | RTLD_LOCAL);
 *     kvl_plugin_get_func_t get = (kvl_plugin_get_func_t)dlsym(lib, "kvl_plugin_get");
 *     const kvl_plugin_t *kvl;
 *     if (get(KVL_PLUGIN_ABI, &kvl) != KVL_OK)
 *         errx(1, "%s", get_text());          // kvl_plugin_text, also a symbol
 *     kvl->engine_create(&params, &engine);
 *     ...
 *     kvl->engine_destroy(engine);
 *     dlclose(lib);                           // after everything is destroyed
 *
 * The table is 1:1 onto the calls of <kvlane/...>; their documentation holds. Slots are only ever
 * added at the end; size tells how many this library has.
 */
#ifndef KVLANE_PLUGIN_H
#define KVLANE_PLUGIN_H

#include <kvlane/cache.h>
#include <kvlane/node.h>
#include <kvlane/transport.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVL_PLUGIN_ABI 2u

typedef struct {
    uint32_t abi;  /**< KVL_PLUGIN_ABI */
    uint32_t size; /**< bytes of this table in the loaded library */

    /* status.h */
    const char *(*status_string)(kvl_status_t status);
    const char *(*status_name)(kvl_status_t status);
    kvl_status_group_t (*status_group)(kvl_status_t status);
    const char *(*error_text)(void);

    /* engine.h */
    kvl_status_t (*config_create)(kvl_config_t **config_p);
    kvl_status_t (*config_set)(kvl_config_t *config, const char *name, const char *value);
    const char *(*config_get)(const kvl_config_t *config, const char *name);
    void (*config_print)(const kvl_config_t *config, FILE *stream, int json);
    void (*config_destroy)(kvl_config_t *config);
    kvl_status_t (*engine_create)(const kvl_engine_params_t *params, kvl_engine_t **engine_p);
    void (*engine_destroy)(kvl_engine_t *engine);
    unsigned (*engine_progress)(kvl_engine_t *engine);
    int (*engine_event_fd)(kvl_engine_t *engine);
    void (*engine_clear_event)(kvl_engine_t *engine);
    void (*engine_print)(kvl_engine_t *engine, FILE *stream, int json);
    kvl_status_t (*batch_test)(kvl_batch_t *batch);
    kvl_status_t (*batch_wait)(kvl_batch_t *batch, int64_t timeout_ms);
    void (*batch_cancel)(kvl_batch_t *batch);
    size_t (*batch_count)(const kvl_batch_t *batch);
    kvl_status_t (*batch_item)(const kvl_batch_t *batch, size_t index, uint64_t *length_p);
    const char *(*batch_cause)(const kvl_batch_t *batch);
    kvl_status_t (*rail_drain)(kvl_engine_t *engine, const char *rail);
    kvl_status_t (*rail_add)(kvl_engine_t *engine, const char *rail);
    kvl_status_t (*batch_release)(kvl_batch_t *batch);
    const char *(*version)(void);
    const char *(*ucx_version)(void);
    const char *(*ucx_path)(void);

    /* memory.h */
    kvl_status_t (*memory_query)(const void *address, size_t length, kvl_memory_t *memory_p);
    kvl_status_t (*region_register)(kvl_engine_t *engine, void *address, size_t length,
                                    kvl_region_t **region_p);
    kvl_status_t (*region_alloc)(kvl_engine_t *engine, size_t length, kvl_region_t **region_p);
    void *(*region_address)(const kvl_region_t *region);
    size_t (*region_length)(const kvl_region_t *region);
    kvl_status_t (*region_release)(kvl_region_t *region);
    kvl_status_t (*region_export)(kvl_region_t *region, void *blob, size_t *length_p);

    /* transport.h */
    kvl_status_t (*listen)(kvl_engine_t *engine, const char *address, kvl_notify_func_t notify,
                           void *arg, kvl_listener_t **listener_p);
    kvl_status_t (*listener_address)(const kvl_listener_t *listener, char *address, size_t size);
    void (*listener_destroy)(kvl_listener_t *listener);
    kvl_status_t (*connect)(kvl_engine_t *engine, const char *address, int64_t timeout_ms,
                            kvl_peer_t **peer_p);
    void (*peer_close)(kvl_peer_t *peer);
    kvl_status_t (*remote_import)(kvl_peer_t *peer, const void *blob, size_t length,
                                  kvl_remote_t **remote_p);
    size_t (*remote_length)(const kvl_remote_t *remote);
    void (*remote_release)(kvl_remote_t *remote);
    kvl_status_t (*transfer_submit)(kvl_peer_t *peer, const kvl_transfer_t *transfer,
                                    const kvl_batch_params_t *params, kvl_batch_t **batch_p);

    /* cache.h */
    kvl_status_t (*cache_create)(kvl_engine_t *engine, const char *nodes, kvl_cache_t **cache_p);
    kvl_status_t (*cache_connect)(kvl_cache_t *cache, int64_t timeout_ms);
    void (*cache_destroy)(kvl_cache_t *cache);
    kvl_status_t (*cache_submit)(kvl_cache_t *cache, kvl_cache_op_t op,
        const kvl_item_t *items, size_t count, const kvl_batch_params_t *params, kvl_batch_t **batch_p);
    kvl_status_t (*cache_stat)(kvl_cache_t *cache, int64_t timeout_ms, kvl_node_stat_t *stat_p);
    kvl_status_t (*cache_session)(kvl_cache_t *cache, kvl_session_info_t *info_p);
    kvl_status_t (*cache_rails)(kvl_cache_t *cache, kvl_rail_stat_t *stats, size_t *count_p);

    /* node.h */
    kvl_status_t (*node_create)(const kvl_node_params_t *params, kvl_node_t **node_p);
    kvl_status_t (*node_address)(const kvl_node_t *node, char *address, size_t size);
    kvl_status_t (*node_run)(kvl_node_t *node);
    void (*node_drain)(kvl_node_t *node, int64_t timeout_ms);
    void (*node_stat)(kvl_node_t *node, kvl_node_stat_t *stat_p);
    void (*node_destroy)(kvl_node_t *node);

    /* added later */
    kvl_status_t (*peer_test)(kvl_peer_t *peer);
} kvl_plugin_t;

/**
 * Hands out the table. The only symbols of the library are this one and kvl_plugin_text().
 * @param abi  the KVL_PLUGIN_ABI that the caller was built with.
 * @return KVL_OK, KVL_ERR_INVALID (table_p is NULL), KVL_ERR_VERSION (older and newer numbers; the
 *         text says which one this library has). A second, different libucp in the process is found
 *         by engine_create, which names both files.
 * **Thread** any. **Blocks** never.
 */
KVL_API kvl_status_t kvl_plugin_get(uint32_t abi, const kvl_plugin_t **table_p);
typedef kvl_status_t (*kvl_plugin_get_func_t)(uint32_t abi, const kvl_plugin_t **table_p);

/** Why the last kvl_plugin_get() of this thread failed; also without a table. Never NULL. */
KVL_API const char *kvl_plugin_text(void);

#ifdef __cplusplus
}
#endif
#endif
