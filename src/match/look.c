#include "match/look.h"

#include "base/assert.h"
#include "base/budget.h"
#include "match/expression.h"
#include <math.h>

#define LOOK_DIVISIONS_MAX 64u /* of two tickets into teams: there are four at most */

/* Work beside the candidates: to seek the first entry of a stream, and to pass over heads and values of a set. */
#define LOOK_HEAD_WORK 4u
#define LOOK_COST_MAX (1u << 30)
#define LOOK_HEADS_AN_INSTRUCTION 4u
#define LOOK_VALUES_AN_INSTRUCTION 4u

POISON_MAY_LOOK bool matcher_has(const struct matcher *matcher, uint32_t slot)
{
    return matcher->generation != 0 && matcher_entry(matcher, slot)->generation == matcher->generation;
}

void look_begin(const struct matcher *matcher, struct look *look, uint32_t seed)
{
    look->seed = seed;
    look->class = PLAN_CLASSES - 1;
    look->visited = 0;
    look->is_proposal = false;
    look->choice = 0;
    look->choice_count = 0;
    look->values = ticket_index_values(&matcher->private_owned->index, matcher_entry(matcher, seed));
    look->marks = (struct walk_marks){.up = {.is_set = false}};
    uint64_t values = (uint64_t)__builtin_popcountll(look->values);
    matcher->private_owned->work += values * values / LOOK_VALUES_AN_INSTRUCTION;
}

uint32_t look_cost(struct matcher *matcher, uint32_t least)
{
    struct matcher_private *private = matcher->private_owned;
    uint64_t cost = private->work / PAIR_WORK_A_STEP;
    private->work = 0;
    return cost < least ? least : cost < LOOK_COST_MAX ? (uint32_t)cost : LOOK_COST_MAX;
}

void look_charge(struct matcher *matcher, uint32_t cost, uint32_t *budget)
{
    matcher->counters.cost += cost;
    budget_spend(budget, cost);
}

void look_count_opening(struct matcher *matcher, bool is_outward)
{
    struct matcher_private *private = matcher->private_owned;
    private->work += (uint64_t) private->streams.count * (is_outward ? 2 : 1) * LOOK_HEAD_WORK;
}

void look_count_heads(struct matcher *matcher)
{
    struct matcher_private *private = matcher->private_owned;
    private->work += (private->walk.up_count + private->walk.down_count) / LOOK_HEADS_AN_INSTRUCTION;
}

bool look_center(const struct matcher *matcher, const struct entry *seed, double *center)
{
    const struct plan *plan = &matcher->private_owned->index.plan;
    const struct rules *rules = matcher->rules;
    bool is_nearest =
        rules->pick == PICK_NEAREST && plan->has_sort_key && rules->pick_attribute == plan->sort_attribute;
    if (!plan->has_sort_key || (!is_nearest && rules->pick != PICK_FIRST))
        return false;
    const struct fact *fact = facts_at(seed->facts, plan->sort_attribute);
    *center = fact->is_there ? fact->number : 0;
    return fact->is_there;
}

bool look_is_in_order(const struct matcher *matcher, bool is_outward)
{
    enum pick pick = matcher->rules->pick;
    bool has_sort_key = matcher->private_owned->index.plan.has_sort_key;
    return is_outward || pick == PICK_FIRST || (pick == PICK_OLDEST && !has_sort_key);
}

static double look_distance(const struct entry *a, const struct entry *b, uint32_t attribute)
{
    const struct fact *x = facts_at(a->facts, attribute), *y = facts_at(b->facts, attribute);
    return x->is_there && y->is_there ? fabs(x->number - y->number) : INFINITY;
}

double look_rank(struct matcher *matcher, const struct entry *seed, const struct entry *other)
{
    const struct rules *rules = matcher->rules;
    double score;
    switch (rules->pick) {
    case PICK_NEAREST:
        return look_distance(seed, other, rules->pick_attribute);
    case PICK_SCORE:
        if (expression_number(rules->pick_score_owned, seed->facts, other->facts, &score,
                              &matcher->private_owned->work))
            return -score;
        matcher->counters.expression_errors++;
        return INFINITY;
    case PICK_OLDEST:
    case PICK_FIRST:
        break;
    }
    return 0;
}

bool look_fits(struct matcher *matcher, const struct entry *a, const struct entry *b)
{
    struct pair_check check = {.verdict = PAIR_FITS};
    bool fits = pair_fits(matcher->rules, a, b, &check);
    matcher->counters.expression_errors += check.expression_errors;
    matcher->private_owned->work += check.work;
    return fits;
}

static bool choice_is_before(const struct choice *a, const struct choice *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->number < b->number;
}

static void look_choose(struct look *look, uint32_t choices_max, const struct choice *choice)
{
    uint32_t at = look->choice_count;
    if (at == choices_max)
        at--;
    else
        look->choice_count++;
    for (; at > 0 && choice_is_before(choice, &look->choices[at - 1]); at--)
        look->choices[at] = look->choices[at - 1];
    look->choices[at] = *choice;
}

/* Are the two a whole match? */
static bool look_is_whole(const struct matcher *matcher, const struct entry *seed, const struct entry *other)
{
    if (!matcher->rules->has_teams)
        return seed->weight + other->weight == matcher->rules->weight;
    const struct entry *members[2] = {seed, other};
    uint8_t teams[2];
    uint32_t divisions = LOOK_DIVISIONS_MAX;
    return group_divide(matcher->rules, members, 2, teams, &divisions);
}

bool look_holds(struct matcher *matcher, const struct entry *seed, const struct choice *choice)
{
    if (!matcher_has(matcher, choice->slot))
        return false;
    const struct entry *other = matcher_entry(matcher, choice->slot);
    return other->number == choice->number && look_fits(matcher, seed, other) && look_is_whole(matcher, seed, other);
}

/* Keeps a candidate if it fits and is one of the best. */
static void look_consider(struct matcher *matcher, struct look *look, uint32_t choices_max, bool is_in_order,
                          const struct candidate *candidate)
{
    const struct entry *seed = matcher_entry(matcher, look->seed);
    bool is_full = look->choice_count == choices_max;
    struct choice choice = {
        .rank = is_in_order ? candidate->distance : 0, .number = candidate->number, .slot = candidate->slot};
    /* If only age counts, a younger candidate need not be checked. */
    bool is_by_age = matcher->rules->pick == PICK_OLDEST || matcher->rules->pick == PICK_FIRST;
    if (is_full && is_by_age && !choice_is_before(&choice, &look->choices[choices_max - 1]))
        return;
    const struct entry *other = matcher_entry(matcher, candidate->slot);
    if (!look_fits(matcher, seed, other) || !look_is_whole(matcher, seed, other))
        return;
    if (!is_in_order)
        choice.rank = look_rank(matcher, seed, other);
    if (!is_full || choice_is_before(&choice, &look->choices[choices_max - 1]))
        look_choose(look, choices_max, &choice);
}

/* The candidates of one class. LOOK_NOBODY: all of them were visited; LOOK_FOUND: no better ones can come. */
static enum look_end look_walk(struct matcher *matcher, struct look *look, uint32_t choices_max, uint32_t *budget)
{
    struct matcher_private *private = matcher->private_owned;
    double center;
    bool is_outward = look_center(matcher, matcher_entry(matcher, look->seed), &center);
    bool is_in_order = look_is_in_order(matcher, is_outward);
    walk_start(&private->walk, &private->index, &private->streams, look->class, is_outward ? &center : NULL,
               &look->marks);
    look_count_opening(matcher, is_outward);
    struct candidate candidate;
    enum look_end end = LOOK_NOBODY;
    while (walk_peek(&private->walk, &candidate)) {
        if (candidate.slot != look->seed) {
            if (is_in_order && look->choice_count == choices_max)
                return LOOK_FOUND;
            if (*budget == 0 || look->visited >= MATCHER_PROBE_MAX) {
                end = look->visited >= MATCHER_PROBE_MAX ? LOOK_STOPPED : LOOK_TIRED;
                break;
            }
            matcher->counters.candidates++;
            look_count_heads(matcher);
            look_consider(matcher, look, choices_max, is_in_order, &candidate);
            uint32_t cost = look_cost(matcher, 1);
            look->visited += cost;
            look_charge(matcher, cost, budget);
        }
        walk_take(&private->walk);
    }
    look->marks = private->walk.marks;
    return end;
}

/* A choice made before the caller paused may have gone or changed. Then a candidate that was passed over may be the
 * best. */
static void look_verify(struct matcher *matcher, struct look *look)
{
    const struct entry *seed = matcher_entry(matcher, look->seed);
    for (uint32_t i = 0; i < look->choice_count; i++) {
        const struct choice *choice = &look->choices[i];
        if (look_holds(matcher, seed, choice))
            continue;
        uint32_t visited = look->visited;
        look_begin(matcher, look, look->seed);
        look->visited = visited;
        return;
    }
}

enum look_end look_on(struct matcher *matcher, struct look *look, uint32_t choices_max, uint32_t *budget)
{
    struct matcher_private *private = matcher->private_owned;
    ASSERT(choices_max > 0 && choices_max <= LOOK_CHOICES_MAX);
    look_verify(matcher, look);
    ticket_index_streams(&private->index, matcher_entry(matcher, look->seed), look->values, &private->streams);
    for (;; look->class --, look->marks = (struct walk_marks){.up = {.is_set = false}}) {
        if (private->index.class_counts[look->class] > 0 && private->streams.count > 0) {
            enum look_end end = look_walk(matcher, look, choices_max, budget);
            /* The budget is used up and a fitting candidate is known: take it. */
            if (end == LOOK_STOPPED && look->choice_count > 0)
                end = LOOK_FOUND;
            if (end != LOOK_NOBODY)
                return end;
        }
        if (look->choice_count > 0)
            return LOOK_FOUND;
        if (look->class == 0)
            return LOOK_NOBODY;
    }
}
