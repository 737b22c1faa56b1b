/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/file.h"

#include "tools/common.h"

#include <errno.h>
#include <fcntl.h>
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

/* what is no regular file: a pipe, a device */
static int write_through(const char *name, const char *path, const char *memory, size_t length)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    int code;

    if (fd < 0) {
        return kvl_tool_failed(name, "%s: %s", path, strerror(errno));
    }
    code = write_all(name, fd, path, memory, length);
    close(fd);
    return code;
}

/* @a mode: of the file that this one takes the place of, or of a new one */
static int write_beside(const char *name, const char *path, const char *memory, size_t length,
                        mode_t mode)
{
    char beside[4096];
    int fd, code;

    if (snprintf(beside, sizeof(beside), "%s.XXXXXX", path) >= (int)sizeof(beside)) {
        return kvl_tool_failed(name, "%s: the name is too long", path);
    }
    fd = mkostemp(beside, O_CLOEXEC);
    if (fd < 0) {
        return kvl_tool_failed(name, "%s: %s", beside, strerror(errno));
    }
    code = write_all(name, fd, path, memory, length);
    if (code == KVL_EXIT_OK && (fchmod(fd, mode) != 0 || fsync(fd) != 0)) {
        code = kvl_tool_failed(name, "%s: %s", beside, strerror(errno));
    }
    if (close(fd) != 0 || (code == KVL_EXIT_OK && rename(beside, path) != 0)) {
        code = kvl_tool_failed(name, "%s: %s", path, strerror(errno));
    }
    if (code != KVL_EXIT_OK) {
        unlink(beside);
    }
    return code;
}

int kvl_tool_write_file(const char *name, const char *path, const char *memory, size_t length)
{
    struct stat old;
    mode_t mask;

    if (strcmp(path, "-") == 0) {
        return write_all(name, STDOUT_FILENO, "standard output", memory, length);
    }
    if (stat(path, &old) == 0) {
        return S_ISREG(old.st_mode) ? write_beside(name, path, memory, length, old.st_mode & 07777)
                                    : write_through(name, path, memory, length);
    }
    mask = umask(0);
    umask(mask);
    return write_beside(name, path, memory, length, 0666 & ~mask);
}
