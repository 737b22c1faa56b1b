/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/client.h"

#include "tools/common.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define START_S 60 /* UCX's start has been seen to hang; nothing here may */

kvl_status_t kvl_tool_open(kvl_tool_client_t *client, const char *node, const char *rank)
{
    kvl_engine_params_t params = {.address = node};
    kvl_status_t status;

    *client = (kvl_tool_client_t){0};
    status  = kvl_config_create(&client->config);
    if (status == KVL_OK && rank) {
        status = kvl_config_set(client->config, "KVLANE_AFFINITY", "rank");
    }
    if (status == KVL_OK && rank) {
        status = kvl_config_set(client->config, "KVLANE_RANK", rank);
    }
    if (status == KVL_OK) {
        params.config = client->config;
        alarm(START_S);
        status = kvl_engine_create(&params, &client->engine);
        alarm(0);
    }
    return status;
}

int kvl_tool_connect(const char *name, kvl_tool_client_t *client, const char *node, int64_t timeout_ms)
{
    kvl_status_t status = kvl_tool_open(client, node, NULL);
    int code            = KVL_EXIT_OK;

    if (status == KVL_OK) {
        status = kvl_cache_create(client->engine, node, &client->cache);
    }
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

json_t *kvl_tool_json_of(kvl_tool_print_func_t print, void *object)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    json_t *json = NULL;

    if (stream) {
        print(stream, object);
        if (fclose(stream) == 0) {
            json = json_loads(text, 0, NULL);
        }
    }
    free(text);
    return json;
}

static void engine_print(FILE *stream, void *object)
{
    kvl_engine_print(object, stream, 1);
}

json_t *kvl_tool_engine_json(kvl_engine_t *engine)
{
    return kvl_tool_json_of(engine_print, engine);
}

int kvl_tool_print_json(const char *name, json_t *json)
{
    if (!json) {
        return kvl_tool_failed(name, "no memory");
    }
    json_dumpf(json, stdout, 0);
    printf("\n");
    json_decref(json);
    return KVL_EXIT_OK;
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
