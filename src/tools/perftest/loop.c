/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perftest/loop.h"

#include "tools/perftest/samples.h"

/* state of one run */
typedef struct {
    const perf_loop_t *loop;
    const perf_options_t *options;
    perf_result_t *result;
    perf_samples_t samples;
    perf_progress_t progress;
    bool timed; /* past the warm-up */
} run_t;

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool time_is_up(const run_t *run)
{
    return run->timed && run->options->seconds_max > 0 &&
           run->samples.sum >= run->options->seconds_max;
}

/* of the items, or of -T */
static double share_done(const run_t *run)
{
    const perf_options_t *options = run->options;
    double items                  = (double)run->result->items / (double)options->items;
    double time = options->seconds_max > 0 ? run->samples.sum / options->seconds_max : 0;

    return items > time ? items : time;
}

static double server_cpu(const run_t *run)
{
    const perf_loop_ops_t *ops = run->loop->ops;

    return ops->server_cpu == NULL || !run->timed ? 0 : ops->server_cpu(run->loop->arg);
}

static void count_cpu(run_t *run, double client, double server_before, double server_after)
{
    perf_result_t *result = run->result;

    result->cpu_client += client;
    if (server_before < 0 || server_after < 0 || result->cpu_server < 0) {
        result->cpu_server = -1;
    } else {
        result->cpu_server += server_after - server_before;
    }
}

/* Moves up to @a count items from @a first; how many is in *done_p. */
static int run_batches(run_t *run, uint64_t first, uint64_t count, uint64_t *done_p)
{
    const uint64_t item = perf_item_bytes(run->options);
    double cpu = 0, server = server_cpu(run);
    uint64_t done = 0;

    while (done < count && !perf_stopped() && !time_is_up(run)) {
        uint64_t some     = least(run->options->batch, count - done);
        double cpu_before = perf_cpu_self(), begin = perf_now(), seconds;

        if (run->loop->ops->batch(run->loop->arg, first + done, some)) {
            return -1;
        }
        seconds = perf_now() - begin;
        cpu += perf_cpu_self() - cpu_before;
        done += some;
        if (run->timed) {
            perf_samples_add(&run->samples, seconds);
            run->result->items += some;
            run->result->bytes += some * item;
            perf_progress_show(&run->progress, share_done(run),
                               (double)run->result->bytes / PERF_GB / run->samples.sum);
        }
    }
    if (run->timed) {
        count_cpu(run, cpu, server, server_cpu(run));
    }
    *done_p = done;
    return 0;
}

static int run_stretch(run_t *run, uint64_t first, uint64_t count, uint64_t *done_p)
{
    const perf_loop_ops_t *ops = run->loop->ops;
    perf_result_t ignored      = {0};

    if (run->options->verify && ops->prepare != NULL &&
        ops->prepare(run->loop->arg, first, count)) {
        return -1;
    }
    if (run_batches(run, first, count, done_p)) {
        return -1;
    }
    if (!run->options->verify || ops->verify == NULL || *done_p == 0 || perf_stopped()) {
        return 0;
    }
    return ops->verify(run->loop->arg, first, *done_p, run->timed ? run->result : &ignored);
}

/* items [first, first + count), a stretch at a time */
static int run_items(run_t *run, uint64_t first, uint64_t count)
{
    uint64_t done = 0;

    while (done < count && !perf_stopped() && !time_is_up(run)) {
        /* stretches end where the pool ends */
        uint64_t at   = first + done;
        uint64_t some = least(run->loop->stretch - at % run->loop->stretch, count - done);

        if (run_stretch(run, at, some, &some)) {
            return -1;
        }
        done += some;
    }
    return 0;
}

int perf_loop_run(const perf_loop_t *loop, const perf_options_t *options, perf_result_t *result)
{
    run_t run       = {.loop = loop, .options = options, .result = result};
    uint64_t warmup = options->warmup == UINT64_MAX ? loop->stretch : options->warmup;
    int status;

    perf_progress_begin(&run.progress, options, options->test->name);
    status = run_items(&run, 0, warmup);
    if (status == 0) {
        run.timed = true;
        /* the timed part starts with a pool's first item */
        warmup = (warmup + loop->stretch - 1) / loop->stretch * loop->stretch;
        status = run_items(&run, warmup, options->items);
    }
    perf_progress_end(&run.progress);
    result->seconds = run.samples.sum;
    result->p50_us  = perf_samples_us(&run.samples, 50);
    result->p99_us  = perf_samples_us(&run.samples, 99);
    perf_samples_cleanup(&run.samples);
    if (status == 0 && perf_stopped()) {
        return perf_fail("stopped by a signal");
    }
    return status;
}
