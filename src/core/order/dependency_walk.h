/* A walk along the messages that wait for a message or a batch, or are held because it did not succeed: for the pages
 * of a list. Those that have not been told of its end come first, in order of their numbers; then those that it holds,
 * in no order. Between two pages a walk is its place, which needs no memory here. Pure. */
#ifndef TALLY_CORE_ORDER_DEPENDENCY_WALK_H
#define TALLY_CORE_ORDER_DEPENDENCY_WALK_H

#include "core/order/dependency.h"

/* How many dependents one page looks at, and how many numbers and edges it tries to find the first one. */
#define DEPENDENCY_WALK_VISITS_MAX 10000u

/* Behind the dependent with that number. Zeros: the start. */
struct dependency_place {
    uint64_t number;
    bool is_told; /* it was one of those that are held */
};

struct dependency_walk {
    const struct core *core;
    struct dependency_place place;
    uint32_t antecedent; /* 0: nothing waits */
    uint32_t next;       /* edge; 0: none is left */
    bool is_lost;        /* the dependent of the place has gone, and the search for the next one is not over */
};

/* Goes to `place`. With is_lost, there is nothing to see this time: begin again at walk->place, which has moved on. If
 * the dependent of the place was held and is not any more, those that are held begin anew. */
void dependency_walk_begin(struct dependency_walk *walk, const struct core *core, enum antecedent_kind kind,
                           uint64_t number, struct dependency_place place);

/* The slot of the next dependent, 0: there is none. Only while no event is applied. O(1). */
uint32_t dependency_walk_next(struct dependency_walk *walk);

#endif
