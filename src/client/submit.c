/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/job.h"

#include "base/alloc.h"
#include "base/error.h"

#include <inttypes.h>
#include <string.h>

/* From what the caller hands in to a job: two passes on the caller's thread. The first checks and
 * measures, the second copies into one block: job, results, entries, pieces, keys. Segments become
 * pieces, neighbours merged once and for all; nothing of the caller's arrays is kept. */

typedef struct {
    kvl_cache_t *cache;
    kvl_cache_op_t op;
    const kvl_item_t *items;
    size_t count;
    size_t pieces, key_bytes; /* measured */
    kvl_region_t *last;       /* the region of the segment before: most often of the next too */
    kvl_device_t *device;     /* of the last segment in device memory */
    bool waits;               /* for a stream or event of it */
} submit_t;

static bool op_moves(kvl_cache_op_t op)
{
    return op == KVL_CACHE_PUT || op == KVL_CACHE_GET;
}

static kvl_status_t segment_measure(const kvl_segment_t *segment, size_t item, size_t index,
                                    uint64_t *sum_p)
{
    uintptr_t first = (uintptr_t)segment->address;

    if (!segment->address || !segment->length) {
        return kvl_error(KVL_ERR_INVALID, "cache: item %zu: segment %zu: %s", item, index,
                         segment->address ? "length is 0" : "address is NULL");
    }
    if (first + segment->length < first || __builtin_add_overflow(*sum_p, segment->length, sum_p)) {
        return kvl_error(KVL_ERR_INVALID, "cache: item %zu: segment %zu: length %zu wraps around",
                         item, index, segment->length);
    }
    return KVL_OK;
}

static kvl_status_t item_measure(submit_t *submit, size_t index)
{
    const kvl_item_t *item = &submit->items[index];
    uint64_t sum           = 0;
    size_t i;

    if (!item->key || item->key_length < 1 || item->key_length > KVL_KEY_MAX) {
        return item->key ? kvl_error(KVL_ERR_INVALID,
                                     "cache: item %zu: key_length is %zu; accepted: "
                                     "1 to %d",
                                     index, item->key_length, KVL_KEY_MAX)
                         : kvl_error(KVL_ERR_INVALID, "cache: item %zu: key is NULL", index);
    }
    submit->key_bytes += item->key_length;
    if (!op_moves(submit->op)) {
        return KVL_OK;
    }
    if (!item->segments || item->segment_count < 1 || item->segment_count > KVL_SEGMENTS_MAX) {
        return item->segments
                   ? kvl_error(KVL_ERR_INVALID,
                               "cache: item %zu: segment_count is %zu; accepted: 1 "
                               "to %d",
                               index, item->segment_count, KVL_SEGMENTS_MAX)
                   : kvl_error(KVL_ERR_INVALID, "cache: item %zu: segments is NULL", index);
    }
    for (i = 0; i < item->segment_count; i++) {
        kvl_status_t status = segment_measure(&item->segments[i], index, i, &sum);

        if (status != KVL_OK) {
            return status;
        }
    }
    submit->pieces += item->segment_count;
    return KVL_OK;
}

static kvl_status_t submit_measure(submit_t *submit)
{
    size_t i;

    if (!submit->items || !submit->count) {
        return kvl_error(KVL_ERR_INVALID, "cache: %s; accepted: 1 to %d items",
                         submit->items ? "count is 0" : "items is NULL", KVL_BATCH_MAX);
    }
    if (submit->count > KVL_BATCH_MAX) {
        return kvl_error(KVL_ERR_LIMIT,
                         "cache: %zu items in one batch, over KVL_BATCH_MAX (%d); "
                         "submit several batches",
                         submit->count, KVL_BATCH_MAX);
    }
    for (i = 0; i < submit->count; i++) {
        kvl_status_t status = item_measure(submit, i);

        if (status != KVL_OK) {
            return status;
        }
    }
    return KVL_OK;
}

static bool region_holds(const kvl_region_t *region, const kvl_segment_t *segment)
{
    uintptr_t base = (uintptr_t)region->address, first = (uintptr_t)segment->address;

    return first >= base && first - base <= region->length &&
           segment->length <= region->length - (first - base);
}

static kvl_status_t segment_region(submit_t *submit, size_t item, size_t index)
{
    const kvl_segment_t *segment = &submit->items[item].segments[index];
    kvl_engine_t *engine         = submit->cache->engine;

    if (!segment->region) {
        if (!submit->last || !region_holds(submit->last, segment)) {
            submit->last = kvl_region_find(engine, segment->address, segment->length);
        }
        return submit->last ? KVL_OK
                            : kvl_error(KVL_ERR_INVALID,
                                        "cache: item %zu: segment %zu: no region "
                                        "holds %zu bytes at %p; register them first",
                                        item, index, segment->length, segment->address);
    }
    submit->last = segment->region;
    if (segment->region->engine != engine) {
        return kvl_error(KVL_ERR_INVALID,
                         "cache: item %zu: segment %zu: its region belongs to "
                         "another engine",
                         item, index);
    }
    if (!region_holds(segment->region, segment)) {
        return kvl_error(KVL_ERR_INVALID,
                         "cache: item %zu: segment %zu: %zu bytes at %p lie outside "
                         "of region %" PRIu32,
                         item, index, segment->length, segment->address, segment->region->id);
    }
    return KVL_OK;
}

/* A value may lie on a device and in host memory, not on two devices: one engine copies it. */
static kvl_status_t segment_device(submit_t *submit, size_t item, size_t index, kvl_entry_t *entry)
{
    kvl_device_t *device = submit->last->device;

    if (device && entry->device && device != entry->device) {
        return kvl_error(KVL_ERR_INVALID, "cache: item %zu: segment %zu is on %s, one before it on %s; split the item",
                         item, index, kvl_device_name(device), kvl_device_name(entry->device));
    }
    if (device && submit->device && device != submit->device && submit->waits) {
        return kvl_error(KVL_ERR_INVALID, "cache: item %zu: segment %zu is on %s, others on %s; a batch with a stream or "
                         "event to wait for has one device", item, index, kvl_device_name(device),
                         kvl_device_name(submit->device));
    }
    if (device) {
        entry->device = submit->device = device;
    }
    return KVL_OK;
}

static kvl_status_t item_pieces(submit_t *submit, size_t index, kvl_entry_t *entry)
{
    const kvl_item_t *item = &submit->items[index];
    size_t i;

    entry->length = 0;
    for (i = 0; i < item->segment_count; i++) {
        kvl_status_t status = segment_region(submit, index, i);

        if (status == KVL_OK) {
            status = segment_device(submit, index, i, entry);
        }
        if (status != KVL_OK) {
            return status;
        }
        entry->pieces[i] = (kvl_piece_t){.address       = item->segments[i].address,
                                         .length        = item->segments[i].length,
                                         .mems          = submit->last->mems,
                                         .remote_offset = entry->length,
                                         .device        = submit->last->device};
        entry->length += item->segments[i].length;
    }
    entry->piece_count = (uint32_t)kvl_pieces_merge(entry->pieces, item->segment_count);
    return KVL_OK;
}

/* the entries, their pieces and keys, behind the job in its block */
static kvl_status_t submit_copy(submit_t *submit, kvl_job_t *job, kvl_piece_t *pieces,
                                uint8_t *keys)
{
    size_t i;

    for (i = 0; i < submit->count; i++) {
        const kvl_item_t *item = &submit->items[i];
        kvl_entry_t *entry     = &job->entries[i];

        *entry = (kvl_entry_t){.key        = keys,
                               .key_length = (uint8_t)item->key_length,
                               .pieces     = pieces,
                               .state      = KVL_ENTRY_TODO};
        memcpy(keys, item->key, item->key_length);
        keys += item->key_length;
        if (op_moves(submit->op)) {
            kvl_status_t status = item_pieces(submit, i, entry);

            if (status != KVL_OK) {
                return status;
            }
            pieces += item->segment_count;
        }
    }
    return KVL_OK;
}

static const kvl_batch_ops_t job_batch_ops;

static void job_init(kvl_job_t *job, submit_t *submit, const kvl_batch_params_t *params,
                     int64_t deadline_ns, kvl_result_t *results)
{
    memset(job, 0, sizeof(*job));
    kvl_batch_init(&job->batch, submit->cache->engine, &job_batch_ops, params, deadline_ns, results,
                   submit->count);
    job->cache     = submit->cache;
    job->op        = submit->op;
    job->work.func = kvl_conductor_attach;
    job->todo      = submit->count;
    kvl_list_init(&job->link);
    kvl_list_init(&job->run);
    kvl_list_init(&job->flights);
    kvl_list_init(&job->queries);
    kvl_flow_init(&job->flow);
}

kvl_status_t kvl_job_create(kvl_cache_t *cache, kvl_cache_op_t op, const kvl_item_t *items,
                            size_t count, const kvl_batch_params_t *params, kvl_job_t **job_p)
{
    submit_t submit = {.cache = cache,
                       .op    = op,
                       .items = items,
                       .count = count,
                       .waits = params && (params->stream || params->event)};
    kvl_result_t *results;
    kvl_piece_t *pieces;
    kvl_status_t status;
    int64_t deadline_ns;
    kvl_job_t *job;

    if ((unsigned)op > KVL_CACHE_REMOVE) {
        return kvl_error(KVL_ERR_INVALID, "cache: operation %u is none; accepted: 0 to %d",
                         (unsigned)op, KVL_CACHE_REMOVE);
    }
    status = kvl_batch_deadline(cache->engine, params, &deadline_ns);
    if (status == KVL_OK) {
        status = submit_measure(&submit);
    }
    if (status != KVL_OK) {
        return status;
    }
    job = kvl_malloc(sizeof(*job) + count * (sizeof(*results) + sizeof(kvl_entry_t)) +
                     submit.pieces * sizeof(*pieces) + submit.key_bytes);
    if (!job) {
        return kvl_error(KVL_ERR_NO_MEMORY,
                         "cache: no memory for a batch of %zu items and %zu "
                         "segments",
                         count, submit.pieces);
    }
    results = (kvl_result_t *)(job + 1);
    job_init(job, &submit, params, deadline_ns, results);
    job->entries = (kvl_entry_t *)(results + count);
    pieces       = (kvl_piece_t *)(job->entries + count);
    status       = submit_copy(&submit, job, pieces, (uint8_t *)(pieces + submit.pieces));
    if (status == KVL_OK) {
        status = kvl_batch_gate(&job->batch, params, submit.device);
    }
    if (status != KVL_OK) {
        kvl_job_destroy(job);
        return status;
    }
    *job_p = job;
    return KVL_OK;
}

void kvl_job_destroy(kvl_job_t *job)
{
    kvl_free(job);
}

static void job_batch_destroy(kvl_batch_t *batch)
{
    kvl_job_destroy(kvl_container(batch, kvl_job_t, batch));
}

static const kvl_batch_ops_t job_batch_ops = {
    .cancel  = kvl_job_cancel,
    .destroy = job_batch_destroy,
};
