/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perftest/options.h"

#include "tools/common.h"

#include <kvlane/engine.h>

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_BYTES   (UINT64_C(4) << 30) /* moved by a test without -n */
#define DEFAULT_BATCHES 20000u              /* done by a test that counts batches */
#define BATCH_MAX       65536u
#define SEGMENTS_MAX    1024u

/* long options without a letter */
enum {
    OPT_TOKENS = 256,
    OPT_PAGE_TOKENS,
    OPT_LAYERS,
    OPT_TOKEN_LAYER_BYTES,
    OPT_TRACE,
    OPT_BLOCK_BYTES,
    OPT_REQUESTS,
    OPT_PLOT,
    OPT_CHILD,
    OPT_MOVER,
    OPT_RESPONDER,
    OPT_CORRUPT
};

static const char usage_text[] =
    "usage: kvlane_perftest [options]             serve on all addresses: a cache node, and plain UCP loops\n"
    "       kvlane_perftest [options] HOST        run a test against HOST or ADDR:PORT\n"
    "       kvlane_perftest [options] -l          run a test, start the other side itself\n"
    "\n"
    "test\n"
    "  -t TEST              which one; several with commas (list: -t help)    (put)\n"
    "  -s SIZE[:SEGMENTS]   bytes of one segment [K M G], segments of an item (by test)\n"
    "  -n ITEMS             items to move or ask for        (about 4 GiB, or 20,000 batches);\n"
    "                       exists and mixed round down to whole batches\n"
    "  -w WARMUP            items before timing starts                        (one pool)\n"
    "  -b BATCH             items of a batch                                  (by test)\n"
    "  -O DEPTH             items under way at once     [sets KVLANE_DEPTH on both sides]\n"
    "  -e ENDPOINTS         endpoints of the sg lane    [sets KVLANE_SG_ENDPOINTS]\n"
    "  -x RAILS             auto, tcp, shm, rdma or a device  [sets KVLANE_RAILS on both sides]\n"
    "  -T SECONDS           stop after so much timed work                     (no limit)\n"
    "  -V, -q               verify every byte (default), or don't\n"
    "sides\n"
    "  -l                   fork and exec the other side, end it afterwards\n"
    "  -p PORT              port of the node; PORT + 1 is for control         (13338)\n"
    "  -m SIZE              memory of the node                                (1G)\n"
    "  -k, --keep           server: go on after the first client has gone\n"
    "output\n"
    "  -f                   the result only, no progress\n"
    "  -v                   CSV\n"
    "  -J                   JSON, one object a line\n"
    "  --plot FILE.png      draw size against GB/s: each test for 12 sizes, 4K to 8M (needs gnuplot)\n"
    "retrieve\n"
    "  --tokens N           length of the prefix                              (65536)\n"
    "  --page-tokens N      tokens of a page                                  (64)\n"
    "  --layers N           segments of a page                                (61)\n"
    "  --bytes-per-token-layer B                                              (1152)\n"
    "trace\n"
    "  --trace FILE         JSON lines with hash_ids\n"
    "  --bytes-per-block B  bytes of a block, instead of -s                   (64K in 16)\n"
    "  --requests N         stop after N requests                             (all)\n"
    "  --help  --version\n";

static const struct option long_options[] = {
    {"batch", required_argument, NULL, 'b'},
    {"csv", no_argument, NULL, 'v'},
    {"depth", required_argument, NULL, 'O'},
    {"endpoints", required_argument, NULL, 'e'},
    {"final", no_argument, NULL, 'f'},
    {"help", no_argument, NULL, 'h'},
    {"items", required_argument, NULL, 'n'},
    {"json", no_argument, NULL, 'J'},
    {"keep", no_argument, NULL, 'k'},
    {"local", no_argument, NULL, 'l'},
    {"memory", required_argument, NULL, 'm'},
    {"no-verify", no_argument, NULL, 'q'},
    {"port", required_argument, NULL, 'p'},
    {"rails", required_argument, NULL, 'x'},
    {"size", required_argument, NULL, 's'},
    {"test", required_argument, NULL, 't'},
    {"time", required_argument, NULL, 'T'},
    {"verify", no_argument, NULL, 'V'},
    {"version", no_argument, NULL, OPT_CORRUPT + 1},
    {"warmup", required_argument, NULL, 'w'},
    {"tokens", required_argument, NULL, OPT_TOKENS},
    {"page-tokens", required_argument, NULL, OPT_PAGE_TOKENS},
    {"layers", required_argument, NULL, OPT_LAYERS},
    {"bytes-per-token-layer", required_argument, NULL, OPT_TOKEN_LAYER_BYTES},
    {"trace", required_argument, NULL, OPT_TRACE},
    {"bytes-per-block", required_argument, NULL, OPT_BLOCK_BYTES},
    {"requests", required_argument, NULL, OPT_REQUESTS},
    {"plot", required_argument, NULL, OPT_PLOT},
    /* not for people */
    {"child", no_argument, NULL, OPT_CHILD},
    {"mover", no_argument, NULL, OPT_MOVER},
    {"responder", required_argument, NULL, OPT_RESPONDER},
    {"corrupt", required_argument, NULL, OPT_CORRUPT},
    {NULL, 0, NULL, 0},
};

/* ---- numbers ---- */

static int bad_value(const char *option, const char *text, const char *accepted)
{
    return perf_fail("%s %s: accepted: %s (--help shows all options)", option, text, accepted);
}

static int parse_number(const char *option, const char *text, uint64_t min, uint64_t max,
                        uint64_t *number_p)
{
    char accepted[64], *end;
    unsigned long long number;

    errno  = 0;
    number = strtoull(text, &end, 10);
    if (errno == 0 && end != text && *end == '\0' && text[0] != '-' && number >= min &&
        number <= max) {
        *number_p = number;
        return 0;
    }
    snprintf(accepted, sizeof(accepted), "%llu to %llu", (unsigned long long)min,
             (unsigned long long)max);
    return bad_value(option, text, accepted);
}

static int parse_unsigned(const char *option, const char *text, unsigned min, unsigned max,
                          unsigned *number_p)
{
    uint64_t number;

    if (parse_number(option, text, min, max, &number)) {
        return -1;
    }
    *number_p = (unsigned)number;
    return 0;
}

/* "4296", "64K", "2.75M"; ends at @a stop or at the end of the text */
static int parse_bytes(const char *option, const char *text, char stop, uint64_t *bytes_p,
                       const char **end_p)
{
    static const char units[] = "KMGT";
    const char *unit;
    char *end;
    double value = strtod(text, &end);

    if (end != text && *end != '\0' && (unit = strchr(units, *end)) != NULL) {
        value *= (double)(UINT64_C(1) << (10 * (unit - units + 1)));
        end++;
    }
    if (end == text || (*end != '\0' && *end != stop) || !(value >= 1 && value < 1e15)) {
        return bad_value(option, text, "a number of bytes such as 4296, 64K, 2.75M or 1G");
    }
    *bytes_p = (uint64_t)value;
    *end_p   = end;
    return 0;
}

static int parse_size(perf_options_t *options, const char *text)
{
    const char *end;

    if (parse_bytes("-s", text, ':', &options->size, &end)) {
        return -1;
    }
    options->segments = 1;
    if (*end == ':') {
        return parse_unsigned("-s SIZE:SEGMENTS", end + 1, 1, SEGMENTS_MAX, &options->segments);
    }
    return 0;
}

static int parse_plain_bytes(const char *option, const char *text, uint64_t *bytes_p)
{
    const char *end;

    return parse_bytes(option, text, '\0', bytes_p, &end);
}

static int parse_seconds(const char *text, double *seconds_p)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end != '\0' || !(value >= 0.001 && value <= 86400)) {
        return bad_value("-T", text, "seconds, from 0.001 to 86400");
    }
    *seconds_p = value;
    return 0;
}

/* HOST, HOST:PORT, [V6]:PORT, V6 */
static int parse_host(perf_options_t *options, const char *text)
{
    const char *colon = strrchr(text, ':');
    size_t length     = strlen(text);
    unsigned port;

    if (colon != NULL && (text[0] == '[' ? colon[-1] == ']' : strchr(text, ':') == colon)) {
        if (parse_unsigned("port of HOST", colon + 1, 1, 65534, &port)) {
            return -1;
        }
        if (options->port_given && port != options->port) {
            return perf_fail("%s and -p %u: two different ports", text, options->port);
        }
        options->port       = port;
        options->port_given = true;
        length              = (size_t)(colon - text);
    }
    if (text[0] == '[' && text[length - 1] == ']') {
        text++;
        length -= 2;
    }
    if (length == 0 || length >= sizeof(options->host)) {
        return perf_fail("HOST: a name or an address, at most %zu characters",
                         sizeof(options->host) - 1);
    }
    memcpy(options->host, text, length);
    options->host[length] = '\0';
    return 0;
}

/* ---- one option ---- */

static int set_moving(perf_options_t *options, int letter, const char *text)
{
    switch (letter) {
    case 's':
        return parse_size(options, text);
    case 'n':
        return parse_number("-n", text, 1, UINT64_C(1) << 40, &options->items);
    case 'w':
        return parse_number("-w", text, 0, UINT64_C(1) << 40, &options->warmup);
    case 'O':
        setenv("KVLANE_DEPTH", text, 1);
        return parse_unsigned("-O", text, 1, 256, &options->depth);
    case 'e':
        setenv("KVLANE_SG_ENDPOINTS", text, 1);
        return parse_unsigned("-e", text, 1, 64, &options->endpoints);
    case 'b':
        return parse_unsigned("-b", text, 1, BATCH_MAX, &options->batch);
    case 'x':
        return setenv("KVLANE_RAILS", text, 1);
    case 'T':
        return parse_seconds(text, &options->seconds_max);
    case 'm':
        return parse_plain_bytes("-m", text, &options->node_bytes);
    case 'p':
        options->port_given = true;
        return parse_unsigned("-p", text, 0, 65534, &options->port);
    default:
        return 1;
    }
}

static int set_flag(perf_options_t *options, int letter, const char *text)
{
    switch (letter) {
    case 't':
        options->tests = text;
        return 0;
    case 'l':
        options->local = true;
        return 0;
    case 'k':
        options->keep = true;
        return 0;
    case 'f':
        options->final_only = true;
        return 0;
    case 'v':
        options->csv = true;
        return 0;
    case 'J':
        options->json = true;
        return 0;
    case 'V':
        options->verify = true;
        return 0;
    case 'q':
        options->verify = false;
        return 0;
    default:
        return 1;
    }
}

static int set_long(perf_options_t *options, int letter, const char *text)
{
    switch (letter) {
    case OPT_TOKENS:
        return parse_number("--tokens", text, 1, UINT64_C(1) << 32, &options->tokens);
    case OPT_PAGE_TOKENS:
        return parse_number("--page-tokens", text, 1, 65536, &options->page_tokens);
    case OPT_LAYERS:
        return parse_number("--layers", text, 1, SEGMENTS_MAX, &options->layers);
    case OPT_TOKEN_LAYER_BYTES:
        return parse_plain_bytes("--bytes-per-token-layer", text, &options->token_layer_bytes);
    case OPT_TRACE:
        options->trace = text;
        return 0;
    case OPT_BLOCK_BYTES:
        return parse_plain_bytes("--bytes-per-block", text, &options->block_bytes);
    case OPT_REQUESTS:
        return parse_number("--requests", text, 1, UINT64_C(1) << 40, &options->requests);
    case OPT_PLOT:
        options->plot = text;
        return 0;
    case OPT_CHILD:
        options->child = true;
        return 0;
    case OPT_MOVER:
        options->mover = true;
        return 0;
    case OPT_RESPONDER: {
        unsigned fd;

        if (parse_unsigned("--responder", text, 0, 65535, &fd)) {
            return -1;
        }
        options->responder_fd = (int)fd;
        return 0;
    }
    case OPT_CORRUPT:
        return parse_number("--corrupt", text, 0, UINT64_C(1) << 40, &options->corrupt);
    default:
        return -1; /* getopt has said it */
    }
}

static int set_option(perf_options_t *options, int letter, const char *text)
{
    int result = set_moving(options, letter, text);

    if (result > 0) {
        result = set_flag(options, letter, text);
    }
    return result > 0 ? set_long(options, letter, text) : result;
}

/* ---- the whole ---- */

/* what the environment says, and the defaults of the library */
static int resolve_settings(perf_options_t *options)
{
    kvl_config_t *config;
    const char *text;

    if (kvl_config_create(&config) != KVL_OK) {
        return perf_fail("%s", kvl_error_text());
    }
    if ((text = kvl_config_get(config, "KVLANE_DEPTH")) != NULL) {
        options->depth = (unsigned)strtoul(text, NULL, 10);
    }
    if ((text = kvl_config_get(config, "KVLANE_SG_ENDPOINTS")) != NULL) {
        options->endpoints = (unsigned)strtoul(text, NULL, 10);
    }
    kvl_config_destroy(config);
    text           = getenv("KVLANE_RAILS");
    options->rails = text != NULL && text[0] != '\0' ? text : "auto";
    return 0;
}

#define ITEM_MAX (UINT64_C(1) << 40)

static int choose_size(perf_options_t *options)
{
    const perf_test_t *test = options->test;

    if (strcmp(test->name, "retrieve") == 0) {
        options->segments = (unsigned)options->layers;
        if (__builtin_mul_overflow(options->page_tokens, options->token_layer_bytes, &options->size)) {
            options->size = UINT64_MAX; /* refused below */
        }
    } else if (strcmp(test->name, "trace") == 0 && options->block_bytes != 0) {
        options->segments = options->segments == 0 ? test->segments : options->segments;
        options->size     = options->block_bytes / options->segments;
        if (options->size == 0) {
            return perf_fail("--bytes-per-block %llu: less than one byte for each of %u segments",
                             (unsigned long long)options->block_bytes, options->segments);
        }
    } else if (options->size == 0) {
        options->size     = test->size;
        options->segments = test->segments;
    }
    return 0;
}

int perf_options_choose(perf_options_t *options, const char *name)
{
    const perf_test_t *test = perf_test_find(name);
    uint64_t batches, item;

    if (test == NULL) {
        perf_fail("-t %s: no such test; there are:", name);
        perf_test_list(stderr);
        return -1;
    }
    options->test = test;
    if (choose_size(options)) {
        return -1;
    }
    if (__builtin_mul_overflow(options->size, (uint64_t)options->segments, &item) || item > ITEM_MAX) {
        return perf_fail("%u segments of %llu bytes: an item of more than 1 TiB", options->segments,
                         (unsigned long long)options->size);
    }
    if (options->batch == 0) {
        options->batch = test->batch;
    }
    if (options->items == 0) {
        batches = DEFAULT_BYTES / perf_item_bytes(options) / options->batch;
        batches = test->many_batches || batches > DEFAULT_BATCHES ? DEFAULT_BATCHES : batches;
        options->items = (batches < 4 ? 4 : batches) * options->batch;
    }
    if (options->batch > options->items) {
        options->batch = (unsigned)options->items;
    }
    if (strcmp(test->name, "trace") == 0 && options->trace == NULL) {
        return perf_fail("-t trace: which trace? give --trace FILE");
    }
    return 0;
}

static perf_parse_t parse_rest(int argc, char **argv, perf_options_t *options)
{
    if (optind < argc && parse_host(options, argv[optind++])) {
        return PERF_PARSE_USAGE;
    }
    if (optind < argc) {
        perf_fail("%s: one HOST is enough (--help shows the usage)", argv[optind]);
        return PERF_PARSE_USAGE;
    }
    if (options->local && options->host[0] != '\0') {
        perf_fail("-l and HOST: -l starts the other side here, HOST names it; give one of them");
        return PERF_PARSE_USAGE;
    }
    if (options->json && options->csv) {
        perf_fail("-J and -v: give one of them");
        return PERF_PARSE_USAGE;
    }
    if (options->tests != NULL && strcmp(options->tests, "help") == 0) {
        perf_test_list(stdout);
        return PERF_PARSE_DONE;
    }
    return resolve_settings(options) ? PERF_PARSE_USAGE : PERF_PARSE_RUN;
}

perf_parse_t perf_options_parse(int argc, char **argv, perf_options_t *options)
{
    int letter;

    *options = (perf_options_t){
        .warmup            = UINT64_MAX,
        .node_bytes        = UINT64_C(1) << 30,
        .port              = PERF_DEFAULT_PORT,
        .verify            = true,
        .tokens            = 65536,
        .page_tokens       = 64,
        .layers            = 61,
        .token_layer_bytes = 1152,
        .responder_fd      = -1,
        .argv              = argv,
        .argc              = argc,
    };
    while ((letter = getopt_long(argc, argv, "t:s:n:w:O:b:p:fvJVqm:T:x:e:lkh", long_options,
                                 NULL)) != -1) {
        if (letter == 'h') {
            fputs(usage_text, stdout);
            return PERF_PARSE_DONE;
        }
        if (letter == OPT_CORRUPT + 1) {
            kvl_tool_version(stdout, PERF_PROGRAM);
            return PERF_PARSE_DONE;
        }
        if (set_option(options, letter, optarg)) {
            return PERF_PARSE_USAGE;
        }
    }
    return parse_rest(argc, argv, options);
}
