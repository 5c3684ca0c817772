/* A group: the messages of one queue that share a MessageGroupId, in the order of their sequence numbers.
 *
 * On a FIFO queue it is a line: only a run from its head can be delivered. On a standard queue it is a tenant: whatever
 * is deliverable may go, at most GroupConcurrency at once. Either way a group that can deliver something stands in one
 * of its message list's rings, and one that can't in none, so a receive never meets it (invariants O4, O9).
 *
 * The one place that decides where a group stands is group_settle(); whatever changes a message of it, its hold, its
 * pause or its rate bucket ends there. A group lives while it has messages, a hold, a pause, or a bucket that is not
 * full (O11). */
#ifndef TALLY_CORE_ORDER_GROUP_H
#define TALLY_CORE_ORDER_GROUP_H

#include "base/heap.h"
#include "base/list.h"
#include "core/messages/message.h"
#include "core/messages/message_extra.h"

struct core;

#define GROUP_ID_SIZE_MAX 128u

/* Rings of a message list: two for each priority, quiet tenants before noisy ones; behind them the groups that a person
 * stopped. */
#define RING_READY_COUNT (2u * (PRIORITY_MAX + 1u))
#define RING_HELD RING_READY_COUNT
#define RING_PAUSED (RING_READY_COUNT + 1u)
#define RING_COUNT (RING_READY_COUNT + 2u)
#define RING_NONE 255u

struct ring {
    uint32_t first; /* group slots */
    uint32_t last;
};

/* What each delivery touches stands first: with a million groups a line of cache is what a group costs. */
struct group {
    uint64_t number;       /* unique, rising in order of creation */
    struct bytes id_owned; /* empty: a single message that is a tenant of its own */
    uint32_t message_list;
    uint32_t first; /* message slots, by sequence */
    uint32_t last;
    uint32_t cursor; /* standard: no fresh message stands before it in the line; 0: none is left */
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
    uint32_t inserted; /* the newest message that was put in the midst of it, or the one before; 0: none is known */
    uint64_t cancelled_sequence;    /* messages up to here are cancelled */
    struct list_link draining_link; /* linked: it has cancelled messages to be ended */
    uint64_t entered_at;            /* its ring: the newest message number then */
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

/* The group of that id on a message list, or 0. */
uint32_t group_find(const struct core *core, uint32_t message_list, struct bytes id);

/* The same, made if there is none. An empty id always makes one. */
uint32_t group_open(struct core *core, uint32_t message_list, struct bytes id);

/* Of two messages of one group: does the first stand before the other? By sequence number; where a redriven one found
 * no number of its own, by the messages' numbers. */
bool group_stands_before(const struct core *core, uint32_t one, uint32_t other);

/* For decode: one with that number; its place in a ring; a message by its sequence number, false if another one has it
 * that may not. The search
 * goes backwards from the message `start`, which stands behind it; 0: from the end. */
uint32_t group_create(struct core *core, uint32_t message_list, struct bytes id, uint64_t number);
void group_enter_ring(struct core *core, uint32_t group, unsigned ring);
void group_leave_ring(struct core *core, uint32_t group);
bool group_insert(struct core *core, uint32_t group, uint32_t message, uint32_t start);

/* A timer runs while the bucket keeps a message back, or while it is all that keeps the group. */
void group_set_timer(struct core *core, uint32_t group);

/* Puts a message that has an extra and no state at the end of a group's line, with the next sequence number. */
void group_link(struct core *core, uint32_t group, uint32_t message);

/* Takes it out; the group is forgotten if nothing keeps it. The message has no state any more. */
void group_unlink(struct core *core, uint32_t message);

/* For core_enter_state and core_leave_state: the group's share of it. */
void group_enter_state(struct core *core, uint32_t message);
void group_leave_state(struct core *core, uint32_t message);

/* Puts the group into the ring where it belongs, if any; behind all others there if it was served. Forgets a group that
 * nothing keeps: it must not be used afterwards. */
void group_settle(struct core *core, uint32_t group, bool was_served);

/* The next message of the group that may be delivered, or 0. */
uint32_t group_next_deliverable(struct core *core, uint32_t group);

/* Of those in its line whose leases are over as well by now, in one run with this message: the first. It is to be given
 * back first, whatever the messages' numbers: those of dead letters say nothing of their places. */
uint32_t group_first_lapsed(const struct core *core, uint32_t message);

/* With a strict order: the attempt that holds this message is over, so the later ones of its run come back behind
 * it. */
void group_fence_behind(struct core *core, uint32_t message);

/* A delivery is counted against the group's rate. */
void group_count_delivery(struct core *core, uint32_t group);

/* Has the group's bucket a token? */
bool group_has_token(const struct core *core, const struct group *group);

/* The ring that a message of this priority competes in as a tenant of its own. */
static inline unsigned group_quiet_ring(unsigned priority)
{
    return 2 * (PRIORITY_MAX - priority);
}

/* The first group of the best ring of a message list, or of the one that has waited longest; 0: none is ready. */
uint32_t group_choose(const struct core *core, uint32_t message_list, bool is_longest_waiting);

/* The message list's pauses go over to a new one. */
void group_move_pauses(struct core *core, uint32_t from, uint32_t to);

/* The message list has lost its queue: what only a pause or a bucket kept goes. The messages are ended in portions. */
void group_drop_all(struct core *core, uint32_t message_list);

/* The slots of a message list's groups, or of all (message list 0), in order of creation; the caller's. Looks through
 * the groups of all message lists until it has found those that there are: O(1) if there are none. */
uint32_t *group_list_all(const struct core *core, uint32_t message_list, uint32_t *count);

/* All groups of a message list are looked at again, and their buckets, after the queue's settings changed. As
 * group_list_all(). */
void group_settle_all(struct core *core, uint32_t message_list);

/* Does the group agree with itself: its hold, its cancelled messages, the ring it stands in? */
bool group_is_sound(const struct core *core, uint32_t group);

/* Asserts that, and every link and count. O(messages of the group). */
void group_check(const struct core *core, uint32_t group);

#endif
