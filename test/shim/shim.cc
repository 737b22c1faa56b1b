// SPDX-License-Identifier: BSD-3-Clause
#include "shim/shim.h"

#include <gtest/gtest.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <map>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string>
#include <unistd.h>

// The C side registers its tests in constructors; here each becomes a GoogleTest test. A test is
// left by longjmp (C tests have no destructors). Everything but shim_fail() belongs to the thread
// that runs the tests.

extern "C" {
__attribute__((weak)) long kvl_live_objects(void);
}

namespace
{

shim_test_t *first = nullptr, **last = &first;
shim_hook_t *hooks         = nullptr;
const shim_test_t *running = nullptr;
jmp_buf leave;
pthread_t runner;
pid_t process;
const char *skipped = nullptr, *keeps = nullptr;
std::map<std::string, int> skips; // by reason
unsigned timeout_s = 120;

typedef std::map<std::string, std::string> names_t; // fd or thread -> what it is

names_t entries(const char *folder, bool links)
{
    names_t names;
    DIR *dir = opendir(folder);

    if (!dir) {
        return names;
    }
    while (struct dirent *entry = readdir(dir)) {
        char target[256] = "";
        std::string path = std::string(folder) + "/" + entry->d_name;
        if (entry->d_name[0] == '.' || (links && atoi(entry->d_name) == dirfd(dir))) {
            continue;
        }
        if (links && readlink(path.c_str(), target, sizeof(target) - 1) < 0) {
            target[0] = 0;
        }
        names[entry->d_name] = target;
    }
    closedir(dir);
    return names;
}

std::string new_names(const names_t &before, const names_t &after)
{
    std::string text;

    for (const auto &entry : after) {
        if (!before.count(entry.first)) {
            text += " " + entry.first + (entry.second.empty() ? "" : " (" + entry.second + ")");
        }
    }
    return text;
}

// what a test must leave as it found it
struct Snapshot {
    names_t fds     = entries("/proc/self/fd", true);
    names_t threads = entries("/proc/self/task", false);
    long live       = kvl_live_objects ? kvl_live_objects() : 0;

    bool same(const Snapshot &before) const
    {
        return new_names(before.fds, fds).empty() && new_names(before.threads, threads).empty() &&
               live == before.live;
    }
};

void check_left_behind(const Snapshot &before)
{
    Snapshot after;

    // a joined thread is seen in /proc a moment longer
    for (int i = 0; i < 100 && !after.same(before); i++) {
        usleep(10000);
        after = Snapshot();
    }
    std::string fds     = new_names(before.fds, after.fds);
    std::string threads = new_names(before.threads, after.threads);
    if (!fds.empty() && !keeps) {
        ADD_FAILURE_AT(running->file, running->line) << "file descriptors left open:" << fds;
    }
    if (!threads.empty() && !keeps) {
        ADD_FAILURE_AT(running->file, running->line) << "threads left running:" << threads;
    }
    if (after.live != before.live) {
        ADD_FAILURE_AT(running->file, running->line)
            << after.live - before.live << " blocks of kvl_malloc() left behind";
    }
}

void run_hooks(void (*shim_hook_t::*which)(void), const char *file)
{
    for (shim_hook_t *hook = hooks; hook; hook = hook->next) {
        if (hook->*which && strcmp(hook->file, file) == 0) {
            (hook->*which)();
        }
    }
}

class CTest : public ::testing::Test
{
  public:
    explicit CTest(const shim_test_t *test) : test_(test)
    {
    }

    void TestBody() override
    {
        Snapshot before;

        skipped = keeps = nullptr;
        running         = test_;
        alarm(timeout_s);
        if (setjmp(leave) == 0) {
            run_hooks(&shim_hook_t::setup, test_->file);
            test_->body();
        }
        if (setjmp(leave) == 0) {
            run_hooks(&shim_hook_t::teardown, test_->file);
        }
        alarm(0);
        if (!HasFailure()) {
            check_left_behind(before);
        }
        if (skipped) {
            skips[skipped]++;
            GTEST_SKIP() << skipped;
        }
    }

  private:
    const shim_test_t *test_;
};

void on_alarm(int)
{
    char text[512];
    int length = snprintf(text, sizeof(text), "%s:%d: %s.%s still runs after %u s\n", running->file,
                          running->line, running->object, running->sentence, timeout_s);

    (void)!write(STDERR_FILENO, text, static_cast<size_t>(length));
    abort();
}

void *no_work(void *arg)
{
    return arg;
}

// ThreadSanitizer starts a thread of its own with the first one of the program
void first_thread()
{
    pthread_t thread;

    if (pthread_create(&thread, nullptr, no_work, nullptr) == 0) {
        pthread_join(thread, nullptr);
    }
}

const char *path_in(const char *variable, const char *name)
{
    static std::map<std::string, std::string> paths; // stable addresses
    const char *folder = getenv(variable);
    std::string path   = std::string(folder ? folder : ".") + "/" + name;

    return paths.emplace(path, path).first->second.c_str();
}

} // namespace

extern "C" void shim_add(shim_test_t *test)
{
    *last = test;
    last  = &test->next;
}

extern "C" void shim_add_hook(shim_hook_t *hook)
{
    hook->next = hooks;
    hooks      = hook;
}

extern "C" void shim_fail(const char *file, int line, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (getpid() != process) {
        dprintf(STDERR_FILENO, "%s:%d: in child %d: %s\n", file, line, getpid(), text);
        _exit(99);
    }
    ADD_FAILURE_AT(file, line) << text;
}

extern "C" void shim_skip(const char *why)
{
    skipped = why;
}

extern "C" void shim_keeps(const char *why)
{
    keeps = why;
}

extern "C" void shim_leave(void)
{
    if (!pthread_equal(pthread_self(), runner)) {
        pthread_exit(nullptr);
    }
    longjmp(leave, 1);
}

extern "C" void shim_equal(const char *file, int line, const char *a_text, const char *b_text,
                           long long a, long long b)
{
    if (a != b) {
        shim_fail(file, line, "%s is %lld (0x%llx), not %lld: %s", a_text, a,
                  static_cast<unsigned long long>(a), b, b_text);
    }
}

extern "C" void shim_equal_text(const char *file, int line, const char *a_text, const char *a,
                                const char *b)
{
    if (!a || !b || strcmp(a, b)) {
        shim_fail(file, line, "%s is \"%s\", not \"%s\"", a_text, a ? a : "(null)",
                  b ? b : "(null)");
    }
}

// What another engine of the process received is ordered by messages, which ThreadSanitizer does not
// see; and millions of bytes take it minutes.
#ifdef __SANITIZE_THREAD__
__attribute__((no_sanitize_thread))
#endif
static size_t
first_difference(const unsigned char *a, const unsigned char *b, size_t length)
{
    size_t i = 0;

    while (i < length && a[i] == b[i]) {
        i++;
    }
    return i;
}

extern "C" void shim_equal_bytes(const char *file, int line, const char *a_text, const void *a,
                                 const void *b, size_t length)
{
    const unsigned char *x = static_cast<const unsigned char *>(a);
    const unsigned char *y = static_cast<const unsigned char *>(b);
    size_t i               = first_difference(x, y, length);

    if (i < length) {
        shim_fail(file, line, "%s differs first at byte %zu of %zu: 0x%02x, not 0x%02x", a_text, i,
                  length, x[i], y[i]);
    }
}

extern "C" const char *shim_built(const char *name)
{
    return path_in("KVL_BUILD", name);
}

extern "C" const char *shim_source(const char *name)
{
    return path_in("KVL_SRC", name);
}

int main(int argc, char **argv)
{
    const char *timeout = getenv("SHIM_TIMEOUT_S");

    ::testing::InitGoogleTest(&argc, argv);
    setvbuf(stdout, nullptr, _IOLBF, 0);
    runner  = pthread_self();
    process = getpid();
    if (timeout) {
        timeout_s = static_cast<unsigned>(atoi(timeout));
    }
    signal(SIGALRM, on_alarm);
    first_thread();
    for (shim_test_t *test = first; test; test = test->next) {
        ::testing::RegisterTest(test->object, test->sentence, nullptr, nullptr, test->file,
                                test->line, [test]() -> CTest * { return new CTest(test); });
    }
    int rc = RUN_ALL_TESTS();
    for (const auto &skip : skips) {
        printf("%d skipped: %s\n", skip.second, skip.first.c_str());
    }
    return rc;
}
