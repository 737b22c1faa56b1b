/* SPDX-License-Identifier: BSD-3-Clause */
/* Which bytes of a value have been claimed by message-mode ops: each byte once. Ops may be cut in any
 * way and come in any order; neighbours merge, so that honest clients need a handful of ranges. */
#ifndef KVL_NODE_RANGES_H
#define KVL_NODE_RANGES_H

#include <kvlane/status.h>

#include <stdbool.h>
#include <stdint.h>

#define KVL_RANGES_FEW 2
#define KVL_RANGES_MAX 2048 /* more gaps than that are not kept for anybody */

typedef struct {
    uint64_t from, to; /* [from, to) */
} kvl_range_t;

typedef struct {
    kvl_range_t few[KVL_RANGES_FEW];
    kvl_range_t *many; /* NULL: few is used */
    unsigned count, room;
} kvl_ranges_t;

void kvl_ranges_init(kvl_ranges_t *ranges);
void kvl_ranges_cleanup(kvl_ranges_t *ranges);
/* Adds [from, to), from < to. KVL_ERR_RANGE: a part of it was added before. KVL_ERR_LIMIT: too many
 * gaps. KVL_ERR_NO_MEMORY. Nothing is changed on failure. */
kvl_status_t kvl_ranges_add(kvl_ranges_t *ranges, uint64_t from, uint64_t to);
/* Adds [from, to), whatever of it was added before. */
kvl_status_t kvl_ranges_join(kvl_ranges_t *ranges, uint64_t from, uint64_t to);
/* true if [0, length) was added, whole */
bool kvl_ranges_whole(const kvl_ranges_t *ranges, uint64_t length);

#endif
