/* SPDX-License-Identifier: BSD-3-Clause */
/* A line is built on the stack and leaves with one write(2), so that lines of threads and of
 * processes that share stderr don't mix. No allocation, no lock, no stdio buffer: it can be called
 * from an allocation failure and between fork and exec. */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOG_LINE_SIZE 1280

kvl_log_level_t kvl_log_level = KVL_LOG_WARN;

static const char *log_level_name(kvl_log_level_t level)
{
    static const char *const names[] = {"fatal", "error", "warn", "info", "debug", "trace"};

    return (unsigned)level < sizeof(names) / sizeof(names[0]) ? names[level] : "log";
}

/* snprintf() returns what it wanted to write; what it wrote is less in a full buffer */
static size_t log_written(int wanted, size_t size)
{
    if (wanted < 0) {
        return 0;
    }
    return (size_t)wanted < size ? (size_t)wanted : size - 1;
}

static size_t log_head(char *line, size_t size, kvl_log_level_t level, const char *file, int number)
{
    const char *slash = strrchr(file, '/');
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return log_written(snprintf(line, size, "[%lld.%06ld] [%ld] %-5s %s:%d ", (long long)now.tv_sec,
                                now.tv_nsec / 1000, (long)syscall(SYS_gettid),
                                log_level_name(level), slash ? slash + 1 : file, number),
                       size);
}

/* A peer's text may end up in a message: it must not fake a second line or move the cursor. */
static void log_clean(char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f) {
            *text = ' ';
        }
    }
}

void kvl_log_write(kvl_log_level_t level, const char *file, int line, const char *format, ...)
{
    int saved_errno = errno;
    char text[LOG_LINE_SIZE];
    size_t used = log_head(text, sizeof(text) - 1, level, file, line);
    va_list args;

    va_start(args, format);
    used += log_written(vsnprintf(text + used, sizeof(text) - 1 - used, format, args),
                        sizeof(text) - 1 - used);
    va_end(args);
    log_clean(text);
    text[used] = '\n';
    while (write(STDERR_FILENO, text, used + 1) < 0 && errno == EINTR) {
    }
    errno = saved_errno;
}
