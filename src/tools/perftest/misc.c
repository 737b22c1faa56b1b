/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perftest/perftest.h"

#include "tools/common.h"

#include "base/clock.h"

#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* what the watchdog says when it bites; written before alarm(), read by the handler */
static char watchdog_text[256];

static bool misused; /* main thread only */

static void print_line(const char *kind, const char *format, va_list arguments)
{
    char text[1024];

    vsnprintf(text, sizeof(text), format, arguments);
    fprintf(stderr, "%s: %s%s\n", PERF_PROGRAM, kind, text);
}

int perf_fail(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    print_line("", format, arguments);
    va_end(arguments);
    return -1;
}

void perf_misused(void)
{
    misused = true;
}

int perf_refused(kvl_status_t status)
{
    if (status == KVL_ERR_CONFIG || status == KVL_ERR_INVALID) {
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
    print_line("note: ", format, arguments);
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
    if (write(STDERR_FILENO, watchdog_text, strlen(watchdog_text)) < 0) {
        _exit(1);
    }
    _exit(1);
}

void perf_watchdog(const char *what, unsigned seconds)
{
    struct sigaction action = {.sa_handler = watchdog_bite};

    snprintf(watchdog_text, sizeof(watchdog_text), "%s: %s did not end within %u s\n", PERF_PROGRAM,
             what, seconds);
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
