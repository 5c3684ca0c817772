#include "match/ticket_index.h"

#include "base/accounted.h"
#include "base/assert.h"
#include "match/pair.h"
#include <stdlib.h>

/* How many counters of share values there are. Values that share a counter seem more common than they are. */
#define VALUE_COUNTERS 16384u

void ticket_index_init(struct ticket_index *index, const struct rules *rules)
{
    *index = (struct ticket_index){.value_counts_owned = NULL};
    plan_init(&index->plan, rules);
    ordered_init(&index->ordered);
    if (index->plan.share != NULL)
        index->value_counts_owned = accounted_allocate_zeroed(VALUE_COUNTERS * sizeof(uint32_t));
}

void ticket_index_deinit(struct ticket_index *index)
{
    ordered_deinit(&index->ordered);
    accounted_free(index->value_counts_owned);
    *index = (struct ticket_index){.value_counts_owned = NULL};
}

static uint32_t *index_value_count(const struct ticket_index *index, const struct fact_text *value)
{
    return &index->value_counts_owned[value->hash % VALUE_COUNTERS];
}

static void index_count(struct ticket_index *index, const struct entry *entry, const struct plan_stands *stands,
                        uint32_t change)
{
    const struct plan *plan = &index->plan;
    if (stands->count == 0)
        return;
    index->class_counts[plan_class(entry)] += change;
    if (stands->has_need) {
        index->need_counts[stands->need_attribute] += change;
        return;
    }
    if (plan->near != NULL)
        index->level_counts[plan->level_group[entry->level]] += change;
    if (plan->share == NULL)
        return;
    const struct fact *fact = facts_at(entry->facts, plan->share->attribute);
    for (uint32_t i = 0; fact->is_there && i < fact->set.count; i++)
        *index_value_count(index, &fact->set.items[i]) += change;
}

void ticket_index_insert(struct ticket_index *index, const struct entry *entry, uint32_t slot)
{
    struct plan_stands stands;
    plan_stand(&index->plan, entry, &stands);
    for (uint32_t i = 0; i < stands.count; i++) {
        struct ordered_key key = {stands.buckets[i] | plan_class(entry), stands.sort_key, entry->number};
        ordered_insert(&index->ordered, &key, slot);
    }
    index_count(index, entry, &stands, 1);
}

void ticket_index_remove(struct ticket_index *index, const struct entry *entry)
{
    struct plan_stands stands;
    plan_stand(&index->plan, entry, &stands);
    for (uint32_t i = 0; i < stands.count; i++) {
        struct ordered_key key = {stands.buckets[i] | plan_class(entry), stands.sort_key, entry->number};
        ordered_remove(&index->ordered, &key);
    }
    index_count(index, entry, &stands, UINT32_MAX); /* minus one */
}

uint64_t ticket_index_values(const struct ticket_index *index, const struct entry *entry)
{
    const struct rule *share = index->plan.share;
    if (share == NULL)
        return 0;
    const struct fact *fact = facts_at(entry->facts, share->attribute);
    double bound = share->is_either ? index->plan.share_least : share->bound[entry->level];
    if (!fact->is_there || bound == RULE_OFF || fact->set.count < bound)
        return 0;
    /* If a set of m values shares k with another one, the other contains at least one of any m - k + 1 of these
     * values. */
    uint32_t wanted = fact->set.count - (uint32_t)bound + 1;
    uint64_t chosen = 0;
    for (uint32_t i = 0; i < wanted; i++) {
        uint32_t rarest = UINT32_MAX;
        for (uint32_t j = 0; j < fact->set.count; j++) {
            bool is_free = (chosen >> j & 1) == 0;
            if (is_free && (rarest == UINT32_MAX || *index_value_count(index, &fact->set.items[j]) <
                                                        *index_value_count(index, &fact->set.items[rarest])))
                rarest = j;
        }
        chosen |= UINT64_C(1) << rarest;
    }
    return chosen;
}

/* A range of sort keys; low > high: nothing. */
struct range {
    uint64_t low, high;
};

static const struct range RANGE_ALL = {PLAN_SORT_KEY_MISSING, PLAN_SORT_KEY_MAX};
static const struct range RANGE_NONE = {1, 0};

/* All numbers y with |x - y| <= bound in double arithmetic, and perhaps a few more at both ends: the next sort key is
 * the next double. */
static struct range range_around(double x, double bound)
{
    double wider = ordered_number(ordered_sort_key(bound) + 1);
    return (struct range){ordered_sort_key(x - wider) - 1, ordered_sort_key(x + wider) + 1};
}

/* The sort keys at which an entry's partners for this bound stand, but for those without the attribute, if they may be
 * without. */
static struct range index_range(const struct plan *plan, const struct entry *entry, double bound)
{
    if (plan->near == NULL || bound == RULE_OFF)
        return RANGE_ALL;
    const struct fact *fact = facts_at(entry->facts, plan->sort_attribute);
    if (!fact->is_there)
        return plan->near->may_be_missing ? RANGE_ALL : RANGE_NONE;
    return range_around(fact->number, bound);
}

/* The part of a range that the entry's own need allows; a ticket without the attribute fails the need. */
static struct range index_narrow(const struct plan *plan, const struct facts *facts, struct range range)
{
    for (uint32_t i = 0; plan->has_sort_key && i < facts->need_count; i++) {
        const struct need *need = &facts->needs[i];
        if (need->attribute != plan->sort_attribute)
            continue;
        struct range own = {PLAN_SORT_KEY_MISSING + 1, PLAN_SORT_KEY_MAX};
        if ((need->clauses & NEED_MIN) != 0)
            own.low = ordered_sort_key(need->min);
        if ((need->clauses & NEED_MAX) != 0)
            own.high = ordered_sort_key(need->max);
        range.low = own.low > range.low ? own.low : range.low;
        range.high = own.high < range.high ? own.high : range.high;
    }
    return range;
}

static void streams_add(struct streams *streams, uint64_t bucket, struct range range)
{
    if (range.low > range.high)
        return;
    ACCOUNTED_GROW(streams->items_owned, streams->count, streams->capacity, 8);
    streams->items_owned[streams->count++] = (struct stream){bucket & ~PLAN_CLASS_BITS, range.low, range.high};
}

void streams_deinit(struct streams *streams)
{
    accounted_free(streams->items_owned);
    *streams = (struct streams){.items_owned = NULL};
}

/* What the functions that build a look's streams share. */
struct visit {
    const struct ticket_index *index;
    const struct entry *entry;
    struct streams *streams;
    uint64_t values;
};

/* A bucket, with the window for a bound. */
static void visit_bound(const struct visit *visit, uint64_t bucket, double bound)
{
    const struct plan *plan = &visit->index->plan;
    struct range range = index_range(plan, visit->entry, bound);
    streams_add(visit->streams, bucket, index_narrow(plan, visit->entry->facts, range));
    if (plan->near != NULL && plan->near->may_be_missing && range.low > PLAN_SORT_KEY_MISSING &&
        range.low <= range.high)
        streams_add(
            visit->streams, bucket,
            index_narrow(plan, visit->entry->facts, (struct range){PLAN_SORT_KEY_MISSING, PLAN_SORT_KEY_MISSING}));
}

/* The widest bound that the entry can have with anybody. */
static double visit_bound_most(const struct visit *visit)
{
    const struct rule *near = visit->index->plan.near;
    if (near == NULL)
        return RULE_OFF;
    double most = near->bound[visit->entry->level];
    for (uint32_t level = 0; near->is_either && level < visit->index->plan.rules->level_count; level++) {
        double bound = pair_bound(near, visit->entry->level, level);
        if (bound == RULE_OFF)
            return RULE_OFF;
        most = bound > most ? bound : most;
    }
    return most;
}

static void visit_levels(const struct visit *visit, uint64_t bucket)
{
    const struct plan *plan = &visit->index->plan;
    for (uint32_t level = 0; level < plan->rules->level_count; level++)
        if (plan->level_group[level] == level && visit->index->level_counts[level] > 0)
            visit_bound(visit, plan_bucket_level(bucket, level), pair_bound(plan->near, visit->entry->level, level));
}

static void visit_values(const struct visit *visit, uint64_t bucket)
{
    const struct plan *plan = &visit->index->plan;
    const struct fact *fact = facts_at(visit->entry->facts, plan->share->attribute);
    double bound = visit_bound_most(visit);
    bool is_off = plan->share->bound[visit->entry->level] == RULE_OFF;
    for (uint32_t i = 0; !is_off && fact->is_there && i < fact->set.count; i++)
        if ((visit->values >> i & 1) != 0 && *index_value_count(visit->index, &fact->set.items[i]) > 0)
            visit_bound(visit, plan_bucket_value(bucket, fact->set.items[i].hash), bound);
    if (is_off)
        visit_bound(visit, plan_bucket_open(bucket, PLAN_OPEN_ON), bound);
    if (plan->share_may_be_off && (is_off || plan->share->is_either))
        visit_bound(visit, plan_bucket_open(bucket, PLAN_OPEN_OFF), bound);
}

/* All entries of one kind that stand by their own values. */
static void visit_kind(const struct visit *visit, uint64_t bucket)
{
    if (visit->index->plan.share != NULL)
        visit_values(visit, bucket);
    else if (visit->index->plan.has_levels)
        visit_levels(visit, bucket);
    else
        visit_bound(visit, bucket, visit_bound_most(visit));
}

/* The need of an attribute that must be one of a few values; NULL: it may be any. */
static const struct need *facts_find_need(const struct facts *facts, uint32_t attribute)
{
    for (uint32_t i = 0; i < facts->need_count; i++)
        if (facts->needs[i].attribute == attribute && plan_need_values(&facts->needs[i]) != NULL)
            return &facts->needs[i];
    return NULL;
}

static bool need_has(const struct need *need, uint64_t hash)
{
    const struct need_values *values = plan_need_values(need);
    for (uint32_t i = 0; i < values->count; i++)
        if (plan_hash_need(&values->items[i], need->type) == hash)
            return true;
    return false;
}

/* The partners of the entry's kind, but for those that its need excludes. */
static void visit_kinds(const struct visit *visit, uint64_t bucket)
{
    const struct plan *plan = &visit->index->plan;
    const struct fact *kind = facts_at(visit->entry->facts, plan->kinds->attribute);
    const struct need *need = facts_find_need(visit->entry->facts, plan->kinds->attribute);
    for (uint32_t i = 0; kind->is_there && i < plan->kinds->pair_count; i++) {
        const struct plan_pair *pair = &plan->pairs[i];
        if (pair->first != kind->text.hash && pair->second != kind->text.hash)
            continue;
        uint64_t partner = pair->first == kind->text.hash ? pair->second : pair->first;
        if (need == NULL || need_has(need, partner))
            visit_kind(visit, plan_bucket_kind(bucket, partner));
    }
}

/* Does the entry need another value of an attribute in which its partners must be its equals? */
static bool index_contradicts(const struct plan *plan, const struct facts *facts)
{
    for (uint32_t i = 0; i < plan->equal_count; i++) {
        enum attribute_type type = plan->rules->attributes[plan->equals[i]].type;
        const struct need *need = facts_find_need(facts, plan->equals[i]);
        if (need != NULL && type != ATTRIBUTE_SET &&
            !need_has(need, plan_hash_fact(facts_at(facts, plan->equals[i]), type)))
            return true;
    }
    return false;
}

void ticket_index_streams(const struct ticket_index *index, const struct entry *entry, uint64_t values,
                          struct streams *streams)
{
    const struct plan *plan = &index->plan;
    struct visit visit = {.index = index, .entry = entry, .streams = streams, .values = values};
    uint64_t bucket;
    streams->count = 0;
    if (!plan_bucket_equal(plan, entry->facts, &bucket) || index_contradicts(plan, entry->facts))
        return;
    if (plan->kinds != NULL)
        visit_kinds(&visit, bucket);
    else
        visit_kind(&visit, bucket);
    /* A ticket that needs a value of an attribute stands in that bucket, whatever its own values are. */
    double bound = visit_bound_most(&visit);
    for (uint32_t attribute = 0; attribute < plan->rules->attribute_count; attribute++) {
        const struct fact *fact = facts_at(entry->facts, attribute);
        if (index->need_counts[attribute] == 0 || !fact->is_there)
            continue;
        uint64_t hash = plan_hash_fact(fact, plan->rules->attributes[attribute].type);
        visit_bound(&visit, plan_bucket_need(bucket, attribute, hash), bound);
    }
}

void ticket_index_check(const struct ticket_index *index, uint32_t count)
{
    uint32_t standing = 0;
    for (uint32_t i = 0; i < PLAN_CLASSES; i++)
        standing += index->class_counts[i];
    ASSERT(standing == count);
    ordered_check(&index->ordered);
}
