/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perftest/child.h"

#include "tools/perftest/perftest.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STOP_MS 10000

/* in the child, between fork and exec: only what is async-signal-safe */
static void child_exec(const char *const *argv, pid_t parent, int output, int keep)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) {
        _exit(1);
    }
    /* ^C and the like go to a whole group; the parent tells its children what to do */
    setpgid(0, 0);
    if (output >= 0) {
        dup2(output, STDOUT_FILENO);
    }
    if (keep >= 0) {
        fcntl(keep, F_SETFD, 0);
    }
    execv("/proc/self/exe", (char *const *)argv);
    _exit(127);
}

static int child_fork(pid_t *pid_p, const char *const *argv, int output, int keep)
{
    pid_t parent = getpid();
    pid_t pid;

    fflush(stdout);
    fflush(stderr);
    pid = fork();
    if (pid < 0) {
        return perf_fail("fork: %s", strerror(errno));
    }
    if (pid == 0) {
        child_exec(argv, parent, output, keep);
    }
    *pid_p = pid;
    return 0;
}

int perf_child_spawn(pid_t *pid_p, const char *const *argv, int keep)
{
    return child_fork(pid_p, argv, -1, keep);
}

int perf_child_start(perf_child_t *child, const char *const *argv, int keep)
{
    int ends[2];
    int status;

    child->pid = 0;
    perf_channel_init(&child->output, -1);
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return perf_fail("pipe: %s", strerror(errno));
    }
    status = child_fork(&child->pid, argv, ends[1], keep);
    close(ends[1]);
    if (status) {
        close(ends[0]);
        return -1;
    }
    perf_channel_init(&child->output, ends[0]);
    return 0;
}

static int reap(perf_child_t *child, int options)
{
    int status;
    pid_t pid = waitpid(child->pid, &status, options);

    if (pid == 0 || (pid < 0 && errno == EINTR)) {
        return -1;
    }
    child->pid = 0;
    perf_channel_close(&child->output);
    if (pid < 0) {
        return 1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int perf_child_wait(perf_child_t *child, int timeout_ms)
{
    const struct timespec pause = {.tv_nsec = 2 * 1000 * 1000};
    double until                = perf_now() + timeout_ms * 1e-3;
    int code;

    while ((code = reap(child, WNOHANG)) < 0 &&
           (timeout_ms < 0 ? !perf_stopped() : perf_now() < until)) {
        nanosleep(&pause, NULL);
    }
    return code;
}

int perf_child_stop(perf_child_t *child)
{
    pid_t pid = child->pid;
    int code;

    if (pid == 0) {
        return 0;
    }
    kill(pid, SIGTERM);
    code = perf_child_wait(child, STOP_MS);
    if (code < 0) {
        kill(pid, SIGKILL);
        reap(child, 0);
        return perf_fail("process %d, started from here, did not end; it was killed", (int)pid);
    }
    return code == 0 ? 0
                     : perf_fail("process %d, started from here, ended with %s %d", (int)pid,
                                 code > 128 ? "signal" : "code", code > 128 ? code - 128 : code);
}
