/* SPDX-License-Identifier: BSD-3-Clause */
#include "system/box.h"
#include "system/interpose.h"

#include <stdlib.h>
#include <string.h>

/* Nothing on the data path registers or connects: a client and its node register as often, and make as many
 * endpoints and keys, for a handful of batches as for very many. KVLANE_TEST_BATCHES: how many (the
 * promise is tested with 100000). */

#define FEW    30
#define MANY   20000
#define SLICES (5 + 16 + 1) /* of 2 MiB: of the client's 9 MiB; of the node's 30 and of its self-tests' 2 */

TEARDOWN
{
    box_kill_all();
}

typedef struct {
    json_int_t mems, rkeys, endpoints;
} made_t;

static made_t made_by(const json_t *report)
{
    return (made_t){.mems      = interpose_count(report, "mems", "total"),
                    .rkeys     = interpose_count(report, "rkeys", "total"),
                    .endpoints = (json_int_t)json_array_size(json_object_get(report, "endpoints"))};
}

/* what client and node made for @a batches */
static made_t made_for(const char *rails, unsigned batches)
{
    interpose_t interpose;
    box_node_t node   = {.child.pid = 0};
    box_child_t child = {.pid = 0};
    made_t sum        = {0, 0, 0};
    char count[16];
    size_t i;

    interpose_open(&interpose);
    {
        const box_setting_t settings[] = {
            interpose.settings[0], interpose.settings[1], {"KVLANE_REG_SLICE", "2M"}, {NULL, NULL}};
        const char *argv[] = {shim_built("system_client"), "warm", node.address, count, NULL};

        box_node_set(&node, rails, "32M", settings);
        box_node_start(&node);
        snprintf(count, sizeof(count), "%u", batches);
        box_spawn(&child, argv, node.settings);
        CHECK_EQ(box_wait(&child, 600000), 0);
        box_node_end(&node);
    }
    interpose_read(&interpose);
    CHECK_EQ(interpose.count, 2);
    for (i = 0; i < interpose.count; i++) {
        made_t made = made_by(interpose.reports[i]);

        sum.mems += made.mems;
        sum.rkeys += made.rkeys;
        sum.endpoints += made.endpoints;
        interpose_check_end(interpose.reports[i]);
    }
    interpose_close(&interpose);
    return sum;
}

static void warm(const char *rails)
{
    unsigned batches = box_number("KVLANE_TEST_BATCHES", MANY);
    made_t few       = made_for(rails, FEW);
    made_t many      = made_for(rails, batches);

    printf("%s: %lld registrations, %lld keys, %lld endpoints for %u batches and for %u\n", rails,
           (long long)few.mems, (long long)few.rkeys, (long long)few.endpoints, FEW, batches);
    CHECK(few.mems >= SLICES && few.mems <= SLICES + 2); /* and the client's self-test */
    CHECK_EQ(few.mems, many.mems);
    CHECK_EQ(few.rkeys, many.rkeys);
    CHECK_EQ(few.endpoints, many.endpoints);
}

TEST(warm_batches, register_and_connect_nothing_over_tcp)
{
    warm("tcp");
}

TEST(warm_batches, register_and_connect_nothing_over_shared_memory)
{
    warm("shm");
}
