/* A walk: the candidates of a look, of one priority class, one after the other, from all its streams in one order:
 * outwards from a number, nearest first, or upwards by sort key; then by number. A candidate that stands in several
 * streams comes once.
 *
 * To continue later, a walk needs only its last step on each side, even if tickets have changed meanwhile: an entry
 * before that step was visited already, or is new and a seed itself. */
#ifndef TALLY_MATCH_WALK_H
#define TALLY_MATCH_WALK_H

#include "match/ticket_index.h"

/* How far the walk has come on one side. */
struct walk_mark {
    bool is_set;
    uint64_t sort_key;
    uint64_t number;
};

struct walk_marks {
    struct walk_mark up, down;
};

struct candidate {
    uint32_t slot;
    uint64_t sort_key;
    uint64_t number;
    double distance; /* outwards: from the center; INFINITY: has no number. Upwards 0 */
    bool is_down;    /* met on the lower side */
};

/* One stream on one side. */
struct walk_head {
    struct ordered_cursor cursor; /* nowhere: it has ended */
    struct ordered_cursor first;  /* downwards: the lowest number at the cursor's sort key */
    uint64_t bucket;              /* with the class */
    uint64_t end;                 /* the last sort key that belongs to it */
    uint64_t sort_key, number;    /* at the cursor */
};

struct walk {
    const struct ordered *ordered;
    bool is_outward;
    double center;
    struct walk_marks marks;       /* the last candidates that were taken */
    struct walk_head *heads_owned; /* those that go up, then those that go down; ended ones leave */
    uint32_t up_count, down_count, capacity;
    bool has_next;
    struct candidate next;
};

/* The memory of `walk` (zeroed at first) is used again. `center`: NULL: upwards. `marks`: where to go on behind. Good
 * until the ordered set changes. */
void walk_start(struct walk *walk, const struct ticket_index *index, const struct streams *streams, uint32_t class,
                const double *center, const struct walk_marks *marks);
void walk_deinit(struct walk *walk);

/* The next candidate; false: there is none. It stays the next until it is taken. */
static inline bool walk_peek(const struct walk *walk, struct candidate *candidate)
{
    *candidate = walk->next;
    return walk->has_next;
}
void walk_take(struct walk *walk);

#endif
