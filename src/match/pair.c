#include "match/pair.h"

#include "base/assert.h"
#include "match/expression.h"

#include <math.h>

/* How many pairs of a rule "pairs" are compared in the time of one instruction. */
#define PAIRS_AN_INSTRUCTION 4u

/* The work of putting a member into a team, including its share of summing a team rule over all members. */
#define DIVISION_WORK 4u
#define DIVISION_MEMBERS_AN_INSTRUCTION 4u

double pair_bound(const struct rule *rule, uint32_t level_a, uint32_t level_b)
{
    const double a = rule->bound[level_a], b = rule->bound[level_b];
    const double low = a < b ? a : b, high = a < b ? b : a;
    const bool is_off = low == RULE_OFF;
    if (rule->is_either) {
        if (is_off)
            return RULE_OFF;
        return rule->type == RULE_SHARE ? low : high;
    }
    /* RULE_OFF is below every bound: the stricter of the two is the other one, or off if both are off. */
    return rule->type == RULE_SHARE || is_off ? high : low;
}

static bool expression_fits(const struct expression *expression, const struct entry *a, const struct entry *b,
                            struct pair_check *check)
{
    enum expression_result result = expression_holds(expression, a->facts, b->facts, &check->work);
    check->expression_errors += result == EXPRESSION_ERROR;
    return result == EXPRESSION_TRUE;
}

static bool is_pair_of(const struct rule_pair *pair, const struct fact_text *first, const struct fact_text *second)
{
    return pair->first_hash == first->hash && pair->second_hash == second->hash &&
           bytes_equal(pair->first, first->bytes) && bytes_equal(pair->second, second->bytes);
}

static bool pairs_fit(const struct rule *rule, const struct fact_text *a, const struct fact_text *b)
{
    for (uint32_t i = 0; i < rule->pair_count; i++)
        if (is_pair_of(&rule->pairs_owned[i], a, b) || is_pair_of(&rule->pairs_owned[i], b, a))
            return true;
    return false;
}

/* Checks a rule on two present values. `bound` is that of the pair, for near and share. */
static bool values_fit(const struct rule *rule, enum attribute_type type, const struct fact *a, const struct fact *b,
                       double bound)
{
    switch (rule->type) {
    case RULE_NEAR:
        return fabs(a->number - b->number) <= bound;
    case RULE_SHARE:
        return fact_set_common(&a->set, &b->set) >= bound;
    case RULE_PAIRS:
        return pairs_fit(rule, &a->text, &b->text);
    case RULE_EQUAL:
        return fact_equal(type, a, b);
    case RULE_DIFFER:
        return !fact_equal(type, a, b);
    case RULE_EXPRESSION:
    case RULE_TEAM_NEAR:
        break;
    }
    ASSERT(false);
    return false;
}

/* The extra work of a rule, by the sizes of its values. */
static uint64_t values_work(const struct rule *rule, enum attribute_type type, const struct fact *a,
                            const struct fact *b)
{
    if (rule->type == RULE_PAIRS)
        return rule->pair_count / PAIRS_AN_INSTRUCTION;
    return type == ATTRIBUTE_SET ? fact_set_work(&a->set, &b->set) : 0;
}

static bool rule_fits(const struct rules *rules, const struct rule *rule, const struct entry *a, const struct entry *b,
                      struct pair_check *check)
{
    double bound = 0;
    if (rule->type == RULE_EXPRESSION)
        return expression_fits(rule->expression_owned, a, b, check) &&
               expression_fits(rule->expression_owned, b, a, check);
    if (rule->type == RULE_TEAM_NEAR)
        return true; /* of whole groups: group_divide() */
    if (rule->type == RULE_NEAR || rule->type == RULE_SHARE) {
        bound = pair_bound(rule, a->level, b->level);
        if (bound == RULE_OFF)
            return true; /* whether or not the attribute is there */
    }
    const struct fact *x = facts_at(a->facts, rule->attribute), *y = facts_at(b->facts, rule->attribute);
    if (!x->is_there || !y->is_there)
        return rule->may_be_missing;
    const enum attribute_type type = rules->attributes[rule->attribute].type;
    check->work += values_work(rule, type, x, y);
    return values_fit(rule, type, x, y, bound);
}

bool pair_fits(const struct rules *rules, const struct entry *a, const struct entry *b, struct pair_check *check)
{
    ASSERT(a->level < RULES_LEVELS_MAX && b->level < RULES_LEVELS_MAX);
    check->work += PAIR_WORK_A_STEP;
    check->verdict = PAIR_EXCLUSIVE;
    if (a->exclusive_set != 0 && a->exclusive_set == b->exclusive_set)
        return false;
    check->verdict = PAIR_RULE;
    for (uint32_t i = 0; i < rules->rule_count; i++) {
        if (rule_fits(rules, &rules->rules[i], a, b, check))
            continue;
        check->rule = i;
        return false;
    }
    check->work += a->facts->need_work + b->facts->need_work;
    check->verdict = PAIR_NEED_FIRST;
    if (a->facts->need_count != 0 && !facts_meet(a->facts, b->facts, NULL))
        return false;
    check->verdict = PAIR_NEED_SECOND;
    if (b->facts->need_count != 0 && !facts_meet(b->facts, a->facts, NULL))
        return false;
    check->verdict = PAIR_FITS;
    return true;
}

/* Adds what the expression lacks in one direction. */
static void add_fault(struct pair_fault *fault, const struct expression_fault *found, bool is_reverse)
{
    const uint32_t bit = found->is_missing ? 1u << found->attribute : 0;
    fault->is_error |= found->is_error;
    if (found->is_of_b != is_reverse)
        fault->second_lacks |= bit;
    else
        fault->first_lacks |= bit;
}

/* As rule_fits() goes: the second direction is not asked if the first one is plainly false. */
static struct pair_fault expression_pair_fault(const struct expression *expression, const struct entry *a,
                                               const struct entry *b)
{
    struct pair_fault fault = {false};
    uint64_t work = 0;
    if (expression_holds(expression, a->facts, b->facts, &work) == EXPRESSION_FALSE)
        return fault;
    const struct expression_fault forward = expression_fault(expression, a->facts, b->facts);
    const struct expression_fault reverse = expression_fault(expression, b->facts, a->facts);
    add_fault(&fault, &forward, false);
    add_fault(&fault, &reverse, true);
    return fault;
}

struct pair_fault pair_fault(const struct rule *rule, const struct entry *a, const struct entry *b)
{
    ASSERT(rule->type != RULE_TEAM_NEAR);
    if (rule->type == RULE_EXPRESSION)
        return expression_pair_fault(rule->expression_owned, a, b);
    const uint32_t bit = 1u << rule->attribute;
    return (struct pair_fault){
        .first_lacks = facts_at(a->facts, rule->attribute)->is_there ? 0 : bit,
        .second_lacks = facts_at(b->facts, rule->attribute)->is_there ? 0 : bit,
    };
}

/* --- groups ------------------------------------------------------------------------------------------------------- */

/* A division that is searched. */
struct division {
    const struct rules *rules;
    const struct entry *const *members;
    uint32_t count;
    uint8_t *teams; /* of the members */
    const struct rule *
        asked[RULES_MAX]; /* the team rules that apply: no member lacks the attribute in a way that switches them off */
    uint32_t asked_count;
};

/* The sums of one rule's numbers, by weight, of each team. */
struct team_sums {
    double of[RULES_TEAMS_MAX];
};

static double part_of(const struct division *division, const struct rule *rule, uint32_t member)
{
    const struct entry *entry = division->members[member];
    return facts_at(entry->facts, rule->attribute)->number * entry->weight;
}

static struct team_sums sum_teams(const struct division *division, const struct rule *rule)
{
    struct team_sums sums = {{0}};
    for (uint32_t i = 0; i < division->count; i++)
        sums.of[division->teams[i]] += part_of(division, rule, i);
    return sums;
}

/* By how much the teams' means differ. */
static double spread_of(const struct rules *rules, const struct team_sums *sums)
{
    double low = INFINITY, high = -INFINITY;
    for (uint32_t team = 0; team < rules->team_count; team++) {
        double mean = sums->of[team] / rules->teams[team].size;
        low = mean < low ? mean : low;
        high = mean > high ? mean : high;
    }
    return high - low;
}

static bool team_rules_hold(const struct division *division)
{
    for (uint32_t i = 0; i < division->asked_count; i++) {
        struct team_sums sums = sum_teams(division, division->asked[i]);
        if (!(spread_of(division->rules, &sums) <= division->asked[i]->bound[0]))
            return false;
    }
    return true;
}

/* Finds the rules that apply; false if one can't hold in any division. */
static bool find_asked(struct division *division)
{
    for (uint32_t i = 0; i < division->rules->rule_count; i++) {
        const struct rule *rule = &division->rules->rules[i];
        bool is_missing = false;
        if (rule->type != RULE_TEAM_NEAR)
            continue;
        for (uint32_t member = 0; member < division->count; member++)
            is_missing |= !facts_at(division->members[member]->facts, rule->attribute)->is_there;
        if (is_missing && !rule->may_be_missing)
            return false;
        if (!is_missing)
            division->asked[division->asked_count++] = rule;
    }
    return true;
}

/* Two empty teams of one size are equivalent: only the first is tried. */
static bool has_empty_twin(const struct rules *rules, const uint32_t *left, uint32_t team)
{
    const uint32_t size = rules->teams[team].size;
    if (left[team] != size)
        return false;
    for (uint32_t i = 0; i < team; i++)
        if (rules->teams[i].size == size && left[i] == size)
            return true;
    return false;
}

/* The next team from `team` on that the weight fits into; team_count: none. */
static uint32_t find_team(const struct rules *rules, const uint32_t *left, uint32_t weight, uint32_t team)
{
    while (team < rules->team_count && (left[team] < weight || has_empty_twin(rules, left, team)))
        team++;
    return team;
}

enum search_outcome { SEARCH_FOUND, SEARCH_NONE, SEARCH_TIRED };

/* Tries the divisions in order; the first member's team changes last. Keeps the first complete one in `first` and sets
 * *has_first. */
static enum search_outcome search_division(struct division *division, uint32_t *budget, uint8_t *first, bool *has_first)
{
    const struct rules *rules = division->rules;
    uint32_t left[RULES_TEAMS_MAX];
    uint32_t placed = 0, team = 0;
    for (uint32_t i = 0; i < rules->team_count; i++)
        left[i] = rules->teams[i].size;
    for (;;) {
        team = find_team(rules, left, division->members[placed]->weight, team);
        if (team < rules->team_count) {
            if (*budget == 0)
                return SEARCH_TIRED;
            (*budget)--;
            division->teams[placed] = (uint8_t)team;
            left[team] -= division->members[placed]->weight;
            team = 0;
            if (++placed < division->count)
                continue;
            if (team_rules_hold(division))
                return SEARCH_FOUND;
            if (!*has_first)
                memcpy(first, division->teams, division->count);
            *has_first = true;
        }
        if (placed == 0)
            return SEARCH_NONE;
        placed--;
        left[division->teams[placed]] += division->members[placed]->weight;
        team = division->teams[placed] + 1u;
    }
}

/* By how much all rules together are missed, each on its own scale. 0: they hold, up to rounding. */
static double missed_by(const struct division *division, const struct team_sums *sums, const double *scales)
{
    double missed = 0;
    for (uint32_t i = 0; i < division->asked_count; i++) {
        double over = spread_of(division->rules, &sums[i]) - division->asked[i]->bound[0];
        missed += over > 0 ? over / scales[i] : 0;
    }
    return missed;
}

static bool may_swap(const struct division *division, uint32_t a, uint32_t b)
{
    return division->teams[a] != division->teams[b] && division->members[a]->weight == division->members[b]->weight;
}

/* Swaps the teams of two members. */
static void swap_members(struct division *division, struct team_sums *sums, uint32_t a, uint32_t b)
{
    const uint8_t team_a = division->teams[a], team_b = division->teams[b];
    for (uint32_t i = 0; i < division->asked_count; i++) {
        double change = part_of(division, division->asked[i], b) - part_of(division, division->asked[i], a);
        sums[i].of[team_a] += change;
        sums[i].of[team_b] -= change;
    }
    division->teams[a] = team_b;
    division->teams[b] = team_a;
}

/* Swaps each two members of the same weight if that brings the teams nearer to the rules. True if all rules then hold.
 * Each pair checked costs one. */
static bool exchange_once(struct division *division, struct team_sums *sums, const double *scales, uint32_t *budget,
                          bool *is_nearer)
{
    double missed = missed_by(division, sums, scales);
    *is_nearer = false;
    const uint32_t pair_count = division->count * division->count;
    for (uint32_t pair = 0; pair<pair_count && * budget> 0; pair++) {
        const uint32_t a = pair / division->count, b = pair % division->count;
        (*budget)--;
        if (b <= a || !may_swap(division, a, b))
            continue;
        swap_members(division, sums, a, b);
        double now = missed_by(division, sums, scales);
        if (!(now < missed)) {
            swap_members(division, sums, a, b);
            continue;
        }
        missed = now;
        *is_nearer = true;
        if (missed == 0 && team_rules_hold(division))
            return true;
    }
    return false;
}

/* For groups with too many divisions to try: improves the given one. If no swap improves it, swaps two members anyway,
 * others each time, and continues until the budget ends. */
static bool balance_division(struct division *division, uint32_t *budget)
{
    struct team_sums sums[RULES_MAX];
    double scales[RULES_MAX];
    uint32_t kick = 0;
    bool is_nearer;
    for (uint32_t i = 0; i < division->asked_count; i++) {
        sums[i] = sum_teams(division, division->asked[i]);
        scales[i] = spread_of(division->rules, &sums[i]);
        scales[i] = scales[i] > 0 ? scales[i] : 1;
    }
    while (*budget > 0) {
        if (exchange_once(division, sums, scales, budget, &is_nearer))
            return true;
        for (uint32_t swaps = 0; !is_nearer && swaps < 2; swaps++, kick++) {
            const uint32_t a = kick * 7 % division->count,
                           b = (kick * 11 + 1 + kick / division->count) % division->count;
            if (may_swap(division, a, b))
                swap_members(division, sums, a, b);
        }
    }
    return false;
}

/* Divides by weight alone, the heaviest first: for groups where the search in order ends with parties that fit
 * nowhere. */
static bool divide_by_weight(const struct division *division, uint8_t *teams, uint32_t *budget)
{
    const struct entry *sorted[RULES_WEIGHT_MAX];
    uint8_t places[RULES_WEIGHT_MAX], sorted_teams[RULES_WEIGHT_MAX], ignored[RULES_WEIGHT_MAX];
    bool has_first = false;
    for (uint32_t i = 0; i < division->count; i++) {
        uint32_t at = i;
        for (; at > 0 && sorted[at - 1]->weight < division->members[i]->weight; at--) {
            sorted[at] = sorted[at - 1];
            places[at] = places[at - 1];
        }
        sorted[at] = division->members[i];
        places[at] = (uint8_t)i;
    }
    struct division bare = {
        .rules = division->rules, .members = sorted, .count = division->count, .teams = sorted_teams};
    if (search_division(&bare, budget, ignored, &has_first) != SEARCH_FOUND)
        return false;
    for (uint32_t i = 0; i < division->count; i++)
        teams[places[i]] = sorted_teams[i];
    return true;
}

bool group_divide(const struct rules *rules, const struct entry *const *members, uint32_t count, uint8_t *teams,
                  uint32_t *budget)
{
    struct division division = {.rules = rules, .members = members, .count = count, .teams = teams};
    uint8_t first[RULES_WEIGHT_MAX];
    bool has_first = false;
    uint32_t weight = 0;
    ASSERT(count <= RULES_WEIGHT_MAX);
    for (uint32_t i = 0; i < count; i++)
        weight += members[i]->weight;
    if (count == 0 || (rules->weight != 0 && weight != rules->weight))
        return false;
    if (!rules->has_teams) {
        memset(teams, 0, count);
        return true;
    }
    if (!find_asked(&division))
        return false;
    /* Half of the budget is reserved for the case of too many divisions. */
    uint32_t kept = *budget / 2;
    *budget -= kept;
    enum search_outcome outcome = search_division(&division, budget, first, &has_first);
    *budget += kept;
    if (outcome != SEARCH_TIRED)
        return outcome == SEARCH_FOUND;
    if (!has_first && !divide_by_weight(&division, first, budget))
        return false;
    memcpy(teams, first, count);
    return team_rules_hold(&division) || balance_division(&division, budget);
}

uint32_t group_division_work(const struct rules *rules)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < rules->rule_count; i++)
        count += rules->rules[i].type == RULE_TEAM_NEAR;
    return DIVISION_WORK + count * (rules->weight + rules->team_count) / DIVISION_MEMBERS_AN_INSTRUCTION;
}

/* Where the teams' rules begin; without any, behind the last rule. */
static uint32_t first_team_rule(const struct rules *rules)
{
    uint32_t rule = 0;
    while (rule < rules->rule_count && rules->rules[rule].type != RULE_TEAM_NEAR)
        rule++;
    return rule;
}

static bool is_too_dear(struct pair_check *check)
{
    if (check->work_max == 0 || check->work <= check->work_max)
        return false;
    check->verdict = PAIR_DEAR;
    return true;
}

bool group_fits(const struct rules *rules, const struct entry *const *members, uint32_t count, uint8_t *teams,
                struct pair_check *check)
{
    uint32_t budget = GROUP_PLACES_MAX;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = i + 1; j < count; j++)
            if (!pair_fits(rules, members[i], members[j], check) || is_too_dear(check))
                return false;
    bool is_divided = group_divide(rules, members, count, teams, &budget);
    check->work += (uint64_t)(GROUP_PLACES_MAX - budget) * group_division_work(rules);
    check->verdict = is_divided ? PAIR_FITS : PAIR_TEAMS;
    check->rule = is_divided ? 0 : first_team_rule(rules);
    return is_divided;
}
