/* SPDX-License-Identifier: BSD-3-Clause */
#include "system/box.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

#define CHILDREN_MAX 64
#define START_MS     30000 /* UCX starts slowly on a busy machine */

/* ---- small things ---- */

int64_t box_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void box_pause_us(unsigned us)
{
    struct timespec pause = {us / 1000000, (long)(us % 1000000) * 1000};

    nanosleep(&pause, NULL);
}

unsigned box_number(const char *variable, unsigned otherwise)
{
    const char *text = getenv(variable);

    return text && *text ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

void box_hold(void)
{
    if (getenv("KVLANE_TEST_HOLD")) {
        fprintf(stderr, "held: attach a debugger to the children of %d\n", (int)getpid());
        raise(SIGSTOP);
    }
}

uint64_t box_random(uint64_t *state)
{
    uint64_t x = *state;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *state = x;
}

/* ---- children ---- */

static pid_t living[CHILDREN_MAX];

static void living_change(pid_t from, pid_t to)
{
    size_t i = 0;

    while (i < CHILDREN_MAX && living[i] != from) {
        i++;
    }
    REQUIRE(i < CHILDREN_MAX);
    living[i] = to;
}

void box_kill_all(void)
{
    size_t i;

    for (i = 0; i < CHILDREN_MAX; i++) {
        if (living[i]) {
            kill(living[i], SIGKILL);
            waitpid(living[i], NULL, 0);
            living[i] = 0;
        }
    }
}

static bool is_set(const box_setting_t *settings, const char *entry)
{
    for (; settings && settings->name; settings++) {
        size_t length = strlen(settings->name);

        if (strncmp(entry, settings->name, length) == 0 && entry[length] == '=') {
            return true;
        }
    }
    return false;
}

/* a child's environment: ours, and settings over it; one block, to be freed */
static char **make_environment(const box_setting_t *settings)
{
    size_t entries = 1, bytes = 0, i;
    const box_setting_t *s;
    char **table, *text;
    size_t at = 0;

    for (i = 0; environ[i]; i++) {
        entries++;
    }
    for (s = settings; s && s->name; s++) {
        entries++;
        bytes += strlen(s->name) + strlen(s->value) + 2;
    }
    table = malloc(entries * sizeof(*table) + bytes);
    REQUIRE(table != NULL);
    text = (char *)(table + entries);
    for (i = 0; environ[i]; i++) {
        if (!is_set(settings, environ[i])) {
            table[at++] = environ[i];
        }
    }
    for (s = settings; s && s->name; s++) {
        table[at++] = text;
        text += sprintf(text, "%s=%s", s->name, s->value) + 1;
    }
    table[at] = NULL;
    return table;
}

/* between fork and exec: nothing that takes a lock, the parent has threads */
static void __attribute__((noreturn))
become(const char *const *argv, char **environment, int out, int log, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(98);
    }
    dup2(out, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    execve(argv[0], (char *const *)argv, environment);
    _exit(97);
}

void box_spawn(box_child_t *child, const char *const *argv, const box_setting_t *settings)
{
    char **environment = make_environment(settings);
    pid_t parent       = getpid();
    int ends[2], log;

    log = open(shim_built("system_children.log"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    REQUIRE(log >= 0 && pipe2(ends, O_CLOEXEC) == 0);
    child->pid = fork();
    if (child->pid == 0) {
        become(argv, environment, ends[1], log, parent);
    }
    close(ends[1]);
    close(log);
    free(environment);
    child->out = ends[0];
    REQUIRE(child->pid > 0);
    living_change(0, child->pid);
}

/* one byte; false at the end of output or time */
static bool read_byte(int fd, char *byte, int64_t until_ms)
{
    for (;;) {
        struct pollfd entry = {.fd = fd, .events = POLLIN};
        int64_t left        = until_ms - box_now_ms();
        int n               = poll(&entry, 1, left > 0 ? (int)left : 0);

        if (n > 0) {
            return read(fd, byte, 1) == 1;
        }
        if (n == 0 || errno != EINTR) {
            return false;
        }
    }
}

bool box_line(box_child_t *child, char *line, size_t size, int64_t ms)
{
    int64_t until = box_now_ms() + ms;
    size_t at     = 0;
    char byte;

    while (read_byte(child->out, &byte, until)) {
        if (byte == '\n') {
            line[at] = '\0';
            return true;
        }
        if (at + 1 < size) {
            line[at++] = byte;
        }
    }
    line[at] = '\0';
    return false;
}

bool box_marks(box_child_t *child, char mark, unsigned count, int64_t ms)
{
    int64_t until = box_now_ms() + ms;
    char byte;

    while (count) {
        if (!read_byte(child->out, &byte, until)) {
            return false;
        }
        count -= byte == mark;
    }
    return true;
}

void box_stop(box_child_t *child)
{
    int status;

    REQUIRE(child->pid > 0 && kill(child->pid, SIGSTOP) == 0);
    REQUIRE(waitpid(child->pid, &status, WUNTRACED) == child->pid);
    REQUIRE(WIFSTOPPED(status));
}

void box_continue(box_child_t *child)
{
    CHECK_EQ(kill(child->pid, SIGCONT), 0);
}

static int child_ended(box_child_t *child, int status)
{
    close(child->out);
    living_change(child->pid, 0);
    child->pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

void box_kill(box_child_t *child)
{
    int status;

    if (child->pid > 0) {
        kill(child->pid, SIGKILL);
        REQUIRE(waitpid(child->pid, &status, 0) == child->pid);
        child_ended(child, status);
    }
}

int box_wait(box_child_t *child, int64_t ms)
{
    struct pollfd entry = {.fd = (int)syscall(SYS_pidfd_open, child->pid, 0), .events = POLLIN};
    int status, n;

    REQUIRE(entry.fd >= 0);
    do {
        n = poll(&entry, 1, (int)ms);
    } while (n < 0 && errno == EINTR);
    close(entry.fd);
    if (n == 0) {
        return -1;
    }
    REQUIRE(waitpid(child->pid, &status, 0) == child->pid);
    return child_ended(child, status);
}

bool box_runs(const box_child_t *child)
{
    siginfo_t info = {.si_pid = 0};

    return child->pid > 0 &&
           waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0;
}

static unsigned count_entries(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    unsigned count = 0;

    while (dir && (entry = readdir(dir)) != NULL) {
        count += entry->d_name[0] != '.';
    }
    if (dir) {
        closedir(dir);
    }
    return count;
}

/* a line "NAME:  N kB" of /proc/PID/status; 0 if there is none */
static uint64_t status_kib(pid_t pid, const char *name)
{
    size_t length     = strlen(name);
    unsigned long kib = 0;
    char path[64], line[256];
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    file = fopen(path, "r");
    while (file && fgets(line, sizeof(line), file)) {
        if (strncmp(line, name, length) == 0 && line[length] == ':') {
            kib = strtoul(line + length + 1, NULL, 10);
        }
    }
    if (file) {
        fclose(file);
    }
    return kib;
}

box_usage_t box_usage(pid_t pid)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    return (box_usage_t){.fds       = count_entries(path),
                         .rss_bytes = status_kib(pid, "VmRSS") << 10,
                         .own_bytes = status_kib(pid, "RssAnon") << 10};
}

/* ---- a node ---- */

void box_node_set(box_node_t *node, const char *rails, const char *memory,
                  const box_setting_t *more)
{
    size_t at = 0;

    *node                = (box_node_t){.memory = memory};
    node->settings[at++] = (box_setting_t){"KVLANE_RAILS", rails};
    for (; more && more->name; more++) {
        REQUIRE(at + 1 < BOX_SETTINGS);
        node->settings[at++] = *more;
    }
}

bool box_node_try(box_node_t *node)
{
    const char *listen = node->address[0] ? node->address : "127.0.0.1:0";
    const char *argv[] = {shim_built("kvlaned"), "-l", listen, "-m", node->memory, NULL};
    char line[128]     = "";

    box_spawn(&node->child, argv, node->settings);
    if (!box_line(&node->child, line, sizeof(line), START_MS)) {
        return false;
    }
    REQUIRE(strncmp(line, "ready ", 6) == 0 && strlen(line + 6) < sizeof(node->address));
    snprintf(node->address, sizeof(node->address), "%s", line + 6);
    return true;
}

void box_node_start(box_node_t *node)
{
    bool ready = box_node_try(node);

    CHECK_MSG(ready, "kvlaned does not get ready; see system_children.log");
    REQUIRE(ready);
}

void box_node_end(box_node_t *node)
{
    int code;

    CHECK(box_runs(&node->child));
    kill(node->child.pid, SIGTERM);
    code = box_wait(&node->child, 15000);
    CHECK_EQ(code, 0);
    if (code < 0) {
        box_kill(&node->child);
    }
}

/* ---- a client in the test program ---- */

void box_client_start(box_client_t *client, const char *address, size_t pool_bytes,
                      const box_setting_t *settings)
{
    kvl_engine_params_t params = {.address = address};
    kvl_config_t *config       = NULL;
    kvl_status_t status;

    *client = (box_client_t){.pool_bytes = pool_bytes};
    REQUIRE(kvl_config_create(&config) == KVL_OK);
    for (; settings && settings->name; settings++) {
        CHECK_MSG(kvl_config_set(config, settings->name, settings->value) == KVL_OK, "%s",
                  kvl_error_text());
    }
    params.config = config;
    status        = kvl_engine_create(&params, &client->engine);
    kvl_config_destroy(config);
    CHECK_MSG(status == KVL_OK, "engine: %s", kvl_error_text());
    REQUIRE(status == KVL_OK);
    REQUIRE(kvl_region_alloc(client->engine, pool_bytes, &client->region) == KVL_OK);
    client->pool = kvl_region_address(client->region);
    REQUIRE(kvl_cache_create(client->engine, address, &client->cache) == KVL_OK);
}

void box_client_open(box_client_t *client, const char *address, size_t pool_bytes,
                     const box_setting_t *settings)
{
    box_client_start(client, address, pool_bytes, settings);
    CHECK_MSG(kvl_cache_connect(client->cache, START_MS) == KVL_OK, "connect: %s",
              kvl_error_text());
}

void box_client_close(box_client_t *client)
{
    kvl_cache_destroy(client->cache);
    CHECK_EQ(kvl_region_release(client->region), KVL_OK);
    kvl_engine_destroy(client->engine);
    *client = (box_client_t){.pool = NULL};
}

kvl_status_t box_run(box_client_t *client, kvl_cache_op_t op, const kvl_item_t *items, size_t count,
                     int64_t timeout_ms, kvl_status_t *statuses)
{
    kvl_batch_params_t params = {.timeout_ms = timeout_ms};
    kvl_batch_t *batch        = NULL;
    kvl_status_t status;
    size_t i;

    status = kvl_cache_submit(client->cache, op, items, count, &params, &batch);
    if (status != KVL_INPROGRESS) { /* refused: counts as the batch's end */
        for (i = 0; statuses && i < count; i++) {
            statuses[i] = status;
        }
        return status;
    }
    status = kvl_batch_wait(batch, -1);
    for (i = 0; statuses && i < count; i++) {
        statuses[i] = kvl_batch_item(batch, i, NULL);
    }
    CHECK_EQ(kvl_batch_release(batch), KVL_OK);
    return status;
}

static kvl_status_t run_one(box_client_t *client, kvl_cache_op_t op, const char *key, size_t length)
{
    kvl_segment_t segment = {.address = client->pool, .length = length};
    kvl_item_t item       = {key, strlen(key), &segment, 1};

    return box_run(client, op, &item, 1, 5000, NULL);
}

kvl_status_t box_put(box_client_t *client, const char *key, size_t length)
{
    return run_one(client, KVL_CACHE_PUT, key, length);
}

kvl_status_t box_get(box_client_t *client, const char *key, size_t length)
{
    return run_one(client, KVL_CACHE_GET, key, length);
}

void box_works_again(box_client_t *client, int64_t ms, unsigned count)
{
    int64_t until       = box_now_ms() + ms;
    kvl_item_t item     = {"works", 5, NULL, 0};
    kvl_status_t status = KVL_ERR_PEER;
    unsigned i;

    while (status != KVL_OK && status != KVL_ERR_NOT_FOUND && box_now_ms() < until) {
        status = box_run(client, KVL_CACHE_EXISTS, &item, 1, 1000, NULL);
        if (kvl_status_group(status) == KVL_GROUP_PEER) {
            box_pause_us(1000); /* fails at once */
        }
    }
    CHECK_MSG(status == KVL_OK || status == KVL_ERR_NOT_FOUND, "no op works %d ms later: %s",
              (int)ms, kvl_status_name(status));
    for (i = 0; i < count; i++) {
        status = box_run(client, KVL_CACHE_EXISTS, &item, 1, 5000, NULL);
        CHECK_MSG(status == KVL_OK || status == KVL_ERR_NOT_FOUND, "op %u of %u: %s", i, count,
                  kvl_status_name(status));
    }
}

kvl_node_stat_t box_stat(box_client_t *client)
{
    kvl_node_stat_t stat = {.keys = 0};
    kvl_status_t status  = kvl_cache_stat(client->cache, 5000, &stat);

    CHECK_MSG(status == KVL_OK, "stat: %s", kvl_error_text());
    return stat;
}

kvl_node_stat_t box_until_quiet(box_client_t *client, uint64_t sessions, int64_t ms)
{
    int64_t until = box_now_ms() + ms;
    kvl_node_stat_t stat;
    bool quiet;

    do {
        box_pause_us(2000);
        stat  = box_stat(client);
        quiet = !stat.leases && !stat.quarantined_slots && stat.sessions == sessions;
    } while (!quiet && box_now_ms() < until);
    if (!quiet) {
        box_hold();
    }
    CHECK_MSG(quiet, "%d ms later there are %llu leases, %llu slots in quarantine, %llu sessions",
              (int)ms, (unsigned long long)stat.leases, (unsigned long long)stat.quarantined_slots,
              (unsigned long long)stat.sessions);
    return stat;
}
