/* Rules from outside: what is taken has levels that rise, bounds for all of them, a plan, and reads the same again;
 * what is not says why. */
#include "base/assert.h"
#include "match/rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_levels(const struct rules *rules)
{
    ASSERT(rules->level_count >= 1 && rules->level_count <= RULES_LEVELS_MAX && rules->after_ms[0] == 0);
    for (uint32_t level = 0; level < rules->level_count; level++) {
        ASSERT(rules_level(rules, rules->after_ms[level]) == level);
        ASSERT(rules_step_ms(rules, level) > rules->after_ms[level]);
        for (uint32_t i = 0; i < rules->rule_count; i++)
            ASSERT(rules->rules[i].bound[level] >= 0 || rules->rules[i].bound[level] == RULE_OFF);
    }
}

static void check_teams(const struct rules *rules)
{
    uint32_t weight = 0, most = 0;
    for (uint32_t i = 0; i < rules->team_count; i++) {
        weight += rules->teams[i].size;
        most = rules->teams[i].size > most ? rules->teams[i].size : most;
    }
    ASSERT(weight == rules->weight && weight <= RULES_WEIGHT_MAX);
    ASSERT(rules->party_max == (weight == 0 ? RULES_WEIGHT_MAX : most));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct failure failure = {.error = OK};
    struct rules *rules = rules_create(bytes_make(data, size), &failure);
    if (rules == NULL) {
        ASSERT(failure.error == ERROR_INVALID_PARAMETER_VALUE && failure.text[0] != '\0');
        return 0;
    }
    struct rules *again = rules_create(rules->text_owned, &failure);
    struct buffer out;
    buffer_init(&out);
    check_levels(rules);
    check_teams(rules);
    ASSERT(again != NULL && rules_extend(again, rules) && rules_extend(rules, again));
    for (uint32_t i = 0; i < rules->rule_count; i++)
        ASSERT(rules->rules[i].label.size != 0 && rules->rules[i].attribute <= rules->attribute_count);
    rules_plan(rules, &out);
    ASSERT(out.size != 0);
    (void)rules_warning(rules, &out);
    buffer_deinit(&out);
    rules_destroy(again);
    rules_destroy(rules);
    return 0;
}
