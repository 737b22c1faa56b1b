/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perftest/corrupt.h"
#include "tools/perftest/loop.h"

#include <string.h>

/* memcpy: the limit of what one core moves within a host. From the same kind of pool as put takes,
 * segment by segment, to whole values in shared memory, as a node's are. */

typedef struct {
    const perf_options_t *options;
    perf_pool_t source, target;
} copy_t;

static int copy_prepare(void *arg, uint64_t first, uint64_t count)
{
    copy_t *copy = arg;

    for (uint64_t i = first; i < first + count; i++) {
        perf_pool_fill(&copy->source, i % copy->source.slots, i);
        perf_corrupt(copy->options, &copy->source, i % copy->source.slots, i);
    }
    return 0;
}

static int copy_batch(void *arg, uint64_t first, uint64_t count)
{
    copy_t *copy = arg;

    for (uint64_t i = first; i < first + count; i++) {
        size_t slot          = i % copy->source.slots;
        unsigned char *value = perf_pool_at(&copy->target, slot, 0);

        for (unsigned s = 0; s < copy->source.segments; s++) {
            memcpy(value, perf_pool_at(&copy->source, slot, s), copy->source.segment_bytes);
            value += copy->source.segment_bytes;
        }
    }
    return 0;
}

static int copy_verify(void *arg, uint64_t first, uint64_t count, perf_result_t *result)
{
    copy_t *copy = arg;

    for (uint64_t i = first; i < first + count; i++) {
        result->wrong_bytes += perf_pool_check(&copy->target, i % copy->target.slots, i);
        result->verified_bytes += perf_pool_item_bytes(&copy->target);
    }
    return 0;
}

static const perf_loop_ops_t copy_ops = {
    .prepare = copy_prepare,
    .batch   = copy_batch,
    .verify  = copy_verify,
};

int perf_run_memcpy(const perf_options_t *options, perf_result_t *result)
{
    copy_t copy      = {.options = options};
    perf_loop_t loop = {.ops = &copy_ops, .arg = &copy};
    int status;

    loop.stretch = perf_pool_slots(options, options->node_bytes);
    if (loop.stretch == 0) {
        return perf_fail("-m %llu: too little for items of %llu bytes",
                         (unsigned long long)options->node_bytes,
                         (unsigned long long)perf_item_bytes(options));
    }
    status = perf_pool_create(&copy.source, loop.stretch, options->size, options->segments, false);
    if (status == 0) {
        status = perf_pool_create(&copy.target, loop.stretch, perf_item_bytes(options), 1, true);
    }
    if (status == 0) {
        snprintf(result->transport, sizeof(result->transport), "memory");
        snprintf(result->mode, sizeof(result->mode), "memcpy");
        result->depth = 1;
        status        = perf_loop_run(&loop, options, result);
    }
    perf_pool_destroy(&copy.target);
    perf_pool_destroy(&copy.source);
    return status;
}
