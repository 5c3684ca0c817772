#include "match/rules.h"

#include "base/accounted.h"
#include "base/assert.h"
#include "match/expression.h"
#include "match/plan.h"
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
    struct rules *rules = accounted_allocate_zeroed(sizeof(*rules));
    rules->text_owned = accounted_duplicate(json);
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
        accounted_free(rules->rules[i].pairs_owned);
        expression_destroy(rules->rules[i].expression_owned);
    }
    expression_destroy(rules->pick_score_owned);
    accounted_free(rules->names_owned);
    accounted_free((void *)(uintptr_t)rules->text_owned.ptr);
    accounted_free(rules);
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
    bits &= rules->rule_count == 32 ? UINT32_MAX : (1u << rules->rule_count) - 1;
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

static_assert(RULES_MAX <= 32, "a bit for each rule");

static uint32_t bit_of(const struct rules *rules, const struct rule *rule)
{
    return rule == NULL ? 0 : 1u << (rule - rules->rules);
}

static uint32_t bits_of(const struct rules *rules, enum rule_type type, bool may_be_missing)
{
    uint32_t bits = 0;
    for (uint32_t i = 0; i < rules->rule_count; i++)
        if (rules->rules[i].type == type && (may_be_missing || !rules->rules[i].may_be_missing))
            bits |= 1u << i;
    return bits;
}

void rules_plan(const struct rules *rules, struct buffer *out)
{
    struct plan plan;
    size_t start = out->size;
    plan_init(&plan, rules);
    uint32_t buckets = bits_of(rules, RULE_EQUAL, false) | bit_of(rules, plan.kinds);
    uint32_t lists = bit_of(rules, plan.share), window = bit_of(rules, plan.near);
    uint32_t teams = bits_of(rules, RULE_TEAM_NEAR, true);
    uint32_t searched = buckets | lists | window;
    append_step(rules, "bucket", buckets, out, start);
    append_step(rules, "lists", lists, out, start);
    append_step(rules, "window", window, out, start);
    if (searched == 0)
        buffer_append_bytes(out, BYTES("all"));
    append_step(rules, "filter", ~(searched | teams), out, start);
    append_step(rules, "teams", teams, out, start);
}

bool rules_warning(const struct rules *rules, struct buffer *out)
{
    struct plan plan;
    plan_init(&plan, rules);
    if (plan.equal_count != 0 || plan.kinds != NULL || plan.share != NULL || plan.near != NULL)
        return false;
    buffer_append_bytes(
        out, BYTES("The rules name no attribute to search by (equal, pairs, near or share; of these only near "
                   "with \"missing\": \"any\"): each look goes through all tickets."));
    return true;
}
