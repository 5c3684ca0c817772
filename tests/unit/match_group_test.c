/* Groups of more than two, teams, and windows, against looking at everything. */
#include "match_rig.h"

#include <time.h>

/* --- the best group, by trying all -------------------------------------------------------------------------------- */

#define BRUTE_MAX 14u

struct brute {
    const struct rig *rig;
    uint32_t seed;
    uint32_t candidates[BRUTE_MAX]; /* that fit the seed, in order */
    uint32_t count;
    uint32_t chosen[BRUTE_MAX];
    uint32_t chosen_count;
    uint32_t group[BRUTE_MAX + 1]; /* what was found */
    uint32_t group_count;
};

static bool brute_is_before(const struct rig *rig, uint32_t seed, uint32_t a, uint32_t b)
{
    const struct entry *x = rig_entry(rig, a), *y = rig_entry(rig, b);
    if (x->priority != y->priority)
        return x->priority > y->priority;
    if (rig->rules_owned->pick == PICK_NEAREST) {
        double middle = facts_at(rig_entry(rig, seed)->facts, rig->rules_owned->pick_attribute)->number;
        double to_x = fabs(facts_at(x->facts, rig->rules_owned->pick_attribute)->number - middle);
        double to_y = fabs(facts_at(y->facts, rig->rules_owned->pick_attribute)->number - middle);
        if (to_x != to_y)
            return to_x < to_y;
    }
    return x->number < y->number;
}

static bool brute_is_group(struct brute *brute)
{
    const struct entry *members[BRUTE_MAX + 1] = {rig_entry(brute->rig, brute->seed)};
    uint8_t teams[BRUTE_MAX + 1];
    struct pair_check check = {0};
    for (uint32_t i = 0; i < brute->chosen_count; i++)
        members[i + 1] = rig_entry(brute->rig, brute->chosen[i]);
    return group_fits(brute->rig->rules_owned, members, brute->chosen_count + 1, teams, &check);
}

static bool brute_try(struct brute *brute, uint32_t first, uint32_t left)
{
    if (left == 0) {
        if (!brute_is_group(brute))
            return false;
        brute->group_count = brute->chosen_count;
        memcpy(brute->group, brute->chosen, sizeof(brute->chosen));
        return true;
    }
    for (uint32_t i = first; i + left <= brute->count; i++) {
        brute->chosen[brute->chosen_count++] = brute->candidates[i];
        if (brute_try(brute, i + 1, left - 1))
            return true;
        brute->chosen_count--;
    }
    return false;
}

/* The smallest group with the seed, of those the first one in the order of its candidates. */
static bool brute_find(struct brute *brute)
{
    const struct rig *rig = brute->rig;
    for (uint32_t slot = 1; slot < rig->players.slot_end; slot++) {
        if (slot == brute->seed || !rig_is_here(rig, slot) || !rig_fits(rig, brute->seed, slot))
            continue;
        assert_true(brute->count < BRUTE_MAX);
        uint32_t at = brute->count++;
        for (; at > 0 && brute_is_before(rig, brute->seed, slot, brute->candidates[at - 1]); at--)
            brute->candidates[at] = brute->candidates[at - 1];
        brute->candidates[at] = slot;
    }
    for (uint32_t size = 0; size <= brute->count; size++)
        if (brute_try(brute, 0, size))
            return true;
    return false;
}

static void expect_best_group(const struct rig *rig, const struct matcher_group *group)
{
    struct brute brute = {.rig = rig, .seed = group->slots[0]};
    assert_true(brute_find(&brute));
    assert_int_equal(group->count, brute.group_count + 1);
    for (uint32_t i = 0; i < brute.group_count; i++)
        assert_int_equal(group->slots[i + 1], brute.group[i]);
    /* The teams have their weights. */
    uint32_t weights[RULES_TEAMS_MAX] = {0};
    for (uint32_t i = 0; i < group->count; i++)
        weights[group->teams[i]] += rig_entry(rig, group->slots[i])->weight;
    for (uint32_t i = 0; i < rig->rules_owned->team_count; i++)
        assert_int_equal(weights[i], rig->rules_owned->teams[i].size);
}

#define GROUP_ATTRS "'attrs':{'mode':'str','mmr':'num','maps':'set'}"
#define RED_BLUE(size) "'teams':[{'name':'red','size':" #size "},{'name':'blue','size':" #size "}],"

static const char *const group_rules[] = {
    "{'size':3," GROUP_ATTRS ",'rules':[{'type':'equal','attr':'mode'}]}",
    "{'size':4," GROUP_ATTRS ",'pick':'nearest:mmr','rules':[{'type':'near','attr':'mmr','max':9}]}",
    "{'size':3," GROUP_ATTRS ",'rules':[{'type':'near','attr':'mmr','max':8},{'type':'share','attr':'maps','min':2}]}",
    "{" RED_BLUE(2) GROUP_ATTRS ",'rules':[{'type':'near','attr':'mmr','max':12},"
                                "{'type':'team_near','scope':'match','attr':'mmr','max':2}]}",
    "{" RED_BLUE(3) GROUP_ATTRS ",'pick':'nearest:mmr','rules':[{'type':'equal','attr':'mode'},"
                                "{'type':'team_near','scope':'match','attr':'mmr','max':3}]}",
    "{'size':5," GROUP_ATTRS ",'rules':[{'type':'near','attr':'mmr','max':6,'agree':'either',"
    "'expand':[{'after':'3s','max':14}]}]}",
};

static void group_offer(struct rig *rig, uint32_t weight_max)
{
    char text[128];
    struct random *random = &rig->random;
    sprintf(text, "{'mode':'m%u','mmr':%u,'maps':['%c','%c','%c']}", random_below(random, 2), random_below(random, 40),
            (int)('a' + random_below(random, 2)), (int)('c' + random_below(random, 2)),
            (int)('e' + random_below(random, 2)));
    uint32_t slot =
        rig_make(rig, rig_facts(rig, text, random_below(random, 5) == 0 ? "{'mmr':{'min':10}}" : NULL), NULL);
    rig_entry(rig, slot)->weight = 1 + random_below(random, weight_max);
    rig_entry(rig, slot)->priority = random_below(random, 5) == 0 ? 2 : 0;
    matcher_add(&rig->matcher, slot, rig->now_ms, true);
}

/* Pools so small that the search must find a group whenever there is one. Returns how many it found. */
static unsigned random_groups(const char *rules, uint32_t weight_max, uint64_t seed)
{
    struct rig rig;
    unsigned found = 0;
    rig_init(&rig, rules, 0, seed);
    for (unsigned step = 0; step < 150; step++) {
        if (rig.matcher.count < BRUTE_MAX - 3)
            group_offer(&rig, weight_max);
        else
            for (uint32_t slot = 1; slot < rig.players.slot_end; slot += 2)
                if (rig_is_here(&rig, slot))
                    rig_remove(&rig, slot);
        rig.now_ms += 300;
        rig_step(&rig);
        struct matcher_group group;
        for (; rig_look(&rig, 50, &group); found++) {
            expect_best_group(&rig, &group);
            for (uint32_t i = 0; i < group.count; i++)
                rig_remove(&rig, group.slots[i]);
        }
        for (uint32_t slot = 1; slot < rig.players.slot_end; slot++)
            if (rig_is_here(&rig, slot))
                assert_false(brute_find(&(struct brute){.rig = &rig, .seed = slot}));
        matcher_check(&rig.matcher);
    }
    rig_deinit(&rig);
    return found;
}

static void small_pools_find_the_best_group_whenever_there_is_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(group_rules); i++)
        for (uint64_t seed = 1; seed <= 3; seed++)
            assert_true(random_groups(group_rules[i], 1, seed * 100 + i) > 0);
}

static void parties_fill_matches_in_the_smallest_group_first(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(group_rules); i++)
        for (uint64_t seed = 1; seed <= 3; seed++)
            assert_true(random_groups(group_rules[i], 3, seed * 100 + i) > 0);
}

static void a_party_with_the_weight_of_a_match_is_one_alone(void **state)
{
    (void)state;
    static const char *const rules[] = {"{'size':2,'attrs':{'x':'num'}}", "{'size':5,'attrs':{'x':'num'}}"};
    for (size_t i = 0; i < ARRAY_LENGTH(rules); i++) {
        struct rig rig;
        rig_init(&rig, rules[i], 0, 1);
        struct matcher_group group;
        uint32_t slot = rig_make(&rig, rig_facts(&rig, "{}", NULL), NULL);
        rig_entry(&rig, slot)->weight = rig.rules_owned->weight;
        matcher_add(&rig.matcher, slot, 0, true);
        assert_true(rig_look(&rig, 50, &group));
        assert_int_equal(group.count, 1);
        assert_int_equal(group.slots[0], slot);
        rig_deinit(&rig);
    }
}

static void a_pair_of_two_weighs_two_and_no_more(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, "{'size':2,'attrs':{'x':'num'}}", 0, 1);
    struct matcher_group group;
    uint32_t slot = rig_make(&rig, rig_facts(&rig, "{}", NULL), NULL);
    rig_entry(&rig, slot)->weight = 2;
    matcher_add(&rig.matcher, slot, 0, false);
    rig_offer(&rig, "{}", NULL);
    assert_false(rig_look(&rig, 50, &group));
    rig_offer(&rig, "{}", NULL);
    assert_true(rig_look(&rig, 50, &group));
    assert_int_equal(group.count, 2);
    assert_true(group.slots[0] != slot && group.slots[1] != slot);
    rig_deinit(&rig);
}

static void a_group_of_more_candidates_than_a_part_holds_is_found_in_a_later_part(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, "{'size':3,'attrs':{'n':'num'},'rules':[{'type':'expr','expr':'a.n * b.n > 0'}]}", 0, 1);
    struct matcher_group group;
    struct facts *none = rig_facts(&rig, "{'n':0}", NULL), *some = rig_facts(&rig, "{'n':1}", NULL);
    for (unsigned i = 0; i < 10000; i++)
        matcher_add(&rig.matcher, rig_make(&rig, NULL, none), 0, false);
    for (unsigned i = 0; i < 2; i++)
        matcher_add(&rig.matcher, rig_make(&rig, NULL, some), 0, false);
    matcher_add(&rig.matcher, rig_make(&rig, NULL, some), 0, true);
    assert_true(rig_look(&rig, 50, &group));
    assert_int_equal(group.count, 3);
    assert_int_equal(rig.matcher.counters.budget_stops, 2);
    rig_deinit(&rig);
    facts_destroy(none);
    facts_destroy(some);
}

static void large_matches_of_parties_are_found_though_the_search_is_cut(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, "{'teams':[{'name':'red','size':100},{'name':'blue','size':100}],'attrs':{'x':'num'}}", 0, 3);
    struct matcher_group group;
    unsigned found = 0;
    for (unsigned i = 0; i < 400; i++) {
        uint32_t slot = rig_make(&rig, rig_facts(&rig, "{}", NULL), NULL);
        rig_entry(&rig, slot)->weight = 1 + random_below(&rig.random, 5);
        matcher_add(&rig.matcher, slot, 0, true);
        for (; rig_look(&rig, 50, &group); found++)
            for (uint32_t k = 0; k < group.count; k++)
                rig_remove(&rig, group.slots[k]);
    }
    assert_true(found >= 4); /* of a weight of about 1,200 in all */
    rig_deinit(&rig);
}

/* --- windows ------------------------------------------------------------------------------------------------------ */

#define NEAREST "{'attrs':{'x':'num'},'pick':'nearest:x','rules':[{'type':'near','attr':'x','max':10}]}"

static void within_a_window_the_nearest_pairs_win_not_the_first(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, NEAREST, 200, 1);
    struct matcher_group group;
    rig_offer(&rig, "{'x':0}", NULL);
    rig_offer(&rig, "{'x':8}", NULL); /* without a window these two would be a pair */
    assert_false(rig_look(&rig, 50, &group));
    assert_int_equal(matcher_due_ms(&rig.matcher), 200);
    rig.now_ms = 100;
    rig_offer(&rig, "{'x':9}", NULL);
    rig_offer(&rig, "{'x':-7}", NULL);
    assert_false(rig_look(&rig, 50, &group));
    matcher_check(&rig.matcher);
    assert_false(matcher_has_work(&rig.matcher, 199));
    assert_true(matcher_has_work(&rig.matcher, 200));
    rig.now_ms = 200;
    assert_true(rig_look(&rig, 50, &group));
    assert_int_equal(group.slots[0] + group.slots[1], 2 + 3);
    rig_remove(&rig, 2);
    rig_remove(&rig, 3);
    assert_true(rig_look(&rig, 50, &group));
    assert_int_equal(group.slots[0] + group.slots[1], 1 + 4);
    rig_remove(&rig, 1);
    rig_remove(&rig, 4);
    assert_false(rig_look(&rig, 50, &group));
    assert_int_equal(matcher_due_ms(&rig.matcher), UINT64_MAX);
    rig_deinit(&rig);
}

static void who_lost_its_partner_looks_again_in_the_next_window(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, NEAREST, 200, 1);
    struct matcher_group group;
    rig_offer(&rig, "{'x':0}", NULL);
    rig_offer(&rig, "{'x':1}", NULL);
    rig_offer(&rig, "{'x':11}", NULL); /* fits the second only */
    assert_false(rig_look(&rig, 50, &group));
    rig.now_ms = 200;
    assert_true(rig_look(&rig, 50, &group));
    rig_remove(&rig, 1);
    rig_remove(&rig, 2);
    assert_false(rig_look(&rig, 50, &group));
    rig_offer(&rig, "{'x':15}", NULL);
    assert_false(rig_look(&rig, 50, &group));
    rig.now_ms = matcher_due_ms(&rig.matcher);
    assert_int_equal(rig.now_ms, 400);
    assert_true(rig_look(&rig, 50, &group));
    rig_deinit(&rig);
}

static void by_age_looks_wait_for_the_end_of_the_window(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, "{'size':3,'attrs':{'x':'num'}}", 100, 1);
    struct matcher_group group;
    for (unsigned i = 0; i < 4; i++) {
        rig_offer(&rig, "{}", NULL);
        assert_false(rig_look(&rig, 50, &group));
    }
    assert_false(matcher_has_work(&rig.matcher, 99));
    assert_int_equal(matcher_due_ms(&rig.matcher), 100);
    rig.now_ms = 100;
    assert_true(matcher_has_work(&rig.matcher, 100));
    assert_true(rig_look(&rig, 50, &group));
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(rig_entry(&rig, group.slots[i])->number, i + 1);
        rig_remove(&rig, group.slots[i]);
    }
    assert_false(rig_look(&rig, 50, &group));
    assert_false(matcher_has_work(&rig.matcher, 100));
    rig_deinit(&rig);
}

static void who_comes_when_all_who_waited_have_gone_gets_a_window_of_its_own(void **state)
{
    (void)state;
    struct rig rig;
    struct matcher_group group;
    rig_init(&rig, "{'attrs':{'x':'num'},'rules':[{'type':'near','attr':'x','max':1}]}", 1000, 1);
    rig_remove(&rig, rig_offer(&rig, "{'x':0}", NULL)); /* before anybody has looked */
    uint32_t gone = rig_offer(&rig, "{'x':0}", NULL);
    assert_false(rig_look(&rig, 50, &group));
    assert_true(matcher_due_ms(&rig.matcher) == 1000);
    rig_remove(&rig, gone);
    assert_true(matcher_due_ms(&rig.matcher) == UINT64_MAX);
    rig.now_ms = 400; /* within the window that is open */
    gone = rig_offer(&rig, "{'x':0}", NULL);
    assert_false(rig_look(&rig, 50, &group));
    assert_true(matcher_due_ms(&rig.matcher) == 1000);
    rig_remove(&rig, gone);
    rig.now_ms = 50000;
    rig_offer(&rig, "{'x':0}", NULL);
    rig_offer(&rig, "{'x':1}", NULL);
    assert_false(rig_look(&rig, 50, &group));
    assert_true(matcher_due_ms(&rig.matcher) == 51000);
    rig.now_ms = 51000;
    assert_true(rig_look(&rig, 50, &group));
    rig_deinit(&rig);
}

/* Two teams of one are a pair that also has a rule of teams. One of two that were found for each other changes before
 * the window ends. */
static void a_pair_of_teams_that_is_none_any_more_is_not_given_out(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig,
             "{'attrs':{'x':'num'},'pick':'nearest:x','teams':[{'name':'red','size':1},{'name':'blue','size':1}],"
             "'rules':[{'type':'team_near','scope':'match','attr':'x','max':50}]}",
             1000, 1);
    struct matcher_group group;
    uint32_t first = rig_offer(&rig, "{'x':100}", NULL);
    rig_offer(&rig, "{'x':110}", NULL);
    assert_false(rig_look(&rig, 50, &group));
    struct facts *changed = rig_facts(&rig, "{'x':500}", NULL);
    matcher_remove(&rig.matcher, first);
    facts_destroy(rig_at(&rig, first)->facts_owned);
    rig_at(&rig, first)->facts_owned = changed;
    rig_entry(&rig, first)->facts = changed;
    matcher_add(&rig.matcher, first, rig.now_ms, true);
    rig.now_ms = 1000;
    assert_false(rig_look(&rig, 50, &group));
    uint32_t third = rig_offer(&rig, "{'x':120}", NULL);
    assert_false(rig_look(&rig, 50, &group)); /* the next window begins */
    while (matcher_due_ms(&rig.matcher) != UINT64_MAX && rig.now_ms < 10000) {
        rig.now_ms = matcher_due_ms(&rig.matcher);
        if (rig_look(&rig, 50, &group))
            break;
    }
    assert_int_equal(group.count, 2);
    assert_true(group.slots[0] == third || group.slots[1] == third);
    assert_true(group.slots[0] != first && group.slots[1] != first);
    rig_deinit(&rig);
}

/* Whatever happens within windows: what is found fits, and when nothing is left to wait for no two fit. */
static void windows_leave_no_two_that_fit(void **state)
{
    (void)state;
    static const char *const rules[] = {
        NEAREST,
        "{'attrs':{'x':'num'},'rules':[{'type':'near','attr':'x','max':10}]}",
        "{'attrs':{'x':'num'},'pick':'score:b.x','rules':[{'type':'near','attr':'x','max':30}]}",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rules); i++) {
        struct rig rig;
        unsigned found = 0;
        rig_init(&rig, rules[i], 150, 40 + i);
        struct matcher_group group;
        for (unsigned step = 0; step < 2000; step++) {
            uint32_t slot = rig.players.slot_end > 1 ? 1 + random_below(&rig.random, rig.players.slot_end - 1) : 0;
            char text[32];
            sprintf(text, "{'x':%u}", random_below(&rig.random, 400));
            if (random_below(&rig.random, 3) != 0)
                rig_offer(&rig, text, NULL);
            else if (slot != 0 && rig_is_here(&rig, slot))
                rig_remove(&rig, slot);
            rig.now_ms += random_below(&rig.random, 20);
            if (step % 500 == 499) {
                for (unsigned windows = 0;
                     matcher_due_ms(&rig.matcher) != UINT64_MAX || matcher_seed_count(&rig.matcher) > 0; windows++) {
                    assert_true(windows < 200);
                    uint64_t due_ms = matcher_due_ms(&rig.matcher);
                    rig.now_ms = due_ms != UINT64_MAX && due_ms > rig.now_ms ? due_ms : rig.now_ms;
                    for (; rig_look(&rig, 50, &group); found++)
                        for (uint32_t k = 0; k < 2; k++)
                            rig_remove(&rig, group.slots[k]);
                }
                for (uint32_t a = 1; a < rig.players.slot_end; a++)
                    for (uint32_t b = a + 1; b < rig.players.slot_end; b++)
                        assert_false(rig_is_here(&rig, a) && rig_is_here(&rig, b) && rig_fits(&rig, a, b));
            }
            uint32_t budget = 1 + random_below(&rig.random, 5);
            if (matcher_look(&rig.matcher, rig.now_ms, &budget, &group) == MATCHER_FOUND) {
                assert_true(rig_fits(&rig, group.slots[0], group.slots[1]));
                for (uint32_t k = 0; k < 2; k++)
                    rig_remove(&rig, group.slots[k]);
                found++;
            }
            matcher_check(&rig.matcher);
        }
        assert_true(found > 100);
        rig_deinit(&rig);
    }
}

/* --- what it costs ------------------------------------------------------------------------------------------------ */

static double seconds_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* About normal: the sum of twelve even ones, between -3 and 3. */
static double random_skill(struct random *random)
{
    for (;;) {
        double sum = -6;
        for (unsigned i = 0; i < 12; i++)
            sum += random_below(random, 1000000) * 1e-6;
        if (fabs(sum) <= 3)
            return sum;
    }
}

/* Matches of twelve, like Open Match's example of a team shooter: two regions, two modes at 100 to 25, a narrow window
 * of skill. */
static void measure_shooter(const char *pick, double window, uint32_t count, bool is_printed)
{
    struct rig rig;
    char rules[512];
    sprintf(rules,
            "{'teams':[{'name':'red','size':6},{'name':'blue','size':6}],'pick':'%s',"
            "'attrs':{'region':'str','mode':'str','skill':'num'},'rules':[{'type':'equal','attr':'region'},"
            "{'type':'equal','attr':'mode'},{'type':'near','attr':'skill','max':%g}]}",
            pick, window);
    rig_init(&rig, rules, 0, 12);
    uint32_t *slots = calloc(count, sizeof(*slots));
    for (uint32_t i = 0; i < count; i++) {
        char text[128];
        sprintf(text, "{'region':'r%u','mode':'m%u','skill':%.6f}", random_below(&rig.random, 2),
                random_below(&rig.random, 125) < 25, random_skill(&rig.random));
        slots[i] = rig_make(&rig, rig_facts(&rig, text, NULL), NULL);
    }
    struct matcher_group group;
    uint32_t found = 0;
    double begin = seconds_now(), slowest = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t budget = UINT32_MAX;
        double before = seconds_now();
        matcher_add(&rig.matcher, slots[i], 0, true);
        while (matcher_look(&rig.matcher, 0, &budget, &group) == MATCHER_FOUND) {
            assert_int_equal(group.count, 12);
            for (uint32_t k = 0; k < group.count; k++)
                rig_remove(&rig, group.slots[k]);
            found++;
        }
        double took = seconds_now() - before;
        slowest = took > slowest ? took : slowest;
    }
    double seconds = seconds_now() - begin;
    assert_true(found > 0);
    if (is_printed)
        print_message("%s, skill within %g: %u tickets, %u matches, %u wait; %.1f us a ticket, the slowest %.0f us; "
                      "%.0f candidates a look\n",
                      pick, window, count, found, rig.matcher.count, seconds * 1e6 / count, slowest * 1e6,
                      (double)rig.matcher.counters.candidates / (double)rig.matcher.counters.probes);
    free(slots);
    rig_deinit(&rig);
}

static void matches_of_twelve_are_measured(void **state)
{
    (void)state;
    bool measures = getenv("TALLY_MEASURE") != NULL;
    uint32_t count = measures ? 100000 : 2000;
    measure_shooter("oldest", 0.1, count, measures);
    measure_shooter("nearest:skill", 0.1, count, measures);
    if (!measures)
        return;
    measure_shooter("oldest", 0.01, count, measures);
    measure_shooter("nearest:skill", 0.01, count, measures);
    measure_shooter("nearest:skill", 1, count, measures);
}

/* --- what a search costs ------------------------------------------------------------------------------------------ */

/* All fit the seed and no two of them each other; each check compares two sets of many texts that are the same. */
static void a_search_for_a_group_is_bounded_in_the_work_of_its_checks(void **state)
{
    (void)state;
    struct rig rig;
    struct matcher_group group;
    char attributes[4096];
    rig_init(&rig,
             "{'size':4,'attrs':{'s':'set','n':'num'},'rules':[{'type':'expr','expr':'a.s==b.s and a.s==b.s'},"
             "{'type':'expr','expr':'a.n*b.n==0'}]}",
             0, 1);
    for (unsigned i = 0; i < 1000; i++) {
        char *end = attributes + sprintf(attributes, "{'n':%u,'s':['0'", i < 999);
        for (unsigned value = 1; value < 64; value++)
            end += sprintf(end, ",'%u'", value);
        sprintf(end, "]}");
        matcher_add(&rig.matcher, rig_make(&rig, rig_facts(&rig, attributes, NULL), NULL), 0, i == 999);
    }
    uint32_t budget = 16384;
    assert_int_equal(matcher_look(&rig.matcher, 0, &budget, &group), MATCHER_TIRED);
    assert_int_equal(rig.matcher.counters.probes, 1);
    assert_in_range(rig.matcher.counters.candidates, 50, 200); /* of the 512 that it takes of a cheaper kind */
    assert_in_range(rig.matcher.counters.cost, 16384, 200000);
    assert_false(rig_look(&rig, 16384, &group));
    assert_int_equal(rig.matcher.counters.candidates, 999);
    rig_deinit(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_pools_find_the_best_group_whenever_there_is_one),
        cmocka_unit_test(parties_fill_matches_in_the_smallest_group_first),
        cmocka_unit_test(a_party_with_the_weight_of_a_match_is_one_alone),
        cmocka_unit_test(a_pair_of_two_weighs_two_and_no_more),
        cmocka_unit_test(a_group_of_more_candidates_than_a_part_holds_is_found_in_a_later_part),
        cmocka_unit_test(large_matches_of_parties_are_found_though_the_search_is_cut),
        cmocka_unit_test(a_search_for_a_group_is_bounded_in_the_work_of_its_checks),
        cmocka_unit_test(within_a_window_the_nearest_pairs_win_not_the_first),
        cmocka_unit_test(who_lost_its_partner_looks_again_in_the_next_window),
        cmocka_unit_test(by_age_looks_wait_for_the_end_of_the_window),
        cmocka_unit_test(who_comes_when_all_who_waited_have_gone_gets_a_window_of_its_own),
        cmocka_unit_test(a_pair_of_teams_that_is_none_any_more_is_not_given_out),
        cmocka_unit_test(windows_leave_no_two_that_fit),
        cmocka_unit_test(matches_of_twelve_are_measured),
    };
    return cmocka_run_group_tests_name("groups", tests, NULL, NULL);
}
