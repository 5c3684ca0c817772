/* A walk along the messages of a queue, oldest first, that touches none of them: for the pages of a list. Between two
 * pages a walk is its place, which needs no memory here: messages may come, end and move meanwhile. Pure. */
#ifndef TALLY_CORE_MESSAGES_MESSAGE_WALK_H
#define TALLY_CORE_MESSAGES_MESSAGE_WALK_H

#include "core/messages/explain.h"
#include "match/ordered.h"

/* How many messages one page looks at. If a filter fits few, a page may hold fewer than it could, or none. */
#define MESSAGE_WALK_VISITS_MAX 10000u

/* Behind the last message that was looked at. Zeros: the start. */
struct message_place {
    uint64_t counted_from_ms; /* of that message, and its number */
    uint64_t number;
    uint64_t arrival; /* the number of the last one that was sent to the queue, not moved */
};

struct message_walk {
    const struct core *core;
    struct message_place place;
    uint32_t arrival; /* the next of each kind: a slot, 0: none is left */
    struct ordered_cursor moved;
    bool is_lost; /* the messages around the place have ended, and the search for the next one is not over */
};

/* Goes to `place`. With is_lost, there is nothing to see this time: begin again at walk->place, which has moved on. */
void message_walk_begin(struct message_walk *walk, const struct core *core, const struct queue *queue,
                        struct message_place place);

/* The slot of the next message, 0: there is none. Only while no event is applied. O(1). */
uint32_t message_walk_next(struct message_walk *walk);
bool message_walk_is_over(const struct message_walk *walk);

/* For a walk that acts on what it finds. Call the first before message_walk_next(): it passes over arrivals behind
 * message `newest`. And the second after the message that was found last has ended or was moved: the walk goes on. */
void message_walk_limit(struct message_walk *walk, uint64_t newest);
void message_walk_refresh(struct message_walk *walk, const struct queue *queue);

/* When the retention began of the oldest message that a receive could be given now, if neither a pause nor a rate of
 * the queue kept it back; UINT64_MAX: there is none. Where groups have something to give, it is looked for from the
 * queue's oldest message on, along *visits messages at most, which are taken off. If that is not enough, *is_exact is
 * false: it is that of a message whose group has waited for its turn for long, and there may be an older one.
 * Amortised O(1 + visits). */
uint64_t message_walk_deliverable_since_ms(struct core *core, const struct queue *queue, unsigned *visits,
                                           bool *is_exact);

/* Which messages of a queue are meant; of zeros, all. */
struct message_filter {
    bool has_condition;
    enum message_condition condition;
    struct bytes group;      /* MessageGroupId; empty: any */
    struct bytes reason;     /* the newest failure begins with it; empty: any */
    uint32_t batch;          /* slot; 0: any */
    uint64_t sent_before_ms; /* 0: any */
    uint64_t sent_after_ms;  /* or then; 0: any */
};

bool message_filter_takes(const struct message_filter *filter, const struct core *core, const struct queue *queue,
                          uint32_t message);

#endif
