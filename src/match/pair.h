/* Decides whether two tickets fit, and whether a whole group does. Only this code knows what rules mean; indexes only
 * save calls. Pure. */
#ifndef TALLY_MATCH_PAIR_H
#define TALLY_MATCH_PAIR_H

#include "base/assert.h"
#include "match/entry.h"

enum pair_verdict {
    PAIR_FITS = 0,
    PAIR_RULE,       /* `rule` does not hold */
    PAIR_NEED_FIRST, /* the second fails what the first needs */
    PAIR_NEED_SECOND,
    PAIR_EXCLUSIVE, /* both are of one exclusive set */
    PAIR_DEAR,      /* for groups only: the check stopped at `work_max` */
    /* of groups only: all fit, but no division into teams was found; `rule` is the first team_near, or rule_count */
    PAIR_TEAMS,
};

struct pair_check {
    enum pair_verdict verdict;
    uint32_t rule;
    uint32_t expression_errors; /* adds up over checks */
    uint64_t work;              /* adds up as well: about one for each instruction of an expression */
    uint64_t work_max;          /* group_fits() gives up beyond; 0: never */
};

/* The work that one step covers: a check of ordinary rules. Expressions, sets, pairs and needs count on top, by their
 * sizes. The work depends on the entries alone, so all machines stop at the same point. */
#define PAIR_WORK_A_STEP 16u

/* Checks exclusive set, rules in order, needs, at the levels that the entries have. True if they fit. Fills *check,
 * whose expression_errors and work the caller has set. Allocates nothing. O(rules + needs). */
bool pair_fits(const struct rules *rules, const struct entry *a, const struct entry *b, struct pair_check *check);

/* What two tickets lack, so that a rule can't be judged: bits by attribute. */
struct pair_fault {
    bool is_error; /* an expression ended in an error, for lack of an attribute or by its arithmetic */
    uint32_t first_lacks;
    uint32_t second_lacks;
};
static_assert(RULES_ATTRIBUTES_MAX <= 32, "an attribute is a bit of pair_fault");

/* Says why a rule, which is not a team_near, rejects the two. All is 0 if it judged their values. For explaining. */
struct pair_fault pair_fault(const struct rule *rule, const struct entry *a, const struct entry *b);

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

/* The work of putting one member into a team, as pair_check.work counts it. */
uint32_t group_division_work(const struct rules *rules);

/* The whole check of a proposal: every pair, then the teams, unless that is too much work. For Verify. */
bool group_fits(const struct rules *rules, const struct entry *const *members, uint32_t count, uint8_t *teams,
                struct pair_check *check);

#endif
