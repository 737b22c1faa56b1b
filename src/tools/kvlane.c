/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/client.h"
#include "tools/common.h"
#include "tools/file.h"

#include "base/config.h"

#include <kvlane/cache.h>

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

/* kvlane: a node's values from the command line. */

#define NAME        "kvlane"
#define SEGMENT_MIN ((size_t)1 << 20)
#define GET_TRIES   5 /* the value may change between the question for its length and the get */

typedef struct {
    const char *node;
    bool json;
    bool answered; /* its JSON object is printed */
    int64_t timeout_ms;
    kvl_tool_client_t client;
} run_t;

static const char usage_text[] =
    "Usage: kvlane -s ADDR:PORT [OPTION]... COMMAND\n"
    "Stores, fetches and looks up values at a kvlane node.\n"
    "\n"
    "  put KEY FILE     store the file's bytes as the key's value; FILE - is standard input\n"
    "  get KEY FILE     write the key's value to the file, all of it or nothing; - is standard output\n"
    "  exists KEY...    is there a value, and how long is it?\n"
    "  rm KEY...        forget keys\n"
    "  stat             what the node says of itself\n"
    "\n"
    "  -s, --server ADDR:PORT   the node\n"
    "  -J, --json               one JSON object on standard output\n"
    "  -T, --timeout SECONDS    deadline to connect, and then of each request; get makes two, for the\n"
    "                           length and the bytes (default: KVLANE_TIMEOUT, 30 s)\n"
    "  -h, --help               print this and exit\n"
    "  -V, --version            print the versions of kvlane and UCX and exit\n"
    "\n"
    "Options may also follow the command; behind -- nothing is one, for a key that begins with a dash.\n"
    "A key is 1 to 255 bytes, a value 1 byte or more. Exit codes: 0 done (exists, rm: all keys were\n"
    "there), 1 failed or missing, 2 wrong usage.\n";

static const struct option long_options[] = {
    {"server", required_argument, NULL, 's'},  {"json", no_argument, NULL, 'J'},
    {"timeout", required_argument, NULL, 'T'}, {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},       {NULL, 0, NULL, 0},
};

/* ---- keys ---- */

#define KEY_TEXT (4 * KVL_KEY_MAX + 1)

/* A key for people, on one line: \xNN for each byte that is no printable ASCII, \\ for a backslash, so that no two
 * keys look the same. A longer one is cut. */
static const char *key_text(const char *key, char text[KEY_TEXT])
{
    size_t at = 0;

    for (; *key && at + 5 <= KEY_TEXT; key++) {
        unsigned char byte = (unsigned char)*key;

        if (byte == '\\') {
            at += (size_t)snprintf(text + at, KEY_TEXT - at, "\\\\");
        } else if (byte < 0x20 || byte >= 0x7f) {
            at += (size_t)snprintf(text + at, KEY_TEXT - at, "\\x%02x", byte);
        } else {
            text[at++] = (char)byte;
        }
    }
    text[at] = '\0';
    return text;
}

/* "key": "...". JSON has no bytes: one that is no UTF-8 has its bytes in "key_hex" too, by which it differs. */
static void print_json_key(const char *key)
{
    json_t *text = json_string(key);

    printf("\"key\": ");
    kvl_tool_json_text(stdout, key);
    if (!text) {
        printf(", \"key_hex\": \"");
        for (; *key; key++) {
            printf("%02x", (unsigned char)*key);
        }
        printf("\"");
    }
    json_decref(text);
}

/* ---- batches ---- */

/* The complete batch, or NULL (said). */
static kvl_batch_t *run_batch(run_t *run, kvl_cache_op_t op, const kvl_item_t *items, size_t count)
{
    kvl_batch_params_t params = {.timeout_ms = run->timeout_ms};
    kvl_batch_t *batch;

    if (kvl_cache_submit(run->client.cache, op, items, count, &params, &batch) != KVL_INPROGRESS) {
        kvl_tool_failed(NAME, "%s", kvl_error_text());
        return NULL;
    }
    kvl_batch_wait(batch, -1);
    return batch;
}

/* Status of the only item; KVL_ERR_CANCELED if it could not be submitted. Says what failed, but for
 * @a quiet_about. */
static kvl_status_t run_item(run_t *run, kvl_cache_op_t op, const kvl_item_t *item,
                             kvl_status_t quiet_about, uint64_t *length_p)
{
    kvl_batch_t *batch = run_batch(run, op, item, 1);
    char text[KEY_TEXT];
    kvl_status_t status;

    if (!batch) {
        return KVL_ERR_CANCELED;
    }
    status = kvl_batch_item(batch, 0, length_p);
    if (status == KVL_ERR_NOT_FOUND) {
        kvl_tool_failed(NAME, "%s: no such key at %s", key_text(item->key, text), run->node);
    } else if (status != KVL_OK && status != quiet_about) {
        kvl_tool_failed(NAME, "%s: %s: %s", key_text(item->key, text), kvl_status_name(status),
                        kvl_batch_cause(batch));
    }
    kvl_batch_release(batch);
    return status;
}

/* Cuts memory into at most KVL_SEGMENTS_MAX segments; returns how many. */
static size_t cut_segments(void *memory, size_t length, kvl_region_t *region,
                           kvl_segment_t *segments)
{
    size_t piece = (length + KVL_SEGMENTS_MAX - 1) / KVL_SEGMENTS_MAX, count = 0;

    piece = piece < SEGMENT_MIN ? SEGMENT_MIN : piece;
    for (size_t at = 0; at < length; at += piece) {
        segments[count++] = (kvl_segment_t){
            .address = (char *)memory + at,
            .length  = length - at < piece ? length - at : piece,
            .region  = region,
        };
    }
    return count;
}

/* One put or get of one value in plain memory. */
static kvl_status_t move_value(run_t *run, kvl_cache_op_t op, const char *key, void *memory,
                               size_t length, kvl_status_t quiet_about)
{
    kvl_segment_t segments[KVL_SEGMENTS_MAX];
    kvl_item_t item = {.key = key, .key_length = strlen(key), .segments = segments};
    kvl_region_t *region;
    kvl_status_t status;

    if (kvl_region_register(run->client.engine, memory, length, &region) != KVL_OK) {
        kvl_tool_failed(NAME, "%s", kvl_error_text());
        return KVL_ERR_REGISTER;
    }
    item.segment_count = cut_segments(memory, length, region, segments);
    status             = run_item(run, op, &item, quiet_about, NULL);
    kvl_region_release(region);
    return status;
}

/* ---- put ---- */

static int command_put(run_t *run, char **words)
{
    char *memory;
    size_t length;
    kvl_status_t status;

    if (kvl_tool_read_file(NAME, words[1], &memory, &length)) {
        return KVL_EXIT_FAILED;
    }
    status = move_value(run, KVL_CACHE_PUT, words[0], memory, length, KVL_OK);
    free(memory);
    if (status != KVL_OK) {
        return KVL_EXIT_FAILED;
    }
    if (run->json) {
        printf("{\"command\": \"put\", ");
        print_json_key(words[0]);
        printf(", \"bytes\": %zu}\n", length);
    }
    return KVL_EXIT_OK;
}

/* ---- get ---- */

/* The value in memory to be freed. KVL_ERR_LENGTH: it has changed meanwhile, try again. */
static kvl_status_t fetch(run_t *run, const char *key, char **memory_p, uint64_t *length_p)
{
    kvl_item_t item     = {.key = key, .key_length = strlen(key)};
    kvl_status_t status = run_item(run, KVL_CACHE_EXISTS, &item, KVL_OK, length_p);
    char *memory, text[KEY_TEXT];

    if (status != KVL_OK) {
        return status;
    }
    memory = malloc(*length_p);
    if (!memory) {
        kvl_tool_failed(NAME, "%s: no memory for %llu bytes", key_text(key, text),
                        (unsigned long long)*length_p);
        return KVL_ERR_NO_MEMORY;
    }
    status = move_value(run, KVL_CACHE_GET, key, memory, *length_p, KVL_ERR_LENGTH);
    if (status != KVL_OK) {
        free(memory);
        return status;
    }
    *memory_p = memory;
    return KVL_OK;
}

static int command_get(run_t *run, char **words)
{
    bool to_stdout      = strcmp(words[1], "-") == 0;
    kvl_status_t status = KVL_ERR_LENGTH;
    char *memory, text[KEY_TEXT];
    uint64_t length;
    int code;

    for (unsigned i = 0; i < GET_TRIES && status == KVL_ERR_LENGTH; i++) {
        status = fetch(run, words[0], &memory, &length);
    }
    if (status == KVL_ERR_LENGTH) {
        return kvl_tool_failed(NAME, "%s: its length changes all the time", key_text(words[0], text));
    }
    if (status != KVL_OK) {
        return KVL_EXIT_FAILED;
    }
    kvl_tool_disconnect(&run->client); /* its threads too; and no node waits for our disk */
    code = kvl_tool_write_file(NAME, words[1], memory, length);
    free(memory);
    if (code == KVL_EXIT_OK && run->json && !to_stdout) {
        printf("{\"command\": \"get\", ");
        print_json_key(words[0]);
        printf(", \"bytes\": %llu}\n", (unsigned long long)length);
    }
    return code;
}

/* ---- exists, rm ---- */

/* what a key's answer says */
static const char *answer_word(kvl_cache_op_t op, kvl_status_t status)
{
    if (status == KVL_OK) {
        return op == KVL_CACHE_EXISTS ? "yes" : "removed";
    }
    return status == KVL_ERR_NOT_FOUND ? "no" : kvl_status_name(status);
}

static void print_answer(const run_t *run, kvl_cache_op_t op, const char *key, kvl_status_t status,
                         uint64_t length)
{
    char text[KEY_TEXT];

    if (run->json) {
        printf("{");
        print_json_key(key);
        printf(", \"status\": \"%s\"", kvl_status_name(status));
        if (op == KVL_CACHE_EXISTS && status == KVL_OK) {
            printf(", \"bytes\": %llu", (unsigned long long)length);
        }
        printf("}");
    } else if (op == KVL_CACHE_EXISTS && status == KVL_OK) {
        printf("%s  %s  %llu bytes\n", key_text(key, text), answer_word(op, status),
               (unsigned long long)length);
    } else {
        printf("%s  %s\n", key_text(key, text), answer_word(op, status));
    }
}

static int print_answers(run_t *run, kvl_cache_op_t op, const kvl_batch_t *batch, char **keys,
                         size_t count)
{
    int code  = KVL_EXIT_OK;
    bool said = false;
    char text[KEY_TEXT];

    if (run->json) {
        printf("{\"command\": \"%s\", \"keys\": [", op == KVL_CACHE_EXISTS ? "exists" : "rm");
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t length     = 0;
        kvl_status_t status = kvl_batch_item(batch, i, &length);

        if (run->json && i > 0) {
            printf(", ");
        }
        print_answer(run, op, keys[i], status, length);
        code = status == KVL_OK ? code : KVL_EXIT_FAILED;
        if (status != KVL_OK && status != KVL_ERR_NOT_FOUND && !said) {
            kvl_tool_failed(NAME, "%s: %s", key_text(keys[i], text), kvl_batch_cause(batch));
            said = true;
        }
    }
    if (run->json) {
        printf("]}\n");
        run->answered = true;
    }
    return code;
}

static int ask_keys(run_t *run, kvl_cache_op_t op, char **keys)
{
    kvl_item_t *items;
    kvl_batch_t *batch;
    size_t count = 0;
    int code;

    while (keys[count]) {
        count++;
    }
    items = calloc(count, sizeof(*items));
    if (!items) {
        return kvl_tool_failed(NAME, "no memory for %zu keys", count);
    }
    for (size_t i = 0; i < count; i++) {
        items[i].key        = keys[i];
        items[i].key_length = strlen(keys[i]);
    }
    batch = run_batch(run, op, items, count);
    code  = batch ? print_answers(run, op, batch, keys, count) : KVL_EXIT_FAILED;
    if (batch) {
        kvl_batch_release(batch);
    }
    free(items);
    return code;
}

static int command_exists(run_t *run, char **words)
{
    return ask_keys(run, KVL_CACHE_EXISTS, words);
}

static int command_rm(run_t *run, char **words)
{
    return ask_keys(run, KVL_CACHE_REMOVE, words);
}

/* ---- stat ---- */

static int command_stat(run_t *run, char **words)
{
    kvl_node_stat_t stat;

    (void)words;
    if (kvl_cache_stat(run->client.cache, run->timeout_ms, &stat) != KVL_OK) {
        return kvl_tool_failed(NAME, "%s", kvl_error_text());
    }
    kvl_tool_print_stat(stdout, &stat, run->json);
    if (run->json) {
        printf("\n");
    }
    return KVL_EXIT_OK;
}

/* ---- the command line ---- */

typedef struct {
    const char *name;
    int (*run)(run_t *run, char **words);
    int words_min, words_max;
    const char *words;
} command_t;

static const command_t commands[] = {
    {"put", command_put, 2, 2, "KEY FILE"},
    {"get", command_get, 2, 2, "KEY FILE"},
    {"exists", command_exists, 1, KVL_BATCH_MAX, "KEY..."},
    {"rm", command_rm, 1, KVL_BATCH_MAX, "KEY..."},
    {"stat", command_stat, 0, 0, ""},
};

static const command_t *find_command(const char *name)
{
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(commands[i].name, name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

/* Keys are checked here, so that a wrong one is wrong usage. */
static int check_words(const command_t *command, char **words, int count)
{
    int keys = command->words_min == 2 ? 1 : count;
    char text[KEY_TEXT];

    if (count < command->words_min) {
        return kvl_tool_usage(NAME, "%s is missing; usage: kvlane %s %s",
                              count == 1 ? "FILE" : command->words, command->name, command->words);
    }
    if (count > command->words_max) {
        return kvl_tool_usage(NAME, "%s: %s takes nothing more; usage: kvlane %s%s%s",
                              words[command->words_max], command->name, command->name,
                              command->words[0] ? " " : "", command->words);
    }
    for (int i = 0; i < keys; i++) {
        size_t length = strlen(words[i]);

        if (length < 1 || length > KVL_KEY_MAX) {
            return kvl_tool_usage(NAME, "key %.40s: %zu bytes; a key has 1 to %d", key_text(words[i], text), length,
                                  KVL_KEY_MAX);
        }
    }
    return KVL_EXIT_OK;
}

static int run_command(run_t *run, int argc, char **argv)
{
    const command_t *command = argc > 0 ? find_command(argv[0]) : NULL;
    int code;

    if (!command) {
        return kvl_tool_usage(NAME,
                              argc > 0 ? "%s: no such command; there are put, get, exists, rm, "
                                         "stat"
                                       : "which command? put, get, exists, rm or stat",
                              argc > 0 ? argv[0] : "");
    }
    code = check_words(command, argv + 1, argc - 1);
    if (code != KVL_EXIT_OK) {
        return code;
    }
    if (!run->node) {
        return kvl_tool_usage(NAME, "-s ADDR:PORT: which node?");
    }
    if (command->run == command_get && kvl_tool_check_file(NAME, argv[2])) {
        return KVL_EXIT_FAILED;
    }
    code = kvl_tool_connect(NAME, &run->client, run->node, run->timeout_ms);
    if (code != KVL_EXIT_OK) {
        return code;
    }
    code = command->run(run, argv + 1);
    kvl_tool_disconnect(&run->client);
    return code;
}

/* One object also for what failed before it could be printed; standard output of get - is for the value. */
static int json_failure(const run_t *run, int code, int argc, char **argv)
{
    if (run->json && !run->answered && code != KVL_EXIT_OK &&
        !(argc == 3 && strcmp(argv[0], "get") == 0 && strcmp(argv[2], "-") == 0)) {
        printf("{\"command\": ");
        kvl_tool_json_text(stdout, argc > 0 ? argv[0] : "");
        printf(", \"error\": ");
        kvl_tool_json_text(stdout, kvl_tool_failure());
        printf("}\n");
    }
    return code;
}

int main(int argc, char **argv)
{
    run_t run = {0};
    int letter, code;

    kvl_tool_start(argc, argv);
    while ((letter = getopt_long(argc, argv, "s:JT:hV", long_options, NULL)) != -1) {
        switch (letter) {
        case 's':
            run.node = optarg;
            break;
        case 'J':
            run.json = true;
            break;
        case 'T':
            if (kvl_tool_seconds(optarg, &run.timeout_ms)) {
                return kvl_tool_usage(NAME, "-T %s: seconds, from 0.001 to 86400", optarg);
            }
            break;
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
    argc -= optind;
    argv += optind;
    code = run_command(&run, argc, argv);
    return kvl_tool_end(NAME, json_failure(&run, code, argc, argv));
}
