/* SPDX-License-Identifier: BSD-3-Clause */
#include "lane/stage.h"

#include "base/alloc.h"
#include "base/error.h"

#include <assert.h>
#include <string.h>

/* Host memory that is registered once, with the rails and with the devices, and given out in runs of units.
 * First fit from where the last run ended: runs come and go in about the order of their making. */

#define UNIT ((size_t)64 << 10)

kvl_status_t kvl_stages_init(kvl_stages_t *stages, void *base, size_t length, kvl_mem_t *const *mems)
{
    size_t units   = length / UNIT;
    uint32_t *runs = kvl_calloc(units, sizeof(*runs));

    if (!runs) {
        return kvl_error(KVL_ERR_NO_MEMORY, "stages: %zu units", units);
    }
    *stages = (kvl_stages_t){.base = base, .mems = mems, .runs = runs, .units = units};
    return KVL_OK;
}

void kvl_stages_cleanup(kvl_stages_t *stages)
{
    assert(stages->busy == 0);
    kvl_free(stages->runs);
    *stages = (kvl_stages_t){.base = NULL};
}

/* The first of @a count free units from @a first on, before @a end; @a end if there are none. No run lies in two
 * slices of the registration. */
static size_t run_find(const kvl_stages_t *stages, size_t first, size_t end, size_t count)
{
    size_t at = first, start = first;

    while (at < end) {
        if (stages->runs[at]) {
            at += stages->runs[at];
            start = at;
            continue;
        }
        if (at == start && kvl_mem_left(stages->mems[0], stages->base + at * UNIT) < count * UNIT) {
            start = ++at;
            continue;
        }
        if (++at - start == count) {
            return start;
        }
    }
    return end;
}

uint8_t *kvl_stage_get(kvl_stages_t *stages, size_t size)
{
    size_t count = (size + UNIT - 1) / UNIT, start;

    start = run_find(stages, stages->next, stages->units, count);
    if (start == stages->units) {
        start = run_find(stages, 0, stages->units, count);
    }
    if (start == stages->units) {
        return NULL;
    }
    stages->runs[start] = (uint32_t)count;
    stages->next        = start + count;
    stages->busy++;
    return stages->base + start * UNIT;
}

void kvl_stage_put(kvl_stages_t *stages, uint8_t *stage)
{
    stages->runs[(size_t)(stage - stages->base) / UNIT] = 0;
    stages->busy--;
}

/* ---- through it ---- */

static kvl_status_t copies_flush(kvl_device_t *device, kvl_copy_dir_t dir, kvl_copy_t *copies, size_t *count)
{
    kvl_status_t status = *count ? kvl_device_copy(device, dir, copies, *count) : KVL_OK;

    *count = 0;
    return status;
}

kvl_status_t kvl_stage_copy(uint8_t *stage, const kvl_piece_t *pieces, size_t at, size_t length, kvl_device_t *device,
                            kvl_copy_dir_t dir)
{
    kvl_copy_t copies[KVL_COPIES_MAX];
    kvl_status_t status = KVL_OK;
    size_t waiting      = 0;

    for (; status == KVL_OK && length; pieces++, at = 0) {
        size_t part     = pieces->length - at < length ? pieces->length - at : length;
        uint8_t *memory = (uint8_t *)pieces->address + at;
        kvl_copy_t copy = dir == KVL_TO_HOST ? (kvl_copy_t){stage, memory, part} : (kvl_copy_t){memory, stage, part};

        stage += part;
        length -= part;
        if (!pieces->device) {
            memcpy(copy.to, copy.from, part);
            continue;
        }
        copies[waiting++] = copy;
        if (waiting == KVL_COPIES_MAX) {
            status = copies_flush(device, dir, copies, &waiting);
        }
    }
    return status == KVL_OK ? copies_flush(device, dir, copies, &waiting) : status;
}
