/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/alloc.h"

#include "base/fault.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static atomic_long live_objects; /* atomic; a zero static works before any setup */

static void *alloc_count(void *memory)
{
    if (memory) {
        atomic_fetch_add_explicit(&live_objects, 1, memory_order_relaxed);
    }
    return memory;
}

/* 0 bytes give a block too, so that NULL always means failure */
void *kvl_malloc(size_t size)
{
    if (kvl_fault_fails(KVL_FAULT_ALLOC)) {
        return NULL;
    }
    return alloc_count(malloc(size ? size : 1));
}

/* the product is checked here: a sanitizer's calloc() ends the process when it wraps */
void *kvl_calloc(size_t count, size_t size)
{
    size_t total;

    if (kvl_fault_fails(KVL_FAULT_ALLOC) || __builtin_mul_overflow(count, size, &total)) {
        return NULL;
    }
    return alloc_count(calloc(1, total ? total : 1));
}

void *kvl_realloc(void *old, size_t size)
{
    if (!old) {
        return kvl_malloc(size);
    }
    if (kvl_fault_fails(KVL_FAULT_ALLOC)) {
        return NULL;
    }
    return realloc(old, size ? size : 1);
}

char *kvl_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy  = kvl_malloc(size);

    if (copy) {
        memcpy(copy, text, size);
    }
    return copy;
}

void kvl_free(void *memory)
{
    if (memory) {
        atomic_fetch_sub_explicit(&live_objects, 1, memory_order_relaxed);
        free(memory);
    }
}

long kvl_live_objects(void)
{
    return atomic_load_explicit(&live_objects, memory_order_relaxed);
}
