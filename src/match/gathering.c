#include "match/gathering.h"

#include "base/accounted.h"
#include "base/assert.h"
#include "base/budget.h"
#include <stdlib.h>

#define WORDS (GATHERING_MAX / 64)

/* A set of candidates: a bit for each. */
struct candidate_set {
    uint64_t words[WORDS];
};

struct gathered {
    uint32_t slot;
    uint32_t weight;
    uint32_t class;
    double rank;
    uint64_t number;
};

struct gathering {
    struct matcher *matcher;
    uint32_t seed;
    uint32_t wanted;   /* weight, without the seed's */
    uint32_t heaviest; /* of the candidates */
    uint32_t count;
    uint32_t visited; /* steps of the walk */
    uint32_t checks, fill_checks, steps,
        divisions;  /* what is left of them; fill_checks are those of gathering_fill() */
    uint64_t work;  /* of the checks, as pair_check.work counts */
    bool is_greedy; /* `chosen` is filled while candidates come */
    uint32_t chosen_count;
    uint32_t chosen_weight;
    uint32_t chosen[RULES_WEIGHT_MAX]; /* indexes of candidates that fit each other */
    struct matcher_group *group;
    struct candidate_set known[GATHERING_MAX]; /* which pairs have been checked, and which of them fit */
    struct candidate_set fits[GATHERING_MAX];
    struct gathered items[MATCHER_PROBE_MAX];
};

void gathering_destroy(struct gathering *gathering)
{
    accounted_free(gathering);
}

static bool candidate_set_has(const struct candidate_set *set, uint32_t index)
{
    return (set->words[index / 64] >> index % 64 & 1) != 0;
}

static void candidate_set_add(struct candidate_set *set, uint32_t index)
{
    set->words[index / 64] |= UINT64_C(1) << index % 64;
}

static uint32_t candidate_set_count(const struct candidate_set *set)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < WORDS; i++)
        count += (uint32_t)__builtin_popcountll(set->words[i]);
    return count;
}

/* The first member from `index` on; GATHERING_MAX: none. */
static uint32_t candidate_set_next(const struct candidate_set *set, uint32_t index)
{
    while (index < GATHERING_MAX) {
        uint64_t word = set->words[index / 64] >> index % 64;
        if (word != 0)
            return index + (uint32_t)__builtin_ctzll(word);
        index = (index / 64 + 1) * 64;
    }
    return GATHERING_MAX;
}

static const struct entry *gathering_entry(const struct gathering *gathering, uint32_t index)
{
    return matcher_entry(gathering->matcher, gathering->items[index].slot);
}

/* Do two candidates fit? A long check counts as several of the checks left. */
static bool gathering_check(struct gathering *gathering, uint32_t a, uint32_t b, uint32_t *left)
{
    struct matcher_private *private = gathering->matcher->private_owned;
    private->work = 0;
    bool fits = look_fits(gathering->matcher, gathering_entry(gathering, a), gathering_entry(gathering, b));
    uint64_t cost = private->work / GATHERING_CHECK_WORK;
    gathering->work += private->work;
    private->work = 0;
    budget_spend(left, cost == 0 ? 1 : cost);
    return fits;
}

/* Can the seed and the chosen candidates be divided into the teams? If so, they are the group. */
static bool gathering_divide(struct gathering *gathering)
{
    struct matcher *matcher = gathering->matcher;
    const struct entry *members[RULES_WEIGHT_MAX];
    struct matcher_group *group = gathering->group;
    group->count = gathering->chosen_count + 1;
    group->slots[0] = gathering->seed;
    group->score = 0;
    ASSERT(group->count <= RULES_WEIGHT_MAX);
    for (uint32_t i = 0; i < gathering->chosen_count; i++) {
        group->slots[i + 1] = gathering->items[gathering->chosen[i]].slot;
        group->score += gathering->items[gathering->chosen[i]].rank;
    }
    for (uint32_t i = 0; i < group->count; i++)
        members[i] = matcher_entry(matcher, group->slots[i]);
    return group_divide(matcher->rules, members, group->count, group->teams, &gathering->divisions);
}

/* Adds the newest candidate to the chosen ones if it fits them all; true: they are a group. Only used if all tickets
 * weigh 1: then the first group found is the smallest and the best. */
static bool gathering_grow(struct gathering *gathering, uint32_t index)
{
    for (uint32_t i = 0; i < gathering->chosen_count; i++) {
        if (gathering->checks == 0) {
            gathering->is_greedy = false;
            return false;
        }
        if (!gathering_check(gathering, gathering->chosen[i], index, &gathering->checks))
            return false;
    }
    gathering->chosen[gathering->chosen_count++] = index;
    if (gathering->chosen_count < gathering->wanted)
        return false;
    gathering->is_greedy = false; /* if they can't be divided, the search must try others */
    return gathering_divide(gathering);
}

/* Takes in a candidate if it fits the seed. */
static void gathering_take(struct gathering *gathering, const struct look *look, const struct candidate *candidate,
                           bool is_in_order)
{
    struct matcher *matcher = gathering->matcher;
    const struct entry *seed = matcher_entry(matcher, gathering->seed);
    const struct entry *other = matcher_entry(matcher, candidate->slot);
    if (other->weight > gathering->wanted || !look_fits(matcher, seed, other))
        return;
    gathering->items[gathering->count++] = (struct gathered){
        .slot = candidate->slot,
        .weight = other->weight,
        .class = look->class,
        .rank = is_in_order ? candidate->distance : look_rank(matcher, seed, other),
        .number = candidate->number,
    };
    if (other->weight > gathering->heaviest)
        gathering->heaviest = other->weight;
}

/* The candidates of one class, up to the bounds. LOOK_FOUND: they made a group already; LOOK_NOBODY: that was all of
 * them. */
static enum look_end gathering_walk(struct gathering *gathering, struct look *look, bool is_outward, double center)
{
    struct matcher *matcher = gathering->matcher;
    struct matcher_private *private = matcher->private_owned;
    bool is_in_order = look_is_in_order(matcher, is_outward);
    uint32_t count_max = is_in_order ? GATHERING_MAX : MATCHER_PROBE_MAX;
    enum look_end end = LOOK_NOBODY;
    struct candidate candidate;
    walk_start(&private->walk, &private->index, &private->streams, look->class, is_outward ? &center : NULL,
               &look->marks);
    look_count_opening(matcher, is_outward);
    for (; walk_peek(&private->walk, &candidate); walk_take(&private->walk)) {
        if (candidate.slot == look->seed)
            continue;
        if (gathering->visited >= MATCHER_PROBE_MAX || gathering->count == count_max) {
            end = LOOK_STOPPED;
            break;
        }
        matcher->counters.candidates++;
        uint32_t count = gathering->count;
        look_count_heads(matcher);
        gathering_take(gathering, look, &candidate, is_in_order);
        gathering->visited += look_cost(matcher, 1);
        if (is_in_order && gathering->is_greedy && gathering->count > count && gathering_grow(gathering, count))
            return LOOK_FOUND;
    }
    look->marks = private->walk.marks;
    return end;
}

static int gathered_compare(const void *left, const void *right)
{
    const struct gathered *a = left, *b = right;
    if (a->class != b->class)
        return a->class > b->class ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return a->number == b->number ? 0 : a->number < b->number ? -1 : 1;
}

/* Those of `set` behind `index` that fit the candidate there. Pairs beyond the bound count as not fitting. */
static struct candidate_set gathering_friends(struct gathering *gathering, uint32_t index,
                                              const struct candidate_set *set)
{
    struct candidate_set *known = &gathering->known[index], *fits = &gathering->fits[index];
    struct candidate_set friends = {{0}};
    for (uint32_t i = candidate_set_next(set, index + 1); i < GATHERING_MAX; i = candidate_set_next(set, i + 1)) {
        if (!candidate_set_has(known, i)) {
            if (gathering->checks == 0)
                break;
            candidate_set_add(known, i);
            if (gathering_check(gathering, index, i, &gathering->checks))
                candidate_set_add(fits, i);
        }
        if (candidate_set_has(fits, i))
            candidate_set_add(&friends, i);
    }
    return friends;
}

/* Chooses `left` more of `set`, whose members fit all that are chosen, with the weight that is missing. */
static bool gathering_search(struct gathering *gathering, uint32_t left, const struct candidate_set *set)
{
    uint32_t missing = gathering->wanted - gathering->chosen_weight;
    if (left == 0)
        return missing == 0 && gathering->divisions > 0 && gathering_divide(gathering);
    uint32_t room = candidate_set_count(set);
    for (uint32_t i = candidate_set_next(set, 0); room >= left && i < GATHERING_MAX;
         i = candidate_set_next(set, i + 1), room--) {
        uint32_t weight = gathering->items[i].weight;
        if (weight + left - 1 > missing || weight + (left - 1) * gathering->heaviest < missing)
            continue;
        if (gathering->steps == 0)
            return false;
        gathering->steps--;
        gathering->chosen[gathering->chosen_count++] = i;
        gathering->chosen_weight += weight;
        struct candidate_set friends = {{0}};
        if (left > 1)
            friends = gathering_friends(gathering, i, set);
        if (gathering_search(gathering, left - 1, &friends))
            return true;
        gathering->chosen_count--;
        gathering->chosen_weight -= weight;
    }
    return false;
}

/* Can this many of the first `count` candidates have the wanted weight? True if it lies between the weight of the
 * lightest and of the heaviest of them. */
static bool gathering_is_possible(const struct gathering *gathering, uint32_t count, uint32_t members)
{
    uint32_t of_weight[RULES_WEIGHT_MAX + 1] = {0};
    for (uint32_t i = 0; i < count; i++)
        of_weight[gathering->items[i].weight]++;
    uint32_t least = 0, most = 0;
    for (uint32_t weight = 1, left = members; weight <= RULES_WEIGHT_MAX && left > 0; weight++) {
        uint32_t taken = of_weight[weight] < left ? of_weight[weight] : left;
        least += taken * weight;
        left -= taken;
    }
    for (uint32_t weight = RULES_WEIGHT_MAX, left = members; weight > 0 && left > 0; weight--) {
        uint32_t taken = of_weight[weight] < left ? of_weight[weight] : left;
        most += taken * weight;
        left -= taken;
    }
    return least <= gathering->wanted && gathering->wanted <= most;
}

/* Used when the search reached its bounds: takes each candidate in order that fits the ones before, until the weight is
 * reached. */
static bool gathering_fill(struct gathering *gathering, uint32_t count)
{
    gathering->chosen_count = gathering->chosen_weight = 0;
    for (uint32_t i = 0; i < count && gathering->chosen_weight < gathering->wanted; i++) {
        bool fits = gathering->chosen_weight + gathering->items[i].weight <= gathering->wanted;
        for (uint32_t k = 0; fits && k < gathering->chosen_count; k++) {
            if (gathering->fill_checks == 0)
                return false;
            fits = gathering_check(gathering, gathering->chosen[k], i, &gathering->fill_checks);
        }
        if (!fits)
            continue;
        gathering->chosen[gathering->chosen_count++] = i;
        gathering->chosen_weight += gathering->items[i].weight;
    }
    return gathering->chosen_weight == gathering->wanted && gathering_divide(gathering);
}

/* The best group among the candidates, which are in order. */
static bool gathering_choose(struct gathering *gathering)
{
    uint32_t count = gathering->count < GATHERING_MAX ? gathering->count : GATHERING_MAX;
    struct candidate_set all = {{0}};
    for (uint32_t i = 0; i < count; i++) {
        candidate_set_add(&all, i);
        gathering->known[i] = gathering->fits[i] = (struct candidate_set){{0}};
    }
    bool is_possible = false, is_cut = false;
    uint32_t left = GATHERING_STEPS_MAX;
    for (uint32_t members = 1; members <= count && members <= gathering->wanted && left > 0; members++) {
        if (!gathering_is_possible(gathering, count, members))
            continue;
        is_possible = true;
        /* No size may use up what the others need. */
        uint32_t share = left < GATHERING_STEPS_OF_A_SIZE ? left : GATHERING_STEPS_OF_A_SIZE;
        gathering->steps = share;
        gathering->chosen_count = gathering->chosen_weight = 0;
        if (gathering_search(gathering, members, &all))
            return true;
        left -= share - gathering->steps;
        is_cut |= gathering->steps == 0;
    }
    gathering->steps = left;
    return is_possible && is_cut && gathering_fill(gathering, count);
}

/* Sorts the candidates and prepares the search. */
static bool gathering_sort(struct gathering *gathering)
{
    qsort(gathering->items, gathering->count, sizeof(gathering->items[0]), gathered_compare);
    for (uint32_t i = 0; gathering->is_greedy && i < gathering->count; i++)
        if (gathering_grow(gathering, i))
            return true;
    return false;
}

static enum look_end gathering_run(struct gathering *gathering, struct look *look)
{
    struct matcher *matcher = gathering->matcher;
    struct matcher_private *private = matcher->private_owned;
    const struct entry *seed = matcher_entry(matcher, look->seed);
    double center = 0;
    bool is_outward = look_center(matcher, seed, &center);
    enum look_end end = LOOK_NOBODY;
    ticket_index_streams(&private->index, seed, look->values, &private->streams);
    for (;; look->class --, look->marks = (struct walk_marks){.up = {.is_set = false}}) {
        if (private->index.class_counts[look->class] > 0 && private->streams.count > 0)
            end = gathering_walk(gathering, look, is_outward, center);
        if (end != LOOK_NOBODY || look->class == 0)
            break;
    }
    if (end == LOOK_FOUND || (!look_is_in_order(matcher, is_outward) && gathering_sort(gathering)))
        return LOOK_FOUND;
    return gathering_choose(gathering) ? LOOK_FOUND : end;
}

enum look_end gathering_look(struct matcher *matcher, struct look *look, uint32_t *budget, struct matcher_group *group)
{
    struct matcher_private *private = matcher->private_owned;
    const struct entry *seed = matcher_entry(matcher, look->seed);
    if (private->gathering_owned == NULL)
    private->gathering_owned = accounted_allocate(sizeof(struct gathering));
    struct gathering *gathering = private->gathering_owned;
    uint32_t whole = matcher->rules->weight;
    gathering->matcher = matcher;
    gathering->seed = look->seed;
    gathering->wanted = seed->weight < whole ? whole - seed->weight : 0;
    gathering->heaviest = gathering->count = gathering->visited = 0;
    gathering->checks = gathering->fill_checks = GATHERING_CHECKS_MAX;
    gathering->steps = GATHERING_STEPS_MAX;
    gathering->divisions = GATHERING_DIVISIONS_MAX;
    gathering->work = 0;
    gathering->is_greedy = private->parties == 0;
    gathering->chosen_count = gathering->chosen_weight = 0;
    gathering->group = group;
    if (gathering->wanted == 0) /* a party that fills a match alone, or is too large for any */
        return gathering_divide(gathering) ? LOOK_FOUND : LOOK_NOBODY;
    enum look_end end = gathering_run(gathering, look);
    uint64_t work = gathering->work / GATHERING_CHECKS_A_STEP +
                    (GATHERING_STEPS_MAX - gathering->steps) * PAIR_WORK_A_STEP / GATHERING_CHECKS_A_STEP +
                    (GATHERING_DIVISIONS_MAX - gathering->divisions) * group_division_work(matcher->rules);
    private->work += work;
    look_charge(matcher, gathering->visited + look_cost(matcher, 0), budget);
    return end;
}
