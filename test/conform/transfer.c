/* SPDX-License-Identifier: BSD-3-Clause */
#include "conform/stage.h"

#include <kvlane/transport.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "wire/wire.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Engine to engine over a real transport, both ends in one process. */

#define BYTES   (16u << 20)
#define NOTES   64

static kvl_engine_t *target, *initiator;
static kvl_region_t *there, *here;
static kvl_listener_t *listener;
static kvl_peer_t *peer;
static kvl_remote_t *remote;
static uint8_t *pool;
static const char *slice; /* KVLANE_REG_SLICE, NULL: as it is */
static bool of_its_own; /* the target's memory is not from kvl_region_alloc() */
static uint8_t *its_own;

typedef struct {
    size_t length;
    uint8_t first, last;
    bool data_was_there;
} note_t;

/* written by the target's engine thread, read after the count */
static note_t notes[NOTES];
static _Atomic unsigned note_count;
static _Atomic size_t watch_length;
static _Atomic uint64_t watch_seed;

static void on_note(const char *name, const void *data, size_t length, void *arg)
{
    unsigned n = atomic_load(&note_count);

    (void)arg;
    CHECK(name && *name);
    if (n < NOTES) {
        notes[n] = (note_t){.length = length,
                            .first  = length ? *(const uint8_t *)data : 0,
                            .last   = length ? ((const uint8_t *)data)[length - 1] : 0,
                            .data_was_there =
                                !watch_length || differs(kvl_region_address(there), watch_length,
                                                         watch_seed) == watch_length};
        atomic_store(&note_count, n + 1);
    }
}

static void ends_open(const char *rails, const char *mode)
{
    stage_params_t params = {.rails = rails, .settings = {{"KVLANE_MODE", mode}}};
    kvl_config_t *config       = stage_config(&params, NULL);
    kvl_engine_params_t engine = {.config = config, .address = "127.0.0.1:0"};
    char address[128];
    uint8_t blob[2048];
    size_t length = sizeof(blob);

    if (slice) {
        REQUIRE(kvl_config_set(config, "KVLANE_REG_SLICE", slice) == KVL_OK);
    }
    atomic_store(&note_count, 0);
    watch_length = 0;
    REQUIRE(kvl_engine_create(&engine, &target) == KVL_OK);
    REQUIRE(kvl_engine_create(&engine, &initiator) == KVL_OK);
    if (of_its_own) {
        its_own = calloc(1, BYTES);
        REQUIRE(its_own && kvl_region_register(target, its_own, BYTES, &there) == KVL_OK);
    } else {
        REQUIRE(kvl_region_alloc(target, BYTES, &there) == KVL_OK);
    }
    pool = malloc(BYTES);
    REQUIRE(pool && kvl_region_register(initiator, pool, BYTES, &here) == KVL_OK);
    REQUIRE(kvl_listen(target, "127.0.0.1:0", on_note, NULL, &listener) == KVL_OK);
    REQUIRE(kvl_listener_address(listener, address, sizeof(address)) == KVL_OK);
    REQUIRE(kvl_connect(initiator, address, 0, &peer) == KVL_OK);
    REQUIRE(kvl_region_export(there, blob, &length) == KVL_OK);
    REQUIRE(kvl_remote_import(peer, blob, length, &remote) == KVL_OK);
    kvl_config_destroy(config);
}

static void ends_close(void)
{
    kvl_remote_release(remote);
    kvl_peer_close(peer);
    kvl_listener_destroy(listener);
    CHECK_EQ(kvl_region_release(here), KVL_OK);
    CHECK_EQ(kvl_region_release(there), KVL_OK);
    kvl_engine_destroy(initiator);
    kvl_engine_destroy(target);
    free(pool);
    free(its_own);
    its_own = NULL;
}

static kvl_status_t transfer(const kvl_transfer_t *in)
{
    kvl_batch_t *batch;
    kvl_status_t status = kvl_transfer_submit(peer, in, NULL, &batch);

    if (status == KVL_INPROGRESS) {
        status = kvl_batch_wait(batch, -1);
        CHECK((status == KVL_OK) == (kvl_batch_cause(batch)[0] == '\0'));
        CHECK_EQ(kvl_batch_release(batch), KVL_OK);
    }
    return status;
}

/* every part goes to the mirrored place: nothing is contiguous on both sides */
static void mirror(kvl_part_t *parts, size_t count, size_t length)
{
    size_t i;

    for (i = 0; i < count; i++) {
        parts[i] = (kvl_part_t){.local         = {pool + i * length, length, i % 2 ? here : NULL},
                                .remote        = remote,
                                .remote_offset = (count - 1 - i) * length};
    }
}

static void mirrored_both_ways(const char *rails, const char *mode)
{
    enum { COUNT = 500, LENGTH = 4296 };
    static kvl_part_t parts[COUNT];
    kvl_transfer_t put = {.op = KVL_TRANSFER_PUT, .parts = parts, .part_count = COUNT};
    kvl_transfer_t get = {.op = KVL_TRANSFER_GET, .parts = parts, .part_count = COUNT};
    uint8_t *memory;
    size_t i;

    ends_open(rails, mode);
    memory = kvl_region_address(there);
    mirror(parts, COUNT, LENGTH);
    fill(pool, (size_t)COUNT * LENGTH, 1);
    CHECK_EQ(transfer(&put), KVL_OK);
    for (i = 0; i < COUNT; i++) {
        CHECK_MEM_EQ(memory + (COUNT - 1 - i) * LENGTH, pool + i * LENGTH, LENGTH);
    }
    fill(memory, (size_t)COUNT * LENGTH, 2);
    CHECK_EQ(transfer(&get), KVL_OK);
    for (i = 0; i < COUNT; i++) {
        CHECK_MEM_EQ(memory + (COUNT - 1 - i) * LENGTH, pool + i * LENGTH, LENGTH);
    }
    ends_close();
}

BOTH(transfer_submit, moves_scattered_parts_both_ways)
{
    mirrored_both_ways(rails, "auto");
}

BOTH(transfer_message, moves_scattered_parts_both_ways)
{
    mirrored_both_ways(rails, "message");
}

/* 16 MiB in slices of 2: parts of 100 to 9,000,000 bytes lie across borders here, there, or both */
static void sliced_both_ways(const char *rails, const char *mode)
{
    static const size_t places[][3] = {
        /* here, there, bytes */
        {0, 7000000, 9000000}, {10485759, 777, 2},   {9500000, 2097100, 100},
        {12582900, 1000, 600}, {13000000, 2000, 900}, {14000000, 4000000, 900000},
    };
    kvl_part_t parts[6];
    kvl_transfer_t put = {.op = KVL_TRANSFER_PUT, .parts = parts, .part_count = 6};
    kvl_transfer_t get = {.op = KVL_TRANSFER_GET, .parts = parts, .part_count = 6};
    uint8_t *memory;
    size_t i;

    slice = "2M";
    ends_open(rails, mode);
    slice  = NULL;
    memory = kvl_region_address(there);
    CHECK_EQ(kvl_remote_length(remote), BYTES);
    for (i = 0; i < 6; i++) {
        parts[i] = (kvl_part_t){{pool + places[i][0], places[i][2], here}, remote, places[i][1]};
    }
    fill(pool, BYTES, 11);
    memset(memory, 0, BYTES);
    CHECK_EQ(transfer(&put), KVL_OK);
    for (i = 0; i < 6; i++) {
        CHECK_MEM_EQ(memory + places[i][1], pool + places[i][0], places[i][2]);
    }
    fill(memory, BYTES, 12);
    CHECK_EQ(transfer(&get), KVL_OK);
    for (i = 0; i < 6; i++) {
        CHECK_MEM_EQ(memory + places[i][1], pool + places[i][0], places[i][2]);
    }
    ends_close();
}

BOTH(transfer_slices, are_crossed_both_ways)
{
    sliced_both_ways(rails, "auto");
    sliced_both_ways(rails, "message");
}

BOTH(transfer_slices_of_its_own, are_crossed_both_ways)
{
    of_its_own = true;
    sliced_both_ways(rails, "auto");
    of_its_own = false;
}

static void note_after_data(const char *rails, const char *mode)
{
    static uint8_t large[KVL_NOTIFICATION_MAX];
    kvl_part_t part;
    kvl_transfer_t put = {.op = KVL_TRANSFER_PUT, .parts = &part, .part_count = 1,
                          .notification = "x", .notification_length = 1};
    unsigned i;

    ends_open(rails, mode);
    part = (kvl_part_t){.local = {pool, BYTES, here}, .remote = remote};
    for (i = 0; i < 8; i++) {
        watch_seed   = 100 + i;
        watch_length = BYTES;
        fill(pool, BYTES, watch_seed);
        CHECK_EQ(transfer(&put), KVL_OK);
        CHECK_EQ(atomic_load(&note_count), i + 1); /* the batch waits for the target's word */
        CHECK(notes[i].data_was_there);
    }
    watch_length            = 0;
    put.part_count          = 0;
    put.has_notification    = 1;
    put.notification_length = 0; /* empty */
    CHECK_EQ(transfer(&put), KVL_OK);
    CHECK_EQ(atomic_load(&note_count), 9);
    CHECK_EQ(notes[8].length, 0);
    put.notification        = "\0"; /* one byte, 0x00 */
    put.notification_length = 1;
    CHECK_EQ(transfer(&put), KVL_OK);
    CHECK_EQ(atomic_load(&note_count), 10);
    CHECK_EQ(notes[9].length, 1);
    memset(large, 7, sizeof(large));
    large[sizeof(large) - 1] = 9;
    put.notification         = large; /* as long as it may be */
    put.notification_length  = sizeof(large);
    CHECK_EQ(transfer(&put), KVL_OK);
    CHECK_EQ(atomic_load(&note_count), 11);
    CHECK_EQ(notes[10].length, sizeof(large));
    CHECK_EQ(notes[10].first, 7);
    CHECK_EQ(notes[10].last, 9);
    ends_close();
}

BOTH(transfer_notify, comes_once_after_all_data)
{
    note_after_data(rails, "auto");
}

BOTH(transfer_notify_message, comes_once_after_all_data)
{
    note_after_data(rails, "message");
}

BOTH(transfer_check, names_what_is_wrong)
{
    kvl_part_t part;
    kvl_transfer_t put = {.op = KVL_TRANSFER_PUT, .parts = &part, .part_count = 1};
    uint8_t elsewhere[16], blob[64] = {0};
    kvl_remote_t *none;
    kvl_batch_t *batch;

    ends_open(rails, "auto");
    part = (kvl_part_t){.local = {pool, 16, here}, .remote = remote, .remote_offset = BYTES - 8};
    CHECK_EQ(kvl_transfer_submit(peer, &put, NULL, &batch), KVL_ERR_RANGE);
    CHECK(strstr(kvl_error_text(), "part 0") != NULL);
    part.remote_offset = 0;
    part.local.address = elsewhere;
    part.local.region  = NULL;
    CHECK_EQ(kvl_transfer_submit(peer, &put, NULL, &batch), KVL_ERR_INVALID);
    part.local = (kvl_segment_t){pool + BYTES - 8, 16, here};
    CHECK_EQ(kvl_transfer_submit(peer, &put, NULL, &batch), KVL_ERR_INVALID);
    put.part_count = 0;
    CHECK_EQ(kvl_transfer_submit(peer, &put, NULL, &batch), KVL_ERR_INVALID);
    CHECK_EQ(kvl_remote_import(peer, blob, sizeof(blob), &none), KVL_ERR_INVALID);
    CHECK_EQ(kvl_region_release(here), KVL_OK);
    REQUIRE(kvl_region_register(initiator, pool, BYTES, &here) == KVL_OK);
    ends_close();
}

/* UCX shares only what it allocated: over shared memory other regions are reached by messages */
BOTH(transfer_memory, of_the_targets_own_is_reached_too)
{
    of_its_own = true;
    mirrored_both_ways(rails, "auto");
    of_its_own = false;
}

/* message mode: the target looks at what it exported, whatever the initiator believes */
BOTH(transfer_range, is_checked_by_the_target)
{
    kvl_region_t *secret;
    kvl_part_t part, parts[2];
    kvl_transfer_t puts = {.op = KVL_TRANSFER_PUT, .parts = parts, .part_count = 2};
    kvl_transfer_t gets = {.op = KVL_TRANSFER_GET, .parts = parts, .part_count = 2};
    kvl_transfer_t put = {.op = KVL_TRANSFER_PUT, .parts = &part, .part_count = 1};
    kvl_transfer_t get = {.op = KVL_TRANSFER_GET, .parts = &part, .part_count = 1};
    uint8_t blob[2048], forged[2048];
    size_t length = sizeof(blob), forged_length;
    kvl_region_blob_t in;
    kvl_remote_t *wrong;

    ends_open(rails, "message");
    REQUIRE(kvl_region_alloc(target, 4096, &secret) == KVL_OK); /* never exported */
    fill(kvl_region_address(secret), 4096, 5);
    REQUIRE(kvl_region_export(there, blob, &length) == KVL_OK);
    REQUIRE(kvl_get_region_blob(blob, length, &in) == KVL_OK);
    in.slices[0].length = 2 * BYTES; /* longer than it is */
    forged_length    = kvl_put_region_blob(forged, sizeof(forged), &in);
    REQUIRE(kvl_remote_import(peer, forged, forged_length, &wrong) == KVL_OK);
    part = (kvl_part_t){.local = {pool, 4096, here}, .remote = wrong, .remote_offset = BYTES - 8};
    CHECK_EQ(transfer(&put), KVL_ERR_RANGE);
    CHECK_EQ(transfer(&get), KVL_ERR_RANGE);
    parts[0] = (kvl_part_t){{pool, 100, here}, wrong, 0}; /* one of two ranges */
    parts[1] = (kvl_part_t){{pool + 100, 100, here}, wrong, BYTES - 8};
    fill(pool, 200, 6);
    memset(kvl_region_address(there), 0, 100);
    CHECK_EQ(transfer(&puts), KVL_ERR_RANGE);
    CHECK_EQ(*(uint64_t *)kvl_region_address(there), 0);
    CHECK_EQ(transfer(&gets), KVL_ERR_RANGE);
    CHECK_EQ(differs(pool, 200, 6), 200);
    kvl_remote_release(wrong);
    in.slices[0].id  = there == NULL ? 0 : in.slices[0].id + 2; /* the one that was not exported */
    forged_length = kvl_put_region_blob(forged, sizeof(forged), &in);
    REQUIRE(kvl_remote_import(peer, forged, forged_length, &wrong) == KVL_OK);
    part = (kvl_part_t){.local = {pool, 4096, here}, .remote = wrong};
    CHECK_EQ(transfer(&put), KVL_ERR_RANGE);
    CHECK_EQ(transfer(&get), KVL_ERR_RANGE);
    CHECK_EQ(differs(kvl_region_address(secret), 4096, 5), 4096);
    kvl_remote_release(wrong);
    part = (kvl_part_t){.local = {pool, 4096, here}, .remote = remote}; /* and the link still works */
    CHECK_EQ(transfer(&put), KVL_OK);
    CHECK_EQ(kvl_region_release(secret), KVL_OK);
    ends_close();
}

BOTH(transfer_cancel, ends_quiet_and_the_link_goes_on)
{
    kvl_part_t part;
    kvl_transfer_t put = {.op = KVL_TRANSFER_PUT, .parts = &part, .part_count = 1};
    unsigned i;

    ends_open(rails, "auto");
    part = (kvl_part_t){.local = {pool, BYTES, here}, .remote = remote};
    for (i = 0; i < 40; i++) { /* at once, and ever later into its ops */
        int64_t at = kvl_now_ns() + i * KVL_MS / 20;
        kvl_batch_t *batch;
        kvl_status_t status;

        REQUIRE(kvl_transfer_submit(peer, &put, NULL, &batch) == KVL_INPROGRESS);
        while (kvl_now_ns() < at) {
        }
        kvl_batch_cancel(batch);
        status = kvl_batch_wait(batch, -1);
        CHECK(status == KVL_ERR_CANCELED || status == KVL_OK);
        CHECK_EQ(kvl_batch_release(batch), KVL_OK);
    }
    fill(pool, BYTES, 77);
    CHECK_EQ(transfer(&put), KVL_OK);
    CHECK_EQ(differs(kvl_region_address(there), BYTES, 77), BYTES);
    ends_close();
}

BOTH(transfer_post, of_16384_parts_does_not_block_the_caller)
{
    enum { COUNT = 16384, LENGTH = 1000 };
    static kvl_part_t parts[COUNT];
    kvl_transfer_t put = {.op = KVL_TRANSFER_PUT, .parts = parts, .part_count = COUNT};
    kvl_batch_t *batch;
    long before;

    ends_open(rails, "auto");
    mirror(parts, COUNT, LENGTH);
    fill(pool, (size_t)COUNT * LENGTH, 3);

    before = kvl_live_objects();
    REQUIRE(kvl_transfer_submit(peer, &put, NULL, &batch) == KVL_INPROGRESS);
    CHECK(kvl_live_objects() - before < 200); /* blocks for the whole, not for each part */
    CHECK_EQ(kvl_batch_wait(batch, -1), KVL_OK);
    CHECK_EQ(kvl_batch_release(batch), KVL_OK);
    ends_close();
}

TEST(transfer_connect, to_a_node_or_to_nobody_says_so)
{
    stage_params_t params = {.rails = "tcp"};
    stage_t stage;
    kvl_peer_t *none;

    stage_open(&stage, &params);
    CHECK_EQ(kvl_connect(stage.engine, stage.address, 2000, &none), KVL_ERR_REFUSED);
    CHECK(strstr(kvl_error_text(), "refused") != NULL);
    CHECK_EQ(kvl_connect(stage.engine, "127.0.0.1:9", 2000, &none), KVL_ERR_UNREACHABLE);
    stage_close(&stage);
}
