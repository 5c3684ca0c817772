/* A message list: the messages of one queue, ordered for delivery and for expiry.
 *
 * Purging a queue gives it a new message list. The old one can't be reached any more, and logged `ended` events empty
 * it in portions. So a purge of ten million messages is as quick as one of ten.
 *
 * Messages of groups are on the message list like the others, but a receive finds them through its rings of groups
 * (group.h). The other messages are delivered oldest first. Messages never received are found by `cursor`, which only
 * moves forward along the list of arrivals and passes each message once. The others wait in the heap `returned`, by
 * number. Expiry is by age. The list of arrivals is in order of age. Messages moved here from another queue keep their
 * age, and are in the ordered set `moved`. */
#ifndef TALLY_CORE_MESSAGES_MESSAGE_LIST_H
#define TALLY_CORE_MESSAGES_MESSAGE_LIST_H

#include "base/heap.h"
#include "base/list.h"
#include "core/order/group.h"
#include "match/ordered.h"

struct message_list {
    uint64_t number; /* unique, decides ties between message lists */
    uint32_t queue;  /* slot of its queue; 0: it is being emptied */
    uint32_t first;  /* arrivals, oldest first: message slots */
    uint32_t last;
    uint32_t cursor; /* every fresh message without a group is at this one or after it; 0: none is left */
    struct heap returned;
    struct ring rings[RING_COUNT]; /* of groups, by what they have to deliver */
    uint32_t ring_bits;            /* 1 << ring for each ready ring that is not empty */
    struct ordered moved;          /* by the start of their retention, then by number */
    uint64_t count;                /* messages on it, in any state */
    uint64_t in_flight_count;
    uint64_t delayed_count; /* delayed or waiting */
    uint64_t waiting_count; /* of those, the waiting ones */
    uint32_t expiry_index;  /* in the core's heap of expiries */
    uint32_t group_count;   /* live groups of it, in a ring or in none */
    uint32_t held_count;    /* of those, the held ones: they are in RING_HELD */
    struct list_link draining_link;
};

/* May be asked of a freed record. A list that a snapshot is being read into may have no queue yet; it is not used
 * yet. */
POISON_MAY_LOOK static inline bool message_list_is_used(const struct message_list *list)
{
    return list->queue != 0 || list->count > 0;
}

void message_list_init(struct message_list *list, const struct slab *messages, uint64_t number, uint32_t queue);
void message_list_deinit(struct message_list *list);

/* Puts a message on the message list: a new one at the end of the arrivals; if it is_moved, by the start of its
 * retention. The caller sets the state afterwards with the message_list_* functions below. */
void message_list_link(struct message_list *list, struct slab *messages, uint32_t slot, uint64_t counted_from_ms);
/* Takes a message off the list, with the same time; it must be in no heap of states any more
 * (message_list_leave_state). */
void message_list_unlink(struct message_list *list, struct slab *messages, uint32_t slot, uint64_t counted_from_ms);

/* Gives a linked message without a state its state; timers belong to the core. O(log n) at most. */
void message_list_enter_state(struct message_list *list, struct heap *timers, struct slab *messages, uint32_t slot,
                              enum message_state state);
/* Takes its state away, so that it can get another one. */
void message_list_leave_state(struct message_list *list, struct heap *timers, struct slab *messages, uint32_t slot);

/* The oldest deliverable message without a group, or 0. Moves the cursor over messages that are no longer fresh:
 * amortised O(1). */
uint32_t message_list_next_deliverable(struct message_list *list, const struct slab *messages);

/* The message that was sent first, or 0. */
uint32_t message_list_oldest(const struct message_list *list, const struct slab *messages);

static inline uint64_t message_list_visible_count(const struct message_list *list)
{
    return list->count - list->in_flight_count - list->delayed_count;
}

/* Asserts every invariant of the message list, walking all its messages. */
void message_list_check(const struct message_list *list, const struct slab *messages, uint32_t message_list_slot);

#endif
