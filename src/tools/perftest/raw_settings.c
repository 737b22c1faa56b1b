/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perftest/raw_ucp.h"
#include "tools/ucx_options.h"

#include <kvlane/engine.h>

#include <stdlib.h>

/* The plain loops run with the options of UCX that kvlane would use: an engine is made for a
 * moment, asked what it set, and thrown away. What it lists is put into the environment of this
 * process, which runs plain loops only. */

static void take_option(const char *name, const char *value, const char *origin, bool ctrl,
                        void *arg)
{
    char variable[96];

    (void)origin;
    (void)arg;
    if (!ctrl) { /* the plain loops move pages */
        snprintf(variable, sizeof(variable), "UCX_%.80s", name);
        setenv(variable, value, 1);
    }
}

int perf_raw_settings(const char *address)
{
    kvl_engine_params_t params = {.address = address};
    kvl_engine_t *engine;
    kvl_status_t status = kvl_engine_create(&params, &engine);
    int missing;

    if (status != KVL_OK) {
        return perf_refused(status);
    }
    missing = kvl_tool_ucx_options(engine, take_option, NULL);
    kvl_engine_destroy(engine);
    return missing ? perf_fail("no memory") : 0;
}
