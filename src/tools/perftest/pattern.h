/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes that depend on the item and on their place in it: a lost, shifted, stale or swapped piece
 * shows. Word i of an item is mix(seed) + i * step(seed). */
#ifndef KVL_PERFTEST_PATTERN_H
#define KVL_PERFTEST_PATTERN_H

#include <stddef.h>
#include <stdint.h>

/* bytes [offset, offset + length) of the item of @a seed */
void perf_pattern_fill(void *memory, uint64_t seed, uint64_t offset, size_t length);
/* number of bytes that differ from it */
uint64_t perf_pattern_check(const void *memory, uint64_t seed, uint64_t offset, size_t length);

#endif
