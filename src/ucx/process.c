/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx/private.h"

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* What is true of the whole process: which libucp it holds, and how UCX watches its memory.
 *
 * Every UCX has the same SONAMEs, so the loader does not stop a second one. Two halves of different
 * versions then share symbols and crash; kvlane looks before it starts and refuses. A copy whose files
 * were renamed, as NIXL's wheel has one, finds its own halves; then it is enough that neither is in
 * everybody's sight. */

#define PATH_SIZE 512

typedef struct {
    unsigned count, plain; /* plain: of these, not renamed */
    char paths[2][PATH_SIZE];
} ucp_libs_t;

static int ucp_lib_note(struct dl_phdr_info *info, size_t size, void *arg)
{
    ucp_libs_t *libs = arg;
    const char *base = strrchr(info->dlpi_name, '/');

    (void)size;
    base = base ? base + 1 : info->dlpi_name;
    if (strncmp(base, "libucp", 6) != 0 || !strstr(base, ".so")) {
        return 0;
    }
    if (libs->count < 2) {
        snprintf(libs->paths[libs->count], PATH_SIZE, "%s", info->dlpi_name);
    }
    libs->count++;
    libs->plain += strncmp(base, "libucp.so", 9) == 0;
    return 0;
}

static bool ucp_is_in_sight(void)
{
    void *everybody = dlopen(NULL, RTLD_LAZY);
    bool found      = everybody && dlsym(everybody, "ucp_get_version");

    if (everybody) {
        dlclose(everybody);
    }
    return found;
}

kvl_status_t kvl_ucx_check(void)
{
    ucp_libs_t libs = {0};
    unsigned major, minor, release;

    dl_iterate_phdr(ucp_lib_note, &libs);
    if (libs.plain > 1 || (libs.count > 1 && ucp_is_in_sight())) {
        return kvl_error(KVL_ERR_UNSUPPORTED,
                         "two libucp are in this process: %s and %s; load one UCX only",
                         libs.paths[0], libs.paths[1]);
    }
    ucp_get_version(&major, &minor, &release);
    if (major != UCP_API_MAJOR || kvl_ucx_api() < UCP_VERSION(1, 13)) {
        return kvl_error(KVL_ERR_UNSUPPORTED,
                         "libucp %u.%u.%u (%s): kvlane was built with %u.%u and needs 1.13 or a "
                         "later 1.x",
                         major, minor, release, libs.paths[0], UCP_API_MAJOR, UCP_API_MINOR);
    }
    (void)kvl_ucx_connections_max(); /* before the first worker */
    kvl_ucx_sends_guard();
    kvl_ucx_events_guard();
    return KVL_OK;
}

bool kvl_ucx_hooks_quiet(void)
{
    const char *mode = getenv("UCX_MEM_MMAP_HOOK_MODE");

    return mode && strcmp(mode, "none") == 0;
}

unsigned kvl_ucx_api(void)
{
    unsigned major, minor, release;

    ucp_get_version(&major, &minor, &release);
    return UCP_VERSION(major, minor);
}

const char *kvl_ucx_version(void)
{
    return ucp_get_version_string();
}

static int ucp_path_find(struct dl_phdr_info *info, size_t size, void *arg)
{
    const char *base = strrchr(info->dlpi_name, '/');

    (void)size;
    if (!base || strncmp(base, "/libucp.so", 10) != 0) {
        return 0;
    }
    *(const char **)arg = info->dlpi_name; /* lives as long as the library is loaded */
    return 1;
}

const char *kvl_ucx_path(void)
{
    const char *path = "";

    dl_iterate_phdr(ucp_path_find, &path);
    return path;
}

/* ---- connections ---- */

/* A worker takes UCX_ASYNC_MAX_EVENTS connections; at one more UCX frees what is still in its list (1.13.1), and
 * noise at a port alone makes a thousand. The limit is a setting of the process that UCX reads when it is loaded;
 * libucs lets it be changed before the first worker, but does not promise that: where it cannot, the default
 * holds. */
#define CONNECTIONS_SETTING "ASYNC_MAX_EVENTS"
#define CONNECTIONS_DEFAULT 1024
#define CONNECTIONS_WANTED  16384
#define CONNECTIONS_SPARE   16

#define TEXT_OF(number)  TEXT_OF_(number)
#define TEXT_OF_(number) #number

extern ucs_status_t ucs_global_opts_set_value(const char *name, const char *value)
    __attribute__((weak));

static pthread_once_t connections_once = PTHREAD_ONCE_INIT;
static unsigned connections            = CONNECTIONS_DEFAULT;

static void connections_set(void)
{
    const char *text = getenv("UCX_" CONNECTIONS_SETTING);
    unsigned long n  = text ? strtoul(text, NULL, 10) : 0;

    if (n && n < UINT_MAX) {
        connections = (unsigned)n;
    } else if (ucs_global_opts_set_value &&
               ucs_global_opts_set_value(CONNECTIONS_SETTING, TEXT_OF(CONNECTIONS_WANTED)) ==
                   UCS_OK) {
        connections = CONNECTIONS_WANTED;
    }
}

unsigned kvl_ucx_connections_max(void)
{
    pthread_once(&connections_once, connections_set);
    return connections > CONNECTIONS_SPARE ? connections - CONNECTIONS_SPARE : 1;
}

/* ---- files ---- */

#define FILES_SPARE        32 /* for a lane that is renewed, a descriptor that UCX dups for a moment, ... */
#define FILES_PER_ENDPOINT 3

bool kvl_ucx_has_files(unsigned endpoints)
{
    return kvl_files_left(FILES_SPARE + FILES_PER_ENDPOINT * endpoints);
}
