/* SPDX-License-Identifier: BSD-3-Clause */
#include "rail/affinity.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* numa: the rails of the nearest distance that can be used; if a nearer one is there and can't be, or
 * all are far, the note says so. rank: one rail, the one that the rank counts out. off: all.
 *
 * Shared memory has no distance and no rank: if it is in, it stays, behind the others. */

static void choice_add(kvl_choice_t *choice, const char *text)
{
    size_t used = strlen(choice->reason);

    snprintf(choice->reason + used, sizeof(choice->reason) - used, "; %s", text);
}

/* ---- order ---- */

static bool place_counts(const kvl_decision_t *decision, const kvl_choice_t *choice)
{
    return decision->affinity == KVL_AFFINITY_NUMA && choice->verdict != KVL_VERDICT_OFF;
}

/* the verdict, then shared memory last, then the distance, then the user's order, then the table's */
static bool choice_before(const kvl_rail_table_t *table, const kvl_decision_t *decision,
                          const kvl_choice_t *a, const kvl_choice_t *b)
{
    bool a_shm = table->rails[a->rail].kind == KVL_RAIL_SHM;
    bool b_shm = table->rails[b->rail].kind == KVL_RAIL_SHM;
    int nearer;

    if (a->verdict != b->verdict) {
        return a->verdict < b->verdict;
    }
    if (a->verdict != KVL_VERDICT_OFF && a_shm != b_shm) {
        return b_shm;
    }
    nearer = place_counts(decision, a) ? kvl_distance_compare(a->distance, b->distance) : 0;
    if (nearer != 0) {
        return nearer < 0;
    }
    if (a->verdict != KVL_VERDICT_OFF && a->place != b->place) {
        return a->place < b->place;
    }
    return a->rail < b->rail;
}

/* by insertion: tables are short, and equal stays equal */
static void decision_sort(const kvl_rail_table_t *table, kvl_decision_t *decision)
{
    for (size_t i = 1; i < decision->count; i++) {
        kvl_choice_t choice = decision->choices[i];
        size_t at           = i;

        while (at > 0 && choice_before(table, decision, &choice, &decision->choices[at - 1])) {
            decision->choices[at] = decision->choices[at - 1];
            at--;
        }
        decision->choices[at] = choice;
    }
}

static void decision_count(kvl_decision_t *decision)
{
    decision->used = decision->spare = 0;
    for (size_t i = 0; i < decision->count; i++) {
        decision->used += decision->choices[i].verdict == KVL_VERDICT_USED;
        decision->spare += decision->choices[i].verdict == KVL_VERDICT_SPARE;
    }
}

/* used rails without shared memory, which is the last of them */
static size_t decision_network(const kvl_rail_table_t *table, const kvl_decision_t *decision)
{
    size_t count = decision->used;

    return count > 0 && table->rails[decision->choices[count - 1].rail].kind == KVL_RAIL_SHM
               ? count - 1
               : count;
}

static void choice_spare(kvl_choice_t *choice, const char *reason)
{
    choice->verdict = KVL_VERDICT_SPARE;
    snprintf(choice->reason, sizeof(choice->reason), "turned off by %s", reason);
}

/* ---- numa ---- */

/* The nearest rail that KVLANE_RAILS has and that cannot be used now, if nearer than @a best. */
static const kvl_choice_t *find_lost(const kvl_decision_t *decision, kvl_distance_t best)
{
    const kvl_choice_t *lost = NULL;

    for (size_t i = 0; i < decision->count; i++) {
        const kvl_choice_t *choice = &decision->choices[i];

        if (choice->verdict == KVL_VERDICT_OFF && choice->wanted &&
            kvl_distance_compare(choice->distance, lost ? lost->distance : best) < 0) {
            lost = choice;
        }
    }
    return lost;
}

static void numa_note(const kvl_rail_table_t *table, kvl_decision_t *decision, kvl_distance_t best,
                      kvl_place_kind_t place)
{
    const kvl_choice_t *lost = find_lost(decision, best);
    char nearer[64], used[64];

    kvl_distance_format(best, used, sizeof(used));
    if (lost) {
        kvl_distance_format(lost->distance, nearer, sizeof(nearer));
        decision->degraded = true;
        snprintf(decision->note, sizeof(decision->note),
                 "%s is nearer to %s (%s) but %.64s: using the next, %s",
                 table->rails[lost->rail].name, decision->memory, nearer, lost->reason, used);
    } else if (decision->note[0]) {
        return; /* of another kind at all: said already */
    } else if (best.level == KVL_NEAR_OTHER) {
        decision->degraded = true;
        snprintf(decision->note, sizeof(decision->note), "no rail is near %s: using the next, %s",
                 decision->memory, used);
    } else if (best.level == KVL_NEAR_UNKNOWN && place != KVL_PLACE_ANY) {
        snprintf(decision->note, sizeof(decision->note),
                 "nobody says how far rails are from %s: using all", decision->memory);
    }
}

/* Processes of GPUs that share rails and may not use all of them begin at different ones. */
static void numa_rotate(const kvl_rail_table_t *table, const kvl_choose_params_t *params,
                        kvl_choice_t *choices, size_t count)
{
    const kvl_gpu_t *gpu =
        params->place.kind == KVL_PLACE_GPU ? kvl_rail_table_gpu(table, params->place.gpu) : NULL;
    size_t turns = gpu && params->max_rails && params->max_rails < count
                       ? (size_t)(gpu - table->gpus) % count
                       : 0;

    for (; turns > 0; turns--) {
        kvl_choice_t first = choices[0];

        memmove(choices, choices + 1, (count - 1) * sizeof(*choices));
        choices[count - 1] = first;
    }
}

static void numa_apply(const kvl_rail_table_t *table, const kvl_choose_params_t *params,
                       kvl_decision_t *decision)
{
    size_t network = decision_network(table, decision), near = 0;
    kvl_distance_t best =
        network ? decision->choices[0].distance : (kvl_distance_t){KVL_NEAR_SWITCH, 0};
    char text[192], distance[64];

    numa_note(table, decision, best, params->place.kind);
    for (size_t i = 0; i < network; i++) {
        kvl_choice_t *choice = &decision->choices[i];

        kvl_distance_format(choice->distance, distance, sizeof(distance));
        if (kvl_distance_compare(choice->distance, best) > 0) {
            snprintf(text, sizeof(text), "KVLANE_AFFINITY=numa: %s, and there is a nearer one",
                     distance);
            choice_spare(choice, text);
            continue;
        }
        snprintf(text, sizeof(text), "%s%s%s", distance,
                 best.level == KVL_NEAR_UNKNOWN ? " to " : " as ", decision->memory);
        choice_add(choice, params->place.kind == KVL_PLACE_ANY ? "memory may be anywhere" : text);
        near++;
    }
    numa_rotate(table, params, decision->choices, near);
}

/* ---- rank ---- */

static kvl_status_t rank_apply(const kvl_rail_table_t *table, const kvl_choose_params_t *params,
                               kvl_decision_t *decision)
{
    size_t network         = decision_network(table, decision), mine;
    const kvl_rank_t *rank = params->rank;
    char text[192];

    if (network == 0) {
        return KVL_OK;
    }
    if (!rank) {
        return kvl_rank_decide(NULL, 0, NULL); /* says how to give one */
    }
    mine = rank->rank % network;
    for (size_t i = 0; i < network; i++) {
        kvl_choice_t *choice = &decision->choices[i];

        if (i == mine) {
            snprintf(text, sizeof(text), "rank %u (%s) modulo %zu rails is %zu", rank->rank,
                     rank->source, network, mine);
            choice_add(choice, text);
        } else {
            snprintf(text, sizeof(text), "KVLANE_AFFINITY=rank: rank %u takes %s", rank->rank,
                     table->rails[decision->choices[mine].rail].name);
            choice_spare(choice, text);
        }
    }
    return KVL_OK;
}

/* ---- the limit ---- */

static void limit_apply(const kvl_rail_table_t *table, const kvl_choose_params_t *params,
                        kvl_decision_t *decision)
{
    size_t limit = params->max_rails && params->max_rails < KVL_RAILS_USED_MAX ? params->max_rails
                                                                               : KVL_RAILS_USED_MAX;
    size_t taken = 0;
    char text[64];

    for (size_t i = 0; i < decision->count; i++) {
        kvl_choice_t *choice = &decision->choices[i];

        if (choice->verdict != KVL_VERDICT_USED ||
            table->rails[choice->rail].kind == KVL_RAIL_SHM) {
            continue;
        }
        if (taken++ >= limit) {
            snprintf(
                text, sizeof(text), "%s%zu",
                limit == params->max_rails ? "KVLANE_MAX_RAILS=" : "the limit of kvlane: ", limit);
            choice_spare(choice, text);
        }
    }
}

/* Puts the choices of each verdict together; within one they keep their order. */
static void decision_gather(kvl_decision_t *decision)
{
    for (size_t i = 1; i < decision->count; i++) {
        kvl_choice_t choice = decision->choices[i];
        size_t at           = i;

        while (at > 0 && choice.verdict < decision->choices[at - 1].verdict) {
            decision->choices[at] = decision->choices[at - 1];
            at--;
        }
        decision->choices[at] = choice;
    }
    decision_count(decision);
}

kvl_status_t kvl_affinity_apply(const kvl_rail_table_t *table, const kvl_choose_params_t *params,
                                kvl_decision_t *decision)
{
    kvl_status_t status = KVL_OK;

    for (size_t i = 0; i < decision->count; i++) {
        decision->choices[i].distance =
            kvl_place_distance(table, &params->place, &table->rails[decision->choices[i].rail]);
    }
    decision_sort(table, decision);
    decision_count(decision);
    if (params->affinity == KVL_AFFINITY_NUMA) {
        numa_apply(table, params, decision);
    } else if (params->affinity == KVL_AFFINITY_RANK) {
        status = rank_apply(table, params, decision);
    } else {
        for (size_t i = 0; i < decision_network(table, decision); i++) {
            choice_add(&decision->choices[i], "KVLANE_AFFINITY=off takes all");
        }
    }
    if (status == KVL_OK) {
        limit_apply(table, params, decision);
        decision_gather(decision);
    }
    return status;
}
