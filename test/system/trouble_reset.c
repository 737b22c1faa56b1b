/* SPDX-License-Identifier: BSD-3-Clause */
#include "system/box.h"

#include <pthread.h>
#include <string.h>

/* Clients whose deadlines are too short for what they ask, over and over: each miss resets their connections
 * in the middle of large messages. The node and those who have time are none the worse for it. */

#define CLIENTS    4
#define VALUES     8
#define VALUE_SIZE (8u << 20)
#define MS         4000

typedef struct {
    box_client_t client;
    pthread_t thread;
    unsigned missed;
} hasty_t;

static box_node_t node;
static hasty_t hasty[CLIENTS];
static box_client_t patient;

TEARDOWN
{
    box_kill_all();
}

static void *hasty_main(void *arg)
{
    static const char *const keys[VALUES] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    hasty_t *self                         = arg;
    uint64_t state                        = (uint64_t)(self - hasty) + 1;
    int64_t end                           = box_now_ms() + MS;
    kvl_segment_t segments[VALUES];
    kvl_item_t items[VALUES];
    unsigned i;

    for (i = 0; i < VALUES; i++) {
        segments[i] = (kvl_segment_t){self->client.pool + (size_t)i * VALUE_SIZE, VALUE_SIZE, self->client.region};
        items[i]    = (kvl_item_t){.key = keys[i], .key_length = 1, .segments = &segments[i], .segment_count = 1};
    }
    while (box_now_ms() < end) {
        int64_t deadline = 1 + (int64_t)(box_random(&state) % 30);

        self->missed +=
            box_run(&self->client, KVL_CACHE_GET, items, VALUES, deadline, NULL) != KVL_OK;
    }
    return NULL;
}

static void hasty_values(box_client_t *client)
{
    char key[2] = "a";
    unsigned i;

    for (i = 0; i < VALUES; i++, key[0]++) {
        CHECK_EQ(box_put(client, key, VALUE_SIZE), KVL_OK);
    }
}

static void resets_on(const char *rails)
{
    unsigned i, missed = 0;
    int64_t end;

    box_node_set(&node, rails, "256M", NULL);
    box_node_start(&node);
    box_client_open(&patient, node.address, VALUE_SIZE, node.settings);
    hasty_values(&patient);
    for (i = 0; i < CLIENTS; i++) {
        hasty[i].missed = 0;
        box_client_open(&hasty[i].client, node.address, (size_t)VALUES * VALUE_SIZE, node.settings);
    }
    for (i = 0; i < CLIENTS; i++) {
        REQUIRE(pthread_create(&hasty[i].thread, NULL, hasty_main, &hasty[i]) == 0);
    }
    for (end = box_now_ms() + MS; box_now_ms() < end;) {
        CHECK_EQ(box_put(&patient, "mine", 100000), KVL_OK);
        CHECK_EQ(box_get(&patient, "mine", 100000), KVL_OK);
    }
    for (i = 0; i < CLIENTS; i++) {
        pthread_join(hasty[i].thread, NULL);
        missed += hasty[i].missed;
        box_client_close(&hasty[i].client);
    }
    CHECK(missed > CLIENTS);
    CHECK(box_runs(&node.child));
    box_until_quiet(&patient, 1, 20000);
    box_client_close(&patient);
    box_node_end(&node);
}

TEST(trouble_reset, of_connections_in_mid_message_is_survived_by_the_node_over_tcp)
{
    resets_on("tcp");
}

TEST(trouble_reset, of_connections_in_mid_message_is_survived_by_the_node_over_shared_memory)
{
    resets_on("shm");
}
