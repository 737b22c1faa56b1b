/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/limits.h"

#include "base/error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define GROUP_ROOT   "/sys/fs/cgroup"
#define STATUS       "/proc/self/status"
#define CAP_IPC_LOCK 14

#define KIB UINT64_C(1024)

uint64_t kvl_limits_number(const char *path, const char *name)
{
    FILE *file      = fopen(path, "re");
    uint64_t number = UINT64_MAX;
    char line[256];

    while (file && fgets(line, sizeof(line), file)) {
        if (strncmp(line, name, strlen(name)) == 0) {
            if (sscanf(line + strlen(name), "%" SCNu64, &number) != 1) {
                number = UINT64_MAX; /* "max" */
            }
            break;
        }
    }
    if (file) {
        fclose(file);
    }
    return number;
}

/* the control group's own path, of version 2: the line "0::/path" */
static bool group_path(char *path, size_t size)
{
    FILE *file = fopen("/proc/self/cgroup", "re");
    bool found = false;
    char line[2048];

    while (file && !found && fgets(line, sizeof(line), file)) {
        if (strncmp(line, "0::/", 4) == 0) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(path, size, "%s%s", GROUP_ROOT, line + 3);
            found = true;
        }
    }
    if (file) {
        fclose(file);
    }
    return found;
}

uint64_t kvl_limits_group(void)
{
    uint64_t limit = kvl_limits_number(GROUP_ROOT "/memory/memory.limit_in_bytes", ""); /* version 1 */
    char path[2304], file[2560];
    char *slash;

    if (!group_path(path, sizeof(path))) {
        return limit;
    }
    while (strlen(path) >= strlen(GROUP_ROOT)) { /* the lowest on the way up to the root */
        uint64_t here;

        snprintf(file, sizeof(file), "%s/memory.max", path);
        here   = kvl_limits_number(file, "");
        limit  = here < limit ? here : limit;
        slash  = strrchr(path, '/');
        *slash = '\0';
    }
    return limit;
}

/* ---- memlock ---- */

/* The driver asks for the capability in the first user namespace: one of a container's own does not count. */
static bool has_ipc_lock(void)
{
    FILE *file = fopen("/proc/self/uid_map", "re");
    unsigned inside, outside, count = 0;
    bool first = file && fscanf(file, "%u %u %u", &inside, &outside, &count) == 3 && count == UINT32_MAX;
    uint64_t caps = 0;
    char line[256];

    if (file) {
        fclose(file);
    }
    file = first ? fopen(STATUS, "re") : NULL;
    while (file && fgets(line, sizeof(line), file)) {
        if (sscanf(line, "CapEff: %" SCNx64, &caps) == 1) {
            break;
        }
    }
    if (file) {
        fclose(file);
    }
    return caps >> CAP_IPC_LOCK & 1;
}

void kvl_locking_look(kvl_locking_t *locking_p)
{
    uint64_t pinned_kib = kvl_limits_number(STATUS, "VmPin:");
    struct rlimit limit;

    *locking_p = (kvl_locking_t){
        .memlock  = getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur
                                                                                               : UINT64_MAX,
        .ipc_lock = has_ipc_lock(),
        .group    = kvl_limits_group(),
        .pinned   = pinned_kib == UINT64_MAX ? 0 : pinned_kib * KIB,
        .pid      = (int)getpid(),
    };
    snprintf(locking_p->process, sizeof(locking_p->process), "%s", program_invocation_short_name);
}

static bool fits(uint64_t need, uint64_t pinned, uint64_t limit)
{
    return pinned <= limit && need <= limit - pinned;
}

static uint64_t product(uint64_t a, unsigned b)
{
    uint64_t c;

    return __builtin_mul_overflow(a, b, &c) ? UINT64_MAX : c;
}

kvl_status_t kvl_locking_check(const kvl_locking_t *memlock, uint64_t need, unsigned rails, const char *what)
{
    if (!memlock->ipc_lock && !fits(product(need, rails), memlock->pinned, memlock->memlock)) {
        return kvl_error(KVL_ERR_LIMIT,
                         "%s: %s (process %d) may lock %" PRIu64 " KiB of memory and has locked %" PRIu64
                         ", but needs %" PRIu64 " KiB more. Any of these helps: " KVL_LOCKING_WAYS,
                         what, memlock->process, memlock->pid, memlock->memlock / KIB, memlock->pinned / KIB,
                         product(need, rails) / KIB);
    }
    if (!fits(need, memlock->pinned / rails, memlock->group)) {
        return kvl_error(KVL_ERR_LIMIT,
                         "%s: the control group of %s (process %d) may have %" PRIu64 " KiB of memory; it has locked %" PRIu64
                         " and needs %" PRIu64 " KiB more. Raise MemoryMax= of its systemd unit, or --memory of its "
                         "container",
                         what, memlock->process, memlock->pid, memlock->group / KIB, memlock->pinned / rails / KIB,
                         need / KIB);
    }
    return KVL_OK;
}
