/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/process.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static size_t read_small(const char *path, char *text, size_t size)
{
    int fd    = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = -1;

    if (fd >= 0) {
        n = read(fd, text, size - 1);
        close(fd);
    }
    text[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

/* fields 3 (state) and 22 (start time in ticks after boot) of /proc/PID/stat; the command before
 * them may hold anything, so count from its last parenthesis */
static bool process_stat(uint32_t pid, char *state_p, uint64_t *start_p)
{
    char path[64], text[1024], *at;
    int field;

    snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    if (!read_small(path, text, sizeof(text)) || !(at = strrchr(text, ')')) || at[1] != ' ') {
        return false;
    }
    at += 2;
    *state_p = *at;
    for (field = 3; field < 22; field++) {
        at = strchr(at, ' ');
        if (!at) {
            return false;
        }
        at++;
    }
    *start_p = strtoull(at, NULL, 10);
    return true;
}

static uint64_t pid_namespace(void)
{
    struct stat st;

    return stat("/proc/self/ns/pid", &st) ? 0 : (uint64_t)st.st_ino;
}

static void boot_id(uint8_t id[16])
{
    char text[64];
    size_t i, n = 0;

    memset(id, 0, 16);
    read_small("/proc/sys/kernel/random/boot_id", text, sizeof(text));
    for (i = 0; text[i] && n < 32; i++) {
        unsigned digit;

        if (sscanf((char[]){text[i], '\0'}, "%1x", &digit) == 1) {
            id[n / 2] = (uint8_t)(id[n / 2] << 4 | digit);
            n++;
        }
    }
}

void kvl_process_identity(kvl_hello_t *hello)
{
    char state, command[64], host[64] = "";

    hello->pid = (uint32_t)getpid();
    if (!process_stat(hello->pid, &state, &hello->pid_start)) {
        hello->pid_start = 0;
    }
    hello->pid_ns = pid_namespace();
    boot_id(hello->boot_id);
    read_small("/proc/self/comm", command, sizeof(command));
    command[strcspn(command, "\n")] = '\0';
    gethostname(host, sizeof(host) - 1);
    snprintf(hello->name, sizeof(hello->name), "%s[%u]@%s", command, hello->pid, host);
}

bool kvl_process_is_here(const kvl_hello_t *hello)
{
    static const uint8_t none[16];
    uint8_t id[16];

    boot_id(id);
    return hello->pid && hello->pid_start && hello->pid_ns && memcmp(id, none, sizeof(id)) &&
           !memcmp(id, hello->boot_id, sizeof(id)) && hello->pid_ns == pid_namespace();
}

bool kvl_process_is_dead(const kvl_hello_t *hello)
{
    uint64_t start;
    char state;

    if (!kvl_process_is_here(hello)) {
        return false;
    }
    /* a zombie has no memory left to write with */
    return !process_stat(hello->pid, &state, &start) || start != hello->pid_start || state == 'Z' ||
           state == 'X';
}
