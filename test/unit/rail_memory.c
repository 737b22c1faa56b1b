/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/shim.h"

#include "rail/place.h"

#include <kvlane/status.h>

#include <string.h>

/* KVLANE_NUMA_NODE over tables of 0, 1 and 2 nodes */

static kvl_rail_table_t *table_of(unsigned nodes)
{
    kvl_rail_table_t *table;
    unsigned i;

    REQUIRE(kvl_rail_table_create(&table) == KVL_OK);
    for (i = 0; i < nodes; i++) {
        kvl_numa_node_t node = {.node = 2 * i}; /* 0 and 2: numbers may have gaps */

        REQUIRE(kvl_rail_table_add_node(table, &node) == KVL_OK);
    }
    return table;
}

typedef struct {
    const char *setting;
    unsigned nodes;   /* of the machine */
    int process;      /* -1: all over */
    int rails[2];     /* their nodes, -1: unknown */
    size_t rail_count;
    int node;         /* expected; -2: an error */
} row_t;

TEST(place_memory, follows_the_setting_the_process_and_the_rails)
{
    static const row_t rows[] = {
        {"auto", 2, -1, {2, 2}, 2, 2},
        {"auto", 2, -1, {0, 2}, 2, -1},  /* rails on both */
        {"auto", 2, -1, {2, -1}, 2, -1}, /* nobody knows of one */
        {"auto", 2, -1, {-1}, 1, -1},
        {"auto", 2, -1, {2}, 1, 2},
        {"auto", 2, 0, {2, 2}, 2, 0}, /* who bound the process has said so */
        {"auto", 2, -1, {0}, 0, -1},  /* no rails: shared memory alone */
        {"auto", 2, -1, {5}, 1, -1},  /* a node that the table does not have */
        {"auto", 1, -1, {0}, 1, -1},  /* one node: nothing to choose */
        {"auto", 0, -1, {0}, 1, -1},
        {"off", 2, 0, {2, 2}, 2, -1},
        {"0", 2, 2, {2, 2}, 2, 0},
        {"2", 2, -1, {0}, 1, 2},
        {"0", 1, -1, {0}, 0, 0}, /* of one node as well, when asked for */
        {"1", 2, -1, {0}, 1, -2},
        {"0", 0, -1, {0}, 1, -2},
        {"2x", 2, -1, {0}, 1, -2},
        {"-0", 2, -1, {0}, 1, -2},
        {"", 2, -1, {0}, 1, -2},
        {"99999999999999999999", 2, -1, {0}, 1, -2},
    };
    size_t i, k;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const row_t *row        = &rows[i];
        kvl_rail_table_t *table = table_of(row->nodes);
        kvl_place_t process     = {.kind = row->process < 0 ? KVL_PLACE_ANY : KVL_PLACE_NODE, .node = row->process};
        kvl_rail_t rails[2]     = {{.numa = row->rails[0]}, {.numa = row->rails[1]}};
        const kvl_rail_t *used[2];
        int node = -7;
        kvl_status_t status;

        for (k = 0; k < 2; k++) {
            used[k] = &rails[k];
        }
        status = kvl_place_memory(table, row->setting, &process, used, row->rail_count, &node);
        CHECK_MSG(status == (row->node == -2 ? KVL_ERR_CONFIG : KVL_OK), "row %zu: %s", i, kvl_status_name(status));
        CHECK_MSG(node == (row->node == -2 ? -7 : row->node), "row %zu: node %d", i, node);
        kvl_rail_table_destroy(table);
    }
}

TEST(place_memory, names_the_nodes_that_there_are)
{
    kvl_rail_table_t *table = table_of(2);
    kvl_place_t process     = {.kind = KVL_PLACE_ANY};
    int node;

    CHECK_EQ(kvl_place_memory(table, "1", &process, NULL, 0, &node), KVL_ERR_CONFIG);
    CHECK_STR_EQ(kvl_error_text(), "KVLANE_NUMA_NODE=1: no such node; accepted: auto, off, 0, 2");
    kvl_rail_table_destroy(table);
}
