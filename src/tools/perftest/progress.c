/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perftest/progress.h"

#include <unistd.h>

#define SHOW_AFTER 2.0 /* seconds */
#define SHOW_EVERY 0.25

void perf_progress_begin(perf_progress_t *progress, const perf_options_t *options, const char *what)
{
    *progress = (perf_progress_t){
        .what    = what,
        .started = perf_now(),
        .on      = !options->final_only && !options->mover && isatty(STDERR_FILENO),
    };
}

void perf_progress_show(perf_progress_t *progress, double share, double gbps)
{
    double now;

    if (!progress->on) {
        return;
    }
    now = perf_now();
    if (now - progress->started < SHOW_AFTER || now - progress->shown < SHOW_EVERY) {
        return;
    }
    progress->shown = now;
    progress->used  = true;
    fprintf(stderr, "\r%s: %3.0f %%", progress->what, 100 * share);
    if (gbps > 0) {
        fprintf(stderr, "  %.2f GB/s ", gbps);
    }
    fprintf(stderr, "\033[K");
    fflush(stderr);
}

void perf_progress_end(perf_progress_t *progress)
{
    if (progress->used) {
        fprintf(stderr, "\r\033[K");
        fflush(stderr);
    }
    progress->used = false;
}
