/* SPDX-License-Identifier: BSD-3-Clause */
#include "node/ranges.h"

#include "base/alloc.h"

#include <string.h>

/* A sorted array; no two ranges touch. */

static kvl_range_t *ranges_array(kvl_ranges_t *ranges)
{
    return ranges->many ? ranges->many : ranges->few;
}

void kvl_ranges_init(kvl_ranges_t *ranges)
{
    ranges->many  = NULL;
    ranges->count = 0;
    ranges->room  = KVL_RANGES_FEW;
}

void kvl_ranges_cleanup(kvl_ranges_t *ranges)
{
    kvl_free(ranges->many);
    kvl_ranges_init(ranges);
}

static kvl_status_t ranges_grow(kvl_ranges_t *ranges)
{
    unsigned room = 8 * ranges->room;
    kvl_range_t *many;

    if (ranges->room >= KVL_RANGES_MAX) {
        return KVL_ERR_LIMIT;
    }
    many = kvl_realloc(ranges->many, room * sizeof(*many));
    if (!many) {
        return KVL_ERR_NO_MEMORY;
    }
    if (!ranges->many) {
        memcpy(many, ranges->few, sizeof(ranges->few));
    }
    ranges->many = many;
    ranges->room = room;
    return KVL_OK;
}

/* index of the first range that ends behind @a from; ops come mostly in order, so look there first */
static unsigned ranges_find(const kvl_range_t *array, unsigned count, uint64_t from)
{
    unsigned low = 0, high = count;

    if (count && array[count - 1].to <= from) {
        return count;
    }
    while (low < high) {
        unsigned middle = (low + high) / 2;

        if (array[middle].to <= from) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static kvl_status_t ranges_insert(kvl_ranges_t *ranges, unsigned at, uint64_t from, uint64_t to)
{
    kvl_range_t *array;

    if (ranges->count == ranges->room) {
        kvl_status_t status = ranges_grow(ranges);

        if (status != KVL_OK) {
            return status;
        }
    }
    array = ranges_array(ranges);
    memmove(array + at + 1, array + at, (ranges->count - at) * sizeof(*array));
    array[at] = (kvl_range_t){from, to};
    ranges->count++;
    return KVL_OK;
}

kvl_status_t kvl_ranges_add(kvl_ranges_t *ranges, uint64_t from, uint64_t to)
{
    kvl_range_t *array = ranges_array(ranges);
    unsigned at        = ranges_find(array, ranges->count, from);
    bool joins_before  = at > 0 && array[at - 1].to == from;
    bool joins_after   = at < ranges->count && array[at].from == to;

    if (at < ranges->count && array[at].from < to) {
        return KVL_ERR_RANGE;
    }
    if (joins_before && joins_after) {
        array[at - 1].to = array[at].to;
        memmove(array + at, array + at + 1, (ranges->count - at - 1) * sizeof(*array));
        ranges->count--;
    } else if (joins_before) {
        array[at - 1].to = to;
    } else if (joins_after) {
        array[at].from = from;
    } else {
        return ranges_insert(ranges, at, from, to);
    }
    return KVL_OK;
}

kvl_status_t kvl_ranges_join(kvl_ranges_t *ranges, uint64_t from, uint64_t to)
{
    kvl_range_t *array = ranges_array(ranges);
    unsigned first = 0, last;

    while (first < ranges->count && array[first].to < from) {
        first++;
    }
    for (last = first; last < ranges->count && array[last].from <= to; last++) {
        from = array[last].from < from ? array[last].from : from;
        to   = array[last].to > to ? array[last].to : to;
    }
    if (first == last) {
        return ranges_insert(ranges, first, from, to);
    }
    array[first] = (kvl_range_t){from, to};
    memmove(array + first + 1, array + last, (ranges->count - last) * sizeof(*array));
    ranges->count -= last - first - 1;
    return KVL_OK;
}

bool kvl_ranges_whole(const kvl_ranges_t *ranges, uint64_t length)
{
    const kvl_range_t *array = ranges->many ? ranges->many : ranges->few;

    return ranges->count == 1 && array[0].from == 0 && array[0].to == length;
}
