/* SPDX-License-Identifier: BSD-3-Clause */
/* Inbox: many threads push intrusive nodes, one thread pops them all; lock free (a Treiber stack
 * that the consumer takes whole and reverses, so that order of pushes is kept per producer).
 * Unbounded, cannot fail: the nodes belong to the objects that are pushed. */
#ifndef KVL_BASE_RING_H
#define KVL_BASE_RING_H

#include <stdatomic.h>
#include <stdbool.h>

typedef struct kvl_inbox_node {
    struct kvl_inbox_node *next;
} kvl_inbox_node_t;

typedef struct {
    _Atomic(kvl_inbox_node_t *) top; /* atomic: any thread pushes, the engine thread swaps */
} kvl_inbox_t;

static inline void kvl_inbox_init(kvl_inbox_t *inbox)
{
    atomic_init(&inbox->top, (kvl_inbox_node_t *)0);
}

/* true if the inbox was empty: the consumer may need a wake-up */
static inline bool kvl_inbox_push(kvl_inbox_t *inbox, kvl_inbox_node_t *node)
{
    kvl_inbox_node_t *top = atomic_load_explicit(&inbox->top, memory_order_relaxed);

    do {
        node->next = top;
    } while (!atomic_compare_exchange_weak_explicit(&inbox->top, &top, node, memory_order_release,
                                                    memory_order_relaxed));
    return top == (kvl_inbox_node_t *)0;
}

static inline bool kvl_inbox_empty(kvl_inbox_t *inbox)
{
    return atomic_load_explicit(&inbox->top, memory_order_acquire) == (kvl_inbox_node_t *)0;
}

/* all nodes, oldest first, linked by next; NULL if empty */
static inline kvl_inbox_node_t *kvl_inbox_take(kvl_inbox_t *inbox)
{
    kvl_inbox_node_t *node =
        atomic_exchange_explicit(&inbox->top, (kvl_inbox_node_t *)0, memory_order_acquire);
    kvl_inbox_node_t *reversed = (kvl_inbox_node_t *)0;

    while (node) {
        kvl_inbox_node_t *next = node->next;

        node->next = reversed;
        reversed   = node;
        node       = next;
    }
    return reversed;
}

#endif
