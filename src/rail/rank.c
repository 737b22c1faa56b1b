/* SPDX-License-Identifier: BSD-3-Clause */
#include "rail/rank.h"

#include "base/error.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* SLURM_LOCALID and RANK are not read: srun starts one task per node that starts the ranks itself,
 * which all inherit a 0; RANK counts over all hosts. */
static const struct {
    const char *name, *world;
    bool launcher;
} environment[] = {
    {"KVLANE_RANK", NULL, false},
    {"LOCAL_RANK", "LOCAL_WORLD_SIZE", false},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", true},
    {"MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE", true},
    {"MPI_LOCALRANKID", "MPI_LOCALNRANKS", true},
};

#define ENVIRONMENT_COUNT (sizeof(environment) / sizeof(environment[0]))
_Static_assert(ENVIRONMENT_COUNT <= KVL_RANK_SOURCES, "sources of the environment");

size_t kvl_rank_environment(kvl_rank_get_func_t get, void *arg,
                            kvl_rank_source_t sources[KVL_RANK_SOURCES])
{
    for (size_t i = 0; i < ENVIRONMENT_COUNT; i++) {
        sources[i] = (kvl_rank_source_t){
            .name       = environment[i].name,
            .value      = get(environment[i].name, arg),
            .world_name = environment[i].world,
            .world      = environment[i].world ? get(environment[i].world, arg) : NULL,
            .launcher   = environment[i].launcher,
        };
    }
    return ENVIRONMENT_COUNT;
}

/* digits alone, and few: 9 are no overflow and more ranks than any host has */
static bool parse_number(const char *text, unsigned *number_p)
{
    size_t length   = strspn(text, "0123456789");
    unsigned number = 0;

    if (length == 0 || length > 9 || text[length]) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        number = number * 10 + (unsigned)(text[i] - '0');
    }
    *number_p = number;
    return true;
}

static kvl_status_t source_parse(const kvl_rank_source_t *source, kvl_rank_t *rank)
{
    if (!parse_number(source->value, &rank->rank)) {
        return kvl_error(KVL_ERR_CONFIG,
                         "%s=%s: not a rank; accepted: 0, 1, 2, ... as the processes of this host "
                         "are numbered",
                         source->name, source->value);
    }
    rank->world = 0;
    if (source->world && (!parse_number(source->world, &rank->world) || rank->world == 0)) {
        return kvl_error(KVL_ERR_CONFIG, "%s=%s: not a number of ranks; accepted: 1, 2, ...",
                         source->world_name, source->world);
    }
    snprintf(rank->source, sizeof(rank->source), "%s", source->name);
    return KVL_OK;
}

/* a launcher that started one process says nothing of those that it starts in turn */
static bool source_speaks(const kvl_rank_source_t *source, bool launchers)
{
    unsigned world = 0;

    if (!source->value || source->launcher != launchers) {
        return false;
    }
    return !launchers || (source->world && parse_number(source->world, &world) && world > 1);
}

static kvl_status_t decide_among(const kvl_rank_source_t *sources, size_t count, bool launchers,
                                 kvl_rank_t *rank, bool *found)
{
    for (size_t i = 0; i < count; i++) {
        kvl_rank_t next;
        kvl_status_t status;

        if (!source_speaks(&sources[i], launchers)) {
            continue;
        }
        status = source_parse(&sources[i], &next);
        if (status != KVL_OK) {
            return status;
        }
        if (*found && next.rank != rank->rank) {
            return kvl_error(KVL_ERR_CONFIG,
                             "%s says rank %u, %s says rank %u: unset the one that is wrong, or "
                             "KVLANE_AFFINITY=numa",
                             rank->source, rank->rank, next.source, next.rank);
        }
        if (!*found) {
            unsigned world = rank->world;

            *rank       = next;
            rank->world = world;
        }
        *found = true;
        if (next.world && (!rank->world || next.world < rank->world)) {
            rank->world = next.world;
        }
    }
    return KVL_OK;
}

kvl_status_t kvl_rank_decide(const kvl_rank_source_t *sources, size_t count, kvl_rank_t *rank_p)
{
    kvl_rank_t rank     = {0};
    bool found          = false;
    kvl_status_t status = decide_among(sources, count, false, &rank, &found);

    if (status == KVL_OK && !found) {
        status = decide_among(sources, count, true, &rank, &found);
    }
    if (status != KVL_OK) {
        return status;
    }
    if (!found) {
        return kvl_error(KVL_ERR_CONFIG,
                         "KVLANE_AFFINITY=rank: nobody says which rank this is; set KVLANE_RANK to "
                         "0, 1, ... in each process of this host, or KVLANE_AFFINITY=numa");
    }
    if (rank.world && rank.rank >= rank.world) {
        return kvl_error(KVL_ERR_CONFIG,
                         "%s: rank %u of %u is out of range; accepted: 0 to %u, or "
                         "KVLANE_AFFINITY=numa",
                         rank.source, rank.rank, rank.world, rank.world - 1);
    }
    *rank_p = rank;
    return KVL_OK;
}
