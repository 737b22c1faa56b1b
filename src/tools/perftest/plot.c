/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perftest/plot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void write_data(FILE *stream, const perf_point_t *points, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || strcmp(points[i].test, points[i - 1].test) != 0) {
            fprintf(stream, i == 0 ? "$data << EOD\n%s\n" : "\n\n%s\n", points[i].test);
        }
        fprintf(stream, "%llu %.6f\n", (unsigned long long)points[i].size, points[i].gbps);
    }
    fprintf(stream, "EOD\n");
}

/* as a text of gnuplot in single quotes */
static void write_quoted(FILE *stream, const char *text)
{
    fputc('\'', stream);
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            fputc('\'', stream);
        }
        fputc(*text, stream);
    }
    fputc('\'', stream);
}

static void write_script(FILE *stream, const char *path, const perf_point_t *points, size_t count)
{
    size_t lines = count > 0;

    for (size_t i = 1; i < count; i++) {
        lines += strcmp(points[i].test, points[i - 1].test) != 0;
    }
    fprintf(stream, "set terminal png size 900,600\nset output ");
    write_quoted(stream, path);
    fprintf(stream, "\n");
    write_data(stream, points, count);
    fprintf(stream,
            "set title 'kvlane_perftest' noenhanced\nset key left top noenhanced\nset grid\n"
            "set logscale x 2\nset format x '%%.0b %%Bb'\nset xlabel 'bytes of a segment'\n"
            "set ylabel 'GB/s'\nset yrange [0:*]\n"
            "plot for [i=0:%zu] $data index i using 1:2 with linespoints title columnheader(1)\n",
            lines - 1);
}

int perf_plot_check(const char *path)
{
    bool there = access(path, F_OK) == 0;
    int fd     = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);

    if (fd < 0) {
        return perf_fail("--plot %s: %s", path, strerror(errno));
    }
    close(fd);
    if (!there) {
        unlink(path);
    }
    if (system("command -v gnuplot >/dev/null 2>&1") != 0) {
        return perf_fail("--plot %s: gnuplot is not installed (Debian: gnuplot-nox)", path);
    }
    return 0;
}

int perf_plot(const char *path, const perf_point_t *points, size_t count)
{
    FILE *stream;
    int status;

    if (count == 0) {
        return perf_fail("--plot: nothing was measured");
    }
    stream = popen("gnuplot", "we");
    if (stream == NULL) {
        return perf_fail("gnuplot: %s", strerror(errno));
    }
    write_script(stream, path, points, count);
    status = pclose(stream);
    if (status != 0) {
        return perf_fail("--plot %s: gnuplot failed", path);
    }
    return 0;
}
