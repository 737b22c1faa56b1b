/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/shim.h"

#include "engine/fill.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static char *map(size_t length)
{
    char *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    REQUIRE(memory != MAP_FAILED);
    return memory;
}

static size_t pages_in(char *memory, size_t length)
{
    static unsigned char vec[65536];
    size_t pages = length / 4096, in = 0, i;

    REQUIRE(pages <= sizeof(vec) && mincore(memory, length, vec) == 0);
    for (i = 0; i < pages; i++) {
        in += vec[i] & 1;
    }
    return in;
}

static void wait_done(const kvl_fill_t *fill, uint64_t bytes)
{
    const struct timespec moment = {.tv_nsec = 1000000};

    while (fill->done_bytes < bytes) {
        nanosleep(&moment, NULL); /* other threads' state: nothing to wait on */
    }
}

/* ranges that are no multiples of a step, each page of them once, by any number of threads; bytes stay */
TEST(fill_start, brings_in_every_page_of_every_range)
{
    static const size_t lengths[] = {1 * MIB, 2 * MIB, 7 * MIB + 4096, 4096, 30 * MIB};
    unsigned threads, i;

    if (sysconf(_SC_PAGESIZE) != 4096) {
        SKIP("counts pages of 4096 bytes");
    }
    for (threads = 1; threads <= 5; threads += 2) {
        kvl_fill_t fill = {.threads = threads};
        char *memory[5];
        size_t sum = 0;

        for (i = 0; i < 5; i++) {
            memory[i] = map(lengths[i]);
            memory[i][100] = 'x';
            kvl_fill_add(&fill, memory[i], lengths[i]);
            sum += lengths[i];
        }
        kvl_fill_start(&fill);
        CHECK_EQ(fill.started, threads);
        wait_done(&fill, sum);
        kvl_fill_stop(&fill);
        CHECK_EQ(fill.done_bytes, sum);
        for (i = 0; i < 5; i++) {
            CHECK_EQ(pages_in(memory[i], lengths[i]), lengths[i] / 4096);
            CHECK_EQ(memory[i][100], 'x');
            munmap(memory[i], lengths[i]);
        }
    }
}

TEST(fill_start, stops_at_its_bound_and_when_it_is_told_to)
{
    kvl_fill_t fill = {.threads = 3, .max_bytes = 4 * MIB};
    char *memory    = map(64 * MIB);

    kvl_fill_add(&fill, memory, 64 * MIB);
    kvl_fill_start(&fill);
    wait_done(&fill, 4 * MIB);
    kvl_fill_stop(&fill);
    CHECK_EQ(pages_in(memory, 64 * MIB), 4 * MIB / 4096);
    CHECK_EQ(fill.count, 0);
    kvl_fill_stop(&fill); /* again does nothing */
    fill = (kvl_fill_t){.threads = 2};
    kvl_fill_start(&fill); /* nothing to fill */
    CHECK_EQ(fill.started, 0);
    kvl_fill_stop(&fill);
    munmap(memory, 64 * MIB);
}
