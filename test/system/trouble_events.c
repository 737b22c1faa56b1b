/* SPDX-License-Identifier: BSD-3-Clause */
#include "system/box.h"

#include <pthread.h>
#include <unistd.h>

/* Clients come and go all the time, and each socket's number is soon another one's, while UCX is slow to let go
 * of it (test/fake/wide.c). Events of one connection must not meet the next one (ucx/events.c). */

#define CLIENTS 6
#define VISITS  40

static box_node_t node;

TEARDOWN
{
    box_kill_all();
}

static void *visitor_main(void *arg)
{
    box_client_t client;
    unsigned i;

    for (i = 0; i < VISITS && box_runs(&node.child); i++) {
        box_client_open(&client, node.address, 4096, arg);
        CHECK_EQ(box_put(&client, "key", 4096), KVL_OK);
        box_client_close(&client);
    }
    return NULL;
}

static void visits_on(const char *rails)
{
    const char *preload             = shim_built(".libs/libwide.so");
    const box_setting_t settings[2] = {{"LD_PRELOAD", preload}};
    pthread_t threads[CLIENTS];
    unsigned i;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    SKIP("nothing can be loaded before a sanitizer");
#endif
    REQUIRE(access(preload, R_OK) == 0);
    box_node_set(&node, rails, "64M", settings);
    box_node_start(&node);
    for (i = 0; i < CLIENTS; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, visitor_main, NULL) == 0);
    }
    for (i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK(box_runs(&node.child));
    box_node_end(&node);
}

TEST(trouble_events, of_a_connection_meet_no_other_one_over_tcp)
{
    visits_on("tcp");
}

TEST(trouble_events, of_a_connection_meet_no_other_one_over_shared_memory)
{
    visits_on("shm");
}
