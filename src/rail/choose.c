/* SPDX-License-Identifier: BSD-3-Clause */
#include "rail/choose.h"

#include "rail/affinity.h"
#include "rail/wish.h"

#include "base/alloc.h"
#include "base/error.h"

#include <string.h>

/* In three steps: each name of KVLANE_RAILS must mean a rail that can be used (check_terms); each rail
 * gets in or is off for a reason (judge_all); the affinity orders those that are in and cuts the list
 * (affinity.c).
 *
 * Auto takes one kind: rdma if any such rail can be used, else tcp, else shared memory. When it passes
 * over rdma rails that cannot be used the note says so. Who asks for a kind or a name gets that or an
 * error. */

typedef struct {
    const kvl_rail_table_t *table;
    const kvl_choose_params_t *params;
    kvl_wish_t wish;
    kvl_decision_t *decision;
} choose_t;

static kvl_status_t choose_refuse(const choose_t *choose, const char *why)
{
    char there[512];

    kvl_rail_table_list(choose->table, there, sizeof(there));
    return kvl_error(KVL_ERR_NO_DEVICE, "KVLANE_RAILS=%.128s: %s; there is: %s", choose->wish.text,
                     why, there);
}

/* ---- names and kinds that were asked for ---- */

/* the rails that a term means: how many, and the first that cannot be used with the reason; true if
 * one can be used */
static bool term_usable(const choose_t *choose, const char *term, size_t *meant_p, char *why,
                        size_t size)
{
    char reason[KVL_REASON_SIZE];

    for (size_t i = 0; i < choose->table->rail_count; i++) {
        const kvl_rail_t *rail = &choose->table->rails[i];

        if (!kvl_wish_means(term, rail)) {
            continue;
        }
        if (kvl_rail_usable(rail, reason)) {
            return true;
        }
        if ((*meant_p)++ == 0) {
            snprintf(why, size, "%s %s", rail->name, reason);
        }
    }
    return false;
}

static kvl_status_t check_term(const choose_t *choose, const char *term)
{
    char why[KVL_REASON_SIZE + KVL_RAIL_NAME_SIZE] = "", text[KVL_REASON_MAX + 128];
    size_t meant                                   = 0;
    kvl_rail_kind_t kind;
    bool is_kind = kvl_wish_kind(term, &kind);

    if (term_usable(choose, term, &meant, why, sizeof(why)) ||
        (choose->wish.except && (meant > 0 || is_kind))) {
        return KVL_OK;
    }
    if (meant == 0) {
        snprintf(text, sizeof(text), is_kind ? "no %s rail is here" : "no rail %s is here", term);
    } else if (is_kind) {
        snprintf(text, sizeof(text), "no %s rail can be used: %s", term, why);
    } else {
        snprintf(text, sizeof(text), "%s", why);
    }
    return choose_refuse(choose, text);
}

static kvl_status_t check_terms(const choose_t *choose)
{
    char term[KVL_RAIL_NAME_SIZE];
    const char *at = choose->wish.terms;

    while (kvl_wish_next(&at, term)) {
        kvl_status_t status = check_term(choose, term);

        if (status != KVL_OK) {
            return status;
        }
    }
    return KVL_OK;
}

/* ---- which rails are in ---- */

static void choice_set(kvl_choice_t *choice, kvl_verdict_t verdict, const char *reason)
{
    choice->verdict = verdict;
    snprintf(choice->reason, sizeof(choice->reason), "%s", reason);
}

/* by itself and by KVLANE_RAILS, not yet by what else there is */
static void judge(const choose_t *choose, kvl_choice_t *choice)
{
    const kvl_rail_t *rail = &choose->table->rails[choice->rail];
    bool explicit          = choose->wish.terms && !choose->wish.except;
    bool meant             = kvl_wish_find(&choose->wish, rail, &choice->place, &choice->named);
    char reason[KVL_REASON_SIZE];

    choice->wanted = meant == explicit;
    if (!choice->wanted) {
        snprintf(choice->reason, sizeof(choice->reason), "%s KVLANE_RAILS=%.128s",
                 explicit ? "not in" : "turned off by", choose->wish.text);
        choice->verdict = KVL_VERDICT_OFF;
        choice->named   = false;
    } else if (!kvl_rail_usable(rail, reason)) {
        choice_set(choice, KVL_VERDICT_OFF, reason);
    } else if (!choice->named &&
               !kvl_rail_plain(choose->table, rail, choose->params->reach, reason)) {
        choice_set(choice, KVL_VERDICT_OFF, reason);
        choice->wanted = false;
    } else {
        choice_set(choice, KVL_VERDICT_USED,
                   !explicit       ? "found by itself"
                   : choice->named ? "named in KVLANE_RAILS"
                                   : "of the kind that KVLANE_RAILS asks for");
    }
}

/* Turns off what is of another kind than @a kind. */
static void keep_kind(const choose_t *choose, kvl_rail_kind_t kind)
{
    for (size_t i = 0; i < choose->decision->count; i++) {
        kvl_choice_t *choice   = &choose->decision->choices[i];
        const kvl_rail_t *rail = &choose->table->rails[choice->rail];

        if (rail->kind == kind) {
            continue;
        }
        choice->wanted = false;
        if (choice->verdict == KVL_VERDICT_USED) {
            choice->verdict = KVL_VERDICT_OFF;
            snprintf(choice->reason, sizeof(choice->reason),
                     "turned off by KVLANE_RAILS=%.64s: %s rails are used", choose->wish.text,
                     kvl_rail_kind_name(kind));
        }
    }
}

/* Tells that auto passed over rails of a better kind. */
static void note_passed_over(const choose_t *choose, kvl_rail_kind_t kind)
{
    kvl_decision_t *decision = choose->decision;

    for (size_t i = 0; i < decision->count && !decision->degraded; i++) {
        const kvl_choice_t *choice = &decision->choices[i];
        const kvl_rail_t *rail     = &choose->table->rails[choice->rail];

        if (choice->wanted && rail->kind == KVL_RAIL_RDMA && kind != KVL_RAIL_RDMA) {
            decision->degraded = true;
            snprintf(decision->note, sizeof(decision->note),
                     "no rdma rail can be used (%.71s %.96s): using %s", rail->name, choice->reason,
                     kvl_rail_kind_name(kind));
        }
    }
}

static const kvl_choice_t *find_used(const choose_t *choose, kvl_rail_kind_t kind, const char *name)
{
    for (size_t i = 0; i < choose->decision->count; i++) {
        const kvl_choice_t *choice = &choose->decision->choices[i];
        const kvl_rail_t *rail     = &choose->table->rails[choice->rail];

        if (choice->verdict == KVL_VERDICT_USED && rail->kind == kind &&
            (!name || strcmp(rail->name, name) == 0)) {
            return choice;
        }
    }
    return NULL;
}

/* Turns off the tcp rails beside the one that reaches the peer. */
static void keep_reach(const choose_t *choose)
{
    const kvl_choice_t *reach =
        choose->params->reach ? find_used(choose, KVL_RAIL_TCP, choose->params->reach) : NULL;

    for (size_t i = 0; reach && i < choose->decision->count; i++) {
        kvl_choice_t *choice = &choose->decision->choices[i];

        if (choice != reach && choice->verdict == KVL_VERDICT_USED && !choice->named &&
            choose->table->rails[choice->rail].kind == KVL_RAIL_TCP) {
            choice->verdict = KVL_VERDICT_OFF;
            choice->wanted  = false;
            snprintf(choice->reason, sizeof(choice->reason),
                     "the peer is reached by %.71s; KVLANE_RAILS=tcp or its name takes it",
                     choose->params->reach);
        }
    }
}

/* A peer on this host, by its loopback address, is reached by nothing else. */
static bool reach_is_loopback(const choose_t *choose)
{
    size_t at = choose->params->reach ? kvl_rail_table_find(choose->table, choose->params->reach)
                                      : choose->table->rail_count;

    return at < choose->table->rail_count &&
           choose->table->rails[at].link_layer == KVL_LINK_LOOPBACK;
}

static kvl_status_t judge_all(const choose_t *choose)
{
    bool automatic = !choose->wish.terms || choose->wish.except;
    bool any       = false;

    for (size_t i = 0; i < choose->decision->count; i++) {
        choose->decision->choices[i].rail = i;
        judge(choose, &choose->decision->choices[i]);
    }
    for (int kind = KVL_RAIL_RDMA; kind <= KVL_RAIL_SHM && !any; kind++) {
        any = find_used(choose, (kvl_rail_kind_t)kind, NULL) != NULL;
        if (any && automatic) {
            note_passed_over(choose, (kvl_rail_kind_t)kind);
            keep_kind(choose, (kvl_rail_kind_t)kind);
        }
    }
    if (!any) {
        return choose_refuse(choose, "no rail can be used");
    }
    if (automatic || reach_is_loopback(choose)) {
        keep_reach(choose);
    }
    return KVL_OK;
}

/* ---- the decision ---- */

static kvl_status_t choose_run(choose_t *choose)
{
    kvl_decision_t *decision = choose->decision;
    kvl_status_t status      = check_terms(choose);

    if (status == KVL_OK) {
        status = judge_all(choose);
    }
    if (status == KVL_OK) {
        status = kvl_affinity_apply(choose->table, choose->params, decision);
    }
    return status;
}

kvl_status_t kvl_decision_create(const kvl_rail_table_t *table, const kvl_choose_params_t *params,
                                 kvl_decision_t **decision_p)
{
    choose_t choose     = {.table = table, .params = params};
    kvl_status_t status = kvl_wish_parse(params->rails ? params->rails : "auto", &choose.wish);

    if (status != KVL_OK) {
        return status;
    }
    choose.decision = kvl_calloc(1, sizeof(*choose.decision));
    if (!choose.decision) {
        return kvl_error(KVL_ERR_NO_MEMORY, "rails: out of memory");
    }
    choose.decision->count    = table->rail_count;
    choose.decision->affinity = params->affinity;
    choose.decision->choices  = kvl_calloc(table->rail_count + 1, sizeof(kvl_choice_t));
    snprintf(choose.decision->rails, sizeof(choose.decision->rails), "%s", choose.wish.text);
    kvl_place_format(&params->place, choose.decision->memory, sizeof(choose.decision->memory));
    status = choose.decision->choices ? choose_run(&choose)
                                      : kvl_error(KVL_ERR_NO_MEMORY, "rails: out of memory");
    if (status != KVL_OK) {
        kvl_decision_destroy(choose.decision);
        return status;
    }
    *decision_p = choose.decision;
    return KVL_OK;
}

void kvl_decision_destroy(kvl_decision_t *decision)
{
    if (decision) {
        kvl_free(decision->choices);
        kvl_free(decision);
    }
}
