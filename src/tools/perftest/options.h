/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KVL_PERFTEST_OPTIONS_H
#define KVL_PERFTEST_OPTIONS_H

#include "tools/perftest/perftest.h"

typedef enum {
    PERF_PARSE_RUN,  /* options are complete */
    PERF_PARSE_DONE, /* --help or --version was answered */
    PERF_PARSE_USAGE /* wrong; said on stderr */
} perf_parse_t;

/* Also exports -O, -e and -x as KVLANE_DEPTH, KVLANE_SG_ENDPOINTS and KVLANE_RAILS, so that the
 * process at the other side, which inherits the environment, agrees. */
perf_parse_t perf_options_parse(int argc, char **argv, perf_options_t *options);

/* Sets the test, and the defaults that hang on it. -1: unknown, or the options don't fit it. */
int perf_options_choose(perf_options_t *options, const char *test);

#endif
