/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/common.h"

#include <kvlane/engine.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Else the next socket gets the number, and what is printed goes to a peer. Each is opened for what nobody
 * does with it, so that reading and writing fail as they do on a closed file. */
static void take_standard_files(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) {
            (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
        }
    }
}

static bool setting_add(const char *name, const char *value)
{
    return getenv(name) == NULL && setenv(name, value, 1) == 0;
}

/* UCX takes SIGHUP for its own when it is loaded, also where nohup had it ignored: looked at before that. */
static bool hangup_ignored;

static void look_at_hangup(void)
{
    struct sigaction action;

    hangup_ignored = sigaction(SIGHUP, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

__attribute__((section(".preinit_array"), used)) static void (*const before_libraries)(void) = look_at_hangup;

static void start_anew(char **argv)
{
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);

    if (hangup_ignored) {
        signal(SIGHUP, SIG_IGN);
    }
    if (length > 0) {
        path[length] = '\0';
        (void)execv(path, argv);
    }
    /* the file may have been replaced meanwhile */
    (void)execv("/proc/self/exe", argv);
    /* no /proc: go on; it starts all the same, but for the rare deadlock */
}

static void raise_files(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* what UCX reads while it is loaded, before main */
static const char *const early[][2] = {
    {"UCX_MEM_MMAP_HOOK_MODE", "none"}, /* hooks can deadlock the start */
    {"UCX_ERROR_SIGNALS", ""},          /* a crash is for the user's debugger */
    {"UCX_DEBUG_SIGNO", "0"},           /* a hangup ends a program, or nohup has it ignored */
    {"UCX_LOG_FILE", "stderr"},         /* standard output is for results */
};

void kvl_tool_start(int argc, char **argv)
{
    bool added = false;
    size_t i;

    (void)argc;
    take_standard_files();
    for (i = 0; i < sizeof(early) / sizeof(early[0]); i++) {
        added = setting_add(early[i][0], early[i][1]) || added;
    }
    /* read later: listen again on a port that connections of a killed server still hold */
    (void)setting_add("UCX_CM_REUSEADDR", "y");
    if (added) { /* all are set from now on, so it happens once */
        start_anew(argv);
    }
    raise_files();
}

void kvl_tool_version(FILE *stream, const char *name)
{
    fprintf(stream, "%s %s (UCX %s, %s)\n", name, kvl_version(), kvl_ucx_version(), kvl_ucx_path());
}

static char failure[1024]; /* main thread only: the last one */

static void say(const char *name, const char *format, va_list args)
{
    vsnprintf(failure, sizeof(failure), format, args);
    fflush(stdout);
    fprintf(stderr, "%s: %s\n", name, failure);
}

const char *kvl_tool_failure(void)
{
    return failure;
}

int kvl_tool_failed(const char *name, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(name, format, args);
    va_end(args);
    return KVL_EXIT_FAILED;
}

int kvl_tool_usage(const char *name, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(name, format, args);
    va_end(args);
    fprintf(stderr, "Try `%s --help'.\n", name);
    return KVL_EXIT_USAGE;
}

bool kvl_tool_is_misuse(kvl_status_t status)
{
    return status == KVL_ERR_CONFIG || status == KVL_ERR_INVALID;
}

int kvl_tool_refused(const char *name, kvl_status_t status)
{
    return kvl_tool_is_misuse(status)
               ? kvl_tool_usage(name, "%s", kvl_error_text())
               : kvl_tool_failed(name, "%s", kvl_error_text());
}

int kvl_tool_end(const char *name, int code)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return kvl_tool_failed(name, "cannot write to standard output: %s", strerror(errno));
    }
    return code;
}
