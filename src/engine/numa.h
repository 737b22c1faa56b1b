/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory on a NUMA node: where it has room, else on the next. */
#ifndef KVL_ENGINE_NUMA_H
#define KVL_ENGINE_NUMA_H

#include <stdbool.h>
#include <stddef.h>

#define KVL_NUMA_WORDS 16

typedef struct {
    bool changed;
    int mode;
    unsigned long nodes[KVL_NUMA_WORDS];
} kvl_numa_t;

/* From here to leave what this thread makes and touches comes from @a node. false, and errno: it may not. */
bool kvl_numa_enter(kvl_numa_t *before, int node);
void kvl_numa_leave(const kvl_numa_t *before);
/* Pages of the range that nobody touched yet come from @a node, whoever touches them. false, and errno. */
bool kvl_numa_bind(int node, void *address, size_t length);

#endif
