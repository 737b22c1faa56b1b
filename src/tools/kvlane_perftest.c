/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/common.h"
#include "tools/perftest/mover.h"
#include "tools/perftest/options.h"
#include "tools/perftest/perftest.h"
#include "tools/perftest/plot.h"
#include "tools/perftest/raw_ucp.h"
#include "tools/perftest/report.h"
#include "tools/perftest/server.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* kvlane_perftest in the manner of ucx_perftest: without HOST it serves, with HOST (or -l) it runs
 * tests, one after the other. Other processes of a run are this program again: the server (-l), the
 * responder of plain UCP loops (--responder), the second client of the mixed test (--mover). */

#define PLOT_MIN   (UINT64_C(4) << 10)
#define PLOT_MAX   (UINT64_C(8) << 20)
#define POINTS_MAX 256

static volatile sig_atomic_t stopped;

bool perf_stopped(void)
{
    return stopped != 0;
}

static void stop(int signal_number)
{
    (void)signal_number;
    stopped = 1;
}

static void catch_signals(bool child)
{
    struct sigaction action = {.sa_handler = stop};

    sigaction(SIGTERM, &action, NULL);
    /* ^C goes to all processes of a terminal; the parent tells its children what to do */
    action.sa_handler = child ? SIG_IGN : stop;
    sigaction(SIGINT, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* state of a run of several tests and sizes */
typedef struct {
    perf_options_t options;
    perf_point_t points[POINTS_MAX];
    size_t point_count;
    char test[64]; /* the one that is checked or runs */
    bool first;
    bool told; /* that it failed, by its result */
} session_t;

/* One test of one size. */
static int run_test(session_t *session, const perf_options_t *options)
{
    perf_result_t result = {
        .test     = options->test->name,
        .size     = options->size,
        .segments = options->segments,
        .batch    = options->batch,
    };
    char why[96];

    if (options->test->run(options, &result)) {
        return perf_exit_code(-1);
    }
    perf_report(options, &result, session->first);
    session->first = false;
    if (session->point_count < POINTS_MAX) {
        session->points[session->point_count++] =
            (perf_point_t){options->test->name, options->size, perf_gbps(&result)};
    }
    if (perf_result_is_wrong(&result, why, sizeof(why))) {
        perf_fail("%s: %s", result.test, why);
        session->told = true;
        return KVL_EXIT_FAILED;
    }
    return KVL_EXIT_OK;
}

static int run_sizes(session_t *session, const char *name)
{
    perf_options_t options = session->options;
    int code               = KVL_EXIT_OK;

    if (options.plot == NULL) {
        return perf_options_choose(&options, name) ? KVL_EXIT_USAGE : run_test(session, &options);
    }
    for (uint64_t size = PLOT_MIN; size <= PLOT_MAX && code == KVL_EXIT_OK; size *= 2) {
        options = session->options;
        options.segments =
            options.segments == 0 ? perf_test_find(name)->segments : options.segments;
        options.size = size;
        code = perf_options_choose(&options, name) ? KVL_EXIT_USAGE : run_test(session, &options);
    }
    return code;
}

/* Calls @a each for every name of -t; stops at the first code that is not 0. */
static int each_test(session_t *session, int (*each)(session_t *session, const char *name))
{
    const char *tests = session->options.tests == NULL ? "put" : session->options.tests;
    char *names       = strdup(tests), *rest, *name;
    int code          = KVL_EXIT_OK;
    bool any          = false;

    if (names == NULL) {
        perf_fail("no memory");
        return KVL_EXIT_FAILED;
    }
    for (name = strtok_r(names, ",", &rest); name != NULL && code == KVL_EXIT_OK;
         name = strtok_r(NULL, ",", &rest)) {
        any = true;
        snprintf(session->test, sizeof(session->test), "%s", name);
        code = each(session, name);
    }
    free(names);
    if (!any) {
        perf_fail("-t '%s': names no test; there are:", tests);
        perf_test_list(stderr);
        code = KVL_EXIT_USAGE;
    }
    return code;
}

/* Before anything runs: is all of -t known, and does it fit the other options? */
static int check_test(session_t *session, const char *name)
{
    perf_options_t options = session->options;
    bool here              = options.local || options.host[0] != '\0';

    if (perf_options_choose(&options, name)) {
        return KVL_EXIT_USAGE;
    }
    if (!here && options.test->peer != PERF_PEER_NONE) {
        perf_fail("-t %s: against whom? give HOST, or -l to start the other side here", name);
        return KVL_EXIT_USAGE;
    }
    if (options.plot != NULL && (options.test->many_batches || options.test->size == 0)) {
        perf_fail("--plot: %s has no sizes to draw", name);
        return KVL_EXIT_USAGE;
    }
    return KVL_EXIT_OK;
}

static int run_tests(session_t *session)
{
    int code = each_test(session, check_test);

    if (code == KVL_EXIT_OK && session->options.plot != NULL && perf_plot_check(session->options.plot)) {
        code = KVL_EXIT_FAILED;
    }
    if (code == KVL_EXIT_OK) {
        code = each_test(session, run_sizes);
    }
    if (code == KVL_EXIT_OK && session->options.plot != NULL &&
        perf_plot(session->options.plot, session->points, session->point_count)) {
        code = KVL_EXIT_FAILED;
    }
    if (code != KVL_EXIT_OK && session->options.json && !session->told) {
        perf_report_failure(session->test, perf_failure());
    }
    return code;
}

static int run_as_told(session_t *session)
{
    const perf_options_t *options = &session->options;

    if (options->responder_fd >= 0) {
        return perf_exit_code(perf_raw_respond(options->responder_fd));
    }
    if (options->mover) {
        return perf_options_choose(&session->options, "mixed")
                   ? KVL_EXIT_USAGE
                   : perf_exit_code(perf_mover_main(options));
    }
    if (options->host[0] == '\0' && !options->local && options->tests == NULL) {
        return perf_exit_code(perf_serve(options));
    }
    if (options->json) {
        perf_in_json();
    }
    return run_tests(session);
}

int main(int argc, char **argv)
{
    static session_t session = {.first = true};

    kvl_tool_start(argc, argv);
    switch (perf_options_parse(argc, argv, &session.options)) {
    case PERF_PARSE_DONE:
        return kvl_tool_end(PERF_PROGRAM, KVL_EXIT_OK);
    case PERF_PARSE_USAGE:
        return KVL_EXIT_USAGE;
    case PERF_PARSE_RUN:
        break;
    }
    catch_signals(session.options.child);
    if (session.options.child) {
        return run_as_told(&session); /* its stdout is its parent's, who may have gone */
    }
    return kvl_tool_end(PERF_PROGRAM, run_as_told(&session));
}
