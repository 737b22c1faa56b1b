/* SPDX-License-Identifier: BSD-3-Clause */
/* Whole files in memory. Each returns an exit code; @a name is the program's, for what goes wrong. */
#ifndef KVL_TOOLS_FILE_H
#define KVL_TOOLS_FILE_H

#include <stddef.h>

/* All bytes of a file, at least one; "-": standard input. The memory is to be freed. */
int kvl_tool_read_file(const char *name, const char *path, char **memory_p, size_t *length_p);

/* Before there is anything to write: says what will not work. */
int kvl_tool_check_file(const char *name, const char *path);

/* Writes beside @a path, or beside the file that it links to, and renames: the file is whole or as it was,
 * and nothing is left beside it when a signal ends the program, which has to have no other thread. What is
 * no regular file is written as it is; "-": standard output. */
int kvl_tool_write_file(const char *name, const char *path, const char *memory, size_t length);

#endif
