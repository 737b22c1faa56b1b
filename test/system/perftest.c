/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/shim.h"
#include "system/program.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* kvlane_perftest: every test runs over tcp and shared memory, wrong bytes are seen, and nothing is left
 * behind. Numbers are not judged here. */

static char out[PROGRAM_TEXT], err[PROGRAM_TEXT];

TEARDOWN
{
    unsetenv("KVLANE_FAULT");
    unsetenv("KVLANE_TIMEOUT");
}

static json_t *last_line(void)
{
    char *end = out + strlen(out), *line;
    json_t *json;

    if (end > out && end[-1] == '\n') {
        *--end = '\0';
    }
    line = strrchr(out, '\n');
    json = json_loads(line ? line + 1 : out, 0, NULL);
    CHECK_MSG(json != NULL, "the last line is no JSON: %s%s", out, err);
    REQUIRE(json != NULL);
    return json;
}

static json_int_t number(const json_t *result, const char *name)
{
    return json_integer_value(json_object_get(result, name));
}

/* Names that scripts rely on. */
static void check_names(const json_t *result)
{
    static const char *const names[] = {
        "test",
        "transport",
        "mode",
        "size",
        "segments",
        "batch",
        "depth",
        "endpoints",
        "items",
        "bytes",
        "seconds",
        "gbps",
        "p50_us",
        "p99_us",
        "cpu_s_per_gb_client",
        "cpu_s_per_gb_server",
        "verified_bytes",
        "wrong_bytes",
    };

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        CHECK_MSG(json_object_get(result, names[i]) != NULL, "%s is not there", names[i]);
    }
}

/* Runs `-l -J -f -m 96M -x RAILS` and more; the result. */
static json_t *run_local(const char *rails, const char *const more[])
{
    const char *args[32] = {"-l", "-J", "-f", "-m", "96M", "-x", rails};
    unsigned count       = 7;
    json_t *result;
    int code;

    while (*more) {
        REQUIRE(count < 31);
        args[count++] = *more++;
    }
    code = program_run("kvlane_perftest", args, out, err);
    CHECK_MSG(code == 0, "exit code %d: %s", code, err);
    REQUIRE(code == 0);
    result = last_line();
    check_names(result);
    CHECK_EQ(number(result, "wrong_bytes"), 0);
    return result;
}

static void moves_and_verifies(const char *rails, const char *const more[])
{
    json_t *result = run_local(rails, more);

    CHECK(number(result, "bytes") > 0);
    CHECK_EQ(number(result, "verified_bytes"), number(result, "bytes"));
    CHECK(json_real_value(json_object_get(result, "gbps")) > 0);
    /* plain UCX too: it is what kvlane is compared with */
    CHECK_STR_EQ(json_string_value(json_object_get(result, "transport")),
                 strcmp(rails, "shm") == 0 ? "posix" : rails);
    json_decref(result);
}

static void every_moving_test(const char *rails)
{
    static const char *const raw[] = {"raw_am", "raw_put", "raw_get"};
    static const char *const own[] = {"put", "get", "sg_put", "sg_get"};
    unsigned i;

    for (i = 0; i < sizeof(raw) / sizeof(raw[0]); i++) {
        moves_and_verifies(rails, ARGS("-t", raw[i], "-s", "100000", "-n", "70", "-b", "16"));
    }
    for (i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        moves_and_verifies(rails, ARGS("-t", own[i], "-s", "4296:13", "-n", "70", "-b", "16"));
    }
    moves_and_verifies(rails, ARGS("-t", "put", "-s", "1", "-n", "40"));
    moves_and_verifies(rails, ARGS("-t", "get", "-s", "3000000", "-n", "40"));
}

TEST(perftest_local, moves_and_verifies_over_tcp)
{
    every_moving_test("tcp");
}

TEST(perftest_local, moves_and_verifies_over_shared_memory)
{
    every_moving_test("shm");
}

static void lookups(const char *rails)
{
    static const char *const names[] = {"exists_idle_p50_us", "exists_idle_p99_us",
                                        "exists_bulk_p50_us", "exists_bulk_p99_us"};
    json_t *result                   = run_local(rails, ARGS("-t", "exists", "-n", "12800"));

    CHECK_EQ(number(result, "items"), 12800);
    CHECK(json_real_value(json_object_get(result, "p50_us")) > 0);
    json_decref(result);
    result = run_local(rails, ARGS("-t", "am_lat", "-n", "500"));
    CHECK(json_real_value(json_object_get(result, "p50_us")) > 0);
    json_decref(result);
    result = run_local(rails, ARGS("-t", "mixed", "-n", "12800", "-T", "1", "-s", "256K"));
    for (unsigned i = 0; i < 4; i++) {
        CHECK_MSG(json_real_value(json_object_get(result, names[i])) > 0, "%s", names[i]);
    }
    CHECK(number(result, "bytes") > 0);
    CHECK(number(result, "verified_bytes") > 0);
    json_decref(result);
}

TEST(perftest_local, looks_up_idle_and_beside_a_mover_over_tcp)
{
    lookups("tcp");
}

TEST(perftest_local, looks_up_idle_and_beside_a_mover_over_shared_memory)
{
    lookups("shm");
}

static void retrieves(const char *rails)
{
    json_t *result =
        run_local(rails, ARGS("-t", "retrieve", "--tokens", "4000", "--layers", "7",
                              "--page-tokens", "16", "--bytes-per-token-layer", "100"));

    CHECK_EQ(number(result, "items"), 250);
    CHECK_EQ(number(result, "bytes"), 250 * 7 * 16 * 100);
    CHECK_EQ(number(result, "verified_bytes"), 250 * 7 * 16 * 100);
    CHECK_EQ(number(result, "tokens"), 4000);
    json_decref(result);
}

TEST(perftest_local, retrieves_a_prefix_over_tcp)
{
    retrieves("tcp");
}

TEST(perftest_local, retrieves_a_prefix_over_shared_memory)
{
    retrieves("shm");
}

/* ---- traces ---- */

/* Requests of 1 to 12 blocks in conversations that grow; the hits are counted by hand: block b of a
 * request was seen before if the same conversation came earlier with more than b blocks. */
#define CONVERSATIONS 20
#define TURNS         10

static unsigned write_trace(const char *path, unsigned *blocks_p)
{
    unsigned seen[CONVERSATIONS] = {0}, hits = 0, blocks = 0;
    FILE *stream = fopen(path, "we");

    REQUIRE(stream != NULL);
    for (unsigned turn = 0; turn < TURNS; turn++) {
        for (unsigned c = 0; c < CONVERSATIONS; c++) {
            unsigned length = 1 + (turn + c * 7) % 12;

            fprintf(
                stream,
                "{\"timestamp\": %u, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [",
                turn);
            for (unsigned b = 0; b < length; b++) {
                fprintf(stream, "%s%u", b ? ", " : "", c * 100 + b);
            }
            fprintf(stream, "]}\n");
            hits += length < seen[c] ? length : seen[c];
            seen[c] = length > seen[c] ? length : seen[c];
            blocks += length;
        }
    }
    REQUIRE(fclose(stream) == 0);
    *blocks_p = blocks;
    return hits;
}

static void replays(const char *rails)
{
    char path[] = "/tmp/kvlane_trace_XXXXXX";
    int fd      = mkstemp(path);
    unsigned hits, blocks;
    json_t *result;

    REQUIRE(fd >= 0);
    close(fd);
    hits   = write_trace(path, &blocks);
    result = run_local(rails, ARGS("-t", "trace", "--trace", path, "--bytes-per-block", "9000"));
    CHECK_EQ(number(result, "requests"), CONVERSATIONS * TURNS);
    CHECK_EQ(number(result, "blocks"), blocks);
    CHECK_EQ(number(result, "hits"), hits);
    CHECK_EQ(number(result, "items"), blocks);
    CHECK(number(result, "verified_bytes") > 0);
    json_decref(result);
    unlink(path);
}

TEST(perftest_local, replays_a_trace_over_tcp)
{
    replays("tcp");
}

TEST(perftest_local, replays_a_trace_over_shared_memory)
{
    replays("shm");
}

TEST(perftest_trace, names_the_line_that_is_none)
{
    char path[] = "/tmp/kvlane_trace_XXXXXX";
    int fd      = mkstemp(path);

    REQUIRE(fd >= 0);
    CHECK_EQ(write(fd, "{\"hash_ids\": [1]}\n{\"hash_ids\": 1}\n", 34), 34);
    close(fd);
    CHECK_EQ(program_run("kvlane_perftest", ARGS("-l", "-t", "trace", "--trace", path), out, err),
             1);
    CHECK_MSG(strstr(err, ":2:") != NULL, "%s", err);
    unlink(path);
}

/* the published trace, where there is one: KVLANE_TRACES, or ../shared/traces beside the source */
TEST(perftest_trace, replays_the_beginning_of_a_real_one)
{
    const char *folder = getenv("KVLANE_TRACES");
    char path[4200];
    json_t *result;

    snprintf(path, sizeof(path), "%s/conversation_trace.jsonl",
             folder ? folder : shim_source("../shared/traces"));
    if (access(path, R_OK) != 0) {
        SKIP("no conversation_trace.jsonl in KVLANE_TRACES or ../shared/traces");
    }
    result = run_local("shm", ARGS("-t", "trace", "--trace", path, "--requests", "200",
                                   "--bytes-per-block", "4096"));
    CHECK_EQ(number(result, "requests"), 200);
    json_decref(result);
}

/* ---- wrong bytes ---- */

TEST(perftest_verify, sees_a_wrong_byte_in_every_test)
{
    static const char *const names[] = {"memcpy", "raw_am", "raw_put", "raw_get",
                                        "put",    "get",    "sg_put",  "sg_get"};

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *const args[] = {"-l",  "-J", "-f",     "-m",        "96M",    "-x",
                                    "tcp", "-t", names[i], "-s",        "5000:2", "-n",
                                    "40",  "-w", "0",      "--corrupt", "10",     NULL};
        json_t *result;

        CHECK_EQ(program_run("kvlane_perftest", args, out, err), 1);
        CHECK_MSG(strstr(err, "wrong bytes") != NULL, "%s: %s", names[i], err);
        result = last_line();
        CHECK_EQ(number(result, "wrong_bytes"), 4);
        CHECK_STR_EQ(json_string_value(json_object_get(result, "error")), "4 wrong bytes");
        json_decref(result);
    }
}

/* ---- what people read ---- */

TEST(perftest_output, is_a_table_or_csv_with_a_head)
{
    char *line, *rest;
    unsigned commas[2] = {0, 0};

    CHECK_EQ(program_run("kvlane_perftest", ARGS("-t", "memcpy,memcpy", "-s", "100K", "-n", "50"),
                         out, err),
             0);
    CHECK_MSG(strstr(out, "GB/s") != NULL && strstr(out, "memcpy") != NULL, "%s", out);
    CHECK_EQ(program_run("kvlane_perftest", ARGS("-t", "memcpy", "-s", "100K", "-n", "50", "-v"),
                         out, err),
             0);
    line = strtok_r(out, "\n", &rest);
    for (unsigned i = 0; i < 2 && line; i++, line = strtok_r(NULL, "\n", &rest)) {
        for (const char *at = line; *at; at++) {
            commas[i] += *at == ',';
        }
    }
    CHECK(commas[0] >= 17);
    CHECK_EQ(commas[0], commas[1]);
}

TEST(perftest_plot, is_refused_before_anything_is_measured)
{
    CHECK_EQ(program_run("kvlane_perftest",
                         ARGS("-t", "memcpy", "-n", "50", "--plot", "/nowhere/plot.png"), out, err),
             1);
    CHECK_MSG(strstr(err, "/nowhere/plot.png: No such file") && !out[0], "%s%s", out, err);
}

/* A run with -J that fails: its only line says why. */
static void fails_in_json(const char *const args[], int code, const char *test, const char *why)
{
    const char *error;
    json_t *result;

    CHECK_EQ(program_run("kvlane_perftest", args, out, err), code);
    CHECK_MSG(strchr(out, '\n') && strchr(out, '\n')[1] == '\0', "not one line: %s", out);
    result = last_line();
    error  = json_string_value(json_object_get(result, "error"));
    CHECK_STR_EQ(json_string_value(json_object_get(result, "test")), test);
    CHECK_MSG(error && strstr(error, why) && strstr(err, error), "%s, and on stderr %s", out, err);
    json_decref(result);
}

TEST(perftest_output, says_in_json_why_a_run_failed)
{
    fails_in_json(ARGS("-J", "-t", "put", "127.0.0.1:9"), 1, "put", "127.0.0.1:9");
    fails_in_json(ARGS("-J", "-t", "raw_am", "127.0.0.1:9"), 1, "raw_am", "needs one");
    fails_in_json(ARGS("-J", "-l", "-t", "sw\"im"), 2, "sw\"im", "no such test");
    fails_in_json(ARGS("-J", "-l", "-m", "1M", "-t", "put", "-s", "4M"), 1, "put", "more memory");
    setenv("KVLANE_UCX_NONE", "1", 1);
    fails_in_json(ARGS("-J", "-l", "-t", "get", "-m", "16M"), 2, "get", "could not start");
    unsetenv("KVLANE_UCX_NONE");
}

/* ---- the other side ---- */

TEST(perftest_server, serves_one_client_and_ends)
{
    char address[160];
    program_t server;

    program_start(&server, "kvlane_perftest", ARGS("-p", "0", "-m", "96M", "-x", "tcp"), NULL);
    program_ready(&server, address, sizeof(address));
    kill(server.pid, SIGTERM);
    CHECK_EQ(program_end(&server, out, err), 0);
    CHECK_MSG(!err[0], "%s", err);
}

TEST(perftest_client, runs_against_kvlaned_and_says_what_cannot_run)
{
    char address[160], port[16];
    program_t node;
    json_t *result;

    setenv("KVLANE_RAILS", "tcp", 1);
    program_start(&node, "kvlaned", ARGS("-l", "127.0.0.1:0", "-m", "96M"), NULL);
    program_ready(&node, address, sizeof(address));
    CHECK_EQ(program_run("kvlane_perftest",
                         ARGS("-J", "-t", "put", "-s", "100K", "-n", "40", address), out, err),
             0);
    result = last_line();
    check_names(result);
    CHECK(json_is_null(json_object_get(result, "cpu_s_per_gb_server")));
    CHECK_EQ(number(result, "verified_bytes"), 40 * 102400);
    json_decref(result);
    snprintf(port, sizeof(port), "%s", strrchr(address, ':') + 1);
    CHECK_EQ(
        program_run("kvlane_perftest", ARGS("-t", "raw_am", "-p", port, "127.0.0.1"), out, err), 1);
    CHECK_MSG(strstr(err, "needs one") != NULL, "%s", err);
    kill(node.pid, SIGTERM);
    CHECK_EQ(program_end(&node, out, err), 0);
    unsetenv("KVLANE_RAILS");
}

static void pause_ms(unsigned ms)
{
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000l};

    nanosleep(&time, NULL);
}

/* Starts a long test, waits until its other side is there, and ends it by @a signal_number. */
static int end_by(int signal_number, const char *test)
{
    pid_t children[8];
    char segments[4096] = "";
    program_t client;
    unsigned count = 0;
    int code;

    program_start(
        &client, "kvlane_perftest",
        ARGS("-J", "-l", "-f", "-m", "96M", "-x", "shm", "-t", test, "-s", "256K", "-n", "100000000"),
        NULL);
    for (unsigned i = 0; i < 1000 && count == 0; i++) {
        pause_ms(20);
        count = program_children(client.pid, children, 8);
    }
    CHECK_EQ(count, 1);
    pause_ms(1500);
    program_segments(client.pid, segments, sizeof(segments));
    program_segments(children[0], segments, sizeof(segments));
    kill(client.pid, signal_number);
    code = program_end(&client, out, err);
    for (unsigned i = 0; i < count; i++) {
        CHECK_EQ(program_gone(children[i]), 0);
    }
    CHECK_EQ(program_segments_left(segments), 0);
    return code;
}

TEST(perftest_local, refuses_tests_and_sizes_that_make_no_sense)
{
    CHECK_EQ(program_run("kvlane_perftest", ARGS("-l", "-t", ","), out, err), 2);
    CHECK_HAS(err, "names no test");
    CHECK_EQ(program_run("kvlane_perftest",
                         ARGS("-l", "-t", "retrieve", "--page-tokens", "65536",
                              "--bytes-per-token-layer", "256T"),
                         out, err),
             2);
    CHECK_HAS(err, "more than 1 TiB");
}

TEST(perftest_local, ends_cleanly_when_it_is_interrupted)
{
    CHECK_EQ(end_by(SIGINT, "put"), 1);
    CHECK_MSG(strstr(err, "stopped by a signal") != NULL, "%s", err);
    CHECK_STR_EQ(out, "{\"test\": \"put\", \"error\": \"stopped by a signal\"}\n");
    CHECK_EQ(end_by(SIGTERM, "raw_put"), 1);
    CHECK_MSG(strstr(err, "stopped by a signal") != NULL, "%s", err);
}

TEST(perftest_local, takes_its_other_side_with_it_when_it_is_killed)
{
    CHECK_EQ(end_by(SIGKILL, "put"), 256 + SIGKILL);
    CHECK_EQ(end_by(SIGKILL, "raw_am"), 256 + SIGKILL);
}

TEST(perftest_local, says_that_the_node_refuses)
{
    setenv("KVLANE_FAULT", "node.reserve:fail@20+", 1);
    setenv("KVLANE_TIMEOUT", "1s", 1); /* until then it asks again */
    CHECK_EQ(
        program_run("kvlane_perftest",
                    ARGS("-l", "-m", "96M", "-x", "tcp", "-t", "put", "-s", "100K", "-n", "500"),
                    out, err),
        1);
    CHECK_MSG(strstr(err, "batch of") != NULL, "%s", err);
}
