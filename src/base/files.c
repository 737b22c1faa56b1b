/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>

/* The kernel gives out the lowest free number: as long as the highest ones are free, there is room. */

static long files_limit(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < 0x7fffffff ? (long)limit.rlim_cur
                                                                                : 0x7fffffff;
}

static bool files_counted(long limit, unsigned need)
{
    DIR *dir  = opendir("/proc/self/fd");
    long used = 0;

    if (!dir) {
        return false;
    }
    while (readdir(dir)) {
        used++; /* with "." and "..", and dir itself: three too many */
    }
    closedir(dir);
    return used - 3 + (long)need <= limit;
}

bool kvl_files_left(unsigned need)
{
    long limit = files_limit(), fd;

    if (limit < (long)need) {
        return false;
    }
    for (fd = limit - (long)need; fd < limit; fd++) {
        if (fcntl((int)fd, F_GETFD) != -1) {
            return files_counted(limit, need);
        }
    }
    return true;
}

void kvl_files_limit(char *text, unsigned long size)
{
    snprintf(text, size, "`ulimit -n' is %ld", files_limit());
}
