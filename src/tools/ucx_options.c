/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/ucx_options.h"

#include <stdlib.h>
#include <string.h>

/* kvl_engine_print() has them as lines "NAME=value (origin)" among others; those of the ctrl lane come after a
 * line "ctrl lane". */

#define CTRL_LINE "  ctrl lane"

#define NAME_BYTES "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

static void take_line(char *line, bool ctrl, kvl_tool_option_func_t func, void *arg)
{
    char *name    = line + strspn(line, " ");
    size_t length = strspn(name, NAME_BYTES);
    char *origin  = strstr(name, " (");
    char *end     = strrchr(name, ')');

    if (length == 0 || name[length] != '=' || !origin || !end || end < origin) {
        return;
    }
    name[length] = '\0';
    *origin      = '\0';
    *end         = '\0';
    func(strncmp(name, "UCX_", 4) == 0 ? name + 4 : name, name + length + 1, origin + 2, ctrl, arg);
}

int kvl_tool_ucx_options(kvl_engine_t *engine, kvl_tool_option_func_t func, void *arg)
{
    char *text = NULL, *rest;
    bool ctrl  = false;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    if (!stream) {
        return -1;
    }
    kvl_engine_print(engine, stream, 0);
    if (fclose(stream) != 0 || !text) {
        free(text);
        return -1;
    }
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        ctrl |= strcmp(line, CTRL_LINE) == 0;
        take_line(line, ctrl, func, arg);
    }
    free(text);
    return 0;
}
