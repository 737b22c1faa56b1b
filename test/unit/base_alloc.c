/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/shim.h"

#include "base/alloc.h"
#include "base/fault.h"

#include <stdint.h>
#include <string.h>

TEST(alloc_count, follows_every_block)
{
    long before = kvl_live_objects();
    void *a = kvl_malloc(10), *b = kvl_calloc(3, 5);
    char *c = kvl_strdup("text");

    CHECK_EQ(kvl_live_objects(), before + 3);
    CHECK_STR_EQ(c, "text");
    a = kvl_realloc(a, 1000);
    CHECK_EQ(kvl_live_objects(), before + 3);
    kvl_free(a);
    kvl_free(b);
    kvl_free(c);
    kvl_free(NULL);
    CHECK_EQ(kvl_live_objects(), before);
}

TEST(alloc_realloc, of_null_is_a_new_block)
{
    long before = kvl_live_objects();
    void *block = kvl_realloc(NULL, 8);

    CHECK(block != NULL);
    CHECK_EQ(kvl_live_objects(), before + 1);
    kvl_free(block);
}

TEST(alloc_calloc, zeroes_and_refuses_a_product_that_wraps)
{
    static const char zeros[15];
    long before          = kvl_live_objects();
    volatile size_t half = SIZE_MAX / 2;
    void *block          = kvl_calloc(3, 5);

    REQUIRE(block != NULL);
    CHECK_MEM_EQ(block, zeros, sizeof(zeros));
    kvl_free(block);
    CHECK(kvl_calloc(half, 4) == NULL);
    CHECK_EQ(kvl_live_objects(), before);
}

TEST(alloc_zero, gives_a_block)
{
    void *a = kvl_malloc(0), *b = kvl_calloc(0, 4), *c = kvl_calloc(4, 0);

    CHECK(a && b && c);
    kvl_free(a);
    kvl_free(b);
    kvl_free(c);
}

TEST(alloc_fault, fails_the_nth_call_of_any_kind)
{
    void *kept, *more;

    REQUIRE(kvl_fault_setup("alloc:fail@2,alloc:fail@4+", 0) == KVL_OK);
    kept = kvl_malloc(4);
    CHECK(kept != NULL);
    memcpy(kept, "abc", 4);
    CHECK(kvl_realloc(kept, 8) == NULL);
    CHECK_STR_EQ((char *)kept, "abc");
    more = kvl_calloc(1, 1);
    CHECK(more != NULL);
    CHECK(kvl_strdup("x") == NULL);
    CHECK(kvl_malloc(1) == NULL);
    CHECK_EQ(kvl_fault_hits(KVL_FAULT_ALLOC), 5);
    kvl_fault_setup(NULL, 0);
    kvl_free(kept);
    kvl_free(more);
}
