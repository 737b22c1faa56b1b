/* SPDX-License-Identifier: BSD-3-Clause */
#include "system/box.h"
#include "system/interpose.h"

#include <stdlib.h>
#include <string.h>

/* Many items of 1 byte to 8 MiB through one client and one node, every byte known: after a warm-up neither
 * process takes more memory or files, and neither registers anything at all. KVLANE_TEST_ITEMS: how many;
 * test/system/soak runs it long. */

#define ITEMS     20000
#define REPORTS   20
#define WARM      6 /* reports */
#define GROWTH    (8u << 20)
#define REPORT_MS 900000

TEARDOWN
{
    box_kill_all();
}

typedef struct {
    box_node_t node;
    box_child_t client;
    box_usage_t warm[2], now[2]; /* client, node */
} scene_t;

static scene_t scene;

static void start(const char *rails, const interpose_t *interpose, unsigned items)
{
    const box_setting_t settings[] = {interpose->settings[0], interpose->settings[1], {NULL, NULL}};
    char count[16];
    const char *argv[] = {shim_built("system_client"), "soak", scene.node.address, count, NULL};

    scene = (scene_t){.node.child.pid = 0};
    box_node_set(&scene.node, rails, "512M", settings);
    box_node_start(&scene.node);
    snprintf(count, sizeof(count), "%u", items);
    box_spawn(&scene.client, argv, scene.node.settings);
}

static void watch(const char *rails)
{
    char line[256] = "";
    unsigned i;

    for (i = 0; i < REPORTS; i++) {
        if (!box_line(&scene.client, line, sizeof(line), REPORT_MS)) {
            box_hold();
            CHECK_MSG(false, "it says no more after: %s; see system_children.log", line);
            return;
        }
        scene.now[0] = box_usage(scene.client.pid);
        scene.now[1] = box_usage(scene.node.child.pid);
        if (i + 1 == WARM) {
            memcpy(scene.warm, scene.now, sizeof(scene.warm));
        }
        printf("%s: %s; client %llu (all %llu) KiB %u files, node %llu (all %llu) KiB %u files\n",
               rails, line, (unsigned long long)scene.now[0].own_bytes >> 10,
               (unsigned long long)scene.now[0].rss_bytes >> 10, scene.now[0].fds,
               (unsigned long long)scene.now[1].own_bytes >> 10,
               (unsigned long long)scene.now[1].rss_bytes >> 10, scene.now[1].fds);
    }
}

static void check_flat(const char *who, const box_usage_t *warm, const box_usage_t *now)
{
    CHECK_MSG(now->fds <= warm->fds, "the %s's files grew from %u to %u", who, warm->fds, now->fds);
    CHECK_MSG(now->own_bytes <= warm->own_bytes + GROWTH, "the %s grew from %llu to %llu KiB", who,
              (unsigned long long)warm->own_bytes >> 10, (unsigned long long)now->own_bytes >> 10);
}

static void soak(const char *rails)
{
    unsigned items = box_number("KVLANE_TEST_ITEMS", ITEMS);
    interpose_t interpose;
    size_t i;

    interpose_open(&interpose);
    start(rails, &interpose, items);
    watch(rails);
    CHECK_EQ(box_wait(&scene.client, 30000), 0);
    box_node_end(&scene.node);
    check_flat("client", &scene.warm[0], &scene.now[0]); /* it maps the node's memory bit by bit */
    check_flat("node", &scene.warm[1], &scene.now[1]);
    CHECK(scene.now[1].rss_bytes <= scene.warm[1].rss_bytes + GROWTH);
    interpose_read(&interpose);
    CHECK_EQ(interpose.count, 2);
    /* the region, the self-test's, the node's memory */
    for (i = 0; i < interpose.count; i++) {
        json_int_t mems = interpose_count(interpose.reports[i], "mems", "total");

        printf("%s: %lld registrations in all\n", rails, (long long)mems);
        CHECK(mems <= 4);
        interpose_check_end(interpose.reports[i]);
    }
    interpose_close(&interpose);
}

TEST(soak_items, of_all_lengths_leave_no_trace_over_tcp)
{
    soak("tcp");
}

TEST(soak_items, of_all_lengths_leave_no_trace_over_shared_memory)
{
    soak("shm");
}
