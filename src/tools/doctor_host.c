/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "tools/doctor.h"

#include <kvlane/engine.h>

#include "base/limits.h"
#include "rail/sysfs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

/* What this process may do and what the host has: reads it and has it judged. What cannot be read is left out. */

/* ---- ucx ---- */

/* the whole file, to be freed; NULL if it cannot be read */
static char *read_all(const char *path)
{
    FILE *file = fopen(path, "re"), *copy;
    char *text = NULL, piece[4096];
    size_t size, n;

    if (!file) {
        return NULL;
    }
    copy = open_memstream(&text, &size);
    while (copy && (n = fread(piece, 1, sizeof(piece), file)) > 0) {
        fwrite(piece, 1, n, copy);
    }
    if (copy) {
        fclose(copy);
    }
    fclose(file);
    return text;
}

void kvl_doctor_ucx(kvl_doctor_t *doctor)
{
    char *maps = read_all("/proc/self/maps");
    kvl_finding_t finding =
        kvl_judge_ucx(KVL_UCX_BUILT, kvl_ucx_version(), kvl_ucx_path(), maps ? maps : "");

    free(maps);
    kvl_doctor_say(doctor, &finding);
}

/* ---- limits ---- */

static uint64_t limit_of(int resource)
{
    struct rlimit limit;

    if (getrlimit((__rlimit_resource_t)resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return KVL_UNLIMITED;
    }
    return limit.rlim_cur;
}

void kvl_doctor_memlock(kvl_doctor_t *doctor)
{
    kvl_finding_t finding;
    kvl_locking_t locking;

    kvl_locking_look(&locking);
    finding = kvl_judge_memlock(&locking, kvl_doctor_has_rdma(doctor));
    kvl_doctor_say(doctor, &finding);
}

void kvl_doctor_files(kvl_doctor_t *doctor)
{
    kvl_finding_t finding = kvl_judge_files(limit_of(RLIMIT_NOFILE));

    doctor->too_few_files = finding.found == KVL_FOUND_FAIL;
    kvl_doctor_say(doctor, &finding);
}

/* ---- memory ---- */

/* "always [madvise] never" */
static void transparent_read(char text[16])
{
    const kvl_sysfs_t folder = kvl_sysfs("", "/sys/kernel/mm/transparent_hugepage");
    char line[64];
    const char *at;

    if (kvl_sysfs_text(&folder, "enabled", line, sizeof(line)) &&
        (at = strchr(line, '[')) != NULL) {
        snprintf(text, 16, "%.*s", (int)strcspn(at + 1, "]"), at + 1);
    }
}

void kvl_doctor_huge_pages(kvl_doctor_t *doctor)
{
    const kvl_sysfs_t folder = kvl_sysfs("", "/sys/kernel/mm/hugepages");
    DIR *dir                 = kvl_sysfs_open(&folder);
    kvl_huge_pages_t pages   = {.total = 0};
    kvl_finding_t finding;
    const char *name;

    while (dir && (name = kvl_sysfs_next(dir)) != NULL) {
        kvl_sysfs_t size = kvl_sysfs_in(&folder, name);
        long long total = 0, left = 0;

        kvl_sysfs_number(&size, "nr_hugepages", &total);
        kvl_sysfs_number(&size, "free_hugepages", &left);
        pages.total += (uint64_t)total;
        pages.free += (uint64_t)left;
    }
    if (dir) {
        closedir(dir);
    }
    transparent_read(pages.transparent);
    finding = kvl_judge_huge_pages(&pages);
    kvl_doctor_say(doctor, &finding);
}

void kvl_doctor_shm(kvl_doctor_t *doctor)
{
    struct statvfs shm    = {0};
    bool there            = statvfs("/dev/shm", &shm) == 0;
    kvl_finding_t finding = kvl_judge_shm(there ? (uint64_t)shm.f_blocks * shm.f_frsize : 0,
                                          there ? (uint64_t)shm.f_bavail * shm.f_frsize : 0);

    kvl_doctor_say(doctor, &finding);
}
