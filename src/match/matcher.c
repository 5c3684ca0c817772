#include "match/matcher.h"

#include "base/accounted.h"
#include "base/assert.h"
#include "base/budget.h"
#include "match/gathering.h"
#include "match/window.h"
#include <stdlib.h>

#define SEED_KEY_SHIFT 56u
#define SEED_KEY_STOPPED (UINT64_C(15) << SEED_KEY_SHIFT) /* behind all others */

static size_t matcher_offset(const struct matcher *matcher, size_t member)
{
    return matcher->entry_offset + member;
}

/* The index and the looks for the rules that the matcher has. */
static void private_init(struct matcher *matcher, uint64_t window_ms)
{
    struct matcher_private *private = matcher->private_owned;
    *private = (struct matcher_private){.window_ms = window_ms};
    ticket_index_init(&private->index, matcher->rules);
    slab_init(&private->looks, sizeof(struct look));
    ordered_init(&private->proposals);
    private->finds_pairs = matcher->rules->weight == 2;
}

static void private_deinit(struct matcher_private *private)
{
    ticket_index_deinit(&private->index);
    slab_deinit(&private->looks);
    streams_deinit(&private->streams);
    walk_deinit(&private->walk);
    gathering_destroy(private->gathering_owned);
    ordered_deinit(&private->proposals);
}

void matcher_init(struct matcher *matcher, const struct rules *rules, const struct slab *records, size_t entry_offset,
                  uint64_t window_ms)
{
    *matcher =
        (struct matcher){.rules = rules, .records = records, .entry_offset = (uint32_t)entry_offset, .generation = 1};
    heap_init(&matcher->seeds, records, matcher_offset(matcher, offsetof(struct entry, seed_index)),
              matcher_offset(matcher, offsetof(struct entry, number)));
    heap_init(&matcher->steps, records, matcher_offset(matcher, offsetof(struct entry, step_index)),
              matcher_offset(matcher, offsetof(struct entry, number)));
    matcher->private_owned = accounted_allocate(sizeof(*matcher->private_owned));
    private_init(matcher, window_ms);
}

void matcher_deinit(struct matcher *matcher)
{
    if (matcher->private_owned != NULL)
        private_deinit(matcher->private_owned);
    accounted_free(matcher->private_owned);
    heap_deinit(&matcher->seeds);
    heap_deinit(&matcher->steps);
    *matcher = (struct matcher){.private_owned = NULL};
}

void matcher_reset(struct matcher *matcher, const struct rules *rules, uint64_t window_ms)
{
    private_deinit(matcher->private_owned);
    matcher->rules = rules;
    matcher->seeds.count = matcher->steps.count =
        0; /* what entries say of their positions there is written anew when they are added */
    matcher->count = 0;
    matcher->generation++;
    ASSERT(matcher->generation != 0);
    private_init(matcher, window_ms);
}

/* When the entry becomes urgent; UINT64_MAX: never, or it is urgent already. */
static uint64_t entry_urgent_ms(const struct entry *entry)
{
    if (entry->is_urgent || entry->expires_at_ms == UINT64_MAX)
        return UINT64_MAX;
    uint64_t ttl_ms = entry->expires_at_ms > entry->offered_at_ms ? entry->expires_at_ms - entry->offered_at_ms : 0;
    return entry->expires_at_ms - ttl_ms / MATCHER_URGENT_SHARE;
}

/* When it reaches its next level. */
static uint64_t matcher_widens_ms(const struct matcher *matcher, const struct entry *entry)
{
    uint64_t age_ms = rules_step_ms(matcher->rules, entry->level);
    return age_ms > UINT64_MAX - entry->offered_at_ms ? UINT64_MAX : entry->offered_at_ms + age_ms;
}

static void matcher_set_step(struct matcher *matcher, uint32_t slot)
{
    const struct entry *entry = matcher_entry(matcher, slot);
    uint64_t widens_ms = matcher_widens_ms(matcher, entry), urgent_ms = entry_urgent_ms(entry);
    heap_set(&matcher->steps, widens_ms < urgent_ms ? widens_ms : urgent_ms, slot);
}

/* Puts the newest entry into the index, if that was postponed. */
static void matcher_settle(struct matcher *matcher)
{
    struct matcher_private *private = matcher->private_owned;
    if (private->fresh != 0)
        ticket_index_insert(&private->index, matcher_entry(matcher, private->fresh), private->fresh);
    private->fresh = 0;
}

static void matcher_drop_look(struct matcher *matcher, struct entry *entry)
{
    if (entry->probe == 0)
        return;
    struct look *look = slab_at(&matcher->private_owned->looks, entry->probe);
    if (look->is_proposal)
        window_withdraw(matcher, look);
    slab_free(&matcher->private_owned->looks, entry->probe);
    entry->probe = 0;
}

void matcher_add(struct matcher *matcher, uint32_t slot, uint64_t now_ms, bool is_seed)
{
    struct matcher_private *private = matcher->private_owned;
    struct entry *entry = matcher_entry(matcher, slot);
    ASSERT(!matcher_has(matcher, slot));
    ASSERT(entry->level < matcher->rules->level_count && entry->priority <= ENTRY_PRIORITY_MAX && entry->weight > 0);
    matcher_settle(matcher);
    entry->generation = matcher->generation;
    entry->seed_index = entry->step_index = entry->probe = 0;
    entry->is_urgent = false;
    entry->is_urgent = now_ms >= entry_urgent_ms(entry);
    matcher->count++;
    private->parties += entry->weight > 1;
    if (is_seed)
    private->fresh = slot;
    else ticket_index_insert(&private->index, entry, slot);
    if (is_seed)
        matcher_seed(matcher, slot);
    matcher_set_step(matcher, slot);
}

void matcher_remove(struct matcher *matcher, uint32_t slot)
{
    struct matcher_private *private = matcher->private_owned;
    struct entry *entry = matcher_entry(matcher, slot);
    ASSERT(matcher_has(matcher, slot));
    if (private->fresh == slot)
    private->fresh = 0;
    else ticket_index_remove(&private->index, entry);
    matcher_drop_look(matcher, entry);
    heap_set(&matcher->seeds, HEAP_NEVER, slot);
    heap_set(&matcher->steps, HEAP_NEVER, slot);
    private->window_is_left |= matcher->seeds.count == 0;
    private->parties -= entry->weight > 1;
    entry->generation = 0;
    matcher->count--;
}

void matcher_seed(struct matcher *matcher, uint32_t slot)
{
    struct entry *entry = matcher_entry(matcher, slot);
    ASSERT(matcher_has(matcher, slot));
    ASSERT(entry->offered_at_ms >> SEED_KEY_SHIFT == 0);
    matcher_drop_look(matcher, entry);
    uint64_t class = ENTRY_PRIORITY_URGENT - plan_class(entry);
    heap_set(&matcher->seeds, class << SEED_KEY_SHIFT | entry->offered_at_ms, slot);
}

uint64_t matcher_due_ms(const struct matcher *matcher)
{
    uint64_t step_ms = matcher->steps.count > 0 ? heap_top(&matcher->steps).key : UINT64_MAX;
    uint64_t window_ms = window_due_ms(matcher);
    return step_ms < window_ms ? step_ms : window_ms;
}

/* Gives an entry, which the index may know, another level or urgency. */
static void matcher_change(struct matcher *matcher, uint32_t slot, uint32_t level, bool is_urgent)
{
    struct entry *entry = matcher_entry(matcher, slot);
    struct ticket_index *index = &matcher->private_owned->index;
    matcher_settle(matcher);
    ticket_index_remove(index, entry);
    entry->level = (uint8_t)level;
    entry->is_urgent = is_urgent;
    ticket_index_insert(index, entry, slot);
    matcher_set_step(matcher, slot);
    matcher_seed(matcher, slot);
}

uint32_t matcher_take_step(struct matcher *matcher, uint64_t now_ms, uint32_t *level)
{
    if (matcher->steps.count == 0 || heap_top(&matcher->steps).key > now_ms)
        return 0;
    uint32_t slot = heap_top(&matcher->steps).slot;
    const struct entry *entry = matcher_entry(matcher, slot);
    *level = entry->level;
    if (matcher_widens_ms(matcher, entry) <= now_ms) {
        *level = rules_level(matcher->rules, now_ms - entry->offered_at_ms);
        heap_remove(&matcher->steps, slot); /* until it is widened */
    } else {
        matcher_change(matcher, slot, entry->level, true);
    }
    return slot;
}

void matcher_widen(struct matcher *matcher, uint32_t slot, uint32_t level, uint64_t now_ms)
{
    const struct entry *entry = matcher_entry(matcher, slot);
    ASSERT(matcher_has(matcher, slot) && level < matcher->rules->level_count);
    matcher_change(matcher, slot, level, entry->is_urgent || now_ms >= entry_urgent_ms(entry));
}

/* Keeps a look that continues later. */
static void matcher_keep_look(struct matcher *matcher, const struct look *look)
{
    struct matcher_private *private = matcher->private_owned;
    struct entry *entry = matcher_entry(matcher, look->seed);
    if (entry->probe == 0)
        entry->probe = slab_allocate(&private->looks);
    struct look *kept = slab_at(&private->looks, entry->probe);
    if (kept != look)
        *kept = *look;
}

/* Makes the group of a seed alone, or with its choice. False if the seed alone is no group. */
static bool matcher_found(const struct matcher *matcher, const struct look *look, struct matcher_group *group)
{
    const struct choice *choice = look->choice < look->choice_count ? &look->choices[look->choice] : NULL;
    group->count = choice != NULL ? 2 : 1;
    group->slots[0] = look->seed;
    group->slots[1] = choice != NULL ? choice->slot : 0;
    group->score = choice != NULL ? choice->rank : 0;
    const struct entry *members[2] = {matcher_entry(matcher, look->seed),
                                      choice != NULL ? matcher_entry(matcher, choice->slot) : NULL};
    uint32_t divisions = MATCHER_PROBE_MAX;
    return group_divide(matcher->rules, members, group->count, group->teams, &divisions);
}

/* Goes on with a look of a pool of pairs. */
static enum look_end matcher_look_pair(struct matcher *matcher, struct look *look, uint32_t *budget,
                                       struct matcher_group *group)
{
    bool is_alone = matcher_entry(matcher, look->seed)->weight >= matcher->rules->weight;
    if (!is_alone) { /* else a party that fills a match alone, or is too large for any */
        bool proposes = window_proposes(matcher);
        enum look_end end = look_on(matcher, look, proposes ? LOOK_CHOICES_MAX : 1, budget);
        if (end != LOOK_FOUND || proposes)
            return end;
    }
    return matcher_found(matcher, look, group) ? LOOK_FOUND : LOOK_NOBODY;
}

/* Goes on with the look of a seed, or begins it. */
static enum look_end matcher_look_once(struct matcher *matcher, uint32_t slot, uint32_t *budget,
                                       struct matcher_group *group)
{
    struct matcher_private *private = matcher->private_owned;
    const struct entry *entry = matcher_entry(matcher, slot);
    struct look *look = &private->look;
    if (entry->probe != 0) {
        look = slab_at(&private->looks, entry->probe);
    } else {
        look_begin(matcher, look, slot);
        matcher->counters.probes++;
        private->work += PAIR_WORK_A_STEP;
    }
    enum look_end end = LOOK_NOBODY; /* with any weight allowed, no group is ever complete */
    if (matcher->rules->weight > 0)
        end = private->finds_pairs ? matcher_look_pair(matcher, look, budget, group)
                                   : gathering_look(matcher, look, budget, group);
    look_charge(matcher, look_cost(matcher, 0), budget);
    bool is_proposal = end == LOOK_FOUND && look->choice_count > 0 && window_proposes(matcher);
    if (end == LOOK_TIRED || end == LOOK_STOPPED || is_proposal)
        matcher_keep_look(matcher, look);
    if (!is_proposal)
        return end;
    window_propose(matcher, slab_at(&private->looks, entry->probe));
    return LOOK_PROPOSED;
}

/* Removes a seed from the head of the queue, for good or until all other seeds were tried. */
static void matcher_end_turn(struct matcher *matcher, uint32_t slot, enum look_end end)
{
    struct matcher_private *private = matcher->private_owned;
    struct entry *entry = matcher_entry(matcher, slot);
    if (end == LOOK_STOPPED) {
        ((struct look *)slab_at(&private->looks, entry->probe))->visited = 0;
        heap_update(&matcher->seeds, SEED_KEY_STOPPED + private->stops++, slot);
        matcher->counters.budget_stops++;
        return;
    }
    if (end != LOOK_PROPOSED)
        matcher_drop_look(matcher, entry);
    heap_remove(&matcher->seeds, slot);
}

/* Gives out what was proposed within a window that is over. */
static bool matcher_take_proposal(struct matcher *matcher, uint32_t *budget, struct matcher_group *group)
{
    struct look *look = window_take(matcher, budget);
    if (look == NULL)
        return false;
    bool is_whole = matcher_found(matcher, look, group);
    ASSERT(is_whole);
    matcher_drop_look(matcher, matcher_entry(matcher, look->seed));
    return true;
}

enum matcher_outcome matcher_look(struct matcher *matcher, uint64_t now_ms, uint32_t *budget,
                                  struct matcher_group *group)
{
    struct matcher_private *private = matcher->private_owned;
    if (window_proposes(matcher) && window_is_over(matcher, now_ms)) {
        if (matcher_take_proposal(matcher, budget, group))
            return MATCHER_FOUND;
        if (private->proposals.count > 0)
            return MATCHER_TIRED;
    }
    while (matcher->seeds.count > 0 && window_lets_look(matcher, now_ms)) {
        if (*budget == 0)
            return MATCHER_TIRED;
        uint32_t slot = heap_top(&matcher->seeds).slot;
        if (private->fresh != slot)
            matcher_settle(matcher);
        enum look_end end = matcher_look_once(matcher, slot, budget, group);
        if (end == LOOK_TIRED)
            return MATCHER_TIRED;
        matcher_end_turn(matcher, slot, end);
        if (end == LOOK_FOUND)
            return MATCHER_FOUND;
        matcher_settle(matcher);
    }
    window_rest(matcher, now_ms);
    return MATCHER_IDLE;
}

bool matcher_has_work(const struct matcher *matcher, uint64_t now_ms)
{
    const struct matcher_private *private = matcher->private_owned;
    bool may_look = private->window_ms == 0 || private->window_ends_ms == 0 || window_proposes(matcher);
    return (matcher->seeds.count > 0 && may_look) || window_is_over(matcher, now_ms);
}

uint32_t matcher_seed_count(const struct matcher *matcher)
{
    return matcher->seeds.count;
}

/* One candidate of a survey; takes its steps off the limit. */
static void survey_visit(const struct matcher *matcher, const struct entry *entry, uint32_t slot,
                         void (*visit)(void *context, uint32_t slot, const struct pair_check *check), void *context,
                         uint32_t *limit)
{
    struct pair_check check = {.verdict = PAIR_FITS};
    (void)pair_fits(matcher->rules, entry, matcher_entry(matcher, slot), &check);
    budget_spend(limit, check.work / PAIR_WORK_A_STEP);
    visit(context, slot, &check);
}

bool matcher_survey(const struct matcher *matcher, const struct entry *entry, uint32_t limit,
                    void (*visit)(void *context, uint32_t slot, const struct pair_check *check), void *context)
{
    const struct matcher_private *private = matcher->private_owned;
    const struct ticket_index *index = &private->index;
    struct streams streams = {.count = 0};
    struct walk walk = {.capacity = 0};
    ticket_index_streams(index, entry, ticket_index_values(index, entry), &streams);
    double center;
    bool is_outward = look_center(matcher, entry, &center), is_whole = true;
    if (private->fresh != 0 && matcher_entry(matcher, private->fresh) != entry && limit > 0)
        survey_visit(matcher, entry, private->fresh, visit, context, &limit);
    for (uint32_t class = PLAN_CLASSES; class -- > 0 && is_whole;) {
        if (index->class_counts[class] == 0)
            continue;
        walk_start(&walk, index, &streams, class, is_outward ? &center : NULL, &(struct walk_marks){0});
        struct candidate candidate;
        for (; walk_peek(&walk, &candidate) && is_whole; walk_take(&walk)) {
            if (matcher_entry(matcher, candidate.slot) == entry)
                continue;
            is_whole = limit > 0;
            if (limit > 0)
                survey_visit(matcher, entry, candidate.slot, visit, context, &limit);
        }
    }
    streams_deinit(&streams);
    walk_deinit(&walk);
    return is_whole;
}

/* Is the entry where the index says that it is? */
static uint32_t matcher_check_entry(const struct matcher *matcher, uint32_t slot)
{
    const struct entry *entry = matcher_entry(matcher, slot);
    const struct ticket_index *index = &matcher->private_owned->index;
    struct plan_stands stands;
    plan_stand(&index->plan, entry, &stands);
    for (uint32_t i = 0; i < stands.count; i++) {
        struct ordered_key key = {stands.buckets[i] | plan_class(entry), stands.sort_key, entry->number};
        struct ordered_cursor cursor = ordered_seek(&index->ordered, &key);
        ASSERT(cursor.leaf != NULL && ordered_slot(cursor) == slot);
    }
    return stands.count;
}

/* A look that is kept: of a seed that goes on later, or a proposal. */
static bool matcher_check_look(const struct matcher *matcher, uint32_t slot)
{
    const struct entry *entry = matcher_entry(matcher, slot);
    const struct look *look = slab_at(&matcher->private_owned->looks, entry->probe);
    ASSERT(look->seed == slot);
    ASSERT(look->is_proposal == (entry->seed_index == 0));
    return look->is_proposal;
}

void matcher_check(const struct matcher *matcher)
{
    const struct matcher_private *private = matcher->private_owned;
    if (private == NULL)
        return;
    heap_check(&matcher->seeds);
    heap_check(&matcher->steps);
    uint32_t count = 0, standing = 0, looks = 0, proposals = 0;
    size_t stands = 0;
    for (uint32_t slot = 1; slot < matcher->records->slot_end; slot++) {
        if (!matcher_has(matcher, slot))
            continue;
        const struct entry *entry = matcher_entry(matcher, slot);
        count++;
        looks += entry->probe != 0;
        if (entry->probe != 0)
            proposals += matcher_check_look(matcher, slot);
        if (slot == private->fresh)
            continue;
        uint32_t places = matcher_check_entry(matcher, slot);
        standing += places > 0;
        stands += places;
    }
    ASSERT(count == matcher->count && looks == private->looks.used && stands == private->index.ordered.count);
    ASSERT(proposals == private->proposals.count);
    ordered_check(&private->proposals);
    ticket_index_check(&private->index, standing);
}
