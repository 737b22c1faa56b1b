/* SPDX-License-Identifier: BSD-3-Clause */
/* File descriptors of this process. */
#ifndef KVL_BASE_FILES_H
#define KVL_BASE_FILES_H

#include <stdbool.h>

/* Can @a need more be opened? Any thread. Cheap as long as the process never came near its limit. */
bool kvl_files_left(unsigned need);
/* Calls @a func for each open one until it answers false; false: the kernel does not tell. */
bool kvl_files_each(bool (*func)(int fd, void *arg), void *arg);
/* "`ulimit -n' is 1024": for messages */
void kvl_files_limit(char *text, unsigned long size);

#endif
