/* A look: the search for partners of one ticket, the seed, from its first candidate on to the last, or until it stops
 * at its budget and is kept, to be taken up again. Part of the matcher; nobody else includes this. */
#ifndef TALLY_MATCH_LOOK_H
#define TALLY_MATCH_LOOK_H

#include "match/matcher.h"
#include "match/walk.h"

#define LOOK_CHOICES_MAX 8u /* that are kept while a window is open; else only the best is */

/* A candidate that fits. The lower rank is the better one, then the lower number. */
struct choice {
    double rank;
    uint64_t number;
    uint32_t slot;
};

struct look {
    uint32_t seed;
    uint32_t class;   /* of the candidates it is at */
    uint32_t visited; /* steps of this part, towards MATCHER_PROBE_MAX */
    bool is_proposal; /* it is done, and stands in the window with choices[choice] */
    uint32_t choice;
    uint32_t choice_count;
    uint64_t values; /* ticket_index_values() */
    struct walk_marks marks;
    struct choice choices[LOOK_CHOICES_MAX]; /* in order */
};

struct gathering;

struct matcher_private {
    struct ticket_index index;
    struct pool looks;                 /* those that have stopped, and those with a proposal */
    struct streams streams;            /* memory for the look at hand */
    struct walk walk;                  /* the same */
    struct look look;                  /* the same */
    struct gathering *gathering_owned; /* the same, of groups; NULL: none was looked for yet */
    uint32_t fresh;     /* the newest entry, a seed that is not in the index yet: most are matched at once; 0: none */
    uint64_t work;      /* done and not charged yet, as pair_check.work counts */
    uint64_t stops;     /* puts looks that stopped in order */
    uint32_t parties;   /* entries with a weight above 1 */
    bool finds_pairs;   /* whole matches weigh 2 */
    uint64_t window_ms; /* 0: none */
    uint64_t window_ends_ms;  /* 0: no window is open */
    bool window_is_left;      /* all who waited for its end have been taken out: if it ends so, it was nobody's */
    struct ordered proposals; /* looks with a proposal, the best first: slots in `looks` */
};

enum look_end {
    LOOK_FOUND,    /* choices, or *group, are what it found */
    LOOK_NOBODY,   /* it has seen all candidates */
    LOOK_STOPPED,  /* at MATCHER_PROBE_MAX, without a fit */
    LOOK_TIRED,    /* the caller's budget is used up */
    LOOK_PROPOSED, /* found, and kept for the end of the window */
};

static inline struct entry *matcher_entry(const struct matcher *matcher, uint32_t slot)
{
    return (struct entry *)(void *)((char *)pool_at(matcher->records, slot) + matcher->entry_offset);
}

/* Makes a look that has seen nothing yet. */
void look_begin(const struct matcher *matcher, struct look *look, uint32_t seed);

/* Goes on with it, for a seed of a pool of pairs; keeps the best `choices_max`. */
enum look_end look_on(struct matcher *matcher, struct look *look, uint32_t choices_max, uint32_t *budget);

/* What was done since the last call, in steps; `least` if that is more. */
uint32_t look_cost(struct matcher *matcher, uint32_t least);

/* Takes so many steps off the caller's budget. */
void look_charge(struct matcher *matcher, uint32_t cost, uint32_t *budget);

/* The walk through a class has begun; a candidate of it was looked at: each head that it has is sought, or compared. */
void look_count_opening(struct matcher *matcher, bool is_outward);
void look_count_heads(struct matcher *matcher);

/* Where to walk outwards from; false: upwards. */
bool look_center(const struct matcher *matcher, const struct entry *seed, double *center);

/* Is the order in which the walk meets candidates that of pick? */
bool look_is_in_order(const struct matcher *matcher, bool is_outward);

/* How a fitting candidate ranks. */
double look_rank(struct matcher *matcher, const struct entry *seed, const struct entry *other);

/* Do the two fit? Counts the errors of expressions and the work. */
bool look_fits(struct matcher *matcher, const struct entry *a, const struct entry *b);

/* Is what was chosen for the seed still there, still the same ticket, and still a match with it: they fit, and fill the
 * teams? */
bool look_holds(struct matcher *matcher, const struct entry *seed, const struct choice *choice);

#endif
