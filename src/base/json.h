/* SPDX-License-Identifier: BSD-3-Clause */
/* The one thing of JSON that is easy to get wrong: a text between quotes. */
#ifndef KVL_BASE_JSON_H
#define KVL_BASE_JSON_H

#include <stdio.h>

/* Bytes beyond ascii are replaced: an environment or a device name need not be utf-8, json must be. */
void kvl_json_string(const char *text, FILE *stream);
/* "name": "value", then @a end */
void kvl_json_member(const char *name, const char *value, const char *end, FILE *stream);

#endif
