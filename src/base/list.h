/* SPDX-License-Identifier: BSD-3-Clause */
/* Intrusive doubly linked list. The head is a kvl_list_t too; an initialised node is its own list. */
#ifndef KVL_BASE_LIST_H
#define KVL_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct kvl_list {
    struct kvl_list *next, *prev;
} kvl_list_t;

/* by void *: the object was aligned when its member was taken, which -Wcast-align cannot know */
#define kvl_container(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void kvl_list_init(kvl_list_t *list)
{
    list->next = list->prev = list;
}

static inline bool kvl_list_empty(const kvl_list_t *list)
{
    return list->next == list;
}

static inline void kvl_list_push_back(kvl_list_t *head, kvl_list_t *node)
{
    node->prev       = head->prev;
    node->next       = head;
    head->prev->next = node;
    head->prev       = node;
}

static inline void kvl_list_push_front(kvl_list_t *head, kvl_list_t *node)
{
    kvl_list_push_back(head->next, node);
}

/* leaves the node initialised, so that removing twice is harmless */
static inline void kvl_list_remove(kvl_list_t *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    kvl_list_init(node);
}

/* NULL if empty */
static inline kvl_list_t *kvl_list_pop_front(kvl_list_t *head)
{
    kvl_list_t *node = head->next;

    if (node == head) {
        return NULL;
    }
    kvl_list_remove(node);
    return node;
}

/* moves all of @a from to the end of @a to */
static inline void kvl_list_splice_back(kvl_list_t *to, kvl_list_t *from)
{
    if (kvl_list_empty(from)) {
        return;
    }
    from->next->prev = to->prev;
    to->prev->next   = from->next;
    from->prev->next = to;
    to->prev         = from->prev;
    kvl_list_init(from);
}

#endif
