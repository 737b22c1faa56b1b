/* SPDX-License-Identifier: BSD-3-Clause */
/* kvlane_info --doctor: a list of checks, each of which says what it found and, unless all is well, the way out. */
#ifndef KVL_TOOLS_DOCTOR_H
#define KVL_TOOLS_DOCTOR_H

#include "rail/table.h"
#include "tools/doctor_judge.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    /* constant */
    const char *node;   /* ADDR:PORT; NULL: this host alone */
    int64_t timeout_ms; /* for each connection to it */
    bool json;

    /* what the checks told, in order */
    json_t *rows; /* JSON: one each */
    kvl_found_t worst;

    /* what one check leaves to those behind it */
    kvl_rail_table_t *table; /* of this host, as the system tells; empty without memory */
    bool too_few_files;      /* UCX is not to be started */
    bool started;            /* an engine could be made */
    bool left_to_ucx;        /* UCX's own settings choose the rails */
    unsigned rails;          /* network rails; with more than one each is tried alone */
} kvl_doctor_t;

/* Runs all checks and prints a line for each. @a node NULL: this host alone. Returns the exit code: 0 all is well, 1 a
 * warning, 2 a failure. Blocks: some seconds, up to @a timeout_ms for each rail to a node that does not answer. */
int kvl_doctor(const char *node, int64_t timeout_ms, bool json);

/* Prints, or keeps for JSON, one finding, whose bytes beyond ascii it replaces. */
void kvl_doctor_say(kvl_doctor_t *doctor, kvl_finding_t *finding);

/* a text of a JSON object, "" if it has none */
const char *kvl_doctor_text(const json_t *object, const char *member);

/* name of the first rail that an engine's decision uses, "" if none */
const char *kvl_doctor_first_rail(const json_t *decision);

/* Is it a device that bytes of a peer may take, worth a line of its own? */
bool kvl_doctor_shows(const kvl_rail_t *rail);
bool kvl_doctor_has_rdma(const kvl_doctor_t *doctor);

/* ---- the checks: each tells one finding or more ---- */
void kvl_doctor_ucx(kvl_doctor_t *doctor); /* doctor_host.c */
void kvl_doctor_memlock(kvl_doctor_t *doctor);
void kvl_doctor_files(kvl_doctor_t *doctor);
void kvl_doctor_huge_pages(kvl_doctor_t *doctor);
void kvl_doctor_shm(kvl_doctor_t *doctor);
void kvl_doctor_devices(kvl_doctor_t *doctor); /* doctor_devices.c */
void kvl_doctor_counters(kvl_doctor_t *doctor);
void kvl_doctor_distances(kvl_doctor_t *doctor);
void kvl_doctor_gpudirect(kvl_doctor_t *doctor);
void kvl_doctor_rails(kvl_doctor_t *doctor); /* doctor_rails.c: starts an engine */
void kvl_doctor_node(kvl_doctor_t *doctor);  /* doctor_node.c: connects */

#endif
