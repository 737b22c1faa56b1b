/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/shim.h"

#include "base/list.h"
#include "base/ring.h"

#include <pthread.h>

typedef struct {
    int value;
    kvl_list_t node;
} thing_t;

static int value_of(kvl_list_t *node)
{
    return node ? kvl_container(node, thing_t, node)->value : -1;
}

static void fill(kvl_list_t *head, thing_t *things, int count)
{
    int i;

    kvl_list_init(head);
    for (i = 0; i < count; i++) {
        things[i].value = i;
        kvl_list_push_back(head, &things[i].node);
    }
}

TEST(list_pop, gives_what_was_pushed_in_order)
{
    kvl_list_t head;
    thing_t things[3], first = {.value = 9};

    fill(&head, things, 3);
    kvl_list_push_front(&head, &first.node);
    CHECK_EQ(value_of(kvl_list_pop_front(&head)), 9);
    CHECK_EQ(value_of(kvl_list_pop_front(&head)), 0);
    CHECK_EQ(value_of(kvl_list_pop_front(&head)), 1);
    CHECK_EQ(value_of(kvl_list_pop_front(&head)), 2);
    CHECK(kvl_list_pop_front(&head) == NULL);
    CHECK(kvl_list_empty(&head));
}

TEST(list_remove, is_harmless_twice)
{
    kvl_list_t head;
    thing_t things[3];

    fill(&head, things, 3);
    kvl_list_remove(&things[1].node);
    kvl_list_remove(&things[1].node);
    CHECK_EQ(value_of(kvl_list_pop_front(&head)), 0);
    CHECK_EQ(value_of(kvl_list_pop_front(&head)), 2);
    CHECK(kvl_list_empty(&head));
}

TEST(list_splice, moves_all_to_the_end)
{
    kvl_list_t a, b;
    thing_t in_a[2], in_b[2];

    fill(&a, in_a, 2);
    fill(&b, in_b, 2);
    in_b[0].value = 2;
    in_b[1].value = 3;
    kvl_list_splice_back(&a, &b);
    CHECK(kvl_list_empty(&b));
    kvl_list_splice_back(&a, &b);
    CHECK_EQ(value_of(kvl_list_pop_front(&a)), 0);
    CHECK_EQ(value_of(kvl_list_pop_front(&a)), 1);
    CHECK_EQ(value_of(kvl_list_pop_front(&a)), 2);
    CHECK_EQ(value_of(kvl_list_pop_front(&a)), 3);
    CHECK(kvl_list_empty(&a));
}

TEST(inbox_push, says_when_the_inbox_was_empty)
{
    kvl_inbox_t inbox;
    kvl_inbox_node_t a, b;

    kvl_inbox_init(&inbox);
    CHECK(kvl_inbox_empty(&inbox));
    CHECK(kvl_inbox_push(&inbox, &a));
    CHECK(!kvl_inbox_push(&inbox, &b));
    CHECK(!kvl_inbox_empty(&inbox));
    CHECK(kvl_inbox_take(&inbox) == &a);
    CHECK(a.next == &b && b.next == NULL);
    CHECK(kvl_inbox_take(&inbox) == NULL);
}

#define PUSHERS 3
#define PUSHES  2000

typedef struct {
    kvl_inbox_node_t node;
    int pusher, number;
} letter_t;

static kvl_inbox_t shared_inbox;
static letter_t letters[PUSHERS][PUSHES];

static void *push_all(void *arg)
{
    letter_t *mine = arg;
    int i;

    for (i = 0; i < PUSHES; i++) {
        kvl_inbox_push(&shared_inbox, &mine[i].node);
    }
    return NULL;
}

static void label_letters(void)
{
    int p, i;

    for (p = 0; p < PUSHERS; p++) {
        for (i = 0; i < PUSHES; i++) {
            letters[p][i].pusher = p;
            letters[p][i].number = i;
        }
    }
}

/* returns how many it took; every pusher's letters must come in their order */
static int take_all(int *next)
{
    kvl_inbox_node_t *node = kvl_inbox_take(&shared_inbox);
    int count              = 0;

    while (node) {
        letter_t *letter = kvl_container(node, letter_t, node);

        node = node->next;
        CHECK_EQ(letter->number, next[letter->pusher]);
        next[letter->pusher]++;
        count++;
    }
    return count;
}

TEST(inbox_take, keeps_the_order_of_each_pusher)
{
    pthread_t threads[PUSHERS];
    int next[PUSHERS] = {0};
    int p, taken = 0;

    kvl_inbox_init(&shared_inbox);
    label_letters();
    for (p = 0; p < PUSHERS; p++) {
        REQUIRE(pthread_create(&threads[p], NULL, push_all, letters[p]) == 0);
    }
    while (taken < PUSHERS * PUSHES) {
        taken += take_all(next);
    }
    for (p = 0; p < PUSHERS; p++) {
        pthread_join(threads[p], NULL);
        CHECK_EQ(next[p], PUSHES);
    }
    CHECK(kvl_inbox_empty(&shared_inbox));
}
