/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/shim.h"
#include "system/program.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* kvlane_info --doctor on the box that the tests run on: what it says is compared with what the test finds out by
 * itself. Wrong networks and RDMA are for test/net and test/rdma. */

static char out[PROGRAM_TEXT], err[PROGRAM_TEXT];
static program_t node;
static char address[160];

TEARDOWN
{
    if (node.pid > 0) {
        kill(node.pid, SIGTERM);
        CHECK_EQ(program_end(&node, out, err), 0);
        node.pid = 0;
    }
    unsetenv("KVLANE_RAILS");
}

static void start_node(const char *rails)
{
    setenv("KVLANE_RAILS", rails, 1);
    program_start(&node, "kvlaned", ARGS("-l", "127.0.0.1:0", "-m", "64M"), NULL);
    program_ready(&node, address, sizeof(address));
}

/* the finding of that name in what -J printed; its object belongs to @a json */
static json_t *finding(const json_t *json, const char *name)
{
    json_t *row;
    size_t i;

    json_array_foreach(json_object_get(json, "checks"), i, row)
    {
        if (strcmp(json_string_value(json_object_get(row, "name")), name) == 0) {
            return row;
        }
    }
    CHECK_MSG(false, "no finding \"%s\" in %s", name, out);
    return NULL;
}

static const char *text_of(const json_t *json, const char *name, const char *field)
{
    const char *text = json_string_value(json_object_get(finding(json, name), field));

    return text ? text : "";
}

static json_t *doctor_json(const char *const args[])
{
    json_t *json;
    int code = program_run("kvlane_info", args, out, err);

    CHECK_MSG(code >= 0 && code <= 2, "exit %d: %s", code, err);
    CHECK(strchr(out, '\n') == strrchr(out, '\n')); /* one line */
    json = json_loads(out, 0, NULL);
    CHECK_MSG(json != NULL, "no JSON: %s", out);
    REQUIRE(json != NULL);
    return json;
}

/* every line is "verdict  name: text", the worst of them is the exit code; returns that */
static int doctor_text(const char *const args[])
{
    int code = program_run("kvlane_info", args, out, err), worst = 0;
    char copy[PROGRAM_TEXT], *line, *rest;

    memcpy(copy, out, sizeof(copy));
    for (line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        int verdict = strncmp(line, "ok    ", 6) == 0   ? 0
                      : strncmp(line, "warn  ", 6) == 0 ? 1
                      : strncmp(line, "fail  ", 6) == 0 ? 2
                                                        : -1;

        CHECK_MSG(verdict >= 0 && strstr(line, ": "), "what is that: %s", line);
        worst = verdict > worst ? verdict : worst;
    }
    CHECK_MSG(code == worst, "exit %d: %s", code, out);
    return code;
}

TEST(doctor, tells_the_truth_of_this_box)
{
    json_t *json = doctor_json(ARGS("--doctor", "-J"));
    struct rlimit files;
    struct statvfs shm;
    char text[64];

    REQUIRE(getrlimit(RLIMIT_NOFILE, &files) == 0);
    snprintf(text, sizeof(text), " %llu files",
             (unsigned long long)files.rlim_max); /* tools raise it */
    CHECK_HAS(text_of(json, "files", "text"),
              files.rlim_max == RLIM_INFINITY ? "any number" : text);
    if (statvfs("/dev/shm", &shm) == 0) {
        bool roomy = (unsigned long long)shm.f_bavail * shm.f_frsize >= 1ull << 30;

        CHECK_STR_EQ(roomy ? "ok" : "not asked",
                     roomy ? text_of(json, "/dev/shm", "verdict") : "not asked");
    }
    if (access("/sys/class/infiniband", F_OK) != 0) {
        CHECK_STR_EQ(text_of(json, "rdma", "text"), "no RDMA device is here");
        CHECK_STR_EQ(text_of(json, "memlock", "verdict"), "ok"); /* nothing needs more */
    }
    CHECK_HAS(text_of(json, "port lo", "text"), "loopback");
    CHECK_STR_EQ(text_of(json, "ucx", "verdict"), "ok");
    CHECK_STR_EQ(text_of(json, "rails", "verdict"), "ok");
    json_decref(json);
    CHECK_MSG(doctor_text(ARGS("--doctor")) <= 1, "%s", out);
}

TEST(doctor, measures_a_session_with_a_node_and_leaves_nothing_there)
{
    json_t *json;

    start_node("tcp");
    json = doctor_json(ARGS("--doctor", address, "-J"));
    CHECK_STR_EQ(text_of(json, "reach lo to lo", "verdict"), "ok");
    CHECK_STR_EQ(text_of(json, "transport lo to lo", "text"), "KVLANE_RAILS=tcp gives tcp");
    CHECK_HAS(text_of(json, "latency lo to lo", "text"), " us (median)");
    CHECK_HAS(text_of(json, "bandwidth lo to lo", "text"), "every byte is right");
    json_decref(json);
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "-J", "stat"), out, err), 0);
    json = json_loads(out, 0, NULL);
    CHECK_EQ(json_integer_value(json_object_get(json, "keys")), 0);
    CHECK(json_integer_value(json_object_get(json, "gets")) > 0);
    json_decref(json);
}

TEST(doctor, spares_the_values_of_others_in_a_full_node)
{
    json_t *json;
    char keys[8];
    FILE *file = fopen("/tmp/kvlane_doctor_value", "we");

    REQUIRE(file != NULL && ftruncate(fileno(file), 9 << 20) == 0);
    fclose(file);
    start_node("tcp");
    for (int i = 0; i < 6; i++) { /* 54 of 60 MiB */
        snprintf(keys, sizeof(keys), "key %d", i);
        CHECK_EQ(program_run("kvlane", ARGS("-s", address, "put", keys, "/tmp/kvlane_doctor_value"),
                             out, err),
                 0);
    }
    unlink("/tmp/kvlane_doctor_value");
    json = doctor_json(ARGS("--doctor", address, "-J"));
    CHECK_HAS(text_of(json, "bandwidth lo to lo", "text"), "not measured");
    json_decref(json);
    CHECK_EQ(program_run("kvlane", ARGS("-s", address, "exists", "key 0", "key 5"), out, err), 0);
}

TEST(doctor, tries_each_rail_alone_and_says_where_the_routes_go)
{
    json_t *json;

    start_node("tcp");
    CHECK_EQ(program_run("kvlane_info", ARGS("--doctor", "-J"), out, err) <= 1, 1);
    if (!strstr(out, "\"port eth0\"")) {
        SKIP("no eth0 here");
    }
    setenv("KVLANE_RAILS", "lo,eth0", 1);
    json = doctor_json(ARGS("--doctor", address, "-J"));
    CHECK_STR_EQ(text_of(json, "reach lo to lo", "verdict"), "ok");
    CHECK_STR_EQ(text_of(json, "reach eth0 to lo", "verdict"), "fail");
    CHECK_HAS(text_of(json, "reach eth0 to lo", "way_out"),
              "by lo, not by this rail: it is on another network");
    json_decref(json);
    setenv("KVLANE_RAILS", "eth0", 1); /* alone it gets there, but not by eth0 */
    json = doctor_json(ARGS("--doctor", address, "-J"));
    CHECK_STR_EQ(text_of(json, "reach eth0 to lo", "verdict"), "warn");
    CHECK_HAS(text_of(json, "reach eth0 to lo", "text"), "by lo, not by this rail");
    json_decref(json);
}

TEST(doctor, fails_soon_when_nobody_is_there)
{
    struct timespec begin, end;

    clock_gettime(CLOCK_MONOTONIC, &begin);
    CHECK_EQ(doctor_text(ARGS("--doctor", "127.0.0.1:9")), 2);
    clock_gettime(CLOCK_MONOTONIC, &end);
    CHECK(end.tv_sec - begin.tv_sec < 30); /* bounded, not fast */
    CHECK_HAS(out, "fail  reach lo to 127.0.0.1:9: ");
    CHECK_HAS(out, "(start kvlaned there");
    CHECK_EQ(program_run("kvlane_info", ARGS("--doctor", "no port"), out, err), 2);
    CHECK_HAS(err, "HOST:PORT");
}

/* Tools raise the limit to the hard one, which does not go up again: it is lowered in a child. */
static int doctor_with_files(rlim_t files, const char *says)
{
    const struct rlimit limit = {.rlim_cur = files, .rlim_max = files};
    int status                = 0;
    pid_t pid                 = fork();

    REQUIRE(pid >= 0);
    if (pid == 0) {
        int code = setrlimit(RLIMIT_NOFILE, &limit) == 0 ? doctor_text(ARGS("--doctor")) : 98;

        _exit(strstr(out, says) ? code : 97);
    }
    REQUIRE(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(doctor, does_not_start_ucx_with_too_few_files)
{
    CHECK_EQ(doctor_with_files(40, "fail  rails: not tried"), 2);
    CHECK_EQ(doctor_with_files(200, "warn  files: a process may open 200 files"), 1);
}

TEST(doctor, fails_when_what_is_asked_for_is_not_there)
{
    setenv("KVLANE_RAILS", "nowhere0", 1);
    CHECK_EQ(doctor_text(ARGS("--doctor")), 2);
    CHECK_HAS(out, "fail  rails: KVLANE_RAILS=nowhere0: no rail nowhere0 is here; there is: ");
    CHECK_HAS(out, "lo (tcp, up)");
    setenv("KVLANE_RAILS", "tcp", 1);
    setenv("KVLANE_UCX_TLS", "tcp", 1);
    CHECK_EQ(doctor_text(ARGS("--doctor")) <= 1, 1);
    unsetenv("KVLANE_UCX_TLS");
    CHECK_HAS(out, "left to UCX");
    setenv("KVLANE_DEPTH", "many", 1);
    CHECK_EQ(doctor_text(ARGS("--doctor")), 2);
    unsetenv("KVLANE_DEPTH");
    CHECK_HAS(out, "KVLANE_DEPTH");
    setenv("KVLANE_X", "1", 1);
    CHECK_EQ(doctor_text(ARGS("--doctor")), 2);
    unsetenv("KVLANE_X");
    CHECK_HAS(out, "KVLANE_X (environment): no such setting; `kvlane_info -c` lists all\n"); /* once */
}
