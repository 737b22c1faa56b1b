/* SPDX-License-Identifier: BSD-3-Clause */
#include "conform/stage.h"

#include "engine/numa.h"

#include <numaif.h>
#include <string.h>

/* KVLANE_NUMA_NODE on this machine, which has at least node 0 or does not tell. */

#define MIB (1u << 20)

static bool has_policies(void)
{
    kvl_numa_t before;
    bool has = kvl_numa_enter(&before, 0);

    kvl_numa_leave(&before);
    return has;
}

/* of the range that holds @a address, or of this thread; and is node 0 alone in it? */
static int policy(void *address, bool *zero_p)
{
    unsigned long nodes[KVL_NUMA_WORDS] = {0};
    int mode                            = -1;

    CHECK_EQ(get_mempolicy(&mode, nodes, 8 * sizeof(nodes), address, address ? MPOL_F_ADDR : 0), 0);
    *zero_p = nodes[0] == 1;
    return mode;
}

static void bound(const char *rails, const char *slice)
{
    stage_t stage = {.params = {.rails    = rails,
                                .settings = {{"KVLANE_NUMA_NODE", "0"}, {"KVLANE_REG_SLICE", slice}}}};
    kvl_engine_t *engine;
    kvl_region_t *region;
    uint8_t *memory;
    bool zero;
    int mine;

    if (!has_policies()) {
        SKIP("the system lets nobody choose nodes");
    }
    engine = stage_engine(&stage, NULL);
    mine   = policy(NULL, &zero);
    REQUIRE(kvl_region_alloc(engine, 9 * MIB, &region) == KVL_OK);
    memory = kvl_region_address(region);
    CHECK_EQ(policy(memory, &zero), MPOL_PREFERRED);
    CHECK(zero);
    CHECK_EQ(policy(memory + 9 * MIB - 1, &zero), MPOL_PREFERRED);
    CHECK(zero);
    CHECK_EQ(policy(NULL, &zero), mine); /* the thread is as before */
    fill(memory, 9 * MIB, 1);
    CHECK_EQ(differs(memory, 9 * MIB, 1), 9 * MIB);
    CHECK_EQ(kvl_region_release(region), KVL_OK);
    kvl_engine_destroy(engine);
}

BOTH(numa_node, is_where_allocated_memory_is_bound)
{
    bound(rails, "3584M");
    bound(rails, "2M");
}

TEST(numa_node, that_is_not_there_is_an_error)
{
    stage_params_t params      = {.rails = "tcp", .settings = {{"KVLANE_NUMA_NODE", "999"}}};
    kvl_config_t *config       = stage_config(&params, NULL);
    kvl_engine_params_t engine = {.config = config};
    kvl_engine_t *none         = NULL;

    CHECK_EQ(kvl_engine_create(&engine, &none), KVL_ERR_CONFIG);
    CHECK(none == NULL && strstr(kvl_error_text(), "KVLANE_NUMA_NODE=999"));
    kvl_config_destroy(config);
}
