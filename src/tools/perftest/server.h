/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KVL_PERFTEST_SERVER_H
#define KVL_PERFTEST_SERVER_H

#include "tools/perftest/perftest.h"

/* Serves a cache node, questions on the control port, and plain UCP loops (each in a process of
 * its own), until a signal, or until the first client has gone (without -k). */
int perf_serve(const perf_options_t *options);

#endif
