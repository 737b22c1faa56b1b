/* SPDX-License-Identifier: BSD-3-Clause */
#include "node/room.h"

#include "base/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#define SHARED_DIR "/dev/shm"
#define GROUP_ROOT "/sys/fs/cgroup"

#define MIB (UINT64_C(1) << 20)

static uint64_t shared_free(void)
{
    struct statvfs fs;

    return statvfs(SHARED_DIR, &fs) == 0 ? (uint64_t)fs.f_bavail * fs.f_frsize : UINT64_MAX;
}

/* the number in the first line that starts with @a name ("" for the first line) */
static uint64_t file_number(const char *path, const char *name)
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

/* the lowest limit on the way up to the root */
static uint64_t group_limit(void)
{
    uint64_t limit = file_number(GROUP_ROOT "/memory/memory.limit_in_bytes", ""); /* version 1 */
    char path[2304], file[2560];
    char *slash;

    if (!group_path(path, sizeof(path))) {
        return limit;
    }
    while (strlen(path) >= strlen(GROUP_ROOT)) {
        uint64_t here;

        snprintf(file, sizeof(file), "%s/memory.max", path);
        here   = file_number(file, "");
        limit  = here < limit ? here : limit;
        slash  = strrchr(path, '/');
        *slash = '\0';
    }
    return limit;
}

void kvl_room_look(kvl_room_t *room_p)
{
    uint64_t available_kib = file_number("/proc/meminfo", "MemAvailable:");

    *room_p = (kvl_room_t){
        .shared    = shared_free(),
        .available = available_kib == UINT64_MAX ? UINT64_MAX : available_kib * 1024,
        .limit     = group_limit(),
    };
}

kvl_status_t kvl_room_check(const kvl_room_t *room, bool shared, uint64_t bytes)
{
    if (bytes > room->limit) {
        return kvl_error(KVL_ERR_NO_MEMORY,
                         "node: %" PRIu64 " MiB of memory, but the control group "
                         "allows %" PRIu64 " MiB; ask for less, or raise its memory limit",
                         bytes / MIB, room->limit / MIB);
    }
    if (bytes > room->available) {
        return kvl_error(KVL_ERR_NO_MEMORY,
                         "node: %" PRIu64 " MiB of memory, but only %" PRIu64 " MiB "
                         "are available; ask for less",
                         bytes / MIB, room->available / MIB);
    }
    if (shared && bytes > room->shared) {
        return kvl_error(
            KVL_ERR_NO_MEMORY,
            "node: %" PRIu64 " MiB of memory, but only %" PRIu64 " MiB "
            "are free in " SHARED_DIR "; ask for less, remove what lies there, enlarge it "
            "(mount -o remount,size=...), or do without shared memory (KVLANE_RAILS=tcp)",
            bytes / MIB, room->shared / MIB);
    }
    return KVL_OK;
}

bool kvl_room_is_shared(const kvl_settings_t *settings)
{
    return !settings->rails || strstr(settings->rails, "auto") || strstr(settings->rails, "shm");
}
