/* SPDX-License-Identifier: BSD-3-Clause */
#include "conform/scene.h"

#include "lane/endpoint.h"

#include <string.h>

/* Leases of others, of before and of nobody, in requests and in data ops; bytes that lie outside, come
 * twice, too late or never. */

/* ---- requests ---- */

BOTH(node_commit, refuses_leases_that_are_not_the_clients)
{
    kvl_wire_lease_t lease, lie, read;
    uint64_t length;
    scene_t scene;
    raw_t other;

    scene_open(&scene, rails);
    raw_open(&other, rails, scene.stage.address);
    raw_login(&scene.raw);
    raw_login(&other);
    lease = raw_reserve(&scene.raw, "k", 5000).lease;
    CHECK_EQ(raw_commit(&other, &lease, 5000, 0), KVL_ERR_LEASE);
    has_counted(&scene);
    lie = lease;
    lie.generation ^= 1;
    CHECK_EQ(raw_commit(&scene.raw, &lie, 5000, 0), KVL_ERR_LEASE);
    has_counted(&scene);
    lie    = lease;
    lie.id = 0;
    CHECK_EQ(raw_commit(&scene.raw, &lie, 5000, 0), KVL_ERR_LEASE);
    has_counted(&scene);
    lie.id = UINT64_MAX;
    CHECK_EQ(raw_commit(&scene.raw, &lie, 5000, 0), KVL_ERR_LEASE);
    has_counted(&scene);
    raw_give_back(&other, KVL_MSG_ABORT, &lease);
    has_counted(&scene);
    raw_give_back(&other, KVL_MSG_RELEASE, &lease);
    has_counted(&scene);
    raw_give_back(&scene.raw, KVL_MSG_RELEASE, &lease); /* it is no read lease */
    has_counted(&scene);
    CHECK_EQ(raw_exists(&other, "k", &length), KVL_ERR_NOT_FOUND);
    CHECK_EQ(raw_commit(&scene.raw, &lease, 5000, 0), KVL_OK); /* after all that it stands */
    CHECK_EQ(raw_commit(&scene.raw, &lease, 5000, 0), KVL_ERR_LEASE);
    has_counted(&scene);
    CHECK_EQ(raw_exists(&other, "k", &length), KVL_OK);
    CHECK_EQ(length, 5000);

    read = raw_lookup(&other, "k").lease;
    CHECK_EQ(raw_commit(&other, &read, 5000, 0), KVL_ERR_LEASE); /* a read lease */
    has_counted(&scene);
    raw_give_back(&scene.raw, KVL_MSG_RELEASE, &read);
    has_counted(&scene);
    raw_give_back(&other, KVL_MSG_RELEASE, &read);
    raw_sync(&other);
    CHECK_EQ(scene_stat(&scene).leases, 0);
    serves_others(&scene);
    raw_close(&other);
    scene_close(&scene);
}

BOTH(node_commit, refuses_a_length_that_was_not_reserved)
{
    kvl_wire_lease_t lease;
    uint64_t length;
    scene_t scene;

    scene_open(&scene, rails);
    raw_login(&scene.raw);
    lease = raw_reserve(&scene.raw, "k", 5000).lease;
    CHECK_EQ(raw_commit(&scene.raw, &lease, 5001, 0), KVL_ERR_LENGTH);
    CHECK_EQ(raw_exists(&scene.raw, "k", &length), KVL_ERR_NOT_FOUND);
    CHECK_EQ(scene_stat(&scene).leases, 0);
    serves_others(&scene);
    scene_close(&scene);
}

/* ---- data ops ---- */

static kvl_data_head_t put_head(const kvl_wire_lease_t *lease, uint64_t offset, uint64_t length)
{
    return (kvl_data_head_t){.kind       = KVL_AM_PUT,
                             .op         = 1,
                             .token      = lease->id,
                             .generation = lease->generation,
                             .offset     = offset,
                             .length     = length};
}

BOTH(node_put, drops_what_is_not_the_clients_or_lies_outside)
{
    uint8_t poison[3000], good[5000];
    kvl_wire_lease_t lease, lie;
    kvl_data_head_t head;
    raw_message_t *reply;
    kvl_found_t found;
    scene_t scene;
    raw_t other;

    memset(poison, 0xee, sizeof(poison));
    fill(good, sizeof(good), 3);
    scene_open(&scene, rails);
    raw_open(&other, rails, scene.stage.address);
    raw_login(&scene.raw);
    raw_bind(&scene.raw, KVL_LANE_DATA);
    raw_login(&other);
    raw_bind(&other, KVL_LANE_DATA);
    lease = raw_reserve(&scene.raw, "k", 5000).lease;

    head = put_head(&lease, 0, 3000); /* of another session */
    raw_data(&other, KVL_LANE_DATA, &head, poison, 3000);
    has_counted(&scene);
    lie = lease;
    lie.generation++;
    head = put_head(&lie, 0, 3000);
    raw_data(&scene.raw, KVL_LANE_DATA, &head, poison, 3000);
    has_counted(&scene);
    lie = lease;
    lie.id ^= UINT64_C(1) << 40;
    head = put_head(&lie, 0, 3000);
    raw_data(&scene.raw, KVL_LANE_DATA, &head, poison, 3000);
    has_counted(&scene);
    head = put_head(&lease, 0, 3000); /* by region, where only the scratch may be reached so */
    head.scope  = 1;
    head.token  = scene.raw.region.id;
    head.offset = lease.offset;
    raw_data(&scene.raw, KVL_LANE_DATA, &head, poison, 3000);
    has_counted(&scene);

    /* the honest bytes: nothing of the above is in them */
    head = put_head(&lease, 0, 5000);
    raw_data(&scene.raw, KVL_LANE_DATA, &head, good, 5000);
    CHECK_EQ(raw_commit(&scene.raw, &lease, 5000, 1), KVL_OK);
    found = raw_lookup(&scene.raw, "k");
    CHECK_EQ(found.length, 5000);
    head      = put_head(&found.lease, 0, 5000);
    head.kind = KVL_AM_GET;
    CHECK_EQ(raw_get(&scene.raw, KVL_LANE_DATA, &head, &reply), KVL_OK);
    CHECK_EQ(differs(reply->data, 5000, 3), 5000);
    serves_others(&scene);
    raw_close(&other);
    scene_close(&scene);
}

BOTH(node_put, spoils_the_value_if_its_bytes_lie_outside_or_come_twice)
{
    static const struct {
        uint64_t offset, length;
    } lies[] = {{2001, 3000}, {5000, 1}, {UINT64_MAX - 1, 1}, {UINT64_MAX - 3000, 3000}, {0, 3000}};
    uint8_t poison[3000] = {0xee};
    kvl_wire_lease_t lease;
    kvl_data_head_t head;
    uint64_t length;
    scene_t scene;
    size_t i;

    scene_open(&scene, rails);
    raw_login(&scene.raw);
    raw_bind(&scene.raw, KVL_LANE_DATA);
    for (i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        lease = raw_reserve(&scene.raw, "k", 5000).lease;
        head  = put_head(&lease, 0, 3000);
        raw_data(&scene.raw, KVL_LANE_DATA, &head, poison, 3000);
        head = put_head(&lease, lies[i].offset, lies[i].length);
        raw_data(&scene.raw, KVL_LANE_DATA, &head, poison, lies[i].length);
        has_counted(&scene);
        CHECK_EQ(raw_commit(&scene.raw, &lease, 5000, 2), KVL_ERR_RANGE);
        CHECK_EQ(raw_exists(&scene.raw, "k", &length), KVL_ERR_NOT_FOUND);
    }
    CHECK_EQ(scene_stat(&scene).leases, 0);
    serves_others(&scene);
    scene_close(&scene);
}

BOTH(node_put, throws_out_heads_that_contradict_themselves)
{
    uint8_t bytes[100] = {1};
    kvl_wire_lease_t lease;
    kvl_data_head_t head;
    scene_t scene;
    unsigned i;

    scene_open(&scene, rails);
    for (i = 0; i < 6; i++) {
        raw_login(&scene.raw);
        raw_bind(&scene.raw, KVL_LANE_DATA);
        lease = raw_reserve(&scene.raw, "k", 5000).lease;
        head  = put_head(&lease, 0, 100);
        switch (i) {
        case 0:
            head.length = 99; /* brings more than it says */
            break;
        case 1:
            head.length = 0;
            break;
        case 2:
            head.length = UINT64_MAX;
            break;
        case 3:
            head.offset = UINT64_MAX - 10; /* wraps */
            break;
        case 4:
            head.scope = 7;
            break;
        default: /* asks for more than an op may have */
            head.kind   = KVL_AM_GET;
            head.length = (8 << 20) + 1;
            break;
        }
        raw_data(&scene.raw, KVL_LANE_DATA, &head, bytes, head.kind == KVL_AM_PUT ? 100 : 0);
        is_thrown_out(&scene);
        scene_again(&scene);
    }
    scene_close(&scene);
}

BOTH(node_get, refuses_what_is_not_the_clients_or_lies_outside)
{
    kvl_wire_lease_t lease, write;
    kvl_data_head_t head;
    raw_message_t *reply;
    scene_t scene;
    raw_t other;

    scene_open(&scene, rails);
    serves_others(&scene); /* stores "honest", 20000 bytes */
    raw_open(&other, rails, scene.stage.address);
    raw_login(&scene.raw);
    raw_bind(&scene.raw, KVL_LANE_DATA);
    raw_login(&other);
    raw_bind(&other, KVL_LANE_DATA);
    lease = raw_lookup(&other, "honest").lease;

    head      = put_head(&lease, 0, 1000);
    head.kind = KVL_AM_GET;
    CHECK_EQ(raw_get(&scene.raw, KVL_LANE_DATA, &head, &reply), KVL_ERR_LEASE);
    CHECK_EQ(reply->length, 0);
    has_counted(&scene);
    CHECK_EQ(raw_get(&other, KVL_LANE_DATA, &head, &reply), KVL_OK);
    CHECK_EQ(differs(reply->data, 1000, 42), 1000);
    head.offset = 19001;
    CHECK_EQ(raw_get(&other, KVL_LANE_DATA, &head, &reply), KVL_ERR_RANGE);
    has_counted(&scene);
    head.offset = UINT64_MAX - 1000;
    CHECK_EQ(raw_get(&other, KVL_LANE_DATA, &head, &reply), KVL_ERR_RANGE);
    has_counted(&scene);
    head.offset = 0;
    head.length = 8 << 20; /* the longest op */
    CHECK_EQ(raw_get(&other, KVL_LANE_DATA, &head, &reply), KVL_ERR_RANGE);
    has_counted(&scene);
    head.length = 1000;
    head.generation++;
    CHECK_EQ(raw_get(&other, KVL_LANE_DATA, &head, &reply), KVL_ERR_LEASE);
    has_counted(&scene);
    head.scope  = 1; /* by region: the memory of others */
    head.token  = other.region.id;
    head.offset = 0;
    CHECK(raw_get(&other, KVL_LANE_DATA, &head, &reply) != KVL_OK);
    CHECK_EQ(reply->length, 0);
    has_counted(&scene);
    write     = raw_reserve(&other, "w", 5000).lease; /* what lay there before is not for him */
    head      = put_head(&write, 0, 1000);
    head.kind = KVL_AM_GET;
    CHECK_EQ(raw_get(&other, KVL_LANE_DATA, &head, &reply), KVL_ERR_LEASE);
    has_counted(&scene);
    serves_others(&scene);
    raw_close(&other);
    scene_close(&scene);
}

BOTH(node_commit, waits_for_bytes_that_it_overtook)
{
    uint8_t good[5000];
    kvl_wire_lease_t lease;
    kvl_data_head_t head;
    kvl_commit_t commit;
    raw_message_t *message;
    kvl_answer_t answer;
    uint64_t request, length;
    scene_t scene;

    fill(good, sizeof(good), 3);
    scene_open(&scene, rails);
    raw_login(&scene.raw);
    raw_bind(&scene.raw, KVL_LANE_DATA);
    lease  = raw_reserve(&scene.raw, "k", 5000).lease;
    commit = (kvl_commit_t){
        .index = 4, .lease = lease.id, .generation = lease.generation, .length = 5000, .ops = 2};
    kvl_put_commit(raw_begin(&scene.raw), &commit);
    request = raw_send(&scene.raw, KVL_MSG_COMMIT);
    CHECK_EQ(raw_exists(&scene.raw, "k", &length), KVL_ERR_NOT_FOUND); /* and no answer yet */
    head = put_head(&lease, 2000, 3000);
    raw_data(&scene.raw, KVL_LANE_DATA, &head, good + 2000, 3000);
    CHECK_EQ(raw_exists(&scene.raw, "k", &length), KVL_ERR_NOT_FOUND);
    head = put_head(&lease, 0, 2000);
    raw_data(&scene.raw, KVL_LANE_DATA, &head, good, 2000);
    message = raw_answer(&scene.raw, KVL_MSG_COMMITTED, request);
    REQUIRE(kvl_get_answer(&message->body, &answer) == KVL_OK);
    CHECK_EQ(answer.index, 4);
    CHECK_EQ(answer.status, KVL_OK);
    CHECK_EQ(raw_exists(&scene.raw, "k", &length), KVL_OK);
    scene_close(&scene);
}

BOTH(node_session, gives_the_leases_of_a_dead_client_back)
{
    uint64_t used;
    int64_t end = kvl_now_ns() + 20 * KVL_SECOND;
    scene_t scene;
    unsigned i;

    scene_open(&scene, rails);
    serves_others(&scene);
    used = scene_stat(&scene).bytes_used;
    raw_login(&scene.raw);
    raw_bind(&scene.raw, KVL_LANE_DATA);
    for (i = 0; i < 50; i++) {
        raw_reserve(&scene.raw, "k", 100000);
        raw_lookup(&scene.raw, "honest");
    }
    CHECK_EQ(scene_stat(&scene).leases, 100);
    CHECK(scene_stat(&scene).bytes_used > used + 50 * 100000);
    scene_again(&scene); /* without a goodbye */
    /* this process lives: over shared memory its slots may stay in quarantine, but counted */
    while ((scene_stat(&scene).sessions > 1 ||
            (scene_stat(&scene).leases && !scene_stat(&scene).quarantined_slots)) &&
           kvl_now_ns() < end) {
        raw_step(&scene.raw, 1);
    }
    CHECK_EQ(scene_stat(&scene).sessions, 1);
    if (strcmp(rails, "tcp") == 0) {
        CHECK_EQ(scene_stat(&scene).leases, 0);
        CHECK_EQ(scene_stat(&scene).bytes_used, used);
        CHECK_EQ(scene_stat(&scene).quarantined_slots, 0);
    } else if (scene_stat(&scene).leases) {
        CHECK_EQ(scene_stat(&scene).quarantined_slots, 50);
    }
    serves_others(&scene);
    scene_close(&scene);
}
