/* SPDX-License-Identifier: BSD-3-Clause */
#include "conform/wedge.h"

#include "conform/raw.h"
#include "shim/shim.h"

#include "lane/endpoint.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE 4096

static void *page;
static int last_signal;

/* UCX took its place in the node's queue and copies: here it ends, or stops */
static void on_fault(int signal)
{
    (void)signal;
    mprotect(page, SIZE, PROT_READ | PROT_WRITE);
    raise(last_signal);
}

/* A process of its own: what wedge_start() runs. */
TEST(wedge, is_what_another_test_runs)
{
    const char *address     = getenv("KVL_TEST_WEDGE");
    struct sigaction action = {.sa_handler = on_fault};
    unsigned lane;
    raw_t raw;

    if (!address) {
        SKIP("run by the tests of stuck lanes, as a process of its own");
    }
    lane        = (unsigned)atoi(getenv("KVL_TEST_WEDGE_LANE"));
    last_signal = atoi(getenv("KVL_TEST_WEDGE_SIGNAL"));
    raw_open(&raw, "shm", address);
    raw.transport = getenv("KVL_TEST_WEDGE_TRANSPORT") != NULL;
    raw_login(&raw);
    raw_bind(&raw, lane == KVL_LANE_CTRL ? KVL_LANE_DATA : lane);
    page = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(page != MAP_FAILED && sigaction(SIGSEGV, &action, NULL) == 0);
    raw_bytes(&raw, lane, lane == KVL_LANE_CTRL ? KVL_AM_CTRL : KVL_AM_EP_HELLO, page, SIZE / 4);
    raw_step(&raw, 200);
    raw_close(&raw);
}

pid_t wedge_start(const char *address, unsigned lane, int signal, bool transport)
{
    char lane_text[16], signal_text[16];
    int status;
    pid_t pid;

    snprintf(lane_text, sizeof(lane_text), "%u", lane);
    snprintf(signal_text, sizeof(signal_text), "%d", signal);
    pid = fork();
    if (pid == 0) {
        close_range(3, ~0u, 0); /* UCX's sockets would live on in it */
        setenv("KVL_TEST_WEDGE", address, 1);
        setenv("KVL_TEST_WEDGE_LANE", lane_text, 1);
        setenv("KVL_TEST_WEDGE_SIGNAL", signal_text, 1);
        if (transport) {
            setenv("KVL_TEST_WEDGE_TRANSPORT", "1", 1);
        }
        unsetenv("GTEST_OUTPUT");
        execl("/proc/self/exe", "test_conform", "--gtest_filter=wedge.*", NULL);
        _exit(127);
    }
    REQUIRE(pid > 0);
    REQUIRE(waitpid(pid, &status, WUNTRACED) == pid);
    if (signal == SIGSTOP) {
        CHECK(WIFSTOPPED(status));
        return pid;
    }
    CHECK_MSG(WIFSIGNALED(status) && WTERMSIG(status) == signal, "it ended with %x", (unsigned)status);
    return 0;
}

void wedge_continue(pid_t pid)
{
    int status;

    REQUIRE(kill(pid, SIGCONT) == 0 && waitpid(pid, &status, 0) == pid);
    CHECK_EQ(status, 0);
}
