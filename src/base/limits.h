/* SPDX-License-Identifier: BSD-3-Clause */
/* How much memory the system lets this process have, and pin. */
#ifndef KVL_BASE_LIMITS_H
#define KVL_BASE_LIMITS_H

#include <kvlane/status.h>

#include <stdbool.h>
#include <stdint.h>

/* The number in the first line of a file that starts with @a name ("" for its first line); UINT64_MAX: none. */
uint64_t kvl_limits_number(const char *path, const char *name);
/* The least memory limit of the control groups that the process is in, bytes; UINT64_MAX: none. */
uint64_t kvl_limits_group(void);

/* What the workers of a rail of RDMA pin, most of it buffers to receive into, with the first connection: UCX 1.13.1 has
 * locked 124 MiB on soft-RoCE. */
#define KVL_LOCKING_QUEUES (UINT64_C(120) << 20)

/* the ways out of a memlock that is too low, after a verb for any of them */
#define KVL_LOCKING_WAYS                                                                             \
    "`ulimit -l unlimited' before it, or a line \"* - memlock unlimited\" in /etc/security/limits.conf; " \
    "LimitMEMLOCK=infinity in its systemd unit; --ulimit memlock=-1 for its container"

/* What is asked before memory is pinned: a card's driver refuses pages over the process's limit. */
typedef struct {
    uint64_t memlock; /* RLIMIT_MEMLOCK, bytes; UINT64_MAX: unlimited */
    bool ipc_lock;    /* it has CAP_IPC_LOCK where the kernel asks for it: memlock does not hold */
    uint64_t group;   /* kvl_limits_group() */
    uint64_t pinned;  /* bytes that the process has pinned */
    char process[32]; /* its name */
    int pid;
} kvl_locking_t;

void kvl_locking_look(kvl_locking_t *locking_p);
/* May @a need bytes more be pinned on each of @a rails (at least 1), for @a what? The process's limit counts the pages
 * of each rail, the control group's the pages once. KVL_ERR_LIMIT names limit, need, process and the ways out.
 * Pure. */
kvl_status_t kvl_locking_check(const kvl_locking_t *memlock, uint64_t need, unsigned rails, const char *what);

#endif
