/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tools share: how they start, how they say what went wrong, how they end. */
#ifndef KVL_TOOLS_COMMON_H
#define KVL_TOOLS_COMMON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum {
    KVL_EXIT_OK     = 0, /* done */
    KVL_EXIT_FAILED = 1, /* it was asked for rightly and did not work */
    KVL_EXIT_USAGE  = 2  /* it was asked for wrongly */
};

/* First call of every main(): starts the program anew, once, with the environment that UCX reads
 * while it is loaded (before main), where the user set nothing: no memory hooks, which can deadlock
 * the start-up, and no signal handlers of UCX. Also raises the limit of open files to what is
 * allowed: each endpoint takes one or two. */
void kvl_tool_start(int argc, char **argv);

/* "kvlaned 0.1.0 (UCX 1.13.1, /usr/lib/.../libucp.so.0)" */
void kvl_tool_version(FILE *stream, const char *name);

/* "NAME: what" on stderr, for what cannot go on. Returns KVL_EXIT_FAILED. */
int kvl_tool_failed(const char *name, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* "NAME: what" and where help is, on stderr. Returns KVL_EXIT_USAGE. */
int kvl_tool_usage(const char *name, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* "4096", "64K", "1.5G": bytes, with K, M, G or T for powers of 1024. Not through src/base, which has
 * its own copy of kvl_error_text() that would hide the library's. */
bool kvl_tool_bytes(const char *text, uint64_t *bytes_p);

/* Last call of a main() that printed on stdout: a full disk or a closed pipe is a failure too.
 * Returns @a code, or KVL_EXIT_FAILED if the output was lost. */
int kvl_tool_end(const char *name, int code);

#endif
