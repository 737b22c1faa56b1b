/* SPDX-License-Identifier: BSD-3-Clause */
#include "lane/private.h"

#include "base/alloc.h"
#include "base/error.h"

/* Buffers of powers of two, kept when idle; all together at most bytes_max. An idle buffer that is too
 * small makes place for a larger one. */

#define BOUNCE_MIN (64u << 10)

static size_t bounce_round(size_t size)
{
    size_t rounded = BOUNCE_MIN;

    while (rounded < size) {
        rounded *= 2;
    }
    return rounded;
}

void kvl_bounces_init(kvl_bounces_t *bounces, uint64_t bytes_max)
{
    *bounces = (kvl_bounces_t){.bytes_max = bytes_max};
    kvl_list_init(&bounces->idle);
}

static void bounce_free(kvl_bounces_t *bounces, kvl_bounce_t *bounce)
{
    kvl_list_remove(&bounce->link);
    bounces->bytes -= bounce->size;
    kvl_free(bounce);
}

void kvl_bounces_cleanup(kvl_bounces_t *bounces)
{
    while (!kvl_list_empty(&bounces->idle)) {
        bounce_free(bounces, kvl_container(bounces->idle.next, kvl_bounce_t, link));
    }
}

/* the smallest idle one that is large enough */
static kvl_bounce_t *bounce_find(const kvl_bounces_t *bounces, size_t size)
{
    kvl_bounce_t *best = NULL;
    kvl_list_t *node;

    for (node = bounces->idle.next; node != &bounces->idle; node = node->next) {
        kvl_bounce_t *bounce = kvl_container(node, kvl_bounce_t, link);

        if (bounce->size >= size && (!best || bounce->size < best->size)) {
            best = bounce;
        }
    }
    return best;
}

kvl_status_t kvl_bounce_get(kvl_bounces_t *bounces, size_t size, kvl_bounce_t **bounce_p)
{
    kvl_bounce_t *bounce = bounce_find(bounces, size);

    if (!bounce) {
        size = bounce_round(size);
        while (bounces->bytes + size > bounces->bytes_max && !kvl_list_empty(&bounces->idle)) {
            bounce_free(bounces, kvl_container(bounces->idle.next, kvl_bounce_t, link));
        }
        if (bounces->bytes + size > bounces->bytes_max && bounces->busy > 0) {
            return KVL_ERR_BUSY;
        }
        bounce = kvl_malloc(sizeof(*bounce) + size);
        if (!bounce) {
            return bounces->busy > 0
                       ? KVL_ERR_BUSY
                       : kvl_error(KVL_ERR_NO_MEMORY, "bounce buffer: %zu bytes", size);
        }
        bounce->size = size;
        kvl_list_init(&bounce->link);
        bounces->bytes += size;
    }
    kvl_list_remove(&bounce->link);
    bounces->busy++;
    *bounce_p = bounce;
    return KVL_OK;
}

void kvl_bounce_put(kvl_bounces_t *bounces, kvl_bounce_t *bounce)
{
    bounces->busy--;
    kvl_list_push_front(&bounces->idle, &bounce->link);
}
