/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of UCX that an engine set, as it lists them. */
#ifndef KVL_TOOLS_UCX_OPTIONS_H
#define KVL_TOOLS_UCX_OPTIONS_H

#include <kvlane/engine.h>

#include <stdbool.h>

/* @a name without "UCX_"; @a origin says who wanted it and why; @a ctrl: for the ctrl lane, which has options of
 * its own. Texts live during the call. */
typedef void (*kvl_tool_option_func_t)(const char *name, const char *value, const char *origin,
                                       bool ctrl, void *arg);

/* 0, or -1 without memory */
int kvl_tool_ucx_options(kvl_engine_t *engine, kvl_tool_option_func_t func, void *arg);

#endif
