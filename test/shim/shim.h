/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests in C, run by GoogleTest: filters (--gtest_filter), XML (--gtest_output), file and line.
 *
 *     SETUP { ring = ring_create(); }         // before each test of this file, optional
 *     TEARDOWN { ring_destroy(ring); }        // after each test of this file, also a failed one
 *
 *     TEST(ring_pop, gives_back_in_order)
 *     {
 *         REQUIRE(ring != NULL);              // leaves the test
 *         CHECK_EQ(pop(ring), 1);             // goes on
 *     }
 *
 * After each test the shim fails it if it left a file descriptor open, a thread running or a block
 * of kvl_malloc() behind, unless the test said KEEPS("why") (the first test that loads a library,
 * say). A test that runs longer than SHIM_TIMEOUT_S seconds (120) ends the program by SIGABRT. */
#ifndef KVL_TEST_SHIM_H
#define KVL_TEST_SHIM_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shim_test {
    const char *object, *sentence, *file;
    int line;
    void (*body)(void);
    struct shim_test *next;
} shim_test_t;

typedef struct shim_hook {
    const char *file;
    void (*setup)(void);
    void (*teardown)(void);
    struct shim_hook *next;
} shim_hook_t;

void shim_add(shim_test_t *test);
void shim_add_hook(shim_hook_t *hook);
/* Any thread. In a forked child it prints the failure and exits with 99. */
void shim_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void shim_skip(const char *why);
void shim_keeps(const char *why);
/* Ends the running test; called by another thread it ends that thread. */
void shim_leave(void) __attribute__((noreturn));
void shim_equal(const char *file, int line, const char *a_text, const char *b_text, long long a,
                long long b);
void shim_equal_text(const char *file, int line, const char *a_text, const char *a, const char *b);
void shim_equal_bytes(const char *file, int line, const char *a_text, const void *a, const void *b,
                      size_t length);

/* Path of a file of the build folder (a tool, a library) or of the source folder; the text lives
 * until the end of the program. */
const char *shim_built(const char *name);
const char *shim_source(const char *name);

#define TEST(object_, sentence_)                                                                   \
    static void object_##_##sentence_(void);                                                       \
    __attribute__((constructor)) static void object_##_##sentence_##_add(void)                     \
    {                                                                                              \
        static shim_test_t test = {.object   = #object_,                                           \
                                   .sentence = #sentence_,                                         \
                                   .file     = __FILE__,                                           \
                                   .line     = __LINE__,                                           \
                                   .body     = object_##_##sentence_};                             \
        shim_add(&test);                                                                           \
    }                                                                                              \
    static void object_##_##sentence_(void)

#define SETUP                                                                                      \
    static void shim_file_setup(void);                                                             \
    __attribute__((constructor)) static void shim_file_setup_add(void)                             \
    {                                                                                              \
        static shim_hook_t hook = {.file = __FILE__, .setup = shim_file_setup};                    \
        shim_add_hook(&hook);                                                                        \
    }                                                                                              \
    static void shim_file_setup(void)

#define TEARDOWN                                                                                   \
    static void shim_file_teardown(void);                                                          \
    __attribute__((constructor)) static void shim_file_teardown_add(void)                          \
    {                                                                                              \
        static shim_hook_t hook = {.file = __FILE__, .teardown = shim_file_teardown};              \
        shim_add_hook(&hook);                                                                        \
    }                                                                                              \
    static void shim_file_teardown(void)

#define CHECK(condition)                                                                           \
    ((condition) ? (void)0 : shim_fail(__FILE__, __LINE__, "not true: %s", #condition))
#define CHECK_MSG(condition, ...)                                                                  \
    ((condition) ? (void)0 : shim_fail(__FILE__, __LINE__, __VA_ARGS__))
#define CHECK_EQ(a, b)                                                                             \
    shim_equal(__FILE__, __LINE__, #a, #b, (long long)(a), (long long)(b))
#define CHECK_STR_EQ(a, b)         shim_equal_text(__FILE__, __LINE__, #a, (a), (b))
#define CHECK_MEM_EQ(a, b, length) shim_equal_bytes(__FILE__, __LINE__, #a, (a), (b), (length))
#define CHECK_HAS(text, part)                                                                      \
    CHECK_MSG(strstr(text, part) != NULL, "\"%s\" is not in \"%s\"", part, text)
#define REQUIRE(condition)                                                                         \
    ((condition) ? (void)0                                                                         \
                 : (shim_fail(__FILE__, __LINE__, "required: %s", #condition), shim_leave()))
#define SKIP(why)  (shim_skip(why), shim_leave())
/* It may leave files and threads behind, not memory of kvlane. */
#define KEEPS(why) shim_keeps(why)

#ifdef __cplusplus
}
#endif
#endif
