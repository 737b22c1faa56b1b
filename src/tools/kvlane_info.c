/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "tools/client.h"
#include "tools/common.h"
#include "tools/doctor.h"
#include "tools/ucx_options.h"

#include "base/addr.h"

#include <getopt.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* kvlane_info: versions, settings, and what a session with a node looks like. */

#define NAME       "kvlane_info"
#define START_S    60
#define DOCTOR_MS  5000 /* for a rail to answer, unless -T says otherwise */
#define OPT_MAN    256 /* for the makers of the man page */
#define OPT_DOCTOR 257

static const char usage_text[] =
    "Usage: kvlane_info -v | -c | -s ADDR:PORT | --doctor [ADDR:PORT] [OPTION]...\n"
    "Tells what kvlane is, how it is set, and how it talks to a node.\n"
    "\n"
    "  -v, --versions           versions and paths of kvlane and of UCX, CUDA or none\n"
    "  -c, --config             every setting: value, default, unit, source and meaning\n"
    "  -s, --session ADDR:PORT  connect to a node: lanes, workers, endpoints, transports, modes,\n"
    "                           depth in force, counters, and what the node says of itself\n"
    "  --doctor [ADDR:PORT]     what is wrong with this host, and with its rails to a node: a line a check,\n"
    "                           ok, warn or fail, and the way out\n"
    "  -J, --json               one JSON object a line\n"
    "  -T, --timeout SECONDS    of -s (default: KVLANE_TIMEOUT, 30 s); of each rail of --doctor (5 s)\n"
    "  -h, --help               print this and exit\n"
    "  -V, --version            print the versions of kvlane and UCX and exit\n"
    "\n"
    "Exit codes: 0 done, 1 failed, 2 wrong usage. --doctor: 0 all is well, 1 a warning,\n"
    "2 a failure.\n";

static const struct option long_options[] = {
    {"versions", no_argument, NULL, 'v'},
    {"config", no_argument, NULL, 'c'},
    {"session", required_argument, NULL, 's'},
    {"doctor", no_argument, NULL, OPT_DOCTOR},
    {"json", no_argument, NULL, 'J'},
    {"timeout", required_argument, NULL, 'T'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {"man", no_argument, NULL, OPT_MAN},
    {NULL, 0, NULL, 0},
};

typedef struct {
    bool versions, config, json, doctor;
    const char *node; /* of -s, or of --doctor */
    int64_t timeout_ms;
} options_t;

/* ---- -v ---- */

static void print_versions(bool json)
{
    char self[PATH_MAX] = "?";
    ssize_t length      = readlink("/proc/self/exe", self, sizeof(self) - 1);

    self[length > 0 ? length : 1] = '\0';
    if (json) {
        printf("{\"kvlane\": \"%s\", \"path\": ", kvl_version());
        kvl_tool_json_text(stdout, self);
        printf(", \"ucx_built\": \"%s\", \"ucx_loaded\": \"%s\", \"ucx_path\": ", KVL_UCX_BUILT,
               kvl_ucx_version());
        kvl_tool_json_text(stdout, kvl_ucx_path());
        printf(", \"cuda_built\": \"%s\"}\n", KVL_CUDA_BUILT);
        return;
    }
    printf("kvlane      %s (%s)\n", kvl_version(), self);
    printf("UCX built   %s\n", KVL_UCX_BUILT);
    printf("UCX loaded  %s (%s)\n", kvl_ucx_version(),
           kvl_ucx_path()[0] ? kvl_ucx_path() : "path unknown");
    printf("CUDA built  %s%s\n", KVL_CUDA_BUILT, strcmp(KVL_CUDA_BUILT, "no") ? "" : " (no device memory: --with-cuda)");
}

/* ---- -c ---- */

static void config_print(FILE *stream, void *object)
{
    kvl_config_print(object, stream, 1);
}

static void print_option(const char *name, const char *value, const char *origin, bool ctrl,
                         void *arg)
{
    (void)arg;
    printf("  %-8s  %-25s  %-16s  %s\n", ctrl ? "ctrl" : "data, sg", name, value, origin);
}

static void add_option(const char *name, const char *value, const char *origin, bool ctrl,
                       void *arg)
{
    json_array_append_new(arg,
                          json_pack("{s:s, s:s, s:s, s:s}", "lanes", ctrl ? "ctrl" : "data, sg",
                                    "name", name, "value", value, "source", origin));
}

static int engine_start(const kvl_config_t *config, kvl_engine_t **engine_p)
{
    kvl_engine_params_t params = {.config = config};
    kvl_status_t status;

    alarm(START_S);
    status = kvl_engine_create(&params, engine_p);
    alarm(0);
    return status == KVL_OK ? KVL_EXIT_OK : kvl_tool_refused(NAME, status);
}

/* The settings, then what kvlane makes of them for UCX. */
static int print_config_text(kvl_config_t *config)
{
    kvl_engine_t *engine;
    int code;

    kvl_config_print(config, stdout, 0);
    code = engine_start(config, &engine);
    if (code != KVL_EXIT_OK) {
        return code;
    }
    printf("\nOptions of UCX that this makes\n");
    kvl_tool_ucx_options(engine, print_option, NULL);
    kvl_engine_destroy(engine);
    return KVL_EXIT_OK;
}

static int print_config_json(kvl_config_t *config)
{
    json_t *json   = kvl_tool_json_of(config_print, config);
    json_t *option = json_array();
    kvl_engine_t *engine;
    int code = engine_start(config, &engine);

    if (code == KVL_EXIT_OK) {
        kvl_tool_ucx_options(engine, add_option, option);
        kvl_engine_destroy(engine);
    }
    json_object_set_new(json, "ucx_options", option);
    return kvl_tool_print_json(NAME, json) ? KVL_EXIT_FAILED : code;
}

static int print_config(bool json)
{
    kvl_config_t *config;
    kvl_status_t status = kvl_config_create(&config);
    int code;

    if (status != KVL_OK) {
        return kvl_tool_refused(NAME, status);
    }
    code = json ? print_config_json(config) : print_config_text(config);
    kvl_config_destroy(config);
    return code;
}

/* ---- --man: the settings as the middle part of kvlane(7) ---- */

static void man_text(const char *text)
{
    for (; *text; text++) {
        fputs(*text == '\\' ? "\\e" : (char[2]){*text, '\0'}, stdout);
    }
}

static const char *member(const json_t *row, const char *name)
{
    const char *text = json_string_value(json_object_get(row, name));

    return text ? text : "";
}

static void man_row(const json_t *row)
{
    const char *initial = member(row, "default");

    printf(".It Ev %s\n", member(row, "name"));
    man_text(member(row, "doc"));
    printf("\n.br\nAccepted: ");
    man_text(member(row, "accepted"));
    printf(".\nDefault: %s.\n", initial[0] ? initial : "nothing");
}

static int print_man(void)
{
    kvl_config_t *config;
    kvl_status_t status = kvl_config_create(&config);
    json_t *all, *row;
    size_t index;

    if (status != KVL_OK) {
        return kvl_tool_refused(NAME, status);
    }
    all = kvl_tool_json_of(config_print, config);
    kvl_config_destroy(config);
    json_array_foreach(json_object_get(all, "settings"), index, row) man_row(row);
    json_decref(all);
    return all ? KVL_EXIT_OK : kvl_tool_failed(NAME, "no memory");
}

/* ---- -s ---- */

static void print_session_text(const options_t *options, kvl_tool_client_t *client,
                               const kvl_session_info_t *session, const kvl_node_stat_t *stat)
{
    printf("node %s\n", options->node);
    printf("  version      %s\n", session->node_version);
    printf("  transport    %s\n", session->transport);
    printf("  mode         put %s, get %s\n", session->put_mode, session->get_mode);
    printf("  depth        %u items under way (in force: the smaller of both sides')\n",
           session->depth);
    printf("  lane ctrl    1 endpoint, for messages\n");
    printf("  lane data    1 endpoint, at most %u operations outstanding\n", session->data_depth);
    printf("  lane sg      %u endpoints, at most 1 operation outstanding on each\n",
           session->sg_endpoints);
    printf("\n");
    kvl_engine_print(client->engine, stdout, 0);
    printf("\nthe node says\n");
    kvl_tool_print_stat(stdout, stat, false);
}

static void stat_print(FILE *stream, void *object)
{
    kvl_tool_print_stat(stream, object, true);
}

static int print_session_json(const options_t *options, kvl_tool_client_t *client,
                              const kvl_session_info_t *session, kvl_node_stat_t *stat)
{
    json_t *json = json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i}", "node", options->node,
                             "version", session->node_version, "transport", session->transport,
                             "put_mode", session->put_mode, "get_mode", session->get_mode, "depth",
                             (int)session->depth, "data_depth", (int)session->data_depth,
                             "sg_endpoints", (int)session->sg_endpoints);

    json_object_set_new(json, "stat", kvl_tool_json_of(stat_print, stat));
    json_object_set_new(json, "engine", kvl_tool_engine_json(client->engine));
    return kvl_tool_print_json(NAME, json);
}

static int print_session(const options_t *options)
{
    kvl_tool_client_t client;
    kvl_session_info_t session;
    kvl_node_stat_t stat;
    int code;

    code = kvl_tool_connect(NAME, &client, options->node, options->timeout_ms);
    if (code != KVL_EXIT_OK) {
        return code;
    }
    if (kvl_cache_session(client.cache, &session) != KVL_OK ||
        kvl_cache_stat(client.cache, options->timeout_ms, &stat) != KVL_OK) {
        code = kvl_tool_failed(NAME, "%s", kvl_error_text());
    } else if (options->json) {
        code = print_session_json(options, &client, &session, &stat);
    } else {
        print_session_text(options, &client, &session, &stat);
    }
    kvl_tool_disconnect(&client);
    return code;
}

/* ---- the whole ---- */

/* its exit codes are its own */
static int run_doctor(const options_t *options)
{
    kvl_status_t status = KVL_OK;
    kvl_addr_t addr;

    if (options->versions || options->config) {
        return kvl_tool_usage(NAME, "--doctor goes alone");
    }
    if (options->node) {
        status = kvl_addr_parse(options->node, &addr);
    }
    if (status != KVL_OK) {
        kvl_tool_refused(NAME, status);
        return KVL_FOUND_FAIL;
    }
    return kvl_doctor(options->node, options->timeout_ms ? options->timeout_ms : DOCTOR_MS, options->json);
}

static int run(const options_t *options)
{
    int code = KVL_EXIT_OK;

    if (options->doctor) {
        return run_doctor(options);
    }
    if (!options->versions && !options->config && !options->node) {
        return kvl_tool_usage(NAME, "what? -v, -c, -s ADDR:PORT or --doctor");
    }
    if (options->versions) {
        print_versions(options->json);
    }
    if (options->config) {
        code = print_config(options->json);
    }
    if (code == KVL_EXIT_OK && options->node) {
        code = print_session(options);
    }
    return code;
}

int main(int argc, char **argv)
{
    options_t options = {0};
    int letter;

    kvl_tool_start(argc, argv);
    while ((letter = getopt_long(argc, argv, "vcs:JT:hV", long_options, NULL)) != -1) {
        switch (letter) {
        case 'v':
            options.versions = true;
            break;
        case 'c':
            options.config = true;
            break;
        case 's':
            options.node = optarg;
            break;
        case 'J':
            options.json = true;
            break;
        case 'T':
            if (kvl_tool_seconds(optarg, &options.timeout_ms)) {
                return kvl_tool_usage(NAME, "-T %s: seconds, from 0.001 to 86400", optarg);
            }
            break;
        case OPT_DOCTOR:
            options.doctor = true;
            break;
        case OPT_MAN:
            return kvl_tool_end(NAME, print_man());
        case 'h':
            fputs(usage_text, stdout);
            return kvl_tool_end(NAME, KVL_EXIT_OK);
        case 'V':
            kvl_tool_version(stdout, NAME);
            return kvl_tool_end(NAME, KVL_EXIT_OK);
        default:
            fprintf(stderr, "Try `%s --help'.\n", NAME);
            return KVL_EXIT_USAGE;
        }
    }
    if (options.doctor && !options.node && optind < argc) {
        options.node = argv[optind++];
    }
    if (optind < argc) {
        return kvl_tool_usage(NAME, "%s: what is that?", argv[optind]);
    }
    return kvl_tool_end(NAME, run(&options));
}
