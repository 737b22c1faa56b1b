/* SPDX-License-Identifier: BSD-3-Clause */
/* The other side of a test: found at HOST, or started here (-l). */
#ifndef KVL_PERFTEST_SIDE_H
#define KVL_PERFTEST_SIDE_H

#include "tools/perftest/channel.h"
#include "tools/perftest/child.h"
#include "tools/perftest/perftest.h"

#define PERF_GREETING  "kvlane_perftest 1" /* then the node's port */
#define PERF_START_MS  30000               /* of the other side, at most */
#define PERF_ANSWER_MS 60000               /* of a question on the control connection */

typedef struct {
    perf_child_t child;     /* -l */
    perf_channel_t control; /* not open: the node is no perftest server */
    char address[300];      /* of the node */
} perf_side_t;

/* Initialises, and opens. On failure it is closed already. */
int perf_side_open(perf_side_t *side, const perf_options_t *options, perf_peer_t peer);
/* -1 (said) if what was started did not end well */
int perf_side_close(perf_side_t *side);

/* Asks on the control connection; the answer must begin with @a word, what follows it is copied.
 * -1 is said. */
int perf_side_ask(perf_side_t *side, const char *question, const char *word, char *rest,
                  size_t size);
/* CPU seconds used so far at the other side; negative: unknown */
double perf_side_cpu(perf_side_t *side);

#endif
