/* SPDX-License-Identifier: BSD-3-Clause */
#include "conform/raw.h"
#include "shim/shim.h"

#include "lane/endpoint.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* kvlaned as its users meet it: what it prints, how it ends, what it says when it cannot start. */

#define TEXT_MAX 8192

typedef struct {
    pid_t pid;
    int out, err;
    char address[128];
} daemon_t;

static const char *program(void)
{
    static char path[4096];
    const char *build = getenv("KVL_BUILD");

    snprintf(path, sizeof(path), "%s/kvlaned", build ? build : ".");
    return path;
}

/* starts it; args end with NULL */
static void spawn(daemon_t *daemon, const char *const args[])
{
    int out[2], err[2];
    const char *argv[16] = {"kvlaned"};
    unsigned i;

    if (access(program(), X_OK) != 0) {
        SKIP("no kvlaned in KVL_BUILD");
    }
    for (i = 0; args[i]; i++) {
        argv[i + 1] = args[i];
    }
    REQUIRE(pipe(out) == 0 && pipe(err) == 0);
    *daemon     = (daemon_t){.out = out[0], .err = err[0]};
    daemon->pid = fork();
    REQUIRE(daemon->pid >= 0);
    if (daemon->pid == 0) {
        dup2(out[1], STDOUT_FILENO);
        dup2(err[1], STDERR_FILENO);
        close(out[0]);
        close(err[0]);
        close(out[1]);
        close(err[1]);
        execv(program(), (char *const *)argv);
        _exit(127);
    }
    close(out[1]);
    close(err[1]);
}

static void read_all(int fd, char text[TEXT_MAX])
{
    size_t used = 0;
    ssize_t n;

    while (used < TEXT_MAX - 1 && (n = read(fd, text + used, TEXT_MAX - 1 - used)) > 0) {
        used += (size_t)n;
    }
    text[used] = '\0';
}

/* Waits for its end; its exit code, or 256 + the signal that ended it. */
static int reap(daemon_t *daemon, char out[TEXT_MAX], char err[TEXT_MAX])
{
    int status = 0;

    read_all(daemon->out, out);
    read_all(daemon->err, err);
    close(daemon->out);
    close(daemon->err);
    REQUIRE(waitpid(daemon->pid, &status, 0) == daemon->pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

/* Waits for the line that says it accepts. */
static void ready(daemon_t *daemon)
{
    char line[256];
    size_t used = 0;

    while (used < sizeof(line) - 1 && read(daemon->out, line + used, 1) == 1 &&
           line[used] != '\n') {
        used++;
    }
    line[used] = '\0';
    CHECK_MSG(sscanf(line, "ready %127s", daemon->address) == 1, "it says \"%s\"", line);
    REQUIRE(daemon->address[0]);
}

static void start(daemon_t *daemon, const char *listen, const char *drain)
{
    const char *const args[] = {"-l", listen, "-m", "16M", "-o", "RAILS=tcp", "-d", drain, NULL};

    spawn(daemon, args);
    ready(daemon);
}

static int run(const char *const args[], char out[TEXT_MAX], char err[TEXT_MAX])
{
    daemon_t daemon;

    spawn(&daemon, args);
    return reap(&daemon, out, err);
}

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static unsigned shared_segments(void)
{
    DIR *dir = opendir("/dev/shm");
    struct dirent *entry;
    unsigned n = 0;

    while (dir && (entry = readdir(dir))) {
        n += strstr(entry->d_name, "ucx") != NULL;
    }
    if (dir) {
        closedir(dir);
    }
    return n;
}

TEST(kvlaned_run, says_ready_serves_and_drains_on_sigterm_and_sigint)
{
    static const int signals[] = {SIGTERM, SIGINT};
    char out[TEXT_MAX], err[TEXT_MAX];
    unsigned i;

    for (i = 0; i < 2; i++) {
        daemon_t daemon;
        kvl_wire_lease_t lease;
        raw_t raw;

        start(&daemon, "127.0.0.1:0", "60");
        CHECK(strncmp(daemon.address, "127.0.0.1:", 10) == 0 &&
              strcmp(daemon.address + 10, "0") != 0);
        raw_open(&raw, "tcp", daemon.address);
        raw_login(&raw);
        lease = raw_reserve(&raw, "k", 5000).lease;
        CHECK_EQ(kill(daemon.pid, signals[i]), 0);
        raw_step(&raw, 50);
        CHECK_EQ(waitpid(daemon.pid, NULL, WNOHANG), 0); /* it waits for us */
        CHECK_EQ(raw_commit(&raw, &lease, 5000, 0), KVL_OK);
        CHECK(raw_is_closed(&raw, KVL_LANE_CTRL));
        CHECK_EQ(reap(&daemon, out, err), 0);
        CHECK_STR_EQ(out, ""); /* after the one line */
        CHECK_STR_EQ(err, "");
        raw_close(&raw);
    }
}

TEST(kvlaned_run, ends_at_once_on_a_second_signal)
{
    char out[TEXT_MAX], err[TEXT_MAX];
    daemon_t daemon;
    raw_t raw;

    start(&daemon, "127.0.0.1:0", "3600");
    raw_open(&raw, "tcp", daemon.address);
    raw_login(&raw);
    raw_reserve(&raw, "k", 5000); /* it would wait for its end */
    CHECK_EQ(kill(daemon.pid, SIGTERM), 0);
    raw_step(&raw, 50);
    CHECK_EQ(kill(daemon.pid, SIGTERM), 0);
    CHECK_EQ(reap(&daemon, out, err), 1);
    raw_close(&raw);
}

TEST(kvlaned_run, takes_the_port_of_one_that_was_killed)
{
    char out[TEXT_MAX], err[TEXT_MAX], address[128];
    daemon_t daemon;
    uint64_t length;
    raw_t raw, again;

    start(&daemon, "127.0.0.1:0", "1");
    raw_open(&raw, "tcp", daemon.address);
    raw_login(&raw);
    memcpy(address, daemon.address, sizeof(address));
    CHECK_EQ(kill(daemon.pid, SIGKILL), 0);
    CHECK_EQ(reap(&daemon, out, err), 256 + SIGKILL);
    start(&daemon, address, "1"); /* while the old connection is still open here */
    CHECK_STR_EQ(daemon.address, address);
    raw_open(&again, "tcp", daemon.address);
    raw_login(&again);
    CHECK_EQ(raw_exists(&again, "k", &length), KVL_ERR_NOT_FOUND);
    raw_close(&raw);
    raw_close(&again);
    CHECK_EQ(kill(daemon.pid, SIGTERM), 0);
    CHECK_EQ(reap(&daemon, out, err), 0);
}

/* others on this host may start and end meanwhile: their names come and go within moments */
static void back_to(unsigned before)
{
    int tries;

    for (tries = 0; tries < 500 && shared_segments() > before; tries++) {
        usleep(10000);
    }
    CHECK(shared_segments() <= before);
}

TEST(kvlaned_run, leaves_no_shared_memory_behind)
{
    unsigned before = shared_segments();
    char out[TEXT_MAX], err[TEXT_MAX];
    daemon_t daemon;
    int round;

    for (round = 0; round < 2; round++) {
        spawn(&daemon, ARGS("-l", "127.0.0.1:0", "-m", "16M"));
        ready(&daemon);
        CHECK_EQ(kill(daemon.pid, round ? SIGKILL : SIGTERM), 0);
        CHECK_EQ(reap(&daemon, out, err), round ? 256 + SIGKILL : 0);
        back_to(before);
    }
}

/* how often the threads of a process went to sleep so far */
static long sleeps_of(pid_t pid)
{
    char path[64], line[256];
    long sum = 0, count;
    struct dirent *entry;
    DIR *tasks;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    tasks = opendir(path);
    while (tasks && (entry = readdir(tasks)) != NULL) {
        snprintf(path, sizeof(path), "/proc/%d/task/%.16s/status", (int)pid, entry->d_name);
        file = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
        while (file && fgets(line, sizeof(line), file)) {
            sum += sscanf(line, "voluntary_ctxt_switches: %ld", &count) == 1 ? count : 0;
        }
        if (file) {
            fclose(file);
        }
    }
    if (tasks) {
        closedir(tasks);
    }
    return sum;
}

/* a thread of it that looked every millisecond whether there is something to do would be seen */
TEST(kvlaned_run, sleeps_while_nobody_wants_anything)
{
    char out[TEXT_MAX], err[TEXT_MAX];
    daemon_t daemon;
    long before = 0, count = 0;
    int tries;

    spawn(&daemon, ARGS("-l", "127.0.0.1:0", "-m", "16M"));
    ready(&daemon);
    for (tries = 0; tries < 10; tries++) {
        before = sleeps_of(daemon.pid);
        usleep(1000000);
        count = sleeps_of(daemon.pid) - before;
        if (count < 100) {
            break;
        }
    }
    CHECK(before > 0);
    CHECK_MSG(count < 100, "%ld times in a second", count);
    CHECK_EQ(kill(daemon.pid, SIGTERM), 0);
    CHECK_EQ(reap(&daemon, out, err), 0);
}

/* its environment, a line for each variable */
static void environment_of(const daemon_t *daemon, char text[TEXT_MAX])
{
    char path[64];
    size_t size = 0, i;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/environ", (int)daemon->pid);
    file = fopen(path, "r");
    if (file) {
        size = fread(text, 1, TEXT_MAX - 1, file);
        fclose(file);
    }
    for (i = 0; i < size; i++) {
        text[i] = text[i] ? text[i] : '\n';
    }
    text[size] = '\0';
}

TEST(kvlaned_start, sets_what_ucx_reads_early_and_leaves_what_the_user_set)
{
    static const char *const names[] = {"UCX_MEM_MMAP_HOOK_MODE", "UCX_ERROR_SIGNALS"};
    char out[TEXT_MAX], err[TEXT_MAX], text[TEXT_MAX];
    char *kept[2];
    daemon_t daemon;
    unsigned i;

    for (i = 0; i < 2; i++) {
        kept[i] = getenv(names[i]) ? strdup(getenv(names[i])) : NULL;
        unsetenv(names[i]);
    }
    setenv("UCX_ERROR_SIGNALS", "SIGFPE", 1);
    start(&daemon, "127.0.0.1:0", "1");
    environment_of(&daemon, text);
    CHECK(strstr(text, "UCX_MEM_MMAP_HOOK_MODE=none\n") != NULL);
    CHECK(strstr(text, "UCX_ERROR_SIGNALS=SIGFPE\n") != NULL);
    CHECK_EQ(kill(daemon.pid, SIGTERM), 0);
    CHECK_EQ(reap(&daemon, out, err), 0);
    unsetenv("UCX_ERROR_SIGNALS");
    start(&daemon, "127.0.0.1:0", "1");
    environment_of(&daemon, text);
    CHECK(strstr(text, "UCX_ERROR_SIGNALS=\n") != NULL);
    CHECK_EQ(kill(daemon.pid, SIGTERM), 0);
    CHECK_EQ(reap(&daemon, out, err), 0);
    for (i = 0; i < 2; i++) {
        if (kept[i]) {
            setenv(names[i], kept[i], 1);
        }
        free(kept[i]);
    }
}

TEST(kvlaned_start, tells_wrong_usage_from_failure)
{
    static const struct {
        const char *args[8];
        int code;
        const char *says;
    } cases[] = {
        {{NULL}, 2, "-l is missing"},
        {{"-l", "127.0.0.1:0"}, 2, "-m is missing"},
        {{"-l", "127.0.0.1:0", "-m", "5x"}, 2, "5x"},
        {{"-l", "127.0.0.1:0", "-m", "-1"}, 2, "-1"},
        {{"-l", "nowhere", "-m", "16M"}, 2, "nowhere"},
        {{"-l", "127.0.0.1:99999", "-m", "16M"}, 2, "99999"},
        {{"-l", "127.0.0.1:0", "-m", "16M", "-o", "DEPHT=4"}, 2, "KVLANE_DEPTH"},
        {{"-l", "127.0.0.1:0", "-m", "16M", "-o", "KVLANE_DEPTH"}, 2, "NAME=VALUE"},
        {{"-l", "127.0.0.1:0", "-m", "16M", "-d", "soon"}, 2, "soon"},
        {{"-l", "127.0.0.1:0", "-m", "16M", "more"}, 2, "more"},
        {{"--lisen", "127.0.0.1:0"}, 2, "lisen"},
        {{"-l", "127.0.0.1:0", "-m", "512G"}, 1, "available"},
        {{"-l", "192.0.2.1:0", "-m", "16M", "-o", "RAILS=tcp"}, 1, "192.0.2.1"},
        {{"-l", "127.0.0.1:0", "-m", "1K"}, 2, "1024 bytes"},
    };
    char out[TEXT_MAX], err[TEXT_MAX];
    size_t i;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int code = run(cases[i].args, out, err);

        CHECK_MSG(code == cases[i].code, "case %zu: exit code %d: %s", i, code, err);
        CHECK_MSG(strstr(err, cases[i].says) != NULL, "case %zu: it says \"%s\"", i, err);
        CHECK_STR_EQ(out, "");
    }
}

TEST(kvlaned_start, says_who_has_the_port)
{
    char out[TEXT_MAX], err[TEXT_MAX];
    daemon_t daemon;

    start(&daemon, "127.0.0.1:0", "1");
    CHECK_EQ(run(ARGS("-l", daemon.address, "-m", "16M"), out, err), 1);
    CHECK_MSG(strstr(err, daemon.address) && strstr(err, "in use"), "it says \"%s\"", err);
    CHECK_EQ(kill(daemon.pid, SIGTERM), 0);
    CHECK_EQ(reap(&daemon, out, err), 0);
}

TEST(kvlaned_start, helps_whatever_the_environment_holds)
{
    char out[TEXT_MAX], err[TEXT_MAX];

    setenv("KVLANE_NO_SUCH_THING", "1", 1);
    CHECK_EQ(run(ARGS("--help"), out, err), 0);
    CHECK(strstr(out, "--listen") && strstr(out, "Exit codes"));
    CHECK_EQ(run(ARGS("--version"), out, err), 0);
    CHECK(strncmp(out, "kvlaned ", 8) == 0 && strstr(out, "UCX") && strstr(out, "libucp"));
    CHECK_EQ(run(ARGS("-l", "127.0.0.1:0", "-m", "16M"), out, err), 2);
    CHECK(strstr(err, "KVLANE_NO_SUCH_THING") != NULL);
    unsetenv("KVLANE_NO_SUCH_THING");
}
