/* An intrusive doubly linked list: the link lives in the record, so linking allocates nothing. O(1) each. */
#ifndef TALLY_BASE_LIST_H
#define TALLY_BASE_LIST_H

#include "base/assert.h"
#include <stdbool.h>
#include <stddef.h>

struct list_link {
    struct list_link *prev; /* NULL while in no list */
    struct list_link *next;
};

struct list {
    struct list_link head; /* a ring through the head */
};

static inline void list_init(struct list *list)
{
    list->head.prev = list->head.next = &list->head;
}

static inline bool list_is_empty(const struct list *list)
{
    return list->head.next == &list->head;
}

static inline bool list_is_linked(const struct list_link *link)
{
    return link->prev != NULL;
}

/* Appends a link that is in no list. */
static inline void list_append(struct list *list, struct list_link *link)
{
    ASSERT(link->prev == NULL && link->next == NULL);
    link->prev = list->head.prev;
    link->next = &list->head;
    list->head.prev->next = link;
    list->head.prev = link;
}

static inline void list_prepend(struct list *list, struct list_link *link)
{
    ASSERT(link->prev == NULL && link->next == NULL);
    link->prev = &list->head;
    link->next = list->head.next;
    list->head.next->prev = link;
    list->head.next = link;
}

/* Takes a link out of whatever list it is in. */
static inline void list_remove(struct list_link *link)
{
    ASSERT(link->prev != NULL && link->next != NULL);
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->prev = link->next = NULL;
}

/* The first link, or NULL. */
static inline struct list_link *list_first(const struct list *list)
{
    return list_is_empty(list) ? NULL : list->head.next;
}

/* The link after `link`, or NULL at the end. */
static inline struct list_link *list_next(const struct list *list, const struct list_link *link)
{
    return link->next == &list->head ? NULL : link->next;
}

#endif
