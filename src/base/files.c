/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

/* The kernel gives out the lowest free number: as long as the highest ones are free, there is room. */

static long files_limit(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < 0x7fffffff
               ? (long)limit.rlim_cur
               : 0x7fffffff;
}

bool kvl_files_each(bool (*func)(int fd, void *arg), void *arg)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    bool more = true;

    if (!dir) {
        return false;
    }
    while (more && (entry = readdir(dir)) != NULL) {
        int fd = atoi(entry->d_name);

        if (entry->d_name[0] != '.' && fd != dirfd(dir)) {
            more = func(fd, arg);
        }
    }
    closedir(dir);
    return true;
}

static bool file_count(int fd, void *arg)
{
    (void)fd;
    ++*(long *)arg;
    return true;
}

bool kvl_files_left(unsigned need)
{
    long limit = files_limit(), used = 0, fd;

    if (limit < (long)need) {
        return false;
    }
    for (fd = limit - (long)need; fd < limit; fd++) {
        if (fcntl((int)fd, F_GETFD) != -1) {
            return kvl_files_each(file_count, &used) && used + (long)need <= limit;
        }
    }
    return true;
}

void kvl_files_limit(char *text, unsigned long size)
{
    snprintf(text, size, "`ulimit -n' is %ld", files_limit());
}
