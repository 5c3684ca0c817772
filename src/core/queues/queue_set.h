/* A set of queues, by id: those that a batch or a publisher has had to do with. It only grows, and also names queues
 * that are gone: ids are never reused. The api asks it whether a credential that covers some queues only may use the
 * batch (api/reach.h).
 *
 * A set of more than QUEUE_SET_MAX queues, and one that an older version did not write down, is open: it may hold any
 * queue.
 *
 * Up to QUEUE_SET_FEW ids stand in the set itself. O(log queues) to find; to add, that and a move of the ids above. */
#ifndef TALLY_CORE_QUEUES_QUEUE_SET_H
#define TALLY_CORE_QUEUES_QUEUE_SET_H

#include "base/buffer.h"
#include "base/cursor.h"

#define QUEUE_SET_MAX 1000u
#define QUEUE_SET_FEW 2u

/* All zeros: an empty set. */
struct queue_set {
    uint32_t few[QUEUE_SET_FEW];
    uint32_t count;
    bool is_open;
    uint32_t *many_owned; /* all of them, once there are more than QUEUE_SET_FEW; room for the next power of two */
};

void queue_set_deinit(struct queue_set *set);

/* The ids, rising; `set->count` of them. None of an open set. */
const uint32_t *queue_set_ids(const struct queue_set *set);

/* Is the queue in it? An open set holds every queue. */
bool queue_set_has(const struct queue_set *set, uint32_t queue);

/* False: it was there. */
bool queue_set_add(struct queue_set *set, uint32_t queue);

/* From now on it may hold any queue. */
void queue_set_open(struct queue_set *set);

/* u32 count (2^32 - 1: open), then the ids, rising. */
void queue_set_encode(const struct queue_set *set, struct buffer *out);

/* Into an empty set. False if it is none of ids up to `id_max`. */
bool queue_set_decode(struct queue_set *set, uint32_t id_max, struct cursor *cursor);

#endif
