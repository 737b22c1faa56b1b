/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of one context: name, value, and who wanted it. A plain list that options.c fills
 * (through defaults.c) and hands to UCX. */
#ifndef KVL_UCX_OPTION_LIST_H
#define KVL_UCX_OPTION_LIST_H

#include "ucx/select.h"

#include <stdio.h>

#define KVL_OPTIONS_MAX 64

typedef enum {
    KVL_ORIGIN_USER,    /* KVLANE_UCX_* */
    KVL_ORIGIN_CTRL,    /* KVLANE_CTRL_UCX_* */
    KVL_ORIGIN_RAILS,   /* from KVLANE_RAILS and the peer's address */
    KVL_ORIGIN_DEFAULT, /* kvlane's default */
    KVL_ORIGIN_ENV,     /* plain UCX_*, left alone: shown only */
    KVL_ORIGIN_COUNT
} kvl_origin_t;

typedef struct {
    char name[64];
    char value[KVL_SELECT_MAX];
    char applied[64]; /* the name that this UCX took; "": nothing here has it */
    const char *why;  /* static */
    kvl_origin_t origin;
} kvl_option_t;

typedef struct kvl_options {
    bool proto_v2; /* the protocols in force: PROTO_ENABLE as UCX has it now */
    size_t count;
    kvl_option_t options[KVL_OPTIONS_MAX];
} kvl_options_t;

const kvl_option_t *kvl_options_find(const kvl_options_t *options, const char *name);
/* Adds, or replaces what has this name. @a why is static or NULL. */
kvl_status_t kvl_options_set(kvl_options_t *options, const char *name, const char *value,
                             kvl_origin_t origin, const char *why);
void kvl_options_drop(kvl_options_t *options, size_t index);
/* The value in the list, else of the environment's plain UCX_@a name, else NULL. */
const char *kvl_options_value(const kvl_options_t *options, const char *name);
/* "KVLANE_UCX_", for messages */
const char *kvl_origin_prefix(kvl_origin_t origin);
void kvl_options_print(const kvl_options_t *options, FILE *stream);

#endif
