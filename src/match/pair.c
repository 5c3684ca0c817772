#include "match/pair.h"

bool pair_fits(const struct rules *rules, const struct entry *a, const struct entry *b, struct pair_check *check)
{
    (void)rules;
    (void)a;
    (void)b;
    check->verdict = PAIR_RULE;
    return false;
}

double pair_bound(const struct rule *rule, uint32_t level_a, uint32_t level_b)
{
    (void)level_b;
    return rule->bound[level_a];
}

bool group_divide(const struct rules *rules, const struct entry *const *members, uint32_t count, uint8_t *teams,
                  uint32_t *budget)
{
    (void)rules;
    (void)members;
    (void)count;
    (void)teams;
    (void)budget;
    return false;
}

bool group_fits(const struct rules *rules, const struct entry *const *members, uint32_t count, uint8_t *teams,
                struct pair_check *check)
{
    (void)rules;
    (void)members;
    (void)count;
    (void)teams;
    (void)check;
    return false;
}
