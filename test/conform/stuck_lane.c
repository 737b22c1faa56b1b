/* SPDX-License-Identifier: BSD-3-Clause */
#include "conform/stage.h"
#include "conform/wedge.h"

#include "base/clock.h"
#include "lane/endpoint.h"

#include <kvlane/transport.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* A client dies, or is stopped, in the middle of a message over shared memory: the lane that it stuck
 * starts anew, everybody gets through again by himself, and what was stored is still there. */

#define SIZE     20000
/* where it is not by default, for this reason */
#define CTRL_IN_SHARED_MEMORY {"KVLANE_CTRL_UCX_TLS", "posix,self,tcp"}
#define LIMIT_NS (20 * KVL_SECOND)

/* how often the client's link came up */
static unsigned connects(stage_t *stage)
{
    static const char word[] = "\"connects\": ";
    char text[16384]         = "";
    FILE *stream             = fmemopen(text, sizeof(text), "w");
    const char *found;

    REQUIRE(stream != NULL);
    kvl_engine_print(stage->engine, stream, 1);
    fclose(stream);
    found = strstr(text, word);
    REQUIRE(found != NULL);
    return (unsigned)atoi(found + strlen(word));
}

/* puts until one gets through on a connection of its own, and then everything must */
static void comes_back(stage_t *stage, unsigned connected)
{
    int64_t end = kvl_now_ns() + LIMIT_NS;

    while (connects(stage) == connected || stage_put(stage, "again", 0, SIZE) != KVL_OK) {
        REQUIRE(kvl_now_ns() < end);
        (void)stage_get(stage, "again", SIZE, SIZE);
    }
    memset(stage->pool + SIZE, 0, SIZE);
    CHECK_EQ(stage_get(stage, "before", SIZE, SIZE), KVL_OK);
    CHECK_EQ(differs(stage->pool + SIZE, SIZE, 7), SIZE);
}

static void opens(stage_t *stage)
{
    stage_params_t params = {.rails = "shm", .settings = {{"KVLANE_TIMEOUT", "5s"}, CTRL_IN_SHARED_MEMORY}};

    KEEPS("the old worker is left behind untouched");
    stage_open(stage, &params);
    fill(stage->pool, SIZE, 7);
    CHECK_EQ(stage_put(stage, "before", 0, SIZE), KVL_OK);
}

static void stuck(unsigned lane, int signal)
{
    stage_t stage;
    pid_t pid;

    opens(&stage);
    pid = wedge_start(stage.address, lane, signal, false);
    comes_back(&stage, 1);
    if (pid) { /* it goes on, into a queue that nobody reads any more */
        wedge_continue(pid);
        CHECK_EQ(stage_put(&stage, "after", 0, SIZE), KVL_OK);
        CHECK_EQ(connects(&stage), 2);
    }
    stage_close(&stage);
}

/* an engine that both connects and listens: its own connections use the stuck lane too */
static void stuck_at_home(unsigned lane)
{
    kvl_listener_t *listener;
    char address[128];
    stage_t stage;

    opens(&stage);
    REQUIRE(kvl_listen(stage.engine, "127.0.0.1:0", NULL, NULL, &listener) == KVL_OK);
    REQUIRE(kvl_listener_address(listener, address, sizeof(address)) == KVL_OK);
    wedge_start(address, lane, SIGKILL, true);
    comes_back(&stage, 1);
    kvl_listener_destroy(listener);
    stage_close(&stage);
}

TEST(stuck_lane, ctrl_of_an_engine_that_connects_elsewhere_starts_anew)
{
    stuck_at_home(KVL_LANE_CTRL);
}

TEST(stuck_lane, data_of_an_engine_that_connects_elsewhere_starts_anew)
{
    stuck_at_home(KVL_LANE_DATA);
}

TEST(stuck_lane, ctrl_by_a_client_that_was_killed_starts_anew)
{
    stuck(KVL_LANE_CTRL, SIGKILL);
}

TEST(stuck_lane, data_by_a_client_that_was_killed_starts_anew)
{
    stuck(KVL_LANE_DATA, SIGKILL);
}

TEST(stuck_lane, sg_by_a_client_that_was_killed_starts_anew)
{
    stuck(KVL_LANE_SG, SIGKILL);
}

TEST(stuck_lane, ctrl_by_a_client_that_was_stopped_starts_anew)
{
    stuck(KVL_LANE_CTRL, SIGSTOP);
}

TEST(stuck_lane, data_by_a_client_that_was_stopped_starts_anew)
{
    stuck(KVL_LANE_DATA, SIGSTOP);
}
