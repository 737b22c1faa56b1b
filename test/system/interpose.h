/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs with the counting interposer (test/fake/interpose.c) under them, and what it counted. */
#ifndef KVL_SYSTEM_INTERPOSE_H
#define KVL_SYSTEM_INTERPOSE_H

#include "system/box.h"

#include <jansson.h>

#define INTERPOSE_REPORTS 8

typedef struct {
    char folder[64], pattern[96];
    char preload[512];
    box_setting_t settings[2]; /* for the environment of children */
    json_t *reports[INTERPOSE_REPORTS];
    size_t count;
} interpose_t;

/* Skips the test where the interposer cannot be loaded (sanitizers). */
void interpose_open(interpose_t *interpose);
/* Reads the reports of all processes that have ended; at most once. */
void interpose_read(interpose_t *interpose);
void interpose_close(interpose_t *interpose);

json_int_t interpose_count(const json_t *object, const char *counter, const char *which);
/* Nothing is open, mapped or under way at its end. */
void interpose_check_end(const json_t *report);

#endif
