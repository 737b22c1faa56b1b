/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perftest/raw_ucp.h"

#include <kvlane/engine.h>

#include <stdlib.h>
#include <string.h>

/* The plain loops run with the settings of UCX that kvlane would use: an engine is made for a
 * moment, asked what it set, and thrown away. What it lists is put into the environment of this
 * process, which runs plain loops only. */

/* "NAME=value (origin...)" */
static void take_line(char *line)
{
    char *name    = line + strspn(line, " ");
    size_t length = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    char *end     = strstr(name, " (");
    char variable[96];

    if (length == 0 || length > 64 || name[length] != '=' || end == NULL) {
        return;
    }
    *end         = '\0';
    name[length] = '\0';
    snprintf(variable, sizeof(variable), strncmp(name, "UCX_", 4) == 0 ? "%s" : "UCX_%s", name);
    setenv(variable, name + length + 1, 1);
}

static int take_settings(kvl_engine_t *engine)
{
    char *text = NULL, *rest;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    if (stream == NULL) {
        return perf_fail("no memory");
    }
    kvl_engine_print(engine, stream, 0);
    if (fclose(stream) != 0 || text == NULL) {
        free(text);
        return perf_fail("no memory");
    }
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line       = strtok_r(NULL, "\n", &rest)) {
        take_line(line);
    }
    free(text);
    return 0;
}

int perf_raw_settings(const char *address)
{
    kvl_engine_params_t params = {.address = address};
    kvl_engine_t *engine;
    int status;

    if (kvl_engine_create(&params, &engine) != KVL_OK) {
        return perf_fail("%s", kvl_error_text());
    }
    status = take_settings(engine);
    kvl_engine_destroy(engine);
    return status;
}
