/* SPDX-License-Identifier: BSD-3-Clause */
#include "system/box.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Depth: with 2 ms in each op's completion, a batch takes as many rounds of 2 ms as its ops need at that
 * depth. The best of some runs counts: a busy machine makes runs longer, never shorter. */

#define ITEMS   480
#define LENGTH  8192
#define SLOW    3  /* runs with the delay, and ... */
#define FAST    40 /* ... without: the first ones meet memory that is not mapped yet */
#define SEGMENT (LENGTH / 2)

TEARDOWN
{
    box_kill_all();
}

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

typedef struct {
    box_client_t client;
    kvl_segment_t segments[ITEMS][2];
    kvl_item_t items[ITEMS];
    char keys[ITEMS][16];
} scene_t;

static scene_t scene;

/* one segment, or two with a gap that are packed or sent as one op */
static void set_items(size_t segments)
{
    size_t i;

    for (i = 0; i < ITEMS; i++) {
        uint8_t *memory = scene.client.pool + i * 2 * LENGTH;

        scene.segments[i][0] = (kvl_segment_t){.address = memory, .length = LENGTH / segments};
        scene.segments[i][1] = (kvl_segment_t){.address = memory + LENGTH, .length = SEGMENT};
        snprintf(scene.keys[i], sizeof(scene.keys[i]), "d%zu", i);
        scene.items[i] =
            (kvl_item_t){scene.keys[i], strlen(scene.keys[i]), scene.segments[i], segments};
    }
}

/* The shortest time of a put of all items, or of a get. */
static double best(const char *address, const char *rails, const char *fault, const char *depth,
                   bool put)
{
    const box_setting_t settings[] = {{"KVLANE_RAILS", rails}, {"KVLANE_FAULT", fault},
                                      {"KVLANE_DEPTH", depth}, {"KVLANE_SG_ENDPOINTS", "16"},
                                      {"KVLANE_SG", "always"}, {NULL, NULL}};
    double least                   = 1e9;
    unsigned i;

    box_client_open(&scene.client, address, (size_t)ITEMS * 2 * LENGTH, settings);
    set_items(1);
    CHECK_EQ(box_run(&scene.client, KVL_CACHE_PUT, scene.items, ITEMS, 20000, NULL), KVL_OK);
    for (i = 0; i < (fault[0] ? SLOW : FAST); i++) {
        double start = now_s(), took;

        CHECK_EQ(box_run(&scene.client, put ? KVL_CACHE_PUT : KVL_CACHE_GET, scene.items, ITEMS,
                         20000, NULL),
                 KVL_OK);
        took  = now_s() - start;
        least = took < least ? took : least;
    }
    box_client_close(&scene.client);
    return least;
}

static void depths(const char *rails, bool put)
{
    static const box_setting_t settings[] = {
        {"KVLANE_DEPTH", "16"}, {"KVLANE_SG_ENDPOINTS", "16"}, {NULL, NULL}};
    static const char *const fault = "ep.complete:delay=2ms";
    double slow1, slow4, slow16, fast1, fast4, fast16;
    box_node_t node;

    box_node_set(&node, rails, "64M", settings);
    box_node_start(&node);
    slow1  = best(node.address, rails, fault, "1", put);
    slow4  = best(node.address, rails, fault, "4", put);
    slow16 = best(node.address, rails, fault, "16", put);
    fast1  = best(node.address, rails, "", "1", put);
    fast4  = best(node.address, rails, "", "4", put);
    fast16 = best(node.address, rails, "", "16", put);
    printf(
        "%s %s: 2 ms an op: %.0f ms; depth 4: %.2f x, depth 16: %.2f x; without: %.1f ms; %.2f x, "
        "%.2f x\n",
        rails, put ? "put" : "get", slow1 * 1e3, slow1 / slow4, slow1 / slow16, fast1 * 1e3,
        fast1 / fast4, fast1 / fast16);
    CHECK_MSG(slow1 >= ITEMS * 0.002, "%d ops of 2 ms took %.0f ms", ITEMS, slow1 * 1e3);
    CHECK_MSG(slow1 >= 2 * slow4, "depth 4 is %.2f times depth 1", slow1 / slow4);
    CHECK_MSG(slow1 >= 4 * slow16, "depth 16 is %.2f times depth 1", slow1 / slow16);
    if (getenv("KVLANE_TEST_TIMES")) { /* acceptance, on a quiet machine; else the figures are printed */
        CHECK_MSG(slow1 >= 3.8 * slow4, "depth 4 is %.2f times depth 1", slow1 / slow4);
        CHECK_MSG(slow1 >= 14 * slow16, "depth 16 is %.2f times depth 1", slow1 / slow16);
        CHECK_MSG(fast4 <= 1.1 * fast1, "depth 4 takes %.2f times depth 1", fast4 / fast1);
        CHECK_MSG(fast16 <= 1.1 * fast1, "depth 16 takes %.2f times depth 1", fast16 / fast1);
    }
    box_node_end(&node);
}

TEST(depth_rounds, grow_with_it_in_puts_over_tcp)
{
    depths("tcp", true);
}

TEST(depth_rounds, grow_with_it_in_gets_over_tcp)
{
    depths("tcp", false);
}

TEST(depth_rounds, grow_with_it_in_puts_over_shared_memory)
{
    depths("shm", true);
}

TEST(depth_rounds, grow_with_it_in_gets_over_shared_memory)
{
    depths("shm", false);
}
