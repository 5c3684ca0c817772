#include "match/pair.h"

#include "base/assert.h"
#include "match/expression.h"

#include <math.h>

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
    /* Off is below everything: of the two the stricter is the other one, or off if that is off too. */
    return rule->type == RULE_SHARE || is_off ? high : low;
}

static bool expression_fits(const struct expression *expression, const struct entry *a, const struct entry *b,
                            struct pair_check *check)
{
    enum expression_result result = expression_holds(expression, a->facts, b->facts);
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

/* A rule of two values, which are both there. `bound` is that of the pair, for near and share. */
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
    return values_fit(rule, rules->attributes[rule->attribute].type, x, y, bound);
}

bool pair_fits(const struct rules *rules, const struct entry *a, const struct entry *b, struct pair_check *check)
{
    ASSERT(a->level < RULES_LEVELS_MAX && b->level < RULES_LEVELS_MAX);
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
    check->verdict = PAIR_NEED_FIRST;
    if (a->facts->need_count != 0 && !facts_meet(a->facts, b->facts, NULL))
        return false;
    check->verdict = PAIR_NEED_SECOND;
    if (b->facts->need_count != 0 && !facts_meet(b->facts, a->facts, NULL))
        return false;
    check->verdict = PAIR_FITS;
    return true;
}

/* --- groups ------------------------------------------------------------------------------------------------------- */

/* Do the teams' means differ by at most the bound? */
static bool team_rule_holds(const struct rules *rules, const struct rule *rule, const struct entry *const *members,
                            uint32_t count, const uint8_t *teams)
{
    double sums[RULES_TEAMS_MAX] = {0};
    double low = INFINITY, high = -INFINITY;
    for (uint32_t i = 0; i < count; i++) {
        const struct fact *fact = facts_at(members[i]->facts, rule->attribute);
        if (!fact->is_there)
            return rule->may_be_missing;
        sums[teams[i]] += fact->number * members[i]->weight;
    }
    for (uint32_t team = 0; team < rules->team_count; team++) {
        double mean = sums[team] / rules->teams[team].size;
        low = mean < low ? mean : low;
        high = mean > high ? mean : high;
    }
    return high - low <= rule->bound[0];
}

static bool team_rules_hold(const struct rules *rules, const struct entry *const *members, uint32_t count,
                            const uint8_t *teams)
{
    for (uint32_t i = 0; i < rules->rule_count; i++)
        if (rules->rules[i].type == RULE_TEAM_NEAR && !team_rule_holds(rules, &rules->rules[i], members, count, teams))
            return false;
    return true;
}

/* Two teams of one size that are both empty are the same team: only the first of them is worth a try. */
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

/* Goes through the divisions in order: the first member's team changes last. */
static bool search_division(const struct rules *rules, const struct entry *const *members, uint32_t count,
                            uint8_t *teams, uint32_t *budget)
{
    uint32_t left[RULES_TEAMS_MAX];
    uint32_t placed = 0, team = 0;
    for (uint32_t i = 0; i < rules->team_count; i++)
        left[i] = rules->teams[i].size;
    for (;;) {
        team = find_team(rules, left, members[placed]->weight, team);
        if (team < rules->team_count) {
            if (*budget == 0)
                return false;
            (*budget)--;
            teams[placed] = (uint8_t)team;
            left[team] -= members[placed]->weight;
            team = 0;
            if (++placed < count)
                continue;
            if (team_rules_hold(rules, members, count, teams))
                return true;
        }
        if (placed == 0)
            return false;
        placed--;
        left[teams[placed]] += members[placed]->weight;
        team = teams[placed] + 1u;
    }
}

bool group_divide(const struct rules *rules, const struct entry *const *members, uint32_t count, uint8_t *teams,
                  uint32_t *budget)
{
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
    return search_division(rules, members, count, teams, budget);
}

/* Where the teams' rules begin; without any, behind the last rule. */
static uint32_t first_team_rule(const struct rules *rules)
{
    uint32_t rule = 0;
    while (rule < rules->rule_count && rules->rules[rule].type != RULE_TEAM_NEAR)
        rule++;
    return rule;
}

bool group_fits(const struct rules *rules, const struct entry *const *members, uint32_t count, uint8_t *teams,
                struct pair_check *check)
{
    uint32_t budget = GROUP_PLACES_MAX;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = i + 1; j < count; j++)
            if (!pair_fits(rules, members[i], members[j], check))
                return false;
    bool is_divided = group_divide(rules, members, count, teams, &budget);
    check->verdict = is_divided ? PAIR_FITS : PAIR_TEAMS;
    check->rule = is_divided ? 0 : first_team_rule(rules);
    return is_divided;
}
