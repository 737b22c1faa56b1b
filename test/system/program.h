/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs of the build folder as processes of a test: started, read, signalled, reaped. */
#ifndef KVL_TEST_SYSTEM_PROGRAM_H
#define KVL_TEST_SYSTEM_PROGRAM_H

#include <stddef.h>
#include <sys/types.h>

#define PROGRAM_TEXT 65536

typedef struct {
    pid_t pid;
    int out, err; /* its stdout and stderr */
} program_t;

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Starts it, @a name is in the build folder or has a slash; @a args are what follows the name and end with NULL. @a input: a file, or NULL. */
void program_start(program_t *program, const char *name, const char *const args[],
                   const char *input);
/* Starts it with standard input, output and error closed. */
void program_start_closed(program_t *program, const char *name, const char *const args[]);
/* Reads until the line that says "ready ADDR:PORT"; fails the test otherwise. */
void program_ready(program_t *program, char *address, size_t size);
/* Reads all it prints, waits for its end. Its exit code, or 256 + signal. */
int program_end(program_t *program, char out[PROGRAM_TEXT], char err[PROGRAM_TEXT]);
/* Start and end. */
int program_run(const char *name, const char *const args[], char out[PROGRAM_TEXT],
                char err[PROGRAM_TEXT]);

/* Processes that @a pid started and that still run; at most @a max of them, how many. */
unsigned program_children(pid_t pid, pid_t *children, unsigned max);
/* Segments of UCX in /dev/shm that @a pid has mapped: adds their names, each ended by a line end. */
void program_segments(pid_t pid, char *names, size_t size);
/* How many of these are still there. */
unsigned program_segments_left(const char *names);
/* Waits until the process has gone, at most 20 s. 0: gone. */
int program_gone(pid_t pid);

#endif
