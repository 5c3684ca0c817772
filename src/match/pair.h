/* Do two tickets fit; does a whole group? The one place that knows what rules mean; indexes only save asking. Pure. */
#ifndef TALLY_MATCH_PAIR_H
#define TALLY_MATCH_PAIR_H

#include "match/entry.h"

enum pair_verdict {
    PAIR_FITS = 0,
    PAIR_RULE,       /* `rule` does not hold */
    PAIR_NEED_FIRST, /* the second fails what the first needs */
    PAIR_NEED_SECOND,
    PAIR_EXCLUSIVE, /* both are of one exclusive set */
    PAIR_DEAR,      /* of groups only: the check was given up at `work_max` */
    /* of groups only: all fit, but no division into teams was found; `rule` is the first team_near, or rule_count */
    PAIR_TEAMS,
};

struct pair_check {
    enum pair_verdict verdict;
    uint32_t rule;
    uint32_t expression_errors; /* adds up over checks */
    uint64_t work;              /* the same: what they took, about an instruction of an expression each */
    uint64_t work_max;          /* group_fits() gives up beyond; 0: never */
};

/* What a check of ordinary rules takes: one step of all that is bounded in steps. What counts besides are expressions,
 * sets, pairs and needs, by their sizes. It depends on the entries alone, so that all machines stop at the same
 * place. */
#define PAIR_WORK_A_STEP 16u

/* Checks exclusive set, rules in order, needs, at the levels that the entries have. True if they fit. Fills *check,
 * whose expression_errors and work the caller has set. Allocates nothing. O(rules + needs). */
bool pair_fits(const struct rules *rules, const struct entry *a, const struct entry *b, struct pair_check *check);

/* The bound of a near or share rule for two levels; RULE_OFF: it is off. */
double pair_bound(const struct rule *rule, uint32_t level_a, uint32_t level_b);

/* The budget that group_fits() gives group_divide(). */
#define GROUP_PLACES_MAX 40000u

/* Do the members, which all fit each other, fill the teams: a division with the right weights, for which the team rules
 * hold? Writes the team of each. Goes through the divisions in order, the first member's team changing last, and takes
 * the first that holds. It puts a member into a team at most half of `*budget` times; if that does not reach, it goes
 * from the first division, or one with the heaviest placed first, on to better ones, for what is left of the budget.
 * *budget sinks by what was done; a whole division costs O(count x team rules) besides. Without teams: is the weight
 * right? */
bool group_divide(const struct rules *rules, const struct entry *const *members, uint32_t count, uint8_t *teams,
                  uint32_t *budget);

/* What each of the times that a member is put into a team takes, as pair_check.work counts. */
uint32_t group_division_work(const struct rules *rules);

/* The whole check of a proposal: every pair, then the teams, unless that is too much work. For Verify. */
bool group_fits(const struct rules *rules, const struct entry *const *members, uint32_t count, uint8_t *teams,
                struct pair_check *check);

#endif
