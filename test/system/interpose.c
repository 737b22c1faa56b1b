/* SPDX-License-Identifier: BSD-3-Clause */
#include "system/interpose.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the lanes do, told by a witness outside of kvlane: every call into UCP of both processes. Lanes
 * are numbered as in src/lane: 0 ctrl, 1 data, 2 sg. */

enum { CTRL, DATA, SG };

#define ENDPOINTS 8 /* KVLANE_SG_ENDPOINTS, by default */
#define ITEMS     640
#define TEXT_OF(number)  TEXT_OF_(number)
#define TEXT_OF_(number) #number

/* ---- runs ---- */

void interpose_open(interpose_t *interpose)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    SKIP("the interposer cannot be loaded before a sanitizer");
#endif
    *interpose = (interpose_t){.folder = "/tmp/kvlane-interpose-XXXXXX"};
    snprintf(interpose->preload, sizeof(interpose->preload), "%s",
             shim_built(".libs/libinterpose.so"));
    if (access(interpose->preload, R_OK) != 0) {
        SKIP("no libinterpose.so in the build folder");
    }
    REQUIRE(mkdtemp(interpose->folder) != NULL);
    snprintf(interpose->pattern, sizeof(interpose->pattern), "%s/%%p.json", interpose->folder);
    interpose->settings[0] = (box_setting_t){"LD_PRELOAD", interpose->preload};
    interpose->settings[1] = (box_setting_t){"KVLANE_TEST_INTERPOSE_OUT", interpose->pattern};
}

void interpose_read(interpose_t *interpose)
{
    DIR *dir = opendir(interpose->folder);
    struct dirent *entry;
    char path[512];

    REQUIRE(dir != NULL);
    while ((entry = readdir(dir)) != NULL) {
        json_error_t error;
        json_t *report;

        if (entry->d_name[0] == '.') {
            continue;
        }
        snprintf(path, sizeof(path), "%s/%s", interpose->folder, entry->d_name);
        report = json_load_file(path, 0, &error);
        CHECK_MSG(report != NULL, "%s: %s", path, error.text);
        unlink(path);
        if (report && interpose->count < INTERPOSE_REPORTS) {
            interpose->reports[interpose->count++] = report;
        }
    }
    closedir(dir);
}

void interpose_close(interpose_t *interpose)
{
    size_t i;

    for (i = 0; i < interpose->count; i++) {
        json_decref(interpose->reports[i]);
    }
    rmdir(interpose->folder);
}

json_int_t interpose_count(const json_t *object, const char *counter, const char *which)
{
    return json_integer_value(json_object_get(json_object_get(object, counter), which));
}

void interpose_check_end(const json_t *report)
{
    CHECK_EQ(interpose_count(report, "contexts", "open"), 0);
    CHECK_EQ(json_integer_value(json_object_get(report, "workers_open")), 0);
    CHECK_EQ(json_integer_value(json_object_get(report, "endpoints_open")), 0);
    CHECK_EQ(interpose_count(report, "mems", "current"), 0);
    CHECK_EQ(interpose_count(report, "rkeys", "current"), 0);
    CHECK_EQ(interpose_count(report, "listeners", "current"), 0);
    CHECK_EQ(interpose_count(report, "requests", "current"), 0);
}

/* ---- what holds for a process ---- */

static json_int_t number(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

/* One rail: a worker for each lane. data and sg share a context, ctrl has its own. */
static void check_workers(const json_t *report)
{
    json_t *workers = json_object_get(report, "workers"), *worker;
    unsigned seen[SG + 1] = {0};
    size_t context[SG + 1], i, lane;

    json_array_foreach(workers, i, worker)
    {
        lane = (size_t)number(worker, "lane");
        REQUIRE(lane <= SG);
        seen[lane]++;
        context[lane] = (size_t)number(worker, "context");
    }
    for (lane = CTRL; lane <= SG; lane++) {
        CHECK_MSG(seen[lane] == 1, "%u workers for lane %zu", seen[lane], lane);
    }
    if (seen[CTRL] && seen[DATA] && seen[SG]) {
        CHECK_EQ(context[DATA], context[SG]);
        CHECK(context[CTRL] != context[SG]);
    }
}

/* What went through each endpoint fits its lane; returns how many sg endpoints carried data. */
static unsigned check_endpoints(const json_t *report)
{
    json_t *endpoints = json_object_get(report, "endpoints"), *ep;
    unsigned sg = 0, busy = 0;
    size_t i;

    json_array_foreach(endpoints, i, ep)
    {
        json_int_t lane = number(ep, "lane");
        json_int_t data = interpose_count(ep, "data", "total");
        json_int_t all =
            data + interpose_count(ep, "reply", "total") + interpose_count(ep, "receive", "total");

        CHECK_EQ(number(ep, "failed"), 0);
        if (lane == CTRL) {
            CHECK_EQ(all, 0);
        } else { /* the one control message names the endpoint */
            CHECK_MSG(interpose_count(ep, "control", "total") <= 1, "lane %d carried control",
                      (int)lane);
        }
        if (lane == SG) {
            sg++;
            busy += data >= ITEMS / ENDPOINTS / 4; /* looks at a mapping are few */
            CHECK_MSG(interpose_count(ep, "data", "max") <= 1, "an sg endpoint had %d ops",
                      (int)interpose_count(ep, "data", "max"));
            CHECK(interpose_count(ep, "reply", "max") <= 1);
            CHECK(interpose_count(ep, "receive", "max") <= 1);
        }
    }
    CHECK_EQ(sg, ENDPOINTS);
    return busy;
}

static void run_perftest(const interpose_t *interpose, const char *rails, const char *test)
{
    const char *argv[]  = {shim_built("kvlane_perftest"),
                           "-l",
                           "-J",
                           "-f",
                           "-m",
                           "96M",
                           "-x",
                           rails,
                           "-t",
                           test,
                           "-s",
                           "4296:61",
                           "-b",
                           "32",
                           "-n",
                           TEXT_OF(ITEMS),
                           NULL};
    box_child_t child   = {.pid = 0};
    box_setting_t set[] = {interpose->settings[0], interpose->settings[1], {NULL, NULL}};
    char line[4096];
    json_t *result;
    int code;

    box_spawn(&child, argv, set);
    CHECK_MSG(box_line(&child, line, sizeof(line), 60000), "no result of kvlane_perftest");
    result = json_loads(line, 0, NULL);
    REQUIRE(result != NULL);
    CHECK_EQ(number(result, "wrong_bytes"), 0);
    CHECK_EQ(number(result, "verified_bytes"), ITEMS * 61 * 4296);
    CHECK_EQ(number(result, "endpoints"), ENDPOINTS);
    json_decref(result);
    code = box_wait(&child, 30000);
    CHECK_EQ(code, 0);
}

TEARDOWN
{
    box_kill_all();
}

static void lanes_keep_apart(const char *rails, const char *test)
{
    unsigned busy = 0;
    interpose_t interpose;
    size_t i;

    interpose_open(&interpose);
    run_perftest(&interpose, rails, test);
    interpose_read(&interpose);
    CHECK_EQ(interpose.count, 2); /* client and node */
    for (i = 0; i < interpose.count; i++) {
        interpose_check_end(interpose.reports[i]);
        check_workers(interpose.reports[i]);
        busy += check_endpoints(interpose.reports[i]);
    }
    CHECK_EQ(busy, ENDPOINTS); /* all of the client's, which alone starts ops */
    interpose_close(&interpose);
}

TEST(interpose_lanes, keep_apart_and_all_sg_endpoints_work_in_sg_put_over_tcp)
{
    lanes_keep_apart("tcp", "sg_put");
}

TEST(interpose_lanes, keep_apart_and_all_sg_endpoints_work_in_sg_get_over_tcp)
{
    lanes_keep_apart("tcp", "sg_get");
}

TEST(interpose_lanes, keep_apart_and_all_sg_endpoints_work_in_sg_put_over_shared_memory)
{
    lanes_keep_apart("shm", "sg_put");
}

TEST(interpose_lanes, keep_apart_and_all_sg_endpoints_work_in_sg_get_over_shared_memory)
{
    lanes_keep_apart("shm", "sg_get");
}
