#include "match/plan.h"

#include "base/assert.h"
#include "base/table.h"
#include "match/ordered.h"

/* Tags of what is put upon a bucket, so that a kind is no value and a value no level. */
enum plan_tag { TAG_EQUAL = 1, TAG_KIND, TAG_VALUE, TAG_OPEN, TAG_LEVEL, TAG_NEED };

static uint64_t plan_mix(uint64_t bucket, enum plan_tag tag, uint64_t value)
{
    return table_hash_u64((bucket + tag) ^ table_hash_u64(value));
}

uint64_t plan_hash_fact(const struct fact *fact, enum attribute_type type)
{
    if (type == ATTRIBUTE_NUMBER)
        return ordered_sort_key(fact->number);
    if (type == ATTRIBUTE_TEXT)
        return fact->text.hash;
    uint64_t hash = fact->set.count;
    for (uint32_t i = 0; i < fact->set.count; i++)
        hash = plan_mix(hash, TAG_VALUE, fact->set.items[i].hash);
    return hash;
}

uint64_t plan_hash_need(const struct need_value *value, enum attribute_type type)
{
    return type == ATTRIBUTE_NUMBER ? ordered_sort_key(value->number) : value->text.hash;
}

bool plan_bucket_equal(const struct plan *plan, const struct facts *facts, uint64_t *bucket)
{
    uint64_t hash = 0;
    for (uint32_t i = 0; i < plan->equal_count; i++) {
        const struct fact *fact = facts_at(facts, plan->equals[i]);
        if (!fact->is_there)
            return false;
        hash = plan_mix(hash, TAG_EQUAL, plan_hash_fact(fact, plan->rules->attributes[plan->equals[i]].type));
    }
    *bucket = hash;
    return true;
}

uint64_t plan_bucket_kind(uint64_t bucket, uint64_t kind_hash)
{
    return plan_mix(bucket, TAG_KIND, kind_hash);
}

uint64_t plan_bucket_value(uint64_t bucket, uint64_t value_hash)
{
    return plan_mix(bucket, TAG_VALUE, value_hash);
}

uint64_t plan_bucket_open(uint64_t bucket, enum plan_open open)
{
    return plan_mix(bucket, TAG_OPEN, open);
}

uint64_t plan_bucket_level(uint64_t bucket, uint32_t level_group)
{
    return plan_mix(bucket, TAG_LEVEL, level_group);
}

uint64_t plan_bucket_need(uint64_t bucket, uint32_t attribute, uint64_t value_hash)
{
    return plan_mix(plan_mix(bucket, TAG_NEED, attribute), TAG_NEED, value_hash);
}

/* The largest number of partners of one kind. */
static uint32_t plan_partners_max(const struct plan *plan)
{
    uint32_t most = 1;
    for (uint32_t i = 0; plan->kinds != NULL && i < plan->kinds->pair_count; i++) {
        uint32_t firsts = 0, seconds = 0;
        for (uint32_t j = 0; j < plan->kinds->pair_count; j++) {
            const struct plan_pair *pair = &plan->pairs[j];
            firsts += pair->first == plan->pairs[i].first || pair->second == plan->pairs[i].first;
            seconds += pair->first == plan->pairs[i].second || pair->second == plan->pairs[i].second;
        }
        most = firsts > most ? firsts : most;
        most = seconds > most ? seconds : most;
    }
    return most;
}

static void plan_take_kinds(struct plan *plan, const struct rule *rule)
{
    if (plan->kinds != NULL || rule->may_be_missing)
        return;
    plan->kinds = rule;
    for (uint32_t i = 0; i < rule->pair_count; i++)
        plan->pairs[i] =
            (struct plan_pair){bytes_hash(rule->pairs_owned[i].first), bytes_hash(rule->pairs_owned[i].second)};
}

/* A rule that asks for nothing at some level, without being off, finds no partner by its values. */
static void plan_take_share(struct plan *plan, const struct rule *rule)
{
    if (plan->share != NULL || rule->may_be_missing)
        return;
    double least = RULE_OFF;
    bool may_be_off = false;
    for (uint32_t level = 0; level < plan->rules->level_count; level++) {
        double bound = rule->bound[level];
        may_be_off |= bound == RULE_OFF;
        if (bound != RULE_OFF && (least == RULE_OFF || bound < least))
            least = bound;
    }
    if (least < 1)
        return;
    plan->share = rule;
    plan->share_may_be_off = may_be_off;
    plan->share_least = (uint32_t)least;
}

/* How well a near rule serves as the window: one that is never off, then the one by which pick ranks, then one that
 * nobody escapes by missing. */
static unsigned plan_near_worth(const struct rules *rules, const struct rule *rule)
{
    bool may_be_off = false;
    for (uint32_t level = 0; level < rules->level_count; level++)
        may_be_off |= rule->bound[level] == RULE_OFF;
    bool is_pick = rules->pick == PICK_NEAREST && rules->pick_attribute == rule->attribute;
    return (may_be_off ? 0 : 4u) + (is_pick ? 2u : 0) + (rule->may_be_missing ? 0 : 1u);
}

static void plan_take_near(struct plan *plan, const struct rule *rule)
{
    const struct rules *rules = plan->rules;
    if (plan->near != NULL && plan_near_worth(rules, rule) <= plan_near_worth(rules, plan->near))
        return;
    plan->near = rule;
    plan->has_levels = rule->is_either && rules->level_count > 1;
    plan->has_sort_key = true;
    plan->sort_attribute = rule->attribute;
    for (uint32_t level = 0; level < rules->level_count; level++) {
        uint32_t group = 0;
        while (rule->bound[group] != rule->bound[level])
            group++;
        plan->level_group[level] = (uint8_t)group;
    }
}

void plan_init(struct plan *plan, const struct rules *rules)
{
    *plan = (struct plan){.rules = rules};
    for (uint32_t i = 0; i < rules->rule_count; i++) {
        const struct rule *rule = &rules->rules[i];
        if (rule->type == RULE_EQUAL && !rule->may_be_missing)
            plan->equals[plan->equal_count++] = (uint8_t)rule->attribute;
        if (rule->type == RULE_PAIRS)
            plan_take_kinds(plan, rule);
        if (rule->type == RULE_NEAR)
            plan_take_near(plan, rule);
        if (rule->type == RULE_SHARE)
            plan_take_share(plan, rule);
    }
    if (plan->near == NULL && rules->pick == PICK_NEAREST) {
        plan->has_sort_key = true;
        plan->sort_attribute = rules->pick_attribute;
    }
    uint32_t partners = plan_partners_max(plan);
    if (partners * (FACTS_SET_SIZE_MAX + 2) > PLAN_STREAMS_MAX)
        plan->share = NULL;
    if (plan->share != NULL || partners * RULES_LEVELS_MAX > PLAN_STREAMS_MAX)
        plan->has_levels = false;
}

const struct need_values *plan_need_values(const struct need *need)
{
    bool has_in = (need->clauses & NEED_IN) != 0;
    if ((need->clauses & NEED_EQUAL) != 0 && (!has_in || need->equal.count <= need->in.count))
        return &need->equal;
    return has_in ? &need->in : NULL;
}

static bool plan_has_equal(const struct plan *plan, uint32_t attribute)
{
    for (uint32_t i = 0; i < plan->equal_count; i++)
        if (plan->equals[i] == attribute)
            return true;
    return false;
}

/* The clause whose values make an entry's buckets: the one with the fewest, which the rules do not settle already;
 * NULL: none. */
static const struct need *plan_choose_need(const struct plan *plan, const struct facts *facts)
{
    const struct need *chosen = NULL;
    uint32_t chosen_count = PLAN_NEED_VALUES_MAX + 1;
    for (uint32_t i = 0; i < facts->need_count; i++) {
        const struct need *need = &facts->needs[i];
        const struct need_values *values = plan_need_values(need);
        if (values == NULL || values->count >= chosen_count || need->type == ATTRIBUTE_SET ||
            plan_has_equal(plan, need->attribute))
            continue;
        chosen = need;
        chosen_count = values->count;
    }
    return chosen;
}

/* Adds each bucket once, even if hashes collide. */
static void stands_add(struct plan_stands *stands, uint64_t bucket)
{
    bucket &= ~PLAN_CLASS_BITS;
    for (uint32_t i = 0; i < stands->count; i++)
        if (stands->buckets[i] == bucket)
            return;
    ASSERT(stands->count < PLAN_STANDS_MAX);
    stands->buckets[stands->count++] = bucket;
}

static void plan_stand_shared(const struct plan *plan, const struct entry *entry, uint64_t bucket,
                              struct plan_stands *stands)
{
    const struct fact *fact = facts_at(entry->facts, plan->share->attribute);
    for (uint32_t i = 0; fact->is_there && i < fact->set.count; i++)
        stands_add(stands, plan_bucket_value(bucket, fact->set.items[i].hash));
    if (plan->share_may_be_off) {
        bool is_off = plan->share->bound[entry->level] == RULE_OFF;
        stands_add(stands, plan_bucket_open(bucket, is_off ? PLAN_OPEN_OFF : PLAN_OPEN_ON));
    }
}

void plan_stand(const struct plan *plan, const struct entry *entry, struct plan_stands *stands)
{
    const struct facts *facts = entry->facts;
    uint64_t bucket;
    stands->count = 0;
    stands->has_need = false;
    stands->sort_key = PLAN_SORT_KEY_MISSING;
    if (!plan_bucket_equal(plan, facts, &bucket))
        return;
    if (plan->has_sort_key && facts_at(facts, plan->sort_attribute)->is_there)
        stands->sort_key = ordered_sort_key(facts_at(facts, plan->sort_attribute)->number);
    const struct need *need = plan_choose_need(plan, facts);
    if (need != NULL) {
        const struct need_values *values = plan_need_values(need);
        stands->has_need = true;
        stands->need_attribute = need->attribute;
        for (uint32_t i = 0; i < values->count; i++)
            stands_add(stands,
                       plan_bucket_need(bucket, need->attribute, plan_hash_need(&values->items[i], need->type)));
        return;
    }
    if (plan->kinds != NULL) {
        const struct fact *kind = facts_at(facts, plan->kinds->attribute);
        if (!kind->is_there)
            return;
        bucket = plan_bucket_kind(bucket, kind->text.hash);
    }
    if (plan->share != NULL)
        plan_stand_shared(plan, entry, bucket, stands);
    else if (plan->has_levels)
        stands_add(stands, plan_bucket_level(bucket, plan->level_group[entry->level]));
    else
        stands_add(stands, bucket);
}
