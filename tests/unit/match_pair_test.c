/* Do two tickets fit, does a group: rules, levels, needs, teams. */
#include "base/assert.h"
#include "match/pair.h"

#include "match.h"

/* --- the rules, one by one ---------------------------------------------------------------------------------------- */

#define ATTRIBUTES "'attrs':{'mode':'str','user':'str','mmr':'num','maps':'set','ping':'num'}"

static void each_rule_holds_when_the_reference_says_so(void **state)
{
    (void)state;
    static const struct {
        const char *rule;
        const char *a;
        const char *b;
        bool is_fit;
    } rows[] = {
        {"{'type':'equal','attr':'mode'}", "{'mode':'r'}", "{'mode':'r'}", true},
        {"{'type':'equal','attr':'mode'}", "{'mode':'r'}", "{'mode':'R'}", false},
        {"{'type':'equal','attr':'mode'}", "{'mode':'r'}", "{}", false},
        {"{'type':'equal','attr':'mode'}", "{}", "{}", false},
        {"{'type':'equal','attr':'mode','missing':'any'}", "{'mode':'r'}", "{}", true},
        {"{'type':'equal','attr':'mmr'}", "{'mmr':0}", "{'mmr':-0.0}", true},
        {"{'type':'equal','attr':'mmr'}", "{'mmr':1}", "{'mmr':1.5}", false},
        {"{'type':'equal','attr':'maps'}", "{'maps':['x','y']}", "{'maps':['y','x','x']}", true},
        {"{'type':'equal','attr':'maps'}", "{'maps':['x','y']}", "{'maps':['x']}", false},
        {"{'type':'equal','attr':'maps'}", "{'maps':[]}", "{'maps':[]}", true},
        {"{'type':'differ','attr':'user'}", "{'user':'u'}", "{'user':'u'}", false},
        {"{'type':'differ','attr':'user'}", "{'user':'u'}", "{'user':'v'}", true},
        {"{'type':'differ','attr':'user'}", "{'user':'u'}", "{}", false},
        {"{'type':'pairs','attr':'mode','allow':[['A','B'],['C','C']]}", "{'mode':'A'}", "{'mode':'B'}", true},
        {"{'type':'pairs','attr':'mode','allow':[['A','B'],['C','C']]}", "{'mode':'B'}", "{'mode':'A'}", true},
        {"{'type':'pairs','attr':'mode','allow':[['A','B'],['C','C']]}", "{'mode':'A'}", "{'mode':'A'}", false},
        {"{'type':'pairs','attr':'mode','allow':[['A','B'],['C','C']]}", "{'mode':'C'}", "{'mode':'C'}", true},
        {"{'type':'pairs','attr':'mode','allow':[['A','B'],['C','C']]}", "{'mode':'A'}", "{'mode':'C'}", false},
        {"{'type':'near','attr':'mmr','max':50}", "{'mmr':1000}", "{'mmr':1050}", true},
        {"{'type':'near','attr':'mmr','max':50}", "{'mmr':1050.1}", "{'mmr':1000}", false},
        {"{'type':'near','attr':'mmr','max':0}", "{'mmr':7}", "{'mmr':7}", true},
        {"{'type':'near','attr':'mmr','max':50}", "{'mmr':1e308}", "{'mmr':-1e308}", false},
        {"{'type':'near','attr':'mmr','max':50,'missing':'any'}", "{}", "{'mmr':5}", true},
        {"{'type':'share','attr':'maps','min':1}", "{'maps':['x','y']}", "{'maps':['y','z']}", true},
        {"{'type':'share','attr':'maps','min':2}", "{'maps':['x','y']}", "{'maps':['y','z']}", false},
        {"{'type':'share','attr':'maps','min':1}", "{'maps':['x']}", "{'maps':[]}", false},
        {"{'type':'share','attr':'maps','min':0}", "{'maps':['x']}", "{'maps':[]}", true},
        {"{'type':'share','attr':'maps','min':0}", "{'maps':['x']}", "{}", false},
        {"{'type':'expr','expr':'a.ping + b.ping <= 150'}", "{'ping':100}", "{'ping':50}", true},
        {"{'type':'expr','expr':'a.ping + b.ping <= 150'}", "{'ping':100}", "{'ping':51}", false},
        {"{'type':'expr','expr':'a.ping <= b.ping'}", "{'ping':1}", "{'ping':2}", false},
        {"{'type':'expr','expr':'a.ping + b.ping <= 150'}", "{'ping':100}", "{}", false},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct rules *rules = rules_of("{" ATTRIBUTES ",'rules':[%s]}", rows[i].rule);
        struct facts *a = facts_of(rules, rows[i].a, NULL), *b = facts_of(rules, rows[i].b, NULL);
        const struct entry first = {.facts = a}, second = {.facts = b};
        struct pair_check check = {.expression_errors = 0}, reverse = {.expression_errors = 0};
        bool is_fit = pair_fits(rules, &first, &second, &check);
        if (is_fit != rows[i].is_fit || check.verdict != (is_fit ? PAIR_FITS : PAIR_RULE))
            fail_msg("%s with %s and %s: %d", rows[i].rule, rows[i].a, rows[i].b, is_fit);
        assert_true(pair_fits(rules, &second, &first, &reverse) == is_fit);
        facts_destroy(a);
        facts_destroy(b);
        rules_destroy(rules);
    }
}

static void an_expression_that_fails_counts(void **state)
{
    (void)state;
    struct rules *rules = rules_of("{" ATTRIBUTES ",'rules':[{'type':'expr','expr':'a.ping / b.ping < 5'}]}");
    struct facts *a = facts_of(rules, "{'ping':1}", NULL), *b = facts_of(rules, "{'ping':0}", NULL);
    const struct entry first = {.facts = a}, second = {.facts = b};
    struct pair_check check = {.expression_errors = 4};
    assert_false(pair_fits(rules, &first, &second, &check));
    assert_int_equal(check.expression_errors, 5);
    assert_false(pair_fits(rules, &second, &first, &check));
    assert_int_equal(check.expression_errors, 6);
    facts_destroy(a);
    facts_destroy(b);
    rules_destroy(rules);
}

/* --- widening ----------------------------------------------------------------------------------------------------- */

static void expect_bound(const char *rule, uint32_t level_a, uint32_t level_b, double bound)
{
    struct rules *rules = rules_of("{" ATTRIBUTES ",'rules':[%s]}", rule);
    if (pair_bound(&rules->rules[0], level_a, level_b) != bound ||
        pair_bound(&rules->rules[0], level_b, level_a) != bound)
        fail_msg("%s at %u and %u: %g", rule, level_a, level_b, pair_bound(&rules->rules[0], level_a, level_b));
    rules_destroy(rules);
}

#define NEAR(agree)                                                                                                    \
    "{'type':'near','attr':'mmr','max':50,'agree':'" agree                                                             \
    "','expand':[{'after':'10s','max':100},{'after':'30s','off':true}]}"
#define SHARE(agree)                                                                                                   \
    "{'type':'share','attr':'maps','min':3,'agree':'" agree                                                            \
    "','expand':[{'after':'10s','min':1},{'after':'30s','off':true}]}"

static void both_takes_the_stricter_and_either_the_looser(void **state)
{
    (void)state;
    expect_bound(NEAR("both"), 0, 0, 50);
    expect_bound(NEAR("both"), 0, 1, 50);
    expect_bound(NEAR("both"), 1, 1, 100);
    expect_bound(NEAR("both"), 1, 2, 100);
    expect_bound(NEAR("both"), 2, 2, RULE_OFF);
    expect_bound(NEAR("either"), 0, 1, 100);
    expect_bound(NEAR("either"), 0, 2, RULE_OFF);
    expect_bound(SHARE("both"), 0, 1, 3);
    expect_bound(SHARE("both"), 1, 1, 1);
    expect_bound(SHARE("both"), 1, 2, 1);
    expect_bound(SHARE("both"), 2, 2, RULE_OFF);
    expect_bound(SHARE("either"), 0, 1, 1);
    expect_bound(SHARE("either"), 0, 2, RULE_OFF);
}

static void a_rule_that_is_off_asks_for_no_attribute(void **state)
{
    (void)state;
    struct rules *rules = rules_of("{" ATTRIBUTES ",'rules':[%s]}", NEAR("both"));
    struct facts *none = facts_of(rules, "{}", NULL);
    struct entry first = {.facts = none, .level = 2}, second = {.facts = none, .level = 2};
    struct pair_check check = {.expression_errors = 0};
    assert_true(pair_fits(rules, &first, &second, &check));
    second.level = 1;
    assert_false(pair_fits(rules, &first, &second, &check));
    facts_destroy(none);
    rules_destroy(rules);
}

/* --- sets and needs ----------------------------------------------------------------------------------------------- */

/* MR26: only one of a set can be matched, so two of it fit nobody with each other. */
static void two_of_one_exclusive_set_never_fit(void **state)
{
    (void)state;
    struct rules *rules = rules_of("{}");
    struct facts *none = facts_of(rules, "{}", NULL);
    struct entry first = {.facts = none, .exclusive_set = 7}, second = {.facts = none, .exclusive_set = 7};
    struct pair_check check = {.expression_errors = 0};
    assert_false(pair_fits(rules, &first, &second, &check));
    assert_int_equal(check.verdict, PAIR_EXCLUSIVE);
    second.exclusive_set = 8;
    assert_true(pair_fits(rules, &first, &second, &check));
    first.exclusive_set = second.exclusive_set = 0;
    assert_true(pair_fits(rules, &first, &second, &check));
    facts_destroy(none);
    rules_destroy(rules);
}

/* MR24: both sides' needs count. */
static void what_one_needs_and_the_other_lacks_is_told_by_side(void **state)
{
    (void)state;
    struct rules *rules = rules_of("{'attrs':{'kind':'str','qty':'num'}}");
    struct facts *picky = facts_of(rules, "{'qty':7}", "{'qty':{'min':10}}");
    struct facts *small = facts_of(rules, "{'qty':5}", NULL), *big = facts_of(rules, "{'qty':20}", NULL);
    const struct entry first = {.facts = picky}, second = {.facts = small}, third = {.facts = big};
    struct pair_check check = {.expression_errors = 0};
    assert_false(pair_fits(rules, &first, &second, &check));
    assert_int_equal(check.verdict, PAIR_NEED_FIRST);
    assert_false(pair_fits(rules, &second, &first, &check));
    assert_int_equal(check.verdict, PAIR_NEED_SECOND);
    assert_true(pair_fits(rules, &first, &third, &check));
    assert_int_equal(check.verdict, PAIR_FITS);
    facts_destroy(picky);
    facts_destroy(small);
    facts_destroy(big);
    rules_destroy(rules);
}

/* --- groups ------------------------------------------------------------------------------------------------------- */

struct group {
    struct rules *rules;
    uint32_t count;
    struct facts *facts[RULES_WEIGHT_MAX];
    struct entry entries[RULES_WEIGHT_MAX];
    const struct entry *members[RULES_WEIGHT_MAX];
    uint8_t teams[RULES_WEIGHT_MAX];
};

static void group_add(struct group *group, const char *attributes, uint32_t weight)
{
    uint32_t at = group->count++;
    group->facts[at] = facts_of(group->rules, attributes, NULL);
    group->entries[at] = (struct entry){.facts = group->facts[at], .weight = weight};
    group->members[at] = &group->entries[at];
}

static void group_end(struct group *group)
{
    for (uint32_t i = 0; i < group->count; i++)
        facts_destroy(group->facts[i]);
    rules_destroy(group->rules);
}

#define TWO_TEAMS                                                                                                      \
    "{'attrs':{'mmr':'num'},'teams':[{'name':'red','size':2},{'name':'blue','size':2}],"                               \
    "'rules':[{'type':'team_near','scope':'match','attr':'mmr','max':60%s}]}"

/* The third worked example of the reference: the party of two is a team, the others are the other one. */
static void a_party_stays_in_one_team(void **state)
{
    (void)state;
    struct group group = {.rules = rules_of(TWO_TEAMS, "")};
    uint32_t budget = 100;
    group_add(&group, "{'mmr':1600}", 1);
    group_add(&group, "{'mmr':1510}", 2);
    group_add(&group, "{'mmr':1480}", 1);
    assert_true(group_divide(group.rules, group.members, 3, group.teams, &budget));
    assert_int_equal(group.teams[0], 0);
    assert_int_equal(group.teams[1], 1);
    assert_int_equal(group.teams[2], 0);
    assert_true(budget < 100);
    budget = 2;
    assert_false(group_divide(group.rules, group.members, 3, group.teams, &budget));
    assert_int_equal(budget, 0);
    group_end(&group);
}

static void the_means_of_the_teams_are_weighted_and_held_against_the_bound(void **state)
{
    (void)state;
    struct group group = {.rules = rules_of(TWO_TEAMS, "")};
    struct pair_check check = {.expression_errors = 0};
    group_add(&group, "{'mmr':1000}", 1);
    group_add(&group, "{'mmr':1100}", 1);
    group_add(&group, "{'mmr':1200}", 1);
    group_add(&group, "{'mmr':1300}", 1);
    /* 1000 and 1300 against 1100 and 1200 is the only division that is even. */
    assert_true(group_fits(group.rules, group.members, 4, group.teams, &check));
    assert_memory_equal(group.teams, ((uint8_t[]){0, 1, 1, 0}), 4);
    facts_destroy(group.facts[3]);
    group.entries[3].facts = group.facts[3] = facts_of(group.rules, "{'mmr':1500}", NULL);
    assert_false(group_fits(group.rules, group.members, 4, group.teams, &check));
    assert_int_equal(check.verdict, PAIR_TEAMS);
    assert_int_equal(check.rule, 0);
    group_end(&group);
}

static void a_member_without_the_attribute_fails_the_teams_rule_or_skips_it(void **state)
{
    (void)state;
    for (int is_any = 0; is_any < 2; is_any++) {
        struct group group = {.rules = rules_of(TWO_TEAMS, is_any ? ",'missing':'any'" : "")};
        uint32_t budget = 1000;
        group_add(&group, "{'mmr':1000}", 2);
        group_add(&group, "{}", 2);
        assert_int_equal(group_divide(group.rules, group.members, 2, group.teams, &budget), is_any);
        group_end(&group);
    }
}

static void a_weight_that_no_division_gives_is_refused(void **state)
{
    (void)state;
    struct group group = {.rules = rules_of("{'teams':[{'name':'a','size':3},{'name':'b','size':3}]}")};
    uint32_t budget = 1000;
    for (int i = 0; i < 3; i++)
        group_add(&group, "{}", 2);
    assert_false(group_divide(group.rules, group.members, 3, group.teams, &budget));
    assert_false(group_divide(group.rules, group.members, 2, group.teams, &budget));
    assert_false(group_divide(group.rules, group.members, 0, group.teams, &budget));
    group_end(&group);
}

static void without_teams_the_weight_is_all(void **state)
{
    (void)state;
    struct group group = {.rules = rules_of("{'size':4}")};
    uint32_t budget = 0;
    group_add(&group, "{}", 3);
    group_add(&group, "{}", 1);
    assert_true(group_divide(group.rules, group.members, 2, group.teams, &budget));
    assert_memory_equal(group.teams, ((uint8_t[]){0, 0}), 2);
    assert_false(group_divide(group.rules, group.members, 1, group.teams, &budget));
    rules_destroy(group.rules);
    group.rules = rules_of("{'size':0}");
    assert_true(group_divide(group.rules, group.members, 1, group.teams, &budget));
    group_end(&group);
}

static void teams_of_one_size_are_not_tried_twice(void **state)
{
    (void)state;
    /* Eight of each other's weight into eight teams of one: a single way, where there would be 40,320. */
    struct group group = {
        .rules =
            rules_of("{'attrs':{'x':'num'},'teams':[{'name':'1','size':1},{'name':'2','size':1},{'name':'3','size':1},"
                     "{'name':'4','size':1},{'name':'5','size':1},{'name':'6','size':1},{'name':'7','size':1},"
                     "{'name':'8','size':1}],'rules':[{'type':'team_near','attr':'x','max':1}]}")};
    uint32_t budget = 1000;
    for (int i = 0; i < 8; i++)
        group_add(&group, i == 0 ? "{'x':5}" : "{'x':1}", 1);
    assert_false(group_divide(group.rules, group.members, 8, group.teams, &budget));
    assert_int_equal(budget, 1000 - 8);
    group_end(&group);
}

/* Twenty against twenty: far too many divisions to try them in order, and the first ones are the worst. */
static void large_teams_are_balanced_by_exchange(void **state)
{
    (void)state;
    struct group group = {.rules =
                              rules_of("{'attrs':{'x':'num'},'teams':[{'name':'a','size':20},{'name':'b','size':20}],"
                                       "'rules':[{'type':'team_near','attr':'x','max':0.5}]}")};
    struct pair_check check = {.expression_errors = 0};
    double sums[2] = {0, 0};
    uint32_t counts[2] = {0, 0};
    for (int i = 0; i < 40; i++) {
        char attributes[40];
        snprintf(attributes, sizeof(attributes), "{'x':%d}", i * i);
        group_add(&group, attributes, 1);
    }
    assert_true(group_fits(group.rules, group.members, 40, group.teams, &check));
    for (int i = 0; i < 40; i++) {
        sums[group.teams[i]] += i * i;
        counts[group.teams[i]]++;
    }
    assert_true(counts[0] == 20 && counts[1] == 20);
    assert_true(sums[0] - sums[1] <= 10 && sums[1] - sums[0] <= 10);
    group_end(&group);
}

/* Light ones first, so that in order the heavy ones are left over, after more ways than there is time for. */
static void parties_that_come_last_find_their_place(void **state)
{
    (void)state;
    struct group group = {
        .rules = rules_of("{'teams':[{'name':'a','size':20},{'name':'b','size':20},{'name':'c','size':20}]}")};
    uint32_t budget = 4096, sums[3] = {0, 0, 0};
    for (int i = 0; i < 12; i++)
        group_add(&group, "{}", 1);
    for (int i = 0; i < 3; i++)
        group_add(&group, "{}", 16);
    assert_true(group_divide(group.rules, group.members, 15, group.teams, &budget));
    for (int i = 0; i < 15; i++)
        sums[group.teams[i]] += group.entries[i].weight;
    assert_true(sums[0] == 20 && sums[1] == 20 && sums[2] == 20);
    group_end(&group);
}

static void a_group_fits_if_every_pair_does(void **state)
{
    (void)state;
    struct group group = {.rules = rules_of("{'attrs':{'u':'str'},'size':3,'rules':[{'type':'differ','attr':'u'}]}")};
    struct pair_check check = {.expression_errors = 0};
    group_add(&group, "{'u':'x'}", 1);
    group_add(&group, "{'u':'y'}", 1);
    group_add(&group, "{'u':'y'}", 1);
    assert_false(group_fits(group.rules, group.members, 3, group.teams, &check));
    assert_int_equal(check.verdict, PAIR_RULE);
    assert_int_equal(check.rule, 0);
    assert_false(group_fits(group.rules, group.members, 2, group.teams, &check));
    assert_int_equal(check.verdict, PAIR_TEAMS);
    assert_int_equal(check.rule, 1);
    check = (struct pair_check){.work_max = PAIR_WORK_A_STEP};
    assert_false(
        group_fits(group.rules, group.members, 3, group.teams, &check)); /* the third pair is the one that fails */
    assert_int_equal(check.verdict, PAIR_DEAR);
    assert_int_equal(check.work, 2 * PAIR_WORK_A_STEP);
    group_end(&group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule_holds_when_the_reference_says_so),
        cmocka_unit_test(an_expression_that_fails_counts),
        cmocka_unit_test(both_takes_the_stricter_and_either_the_looser),
        cmocka_unit_test(a_rule_that_is_off_asks_for_no_attribute),
        cmocka_unit_test(two_of_one_exclusive_set_never_fit),
        cmocka_unit_test(what_one_needs_and_the_other_lacks_is_told_by_side),
        cmocka_unit_test(a_party_stays_in_one_team),
        cmocka_unit_test(the_means_of_the_teams_are_weighted_and_held_against_the_bound),
        cmocka_unit_test(a_member_without_the_attribute_fails_the_teams_rule_or_skips_it),
        cmocka_unit_test(a_weight_that_no_division_gives_is_refused),
        cmocka_unit_test(without_teams_the_weight_is_all),
        cmocka_unit_test(teams_of_one_size_are_not_tried_twice),
        cmocka_unit_test(large_teams_are_balanced_by_exchange),
        cmocka_unit_test(parties_that_come_last_find_their_place),
        cmocka_unit_test(a_group_fits_if_every_pair_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
