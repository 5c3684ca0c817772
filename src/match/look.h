/* A look: one search for partners of a ticket, the seed. It visits the candidates from first to last. If its budget
 * ends before that, it is kept and continues later. Part of the matcher; nobody else includes this. */
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
    struct slab looks;                 /* those that have stopped, and those with a proposal */
    struct streams streams;            /* memory for the current look */
    struct walk walk;                  /* the same */
    struct look look;                  /* the same */
    struct gathering *gathering_owned; /* the same, for groups; NULL: not needed yet */
    uint32_t fresh;     /* the newest entry, a seed that is not in the index yet: most are matched at once; 0: none */
    uint64_t work;      /* done and not charged yet, as pair_check.work counts */
    uint64_t stops;     /* puts looks that stopped in order */
    uint32_t parties;   /* entries with a weight above 1 */
    bool finds_pairs;   /* complete matches weigh 2 */
    uint64_t window_ms; /* 0: none */
    uint64_t window_ends_ms; /* 0: no window is open */
    bool window_is_left; /* all entries that waited for its end have been removed: if it ends so, it does not count */
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
    return (struct entry *)(void *)((char *)slab_at(matcher->records, slot) + matcher->entry_offset);
}

/* Makes a look that has seen nothing yet. */
void look_begin(const struct matcher *matcher, struct look *look, uint32_t seed);

/* Continues a look for a seed of a pool of pairs; keeps the best `choices_max`. */
enum look_end look_on(struct matcher *matcher, struct look *look, uint32_t choices_max, uint32_t *budget);

/* The cost since the last call, in steps; at least `least`. */
uint32_t look_cost(struct matcher *matcher, uint32_t least);

/* Takes so many steps off the caller's budget. */
void look_charge(struct matcher *matcher, uint32_t cost, uint32_t *budget);

/* Counts the work when a walk through a class begins, and when a candidate of it is visited: each head is sought, or
 * compared. */
void look_count_opening(struct matcher *matcher, bool is_outward);
void look_count_heads(struct matcher *matcher);

/* The center of a walk outwards; false: the walk goes upwards. */
bool look_center(const struct matcher *matcher, const struct entry *seed, double *center);

/* Is the order in which the walk meets candidates that of pick? */
bool look_is_in_order(const struct matcher *matcher, bool is_outward);

/* How a fitting candidate ranks. */
double look_rank(struct matcher *matcher, const struct entry *seed, const struct entry *other);

/* Do the two fit? Counts the errors of expressions and the work. */
bool look_fits(struct matcher *matcher, const struct entry *a, const struct entry *b);

/* Is the choice still valid: is it the same ticket, does it fit the seed, and do both fill the teams? */
bool look_holds(struct matcher *matcher, const struct entry *seed, const struct choice *choice);

#endif
