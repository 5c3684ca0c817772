/* Typed messages: the position of each unfinished message with a type in its group, and who waits for whom. Private to
 * src/core.
 *
 * A group here is a MessageGroupId of the namespace, whatever queues its messages are in. It has a lane for each type
 * with unfinished messages, by number; for each type whose success a message of it needs; and for each type of which it
 * remembers a success. No edges are stored: a blocked message is in only one heap, that of the lowest type that blocks
 * it. It is checked again when the first message of that type ends (or one succeeds). It then moves to the next type
 * that blocks it, or is released. A type that has stopped blocking a message never blocks it again, so a message moves
 * at most once for each type: O(types * log n) for its whole life. */
#ifndef TALLY_CORE_ORDER_TYPE_LANE_H
#define TALLY_CORE_ORDER_TYPE_LANE_H

#include "core/state.h"

struct type_group {
    uint64_t mask;         /* types that it has a lane for */
    uint64_t busy;         /* types that it has unfinished messages of */
    uint32_t *lanes_owned; /* in order of their types */
    struct bytes id_owned; /* NULL: a freed slot */
};

struct type_lane {
    uint64_t number; /* unique; it says nothing */
    uint32_t group;
    uint32_t first; /* unfinished messages (typed slots), by number */
    uint32_t last;
    uint32_t memory_index; /* in the heap of memories */
    uint64_t wanted_count; /* messages of the group that were accepted lacking a success of this type */
    uint64_t success_mark; /* the newest message number when one last succeeded: earlier messages have what they need */
    uint64_t success_at_ms;       /* of the remembered success */
    uint64_t remembered_until_ms; /* when it stops counting; 0: nothing to remember */
    uint64_t epoch;               /* the type's when it succeeded */
    struct heap waiting;          /* messages that the first one here blocks, by number */
    struct heap wanting;          /* messages that wait for a success of this type, by number */
    uint8_t type;
};

struct typed {
    uint64_t number; /* of the message */
    uint64_t waits;  /* types before its own that had unfinished messages when it was accepted */
    uint64_t wants;  /* types that must come before and had not succeeded then */
    uint32_t message;
    uint32_t lane;
    uint32_t prev; /* in the lane */
    uint32_t next;
    uint32_t heap_index; /* in `waiting` or `wanting` of the lane that blocks it; 0: nothing blocks it */
    uint32_t blocker;    /* that lane */
    bool is_wanting;
};

static inline struct type_group *type_group_at(const struct core *core, uint32_t slot)
{
    ASSERT(slot != 0);
    return slab_at(&core->type_orders.groups, slot);
}

/* May be asked of a freed record. */
POISON_MAY_LOOK static inline bool type_group_is_used(const struct type_group *group)
{
    return group->id_owned.ptr != NULL;
}

static inline struct type_lane *type_lane_at(const struct core *core, uint32_t slot)
{
    ASSERT(slot != 0);
    return slab_at(&core->type_orders.lanes, slot);
}

static inline struct typed *typed_at(const struct core *core, uint32_t slot)
{
    ASSERT(slot != 0);
    return slab_at(&core->type_orders.typed, slot);
}

/* The lowest type of a mask that is not 0. */
static inline unsigned type_lowest(uint64_t mask)
{
    ASSERT(mask != 0);
    return (unsigned)__builtin_ctzll(mask);
}

static inline uint64_t type_bit(unsigned type)
{
    ASSERT(type < TYPES_MAX);
    return UINT64_C(1) << type;
}

/* The group with that id, or 0; the same, but made if there is none. It is freed when it has no lane. */
uint32_t type_group_find(const struct core *core, struct bytes id);
uint32_t type_group_open(struct core *core, struct bytes id);
void type_group_settle(struct core *core, uint32_t group);

/* The group's lane for a type, or 0; the same, but made if there is none. It is freed when nothing keeps it. */
uint32_t type_lane_find(const struct type_group *group, unsigned type);
uint32_t type_lane_open(struct core *core, uint32_t group, unsigned type);
void type_lane_settle(struct core *core, uint32_t lane);

/* Does the lane remember a success that still counts? */
bool type_lane_remembers(const struct core *core, const struct type_lane *lane);

/* The lane keeps a success until that time. */
void type_lane_remember(struct core *core, uint32_t lane, uint64_t success_at_ms, uint64_t until_ms);

/* Adds a message to the end of its lane, and counts the successes that it needs; its extra then names the record. */
struct typed *typed_add(struct core *core, uint32_t lane, uint32_t message, uint64_t waits, uint64_t wants);

/* Puts it into the heap of the lane that blocks it. False: nothing blocks it. */
bool typed_block(struct core *core, struct typed *typed);

#endif
