/* SPDX-License-Identifier: BSD-3-Clause */
/* Every allocation of the library goes through here, so that the n-th can be made to fail
 * (fault point "alloc") and live objects can be counted. No function aborts. */
#ifndef KVL_BASE_ALLOC_H
#define KVL_BASE_ALLOC_H

#include <stddef.h>

void *kvl_malloc(size_t size);
void *kvl_calloc(size_t count, size_t size); /* checks the product */
void *kvl_realloc(void *old, size_t size);   /* old stays valid on failure */
char *kvl_strdup(const char *text);
void kvl_free(void *memory);

/* blocks allocated and not freed; a test that ends with another number leaked */
long kvl_live_objects(void);

#endif
