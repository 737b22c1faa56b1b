/* SPDX-License-Identifier: BSD-3-Clause */
/* Other processes of this program: started by fork and exec with the same environment, told to end
 * when their parent dies, and always reaped. */
#ifndef KVL_PERFTEST_CHILD_H
#define KVL_PERFTEST_CHILD_H

#include "tools/perftest/channel.h"

#include <sys/types.h>

typedef struct {
    pid_t pid;             /* 0: none */
    perf_channel_t output; /* its stdout */
} perf_child_t;

/* @a argv ends with NULL. @a keep: a file descriptor that it inherits, or -1. */
int perf_child_start(perf_child_t *child, const char *const *argv, int keep);
/* As above without a pipe: it keeps this process's stdout. */
int perf_child_spawn(pid_t *pid_p, const char *const *argv, int keep);
/* Waits for its end, at most @a timeout_ms (negative: as long as it takes, until a signal).
 * Its exit code, 128 + signal, or -1 if it still runs. */
int perf_child_wait(perf_child_t *child, int timeout_ms);
/* Asks it to end, by SIGTERM, then by SIGKILL; reaps it. -1 (said) if it did not end well. No
 * child: does nothing. */
int perf_child_stop(perf_child_t *child);

#endif
