/* SPDX-License-Identifier: BSD-3-Clause */
/* Which rails a client or node uses, in order, and why; and why not the others. Pure: the same table
 * and settings give the same decision. */
#ifndef KVL_RAIL_CHOOSE_H
#define KVL_RAIL_CHOOSE_H

#include "rail/place.h"
#include "rail/rank.h"
#include "rail/table.h"

#define KVL_RAILS_USED_MAX 16
#define KVL_REASON_MAX     256
#define KVL_NOTE_SIZE      384

/* KVLANE_AFFINITY */
typedef enum { KVL_AFFINITY_NUMA, KVL_AFFINITY_RANK, KVL_AFFINITY_OFF } kvl_affinity_t;

typedef struct {
    const char *rails; /* KVLANE_RAILS; NULL: "auto" */
    kvl_affinity_t affinity;
    unsigned max_rails;     /* KVLANE_MAX_RAILS; 0: up to KVL_RAILS_USED_MAX */
    kvl_place_t place;      /* of the memory that moves; for KVL_AFFINITY_NUMA */
    const kvl_rank_t *rank; /* for KVL_AFFINITY_RANK; NULL: unknown */
    const char *reach;      /* interface that the kernel takes to the peer; NULL: unknown */
} kvl_choose_params_t;

typedef enum {
    KVL_VERDICT_USED,
    KVL_VERDICT_SPARE, /* could be used: turned off by the affinity or the limit alone */
    KVL_VERDICT_OFF
} kvl_verdict_t;

typedef struct {
    size_t rail; /* index in the table */
    kvl_verdict_t verdict;
    kvl_distance_t distance; /* from params->place */
    unsigned place;          /* in KVLANE_RAILS, where that names rails */
    bool named;              /* by its own name */
    bool wanted;             /* off though KVLANE_RAILS has it: it cannot be used now */
    char reason[KVL_REASON_MAX];
} kvl_choice_t;

typedef struct {
    kvl_choice_t *choices; /* all rails of the table: the used ones in order, then the spare ones,
                              the nearest first, then the others in table order */
    size_t count, used, spare;
    kvl_affinity_t affinity;
    bool degraded; /* a better rail is there but cannot be used, or memory is far from all */
    char note[KVL_NOTE_SIZE]; /* what the user should know of it; "" if nothing */
    char rails[128];          /* KVLANE_RAILS as it was, perhaps cut */
    char memory[64];          /* "numa node 1" */
} kvl_decision_t;

/* KVL_ERR_NO_DEVICE: nothing to use, or a name that is unknown, down or unreachable; the text lists
 * what there is. KVL_ERR_CONFIG: the list makes no sense, or there is no rank. KVL_ERR_NO_MEMORY. */
kvl_status_t kvl_decision_create(const kvl_rail_table_t *table, const kvl_choose_params_t *params,
                                 kvl_decision_t **decision_p);
void kvl_decision_destroy(kvl_decision_t *decision);

const char *kvl_verdict_name(kvl_verdict_t verdict);
const char *kvl_affinity_name(kvl_affinity_t affinity);
/* print.c; @a table: the one that it was made from */
void kvl_decision_print(const kvl_decision_t *decision, const kvl_rail_table_t *table, FILE *stream,
                        int json);
/* one line for the log: "mlx5_0:1 mlx5_1:1 of 6 rails (auto, numa, gpu 0000:1b:00.0)" */
void kvl_decision_summary(const kvl_decision_t *decision, const kvl_rail_table_t *table, char *text,
                          size_t size);

#endif
