/* The queues that the caller covers, in order of name. A pattern such as orders-* is a range of names, so the walk goes
 * from range to range and meets no other queue. Only names that a pattern may fit behind its first * are held against
 * the patterns; how many, is bounded. Private to src/api. */
#ifndef TALLY_API_QUEUE_WALK_H
#define TALLY_API_QUEUE_WALK_H

#include "api/action.h"

/* What one walk may cost: a visit for each name that it looks at, and more with long patterns. Some 5 ms. */
#define QUEUE_WALK_VISITS_MAX 100000u

struct queue_walk {
    const struct call *call;
    struct bytes prefix; /* of all names; borrowed */
    size_t index;        /* the place, among the names, from which it goes on */
    unsigned visits;     /* that are left */
    bool is_past;        /* no pattern fits a later name */
};

/* From place `index` on, or from the first name with the prefix if that is later. */
void queue_walk_begin(struct queue_walk *walk, const struct call *call, struct bytes prefix, size_t index);

/* The next one, at place index - 1. NULL: the walk is over, or it has no visits left. */
const struct queue *queue_walk_next(struct queue_walk *walk);

/* Is no name left to look at? */
bool queue_walk_is_over(const struct queue_walk *walk);

/* The name from which the walk goes on, for a token. The caller may not know that name or its size: it ends with zeros
 * and always has the same size. And: back. */
struct bytes queue_walk_seal_name(const struct queue_walk *walk, struct arena *arena);
struct bytes queue_walk_open_name(struct bytes name);

#endif
