/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/doctor_load.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOKUPS  100
#define ITEMS    8
#define SEGMENTS 8
#define SEGMENT  ((size_t)32 << 10)
#define ITEM     (SEGMENTS * SEGMENT)
#define LOAD     (ITEMS * ITEM)
#define RUN_NS   (KVL_SECOND / 5) /* of puts, and of gets */

typedef struct {
    kvl_doctor_t *doctor;
    kvl_cache_t *cache;
    const char *pair;
    kvl_region_t *region;
    uint8_t *memory;
    kvl_segment_t segments[ITEMS][SEGMENTS];
    kvl_item_t items[ITEMS];
    char keys[ITEMS][64];
    char cause[256]; /* of what failed */
} load_t;

static kvl_status_t run(load_t *load, kvl_cache_op_t op, size_t count)
{
    kvl_batch_params_t params = {.timeout_ms = load->doctor->timeout_ms};
    kvl_batch_t *batch;
    kvl_status_t status = kvl_cache_submit(load->cache, op, load->items, count, &params, &batch);

    if (status != KVL_INPROGRESS) {
        snprintf(load->cause, sizeof(load->cause), "%s", kvl_error_text());
        return status;
    }
    status = kvl_batch_wait(batch, -1);
    snprintf(load->cause, sizeof(load->cause), "%s", kvl_batch_cause(batch));
    kvl_batch_release(batch);
    return status;
}

static void say(load_t *load, kvl_found_t found, const char *what, const char *way_out,
                const char *text)
{
    kvl_finding_t finding;
    char name[128];

    snprintf(name, sizeof(name), "%s %s", what, load->pair);
    finding = kvl_finding(found, name, way_out, "%s", text);
    kvl_doctor_say(load->doctor, &finding);
}

/* ---- latency ---- */

static int compare_times(const void *a_v, const void *b_v)
{
    const int64_t *a = a_v, *b = b_v;

    return *a < *b ? -1 : *a > *b;
}

static bool latency(load_t *load)
{
    int64_t times[LOOKUPS];
    kvl_finding_t finding;

    for (unsigned i = 0; i < LOOKUPS; i++) {
        int64_t begin       = kvl_now_ns();
        kvl_status_t status = run(load, KVL_CACHE_EXISTS, 1);

        times[i] = kvl_now_ns() - begin;
        if (status != KVL_ERR_NOT_FOUND) {
            say(load, KVL_FOUND_FAIL, "latency", "look at the node's log", load->cause);
            return false;
        }
    }
    qsort(times, LOOKUPS, sizeof(times[0]), compare_times);
    finding = kvl_judge_latency(load->pair, times[0], times[LOOKUPS / 2], LOOKUPS);
    kvl_doctor_say(load->doctor, &finding);
    return true;
}

/* ---- bandwidth ---- */

/* every byte depends on its place */
static uint8_t pattern(size_t at)
{
    return (uint8_t)(at * 31 + (at >> 8) * 7 + (at >> 16));
}

static bool is_right(const load_t *load)
{
    for (size_t at = 0; at < LOAD; at++) {
        if (load->memory[at] != pattern(at)) {
            return false;
        }
    }
    return true;
}

/* bytes/s; 0: it failed */
static double repeat(load_t *load, kvl_cache_op_t op)
{
    int64_t begin = kvl_now_ns(), now = begin;
    unsigned rounds = 0;

    while (rounds == 0 || now - begin < RUN_NS) {
        if (run(load, op, ITEMS) != KVL_OK) {
            return 0;
        }
        rounds++;
        now = kvl_now_ns();
    }
    return (double)rounds * (double)LOAD * 1e9 / (double)(now - begin);
}

/* values of others must not go for a measurement */
static bool has_room(load_t *load)
{
    kvl_node_stat_t stat;

    return kvl_cache_stat(load->cache, load->doctor->timeout_ms, &stat) == KVL_OK &&
           stat.bytes_total - stat.bytes_used >= 4 * LOAD;
}

static void bandwidth(load_t *load)
{
    double put, get = 0;
    bool right = false;
    char text[160];

    if (!has_room(load)) {
        say(load, KVL_FOUND_OK, "bandwidth", NULL,
            "not measured: values of others would have to go for it");
        return;
    }
    for (size_t at = 0; at < LOAD; at++) {
        load->memory[at] = pattern(at);
    }
    put = repeat(load, KVL_CACHE_PUT);
    if (put > 0) {
        memset(load->memory, 0, LOAD);
        get   = repeat(load, KVL_CACHE_GET);
        right = get > 0 && is_right(load);
    }
    if (get > 0) {
        snprintf(text, sizeof(text), "put %.2f GB/s, get %.2f GB/s, in segments of 32 KiB; %s",
                 put / 1e9, get / 1e9, right ? "every byte is right" : "bytes are wrong");
        say(load, right ? KVL_FOUND_OK : KVL_FOUND_FAIL, "bandwidth",
            right ? NULL : "do not use this transport; KVLANE_MODE=message may do", text);
    } else {
        say(load, KVL_FOUND_FAIL, "bandwidth", "look at the node's log", load->cause);
    }
    (void)run(load, KVL_CACHE_REMOVE, ITEMS);
}

static void load_init(load_t *load)
{
    for (unsigned i = 0; i < ITEMS; i++) {
        int length = snprintf(load->keys[i], sizeof(load->keys[i]), "kvlane doctor %d %lld %u",
                              (int)getpid(), (long long)kvl_now_ns(), i);

        for (unsigned j = 0; j < SEGMENTS; j++) {
            load->segments[i][j] = (kvl_segment_t){.address = load->memory + i * ITEM + j * SEGMENT,
                                                   .length  = SEGMENT,
                                                   .region  = load->region};
        }
        load->items[i] = (kvl_item_t){.key           = load->keys[i],
                                      .key_length    = (size_t)length,
                                      .segments      = load->segments[i],
                                      .segment_count = SEGMENTS};
    }
}

void kvl_doctor_load(kvl_doctor_t *doctor, kvl_engine_t *engine, kvl_cache_t *cache,
                     const char *pair)
{
    load_t load = {.doctor = doctor, .cache = cache, .pair = pair};

    load.memory = malloc(LOAD);
    if (!load.memory || kvl_region_register(engine, load.memory, LOAD, &load.region) != KVL_OK) {
        say(&load, KVL_FOUND_FAIL, "bandwidth", "see memlock",
            load.memory ? kvl_error_text() : "no memory");
    } else {
        load_init(&load);
        if (latency(&load)) {
            bandwidth(&load);
        }
    }
    kvl_region_release(load.region);
    free(load.memory);
}
