/* SPDX-License-Identifier: BSD-3-Clause */
/* --corrupt N: proof that a wrong byte would be seen. */
#ifndef KVL_PERFTEST_CORRUPT_H
#define KVL_PERFTEST_CORRUPT_H

#include "tools/perftest/pool.h"

/* Spoils the last byte of every n-th item. */
static inline void perf_corrupt(const perf_options_t *options, const perf_pool_t *pool, size_t slot,
                                uint64_t item)
{
    if (options->corrupt != 0 && item % options->corrupt == 0) {
        perf_pool_at(pool, slot, pool->segments - 1)[pool->segment_bytes - 1] ^= 0x80;
    }
}

#endif
