/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/client.h"

#include "tools/common.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define START_S 60 /* UCX's start has been seen to hang; nothing here may */

/* without the node: what fails here is of this side */
static kvl_status_t open_here(kvl_tool_client_t *client, const char *node)
{
    kvl_engine_params_t params = {.address = node};
    kvl_status_t status        = kvl_config_create(&client->config);

    if (status == KVL_OK) {
        params.config = client->config;
        alarm(START_S);
        status = kvl_engine_create(&params, &client->engine);
        alarm(0);
    }
    return status == KVL_OK ? kvl_cache_create(client->engine, node, &client->cache) : status;
}

int kvl_tool_connect(const char *name, kvl_tool_client_t *client, const char *node, int64_t timeout_ms)
{
    kvl_status_t status;
    int code = KVL_EXIT_OK;

    *client = (kvl_tool_client_t){0};
    status  = open_here(client, node);
    if (status != KVL_OK) {
        code = kvl_tool_refused(name, status);
    } else if (kvl_cache_connect(client->cache, timeout_ms) != KVL_OK) {
        code = kvl_tool_failed(name, "%s", kvl_error_text());
    }
    if (code != KVL_EXIT_OK) {
        kvl_tool_disconnect(client);
    }
    return code;
}

void kvl_tool_disconnect(kvl_tool_client_t *client)
{
    kvl_cache_destroy(client->cache);
    kvl_engine_destroy(client->engine);
    kvl_config_destroy(client->config);
    *client = (kvl_tool_client_t){0};
}

int kvl_tool_seconds(const char *text, int64_t *ms_p)
{
    char *end;
    double seconds = strtod(text, &end);

    if (end == text || *end != '\0' || !(seconds >= 0.001 && seconds <= 86400)) {
        return -1;
    }
    *ms_p = (int64_t)(seconds * 1000);
    return 0;
}

void kvl_tool_json_text(FILE *stream, const char *text)
{
    json_t *string = json_string(text);

    if (string) {
        json_dumpf(string, stream, JSON_ENCODE_ANY);
        json_decref(string);
        return;
    }
    /* no UTF-8 */
    fputc('"', stream);
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;

        if (byte >= 0x80) {
            fputs("\\ufffd", stream);
        } else if (byte < 0x20 || byte == '"' || byte == '\\') {
            fprintf(stream, "\\u%04x", byte);
        } else {
            fputc(byte, stream);
        }
    }
    fputc('"', stream);
}

void kvl_tool_print_stat(FILE *stream, const kvl_node_stat_t *stat, bool json)
{
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        {"keys", stat->keys},
        {"bytes_used", stat->bytes_used},
        {"bytes_total", stat->bytes_total},
        {"sessions", stat->sessions},
        {"leases", stat->leases},
        {"quarantined_slots", stat->quarantined_slots},
        {"evictions", stat->evictions},
        {"refused_messages", stat->refused_messages},
        {"puts", stat->puts},
        {"gets", stat->gets},
        {"hits", stat->hits},
        {"misses", stat->misses},
        {"commits", stat->commits},
        {"aborts", stat->aborts},
        {"uptime_ms", stat->uptime_ms},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (json) {
            fprintf(stream, "%s\"%s\": %llu", i == 0 ? "{" : ", ", rows[i].name,
                    (unsigned long long)rows[i].value);
        } else {
            fprintf(stream, "%-18s %llu\n", rows[i].name, (unsigned long long)rows[i].value);
        }
    }
    if (json) {
        fputc('}', stream);
    }
}
