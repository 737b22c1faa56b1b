/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/common.h"

#include "base/config.h"

#include <kvlane/node.h>

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* kvlaned: one node in a process. The first SIGTERM or SIGINT drains it, the second ends it at once.
 * Both stay blocked until there is a node to drain, and on the engine's thread, which inherits that;
 * so the handler runs on the main thread, with a node. */

#define NAME             "kvlaned"
#define DRAIN_DEFAULT_MS 5000
#define START_SECONDS    60 /* and one for each GiB, which has to be mapped and maybe pinned */

typedef struct {
    const char *listen;
    uint64_t memory_bytes;
    unsigned verbose;
    bool quiet, memory_given;
    const char **sets; /* of -o, in order */
    unsigned set_count;
    kvl_config_t *config;
} options_t;

static kvl_node_t *the_node; /* constant while the handlers are installed and unblocked */
static int64_t drain_ms = DRAIN_DEFAULT_MS;
static volatile sig_atomic_t stopping;

static const char usage_text[] =
    "Usage: kvlaned -l ADDR:PORT -m SIZE [OPTION]...\n"
    "Keeps values in memory for kvlane clients and serves them over UCX.\n"
    "\n"
    "  -l, --listen ADDR:PORT   address to accept clients on; PORT 0 picks a free one\n"
    "  -m, --memory SIZE        limit of pinned memory for values: bytes, or 512M, 64G\n"
    "  -d, --drain SECONDS      time for clients to finish after SIGTERM (default 5)\n"
    "  -o, --set NAME=VALUE     a setting, such as KVLANE_DEPTH=16; `kvlane_info -c' lists all\n"
    "  -q, --quiet              log errors only\n"
    "  -v, --verbose            log more; -vv for debugging, -vvv for every detail\n"
    "  -h, --help               print this and exit\n"
    "  -V, --version            print the versions of kvlane and UCX and exit\n"
    "\n"
    "Prints `ready ADDR:PORT' on standard output when it accepts. SIGTERM or SIGINT: no new\n"
    "clients, work under way ends, then it exits with 0; a second signal ends it at once.\n"
    "Exit codes: 0 done, 1 failed, 2 wrong usage.\n";

static const struct option long_options[] = {
    {"listen", required_argument, NULL, 'l'},
    {"memory", required_argument, NULL, 'm'},
    {"drain", required_argument, NULL, 'd'},
    {"set", required_argument, NULL, 'o'},
    {"quiet", no_argument, NULL, 'q'},
    {"verbose", no_argument, NULL, 'v'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

/* ---- options ---- */

#define GO_ON (-1) /* no exit code */

/* NAME=VALUE, with or without KVLANE_ in front */
static int set_option(kvl_config_t *config, const char *text)
{
    const char *equals = strchr(text, '=');
    char name[256];

    if (!equals || equals == text || equals - text >= (int)sizeof(name) - 8) {
        return kvl_tool_usage(NAME, "-o %s: not NAME=VALUE", text);
    }
    snprintf(name, sizeof(name), "%s%.*s", strncmp(text, "KVLANE_", 7) == 0 ? "" : "KVLANE_",
             (int)(equals - text), text);
    if (kvl_config_set(config, name, equals + 1) != KVL_OK) {
        return kvl_tool_usage(NAME, "-o %s: %s", text, kvl_error_text());
    }
    return GO_ON;
}

static int drain_option(const char *text)
{
    char *end;
    double seconds = strtod(text, &end);

    if (end == text || *end || !(seconds >= 0 && seconds <= 86400)) {
        return kvl_tool_usage(NAME, "-d %s: not a number of seconds from 0 to 86400", text);
    }
    drain_ms = (int64_t)(seconds * 1000);
    return GO_ON;
}

static int one_option(int c, options_t *options)
{
    switch (c) {
    case 'l':
        options->listen = optarg;
        return GO_ON;
    case 'm':
        if (kvl_parse_bytes("-m", optarg, &options->memory_bytes) != KVL_OK) {
            return kvl_tool_usage(NAME, "%s", kvl_error_text());
        }
        options->memory_given = true;
        return GO_ON;
    case 'd':
        return drain_option(optarg);
    case 'o':
        options->sets[options->set_count++] = optarg;
        return GO_ON;
    case 'q':
        options->quiet = true;
        return GO_ON;
    case 'v':
        options->verbose++;
        return GO_ON;
    case 'h':
        fputs(usage_text, stdout);
        return kvl_tool_end(NAME, KVL_EXIT_OK);
    case 'V':
        kvl_tool_version(stdout, NAME);
        return kvl_tool_end(NAME, KVL_EXIT_OK);
    default: /* getopt has said what is wrong */
        fprintf(stderr, "Try `%s --help'.\n", NAME);
        return KVL_EXIT_USAGE;
    }
}

static int log_option(const options_t *options)
{
    static const char *const levels[] = {"info", "debug", "trace"};
    const char *level                 = NULL;

    if (options->verbose) {
        level = levels[options->verbose < 3 ? options->verbose - 1 : 2];
    } else if (options->quiet) {
        level = "error";
    }
    if (level && kvl_config_set(options->config, "KVLANE_LOG_LEVEL", level) != KVL_OK) {
        return kvl_tool_failed(NAME, "%s", kvl_error_text());
    }
    return GO_ON;
}

/* after the command line is read, so that --help works whatever the environment holds */
static int configure(options_t *options)
{
    kvl_status_t status;
    unsigned i;
    int code = GO_ON;

    status = kvl_config_create(&options->config);
    if (status != KVL_OK) {
        return kvl_tool_refused(NAME, status);
    }
    for (i = 0; code == GO_ON && i < options->set_count; i++) {
        code = set_option(options->config, options->sets[i]);
    }
    return code == GO_ON ? log_option(options) : code;
}

static int parse(int argc, char **argv, options_t *options)
{
    int c, code = GO_ON;

    while (code == GO_ON &&
           (c = getopt_long(argc, argv, "l:m:d:o:qvhV", long_options, NULL)) != -1) {
        code = one_option(c, options);
    }
    if (code != GO_ON) {
        return code;
    }
    if (optind < argc) {
        return kvl_tool_usage(NAME, "%s: takes no such argument", argv[optind]);
    }
    if (!options->listen) {
        return kvl_tool_usage(NAME,
                              "-l is missing: the address to listen on, such as 0.0.0.0:7700");
    }
    if (options->memory_given && !options->memory_bytes) {
        return kvl_tool_usage(NAME, "-m 0: no memory at all; give a size, such as 16G");
    }
    if (!options->memory_bytes) {
        return kvl_tool_usage(NAME, "-m is missing: the memory for values, such as 16G");
    }
    return GO_ON;
}

/* ---- signals ---- */

static void on_stop(int signal)
{
    (void)signal;
    if (stopping) {
        _exit(KVL_EXIT_FAILED);
    }
    stopping = 1;
    kvl_node_drain(the_node, drain_ms);
}

static void on_alarm(int signal)
{
    static const char text[] = NAME ": UCX did not start within a minute and more; "
                                    "start it again, with -vv to see where it stays\n";
    ssize_t n                = write(STDERR_FILENO, text, sizeof(text) - 1);

    (void)n;
    (void)signal;
    _exit(KVL_EXIT_FAILED);
}

static void handle(int signal, void (*func)(int))
{
    struct sigaction action = {.sa_handler = func, .sa_flags = SA_RESTART};

    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, NULL);
}

static void stop_signals(int how)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    pthread_sigmask(how, &set, NULL);
}

/* ---- running ---- */

static int serve(const options_t *options)
{
    kvl_node_params_t params = {.config       = options->config,
                                .listen       = options->listen,
                                .memory_bytes = options->memory_bytes};
    int code                 = KVL_EXIT_OK;
    kvl_status_t status;
    char address[128];

    stop_signals(SIG_BLOCK);
    handle(SIGPIPE, SIG_IGN);
    handle(SIGALRM, on_alarm);
    alarm(START_SECONDS + (unsigned)(options->memory_bytes >> 30));
    status = kvl_node_create(&params, &the_node);
    if (status != KVL_OK) {
        return kvl_tool_refused(NAME, status);
    }
    alarm(0);
    handle(SIGTERM, on_stop);
    handle(SIGINT, on_stop);
    kvl_node_address(the_node, address, sizeof(address));
    printf("ready %s\n", address);
    if (fflush(stdout) != 0 && errno != EBADF) { /* closed from the start: nobody wants to know */
        code = kvl_tool_failed(NAME, "cannot write to standard output that it is ready");
    } else {
        stop_signals(SIG_UNBLOCK);
        if (kvl_node_run(the_node) != KVL_OK) {
            _exit(kvl_tool_failed(NAME, "%s", kvl_error_text())); /* a stuck lane can't be closed well */
        }
        stop_signals(SIG_BLOCK);
    }
    kvl_node_destroy(the_node);
    return code;
}

int main(int argc, char **argv)
{
    options_t options = {.listen = NULL};
    int code;

    kvl_tool_start(argc, argv);
    options.sets = calloc((size_t)argc, sizeof(*options.sets));
    if (!options.sets) {
        return kvl_tool_failed(NAME, "out of memory");
    }
    code = parse(argc, argv, &options);
    if (code == GO_ON) {
        code = configure(&options);
    }
    if (code == GO_ON) {
        code = serve(&options);
    }
    kvl_config_destroy(options.config);
    free(options.sets);
    return code;
}
