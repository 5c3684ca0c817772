#include "match/rules.h"

#include "base/assert.h"
#include "base/memory.h"
#include "match/expression.h"
#include "match/rules_parse.h"
#include "match/value.h"

#include <stdlib.h>

struct rules *rules_create(struct bytes json, struct failure *failure)
{
    if (json.size > RULES_TEXT_SIZE_MAX) {
        failure_set(failure, ERROR_INVALID_PARAMETER_VALUE, "The rules have %zu bytes; there can be %u.", json.size,
                    RULES_TEXT_SIZE_MAX);
        return NULL;
    }
    yyjson_read_err fault = {.msg = "it is empty"};
    /* Without YYJSON_READ_INSITU the text is only read. */
    yyjson_doc *doc = json.size == 0 ? NULL
                                     : yyjson_read_opts((char *)(uintptr_t)json.ptr, json.size, YYJSON_READ_NOFLAG,
                                                        &value_memory, &fault);
    if (doc == NULL) {
        failure_set(failure, ERROR_INVALID_PARAMETER_VALUE, "The rules are no JSON: %s, at byte %zu.", fault.msg,
                    fault.pos);
        return NULL;
    }
    struct rules *rules = memory_allocate_zeroed(sizeof(*rules));
    rules->text_owned = memory_duplicate(json);
    enum error error = rules_parse(rules, yyjson_doc_get_root(doc), json.size, failure);
    yyjson_doc_free(doc);
    if (error != OK) {
        rules_destroy(rules);
        return NULL;
    }
    ASSERT(rules->level_count >= 1 && rules->after_ms[0] == 0 && rules->team_count >= 1);
    return rules;
}

void rules_destroy(struct rules *rules)
{
    if (rules == NULL)
        return;
    for (uint32_t i = 0; i < rules->rule_count; i++) {
        free(rules->rules[i].pairs_owned);
        expression_destroy(rules->rules[i].expression_owned);
    }
    expression_destroy(rules->pick_score_owned);
    free(rules->names_owned);
    free((void *)(uintptr_t)rules->text_owned.ptr);
    free(rules);
}

int rules_attribute(const struct rules *rules, struct bytes name)
{
    for (uint32_t i = 0; i < rules->attribute_count; i++)
        if (bytes_equal(rules->attributes[i].name, name))
            return (int)i;
    return -1;
}

bool rules_extend(const struct rules *rules, const struct rules *old)
{
    if (rules->attribute_count < old->attribute_count)
        return false;
    for (uint32_t i = 0; i < old->attribute_count; i++)
        if (!bytes_equal(rules->attributes[i].name, old->attributes[i].name) ||
            rules->attributes[i].type != old->attributes[i].type)
            return false;
    return true;
}

uint32_t rules_level(const struct rules *rules, uint64_t age_ms)
{
    uint32_t level = 0;
    while (level + 1 < rules->level_count && rules->after_ms[level + 1] <= age_ms)
        level++;
    return level;
}

uint64_t rules_step_ms(const struct rules *rules, uint32_t level)
{
    return level + 1 < rules->level_count ? rules->after_ms[level + 1] : UINT64_MAX;
}

/* --- the search --------------------------------------------------------------------------------------------------- */

/* Does it ask at least `least` at every level? */
static bool is_always_asked(const struct rules *rules, const struct rule *rule, double least)
{
    for (uint32_t level = 0; level < rules->level_count; level++)
        if (rule->bound[level] < least)
            return false;
    return true;
}

void rules_search(const struct rules *rules, struct rules_search *search)
{
    *search = (struct rules_search){.pairs = RULES_NONE, .share = RULES_NONE, .near = RULES_NONE};
    bool is_near_firm = false;
    for (uint32_t i = 0; i < rules->rule_count; i++) {
        const struct rule *rule = &rules->rules[i];
        if (rule->may_be_missing)
            continue;
        if (rule->type == RULE_EQUAL)
            search->equal[search->equal_count++] = i;
        else if (rule->type == RULE_PAIRS && search->pairs == RULES_NONE)
            search->pairs = i;
        else if (rule->type == RULE_SHARE && search->share == RULES_NONE && is_always_asked(rules, rule, 1))
            search->share = i;
        else if (rule->type == RULE_NEAR && !is_near_firm) {
            bool is_firm = is_always_asked(rules, rule, 0);
            if (is_firm || search->near == RULES_NONE)
                search->near = i;
            is_near_firm = is_firm;
        }
    }
}

static void append_attribute(const struct rules *rules, const struct rule *rule, bool is_first, struct buffer *out)
{
    if (!is_first)
        buffer_append_bytes(out, BYTES(", "));
    if (rule->type == RULE_EXPRESSION)
        buffer_append_bytes(out, BYTES("expr"));
    else
        buffer_append_bytes(out, rules->attributes[rule->attribute].name);
}

/* "WORD(mode, kind)" of the rules whose bit is set, behind an arrow if it is not the first. */
static void append_step(const struct rules *rules, const char *word, uint32_t bits, struct buffer *out, size_t start)
{
    bool is_first = true;
    if (bits == 0)
        return;
    buffer_append_format(out, "%s%s(", out->size == start ? "" : " -> ", word);
    for (uint32_t i = 0; i < rules->rule_count; i++) {
        if ((bits & 1u << i) == 0)
            continue;
        append_attribute(rules, &rules->rules[i], is_first, out);
        is_first = false;
    }
    buffer_append_u8(out, ')');
}

static uint32_t bit_of(uint32_t rule)
{
    return rule == RULES_NONE ? 0 : 1u << rule;
}

static_assert(RULES_MAX <= 32, "a bit for each rule");

void rules_plan(const struct rules *rules, struct buffer *out)
{
    struct rules_search search;
    uint32_t equal = 0, teams = 0, rest = 0;
    size_t start = out->size;
    rules_search(rules, &search);
    for (uint32_t i = 0; i < search.equal_count; i++)
        equal |= bit_of(search.equal[i]);
    uint32_t searched = equal | bit_of(search.pairs) | bit_of(search.share) | bit_of(search.near);
    for (uint32_t i = 0; i < rules->rule_count; i++)
        if (rules->rules[i].type == RULE_TEAM_NEAR)
            teams |= 1u << i;
        else if ((searched & 1u << i) == 0)
            rest |= 1u << i;
    append_step(rules, "bucket", equal | bit_of(search.pairs), out, start);
    append_step(rules, "lists", bit_of(search.share), out, start);
    append_step(rules, "window", bit_of(search.near), out, start);
    if (searched == 0)
        buffer_append_bytes(out, BYTES("all"));
    append_step(rules, "filter", rest, out, start);
    append_step(rules, "teams", teams, out, start);
}

bool rules_warning(const struct rules *rules, struct buffer *out)
{
    struct rules_search search;
    rules_search(rules, &search);
    if (search.equal_count != 0 || search.pairs != RULES_NONE || search.share != RULES_NONE ||
        search.near != RULES_NONE)
        return false;
    buffer_append_bytes(out, BYTES("The rules name no attribute to search by (equal, pairs, near or share, without "
                                   "\"missing\": \"any\"): each look goes through all tickets."));
    return true;
}
