/* A group: the messages of one queue that share a MessageGroupId, in the order of their sequence numbers.
 *
 * On a FIFO queue it is a line: only a run from its head can be delivered. On a standard queue it is a tenant: any
 * deliverable message may go, at most GroupConcurrency at once. In both cases, a group with something to deliver is in
 * one of its message list's rings, and other groups are in none. So a receive never meets them (invariants O4, O9).
 *
 * Only group_settle() decides where a group is. Every change of its messages, its hold, its pause or its rate bucket
 * ends there. A group lives while it has messages, a hold, a pause, or a bucket that is not full (O11). */
#ifndef TALLY_CORE_ORDER_GROUP_H
#define TALLY_CORE_ORDER_GROUP_H

#include "base/heap.h"
#include "base/list.h"
#include "core/messages/message.h"
#include "core/messages/message_extra.h"

struct core;

#define GROUP_ID_SIZE_MAX 128u

/* Rings of a message list: two for each priority, quiet tenants before noisy ones; after them, the groups that an
 * operator stopped. */
#define RING_READY_COUNT (2u * (PRIORITY_MAX + 1u))
#define RING_HELD RING_READY_COUNT
#define RING_PAUSED (RING_READY_COUNT + 1u)
#define RING_COUNT (RING_READY_COUNT + 2u)
#define RING_NONE 255u

struct ring {
    uint32_t first; /* group slots */
    uint32_t last;
};

/* Members used by each delivery come first: with a million groups, each group costs one cache line. */
struct group {
    uint64_t number;       /* unique, ascending in order of creation */
    struct bytes id_owned; /* empty: a single message that is a tenant of its own */
    uint32_t message_list;
    uint32_t first; /* message slots, by sequence */
    uint32_t last;
    uint32_t cursor; /* standard: every fresh message is at this one or after it in the line; 0: none is left */
    uint32_t count;
    uint32_t in_flight_count;
    uint32_t waiting_count;
    uint32_t ring_prev;
    uint32_t ring_next;
    uint8_t ring;
    bool is_live; /* false: a freed slot */
    bool is_line; /* of a FIFO queue */
    bool is_held;
    bool is_paused;
    uint32_t inserted;           /* the newest message that was inserted into it, or the one before; 0: none is known */
    uint64_t cancelled_sequence; /* messages up to here are cancelled */
    struct list_link draining_link; /* linked: it has cancelled messages to end */
    uint64_t entered_at;            /* its ring: the newest message number at that time */
    uint64_t entered_at_ms;         /* and the time */
    uint64_t since_ms;              /* held: since when; else since when its head is in flight */
    uint64_t rate_tat_us;           /* theoretical arrival time of the next delivery (GCRA); 0: the bucket is full */
    uint32_t timer_index;           /* in the core's heap of group timers */
    struct heap returned;           /* standard: deliverable again, by sequence of acceptance */
    struct bytes reason_owned;      /* of the hold */
};

static inline struct group *group_at(const struct slab *groups, uint32_t slot)
{
    ASSERT(slot != 0);
    return slab_at(groups, slot);
}

/* May be asked of a freed record. */
POISON_MAY_LOOK static inline bool group_is_used(const struct group *group)
{
    return group->is_live;
}

/* The group with that id on a message list, or 0. */
uint32_t group_find(const struct core *core, uint32_t message_list, struct bytes id);

/* The same, made if there is none. An empty id always makes one. */
uint32_t group_open(struct core *core, uint32_t message_list, struct bytes id);

/* Given two messages of one group: is the first before the other? By sequence number; if a redriven one found no number
 * of its own, by the messages' numbers. */
bool group_stands_before(const struct core *core, uint32_t one, uint32_t other);

/* For decode: adds a group with that number; its place in a ring; a message by its sequence number. False if another
 * message wrongly has the same one. The search goes backwards from the message `start`, which comes after it; 0: from
 * the end. */
uint32_t group_create(struct core *core, uint32_t message_list, struct bytes id, uint64_t number);
void group_enter_ring(struct core *core, uint32_t group, unsigned ring);
void group_leave_ring(struct core *core, uint32_t group);
bool group_insert(struct core *core, uint32_t group, uint32_t message, uint32_t start);

/* A timer runs while the bucket holds a message back, or is the only reason to keep the group. */
void group_set_timer(struct core *core, uint32_t group);

/* Puts a message that has an extra and no state at the end of a group's line, with the next sequence number. */
void group_link(struct core *core, uint32_t group, uint32_t message);

/* Removes the message; the group is forgotten if nothing keeps it. The message has no state any more. */
void group_unlink(struct core *core, uint32_t message);

/* For core_enter_state and core_leave_state: the group's part of it. */
void group_enter_state(struct core *core, uint32_t message);
void group_leave_state(struct core *core, uint32_t message);

/* Puts the group into the ring where it belongs, if any; to the end of that ring if it was served. Forgets a group that
 * nothing keeps: do not use it afterwards. */
void group_settle(struct core *core, uint32_t group, bool was_served);

/* The next message of the group that may be delivered, or 0. */
uint32_t group_next_deliverable(const struct core *core, uint32_t group);

/* The first message of this message's run in the line, among those whose leases are over by now, too. It must be
 * returned first, whatever the messages' numbers are: the numbers of dead letters do not give their order. */
uint32_t group_first_lapsed(const struct core *core, uint32_t message);

/* With a strict order: the attempt of this message is over, so the later ones of its run come back after it. */
void group_fence_behind(struct core *core, uint32_t message);

/* Counts a delivery against the group's rate. */
void group_count_delivery(struct core *core, uint32_t group);

/* Has the group's bucket a token? */
bool group_has_token(const struct core *core, const struct group *group);

/* The ring in which a message of this priority competes as a tenant of its own. */
static inline unsigned group_quiet_ring(unsigned priority)
{
    return 2 * (PRIORITY_MAX - priority);
}

/* The first group of the best ring of a message list, or of the ring that has waited longest; 0: none is ready. */
uint32_t group_choose(const struct core *core, uint32_t message_list, bool is_longest_waiting);

/* Moves the message list's pauses to a new one. */
void group_move_pauses(struct core *core, uint32_t from, uint32_t to);

/* The message list has lost its queue: forgets groups that only a pause or a bucket kept. The messages are ended in
 * portions. */
void group_drop_all(struct core *core, uint32_t message_list);

/* The slots of a message list's groups, or of all groups (message list 0), in order of creation; the caller frees them.
 * Searches the groups of all message lists until it has found as many as the list has: O(1) if it has none. */
uint32_t *group_list_all(const struct core *core, uint32_t message_list, uint32_t *count);

/* Settles all groups of a message list and their buckets again, after the queue's settings changed. As
 * group_list_all(). */
void group_settle_all(struct core *core, uint32_t message_list);

/* Are the group's own data consistent: its hold, its cancelled messages, its ring? */
bool group_is_sound(const struct core *core, uint32_t group);

/* Asserts that, and every link and count. O(messages of the group). */
void group_check(const struct core *core, uint32_t group);

#endif
