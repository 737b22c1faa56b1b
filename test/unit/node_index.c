/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/shim.h"

#include "node/index.h"

#include <stdlib.h>
#include <string.h>

#define VALUES 50000

static kvl_value_t *value_new(const kvl_index_t *index, uint32_t number)
{
    kvl_value_t *value = calloc(1, sizeof(*value) + sizeof(number));

    memcpy(value->key, &number, sizeof(number));
    value->key_length = sizeof(number);
    value->hash       = kvl_index_hash(index, value->key, value->key_length);
    return value;
}

static kvl_value_t *find(const kvl_index_t *index, uint32_t number)
{
    return kvl_index_find(index, kvl_index_hash(index, &number, sizeof(number)), &number,
                          sizeof(number));
}

TEST(index_find, finds_what_is_in_it_and_nothing_else_while_it_grows)
{
    static kvl_value_t *values[VALUES];
    kvl_index_t index;
    uint32_t i, j;

    REQUIRE(kvl_index_init(&index, 42) == KVL_OK);
    for (i = 0; i < VALUES; i++) {
        values[i] = value_new(&index, i);
        kvl_index_insert(&index, values[i]);
        j = i * 2654435761u % (i + 1);
        REQUIRE(find(&index, j) == values[j]);
        REQUIRE(find(&index, i + 1) == NULL);
        if (i % 3 == 2) { /* one of three goes again */
            j = i - 1;
            kvl_index_remove(&index, values[j]);
            REQUIRE(find(&index, j) == NULL);
            kvl_index_insert(&index, values[j]);
        }
    }
    CHECK_EQ(index.count, VALUES);
    CHECK(index.mask + 1 >= VALUES / 2);
    for (i = 0; i < VALUES; i++) {
        REQUIRE(find(&index, i) == values[i]);
        kvl_index_remove(&index, values[i]);
        REQUIRE(find(&index, i) == NULL);
        free(values[i]);
    }
    CHECK_EQ(index.count, 0);
    kvl_index_cleanup(&index);
}

TEST(index_find, tells_keys_apart_that_are_a_part_of_each_other)
{
    kvl_index_t index;
    kvl_value_t *value;
    const uint8_t key[4] = {0, 0, 0, 0};

    REQUIRE(kvl_index_init(&index, 7) == KVL_OK);
    value = value_new(&index, 0);
    kvl_index_insert(&index, value);
    CHECK(kvl_index_find(&index, kvl_index_hash(&index, key, 3), key, 3) == NULL);
    CHECK(kvl_index_find(&index, value->hash, key, 3) == NULL);
    CHECK(kvl_index_find(&index, value->hash, key, 4) == value);
    kvl_index_remove(&index, value);
    free(value);
    kvl_index_cleanup(&index);
}

static void count_value(kvl_value_t *value, void *arg)
{
    (void)value;
    ++*(unsigned *)arg;
}

TEST(index_drain, hands_out_each_value_once_while_it_grows)
{
    kvl_index_t index;
    kvl_value_t *values[1100]; /* the table starts to grow at 1025, and is half moved here */
    unsigned drained = 0;
    uint32_t i;

    REQUIRE(kvl_index_init(&index, 42) == KVL_OK);
    for (i = 0; i < 1100; i++) {
        values[i] = value_new(&index, i);
        kvl_index_insert(&index, values[i]);
    }
    REQUIRE(index.old != NULL && index.old_at > 0);
    kvl_index_drain(&index, count_value, &drained);
    CHECK_EQ(drained, 1100);
    kvl_index_cleanup(&index);
    for (i = 0; i < 1100; i++) {
        free(values[i]);
    }
}
