/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/numa.h"

#include <errno.h>
#include <numaif.h>
#include <stdint.h>
#include <unistd.h>

#define WORD_BITS (8 * sizeof(unsigned long))
#define MAX_NODE  (KVL_NUMA_WORDS * WORD_BITS)

static bool node_mask(unsigned long nodes[KVL_NUMA_WORDS], int node)
{
    if (node < 0 || (size_t)node >= MAX_NODE - 1) {
        errno = EINVAL;
        return false;
    }
    nodes[(size_t)node / WORD_BITS] = 1ul << (size_t)node % WORD_BITS;
    return true;
}

bool kvl_numa_enter(kvl_numa_t *before, int node)
{
    unsigned long nodes[KVL_NUMA_WORDS] = {0};

    *before = (kvl_numa_t){.changed = false};
    before->changed = node_mask(nodes, node) && get_mempolicy(&before->mode, before->nodes, MAX_NODE, NULL, 0) == 0 &&
                      set_mempolicy(MPOL_PREFERRED, nodes, MAX_NODE) == 0;
    return before->changed;
}

void kvl_numa_leave(const kvl_numa_t *before)
{
    if (before->changed) {
        (void)set_mempolicy(before->mode, before->nodes, MAX_NODE);
    }
}

bool kvl_numa_bind(int node, void *address, size_t length)
{
    unsigned long nodes[KVL_NUMA_WORDS] = {0};
    size_t page                         = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t first                     = (uintptr_t)address / page * page;

    return node_mask(nodes, node) &&
           mbind((void *)first, (uintptr_t)address + length - first, MPOL_PREFERRED, nodes, MAX_NODE, 0) == 0;
}
