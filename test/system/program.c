/* SPDX-License-Identifier: BSD-3-Clause */
#include "system/program.h"

#include "shim/shim.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARGS_MAX 48
#define GONE_MS  20000

/* the path of a program, a name with a slash is one, and its argv */
static const char *prepare(const char *name, const char *const args[], const char *argv[ARGS_MAX])
{
    const char *path = strchr(name, '/') ? name : shim_built(name);
    unsigned i;

    if (access(path, X_OK) != 0) {
        SKIP("the tools are not built here");
    }
    argv[0] = name;
    for (i = 0; args[i]; i++) {
        REQUIRE(i + 2 < ARGS_MAX);
        argv[i + 1] = args[i];
    }
    argv[i + 1] = NULL;
    return path;
}

void program_start(program_t *program, const char *name, const char *const args[],
                   const char *input)
{
    const char *argv[ARGS_MAX];
    const char *path = prepare(name, args, argv);
    int out[2], err[2], in = -1;

    if (input) {
        in = open(input, O_RDONLY | O_CLOEXEC);
        REQUIRE(in >= 0);
    }
    REQUIRE(pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0);
    *program     = (program_t){.out = out[0], .err = err[0]};
    program->pid = fork();
    REQUIRE(program->pid >= 0);
    if (program->pid == 0) {
        if (in >= 0) {
            dup2(in, STDIN_FILENO);
        }
        dup2(out[1], STDOUT_FILENO);
        dup2(err[1], STDERR_FILENO);
        execv(path, (char *const *)argv);
        _exit(127);
    }
    close(out[1]);
    close(err[1]);
    if (in >= 0) {
        close(in);
    }
}

void program_start_closed(program_t *program, const char *name, const char *const args[])
{
    const char *argv[ARGS_MAX];
    const char *path = prepare(name, args, argv);

    *program     = (program_t){.out = -1, .err = -1};
    program->pid = fork();
    REQUIRE(program->pid >= 0);
    if (program->pid == 0) {
        close(STDIN_FILENO);
        close(STDOUT_FILENO);
        close(STDERR_FILENO);
        execv(path, (char *const *)argv);
        _exit(127);
    }
}

void program_ready(program_t *program, char *address, size_t size)
{
    char line[256], word[160] = "";
    size_t used = 0;

    while (used < sizeof(line) - 1 && read(program->out, line + used, 1) == 1 &&
           line[used] != '\n') {
        used++;
    }
    line[used] = '\0';
    CHECK_MSG(sscanf(line, "ready %159s", word) == 1, "it says \"%s\"", line);
    REQUIRE(word[0] != '\0' && strlen(word) < size);
    memcpy(address, word, strlen(word) + 1);
}

/* Reads both at once, so that neither fills up. */
static void read_both(program_t *program, char out[PROGRAM_TEXT], char err[PROGRAM_TEXT])
{
    struct pollfd fds[2] = {{.fd = program->out, .events = POLLIN},
                            {.fd = program->err, .events = POLLIN}};
    char *texts[2]       = {out, err};
    size_t used[2]       = {0, 0};

    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
        poll(fds, 2, -1);
        for (int i = 0; i < 2; i++) {
            char rest[512];
            size_t room = PROGRAM_TEXT - 1 - used[i];
            ssize_t n;

            if (fds[i].fd < 0 || !fds[i].revents) {
                continue;
            }
            n = room > 0 ? read(fds[i].fd, texts[i] + used[i], room)
                         : read(fds[i].fd, rest, sizeof(rest));
            if (n <= 0) {
                fds[i].fd = -1;
            } else if (room > 0) {
                used[i] += (size_t)n;
            }
        }
    }
    out[used[0]] = '\0';
    err[used[1]] = '\0';
}

int program_end(program_t *program, char out[PROGRAM_TEXT], char err[PROGRAM_TEXT])
{
    int status = 0;

    read_both(program, out, err);
    close(program->out);
    close(program->err);
    REQUIRE(waitpid(program->pid, &status, 0) == program->pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

int program_run(const char *name, const char *const args[], char out[PROGRAM_TEXT],
                char err[PROGRAM_TEXT])
{
    program_t program;

    program_start(&program, name, args, NULL);
    return program_end(&program, out, err);
}

/* ---- what a process leaves ---- */

static pid_t parent_of(const char *pid)
{
    char path[300], line[512] = "";
    const char *end;
    FILE *stream;
    int parent = 0;
    char state;

    snprintf(path, sizeof(path), "/proc/%s/stat", pid);
    stream = fopen(path, "re");
    if (!stream) {
        return 0;
    }
    if (!fgets(line, sizeof(line), stream)) {
        line[0] = '\0';
    }
    fclose(stream);
    end = strrchr(line, ')'); /* behind the name, which may be anything */
    return end && sscanf(end, ") %c %d", &state, &parent) == 2 && state != 'Z' ? parent : 0;
}

unsigned program_children(pid_t pid, pid_t *children, unsigned max)
{
    DIR *dir = opendir("/proc");
    const struct dirent *entry;
    unsigned count = 0;

    while (dir && count < max && (entry = readdir(dir))) {
        if (isdigit((unsigned char)entry->d_name[0]) && parent_of(entry->d_name) == pid) {
            children[count++] = (pid_t)atoi(entry->d_name);
        }
    }
    if (dir) {
        closedir(dir);
    }
    return count;
}

void program_segments(pid_t pid, char *names, size_t size)
{
    char path[64], line[1024];
    FILE *stream;

    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    stream = fopen(path, "re");
    while (stream && fgets(line, sizeof(line), stream)) {
        const char *name = strstr(line, "/dev/shm/");

        if (name && strstr(name, "ucx") && !strstr(names, name) &&
            strlen(names) + strlen(name) < size) {
            strcat(names, name);
        }
    }
    if (stream) {
        fclose(stream);
    }
}

unsigned program_segments_left(const char *names)
{
    char copy[4096], *rest, *name;
    unsigned left = 0;

    snprintf(copy, sizeof(copy), "%s", names);
    for (name = strtok_r(copy, "\n", &rest); name; name = strtok_r(NULL, "\n", &rest)) {
        left += access(name, F_OK) == 0;
    }
    return left;
}

int program_gone(pid_t pid)
{
    const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
    char name[16];

    snprintf(name, sizeof(name), "%d", (int)pid);
    for (unsigned i = 0; i < GONE_MS / 10; i++) {
        if (parent_of(name) == 0) {
            return 0;
        }
        nanosleep(&pause, NULL);
    }
    return -1;
}
