/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/rail_machine.h"

#include "shim/shim.h"

#include <stdlib.h>
#include <string.h>

/* Tables and settings by chance: nothing crashes, the same gives the same, and what must hold of every
 * decision holds. */

#define ROUNDS 4000

static uint64_t state;

static uint64_t next(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static const char *const names[] = {"mlx5_0:1", "mlx5_0:2", "mlx5_10:1", "mlx5_2:1", "eth0",
                                    "eth1",     "eth10",    "bond0",     "lo",       "a",
                                    "mlx5_0",   "eth0:1",   "x.y-z_9",   "ib0",      "rxe0:1"};
static const char *const paths[] = {
    "",
    "pci0000:00",
    "pci0000:00/0000:00:01.0",
    "pci0000:00/0000:00:01.0/0000:01:00.0",
    "pci0000:00/0000:00:01.0/0000:01:00.1",
    "pci0000:00/0000:00:02.0/0000:02:00.0",
    "pci0000:80/0000:80:01.0/0000:81:00.0",
    "pci0000:8",
    "//",
};
static const char *const gpus[] = {"0000:01:00.0", "0000:02:00.0", "0000:81:00.0", "", "x", "1:2"};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define ANY(array)   ((array)[next(COUNT(array))])

static void any_pci(kvl_pci_t *pci)
{
    snprintf(pci->path, sizeof(pci->path), "%s", ANY(paths));
    snprintf(pci->address, sizeof(pci->address), "%s", ANY(gpus));
}

static void any_rail(kvl_rail_table_t *table)
{
    kvl_rail_t rail = {.kind            = (kvl_rail_kind_t)next(2),
                       .state           = (kvl_port_state_t)next(3),
                       .link_layer      = (kvl_link_layer_t)next(4),
                       .speed_mbits     = next(2) ? next(400000) : 0,
                       .numa            = (int)next(5) - 1,
                       .endpoints_known = next(2),
                       .gid_count       = (unsigned)next(3),
                       .address_count   = (unsigned)next(3),
                       .ambiguous       = next(20) == 0,
                       .bond            = next(10) == 0,
                       .bridge          = next(10) == 0};

    snprintf(rail.name, sizeof(rail.name), "%s", ANY(names));
    any_pci(&rail.pci);
    if (next(10) == 0) {
        snprintf(rail.master, sizeof(rail.master), "bond0");
    }
    if (next(5) == 0) {
        snprintf(rail.physical, sizeof(rail.physical), "%s", ANY(gpus));
    }
    kvl_rail_table_add(table, &rail); /* some are there already */
}

static kvl_rail_table_t *any_table(void)
{
    static const char *const transports[] = {"tcp",     "rc_verbs", "dc_mlx5", "ud_verbs",
                                             "rc_mlx5", "posix",    "cma",     "self"};
    kvl_rail_table_t *table               = machine_create((unsigned)next(4));

    for (uint64_t i = next(12); i > 0; i--) {
        any_rail(table);
    }
    for (uint64_t i = next(4); i > 0; i--) {
        kvl_gpu_t gpu = {.numa = (int)next(5) - 1};

        any_pci(&gpu.pci);
        kvl_rail_table_add_gpu(table, &gpu);
    }
    for (uint64_t i = next(30); i > 0; i--) {
        kvl_offer_t offer = {ANY(transports), ANY(names), next(4) > 0};

        REQUIRE(kvl_rail_table_offer(table, &offer, 1) == KVL_OK);
    }
    return table;
}

/* mostly a list that makes sense, at times bytes */
static const char *any_list(void)
{
    static const char *const words[] = {"auto",  "tcp",  "rdma",   "shm",
                                        "^eth0", "^tcp", "mlx5_9", ""};
    static char text[512];
    size_t used = 0;

    if (next(2)) {
        return "auto";
    }
    if (next(10) == 0) {
        for (used = 0; used < next(100); used++) {
            text[used] = (char)(1 + next(255));
        }
        text[used] = '\0';
        return text;
    }
    for (uint64_t i = 1 + next(4); i > 0; i--) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", used ? "," : "",
                                 next(3) ? ANY(names) : ANY(words));
    }
    return text;
}

static char *print(const kvl_decision_t *decision, const kvl_rail_table_t *table)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    kvl_decision_print(decision, table, stream, 1);
    kvl_decision_print(decision, table, stream, 0);
    fclose(stream);
    return text;
}

static void check_decision(const kvl_decision_t *decision, const kvl_rail_table_t *table,
                           const kvl_choose_params_t *params)
{
    bool seen[64]  = {false};
    size_t network = 0;

    REQUIRE(decision->count == table->rail_count);
    REQUIRE(decision->used > 0);
    for (size_t i = 0; i < decision->count; i++) {
        const kvl_choice_t *choice = &decision->choices[i];
        const kvl_rail_t *rail     = &table->rails[choice->rail];
        kvl_verdict_t verdict      = i < decision->used                     ? KVL_VERDICT_USED
                                     : i < decision->used + decision->spare ? KVL_VERDICT_SPARE
                                                                            : KVL_VERDICT_OFF;

        REQUIRE(choice->verdict == verdict && choice->rail < table->rail_count);
        REQUIRE(!seen[choice->rail] && choice->reason[0] != '\0');
        seen[choice->rail] = true;
        if (verdict != KVL_VERDICT_OFF) {
            REQUIRE(rail->state != KVL_PORT_DOWN && rail->device[0] && !rail->ambiguous);
        }
        network += verdict == KVL_VERDICT_USED && rail->kind != KVL_RAIL_SHM;
    }
    REQUIRE(network <= 16 && (!params->max_rails || network <= params->max_rails));
    REQUIRE(params->affinity != KVL_AFFINITY_RANK || network <= 1);
    REQUIRE(!decision->degraded || decision->note[0]);
}

static unsigned decide_twice(const kvl_rail_table_t *table, const kvl_choose_params_t *params)
{
    kvl_decision_t *first = NULL, *second = NULL;
    kvl_status_t status = kvl_decision_create(table, params, &first);
    char *texts[2];

    REQUIRE(kvl_decision_create(table, params, &second) == status);
    if (status != KVL_OK) {
        REQUIRE(status == KVL_ERR_NO_DEVICE || status == KVL_ERR_CONFIG);
        REQUIRE(!first && !second && kvl_error_text()[0]);
        return 0;
    }
    check_decision(first, table, params);
    texts[0] = print(first, table);
    texts[1] = print(second, table);
    CHECK_STR_EQ(texts[0], texts[1]);
    free(texts[0]);
    free(texts[1]);
    kvl_decision_destroy(first);
    kvl_decision_destroy(second);
    return 1;
}

TEST(rails_property, same_table_and_settings_give_the_same_choice)
{
    unsigned decided = 0;

    state = 88172645463325252u;
    for (unsigned i = 0; i < ROUNDS; i++) {
        kvl_rail_table_t *table    = any_table();
        kvl_rank_t rank            = {.rank = (unsigned)next(20), .source = "test"};
        kvl_choose_params_t params = {
            .rails     = any_list(),
            .affinity  = (kvl_affinity_t)next(3),
            .max_rails = (unsigned)next(4),
            .place     = {(kvl_place_kind_t)next(3), (int)next(6) - 1, ANY(gpus)},
            .rank      = next(8) ? &rank : NULL,
            .reach     = next(2) ? ANY(names) : NULL};

        decided += decide_twice(table, &params);
        kvl_rail_table_destroy(table);
    }
    CHECK_MSG(decided > ROUNDS / 5 && decided < ROUNDS, "%u decisions of %u", decided, ROUNDS);
}
