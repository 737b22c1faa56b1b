/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tools share: how they start, how they say what went wrong, how they end. */
#ifndef KVL_TOOLS_COMMON_H
#define KVL_TOOLS_COMMON_H

#include <kvlane/status.h>

#include <stdbool.h>
#include <stdio.h>

enum {
    KVL_EXIT_OK     = 0, /* done */
    KVL_EXIT_FAILED = 1, /* it was asked for rightly and did not work */
    KVL_EXIT_USAGE  = 2  /* it was asked for wrongly */
};

/* First call of every main(): sees to it that no socket becomes standard input, output or error where
 * these are closed; and starts the program anew, once, with the environment that UCX reads
 * while it is loaded (before main), where the user set nothing: no memory hooks, which can deadlock
 * the start-up, no signal handlers of UCX (SIGHUP is as it was), and its log on standard error instead of standard output.
 * Also lets a server listen again on the port of one that was killed, whose old connections still
 * wait for their end, and raises the limit of open files to what is allowed: each endpoint takes one
 * or two. */
void kvl_tool_start(int argc, char **argv);

/* "kvlaned 0.1.0 (UCX 1.13.1, /usr/lib/.../libucp.so.0)" */
void kvl_tool_version(FILE *stream, const char *name);

/* What kvl_tool_failed() or kvl_tool_usage() said last; "" if nothing. */
const char *kvl_tool_failure(void);

/* "NAME: what" on stderr, for what cannot go on. Returns KVL_EXIT_FAILED. */
int kvl_tool_failed(const char *name, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* "NAME: what" and where help is, on stderr. Returns KVL_EXIT_USAGE. */
int kvl_tool_usage(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A call that makes an object from what the user gave failed: was it a setting or an address that makes no
 * sense, so wrong usage? */
bool kvl_tool_is_misuse(kvl_status_t status);
/* Says why it failed; returns the exit code. */
int kvl_tool_refused(const char *name, kvl_status_t status);

/* Last call of a main() that printed on stdout: a full disk or a closed pipe is a failure too.
 * Returns @a code, or KVL_EXIT_FAILED if the output was lost. */
int kvl_tool_end(const char *name, int code);

#endif
