/* SPDX-License-Identifier: BSD-3-Clause */
#include "node/evict.h"

void kvl_evict_init(kvl_evict_t *evict, const kvl_evict_ops_t *ops)
{
    evict->ops  = ops;
    evict->tick = 0;
    kvl_list_init(&evict->order);
}

static void lru_add(kvl_evict_t *evict, kvl_value_t *value)
{
    value->tick = ++evict->tick;
    kvl_list_push_back(&evict->order, &value->recent);
}

static void lru_remove(kvl_evict_t *evict, kvl_value_t *value)
{
    (void)evict;
    kvl_list_remove(&value->recent);
}

static void lru_touch(kvl_evict_t *evict, kvl_value_t *value)
{
    lru_remove(evict, value);
    lru_add(evict, value);
}

static kvl_value_t *lru_next(const kvl_evict_t *evict, const kvl_value_t *value)
{
    const kvl_list_t *from = value ? &value->recent : &evict->order;

    return from->next == &evict->order ? NULL : kvl_container(from->next, kvl_value_t, recent);
}

const kvl_evict_ops_t kvl_evict_lru = {
    .name   = "lru",
    .add    = lru_add,
    .touch  = lru_touch,
    .remove = lru_remove,
    .next   = lru_next,
};
