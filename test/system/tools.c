/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/shim.h"
#include "system/program.h"

#include <kvlane/node.h>

#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* kvlane and kvlane_info as their users meet them. */

static char out[PROGRAM_TEXT], err[PROGRAM_TEXT];
static char folder[64];
static program_t node;
static char address[160];

static const char *file(const char *name)
{
    static char paths[4][128];
    static unsigned turn;

    turn = (turn + 1) % 4;
    snprintf(paths[turn], sizeof(paths[turn]), "%s/%s", folder, name);
    return paths[turn];
}

static unsigned files(void)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    unsigned count = 0;

    while (dir && (entry = readdir(dir))) {
        count += entry->d_name[0] != '.';
    }
    if (dir) {
        closedir(dir);
    }
    return count;
}

static void write_pattern(const char *path, size_t length)
{
    FILE *stream   = fopen(path, "we");
    unsigned state = 7;

    REQUIRE(stream != NULL);
    for (size_t i = 0; i < length; i++) {
        state = state * 1103515245u + 12345u;
        fputc((int)(state >> 16 & 0xff), stream);
    }
    REQUIRE(fclose(stream) == 0);
}

static bool same_files(const char *a_path, const char *b_path)
{
    FILE *a = fopen(a_path, "re"), *b = fopen(b_path, "re");
    int x = EOF, y = EOF;

    REQUIRE(a != NULL && b != NULL);
    do {
        x = getc(a);
        y = getc(b);
    } while (x == y && x != EOF);
    fclose(a);
    fclose(b);
    return x == y;
}

static void start_node(const char *rails)
{
    setenv("KVLANE_RAILS", rails, 1);
    program_start(&node, "kvlaned", ARGS("-l", "127.0.0.1:0", "-m", "64M"), NULL);
    program_ready(&node, address, sizeof(address));
}

static void stop_node(void)
{
    if (node.pid > 0) {
        kill(node.pid, SIGTERM);
        CHECK_EQ(program_end(&node, out, err), 0);
        node.pid = 0;
    }
}

SETUP
{
    snprintf(folder, sizeof(folder), "/tmp/kvlane_tools_XXXXXX");
    REQUIRE(mkdtemp(folder) != NULL);
    node.pid = 0;
}

TEARDOWN
{
    DIR *dir;
    const struct dirent *entry;

    stop_node();
    unsetenv("KVLANE_RAILS");
    dir = opendir(folder);
    while (dir && (entry = readdir(dir))) {
        if (entry->d_name[0] != '.') {
            unlinkat(dirfd(dir), entry->d_name, 0);
        }
    }
    if (dir) {
        closedir(dir);
    }
    rmdir(folder);
}

static json_t *json_of(const char *text)
{
    json_error_t error;
    json_t *json = json_loads(text, 0, &error);

    CHECK_MSG(json != NULL, "no JSON (%s): %s", error.text, text);
    REQUIRE(json != NULL);
    return json;
}

/* ---- all of them ---- */

TEST(tools_help, is_printed_with_0_and_the_version_too)
{
    static const char *const names[] = {"kvlane", "kvlane_info", "kvlane_perftest", "kvlaned"};

    for (unsigned i = 0; i < 4; i++) {
        CHECK_EQ(program_run(names[i], ARGS("--help"), out, err), 0);
        CHECK_MSG(strstr(out, names[i]) && !err[0], "%s: %s", names[i], err);
        CHECK_EQ(program_run(names[i], ARGS("--version"), out, err), 0);
        CHECK_MSG(strstr(out, names[i]) == out && strstr(out, "UCX"), "%s: %s", names[i], out);
    }
}

TEST(tools_usage, is_wrong_with_2_and_says_why)
{
    static const struct {
        const char *name;
        const char *args[6];
        const char *says;
    } rows[] = {
        {"kvlane", {NULL}, "which command"},
        {"kvlane", {"stat", NULL}, "which node"},
        {"kvlane", {"-s", "127.0.0.1:1", "fetch", NULL}, "no such command"},
        {"kvlane", {"-s", "127.0.0.1:1", "get", "key", NULL}, "usage: kvlane get KEY FILE"},
        {"kvlane", {"-s", "127.0.0.1:1", "put", "key", NULL}, "FILE is missing; usage: kvlane put KEY FILE"},
        {"kvlane", {"-s", "127.0.0.1:1", "exists", NULL}, "KEY... is missing"},
        {"kvlane", {"-s", "127.0.0.1:1", "stat", "key", NULL}, "nothing more"},
        {"kvlane", {"-s", "127.0.0.1:1", "exists", "", NULL}, "1 to 255"},
        {"kvlane", {"-T", "never", "stat", NULL}, "seconds"},
        {"kvlane", {"-s", "nowhere", "stat", NULL}, "nowhere"},
        {"kvlane", {"-s", "127.0.0.1:1", "--", "stat", "-J", NULL}, "nothing more"},
        {"kvlane_info", {"-s", "nowhere", NULL}, "nowhere"},
        {"kvlane_info", {NULL}, "what?"},
        {"kvlane_info", {"-c", "more", NULL}, "more"},
        {"kvlane_perftest", {"-t", "swim", "-l", NULL}, "sg_put"},
        {"kvlane_perftest", {"-t", "put", NULL}, "-l"},
        {"kvlane_perftest", {"-t", "put", "-l", "host", NULL}, "one of them"},
        {"kvlane_perftest", {"-s", "4X", NULL}, "bytes"},
        {"kvlane_perftest", {"-O", "257", NULL}, "1 to 256"},
        {"kvlane_perftest", {"-T", "0", NULL}, "from 0.001 to 86400"},
        {"kvlaned", {"-l", "127.0.0.1:0", "-m", "0", NULL}, "-m 0: "},
        {"kvlane_perftest", {"-l", "-t", "trace", NULL}, "--trace"},
        {"kvlane_perftest", {"-J", "-v", NULL}, "one of them"},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        CHECK_EQ(program_run(rows[i].name, rows[i].args, out, err), 2);
        CHECK_MSG(strstr(err, rows[i].says) != NULL && !out[0], "row %u: %s", i, err);
    }
}

TEST(tools_host, without_an_address_is_no_wrong_usage)
{
    CHECK_EQ(program_run("kvlane", ARGS("-s", "no..host:1", "stat"), out, err), 1);
    CHECK_MSG(strstr(err, "no..host") && !strstr(err, "HOST:PORT") && !strstr(err, "--help"), "%s", err);
    CHECK_EQ(program_run("kvlane_info", ARGS("-s", "no..host:1"), out, err), 1);
    CHECK_EQ(program_run("kvlaned", ARGS("-l", "no..host:1", "-m", "16M"), out, err), 1);
    CHECK_EQ(program_run("kvlane_info", ARGS("--doctor", "no..host:1"), out, err), 2); /* a failure */
    CHECK_MSG(!strstr(err, "--help"), "%s", err);
}

TEST(tools_settings, are_wrong_usage_when_they_are_bad)
{
    static const char *const settings[][2] = {
        {"KVLANE_DEPHT", "17"}, {"KVLANE_DEPTH", "0"}, {"KVLANE_UCX_TLS", ""}, {"KVLANE_UCX_NONE", "1"}};
    static const struct {
        const char *name;
        const char *args[8];
    } rows[] = {
        {"kvlane", {"-s", "127.0.0.1:9", "stat", NULL}},
        {"kvlane_info", {"-c", NULL}},
        {"kvlane_info", {"-c", "-J", NULL}},
        {"kvlane_info", {"-s", "127.0.0.1:9", NULL}},
        {"kvlaned", {"-l", "127.0.0.1:0", "-m", "16M", NULL}},
        {"kvlane_perftest", {"-p", "0", "-m", "16M", NULL}},
        {"kvlane_perftest", {"-t", "put", "127.0.0.1:9", NULL}},
        {"kvlane_perftest", {"-l", "-t", "put", "-m", "16M", NULL}},
        {"kvlane_perftest", {"-l", "-t", "raw_put", NULL}},
    };

    for (unsigned i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        setenv(settings[i][0], settings[i][1], 1);
        for (unsigned k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
            int code = program_run(rows[k].name, rows[k].args, out, err);

            CHECK_MSG(code == 2 && strstr(err, settings[i][0]), "row %u, %s=%s: %d: %s", k, settings[i][0],
                      settings[i][1], code, err);
        }
        unsetenv(settings[i][0]);
    }
}

/* ---- kvlane ---- */

TEST(kvlane_options, may_follow_the_command_and_end_with_two_dashes)
{
    start_node("tcp");
    write_pattern(file("value"), 5);
    CHECK_EQ(program_run("kvlane", ARGS("put", "key", file("value"), "-s", address, "--json"), out, err), 0);
    CHECK_MSG(strstr(out, "\"bytes\": 5"), "%s", out);
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "put", "--", "-J", file("value")), out, err), 0);
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "--", "exists", "-J", "key"), out, err), 0);
    CHECK_STR_EQ(out, "-J  yes  5 bytes\nkey  yes  5 bytes\n");
    CHECK_EQ(program_run("kvlane", ARGS("get", "key", "-", "-s", address), out, err), 0);
    CHECK(out[4] && !out[5]);
}

static void stores_and_fetches(const char *rails)
{
    static const size_t sizes[] = {1, 1000, 65536, 3000001};

    start_node(rails);
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        write_pattern(file("value"), sizes[i]);
        CHECK_EQ(program_run("kvlane", ARGS("-s", address, "put", "key", file("value")), out, err),
                 0);
        CHECK_MSG(!err[0], "%s", err);
        CHECK_EQ(program_run("kvlane", ARGS("-s", address, "get", "key", file("copy")), out, err),
                 0);
        CHECK_MSG(!err[0], "%s", err);
        CHECK_MSG(same_files(file("value"), file("copy")), "%zu bytes differ", sizes[i]);
        CHECK_EQ(files(), 2);
    }
}

TEST(kvlane_get, brings_what_put_took_over_tcp)
{
    stores_and_fetches("tcp");
}

TEST(kvlane_get, brings_what_put_took_over_shared_memory)
{
    stores_and_fetches("shm");
}

TEST(kvlane_get, speaks_standard_input_and_output)
{
    program_t put;

    start_node("tcp");
    write_pattern(file("value"), 5000);
    program_start(&put, "kvlane", ARGS("-s", address, "put", "key", "-"), file("value"));
    CHECK_EQ(program_end(&put, out, err), 0);
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "get", "key", "/dev/stdout"), out, err), 0);
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "get", "key", "-"), out, err), 0);
    CHECK_MSG(!err[0], "%s", err);
    {
        FILE *stream = fopen(file("value"), "re");
        char value[5000];

        REQUIRE(stream != NULL);
        CHECK_EQ(fread(value, 1, sizeof(value), stream), sizeof(value));
        fclose(stream);
        CHECK_MEM_EQ(out, value, sizeof(value));
    }
}

TEST(kvlane_get, leaves_a_file_alone_when_the_key_is_not_there)
{
    start_node("tcp");
    write_pattern(file("value"), 100);
    write_pattern(file("copy"), 100);
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "get", "none", file("copy")), out, err), 1);
    CHECK_MSG(strstr(err, "no such key") != NULL, "%s", err);
    CHECK(same_files(file("value"), file("copy")));
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "get", "none", file("new")), out, err), 1);
    CHECK_EQ(files(), 2);
}

TEST(kvlane_get, names_a_directory_that_is_not_there_before_it_asks_anybody)
{
    CHECK_EQ(program_run("kvlane", ARGS("-s", "127.0.0.1:9", "get", "key", file("none/copy")), out, err), 1);
    CHECK_MSG(strstr(err, file("none: No such file")) && !strstr(err, "127.0.0.1"), "%s", err);
    CHECK_EQ(program_run("kvlane", ARGS("-s", "127.0.0.1:9", "get", "key", folder), out, err), 1);
    CHECK_MSG(strstr(err, "Is a directory") && !strstr(err, "127.0.0.1"), "%s", err);
}

TEST(kvlane_get, writes_to_where_a_link_leads)
{
    static const char *const names[] = {"one", "two", "three"};
    char target[16];

    start_node("tcp");
    write_pattern(file("value"), 5000);
    write_pattern(file("two"), 10);
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "put", "key", file("value")), out, err), 0);
    REQUIRE(symlink(file("one"), file("absolute")) == 0); /* to what is not there yet */
    REQUIRE(symlink("two", file("relative")) == 0);
    REQUIRE(symlink("three", file("last")) == 0 && symlink("last", file("chain")) == 0);
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "get", "key", file("absolute")), out, err), 0);
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "get", "key", file("relative")), out, err), 0);
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "get", "key", file("chain")), out, err), 0);
    for (unsigned i = 0; i < 3; i++) {
        CHECK_MSG(same_files(file("value"), file(names[i])), "%s", names[i]);
    }
    CHECK_EQ(readlink(file("absolute"), target, sizeof(target)), sizeof(target)); /* still links */
    CHECK_EQ(readlink(file("relative"), target, sizeof(target)), 3);
    CHECK_EQ(readlink(file("chain"), target, sizeof(target)), 4);
    CHECK_EQ(files(), 8);
    REQUIRE(symlink("loop", file("loop")) == 0);
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "get", "key", file("loop")), out, err), 1);
    CHECK_MSG(strstr(err, "symbolic links") != NULL, "%s", err);
}

TEST(kvlane_get, leaves_nothing_behind_when_it_cannot_write_all)
{
    struct rlimit limit, small;

    start_node("tcp");
    write_pattern(file("value"), 3000000);
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "put", "key", file("value")), out, err), 0);
    REQUIRE(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    small          = limit;
    small.rlim_cur = 1000000;
    REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "get", "key", file("copy")), out, err), 1);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK_MSG(strstr(err, "File too large") != NULL, "%s", err);
    CHECK_EQ(files(), 1);
}

/* Stops a get when it has made a file and, if that is still there, ends it with @a signal; false: it was too
 * fast. */
static bool end_in_the_middle(int watch, int signal)
{
    struct pollfd poller = {.fd = watch, .events = POLLIN};
    char events[4096];
    program_t get;
    int code;

    program_start(&get, "kvlane", ARGS("-s", address, "get", "key", file("copy")), NULL);
    REQUIRE(poll(&poller, 1, 20000) == 1);
    kill(get.pid, SIGSTOP);
    REQUIRE(read(watch, events, sizeof(events)) > 0);
    kill(get.pid, signal);
    kill(get.pid, SIGCONT);
    code = program_end(&get, out, err);
    return code == 256 + signal;
}

TEST(kvlane_get, leaves_nothing_behind_when_a_signal_ends_it)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    int watch                  = inotify_init1(IN_CLOEXEC);

    start_node("tcp");
    write_pattern(file("value"), 40u << 20);
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "put", "key", file("value")), out, err), 0);
    REQUIRE(watch >= 0 && inotify_add_watch(watch, folder, IN_CREATE) >= 0);
    for (unsigned i = 0; i < 3; i++) {
        void (*before)(int) = signal(signals[i], SIG_DFL); /* ignored under nohup, or in the background */
        unsigned tries      = 1;

        while (!end_in_the_middle(watch, signals[i]) && tries < 50) {
            tries++;
            unlink(file("copy"));
        }
        signal(signals[i], before);
        CHECK_MSG(tries < 50, "signal %d never came in time: %s", signals[i], err);
        unlink(file("copy")); /* it came after the last step: that is whole */
        CHECK_EQ(files(), 1);
    }
    close(watch);
}

TEST(kvlane_hangup, ends_a_tool_unless_it_is_ignored)
{
    void (*before)(int) = signal(SIGHUP, SIG_IGN);
    program_t server;

    program_start(&server, "kvlaned", ARGS("-l", "127.0.0.1:0", "-m", "64M"), NULL);
    program_ready(&server, address, sizeof(address));
    kill(server.pid, SIGHUP);
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "exists", "key"), out, err), 1);
    CHECK_MSG(strstr(out, "no") != NULL, "%s", err);
    kill(server.pid, SIGTERM);
    CHECK_EQ(program_end(&server, out, err), 0);

    signal(SIGHUP, SIG_DFL);
    program_start(&server, "kvlaned", ARGS("-l", "127.0.0.1:0", "-m", "64M"), NULL);
    program_ready(&server, address, sizeof(address));
    kill(server.pid, SIGHUP);
    CHECK_EQ(program_end(&server, out, err), 256 + SIGHUP);
    signal(SIGHUP, before);
}

/* a client without files blames itself, not the node */
TEST(kvlane_files, are_named_when_there_are_too_few)
{
    static const char *const limits[] = {"40", "60"}; /* at the first endpoint, at the others */
    char kvlane[512], script[64];

    snprintf(kvlane, sizeof(kvlane), "%s", shim_built("kvlane"));
    start_node("tcp");
    for (unsigned i = 0; i < 2; i++) {
        snprintf(script, sizeof(script), "ulimit -n %s; exec \"$@\"", limits[i]);
        CHECK_EQ(program_run("/bin/sh", ARGS("-c", script, "sh", kvlane, "-s", address, "exists", "key"), out,
                             err), 1);
        CHECK_MSG(strstr(err, "no files are left") && strstr(err, "ulimit -n") && strstr(err, limits[i]),
                  "%s", err);
    }
}

TEST(kvlane_put, refuses_an_empty_file_and_one_that_is_not_there)
{
    start_node("tcp");
    write_pattern(file("empty"), 0);
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "put", "key", file("empty")), out, err), 1);
    CHECK_MSG(strstr(err, "empty") != NULL, "%s", err);
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "put", "key", file("none")), out, err), 1);
    CHECK_MSG(strstr(err, "No such file") != NULL, "%s", err);
}

TEST(kvlane_exists, tells_each_key_and_rm_forgets_it)
{
    json_t *json, *keys;

    start_node("tcp");
    write_pattern(file("value"), 777);
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "put", "a \"b\"", file("value")), out, err),
             0);
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "exists", "a \"b\""), out, err), 0);
    CHECK_MSG(strstr(out, "777 bytes") != NULL, "%s", out);
    CHECK_EQ(
        program_run("kvlane", ARGS("-J", "-s", address, "exists", "none", "a \"b\""), out, err), 1);
    json = json_of(out);
    keys = json_object_get(json, "keys");
    CHECK_EQ(json_array_size(keys), 2);
    CHECK_STR_EQ(json_string_value(json_object_get(json_array_get(keys, 0), "status")),
                 "NOT_FOUND");
    CHECK_STR_EQ(json_string_value(json_object_get(json_array_get(keys, 1), "key")), "a \"b\"");
    CHECK_EQ(json_integer_value(json_object_get(json_array_get(keys, 1), "bytes")), 777);
    json_decref(json);
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "rm", "a \"b\""), out, err), 0);
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "rm", "a \"b\""), out, err), 1);
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "exists", "a \"b\""), out, err), 1);
}

TEST(kvlane_exists, shows_each_key_on_a_line_and_none_like_another)
{
    json_t *json, *keys;

    start_node("tcp");
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "exists", "a\xff", "a\xfe", "a\\xff", "x\n\x7fy"), out, err),
             1);
    CHECK_STR_EQ(out, "a\\xff  no\na\\xfe  no\na\\\\xff  no\nx\\x0a\\x7fy  no\n");
    CHECK_EQ(program_run("kvlane", ARGS("-J", "-s", address, "exists", "a\xff", "a\xfe", "a\xef\xbf\xbd"), out, err),
             1);
    json = json_of(out);
    keys = json_object_get(json, "keys");
    for (size_t i = 0; i < 3; i++) {
        CHECK_STR_EQ(json_string_value(json_object_get(json_array_get(keys, i), "key")), "a\xef\xbf\xbd");
    }
    CHECK_STR_EQ(json_string_value(json_object_get(json_array_get(keys, 0), "key_hex")), "61ff");
    CHECK_STR_EQ(json_string_value(json_object_get(json_array_get(keys, 1), "key_hex")), "61fe");
    CHECK(!json_object_get(json_array_get(keys, 2), "key_hex"));
    json_decref(json);
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "get", "a\xff", file("copy")), out, err), 1);
    CHECK_HAS(err, "a\\xff: no such key");
}

/* One object, also of what failed: its error is what was said. */
static void fails_in_json(const char *const args[], int code, const char *why)
{
    const char *error;
    json_t *json;

    CHECK_EQ(program_run("kvlane", args, out, err), code);
    CHECK(strchr(out, '\n') && strchr(out, '\n') == strrchr(out, '\n'));
    json  = json_of(out);
    error = json_string_value(json_object_get(json, "error"));
    CHECK_MSG(error && strstr(error, why) && strstr(err, error), "%s, and on stderr %s", out, err);
    json_decref(json);
}

TEST(kvlane_json, says_why_it_failed)
{
    start_node("tcp");
    fails_in_json(ARGS("-J", "-s", address, "put", "key", file("none")), 1, "No such file");
    fails_in_json(ARGS("-J", "-s", address, "get", "key", file("copy")), 1, "no such key");
    fails_in_json(ARGS("-J", "-s", address, "get", "key", file("none/copy")), 1, "No such file");
    fails_in_json(ARGS("-J", "-s", "127.0.0.1:9", "-T", "2", "stat"), 1, "127.0.0.1:9");
    fails_in_json(ARGS("-J", "-s", address, "exists", ""), 2, "1 to 255");
    CHECK_EQ(program_run("kvlane", ARGS("-J", "-s", address, "get", "key", "-"), out, err), 1);
    CHECK_STR_EQ(out, "");
}

TEST(kvlane_stat, tells_what_the_node_holds)
{
    json_t *json;

    start_node("tcp");
    write_pattern(file("value"), 777);
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "put", "k", file("value")), out, err), 0);
    CHECK_EQ(program_run("kvlane", ARGS("-J", "-s", address, "stat"), out, err), 0);
    json = json_of(out);
    CHECK_EQ(json_integer_value(json_object_get(json, "keys")), 1);
    CHECK_EQ(json_integer_value(json_object_get(json, "bytes_total")), 60 << 20);
    json_decref(json);
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "stat"), out, err), 0);
    CHECK_MSG(strstr(out, "bytes_total        62914560") != NULL, "%s", out);
}

TEST(kvlane_stat, counts_as_a_miss_what_was_not_there)
{
    start_node("tcp");
    write_pattern(file("value"), 777);
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "put", "k", file("value")), out, err), 0);
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "get", "k", file("copy")), out, err), 0);
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "get", "none", file("copy")), out, err), 1);
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "exists", "k", "none"), out, err), 1);
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "stat"), out, err), 0);
    CHECK_HAS(out, "hits               1\n");
    CHECK_HAS(out, "misses             2\n");
}

TEST(kvlane_stat, fails_with_1_when_nobody_is_there)
{
    CHECK_EQ(program_run("kvlane", ARGS("-T", "2", "-s", "127.0.0.1:9", "stat"), out, err), 1);
    CHECK_MSG(strstr(err, "127.0.0.1:9") != NULL, "%s", err);
}

/* ---- rails that are not there ---- */

static bool has_rdma(void)
{
    DIR *dir = opendir("/sys/class/infiniband");
    const struct dirent *entry;
    bool has = false;

    while (dir && (entry = readdir(dir))) {
        has |= entry->d_name[0] != '.';
    }
    if (dir) {
        closedir(dir);
    }
    return has;
}

/* no way around: nothing falls back to tcp, and what there is is said */
static void refuses_rails(const char *name, const char *const args[], int expected)
{
    int code = program_run(name, args, out, err);

    CHECK_MSG(code == expected, "%s: exit %d, %s%s", name, code, out, err);
    CHECK_MSG(strstr(expected == 1 ? err : out, "there is: ") && strstr(expected == 1 ? err : out, "lo (tcp, up)"),
              "%s: %s%s", name, out, err);
}

TEST(tools_rails, are_refused_by_all_tools_where_there_is_no_rdma)
{
    static const char *const rails[] = {"rdma", "rc", "mlx5_0:1"};

    if (has_rdma()) {
        SKIP("there is an RDMA device here");
    }
    for (size_t i = 0; i < sizeof(rails) / sizeof(rails[0]); i++) {
        setenv("KVLANE_RAILS", rails[i], 1);
        refuses_rails("kvlaned", ARGS("-l", "127.0.0.1:0", "-m", "64M"), 1);
        refuses_rails("kvlane", ARGS("-s", "127.0.0.1:9", "stat"), 1);
        refuses_rails("kvlane_info", ARGS("-s", "127.0.0.1:9"), 1);
        refuses_rails("kvlane_info", ARGS("-c"), 1);
        refuses_rails("kvlane_perftest", ARGS("-p", "0"), 1);
        refuses_rails("kvlane_perftest", ARGS("127.0.0.1:9", "-t", "put"), 1);
        refuses_rails("kvlane_info", ARGS("--doctor"), 2); /* a finding, a failure */
    }
}

TEST(engine_create, refuses_rails_where_there_is_no_rdma)
{
    kvl_node_params_t node_params = {.listen = "127.0.0.1:0", .memory_bytes = 64u << 20};
    kvl_engine_t *engine          = NULL;
    kvl_node_t *here              = NULL;

    KEEPS("UCX is loaded");
    if (has_rdma()) {
        SKIP("there is an RDMA device here");
    }
    setenv("KVLANE_RAILS", "rc", 1);
    CHECK_EQ(kvl_engine_create(NULL, &engine), KVL_ERR_NO_DEVICE);
    CHECK_HAS(kvl_error_text(), "no rail rc is here; there is: ");
    CHECK_HAS(kvl_error_text(), "lo (tcp, up)");
    CHECK_EQ(kvl_node_create(&node_params, &here), KVL_ERR_NO_DEVICE);
    CHECK(engine == NULL && here == NULL);
}

/* ---- kvlane_info ---- */

TEST(kvlane_info_config, names_every_setting_and_what_ucx_gets)
{
    json_t *json, *row;
    bool found = false;
    size_t i;

    setenv("KVLANE_DEPTH", "17", 1);
    CHECK_EQ(program_run("kvlane_info", ARGS("-c", "-J"), out, err), 0);
    unsetenv("KVLANE_DEPTH");
    CHECK(strchr(out, '\n') == strrchr(out, '\n')); /* one line */
    json = json_of(out);
    json_array_foreach(json_object_get(json, "settings"), i, row)
    {
        if (strcmp(json_string_value(json_object_get(row, "name")), "KVLANE_DEPTH") == 0) {
            CHECK_STR_EQ(json_string_value(json_object_get(row, "value")), "17");
            CHECK_STR_EQ(json_string_value(json_object_get(row, "source")), "environment");
            found = true;
        }
    }
    CHECK(found);
    CHECK(json_array_size(json_object_get(json, "ucx_options")) > 0);
    json_decref(json);
    CHECK_EQ(program_run("kvlane_info", ARGS("-c"), out, err), 0);
    CHECK_MSG(strstr(out, "TCP_TX_SEG_SIZE"), "%s", out);
}

/* of a session that moved nothing but its self-test: no errors */
static void has_counters(const json_t *json)
{
    const json_t *parts = json_object_get(json_object_get(json, "engine"), "parts");
    const json_t *pair  = json_array_get(json_object_get(json_array_get(parts, 0), "pairs"), 0);
    const json_t *lane;
    const char *name;

    CHECK_EQ(json_integer_value(json_object_get(pair, "ups")), 1);
    CHECK_EQ(json_integer_value(json_object_get(pair, "fails")), 0);
    CHECK(json_integer_value(json_object_get(pair, "registrations")) > 0);
    CHECK_EQ(json_object_size(json_object_get(pair, "lanes")), 3);
    json_object_foreach(json_object_get(pair, "lanes"), name, lane)
    {
        CHECK_MSG(json_integer_value(json_object_get(lane, "ops")) > 0, "%s: %s", name, out);
        CHECK_EQ(json_integer_value(json_object_get(lane, "completions")),
                 json_integer_value(json_object_get(lane, "ops")));
        CHECK_EQ(json_integer_value(json_object_get(lane, "errors")), 0);
    }
}

TEST(kvlane_info_session, shows_lanes_endpoints_and_the_node)
{
    json_t *json;

    start_node("tcp");
    CHECK_EQ(program_run("kvlane_info", ARGS("-v", "-J"), out, err), 0);
    json_decref(json_of(out));
    CHECK_EQ(program_run("kvlane_info", ARGS("-s", address, "-J"), out, err), 0);
    json = json_of(out);
    CHECK_STR_EQ(json_string_value(json_object_get(json, "transport")), "tcp");
    CHECK_STR_EQ(json_string_value(json_object_get(json, "put_mode")), "message");
    CHECK(json_is_object(json_object_get(json, "engine")));
    CHECK(json_is_object(json_object_get(json, "stat")));
    has_counters(json);
    json_decref(json);
    CHECK_EQ(program_run("kvlane_info", ARGS("-s", address), out, err), 0);
    CHECK_MSG(strstr(out, "lane sg") && strstr(out, "bytes_total"), "%s", out);
}
