/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/job.h"

#include <string.h>

/* The counts of a job: what is to do, what ended, when to look again. Engine thread only. */

#define BACKOFF_MIN KVL_MS
#define BACKOFF_MAX (50 * KVL_MS)
#define STARVED_MAX 10
#define TTL_MARGIN  INT64_C(1000) /* ms: a lease outlives the deadline by it */

/* a piece knows its region's registrations, and those lie in the region */
static kvl_region_t *piece_region(const kvl_piece_t *piece)
{
    return (kvl_region_t *)((char *)(uintptr_t)piece->mems - offsetof(kvl_region_t, mems));
}

void kvl_job_hold(kvl_job_t *job, long step)
{
    kvl_region_t *region = NULL;
    long run             = 0;
    size_t i;
    uint32_t k;

    /* runs of one region are counted at once: a batch has one region most of the time */
    for (i = 0; i < job->batch.count; i++) {
        for (k = 0; k < job->entries[i].piece_count; k++) {
            kvl_region_t *next = piece_region(&job->entries[i].pieces[k]);

            if (next != region && region) {
                atomic_fetch_add(&region->users, run * step);
                run = 0;
            }
            region = next;
            run++;
        }
    }
    if (region) {
        atomic_fetch_add(&region->users, run * step);
    }
}

void kvl_job_end(kvl_job_t *job, uint32_t index, kvl_status_t status, uint64_t stored,
                 const char *why)
{
    kvl_entry_t *entry = &job->entries[index];
    char key[KVL_KEY_TEXT];

    entry->state = KVL_ENTRY_DONE;
    if (kvl_batch_end(&job->batch, index, status, stored)) {
        kvl_batch_blame(&job->batch, "item %u (key \"%s\"): %s%s%s", index,
                        kvl_key_text(entry->key, entry->key_length, key), kvl_status_string(status),
                        why ? ": " : "", why ? why : "");
    }
    kvl_job_wake(job);
}

void kvl_job_end_todo(kvl_job_t *job, kvl_status_t status, const char *why)
{
    for (; job->todo; job->cursor++) {
        if (job->entries[job->cursor].state == KVL_ENTRY_TODO) {
            job->todo--;
            kvl_job_end(job, (uint32_t)job->cursor, status, 0, why);
        }
    }
}

void kvl_job_wake(kvl_job_t *job)
{
    kvl_list_remove(&job->run);
    kvl_list_push_back(&job->cache->runnable, &job->run);
}

void kvl_job_pause(kvl_job_t *job, int64_t until_ns)
{
    kvl_cache_t *cache = job->cache;

    job->pause_until_ns = until_ns;
    kvl_list_remove(&job->run);
    kvl_list_push_back(&cache->paused, &job->run);
    kvl_cache_retry_at(cache, until_ns);
}

/* xorshift64: jitter needs no more */
static uint64_t cache_random(kvl_cache_t *cache)
{
    cache->random ^= cache->random << 13;
    cache->random ^= cache->random >> 7;
    cache->random ^= cache->random << 17;
    return cache->random;
}

void kvl_job_back_off(kvl_job_t *job)
{
    int64_t now = kvl_now_ns();

    if (now < job->pause_until_ns) {
        return; /* one step for all items of an answer */
    }
    job->backoff_ns = job->backoff_ns ? job->backoff_ns * 2 : BACKOFF_MIN;
    if (job->backoff_ns > BACKOFF_MAX) {
        job->backoff_ns = BACKOFF_MAX;
    }
    kvl_job_pause(job, now + job->backoff_ns / 2 +
                           (int64_t)(cache_random(job->cache) % (uint64_t)job->backoff_ns));
}

bool kvl_job_starve(kvl_job_t *job, kvl_status_t status)
{
    kvl_job_pause(job, kvl_now_ns() + BACKOFF_MIN);
    if (status != KVL_ERR_BUSY && ++job->starved > STARVED_MAX && kvl_list_empty(&job->flights) &&
        kvl_list_empty(&job->queries)) {
        kvl_job_end_todo(job, status, "its request could not be sent");
    }
    return false;
}

kvl_entry_t *kvl_job_next(kvl_job_t *job, uint32_t *index_p)
{
    if (!job->todo) {
        return NULL;
    }
    while (job->entries[job->cursor].state != KVL_ENTRY_TODO) {
        job->cursor++;
    }
    *index_p = (uint32_t)job->cursor;
    return &job->entries[job->cursor];
}

void kvl_job_take(kvl_job_t *job, uint32_t index)
{
    job->entries[index].state = KVL_ENTRY_FLYING;
    job->todo--;
}

void kvl_job_restart(kvl_job_t *job, uint32_t index)
{
    if (job->stop != KVL_OK) {
        kvl_job_end(job, index, job->stop, 0, NULL);
        return;
    }
    job->entries[index].state = KVL_ENTRY_TODO;
    job->todo++;
    if (job->cursor > index) {
        job->cursor = index;
    }
    kvl_job_wake(job);
}

uint32_t kvl_job_ttl_ms(const kvl_job_t *job)
{
    uint32_t max_ms = kvl_link_terms(job->cache->link)->lease_max_ms;
    int64_t left_ms = (job->batch.deadline_ns - kvl_now_ns()) / KVL_MS;

    left_ms = left_ms > 0 ? left_ms : 0;
    return left_ms < (int64_t)max_ms - TTL_MARGIN ? (uint32_t)(left_ms + TTL_MARGIN) : max_ms;
}
