/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of base/config*.c: the table of settings and what a row's text turns into. */
#ifndef KVL_BASE_CONFIG_ROW_H
#define KVL_BASE_CONFIG_ROW_H

#include "base/config.h"

#include <stddef.h>

typedef enum {
    KVL_ROW_COUNT,    /* unsigned */
    KVL_ROW_NUMBER,   /* uint64_t */
    KVL_ROW_BYTES,    /* uint64_t */
    KVL_ROW_PACK,     /* uint64_t, or "auto" */
    KVL_ROW_DURATION, /* int64_t, ns */
    KVL_ROW_CHOICE,   /* unsigned or an enum: the index in choices */
    KVL_ROW_RAILS,    /* const char *, a list of names */
    KVL_ROW_FAULT,    /* const char *, rules of base/fault.h */
    KVL_ROW_TEXT      /* const char *, one word or nothing; whoever uses it judges it */
} kvl_row_type_t;

typedef struct {
    const char *name;
    kvl_row_type_t type;
    const char *initial;        /* the default, as text */
    uint64_t min, max;          /* of numbers, bytes, ns */
    const char *const *choices; /* ends with NULL */
    size_t offset;              /* in kvl_settings_t */
    const char *doc;
} kvl_row_t;

typedef enum { KVL_SOURCE_DEFAULT, KVL_SOURCE_ENVIRONMENT, KVL_SOURCE_CALL } kvl_config_source_t;

#define KVL_ROWS 32
extern const kvl_row_t kvl_rows[KVL_ROWS];

typedef struct {
    char *name, *value;
    kvl_config_source_t source;
} kvl_ucx_setting_t;

struct kvl_config {
    kvl_settings_t settings;
    char *text[KVL_ROWS]; /* NULL: the default */
    kvl_config_source_t source[KVL_ROWS];
    kvl_ucx_setting_t *ucx;
    size_t ucx_count;
};

/* index in kvl_rows, KVL_ROWS if there is none */
size_t kvl_row_find(const char *name);
/* Parses @a text into its place in @a settings; nothing is changed on failure. Returns NULL, or why
 * not. Rails and fault rows keep the pointer. */
const char *kvl_row_parse(const kvl_row_t *row, const char *text, kvl_settings_t *settings);
/* "1 to 256", "auto, always, never", ... */
void kvl_row_accepted(const kvl_row_t *row, char *text, size_t size);
const char *kvl_row_unit(const kvl_row_t *row);
/* The setting whose name is close to @a name as a slip of the pen would be; NULL if none is. */
const char *kvl_row_closest(const char *name);

#endif
