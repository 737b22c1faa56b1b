/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/shim.h"

#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* stderr goes to a file while a capture is open */
typedef struct {
    FILE *file;
    int old_fd;
    kvl_log_level_t old_level;
    char text[65536];
} capture_t;

static void capture_open(capture_t *capture, kvl_log_level_t level)
{
    capture->file      = tmpfile();
    capture->old_fd    = dup(STDERR_FILENO);
    capture->old_level = kvl_log_level;
    kvl_log_level      = level;
    dup2(fileno(capture->file), STDERR_FILENO);
}

static void capture_close(capture_t *capture)
{
    size_t length;

    dup2(capture->old_fd, STDERR_FILENO);
    close(capture->old_fd);
    kvl_log_level = capture->old_level;
    rewind(capture->file);
    length                = fread(capture->text, 1, sizeof(capture->text) - 1, capture->file);
    capture->text[length] = '\0';
    fclose(capture->file);
}

static size_t count_lines(const char *text)
{
    size_t lines = 0;

    for (; *text; text++) {
        lines += *text == '\n';
    }
    return lines;
}

TEST(log_write, prints_one_line_with_level_place_and_text)
{
    static capture_t capture;
    long long seconds = 0;
    long fraction = 0, thread = 0;
    char level[16] = "", file[32] = "", rest[64] = "";

    capture_open(&capture, KVL_LOG_WARN);
    kvl_warn("rail %s: %d down", "eth0", 3);
    capture_close(&capture);
    CHECK_EQ(count_lines(capture.text), 1);
    CHECK_EQ(sscanf(capture.text, "[%lld.%ld] [%ld] %15s %31[^:]:%*d %63[^\n]", &seconds, &fraction,
                    &thread, level, file, rest),
             6);
    CHECK(seconds > 1600000000 && fraction < 1000000 && thread > 0);
    CHECK_STR_EQ(level, "warn");
    CHECK_STR_EQ(file, "base_log.c");
    CHECK_STR_EQ(rest, "rail eth0: 3 down");
}

TEST(log_write, is_silent_below_the_level)
{
    static capture_t capture;

    capture_open(&capture, KVL_LOG_ERROR);
    kvl_warn("no");
    kvl_trace("no");
    kvl_error_log("yes");
    capture_close(&capture);
    CHECK_EQ(count_lines(capture.text), 1);
    CHECK(strstr(capture.text, "yes") != NULL);
}

TEST(log_write, keeps_errno)
{
    static capture_t capture;

    capture_open(&capture, KVL_LOG_WARN);
    close(STDERR_FILENO);
    errno = ENOENT;
    kvl_warn("into a closed descriptor");
    CHECK_EQ(errno, ENOENT);
    capture_close(&capture);
}

TEST(log_write, does_not_let_a_text_fake_a_second_line)
{
    static capture_t capture;

    capture_open(&capture, KVL_LOG_WARN);
    kvl_warn("peer says a\nb\x1b[2J");
    capture_close(&capture);
    CHECK_EQ(count_lines(capture.text), 1);
    CHECK(strstr(capture.text, "a b [2J\n") != NULL);
}

TEST(log_write, cuts_a_long_text_and_still_ends_the_line)
{
    static capture_t capture;
    static char text[5000];

    memset(text, 'y', sizeof(text) - 1);
    capture_open(&capture, KVL_LOG_WARN);
    kvl_warn("%s", text);
    capture_close(&capture);
    CHECK_EQ(count_lines(capture.text), 1);
    CHECK(strlen(capture.text) > 1000 && strlen(capture.text) < sizeof(text));
    CHECK_EQ(capture.text[strlen(capture.text) - 1], '\n');
}

static void *write_many(void *arg)
{
    int i;

    for (i = 0; i < 100; i++) {
        kvl_warn("thread %s says it in one piece", (const char *)arg);
    }
    return NULL;
}

TEST(log_write, keeps_lines_of_threads_apart)
{
    static capture_t capture;
    static char names[2][2] = {"a", "b"};
    pthread_t threads[2];
    char *line;
    int lines = 0;

    capture_open(&capture, KVL_LOG_WARN);
    pthread_create(&threads[0], NULL, write_many, names[0]);
    pthread_create(&threads[1], NULL, write_many, names[1]);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    capture_close(&capture);
    for (line = strtok(capture.text, "\n"); line; line = strtok(NULL, "\n")) {
        CHECK(strstr(line, "says it in one piece") != NULL);
        lines++;
    }
    CHECK_EQ(lines, 200);
}
