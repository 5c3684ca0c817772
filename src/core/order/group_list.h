/* Lists the groups of a queue, for operators. Only reads; the api makes the words. */
#ifndef TALLY_CORE_ORDER_GROUP_LIST_H
#define TALLY_CORE_ORDER_GROUP_LIST_H

#include "base/bytes.h"
#include <stdbool.h>
#include <stdint.h>

struct core;
struct queue;

enum group_condition {
    GROUP_ANY,    /* as a filter */
    GROUP_HELD,   /* waits for a person */
    GROUP_PAUSED, /* by an operator, and not held */
    GROUP_READY,  /* its next message can be received */
    GROUP_BUSY,   /* it has messages, but none can be received now */
};

struct group_view {
    struct bytes id; /* this and the reason: until the next decision */
    enum group_condition condition;
    bool is_paused;
    uint32_t message_count;
    uint32_t in_flight_count;
    uint64_t since_ms;    /* held: since when; 0: not held */
    struct bytes reason;  /* held: why */
    uint32_t head;        /* slot of the first of its messages; 0: it has none */
    uint64_t head_number; /* of that message */
    uint64_t position;    /* group_list() goes on there, so that this group is the next */
};

/* How many groups one call visits at most. */
#define GROUP_LIST_VISITS_MAX 10000u

/* The next groups in that condition, up to views_max of them, from *position on (0: the start); *position is then 0 if
 * there are no more. Held, paused and ready ones come in the order of their rings, the others in no order. A group that
 * changes meanwhile may be missed or appear twice; a page may be short. Tenants of one message, which have no id, are
 * left out. */
unsigned group_list(const struct core *core, const struct queue *queue, enum group_condition filter, uint64_t *position,
                    struct group_view *views, unsigned views_max);

/* The group with that id, if group_list would list it in that condition. O(1). */
bool group_view_find(const struct core *core, const struct queue *queue, struct bytes id, enum group_condition filter,
                     struct group_view *view);

/* How many groups of the queue are paused; max: so many, or more. O(max). */
unsigned group_count_paused(const struct core *core, const struct queue *queue, unsigned max);

/* What the group is now. */
enum group_condition group_condition(const struct core *core, uint32_t group);

#endif
