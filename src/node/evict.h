/* SPDX-License-Identifier: BSD-3-Clause */
/* In which order values make room for others. Only values that nobody leases are in the order. */
#ifndef KVL_NODE_EVICT_H
#define KVL_NODE_EVICT_H

#include "node/value.h"

typedef struct kvl_evict_ops kvl_evict_ops_t;

typedef struct {
    const kvl_evict_ops_t *ops;
    kvl_list_t order; /* first to go first */
    uint64_t tick;
} kvl_evict_t;

/* Engine thread; none may block or fail. */
struct kvl_evict_ops {
    const char *name;
    /* the value may be evicted from now on; it was just used */
    void (*add)(kvl_evict_t *evict, kvl_value_t *value);
    /* it was used, and stays */
    void (*touch)(kvl_evict_t *evict, kvl_value_t *value);
    /* it may not be evicted any more */
    void (*remove)(kvl_evict_t *evict, kvl_value_t *value);
    /* the first to go (after NULL), or the next one after @a value; NULL: there is none */
    kvl_value_t *(*next)(const kvl_evict_t *evict, const kvl_value_t *value);
};

/* the longest unused goes first */
extern const kvl_evict_ops_t kvl_evict_lru;

void kvl_evict_init(kvl_evict_t *evict, const kvl_evict_ops_t *ops);

static inline bool kvl_evict_may(const kvl_value_t *value)
{
    return !kvl_list_empty(&value->recent);
}

#endif
