/* SPDX-License-Identifier: BSD-3-Clause */
/* What the doctor makes of what it measured: pure functions, numbers in, a finding out. */
#ifndef KVL_TOOLS_DOCTOR_JUDGE_H
#define KVL_TOOLS_DOCTOR_JUDGE_H

#include "base/limits.h"
#include "rail/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { KVL_FOUND_OK, KVL_FOUND_WARN, KVL_FOUND_FAIL } kvl_found_t; /* the worst last */

typedef struct {
    kvl_found_t found;
    char name[96]; /* of the check, and of the device that it looked at */
    char text[640];
    char way_out[384]; /* "": there is nothing to do */
} kvl_finding_t;

const char *kvl_found_name(kvl_found_t found); /* "ok", "warn", "fail" */

/* @a way_out NULL: none */
kvl_finding_t kvl_finding(kvl_found_t found, const char *name, const char *way_out,
                          const char *format, ...) __attribute__((format(printf, 4, 5)));

#define KVL_UNLIMITED UINT64_MAX

/* @a rdma: there is a device that pins memory. */
kvl_finding_t kvl_judge_memlock(const kvl_locking_t *locking, bool rdma);

/* @a limit: RLIMIT_NOFILE, or KVL_UNLIMITED. Under KVL_FILES_MIN an engine can't start. */
#define KVL_FILES_MIN 64
kvl_finding_t kvl_judge_files(uint64_t limit);

typedef struct {
    uint64_t total, free; /* pages of all sizes */
    char transparent[16]; /* "always", "madvise", "never"; "": unknown */
} kvl_huge_pages_t;
kvl_finding_t kvl_judge_huge_pages(const kvl_huge_pages_t *pages);

/* of /dev/shm; 0, 0: it is not there */
kvl_finding_t kvl_judge_shm(uint64_t total_bytes, uint64_t free_bytes);

/* @a built "1.13", @a loaded "1.13.1"; @a maps: a process's /proc/PID/maps */
kvl_finding_t kvl_judge_ucx(const char *built, const char *loaded, const char *path,
                            const char *maps);

/* a port: its state, GIDs and MTU */
kvl_finding_t kvl_judge_port(const kvl_rail_t *rail);
/* bytes that one packet of RoCE carries over an interface with that MTU: 256 to 4096, 0 if none fits */
unsigned kvl_roce_payload(unsigned mtu);

typedef struct {
    const char *name;
    uint64_t value;
} kvl_error_count_t;
kvl_finding_t kvl_judge_errors(const char *rail, const kvl_error_count_t *counts, size_t count);

typedef struct {
    size_t gpus;
    bool rdma;
    bool peermem; /* nvidia_peermem or nv_peer_mem is loaded */
    bool dmabuf;  /* the driver of the GPUs exports dmabuf: NVIDIA's open one, or amdgpu */
} kvl_gpudirect_t;
kvl_finding_t kvl_judge_gpudirect(const kvl_gpudirect_t *has);

/* What a session uses, against what KVLANE_RAILS asked for. @a pair names the finding. */
kvl_finding_t kvl_judge_transport(const char *pair, const char *rails, const kvl_rail_t *rail,
                                  const char *transport);
/* MTUs of the interfaces at both ends, 0: unknown; false: nothing to say of it */
bool kvl_judge_mtus(const char *pair, const kvl_rail_t *rail, unsigned peer_mtu,
                    kvl_finding_t *finding_p);
kvl_finding_t kvl_judge_latency(const char *pair, int64_t least_ns, int64_t median_ns,
                                unsigned count);

#endif
