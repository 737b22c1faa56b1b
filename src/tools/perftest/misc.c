/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perftest/perftest.h"

#include "tools/common.h"

#include "base/clock.h"

#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* what the watchdog says when it bites, for people and, unless empty, for programs; written before alarm(),
 * read by the handler */
static char watchdog_text[256], watchdog_json[256];

/* main thread only */
static bool misused, in_json;
static char failure[1024]; /* the first one */

int perf_fail(const char *format, ...)
{
    char text[sizeof(failure)];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s: %s\n", PERF_PROGRAM, text);
    if (!failure[0]) {
        memcpy(failure, text, sizeof(failure));
    }
    return -1;
}

const char *perf_failure(void)
{
    return failure[0] ? failure : "stopped by a signal";
}

void perf_in_json(void)
{
    in_json = true;
}

void perf_misused(void)
{
    misused = true;
}

int perf_refused(kvl_status_t status)
{
    if (kvl_tool_is_misuse(status)) {
        perf_misused();
    }
    return perf_fail("%s", kvl_error_text());
}

int perf_exit_code(int status)
{
    if (status == 0) {
        return KVL_EXIT_OK;
    }
    return misused ? KVL_EXIT_USAGE : KVL_EXIT_FAILED;
}

void perf_note(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fprintf(stderr, "%s: note: ", PERF_PROGRAM);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

double perf_now(void)
{
    return (double)kvl_now_ns() * 1e-9;
}

double perf_cpu_self(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void watchdog_bite(int signal_number)
{
    (void)signal_number;
    if (write(STDERR_FILENO, watchdog_text, strlen(watchdog_text)) < 0 ||
        write(STDOUT_FILENO, watchdog_json, strlen(watchdog_json)) < 0) {
        _exit(1);
    }
    _exit(1);
}

void perf_watchdog(const char *what, unsigned seconds)
{
    struct sigaction action = {.sa_handler = watchdog_bite};

    snprintf(watchdog_text, sizeof(watchdog_text), "%s: %s did not end within %u s\n", PERF_PROGRAM,
             what, seconds);
    if (in_json) {
        snprintf(watchdog_json, sizeof(watchdog_json), "{\"error\": \"%s did not end within %u s\"}\n", what,
                 seconds);
    }
    sigaction(SIGALRM, &action, NULL);
    alarm(seconds);
}

void perf_watchdog_off(void)
{
    alarm(0);
}

void perf_format_bytes(uint64_t bytes, char *text, size_t size)
{
    static const char units[] = {'K', 'M', 'G', 'T'};
    double value              = (double)bytes;
    int unit                  = -1;

    while (value >= 1024 && unit < 3) {
        value /= 1024;
        unit++;
    }
    if (unit < 0) {
        snprintf(text, size, "%llu", (unsigned long long)bytes);
    } else {
        snprintf(text, size, "%.4g%c", value, units[unit]);
    }
}
