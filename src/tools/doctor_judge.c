/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/doctor_judge.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* No file, no call of the system, no clock: what is judged comes in, so that each rule is tested on a table. */

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

#define MEMLOCK_GOOD (4 * GIB)
#define FILES_GOOD   1024
#define SHM_MIN      (64 * MIB)
#define SHM_GOOD     GIB

const char *kvl_found_name(kvl_found_t found)
{
    static const char *const names[] = {"ok", "warn", "fail"};

    return names[found];
}

kvl_finding_t kvl_finding(kvl_found_t found, const char *name, const char *way_out,
                          const char *format, ...)
{
    kvl_finding_t finding = {.found = found};
    va_list args;

    snprintf(finding.name, sizeof(finding.name), "%s", name);
    snprintf(finding.way_out, sizeof(finding.way_out), "%s", way_out ? way_out : "");
    va_start(args, format);
    vsnprintf(finding.text, sizeof(finding.text), format, args);
    va_end(args);
    return finding;
}

/* "64 KiB", "3.5 GiB", "unlimited" */
static const char *size_text(uint64_t bytes, char text[32])
{
    if (bytes == KVL_UNLIMITED) {
        snprintf(text, 32, "unlimited");
    } else if (bytes >= GIB) {
        snprintf(text, 32, "%.1f GiB", (double)bytes / (double)GIB);
    } else if (bytes >= MIB) {
        snprintf(text, 32, "%.1f MiB", (double)bytes / (double)MIB);
    } else {
        snprintf(text, 32, "%" PRIu64 " KiB", bytes >> 10);
    }
    return text;
}

/* ---- the process ---- */

kvl_finding_t kvl_judge_memlock(const kvl_locking_t *locking, bool rdma)
{
    char limit[32];

    size_text(locking->memlock, limit);
    if (locking->memlock == KVL_UNLIMITED || locking->ipc_lock) {
        return kvl_finding(KVL_FOUND_OK, "memlock", NULL, "limit %s%s", limit,
                           locking->ipc_lock ? ", and CAP_IPC_LOCK, so that it does not hold" : "");
    }
    if (!rdma) {
        return kvl_finding(
            KVL_FOUND_OK, "memlock", NULL,
            "limit %s without CAP_IPC_LOCK; only RDMA devices need more, and there is none", limit);
    }
    if (locking->memlock >= MEMLOCK_GOOD) {
        return kvl_finding(KVL_FOUND_OK, "memlock", NULL,
                           "limit %s without CAP_IPC_LOCK: a process may register that much",
                           limit);
    }
    return kvl_finding(
        locking->memlock < KVL_LOCKING_QUEUES ? KVL_FOUND_FAIL : KVL_FOUND_WARN, "memlock",
        "raise it: " KVL_LOCKING_WAYS,
        "limit %s without CAP_IPC_LOCK: RDMA devices cannot register more than that", limit);
}

kvl_finding_t kvl_judge_files(uint64_t limit)
{
    static const char way_out[] = "raise it: `ulimit -n 65536'; LimitNOFILE= in a systemd unit";

    if (limit < KVL_FILES_MIN) {
        return kvl_finding(KVL_FOUND_FAIL, "files", way_out,
                           "a process may open %" PRIu64
                           " files; an engine and one peer take about %d",
                           limit, KVL_FILES_MIN);
    }
    if (limit < FILES_GOOD) {
        return kvl_finding(KVL_FOUND_WARN, "files", way_out,
                           "a process may open %" PRIu64
                           " files; a node takes about 20 for each client and rail",
                           limit);
    }
    if (limit == KVL_UNLIMITED) {
        return kvl_finding(KVL_FOUND_OK, "files", NULL, "a process may open any number of files");
    }
    return kvl_finding(KVL_FOUND_OK, "files", NULL, "a process may open %" PRIu64 " files", limit);
}

kvl_finding_t kvl_judge_huge_pages(const kvl_huge_pages_t *pages)
{
    const char *transparent = pages->transparent[0] ? pages->transparent : "unknown";

    if (pages->total == 0 && strcmp(pages->transparent, "never") == 0) {
        return kvl_finding(
            KVL_FOUND_WARN, "huge pages",
            "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled, or reserve some: vm.nr_hugepages",
            "none are reserved and transparent ones are off: large pools take more time to register");
    }
    return kvl_finding(KVL_FOUND_OK, "huge pages", NULL,
                       "%" PRIu64 " reserved, %" PRIu64 " of them free; transparent ones: %s",
                       pages->total, pages->free, transparent);
}

kvl_finding_t kvl_judge_shm(uint64_t total_bytes, uint64_t free_bytes)
{
    static const char way_out[] =
        "mount -o remount,size=SIZE /dev/shm; --shm-size=SIZE for a container";
    char total[32], left[32];
    kvl_found_t found = free_bytes < SHM_MIN    ? KVL_FOUND_FAIL
                        : free_bytes < SHM_GOOD ? KVL_FOUND_WARN
                                                : KVL_FOUND_OK;

    if (total_bytes == 0) {
        return kvl_finding(
            KVL_FOUND_WARN, "/dev/shm",
            "mount a tmpfs there, or use KVLANE_RAILS=tcp within this host",
            "it is not there: no peer of this host can be reached over shared memory");
    }
    size_text(total_bytes, total);
    size_text(free_bytes, left);
    if (found == KVL_FOUND_OK) {
        return kvl_finding(found, "/dev/shm", NULL, "%s, %s of it free", total, left);
    }
    return kvl_finding(found, "/dev/shm", way_out,
                       "%s, %s of it free: the memory of a node (kvlaned -m) comes from it", total,
                       left);
}

/* ---- UCX ---- */

/* How many different files of @a library ("libucp.so") a process has mapped; the paths of the first two. */
static unsigned maps_count(const char *maps, const char *library, char paths[2][256])
{
    unsigned count = 0;
    const char *line;

    for (line = maps; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        size_t length    = strcspn(line, "\n");
        const char *path = memchr(line, '/', length), *at;
        char text[256];

        if (!path) {
            continue;
        }
        snprintf(text, sizeof(text), "%.*s", (int)(length - (size_t)(path - line)), path);
        at = strstr(strrchr(text, '/'), library);
        if (!at || at[-1] != '/' || (count > 0 && strcmp(text, paths[0]) == 0) ||
            (count > 1 && strcmp(text, paths[1]) == 0)) {
            continue;
        }
        if (count < 2) {
            snprintf(paths[count], 256, "%s", text);
        }
        count++;
    }
    return count;
}

/* "1.13" and "1.13.1": below 0 if a is older, by the first two numbers */
static long version_compare(const char *a, const char *b)
{
    char *a_rest, *b_rest;
    long order = strtol(a, &a_rest, 10) - strtol(b, &b_rest, 10);

    if (order != 0 || *a_rest != '.' || *b_rest != '.') {
        return order;
    }
    return strtol(a_rest + 1, NULL, 10) - strtol(b_rest + 1, NULL, 10);
}

kvl_finding_t kvl_judge_ucx(const char *built, const char *loaded, const char *path,
                            const char *maps)
{
    static const char *const libraries[] = {"libucp.so", "libuct.so", "libucs.so",
                                            "libucm.so", "libucp-",   "libuct-",
                                            "libucs-",   "libucm-"}; /* wheels rename them */
    char paths[2][256];

    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        if (maps_count(maps, libraries[i], paths) > 1) {
            return kvl_finding(
                KVL_FOUND_FAIL, "ucx", "load one UCX only: look at LD_LIBRARY_PATH and LD_PRELOAD",
                "two copies are in this process: %.200s and %.200s", paths[0], paths[1]);
        }
    }
    if (version_compare(loaded, built) < 0) {
        return kvl_finding(KVL_FOUND_WARN, "ucx",
                           "load the UCX that kvlane was built with, or a newer one",
                           "built with %s, loaded is the older %s (%.200s)", built, loaded, path);
    }
    return kvl_finding(KVL_FOUND_OK, "ucx", NULL, "built with %s, loaded is %s (%.200s), once",
                       built, loaded, path[0] ? path : "path unknown");
}
