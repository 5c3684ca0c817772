/* The matcher against looking at everything. */
#include "match_rig.h"

#include "match/expression.h"
#include "support/scale.h"
#include <time.h>

/* --- the worked examples of the rule language --------------------------------------------------------------------- */

struct sample {
    uint64_t at_s;
    const char *attributes;
    const char *need;
    uint32_t weight;
};

/* Offers each sample at its time, lets time pass second by second, and writes who was matched with whom: "t=3 3,4; ".
 * Tickets are called by their number; ttl_s ends them. */
static void replay(const char *rules, const struct sample *samples, size_t count, uint64_t ttl_s, uint64_t until_s,
                   const char *expected)
{
    struct rig rig;
    rig_init(&rig, rules, 0, 1);
    char text[1024] = "";
    size_t size = 0, next = 0;
    for (uint64_t second = 0; second <= until_s; second++) {
        rig.now_ms = second * 1000;
        for (bool has_more = true; has_more;) {
            has_more = next < count && samples[next].at_s == second;
            if (has_more) {
                uint32_t slot = rig_make(&rig, rig_facts(&rig, samples[next].attributes, samples[next].need), NULL);
                rig_entry(&rig, slot)->weight = samples[next].weight > 0 ? samples[next].weight : 1;
                rig_entry(&rig, slot)->expires_at_ms = rig.now_ms + ttl_s * 1000;
                matcher_add(&rig.matcher, slot, rig.now_ms, true);
                next++;
            } else {
                rig_step(&rig);
            }
            struct matcher_group group;
            while (rig_look(&rig, 3, &group)) {
                size += (size_t)snprintf(text + size, sizeof(text) - size, "t=%u", (unsigned)second);
                for (uint32_t i = 0; i < group.count; i++) {
                    const char *team = rig.rules_owned->has_teams ? (group.teams[i] == 0 ? "r" : "b") : "";
                    size += (size_t)snprintf(text + size, sizeof(text) - size, " %u%s",
                                             (unsigned)rig_entry(&rig, group.slots[i])->number, team);
                    rig_remove(&rig, group.slots[i]);
                }
                size += (size_t)snprintf(text + size, sizeof(text) - size, ";");
            }
            matcher_check(&rig.matcher);
        }
        for (uint32_t slot = 1; slot < rig.players.slot_end; slot++)
            if (rig_is_here(&rig, slot) && rig_entry(&rig, slot)->expires_at_ms <= rig.now_ms)
                rig_remove(&rig, slot);
    }
    assert_string_equal(text, expected);
    rig_deinit(&rig);
}

static void kinds_with_an_own_requirement_match_as_in_the_reference(void **state)
{
    (void)state;
    static const struct sample samples[] = {
        {0, "{'kind':'A','qty':5}", NULL, 1},  {1, "{'kind':'C','qty':1}", NULL, 1},
        {2, "{'kind':'A','qty':20}", NULL, 1}, {3, "{'kind':'B','qty':7}", "{'qty':{'min':10}}", 1},
        {4, "{'kind':'E','qty':1}", NULL, 1},  {5, "{'kind':'B','qty':3}", NULL, 1},
        {6, "{'kind':'F','qty':1}", NULL, 1},  {7, "{'kind':'D','qty':1}", NULL, 1},
    };
    replay("{'size':2,'attrs':{'kind':'str','qty':'num'},'pick':'oldest',"
           "'rules':[{'type':'pairs','attr':'kind','allow':[['A','B'],['C','E'],['D','F']]}]}",
           samples, ARRAY_LENGTH(samples), 600, 60, "t=3 4 3;t=4 5 2;t=5 6 1;t=7 8 7;");
}

#define DUEL(agree)                                                                                                    \
    "{'size':2,'pick':'nearest:mmr','attrs':{'mode':'str','user':'str','mmr':'num','maps':'set','ping':'num'},"        \
    "'rules':[{'type':'equal','attr':'mode'},{'type':'differ','attr':'user'},"                                         \
    "{'type':'near','attr':'mmr','max':50,'agree':'" agree "','expand':[{'after':'10s','max':100},"                    \
    "{'after':'30s','max':300}]},{'type':'share','attr':'maps','min':1},"                                              \
    "{'type':'expr','expr':'a.ping + b.ping <= 150'}]}"

static void a_duel_widens_as_in_the_reference(void **state)
{
    (void)state;
    static const struct sample samples[] = {
        {0, "{'mode':'r','user':'u1','mmr':1500,'maps':['x','y'],'ping':40}", NULL, 1},
        {2, "{'mode':'r','user':'u2','mmr':1580,'maps':['y'],'ping':50}", NULL, 1},
        {4, "{'mode':'r','user':'u3','mmr':1495,'maps':['z'],'ping':30}", NULL, 1},
        {15, "{'mode':'r','user':'u4','mmr':1700,'maps':['z'],'ping':130}", NULL, 1},
    };
    replay(DUEL("both"), samples, ARRAY_LENGTH(samples), 120, 300, "t=12 2 1;");
    replay(DUEL("either"), samples, ARRAY_LENGTH(samples), 120, 300, "t=10 1 2;");
}

static void two_teams_with_a_party_match_as_in_the_reference(void **state)
{
    (void)state;
    static const struct sample samples[] = {
        {0, "{'region':'eu','mmr':1510}", NULL, 2}, {3, "{'region':'eu','mmr':1480}", NULL, 1},
        {5, "{'region':'us','mmr':1500}", NULL, 1}, {8, "{'region':'eu','mmr':1600}", NULL, 1},
        {9, "{'region':'eu','mmr':1535}", NULL, 1},
    };
    replay("{'teams':[{'name':'red','size':2},{'name':'blue','size':2}],'pick':'oldest',"
           "'attrs':{'region':'str','mmr':'num'},'rules':[{'type':'equal','attr':'region'},"
           "{'type':'near','attr':'mmr','max':200,'agree':'both','expand':[{'after':'20s','max':400}]},"
           "{'type':'team_near','scope':'match','attr':'mmr','max':60}]}",
           samples, ARRAY_LENGTH(samples), 300, 120, "t=8 4r 1b 2r;");
}

/* --- random pools of pairs ---------------------------------------------------------------------------------------- */

#define ATTRS "'attrs':{'mode':'str','user':'str','kind':'str','mmr':'num','ping':'num','maps':'set'}"

/* Every rule type, alone and together. */
static const char *const pair_rules[] = {
    "{" ATTRS ",'rules':[]}",
    "{" ATTRS ",'rules':[{'type':'equal','attr':'mode'}]}",
    "{" ATTRS ",'rules':[{'type':'equal','attr':'mode','missing':'any'},{'type':'differ','attr':'user'}]}",
    "{" ATTRS ",'rules':[{'type':'equal','attr':'maps'},{'type':'equal','attr':'ping'}]}",
    "{" ATTRS ",'rules':[{'type':'pairs','attr':'kind','allow':[['A','B'],['A','C'],['D','D']]}]}",
    "{" ATTRS ",'rules':[{'type':'near','attr':'mmr','max':3}]}",
    "{" ATTRS ",'pick':'first','rules':[{'type':'near','attr':'mmr','max':3},{'type':'differ','attr':'user'}]}",
    "{" ATTRS ",'pick':'nearest:mmr','rules':[{'type':'near','attr':'mmr','max':9},{'type':'equal','attr':'mode'}]}",
    "{" ATTRS ",'pick':'nearest:ping','rules':[{'type':'near','attr':'mmr','max':5},{'type':'differ','attr':'user'}]}",
    "{" ATTRS ",'pick':'nearest:mmr','rules':[{'type':'equal','attr':'mode'},{'type':'differ','attr':'user'}]}",
    "{" ATTRS ",'pick':'nearest:mmr','rules':[{'type':'near','attr':'mmr','max':4,'missing':'any'}]}",
    "{" ATTRS ",'rules':[{'type':'near','attr':'mmr','max':2,'missing':'any','agree':'either',"
    "'expand':[{'after':'3s','max':6},{'after':'9s','off':true}]},{'type':'equal','attr':'mode'}]}",
    "{" ATTRS ",'pick':'nearest:mmr','rules':[{'type':'near','attr':'mmr','max':1,'agree':'both',"
    "'expand':[{'after':'2s','max':4},{'after':'7s','max':9},{'after':'15s','off':true}]},{'type':'equal','attr':'mode'"
    "}]}",
    "{" ATTRS ",'pick':'nearest:mmr','rules':[{'type':'near','attr':'mmr','max':1,'agree':'either',"
    "'expand':[{'after':'2s','max':4},{'after':'7s','max':9},{'after':'15s','off':true}]},{'type':'differ','attr':'"
    "user'}]}",
    "{" ATTRS ",'rules':[{'type':'share','attr':'maps','min':2}]}",
    "{" ATTRS ",'pick':'nearest:mmr','rules':[{'type':'share','attr':'maps','min':3,'agree':'both',"
    "'expand':[{'after':'4s','min':2},{'after':'8s','off':true}]},{'type':'near','attr':'mmr','max':6,'agree':'either',"
    "'expand':[{'after':'5s','max':12}]}]}",
    "{" ATTRS ",'rules':[{'type':'share','attr':'maps','min':3,'agree':'either',"
    "'expand':[{'after':'4s','min':2},{'after':'8s','off':true}]},{'type':'equal','attr':'mode'}]}",
    "{" ATTRS ",'rules':[{'type':'share','attr':'maps','min':2,'missing':'any'},{'type':'near','attr':'mmr','max':3}]}",
    "{" ATTRS ",'pick':'score:0 - b.ping','rules':[{'type':'equal','attr':'mode'},"
    "{'type':'expr','expr':'a.ping + b.ping <= 9'}]}",
    "{" ATTRS ",'pick':'nearest:mmr','rules':[{'type':'pairs','attr':'kind','allow':[['A','B'],['B','C'],['C','C']]},"
    "{'type':'share','attr':'maps','min':1},{'type':'near','attr':'mmr','max':8,'expand':[{'after':'6s','max':16}]}]}",
    "{" ATTRS ",'pick':'nearest:ping','rules':[{'type':'near','attr':'mmr','max':9},"
    "{'type':'near','attr':'ping','max':2,'agree':'either','expand':[{'after':'4s','max':1},{'after':'8s','max':4}]}]}",
    "{" ATTRS ",'rules':[{'type':'near','attr':'mmr','max':9,'missing':'any','expand':[{'after':'4s','off':true}]},"
    "{'type':'near','attr':'ping','max':1,'expand':[{'after':'2s','max':0},{'after':'5s','max':3}]}]}",
    "{'teams':[{'name':'x','size':1},{'name':'y','size':1}]," ATTRS ",'pick':'nearest:mmr','rules':["
    "{'type':'near','attr':'mmr','max':9},{'type':'team_near','scope':'match','attr':'ping','max':2}]}",
};

static struct facts *random_facts(struct rig *rig)
{
    struct random *random = &rig->random;
    char text[512] = "{", need[256] = "{";
    size_t size = 1;
    if (random_below(random, 12) != 0)
        size += (size_t)sprintf(text + size, "'mode':'m%u',", random_below(random, 3));
    if (random_below(random, 12) != 0)
        size += (size_t)sprintf(text + size, "'user':'u%u',", random_below(random, 6));
    if (random_below(random, 12) != 0)
        size += (size_t)sprintf(text + size, "'kind':'%c',", (int)('A' + random_below(random, 5)));
    if (random_below(random, 12) != 0)
        size += (size_t)sprintf(text + size, "'mmr':%d,", (int)random_below(random, 60) - 30);
    if (random_below(random, 12) != 0)
        size += (size_t)sprintf(text + size, "'ping':%u,", random_below(random, 8));
    size += (size_t)sprintf(text + size, "'maps':[");
    unsigned maps = random_below(random, 6);
    for (unsigned i = 0; i < maps; i++)
        size += (size_t)sprintf(text + size, "%s'%c'", i > 0 ? "," : "",
                                (int)('a' + (i * 2 + random_below(random, 2)) % 7));
    sprintf(text + size, "]}");
    static const char *const needs[] = {
        "'mode':{'eq':'m1'}",         "'user':{'eq':'u1'}",       "'user':{'in':['u0','u2','u3']}", "'mmr':{'min':-5}",
        "'mmr':{'max':3,'min':-10}",  "'kind':{'in':['A','B']}",  "'kind':{'not':['C']}",           "'ping':{'eq':3}",
        "'ping':{'in':[1,2,3,4]}",    "'maps':{'any':['a','b']}", "'maps':{'all':['c']}",           "'kind':{'eq':'A'}",
        "'user':{'not':['u1','u2']}", "'mmr':{'eq':0}",
    };
    unsigned count = random_below(random, 4) == 0 ? 1 + random_below(random, 2) : 0;
    size_t need_size = 1;
    unsigned first = random_below(random, ARRAY_LENGTH(needs));
    for (unsigned i = 0; i < count; i++) {
        const char *clause = needs[(first + i * 5) % ARRAY_LENGTH(needs)];
        if (i > 0 && strncmp(clause, needs[first], 5) == 0)
            continue; /* an attribute once */
        need_size += (size_t)sprintf(need + need_size, "%s%s", i > 0 ? "," : "", clause);
    }
    sprintf(need + need_size, "}");
    return rig_facts(rig, text, count > 0 ? need : NULL);
}

static uint32_t class_of(const struct entry *entry)
{
    return entry->is_urgent ? ENTRY_PRIORITY_URGENT : entry->priority;
}

static double rank_of(const struct rules *rules, const struct entry *seed, const struct entry *other)
{
    double score;
    if (rules->pick == PICK_SCORE)
        return expression_number(rules->pick_score_owned, seed->facts, other->facts, &score, &(uint64_t){0}) ? -score
                                                                                                             : INFINITY;
    if (rules->pick != PICK_NEAREST)
        return 0;
    const struct fact *x = facts_at(seed->facts, rules->pick_attribute);
    const struct fact *y = facts_at(other->facts, rules->pick_attribute);
    return x->is_there && y->is_there ? fabs(x->number - y->number) : INFINITY;
}

/* The order of candidates: priority, pick, number. */
static bool is_better(const struct rules *rules, const struct entry *seed, const struct entry *a, const struct entry *b)
{
    if (class_of(a) != class_of(b))
        return class_of(a) > class_of(b);
    double rank_a = rank_of(rules, seed, a), rank_b = rank_of(rules, seed, b);
    return rank_a != rank_b ? rank_a < rank_b : a->number < b->number;
}

static bool is_whole(const struct rig *rig, uint32_t a, uint32_t b)
{
    const struct entry *members[2] = {rig_entry(rig, a), rig_entry(rig, b)};
    uint8_t teams[2];
    uint32_t budget = 1000;
    return group_divide(rig->rules_owned, members, 2, teams, &budget);
}

/* The best partner, by looking at all; 0: none. */
static uint32_t best_partner(const struct rig *rig, uint32_t seed)
{
    uint32_t best = 0;
    for (uint32_t slot = 1; slot < rig->players.slot_end; slot++) {
        if (slot == seed || !rig_is_here(rig, slot) || !rig_fits(rig, seed, slot) || !is_whole(rig, seed, slot))
            continue;
        if (best == 0 || is_better(rig->rules_owned, rig_entry(rig, seed), rig_entry(rig, slot), rig_entry(rig, best)))
            best = slot;
    }
    return best;
}

static void random_offer(struct rig *rig)
{
    uint32_t slot = rig_make(rig, random_facts(rig), NULL);
    struct entry *entry = rig_entry(rig, slot);
    entry->priority = random_below(&rig->random, 6) == 0 ? (uint8_t)random_below(&rig->random, 10) : 0;
    if (random_below(&rig->random, 3) == 0)
        entry->expires_at_ms = rig->now_ms + random_below(&rig->random, 30000);
    matcher_add(&rig->matcher, slot, rig->now_ms, true);
}

static uint32_t random_player(struct rig *rig)
{
    for (unsigned i = 0; i < 20 && rig->players.slot_end > 1; i++) {
        uint32_t slot = 1 + random_below(&rig->random, rig->players.slot_end - 1);
        if (rig_is_here(rig, slot))
            return slot;
    }
    return 0;
}

static void remove_members(struct rig *rig, const struct matcher_group *group)
{
    for (uint32_t i = 0; i < group->count; i++)
        rig_remove(rig, group->slots[i]);
}

static void expect_best_pair(const struct rig *rig, const struct matcher_group *group)
{
    assert_int_equal(group->count, 2);
    assert_true(rig_fits(rig, group->slots[0], group->slots[1]));
    if (rig->rules_owned->pick == PICK_FIRST)
        return;
    uint32_t best = best_partner(rig, group->slots[0]);
    assert_int_equal(rig_entry(rig, best)->number, rig_entry(rig, group->slots[1])->number);
}

/* M18: with no seed left, no two tickets fit each other. */
static void expect_no_two_fit(const struct rig *rig)
{
    assert_int_equal(matcher_seed_count(&rig->matcher), 0);
    assert_false(matcher_has_work(&rig->matcher, rig->now_ms));
    for (uint32_t slot = 1; slot < rig->players.slot_end; slot++)
        if (rig_is_here(rig, slot))
            assert_int_equal(best_partner(rig, slot), 0);
}

/* One thing happens to a pool: some arrive, one leaves, one says other things, time passes. */
static void random_event(struct rig *rig)
{
    unsigned kind = random_below(&rig->random, 10);
    uint32_t slot = random_player(rig);
    if (kind < 6) {
        for (unsigned i = random_below(&rig->random, 4) + 1; i > 0; i--)
            random_offer(rig);
    } else if (kind == 6 && slot != 0) {
        rig_remove(rig, slot);
    } else if (kind == 7 && slot != 0) {
        matcher_remove(&rig->matcher, slot);
        struct player *player = rig_at(rig, slot);
        facts_destroy(player->facts_owned);
        player->entry.facts = player->facts_owned = random_facts(rig);
        matcher_add(&rig->matcher, slot, rig->now_ms, true);
    } else {
        rig->now_ms += random_below(&rig->random, 4000);
        rig_step(rig);
    }
}

static void random_pairs(const char *rules, uint64_t seed)
{
    struct rig rig;
    rig_init(&rig, rules, 0, seed);
    for (unsigned step = 0; step < 250; step++) {
        random_event(&rig);
        struct matcher_group group;
        while (rig_look(&rig, 50, &group)) {
            expect_best_pair(&rig, &group);
            remove_members(&rig, &group);
        }
        expect_no_two_fit(&rig);
        matcher_check(&rig.matcher);
    }
    rig_deinit(&rig);
}

static void every_pair_is_the_best_one_and_none_is_left(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(pair_rules); i++)
        for (uint64_t seed = 1; seed <= scaled(3); seed++)
            random_pairs(pair_rules[i], seed * 1000 + i);
}

/* As above, but tickets come and go between the parts of looks. */
static void interrupted_pairs(const char *rules, uint64_t seed)
{
    struct rig rig;
    rig_init(&rig, rules, 0, seed);
    for (unsigned step = 0; step < 400; step++) {
        random_event(&rig);
        struct matcher_group group;
        for (unsigned calls = random_below(&rig.random, 6); calls > 0; calls--) {
            uint32_t budget = 1 + random_below(&rig.random, 8);
            if (matcher_look(&rig.matcher, rig.now_ms, &budget, &group) != MATCHER_FOUND)
                continue;
            assert_int_equal(group.count, 2);
            assert_true(rig_fits(&rig, group.slots[0], group.slots[1]));
            remove_members(&rig, &group);
        }
        matcher_check(&rig.matcher);
        if (step % 20 != 0)
            continue;
        while (rig_look(&rig, 50, &group))
            remove_members(&rig, &group);
        expect_no_two_fit(&rig);
    }
    rig_deinit(&rig);
}

static void MR39_looks_survive_what_comes_and_goes_between_their_parts(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(pair_rules); i++)
        for (uint64_t seed = 1; seed <= scaled(3); seed++)
            interrupted_pairs(pair_rules[i], seed * 7000 + i);
}

/* Two pools in which the same happens, with other slots, find the same. */
static void what_is_found_does_not_depend_on_slots(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(pair_rules); i++) {
        struct rig rigs[2];
        for (unsigned side = 0; side < 2; side++)
            rig_init(&rigs[side], pair_rules[i], 0, 77 + i);
        for (unsigned filler = 0; filler < 50; filler++)
            (void)slab_allocate(&rigs[1].players);
        for (unsigned step = 0; step < 300; step++) {
            uint64_t found[2][2] = {{0}};
            for (unsigned side = 0; side < 2; side++) {
                struct matcher_group group;
                uint32_t budget = 1 + step % 40;
                random_offer(&rigs[side]);
                rigs[side].now_ms += 200;
                rig_step(&rigs[side]);
                if (matcher_look(&rigs[side].matcher, rigs[side].now_ms, &budget, &group) != MATCHER_FOUND)
                    continue;
                for (unsigned member = 0; member < 2; member++)
                    found[side][member] = rig_entry(&rigs[side], group.slots[member])->number;
                remove_members(&rigs[side], &group);
            }
            assert_int_equal(found[0][0], found[1][0]);
            assert_int_equal(found[0][1], found[1][1]);
        }
        rig_deinit(&rigs[0]);
        rig_deinit(&rigs[1]);
    }
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

#define WIDENING                                                                                                       \
    "{'attrs':{'mmr':'num'},'rules':[{'type':'near','attr':'mmr','max':10,'expand':[{'after':'10s','max':50},"         \
    "{'after':'20s','off':true}]}]}"

static void MR23_two_match_at_the_step_that_lets_them_without_an_arrival(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, WIDENING, 0, 1);
    struct matcher_group group;
    uint32_t first = rig_offer(&rig, "{'mmr':100}", NULL);
    uint32_t second = rig_offer(&rig, "{'mmr':140}", NULL);
    assert_false(rig_look(&rig, 50, &group));
    assert_int_equal(matcher_due_ms(&rig.matcher), 10000);
    rig.now_ms = 9999;
    rig_step(&rig);
    assert_false(matcher_has_work(&rig.matcher, rig.now_ms));
    rig.now_ms = 10000;
    rig_step(&rig);
    assert_int_equal(rig_entry(&rig, first)->level, 1);
    assert_true(rig_look(&rig, 50, &group));
    assert_int_equal(group.slots[0], first);
    assert_int_equal(group.slots[1], second);
    rig_deinit(&rig);
}

static void MR22_tickets_that_widen_at_different_times_meet_when_both_are_wide_enough(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, WIDENING, 0, 1);
    struct matcher_group group;
    rig_offer(&rig, "{'mmr':100}", NULL);
    rig.now_ms = 7000;
    rig_offer(&rig, "{'mmr':900}", NULL);
    for (; rig.now_ms < 27000; rig.now_ms += 500) {
        rig_step(&rig);
        assert_false(rig_look(&rig, 50, &group));
    }
    rig_step(&rig);
    assert_true(rig_look(&rig, 50, &group)); /* the younger one's last step */
    rig_deinit(&rig);
}

static void a_late_step_jumps_to_the_level_of_its_age(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, WIDENING, 0, 1);
    uint32_t slot = rig_offer(&rig, "{'mmr':100}", NULL), level;
    rig.now_ms = 60000;
    assert_int_equal(matcher_take_step(&rig.matcher, rig.now_ms, &level), slot);
    assert_int_equal(level, 2);
    assert_int_equal(matcher_take_step(&rig.matcher, rig.now_ms, &level), 0);
    matcher_widen(&rig.matcher, slot, 2, rig.now_ms);
    assert_int_equal(matcher_due_ms(&rig.matcher), UINT64_MAX);
    rig_deinit(&rig);
}

static void the_last_tenth_of_a_ttl_makes_urgent(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, "{'attrs':{'mode':'str'},'rules':[{'type':'equal','attr':'mode'}]}", 0, 1);
    struct matcher_group group;
    uint32_t slot = rig_make(&rig, rig_facts(&rig, "{'mode':'x'}", "{'mode':{'not':['x']}}"), NULL), level;
    rig_entry(&rig, slot)->expires_at_ms = 10000;
    matcher_add(&rig.matcher, slot, 0, true);
    assert_false(rig_look(&rig, 50, &group));
    assert_int_equal(matcher_due_ms(&rig.matcher), 9000);
    rig.now_ms = 9000;
    assert_int_equal(matcher_take_step(&rig.matcher, rig.now_ms, &level), slot);
    assert_int_equal(level, 0);
    assert_true(rig_entry(&rig, slot)->is_urgent);
    assert_int_equal(matcher_seed_count(&rig.matcher), 1);
    matcher_check(&rig.matcher);
    rig_deinit(&rig);
}

/* --- work that is bounded ----------------------------------------------------------------------------------------- */

static uint32_t scale(void)
{
    return getenv("TALLY_MEASURE") != NULL ? 1000000 : 60000;
}

static void rig_fill(struct rig *rig, const struct facts *shared, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        matcher_add(&rig->matcher, rig_make(rig, NULL, shared), rig->now_ms, false);
}

static void MR37_an_arrival_of_a_kind_without_partners_visits_nobody(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, "{'attrs':{'kind':'str'},'rules':[{'type':'pairs','attr':'kind','allow':[['A','B']]}]}", 0, 1);
    struct matcher_group group;
    struct facts *facts = rig_facts(&rig, "{'kind':'A'}", NULL);
    rig_fill(&rig, facts, scale());
    for (unsigned i = 0; i < 1000; i++) {
        matcher_add(&rig.matcher, rig_make(&rig, NULL, facts), 0, true);
        assert_false(rig_look(&rig, 50, &group));
    }
    assert_int_equal(rig.matcher.counters.candidates, 0);
    rig_offer(&rig, "{'kind':'B'}", NULL);
    assert_true(rig_look(&rig, 50, &group));
    assert_int_equal(rig.matcher.counters.candidates, 1);
    assert_int_equal(rig_entry(&rig, group.slots[1])->number, 1);
    rig_deinit(&rig);
    facts_destroy(facts);
}

static void MR37_a_look_at_all_stops_lets_others_go_first_and_ends(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig,
             "{'attrs':{'mode':'str','n':'num'},'rules':[{'type':'equal','attr':'mode'},"
             "{'type':'expr','expr':'a.n + b.n > 1'}]}",
             0, 1);
    struct matcher_group group;
    struct facts *facts = rig_facts(&rig, "{'mode':'x','n':0}", NULL);
    rig_fill(&rig, facts, scale());
    matcher_add(&rig.matcher, rig_make(&rig, NULL, facts), 0, true);
    uint32_t budget = 10000;
    assert_int_equal(matcher_look(&rig.matcher, 0, &budget, &group), MATCHER_TIRED);
    /* Two others arrive; they need not wait for the first one. */
    rig_offer(&rig, "{'mode':'y','n':1}", NULL);
    rig_offer(&rig, "{'mode':'y','n':1}", NULL);
    budget = MATCHER_PROBE_MAX + 10;
    assert_int_equal(matcher_look(&rig.matcher, 0, &budget, &group), MATCHER_FOUND);
    assert_int_equal(rig_entry(&rig, group.slots[0])->number, scale() + 2);
    remove_members(&rig, &group);
    uint64_t calls = 0;
    budget = 0;
    while (matcher_look(&rig.matcher, 0, &budget, &group) == MATCHER_TIRED) {
        budget = MATCHER_PROBE_MAX;
        calls++;
    }
    assert_true(calls <= scale() / MATCHER_PROBE_MAX + 2);
    assert_int_equal(rig.matcher.counters.candidates, scale() + 1); /* each once, and the pair */
    assert_true(rig.matcher.counters.budget_stops >= scale() / MATCHER_PROBE_MAX);
    matcher_check(&rig.matcher);
    rig_deinit(&rig);
    facts_destroy(facts);
}

static void tickets_that_need_somebody_else_are_not_visited(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, "{'attrs':{'mode':'str','user':'str'},'rules':[{'type':'equal','attr':'mode'}]}", 0, 1);
    struct matcher_group group;
    struct facts *facts = rig_facts(&rig, "{'mode':'x','user':'u'}", "{'user':{'in':['v','w']}}");
    rig_fill(&rig, facts, scale());
    uint32_t stranger = rig_offer(&rig, "{'mode':'x','user':'z'}", NULL);
    assert_false(rig_look(&rig, 50, &group));
    assert_int_equal(rig.matcher.counters.candidates, 0);
    rig_remove(&rig, stranger);
    rig_offer(&rig, "{'mode':'x','user':'w'}", NULL);
    assert_true(rig_look(&rig, 50, &group));
    assert_int_equal(rig.matcher.counters.candidates, 1);
    assert_int_equal(rig_entry(&rig, group.slots[1])->number, 1);
    rig_deinit(&rig);
    facts_destroy(facts);
}

static void seeds_go_by_priority_then_age_then_number(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, "{'attrs':{'mode':'str'},'rules':[{'type':'equal','attr':'mode'}]}", 0, 1);
    static const struct {
        uint8_t priority;
        uint64_t offered_at_ms;
    } offers[] = {{0, 5}, {3, 9}, {0, 4}, {3, 9}, {9, 9}, {0, 4}};
    static const uint64_t expected[] = {5, 2, 3}; /* each takes the best of the others, 2, 4 and 1 */
    for (size_t i = 0; i < ARRAY_LENGTH(offers); i++) {
        uint32_t slot = rig_make(&rig, rig_facts(&rig, "{'mode':'x'}", NULL), NULL);
        rig_entry(&rig, slot)->priority = offers[i].priority;
        rig_entry(&rig, slot)->offered_at_ms = offers[i].offered_at_ms;
        matcher_add(&rig.matcher, slot, 10, true);
    }
    struct matcher_group group;
    assert_true(rig_look(&rig, 50, &group));
    assert_int_equal(rig_entry(&rig, group.slots[0])->number, expected[0]);
    assert_int_equal(rig_entry(&rig, group.slots[1])->number, 2);
    remove_members(&rig, &group);
    assert_true(rig_look(&rig, 50, &group));
    assert_int_equal(rig_entry(&rig, group.slots[0])->number, 4);
    assert_int_equal(rig_entry(&rig, group.slots[1])->number, 1);
    rig_deinit(&rig);
}

static void new_rules_empty_the_matcher_and_the_tickets_can_be_added_again(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig, WIDENING, 0, 1);
    struct matcher_group group;
    uint32_t first = rig_offer(&rig, "{'mmr':1}", NULL), second = rig_offer(&rig, "{'mmr':100}", NULL);
    assert_false(rig_look(&rig, 50, &group));
    struct rules *rules = rig_rules("{'attrs':{'mmr':'num'},'rules':[{'type':'near','attr':'mmr','max':500}]}");
    matcher_reset(&rig.matcher, rules, 0);
    assert_false(matcher_has(&rig.matcher, first));
    assert_int_equal(rig.matcher.count, 0);
    matcher_check(&rig.matcher);
    rules_destroy(rig.rules_owned);
    rig.rules_owned = rules;
    matcher_add(&rig.matcher, first, 0, true);
    matcher_add(&rig.matcher, second, 0, true);
    assert_true(rig_look(&rig, 50, &group));
    rig_deinit(&rig);
}

struct surveyed {
    uint32_t visited, fits;
};

static void survey_count(void *context, uint32_t slot, const struct pair_check *check)
{
    (void)slot;
    struct surveyed *surveyed = context;
    surveyed->visited++;
    surveyed->fits += check->verdict == PAIR_FITS;
}

static void a_survey_sees_every_candidate_and_stops_at_its_limit(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig,
             "{'attrs':{'mode':'str','n':'num'},'rules':[{'type':'equal','attr':'mode'},"
             "{'type':'near','attr':'n','max':2}]}",
             0, 1);
    for (unsigned i = 0; i < 40; i++) {
        char text[64];
        sprintf(text, "{'mode':'m%u','n':%u}", i % 2, i);
        matcher_add(&rig.matcher, rig_make(&rig, rig_facts(&rig, text, NULL), NULL), 0, false);
    }
    struct surveyed surveyed = {0};
    assert_true(matcher_survey(&rig.matcher, rig_entry(&rig, 11), 100, survey_count, &surveyed));
    assert_int_equal(surveyed.visited, 2);
    assert_int_equal(surveyed.fits, 2);
    surveyed = (struct surveyed){0};
    assert_false(matcher_survey(&rig.matcher, rig_entry(&rig, 11), 1, survey_count, &surveyed));
    assert_int_equal(surveyed.visited, 1);
    rig_deinit(&rig);
}

/* --- what checks cost --------------------------------------------------------------------------------------------- */

#define DEAR_RULES 31u
#define DEAR_PARTS 50u
#define DEAR_VALUES 64u

/* Rules as dear as they come: each compares a set of long texts many times, and the last one fails all. */
static char *dear_rules(void)
{
    char *text = calloc(1, 65536), *end = text;
    end += sprintf(end, "{'attrs':{'s':'set','n':'num'},'rules':[");
    for (unsigned i = 0; i < DEAR_RULES; i++) {
        end += sprintf(end, "{'type':'expr','expr':'a.s==b.s");
        for (unsigned part = 1; part < DEAR_PARTS; part++)
            end += sprintf(end, " and a.s==b.s");
        end += sprintf(end, "'},");
    }
    sprintf(end, "{'type':'differ','attr':'n'}]}");
    return text;
}

static struct facts *dear_facts(const struct rig *rig)
{
    char *text = calloc(1, 65536), *end = text;
    end += sprintf(end, "{'n':1,'s':[");
    for (unsigned i = 0; i < DEAR_VALUES; i++)
        end += sprintf(end, "%s'%0200u'", i == 0 ? "" : ",", i);
    sprintf(end, "]}");
    struct facts *facts = rig_facts(rig, text, NULL);
    free(text);
    return facts;
}

static void a_dear_check_uses_up_the_budget_and_the_look_goes_on_later(void **state)
{
    (void)state;
    struct rig rig;
    struct matcher_group group;
    char *rules = dear_rules();
    rig_init(&rig, rules, 0, 1);
    struct facts *facts = dear_facts(&rig);
    struct pair_check check = {0};
    rig_fill(&rig, facts, 20);
    assert_false(pair_fits(rig.rules_owned, rig_entry(&rig, 1), rig_entry(&rig, 2), &check));
    assert_true(check.work > DEAR_RULES * 2 * DEAR_PARTS * 2 * DEAR_VALUES);
    matcher_add(&rig.matcher, rig_make(&rig, NULL, facts), 0, true);
    uint32_t calls = 0;
    for (uint32_t budget = 16384; matcher_look(&rig.matcher, 0, &budget, &group) == MATCHER_TIRED; budget = 16384) {
        calls++;
        assert_int_equal(rig.matcher.counters.candidates, calls); /* one a call: it costs more than the budget */
    }
    assert_int_equal(rig.matcher.counters.candidates, 20);
    assert_int_equal(rig.matcher.counters.budget_stops, 19);
    assert_true(rig.matcher.counters.cost >= 20 * (check.work / PAIR_WORK_A_STEP));
    struct surveyed surveyed = {0};
    assert_false(matcher_survey(&rig.matcher, rig_entry(&rig, 1), MATCHER_PROBE_MAX, survey_count, &surveyed));
    assert_int_equal(surveyed.visited, 1);
    rig_deinit(&rig);
    facts_destroy(facts);
    free(rules);
}

/* Seeds that have no candidate, though they seek in a stream of each of their values, for each partner, in each
 * priority. */
static void a_look_without_candidates_costs_what_its_streams_take_to_open(void **state)
{
    (void)state;
    struct rig rig;
    struct matcher_group group;
    rig_init(&rig,
             "{'attrs':{'k':'str','m':'set','x':'num'},'pick':'nearest:x',"
             "'rules':[{'type':'pairs','attr':'k','allow':[['a','b'],['a','c'],['a','d'],['a','e']]},"
             "{'type':'share','attr':'m','min':1},{'type':'near','attr':'x','max':1}]}",
             0, 1);
    char text[1024], *end = text;
    for (unsigned i = 0; i < 64; i++)
        end += sprintf(end, "%s'v%u'", i == 0 ? "" : ",", i);
    for (unsigned i = 0; i < 1000; i++) {
        char attributes[1200];
        sprintf(attributes, "{'k':'%c','m':[%s],'x':%u}", i < 40 ? "bcde"[i / 10] : 'a', text, i < 40 ? 0 : i * 10);
        uint32_t slot = rig_make(&rig, rig_facts(&rig, attributes, NULL), NULL);
        rig_entry(&rig, slot)->priority = (uint8_t)(i % 10);
        matcher_add(&rig.matcher, slot, 0, i >= 40);
    }
    uint32_t budget = 16384;
    assert_int_equal(matcher_look(&rig.matcher, 0, &budget, &group), MATCHER_TIRED);
    assert_true(rig.matcher.counters.probes < 32);
    assert_false(rig_look(&rig, 50, &group)); /* whatever the budget, it comes to an end */
    assert_int_equal(rig.matcher.counters.probes, 960);
    assert_int_equal(rig.matcher.counters.candidates, 0);
    rig_deinit(&rig);
}

static void ordinary_checks_cost_a_step_each(void **state)
{
    (void)state;
    struct rig rig;
    struct matcher_group group;
    rig_init(&rig, DUEL("both"), 0, 1);
    rig_offer(&rig, "{'mode':'r','user':'a','mmr':1500,'maps':['x'],'ping':100}", NULL);
    rig_offer(&rig, "{'mode':'r','user':'b','mmr':1500,'maps':['x'],'ping':100}", NULL);
    uint32_t budget = 100;
    assert_int_equal(matcher_look(&rig.matcher, 0, &budget, &group), MATCHER_IDLE);
    assert_int_equal(rig.matcher.counters.candidates, 2);
    assert_in_range(budget, 93, 96); /* two looks with a candidate each; of heads and instructions a step may come */
    rig_deinit(&rig);
}

/* --- what it costs ------------------------------------------------------------------------------------------------ */

#define MODES 8u
#define SPACING 102u /* between neighbours of one mode: a ticket between two of them fits neither */

static struct facts *spread_facts(const struct rig *rig, uint32_t index, uint32_t beside)
{
    char text[64];
    sprintf(text, "{'mode':'m%u','mmr':%u}", index % MODES, index / MODES * SPACING + beside);
    return rig_facts(rig, text, NULL);
}

static double seconds_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Arrivals at random places among `count` tickets that fit nobody: those that find nobody and leave again, and
 * pairs. */
static void measure(uint32_t count, bool is_printed)
{
    enum { ARRIVALS = 20000 };
    struct rig rig;
    rig_init(&rig,
             "{'attrs':{'mode':'str','mmr':'num'},'pick':'nearest:mmr','rules':[{'type':'equal','attr':'mode'},"
             "{'type':'near','attr':'mmr','max':50}]}",
             0, 9);
    for (uint32_t i = 0; i < count; i++)
        matcher_add(&rig.matcher, rig_make(&rig, spread_facts(&rig, i, 0), NULL), 0, false);
    uint32_t *slots = calloc(ARRIVALS, sizeof(*slots));
    for (uint32_t i = 0; i < ARRIVALS; i++)
        slots[i] = rig_make(&rig, spread_facts(&rig, random_below(&rig.random, count), SPACING / 2), NULL);
    struct matcher_group group;
    uint32_t budget = UINT32_MAX;
    double times[3] = {seconds_now()};
    for (uint32_t i = 0; i < ARRIVALS; i++) {
        matcher_add(&rig.matcher, slots[i], 0, true);
        assert_int_equal(matcher_look(&rig.matcher, 0, &budget, &group), MATCHER_IDLE);
        matcher_remove(&rig.matcher, slots[i]);
    }
    times[1] = seconds_now();
    for (uint32_t i = 0; i < ARRIVALS; i++) /* one beside a waiting ticket, which it takes, and which comes back */
        rig_entry(&rig, slots[i])->facts = rig_entry(&rig, 1 + random_below(&rig.random, count))->facts;
    double before = seconds_now();
    for (uint32_t i = 0; i < ARRIVALS; i++) {
        matcher_add(&rig.matcher, slots[i], 0, true);
        assert_int_equal(matcher_look(&rig.matcher, 0, &budget, &group), MATCHER_FOUND);
        matcher_remove(&rig.matcher, group.slots[0]);
        matcher_remove(&rig.matcher, group.slots[1]);
        matcher_add(&rig.matcher, group.slots[1], 0, false);
    }
    times[2] = seconds_now();
    if (is_printed)
        print_message(
            "%8u waiting: arrival without partner, and its leave, %.0f ns; match, and a new ticket, %.0f ns\n", count,
            (times[1] - times[0]) * 1e9 / ARRIVALS, (times[2] - before) * 1e9 / ARRIVALS);
    for (uint32_t i = 0; i < ARRIVALS; i++)
        rig_at(&rig, slots[i])->entry.facts = rig_at(&rig, slots[i])->facts_owned;
    for (uint32_t i = 0; i < ARRIVALS; i++)
        rig_remove(&rig, slots[i]);
    free(slots);
    rig_deinit(&rig);
}

static void it_is_measured(void **state)
{
    (void)state;
    bool measures = getenv("TALLY_MEASURE") != NULL;
    for (uint32_t count = 1000; count <= (measures ? 1000000u : 1000u); count *= 10)
        measure(count, measures);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_with_an_own_requirement_match_as_in_the_reference),
        cmocka_unit_test(a_duel_widens_as_in_the_reference),
        cmocka_unit_test(two_teams_with_a_party_match_as_in_the_reference),
        cmocka_unit_test(every_pair_is_the_best_one_and_none_is_left),
        cmocka_unit_test(MR39_looks_survive_what_comes_and_goes_between_their_parts),
        cmocka_unit_test(what_is_found_does_not_depend_on_slots),
        cmocka_unit_test(MR23_two_match_at_the_step_that_lets_them_without_an_arrival),
        cmocka_unit_test(MR22_tickets_that_widen_at_different_times_meet_when_both_are_wide_enough),
        cmocka_unit_test(a_late_step_jumps_to_the_level_of_its_age),
        cmocka_unit_test(the_last_tenth_of_a_ttl_makes_urgent),
        cmocka_unit_test(MR37_an_arrival_of_a_kind_without_partners_visits_nobody),
        cmocka_unit_test(MR37_a_look_at_all_stops_lets_others_go_first_and_ends),
        cmocka_unit_test(tickets_that_need_somebody_else_are_not_visited),
        cmocka_unit_test(seeds_go_by_priority_then_age_then_number),
        cmocka_unit_test(new_rules_empty_the_matcher_and_the_tickets_can_be_added_again),
        cmocka_unit_test(a_survey_sees_every_candidate_and_stops_at_its_limit),
        cmocka_unit_test(a_dear_check_uses_up_the_budget_and_the_look_goes_on_later),
        cmocka_unit_test(a_look_without_candidates_costs_what_its_streams_take_to_open),
        cmocka_unit_test(ordinary_checks_cost_a_step_each),
        cmocka_unit_test(it_is_measured),
    };
    return cmocka_run_group_tests_name("matcher", tests, NULL, NULL);
}
