/* SPDX-License-Identifier: BSD-3-Clause */
/* A client that is killed, or stopped, in the middle of writing a message into the queue that a node has
 * in shared memory: at that very place, each time. */
#ifndef KVL_TEST_CONFORM_WEDGE_H
#define KVL_TEST_CONFORM_WEDGE_H

#include <stdbool.h>
#include <sys/types.h>

/* Returns once it happened. signal: SIGKILL, or SIGSTOP: then its pid, for wedge_continue(). transport: of an
 * engine's listener, not of a node. */
pid_t wedge_start(const char *address, unsigned lane, int signal, bool transport);
void wedge_continue(pid_t pid); /* ... and waits for its end */

#endif
