/* SPDX-License-Identifier: BSD-3-Clause */
/* A client process for the system tests, made to be killed, stopped and counted:
 *
 *     system_client churn ADDR ID           puts and gets for ever, writes a mark to stdout before each
 *     system_client sg ADDR put|get ITEMS   ITEMS items of 61 segments of 4296 bytes, 32 a batch
 *     system_client once ADDR               one put and one get of each key, then ends
 *     system_client soak ADDR ITEMS         puts, gets and removes ITEMS items of 1 byte to 8 MiB, knows what
 *                                           each get must bring; says now and then how it is
 *
 *     system_client warm ADDR BATCHES       BATCHES small batches: put, get, exists in turn, of one item each
 *
 *     system_client target                  shows 1 MiB to other engines: prints "ready ADDR:PORT BLOB",
 *                                           stays until it is killed
 *
 * Exit codes: 0 all well, 1 a call failed, 2 usage, 3 wrong bytes. Uses the public calls alone. */
#include "system/pattern.h"

#include <kvlane/cache.h>
#include <kvlane/transport.h>

#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define BATCH        12
#define ITEM_MAX     (2752512)
#define SG_BATCH     32
#define SG_EACH      4296
#define TARGET_BYTES (1u << 20)
#define WARM_BYTES   (9u << 20) /* five slices of 2 MiB */
#define SG_LENGTH    (SG_EACH * PATTERN_SEGMENTS)

typedef struct {
    kvl_engine_t *engine;
    kvl_cache_t *cache;
    kvl_region_t *region;
    uint8_t *pool;
} client_t;

static int failed(const char *what)
{
    fprintf(stderr, "system_client %d: %s: %s\n", (int)getpid(), what, kvl_error_text());
    return 1;
}

static int client_open(client_t *client, const char *address, size_t bytes)
{
    kvl_engine_params_t params = {.address = address};
    time_t started             = time(NULL);

    if (kvl_engine_create(&params, &client->engine) != KVL_OK) {
        return failed("engine");
    }
    if (kvl_region_alloc(client->engine, bytes, &client->region) != KVL_OK) {
        return failed("region");
    }
    client->pool = kvl_region_address(client->region);
    if (kvl_cache_create(client->engine, address, &client->cache) != KVL_OK) {
        return failed("cache");
    }
    /* an attempt fails if the node starts a lane anew meanwhile (another client was killed) */
    while (kvl_cache_connect(client->cache, 10000) != KVL_OK) {
        if (time(NULL) - started > 10) {
            return failed("connect");
        }
    }
    return 0;
}

static void client_close(client_t *client)
{
    kvl_cache_destroy(client->cache);
    kvl_region_release(client->region);
    kvl_engine_destroy(client->engine);
}

static kvl_status_t run(client_t *client, kvl_cache_op_t op, const kvl_item_t *items, size_t count,
                        kvl_status_t *statuses)
{
    kvl_batch_params_t params = {.timeout_ms = 20000};
    kvl_batch_t *batch;
    kvl_status_t status;
    size_t i;

    status = kvl_cache_submit(client->cache, op, items, count, &params, &batch);
    if (status != KVL_INPROGRESS) {
        failed("submit");
        exit(1);
    }
    status = kvl_batch_wait(batch, -1);
    for (i = 0; i < count; i++) {
        statuses[i] = kvl_batch_item(batch, i, NULL);
    }
    kvl_batch_release(batch);
    return status;
}

static void mark(char c)
{
    if (write(STDOUT_FILENO, &c, 1) != 1) {
        exit(1); /* the test is gone */
    }
}

static uint32_t next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

/* ---- churn ---- */

typedef struct {
    uint32_t keys[BATCH];
    pattern_item_t space[BATCH];
    kvl_item_t items[BATCH];
    kvl_status_t statuses[BATCH];
} churn_t;

static void churn_choose(churn_t *churn, client_t *client, uint64_t *state)
{
    uint32_t first = next(state) % PATTERN_KEYS, i;

    for (i = 0; i < BATCH; i++) {
        churn->keys[i] = (first + i * 5) % PATTERN_KEYS; /* each at most once in a batch */
        churn->items[i] =
            pattern_item(&churn->space[i], churn->keys[i], client->pool + (size_t)i * ITEM_MAX);
    }
}

static void churn_put(churn_t *churn, client_t *client, uint32_t generation)
{
    uint32_t i;

    for (i = 0; i < BATCH; i++) {
        pattern_fill(client->pool + (size_t)i * ITEM_MAX, pattern_length(churn->keys[i]),
                     churn->keys[i], generation);
    }
    mark('p');
    run(client, KVL_CACHE_PUT, churn->items, BATCH, churn->statuses);
}

static int churn_get(churn_t *churn, client_t *client)
{
    uint32_t i;

    mark('g');
    run(client, KVL_CACHE_GET, churn->items, BATCH, churn->statuses);
    for (i = 0; i < BATCH; i++) {
        const uint8_t *memory = client->pool + (size_t)i * ITEM_MAX;
        size_t length         = pattern_length(churn->keys[i]), at;

        if (churn->statuses[i] != KVL_OK) {
            continue;
        }
        at = pattern_differs(memory, length, churn->keys[i], pattern_claims(memory));
        if (at != length) {
            fprintf(stderr, "system_client: key %u differs at byte %zu of %zu\n",
                    (unsigned)churn->keys[i], at, length);
            return 3;
        }
    }
    return 0;
}

static int churn(const char *address, uint32_t id)
{
    static churn_t churn;
    client_t client = {.engine = NULL};
    uint64_t state  = id + 1;
    uint32_t step   = 0;
    int code        = client_open(&client, address, (size_t)BATCH * ITEM_MAX);

    while (code == 0) {
        churn_choose(&churn, &client, &state);
        churn_put(&churn, &client, id << 16 | (step++ & 0xffff));
        churn_choose(&churn, &client, &state);
        code = churn_get(&churn, &client);
    }
    return code;
}

/* ---- once ---- */

static int once(const char *address)
{
    static churn_t churn;
    client_t client = {.engine = NULL};
    uint64_t state  = 77;
    int code        = client_open(&client, address, (size_t)BATCH * ITEM_MAX);

    if (code == 0) {
        churn_choose(&churn, &client, &state);
        churn_put(&churn, &client, 1);
        code = churn_get(&churn, &client);
        client_close(&client);
    }
    return code;
}

/* ---- sg ---- */

static void sg_items(client_t *client, uint32_t first, pattern_item_t *space, kvl_item_t *items)
{
    uint32_t i, j;

    for (i = 0; i < SG_BATCH; i++) {
        uint8_t *memory = client->pool + (size_t)i * (SG_EACH + 64) * PATTERN_SEGMENTS;

        for (j = 0; j < PATTERN_SEGMENTS; j++) { /* gaps keep them apart */
            space[i].segments[j] =
                (kvl_segment_t){.address = memory + j * (SG_EACH + 64), .length = SG_EACH};
        }
        snprintf(space[i].key, sizeof(space[i].key), "s%u", (unsigned)(first + i));
        items[i] =
            (kvl_item_t){space[i].key, strlen(space[i].key), space[i].segments, PATTERN_SEGMENTS};
    }
}

static void sg_bytes(const kvl_item_t *item, uint32_t key, bool fill, size_t *wrong)
{
    static uint8_t value[SG_LENGTH];
    size_t j;

    if (fill) {
        pattern_fill(value, sizeof(value), key, 1);
    }
    for (j = 0; j < item->segment_count; j++) {
        uint8_t *segment = item->segments[j].address, *at = value + j * SG_EACH;

        memcpy(fill ? segment : at, fill ? at : segment, SG_EACH);
    }
    if (!fill) {
        *wrong += pattern_differs(value, sizeof(value), key, 1) != sizeof(value);
    }
}

static int sg(const char *address, bool put, uint32_t count)
{
    static pattern_item_t space[SG_BATCH];
    kvl_item_t items[SG_BATCH];
    kvl_status_t statuses[SG_BATCH], status = KVL_OK;
    client_t client = {.engine = NULL};
    size_t wrong    = 0;
    uint32_t at, i;
    int code = client_open(&client, address, (size_t)SG_BATCH * (SG_EACH + 64) * PATTERN_SEGMENTS);

    for (at = 0; code == 0 && status == KVL_OK && at < count; at += SG_BATCH) {
        sg_items(&client, at, space, items);
        memset(client.pool, 0, kvl_region_length(client.region));
        for (i = 0; put && i < SG_BATCH; i++) {
            sg_bytes(&items[i], at + i, true, NULL);
        }
        status = run(&client, put ? KVL_CACHE_PUT : KVL_CACHE_GET, items, SG_BATCH, statuses);
        for (i = 0; !put && i < SG_BATCH; i++) {
            sg_bytes(&items[i], at + i, false, &wrong);
        }
    }
    if (code == 0) {
        kvl_engine_print(client.engine, stderr, 0);
        client_close(&client);
    }
    if (wrong || status != KVL_OK) {
        fprintf(stderr, "system_client sg: %s, %zu wrong values\n", kvl_status_name(status), wrong);
    }
    return wrong ? 3 : code ? code : status != KVL_OK;
}

/* ---- soak ---- */

#define SOAK_KEYS     800
#define SOAK_BATCH    8
#define SOAK_LOG2_MAX 23
#define SOAK_MAX      (1u << SOAK_LOG2_MAX)
#define SOAK_REPORTS  20

typedef struct {
    uint32_t generation, length; /* length 0: never put, or removed */
} soak_key_t;

typedef struct {
    uint32_t keys[SOAK_BATCH];
    char names[SOAK_BATCH][16];
    kvl_segment_t segments[SOAK_BATCH][9];
    kvl_item_t items[SOAK_BATCH];
    kvl_status_t statuses[SOAK_BATCH];
} soak_batch_t;

typedef struct {
    client_t client;
    soak_key_t keys[SOAK_KEYS];
    soak_batch_t batch;
    uint64_t random;
    uint64_t items, puts, gets, removes, found, missing, bytes;
} soak_t;

static void soak_wrong(const soak_t *soak, uint32_t key, const char *what, size_t at)
{
    fprintf(stderr, "system_client soak: item %llu: key %u of %u bytes: %s (%zu)\n",
            (unsigned long long)soak->items, (unsigned)key, (unsigned)soak->keys[key].length, what,
            at);
    exit(3);
}

/* as many of each order of magnitude */
static uint32_t soak_length(uint64_t *random)
{
    uint32_t log2   = next(random) % (SOAK_LOG2_MAX + 1);
    uint32_t length = (1u << log2) + next(random) % (1u << log2);

    return length < SOAK_MAX ? length : SOAK_MAX;
}

/* cuts the value into up to nine segments; they lie apart by what the cut leaves of their own room */
static void soak_item(soak_t *soak, uint32_t i)
{
    soak_batch_t *batch = &soak->batch;
    uint32_t key        = batch->keys[i];
    uint32_t length = soak->keys[key].length ? soak->keys[key].length : 1, at = 0, n = 0;
    uint8_t *memory = soak->client.pool + (size_t)i * SOAK_MAX;

    while (at < length) {
        uint32_t piece = next(&soak->random) % (length / 4 + 1) + 1;

        piece                   = n == 8 || piece > length - at ? length - at : piece;
        batch->segments[i][n++] = (kvl_segment_t){.address = memory + at, .length = piece};
        at += piece;
    }
    snprintf(batch->names[i], sizeof(batch->names[i]), "soak%u", (unsigned)key);
    batch->items[i] = (kvl_item_t){batch->names[i], strlen(batch->names[i]), batch->segments[i], n};
}

static void soak_choose(soak_t *soak, bool put)
{
    uint32_t first = next(&soak->random) % SOAK_KEYS, i;

    for (i = 0; i < SOAK_BATCH; i++) {
        uint32_t key = soak->batch.keys[i] = (first + i * 37) % SOAK_KEYS;

        if (put) {
            soak->keys[key].generation++;
            soak->keys[key].length = soak_length(&soak->random);
        }
        soak_item(soak, i);
        if (put) {
            pattern_fill(soak->client.pool + (size_t)i * SOAK_MAX, soak->keys[key].length, key,
                         soak->keys[key].generation);
        }
    }
}

static void soak_put(soak_t *soak)
{
    uint32_t i;

    soak_choose(soak, true);
    run(&soak->client, KVL_CACHE_PUT, soak->batch.items, SOAK_BATCH, soak->batch.statuses);
    for (i = 0; i < SOAK_BATCH; i++) {
        if (soak->batch.statuses[i] != KVL_OK) {
            soak_wrong(soak, soak->batch.keys[i], kvl_status_name(soak->batch.statuses[i]), 0);
        }
        soak->bytes += soak->keys[soak->batch.keys[i]].length;
    }
    soak->puts += SOAK_BATCH;
}

static void soak_get(soak_t *soak)
{
    uint32_t i;

    soak_choose(soak, false);
    run(&soak->client, KVL_CACHE_GET, soak->batch.items, SOAK_BATCH, soak->batch.statuses);
    for (i = 0; i < SOAK_BATCH; i++) {
        uint32_t key          = soak->batch.keys[i];
        const uint8_t *memory = soak->client.pool + (size_t)i * SOAK_MAX;
        kvl_status_t status   = soak->batch.statuses[i];
        size_t length         = soak->keys[key].length, at;

        if (status == KVL_ERR_NOT_FOUND) { /* evicted, removed or never put */
            soak->missing++;
            continue;
        }
        if (status != KVL_OK || !length) {
            soak_wrong(soak, key, length ? kvl_status_name(status) : "removed, and found", 0);
        }
        at = pattern_differs(memory, length, key, soak->keys[key].generation);
        if (at != length) {
            soak_wrong(soak, key, "wrong from byte", at);
        }
        soak->found++;
        soak->bytes += length;
    }
    soak->gets += SOAK_BATCH;
}

static void soak_remove(soak_t *soak)
{
    uint32_t i;

    soak_choose(soak, false);
    run(&soak->client, KVL_CACHE_REMOVE, soak->batch.items, SOAK_BATCH, soak->batch.statuses);
    for (i = 0; i < SOAK_BATCH; i++) {
        kvl_status_t status = soak->batch.statuses[i];

        if (status != KVL_OK && status != KVL_ERR_NOT_FOUND) {
            soak_wrong(soak, soak->batch.keys[i], kvl_status_name(status), 0);
        }
        soak->keys[soak->batch.keys[i]].length = 0;
    }
    soak->removes += SOAK_BATCH;
}

static int soak(const char *address, uint64_t count)
{
    static soak_t soak;
    uint64_t report = count / SOAK_REPORTS;
    int code        = client_open(&soak.client, address, (size_t)SOAK_BATCH * SOAK_MAX);

    soak.random = 5;
    memset(soak.client.pool, 1, (size_t)SOAK_BATCH * SOAK_MAX); /* all of it is there */
    while (code == 0 && soak.items < count) {
        uint32_t dice = next(&soak.random) % 100;

        if (dice < 45) {
            soak_put(&soak);
        } else if (dice < 95) {
            soak_get(&soak);
        } else {
            soak_remove(&soak);
        }
        soak.items += SOAK_BATCH;
        if (soak.items >= report) {
            report += count / SOAK_REPORTS;
            printf("%llu items, %llu put, %llu got, %llu not there, %llu removed, %llu MB\n",
                   (unsigned long long)soak.items, (unsigned long long)soak.puts,
                   (unsigned long long)soak.found, (unsigned long long)soak.missing,
                   (unsigned long long)soak.removes, (unsigned long long)soak.bytes / 1000000);
            fflush(stdout);
        }
    }
    if (code == 0) {
        client_close(&soak.client);
    }
    return code;
}

/* ---- warm ---- */

static int warm(const char *address, uint32_t count)
{
    client_t client;
    kvl_segment_t segments[2];
    kvl_item_t item = {"warm", 4, segments, 2};
    int code        = client_open(&client, address, WARM_BYTES);
    uint32_t i;

    if (code) {
        return code;
    }
    segments[0] = (kvl_segment_t){client.pool, 4096, NULL};
    segments[1] = (kvl_segment_t){client.pool + 8192, 4096, NULL};
    for (i = 0; i < count; i++) {
        kvl_status_t status;

        if (run(&client, (kvl_cache_op_t)(i % 3), &item, 1, &status) != KVL_OK) {
            return failed("warm");
        }
    }
    client_close(&client);
    return 0;
}

/* ---- target ---- */

static int target(void)
{
    kvl_engine_params_t params = {.address = "127.0.0.1:0"};
    client_t client            = {.engine = NULL};
    kvl_listener_t *listener;
    char address[128];
    uint8_t blob[2048];
    size_t length = sizeof(blob), i;

    if (kvl_engine_create(&params, &client.engine) != KVL_OK ||
        kvl_region_alloc(client.engine, TARGET_BYTES, &client.region) != KVL_OK ||
        kvl_listen(client.engine, "127.0.0.1:0", NULL, NULL, &listener) != KVL_OK ||
        kvl_listener_address(listener, address, sizeof(address)) != KVL_OK ||
        kvl_region_export(client.region, blob, &length) != KVL_OK) {
        return failed("target");
    }
    printf("ready %s ", address);
    for (i = 0; i < length; i++) {
        printf("%02x", blob[i]);
    }
    printf("\n");
    fflush(stdout);
    for (;;) {
        pause();
    }
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "churn") == 0) {
        return churn(argv[2], (uint32_t)strtoul(argv[3], NULL, 10));
    }
    if (argc == 5 && strcmp(argv[1], "sg") == 0) {
        return sg(argv[2], strcmp(argv[3], "put") == 0, (uint32_t)strtoul(argv[4], NULL, 10));
    }
    if (argc == 3 && strcmp(argv[1], "once") == 0) {
        return once(argv[2]);
    }
    if (argc == 4 && strcmp(argv[1], "soak") == 0) {
        return soak(argv[2], strtoull(argv[3], NULL, 10));
    }
    if (argc == 4 && strcmp(argv[1], "warm") == 0) {
        return warm(argv[2], (uint32_t)strtoul(argv[3], NULL, 10));
    }
    if (argc == 2 && strcmp(argv[1], "target") == 0) {
        return target();
    }
    fprintf(stderr, "usage: system_client churn ADDR ID | sg ADDR put|get ITEMS | once ADDR | soak "
                    "ADDR ITEMS\n");
    return 2;
}
