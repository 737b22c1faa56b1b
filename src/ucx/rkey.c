/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx/private.h"

#include "base/alloc.h"
#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Remote keys. UCX trusts the bytes of one, and where it cannot map the peer's shared memory (the peer was
 * killed a moment ago, no file or address space is left) it frees what it never made: the process crashes
 * (1.13 to 1.22). So for shared memory the bytes are checked, the mapping is tried here first, and UCX is sent
 * to the file that is open here: that one stays, also when the peer dies. */

/* a key: u64 memory domains, u8 kind, then u8 length and bytes for each domain */
#define KEY_MAP     8
#define KEY_ENTRIES 9
#define KEY_PAD     256 /* zeros behind it: a domain reads its own size, whatever the length says */

/* how UCX says where its posix shared memory is */
typedef struct {
    uint64_t id, address, length;
} mapping_t;

#define MAPPING_PROC     (UINT64_C(1) << 63) /* /proc/PID/fd/N; else a name in /dev/shm */
#define MAPPING_SHM      (UINT64_C(1) << 62)
#define MAPPING_HUGE     (UINT64_C(1) << 61)
#define MAPPING_ID       ((UINT64_C(1) << 60) - 1)
#define MAPPING_PID_BITS 30

static bool mapping_is(const void *entry, unsigned length, mapping_t *mapping)
{
    if (length < sizeof(*mapping)) {
        return false;
    }
    memcpy(mapping, entry, sizeof(*mapping));
    return mapping->id & (MAPPING_PROC | MAPPING_SHM);
}

static kvl_status_t mapping_refused(const char *path, uint64_t length)
{
    int error = errno;

    if (error == ENOENT || error == ESRCH || error == ENXIO) {
        return kvl_error(KVL_ERR_PEER, "shared memory of the peer: %s: the peer is gone", path);
    }
    return kvl_error(
        KVL_ERR_LIMIT,
        "shared memory of the peer: %s, %llu bytes: %s; see `ulimit -n' and `ulimit -v'", path,
        (unsigned long long)length, strerror(error));
}

static kvl_status_t mapping_try(const char *path, const mapping_t *mapping, int fd)
{
    int flags = MAP_SHARED | (mapping->id & MAPPING_HUGE ? MAP_HUGETLB : 0);
    struct stat file;
    void *memory;

    if (fstat(fd, &file) || !S_ISREG(file.st_mode) || (uint64_t)file.st_size < mapping->length) {
        return kvl_error(KVL_ERR_PROTOCOL, "shared memory of the peer: %s does not have %llu bytes",
                         path, (unsigned long long)mapping->length);
    }
    memory = mmap(NULL, mapping->length, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (memory == MAP_FAILED) {
        return mapping_refused(path, mapping->length);
    }
    munmap(memory, mapping->length);
    return KVL_OK;
}

/* Opens it; from now on @a mapping names the file that is open here. */
static kvl_status_t mapping_open(mapping_t *mapping, int *fd_p)
{
    uint64_t id = mapping->id & MAPPING_ID;
    kvl_status_t status;
    char path[64];
    int fd;

    if (mapping->id & MAPPING_PROC) {
        snprintf(path, sizeof(path), "/proc/%u/fd/%u",
                 (unsigned)(id & ((1u << MAPPING_PID_BITS) - 1)),
                 (unsigned)(id >> MAPPING_PID_BITS));
    } else {
        snprintf(path, sizeof(path), "/dev/shm/ucx_shm_posix_%llx", (unsigned long long)id);
    }
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return mapping_refused(path, mapping->length);
    }
    status = mapping_try(path, mapping, fd);
    if (status != KVL_OK) {
        close(fd);
        return status;
    }
    mapping->id = (mapping->id & ~MAPPING_ID) | MAPPING_PROC | (uint64_t)fd << MAPPING_PID_BITS |
                  (uint64_t)getpid();
    *fd_p = fd;
    return KVL_OK;
}

static bool mapping_holds(const mapping_t *mapping, uint64_t base, uint64_t length)
{
    return base >= mapping->address && length <= mapping->length &&
           base - mapping->address <= mapping->length - length;
}

/* Does it end where its entries say? UCX reads as far as they tell it to. */
static kvl_status_t key_check(const uint8_t *key, size_t length)
{
    size_t at = KEY_ENTRIES;
    uint64_t domains;

    if (length < KEY_ENTRIES) {
        return kvl_error(KVL_ERR_PROTOCOL, "remote key: %zu bytes", length);
    }
    for (memcpy(&domains, key, KEY_MAP); domains; domains &= domains - 1) {
        if (at >= length || key[at] > length - at - 1) {
            return kvl_error(KVL_ERR_PROTOCOL, "remote key: ends within what it says");
        }
        at += 1 + key[at];
    }
    return KVL_OK;
}

kvl_status_t kvl_rkey_hold(void *packed, size_t length, uint64_t base, uint64_t bytes, int *fd_p)
{
    uint8_t *key        = packed;
    size_t at           = KEY_ENTRIES;
    kvl_status_t status = key_check(key, length);
    mapping_t mapping;
    uint64_t domains = 0;

    *fd_p = -1;
    if (status == KVL_OK) {
        memcpy(&domains, key, KEY_MAP);
    }
    for (; domains && status == KVL_OK; domains &= domains - 1, at += 1 + key[at]) {
        if (!mapping_is(key + at + 1, key[at], &mapping)) {
            continue;
        }
        status = *fd_p < 0 && mapping_holds(&mapping, base, bytes)
                     ? mapping_open(&mapping, fd_p)
                     : kvl_error(KVL_ERR_PROTOCOL, "remote key: of other memory than the region's");
        memcpy(key + at + 1, &mapping, sizeof(mapping));
    }
    if (status != KVL_OK && *fd_p >= 0) {
        close(*fd_p);
        *fd_p = -1;
    }
    return status;
}

static kvl_status_t key_unpack(kvl_ep_t *ep, const void *key, kvl_rkey_t **rkey_p)
{
    kvl_rkey_t *rkey = kvl_calloc(1, sizeof(*rkey));
    ucs_status_t status;

    if (!rkey) {
        return kvl_error(KVL_ERR_NO_MEMORY, "remote key: %zu bytes", sizeof(*rkey));
    }
    status = kvl_ucp_fails() ? UCS_ERR_IO_ERROR : ucp_ep_rkey_unpack(ep->ucp, key, &rkey->ucp);
    if (status != UCS_OK) {
        kvl_free(rkey);
        return kvl_ucx_error("ucp_ep_rkey_unpack", status);
    }
    *rkey_p = rkey;
    return KVL_OK;
}

kvl_status_t kvl_rkey_unpack(kvl_ep_t *ep, const void *packed, size_t length, uint64_t base,
                             uint64_t bytes, kvl_rkey_t **rkey_p)
{
    kvl_status_t status;
    uint8_t *key;
    int fd = -1;

    if (ep->state != EP_OPEN) {
        return kvl_error(KVL_ERR_CLOSED, "%s: endpoint is closed", ep->peer);
    }
    key = kvl_calloc(1, length + KEY_PAD);
    if (!key) {
        return kvl_error(KVL_ERR_NO_MEMORY, "remote key: %zu bytes", length);
    }
    memcpy(key, packed, length);
    status = ep->shared ? kvl_rkey_hold(key, length, base, bytes, &fd) : key_check(key, length);
    if (status == KVL_OK) {
        status = key_unpack(ep, key, rkey_p);
    }
    if (fd >= 0) {
        close(fd);
    }
    kvl_free(key);
    return status;
}

void kvl_rkey_destroy(kvl_rkey_t *rkey)
{
    if (!rkey) {
        return;
    }
    ucp_rkey_destroy(rkey->ucp);
    kvl_free(rkey);
}

kvl_status_t kvl_rkey_pointer(kvl_rkey_t *rkey, uint64_t remote, void **address_p)
{
    ucs_status_t status =
        kvl_ucp_fails() ? UCS_ERR_IO_ERROR : ucp_rkey_ptr(rkey->ucp, remote, address_p);

    return status == UCS_OK
               ? KVL_OK
               : kvl_error(KVL_ERR_UNSUPPORTED, "remote key: the memory is not shared");
}
