/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/config_row.h"
#include "base/json.h"

#include <stdio.h>

static const char *const source_names[] = {
    [KVL_SOURCE_DEFAULT]     = "default",
    [KVL_SOURCE_ENVIRONMENT] = "environment",
    [KVL_SOURCE_CALL]        = "call",
};

static const char *row_value(const kvl_config_t *config, size_t row)
{
    return config->text[row] ? config->text[row] : kvl_rows[row].initial;
}

static void print_text_row(const kvl_config_t *config, size_t row, FILE *stream)
{
    char accepted[128];

    kvl_row_accepted(&kvl_rows[row], accepted, sizeof(accepted));
    fprintf(stream, "%-23s  %-12s  %-8s  %-6s  %-11s  %s\n%25s%s\n", kvl_rows[row].name,
            row_value(config, row), kvl_rows[row].initial, kvl_row_unit(&kvl_rows[row]),
            source_names[config->source[row]], accepted, "", kvl_rows[row].doc);
}

static void print_text(const kvl_config_t *config, FILE *stream)
{
    size_t i;

    fprintf(stream, "%-23s  %-12s  %-8s  %-6s  %-11s  %s\n", "NAME", "VALUE", "DEFAULT", "UNIT",
            "SOURCE", "ACCEPTED");
    for (i = 0; i < KVL_ROWS; i++) {
        print_text_row(config, i, stream);
    }
    for (i = 0; i < config->ucx_count; i++) {
        fprintf(stream, "%-23s  %-12s  %-8s  %-6s  %-11s  %s\n", config->ucx[i].name,
                config->ucx[i].value, "", "", source_names[config->ucx[i].source],
                "as the ucx variable");
    }
}

static void print_json_row(const kvl_config_t *config, size_t row, FILE *stream)
{
    char accepted[128];

    kvl_row_accepted(&kvl_rows[row], accepted, sizeof(accepted));
    fprintf(stream, "%s\n    {", row ? "," : "");
    kvl_json_member("name", kvl_rows[row].name, ", ", stream);
    kvl_json_member("value", row_value(config, row), ", ", stream);
    kvl_json_member("default", kvl_rows[row].initial, ", ", stream);
    kvl_json_member("unit", kvl_row_unit(&kvl_rows[row]), ", ", stream);
    kvl_json_member("source", source_names[config->source[row]], ",\n     ", stream);
    kvl_json_member("accepted", accepted, ",\n     ", stream);
    kvl_json_member("doc", kvl_rows[row].doc, "}", stream);
}

static void print_json(const kvl_config_t *config, FILE *stream)
{
    size_t i;

    fputs("{\n  \"settings\": [", stream);
    for (i = 0; i < KVL_ROWS; i++) {
        print_json_row(config, i, stream);
    }
    fputs("\n  ],\n  \"ucx\": [", stream);
    for (i = 0; i < config->ucx_count; i++) {
        fprintf(stream, "%s\n    {", i ? "," : "");
        kvl_json_member("name", config->ucx[i].name, ", ", stream);
        kvl_json_member("value", config->ucx[i].value, ", ", stream);
        kvl_json_member("source", source_names[config->ucx[i].source], "}", stream);
    }
    fputs(config->ucx_count ? "\n  ]\n}\n" : "]\n}\n", stream);
}

void kvl_config_print(const kvl_config_t *config, FILE *stream, int json)
{
    if (!config || !stream) {
        return;
    }
    if (json) {
        print_json(config, stream);
    } else {
        print_text(config, stream);
    }
}
