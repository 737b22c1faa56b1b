// SPDX-License-Identifier: BSD-3-Clause
#include "shim/shim.h"

#include <gtest/gtest.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <setjmp.h>

// The C side registers its tests in constructors; here each becomes a GoogleTest test. Setting up
// GoogleTest and leaving a test (longjmp: C tests have no destructors) are the only C++ there is.

extern "C" {
__attribute__((weak)) long kvl_live_objects(void);
}

namespace {

shim_test_t *first = nullptr, **last = &first;
jmp_buf leave;
const char *skipped = nullptr, *keeps = nullptr;
int skips = 0;

long live_objects()
{
    return kvl_live_objects ? kvl_live_objects() : 0;
}

int open_fds()
{
    DIR *dir = opendir("/proc/self/fd");
    int n    = 0;

    while (dir && readdir(dir)) {
        n++;
    }
    if (dir) {
        closedir(dir);
    }
    return n;
}

class CTest : public ::testing::Test
{
public:
    explicit CTest(shim_test_t *test) : test_(test) {}

    void TestBody() override
    {
        int fds   = open_fds();
        long live = live_objects();

        skipped = keeps = nullptr;
        if (setjmp(leave) == 0) {
            test_->body();
        }
        if (skipped) {
            skips++;
            GTEST_SKIP() << skipped;
        }
        if (!keeps && !HasFailure()) {
            EXPECT_EQ(open_fds(), fds) << "file descriptors left open";
            EXPECT_EQ(live_objects(), live) << "blocks of kvl_malloc() left behind";
        }
    }

private:
    shim_test_t *test_;
};

} // namespace

extern "C" void shim_add(shim_test_t *test)
{
    *last = test;
    last  = &test->next;
}

extern "C" void shim_fail(const char *file, int line, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
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
    longjmp(leave, 1);
}

extern "C" void shim_equal(const char *file, int line, const char *a_text, const char *b_text,
                           long long a, long long b)
{
    if (a != b) {
        shim_fail(file, line, "%s is %lld (0x%llx), not %lld: %s", a_text, a, (unsigned long long)a, b,
                  b_text);
    }
}

extern "C" void shim_equal_text(const char *file, int line, const char *a_text, const char *a,
                                const char *b)
{
    if (!a || !b || strcmp(a, b)) {
        shim_fail(file, line, "%s is \"%s\", not \"%s\"", a_text, a ? a : "(null)", b ? b : "(null)");
    }
}

extern "C" void shim_equal_bytes(const char *file, int line, const char *a_text, const void *a,
                                 const void *b, size_t length)
{
    const unsigned char *x = static_cast<const unsigned char *>(a);
    const unsigned char *y = static_cast<const unsigned char *>(b);

    for (size_t i = 0; i < length; i++) {
        if (x[i] != y[i]) {
            shim_fail(file, line, "%s differs first at byte %zu of %zu: 0x%02x, not 0x%02x", a_text, i,
                      length, x[i], y[i]);
            return;
        }
    }
}

int main(int argc, char **argv)
{
    ::testing::InitGoogleTest(&argc, argv);
    setvbuf(stdout, nullptr, _IOLBF, 0);
    for (shim_test_t *test = first; test; test = test->next) {
        ::testing::RegisterTest(test->object, test->sentence, nullptr, nullptr, test->file, test->line,
                                [test]() -> CTest * { return new CTest(test); });
    }
    int rc = RUN_ALL_TESTS();
    if (skips) {
        printf("%d skipped\n", skips);
    }
    return rc;
}
