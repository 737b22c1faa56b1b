/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/file.h"

#include "tools/common.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_STEP ((size_t)1 << 20)

/* All that comes from @a fd, in memory to be freed. */
static int read_all(const char *name, int fd, const char *path, char **memory_p, size_t *length_p)
{
    char *memory  = NULL;
    size_t length = 0, room = 0;
    ssize_t some;

    do {
        if (room - length < READ_STEP) {
            char *larger = realloc(memory, room = 2 * room + READ_STEP);

            if (!larger) {
                free(memory);
                return kvl_tool_failed(name, "%s: no memory for %zu bytes", path, room);
            }
            memory = larger;
        }
        some = read(fd, memory + length, room - length);
        length += some > 0 ? (size_t)some : 0;
    } while (some > 0 || (some < 0 && errno == EINTR));
    if (some < 0 || length == 0) {
        free(memory);
        return kvl_tool_failed(name, "%s: %s", path,
                               some < 0 ? strerror(errno) : "empty: a value has at least one byte");
    }
    *memory_p = memory;
    *length_p = length;
    return KVL_EXIT_OK;
}

int kvl_tool_read_file(const char *name, const char *path, char **memory_p, size_t *length_p)
{
    int fd, code;

    if (strcmp(path, "-") == 0) {
        return read_all(name, STDIN_FILENO, "standard input", memory_p, length_p);
    }
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return kvl_tool_failed(name, "%s: %s", path, strerror(errno));
    }
    code = read_all(name, fd, path, memory_p, length_p);
    close(fd);
    return code;
}

static int write_all(const char *name, int fd, const char *path, const char *memory, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t some = write(fd, memory + done, length - done);

        if (some < 0 && errno != EINTR) {
            return kvl_tool_failed(name, "%s: %s", path, strerror(errno));
        }
        done += some > 0 ? (size_t)some : 0;
    }
    return KVL_EXIT_OK;
}

/* ---- where a name leads ---- */

#define LINKS_MAX 40

/* "folder/name" to "folder", "/name" to "/", "name" to "." */
static void folder_of(const char *path, char folder[PATH_MAX])
{
    const char *slash = strrchr(path, '/');

    snprintf(folder, PATH_MAX, "%.*s", slash ? (int)(slash - path) + (slash == path) : 1,
             slash ? path : ".");
}

/* Of symbolic links the end, which may not be there yet: the links are to stay. Not those below /proc,
 * such as /dev/stdout: they stand for open files, which may have another name by now, or none. */
static int follow_links(const char *name, const char *path, char end[PATH_MAX])
{
    char text[PATH_MAX], folder[PATH_MAX];
    ssize_t length;

    if (snprintf(end, PATH_MAX, "%s", path) >= PATH_MAX) {
        return kvl_tool_failed(name, "%s: %s", path, strerror(ENAMETOOLONG));
    }
    for (unsigned i = 0; i < LINKS_MAX; i++) {
        if (strncmp(end, "/proc/", 6) == 0 || (length = readlink(end, text, sizeof(text) - 1)) < 0) {
            return KVL_EXIT_OK;
        }
        text[length] = '\0';
        folder_of(end, folder);
        if (snprintf(end, PATH_MAX, "%s%s%s", text[0] == '/' ? "" : folder, text[0] == '/' ? "" : "/",
                     text) >= PATH_MAX) {
            return kvl_tool_failed(name, "%s: %s", path, strerror(ENAMETOOLONG));
        }
    }
    return kvl_tool_failed(name, "%s: %s", path, strerror(ELOOP));
}

/* A pipe, a device, an open file: nothing can take its place. */
static bool is_written_through(const char *end)
{
    struct stat old;

    return strncmp(end, "/proc/", 6) == 0 || (stat(end, &old) == 0 && !S_ISREG(old.st_mode));
}

int kvl_tool_check_file(const char *name, const char *path)
{
    char end[PATH_MAX], folder[PATH_MAX];
    struct stat info;

    if (strcmp(path, "-") == 0) {
        return KVL_EXIT_OK;
    }
    if (follow_links(name, path, end)) {
        return KVL_EXIT_FAILED;
    }
    if (stat(end, &info) == 0 && S_ISDIR(info.st_mode)) {
        return kvl_tool_failed(name, "%s: %s", path, strerror(EISDIR));
    }
    if (is_written_through(end)) {
        return access(end, W_OK) == 0 ? KVL_EXIT_OK
                                      : kvl_tool_failed(name, "%s: %s", path, strerror(errno));
    }
    folder_of(end, folder);
    if (access(folder, W_OK | X_OK) != 0) {
        return kvl_tool_failed(name, "%s: no file can be made in the directory %s: %s", path, folder,
                               strerror(errno));
    }
    return KVL_EXIT_OK;
}

/* ---- writing ---- */

static int write_through(const char *name, const char *path, const char *memory, size_t length)
{
    int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    int code;

    if (fd < 0) {
        return kvl_tool_failed(name, "%s: %s", path, strerror(errno));
    }
    code = write_all(name, fd, path, memory, length);
    close(fd);
    return code;
}

/* the file that is being written; constant while on_end() is installed and unblocked */
static char beside[PATH_MAX + 8];

static const int end_signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};

static void on_end(int number)
{
    unlink(beside);
    signal(number, SIG_DFL);
    raise(number);
}

/* @a func for the signals that would end us; what is ignored stays so (nohup) */
static void on_signals(void (*func)(int))
{
    for (size_t i = 0; i < sizeof(end_signals) / sizeof(end_signals[0]); i++) {
        struct sigaction action;

        if (sigaction(end_signals[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN) {
            action.sa_handler = func;
            sigaction(end_signals[i], &action, NULL);
        }
    }
}

/* Makes the file beside @a path and sees to it that no signal leaves it there; -1 with errno. */
static int open_beside(const char *path)
{
    sigset_t set, old;
    int fd, error;

    snprintf(beside, sizeof(beside), "%s.XXXXXX", path);
    sigfillset(&set);
    sigprocmask(SIG_BLOCK, &set, &old);
    fd    = mkostemp(beside, O_CLOEXEC);
    error = errno;
    if (fd >= 0) {
        on_signals(on_end);
    }
    sigprocmask(SIG_SETMASK, &old, NULL);
    errno = error;
    return fd;
}

static mode_t mode_of(const char *path)
{
    struct stat old;
    mode_t mask;

    if (stat(path, &old) == 0) {
        return old.st_mode & 07777;
    }
    mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

/* with the permissions of the file whose place it takes */
static int write_beside(const char *name, const char *path, const char *memory, size_t length)
{
    int fd = open_beside(path), code;

    if (fd < 0) {
        return kvl_tool_failed(name, "%s: %s", beside, strerror(errno));
    }
    code = write_all(name, fd, beside, memory, length);
    if (code == KVL_EXIT_OK && (fchmod(fd, mode_of(path)) != 0 || fsync(fd) != 0)) {
        code = kvl_tool_failed(name, "%s: %s", beside, strerror(errno));
    }
    if (close(fd) != 0 || (code == KVL_EXIT_OK && rename(beside, path) != 0)) {
        code = kvl_tool_failed(name, "%s: %s", path, strerror(errno));
    }
    if (code != KVL_EXIT_OK) {
        unlink(beside);
    }
    on_signals(SIG_DFL);
    return code;
}

int kvl_tool_write_file(const char *name, const char *path, const char *memory, size_t length)
{
    char end[PATH_MAX];

    signal(SIGXFSZ, SIG_IGN); /* then it is an error, which is told */
    if (strcmp(path, "-") == 0) {
        return write_all(name, STDOUT_FILENO, "standard output", memory, length);
    }
    if (follow_links(name, path, end)) {
        return KVL_EXIT_FAILED;
    }
    return is_written_through(end) ? write_through(name, end, memory, length)
                                   : write_beside(name, end, memory, length);
}
