#include "match/pair.h"

#include "base/assert.h"
#include "match/expression.h"

#include <math.h>

/* --- bounds ------------------------------------------------------------------------------------------------------- */

/* The bound that asks more: the smaller distance, the greater number in common. */
static double stricter(const struct rule *rule, double a, double b)
{
    return (rule->type == RULE_SHARE) == (a > b) ? a : b;
}

double pair_bound(const struct rule *rule, uint32_t level_a, uint32_t level_b)
{
    double a = rule->bound[level_a], b = rule->bound[level_b];
    if (a == b)
        return a;
    if (a == RULE_OFF || b == RULE_OFF) /* it is off for one of them */
        return rule->is_either ? RULE_OFF : a == RULE_OFF ? b : a;
    double strict = stricter(rule, a, b);
    return !rule->is_either ? strict : strict == a ? b : a;
}

/* --- rules -------------------------------------------------------------------------------------------------------- */

static bool facts_equal(enum attribute_type type, const struct fact *a, const struct fact *b)
{
    switch (type) {
    case ATTRIBUTE_NUMBER:
        return a->number == b->number;
    case ATTRIBUTE_TEXT:
        return fact_text_equal(&a->text, &b->text);
    case ATTRIBUTE_SET:
        break;
    }
    return a->set.count == b->set.count && fact_set_common(&a->set, &b->set) == a->set.count;
}

static bool is_allowed(const struct rule *rule, struct bytes a, struct bytes b)
{
    for (uint32_t i = 0; i < rule->pair_count; i++) {
        const struct rule_pair *pair = &rule->pairs_owned[i];
        if ((bytes_equal(a, pair->first) && bytes_equal(b, pair->second)) ||
            (bytes_equal(b, pair->first) && bytes_equal(a, pair->second)))
            return true;
    }
    return false;
}

static bool expression_fits(const struct rule *rule, const struct facts *a, const struct facts *b,
                            struct pair_check *check)
{
    enum expression_result result = expression_holds(rule->expression_owned, a, b);
    if (result == EXPRESSION_TRUE)
        result = expression_holds(rule->expression_owned, b, a);
    check->expression_errors += result == EXPRESSION_ERROR;
    return result == EXPRESSION_TRUE;
}

/* A rule of two values, which are both there. `bound` is that of the pair, for near and share. */
static bool values_fit(const struct rule *rule, enum attribute_type type, const struct fact *a, const struct fact *b,
                       double bound)
{
    switch (rule->type) {
    case RULE_EQUAL:
        return facts_equal(type, a, b);
    case RULE_DIFFER:
        return !facts_equal(type, a, b);
    case RULE_PAIRS:
        return is_allowed(rule, a->text.bytes, b->text.bytes);
    case RULE_NEAR:
        return fabs(a->number - b->number) <= bound;
    case RULE_SHARE:
        return fact_set_common(&a->set, &b->set) >= bound;
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
    if (rule->type == RULE_TEAM_NEAR)
        return true; /* of whole groups: group_divide() */
    if (rule->type == RULE_EXPRESSION)
        return expression_fits(rule, a->facts, b->facts, check);
    double bound = 0;
    if (rule->type == RULE_NEAR || rule->type == RULE_SHARE) {
        bound = pair_bound(rule, a->level, b->level);
        if (bound == RULE_OFF)
            return true; /* whether or not the attribute is there */
    }
    const struct fact *mine = facts_at(a->facts, rule->attribute);
    const struct fact *theirs = facts_at(b->facts, rule->attribute);
    if (!mine->is_there || !theirs->is_there)
        return rule->may_be_missing;
    return values_fit(rule, rules->attributes[rule->attribute].type, mine, theirs, bound);
}

bool pair_fits(const struct rules *rules, const struct entry *a, const struct entry *b, struct pair_check *check)
{
    check->verdict = PAIR_EXCLUSIVE;
    if (a->exclusive_set != 0 && a->exclusive_set == b->exclusive_set)
        return false;
    check->verdict = PAIR_RULE;
    for (uint32_t i = 0; i < rules->rule_count; i++) {
        check->rule = i;
        if (!rule_fits(rules, &rules->rules[i], a, b, check))
            return false;
    }
    check->verdict = PAIR_NEED_FIRST;
    if (!facts_meet(a->facts, b->facts, NULL))
        return false;
    check->verdict = PAIR_NEED_SECOND;
    if (!facts_meet(b->facts, a->facts, NULL))
        return false;
    check->verdict = PAIR_FITS;
    return true;
}

/* --- groups ------------------------------------------------------------------------------------------------------- */

/* A division that is being tried: members up to the one that is placed next have their teams. */
struct division {
    const struct rules *rules;
    const struct entry *const *members;
    uint32_t count;
    uint8_t *teams;
    uint32_t room[RULES_TEAMS_MAX];
};

static bool means_are_near(const struct division *division, const struct rule *rule)
{
    double sums[RULES_TEAMS_MAX] = {0};
    for (uint32_t i = 0; i < division->count; i++) {
        const struct fact *fact = facts_at(division->members[i]->facts, rule->attribute);
        if (!fact->is_there)
            return rule->may_be_missing;
        sums[division->teams[i]] += fact->number * division->members[i]->weight;
    }
    double lowest = INFINITY, highest = -INFINITY;
    for (uint32_t team = 0; team < division->rules->team_count; team++) {
        double mean = sums[team] / division->rules->teams[team].size;
        lowest = mean < lowest ? mean : lowest;
        highest = mean > highest ? mean : highest;
    }
    return highest - lowest <= rule->bound[0];
}

static bool teams_fit(const struct division *division)
{
    const struct rules *rules = division->rules;
    for (uint32_t i = 0; i < rules->rule_count; i++)
        if (rules->rules[i].type == RULE_TEAM_NEAR && !means_are_near(division, &rules->rules[i]))
            return false;
    return true;
}

/* Would this team be a mere repetition: is an earlier one of its size as empty? */
static bool is_tried(const struct division *division, uint32_t team)
{
    const struct team *teams = division->rules->teams;
    for (uint32_t earlier = 0; earlier < team; earlier++)
        if (teams[earlier].size == teams[team].size && division->room[earlier] == teams[earlier].size &&
            division->room[team] == teams[team].size)
            return true;
    return false;
}

/* Puts members from `next` on into teams, the first team that has room first. At most RULES_WEIGHT_MAX deep. */
static bool place_from(struct division *division, uint32_t next, uint32_t *budget)
{
    if (next == division->count)
        return teams_fit(division);
    uint32_t weight = division->members[next]->weight;
    for (uint32_t team = 0; team < division->rules->team_count; team++) {
        if (division->room[team] < weight || is_tried(division, team))
            continue;
        if (*budget == 0)
            return false;
        (*budget)--;
        division->room[team] -= weight;
        division->teams[next] = (uint8_t)team;
        if (place_from(division, next + 1, budget))
            return true;
        division->room[team] += weight;
    }
    return false;
}

bool group_divide(const struct rules *rules, const struct entry *const *members, uint32_t count, uint8_t *teams,
                  uint32_t *budget)
{
    uint32_t weight = 0;
    for (uint32_t i = 0; i < count; i++)
        weight += members[i]->weight;
    memset(teams, 0, count);
    if (rules->weight == 0)
        return true;
    if (weight != rules->weight)
        return false;
    if (!rules->has_teams)
        return true;
    struct division division = {.rules = rules, .members = members, .count = count, .teams = teams};
    for (uint32_t team = 0; team < rules->team_count; team++)
        division.room[team] = rules->teams[team].size;
    return place_from(&division, 0, budget);
}

/* The first team rule, to name it; rule_count if there is none. */
static uint32_t team_rule(const struct rules *rules)
{
    uint32_t rule = 0;
    while (rule < rules->rule_count && rules->rules[rule].type != RULE_TEAM_NEAR)
        rule++;
    return rule;
}

bool group_fits(const struct rules *rules, const struct entry *const *members, uint32_t count, uint8_t *teams,
                struct pair_check *check)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = i + 1; j < count; j++)
            if (!pair_fits(rules, members[i], members[j], check))
                return false;
    uint32_t budget = GROUP_PLACES_MAX;
    check->verdict = PAIR_FITS;
    if (group_divide(rules, members, count, teams, &budget))
        return true;
    check->verdict = PAIR_TEAMS;
    check->rule = team_rule(rules);
    return false;
}
