/* A plan: how the rules of a pool become keys of an ordered set (match/ordered.h). It says in which buckets an entry
 * stands, and at which sort key; match/ticket_index.[ch] says which of them a look visits. Pure, static: made once from
 * the rules.
 *
 * A bucket is a hash of all `equal` attributes and, of what there is of it, the entry's own kind for the first `pairs`
 * rule, one value of its set for the first `share` rule, and its level for a `near` rule with agree "either"; its low
 * four bits are the priority class. An entry whose own need names the value of another attribute stands, instead, in a
 * bucket that carries this attribute and value. The sort key is the number of a `near` rule (of several the one that
 * serves best: plan_near_worth), else of pick's nearest.
 *
 * Rules that skip tickets without the attribute ("missing": "any") make no buckets; a near rule that does keeps them at
 * sort key 0. A hash that two buckets share costs a candidate and nothing else, since every candidate is held against
 * all rules. */
#ifndef TALLY_MATCH_PLAN_H
#define TALLY_MATCH_PLAN_H

#include "match/entry.h"

#define PLAN_CLASSES (ENTRY_PRIORITY_URGENT + 1) /* priorities, and urgent */
#define PLAN_CLASS_BITS UINT64_C(15)
#define PLAN_STANDS_MAX (FACTS_SET_SIZE_MAX + 1)
#define PLAN_NEED_VALUES_MAX 8u      /* of a clause; with more it makes no buckets */
#define PLAN_STREAMS_MAX 300u        /* that pairs, values and levels may make together; else one of them is left out */
#define PLAN_SORT_KEY_MISSING 0u     /* below the sort key of every number */
#define PLAN_SORT_KEY_MAX UINT64_MAX /* above them */

struct plan_pair {
    uint64_t first, second; /* hashes of the two texts */
};

struct plan {
    const struct rules *rules; /* borrowed */
    uint8_t equals[RULES_MAX]; /* attributes */
    uint32_t equal_count;
    const struct rule *kinds; /* the pairs rule that makes buckets; NULL: none */
    struct plan_pair pairs[RULES_PAIRS_MAX];
    const struct rule *near;               /* the rule whose bound is a window of sort keys; NULL: none */
    bool has_levels;                       /* it is "either", and buckets carry the level */
    uint8_t level_group[RULES_LEVELS_MAX]; /* the first level with the same bound */
    bool has_sort_key;
    uint32_t sort_attribute;
    const struct rule *share; /* the rule whose values make buckets; NULL: none */
    bool share_may_be_off;    /* at some level: then entries stand in a bucket without a value too */
    uint32_t share_least;     /* the least that it asks at any level at which it is not off */
};

/* The buckets and the place of an entry. */
struct plan_stands {
    uint64_t sort_key;
    uint32_t count; /* 0: none, because nothing can fit the entry */
    bool has_need;  /* they carry a clause of its need, on need_attribute */
    uint32_t need_attribute;
    uint64_t buckets[PLAN_STANDS_MAX]; /* distinct, without the class */
};

/* Buckets without a share value, of entries for which the rule counts, and of those for which it is off. */
enum plan_open { PLAN_OPEN_ON = 1, PLAN_OPEN_OFF = 2 };

void plan_init(struct plan *plan, const struct rules *rules);

void plan_stand(const struct plan *plan, const struct entry *entry, struct plan_stands *stands);

static inline uint32_t plan_class(const struct entry *entry)
{
    return entry->is_urgent ? ENTRY_PRIORITY_URGENT : entry->priority;
}

/* Builds a bucket from its parts, without the class. False: an `equal` attribute is missing. */
bool plan_bucket_equal(const struct plan *plan, const struct facts *facts, uint64_t *bucket);
uint64_t plan_bucket_kind(uint64_t bucket, uint64_t kind_hash);
uint64_t plan_bucket_value(uint64_t bucket, uint64_t value_hash);
uint64_t plan_bucket_open(uint64_t bucket, enum plan_open open);
uint64_t plan_bucket_level(uint64_t bucket, uint32_t level_group);
uint64_t plan_bucket_need(uint64_t bucket, uint32_t attribute, uint64_t value_hash);

/* The hash of a value as used in buckets. */
uint64_t plan_hash_fact(const struct fact *fact, enum attribute_type type);
uint64_t plan_hash_need(const struct need_value *value, enum attribute_type type);

/* The values that a need's clauses "eq" and "in" leave for an attribute: of the shorter one, NULL if it has neither. */
const struct need_values *plan_need_values(const struct need *need);

#endif
