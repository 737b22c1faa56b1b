/* SPDX-License-Identifier: BSD-3-Clause */
/* What kvlane and kvlane_info share: a client of one node, and how they print. */
#ifndef KVL_TOOLS_CLIENT_H
#define KVL_TOOLS_CLIENT_H

#include <kvlane/cache.h>

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

typedef struct {
    kvl_config_t *config;
    kvl_engine_t *engine;
    kvl_cache_t *cache;
} kvl_tool_client_t;

/* Makes the config, and the engine for @a node (NULL: none in particular). @a rank: with KVLANE_AFFINITY=rank and this
 * KVLANE_RANK; NULL: as they are set. What was made before a failure is for kvl_tool_disconnect(). Says nothing; the text is
 * kvl_error_text()'s. */
kvl_status_t kvl_tool_open(kvl_tool_client_t *client, const char *node, const char *rank);
/* Connects within @a timeout_ms (0: KVLANE_TIMEOUT). Returns an exit code; on failure, which is said, there is
 * nothing to disconnect. */
int kvl_tool_connect(const char *name, kvl_tool_client_t *client, const char *node, int64_t timeout_ms);
void kvl_tool_disconnect(kvl_tool_client_t *client);

/* "2.5" to milliseconds; -1 unless 0.001 to 86400 */
int kvl_tool_seconds(const char *text, int64_t *ms_p);

typedef void (*kvl_tool_print_func_t)(FILE *stream, void *object);
/* What @a print prints of @a object, read again as JSON; NULL without memory. */
json_t *kvl_tool_json_of(kvl_tool_print_func_t print, void *object);
/* kvl_engine_print() as JSON; NULL without memory. */
json_t *kvl_tool_engine_json(kvl_engine_t *engine);
/* As one line on standard output; takes @a json, NULL: no memory. Returns an exit code. */
int kvl_tool_print_json(const char *name, json_t *json);

/* a text in quotes, escaped; bytes that are no UTF-8 become U+FFFD */
void kvl_tool_json_text(FILE *stream, const char *text);

/* a table, or one JSON object without a line end */
void kvl_tool_print_stat(FILE *stream, const kvl_node_stat_t *stat, bool json);

#endif
