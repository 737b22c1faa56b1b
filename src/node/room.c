/* SPDX-License-Identifier: BSD-3-Clause */
#include "node/room.h"

#include "base/error.h"
#include "base/limits.h"

#include <inttypes.h>
#include <string.h>
#include <sys/statvfs.h>

#define SHARED_DIR "/dev/shm"

#define MIB (UINT64_C(1) << 20)

static uint64_t shared_free(void)
{
    struct statvfs fs;

    return statvfs(SHARED_DIR, &fs) == 0 ? (uint64_t)fs.f_bavail * fs.f_frsize : UINT64_MAX;
}

void kvl_room_look(kvl_room_t *room_p)
{
    uint64_t available_kib = kvl_limits_number("/proc/meminfo", "MemAvailable:");

    *room_p = (kvl_room_t){
        .shared    = shared_free(),
        .available = available_kib == UINT64_MAX ? UINT64_MAX : available_kib * 1024,
        .limit     = kvl_limits_group(),
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
