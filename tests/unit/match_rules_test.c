/* Rules: what is taken, what is refused and how that is said, levels, the plan. */
#include "base/assert.h"

#include "match.h"

/* --- what is refused ---------------------------------------------------------------------------------------------- */

#define ATTRIBUTES "'attrs':{'mode':'str','mmr':'num','maps':'set'}"
#define RULE(text) "{" ATTRIBUTES ",'rules':[{'type':'equal','attr':'mode'}," text "]}"
#define STEPS(text) RULE("{'type':'near','attr':'mmr','max':5,'expand':[" text "]}")
#define TEN(text) text text text text text text text text text text
#define HUNDRED(text) TEN(TEN(text))

static void faults_name_place_and_value(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *fault; /* its beginning */
    } rows[] = {
        {"", "The rules are no JSON: it is empty"},
        {"{'a':1", "The rules are no JSON: "},
        {"[]", "The text must be an object, not a list."},
        {"{'attrs':[]}", "attrs must be an object of names and types, not a list."},
        {"{'attrs':{'x':'int'}}", "attrs.x must be \"num\", \"str\" or \"set\", not \"int\"."},
        {"{'Attributes':{'x':null}}", "Attributes.x must be \"num\", \"str\" or \"set\", not null."},
        {"{'attrs':{'a b':'num'}}", "attrs: \"a b\" is no name of an attribute: 1 to 80 bytes of letters, digits and "
                                    "underscores."},
        {"{'attrs':{'':'num'}}", "attrs: \"\" is no name"},
        {"{'attrs':{'" TEN("12345678") "9':'num'}}", "attrs: \"123"},
        {"{'attrs':{'x':'num','x':'str'}}", "attrs has \"x\" twice."},
        {"{'attrs':{},'Attributes':{}}", "Attributes is given twice."},
        {"{'rules':[],'rules':[]}", "rules is given twice."},
        {"{'rules':{}}", "rules must be a list of rules, not an object."},
        {"{'Rules':[7]}", "Rules[0] must be an object, not 7."},
        {RULE("{}"), "rules[1].type is missing: it must be equal, differ, pairs, near, share, expr or team_near."},
        {RULE("{'type':'nera'}"), "rules[1].type must be equal, differ, pairs, near, share, expr or team_near, not "
                                  "\"nera\"."},
        {RULE("{'type':'near','attr':'mmr','max':5,'expnad':[]}"),
         "rules[1] has \"expnad\", but can only have: type, attr, max, agree, expand, missing, scope."},
        {RULE("{'type':'equal','attr':'mode','max':5}"),
         "rules[1] has \"max\", but can only have: type, attr, missing, scope."},
        {RULE("{'type':'equal','attr':'mode','attr':'mmr'}"), "rules[1] has \"attr\" twice."},
        {RULE("{'type':'equal'}"), "rules[1].attr is missing: it must be the name of an attribute."},
        {RULE("{'type':'equal','attr':3}"), "rules[1].attr must be the name of an attribute, not 3."},
        {RULE("{'type':'equal','attr':'mood'}"), "rules[1].attr: the pool has no attribute \"mood\"."},
        {RULE("{'type':'near','attr':'mode','max':5}"), "rules[1].attr: \"mode\" is a str; the rule needs a num."},
        {RULE("{'type':'share','attr':'mmr','min':1}"), "rules[1].attr: \"mmr\" is a num; the rule needs a set."},
        {RULE("{'type':'pairs','attr':'maps','allow':[]}"), "rules[1].attr: \"maps\" is a set; the rule needs a str."},
        {RULE("{'type':'near','attr':'mmr'}"), "rules[1].max is missing: it must be a number from 0 on."},
        {RULE("{'type':'near','attr':'mmr','max':'x'}"), "rules[1].max must be a number from 0 on, not \"x\"."},
        {RULE("{'type':'near','attr':'mmr','max':-1}"), "rules[1].max must be a number from 0 on, not -1."},
        {RULE("{'type':'share','attr':'maps','min':1.5}"),
         "rules[1].min must be a whole number from 0 to 64, not 1.5."},
        {RULE("{'type':'share','attr':'maps','min':65}"), "rules[1].min must be a whole number from 0 to 64, not 65."},
        {RULE("{'type':'near','attr':'mmr','max':5,'agree':'all'}"),
         "rules[1].agree must be \"both\" or \"either\", not \"all\"."},
        {RULE("{'type':'near','attr':'mmr','max':5,'missing':true}"), "rules[1].missing must be \"any\", not true."},
        {RULE("{'type':'near','attr':'mmr','max':5,'scope':'match'}"),
         "rules[1].scope must be \"pair\", not \"match\"."},
        {RULE("{'type':'pairs','attr':'mode'}"), "rules[1].allow is missing: it must be a list of pairs of texts."},
        {RULE("{'type':'pairs','attr':'mode','allow':[]}"), "rules[1].allow has 0 pairs; there can be 1 to 256."},
        {RULE("{'type':'pairs','attr':'mode','allow':[['A','B'],['C']]}"),
         "rules[1].allow[1] must be two texts of at most 256 bytes, not a list."},
        {RULE("{'type':'pairs','attr':'mode','allow':[['A',1]]}"), "rules[1].allow[0] must be two texts"},
        {RULE("{'type':'pairs','attr':'mode','allow':[['A','" HUNDRED("123") "']]}"),
         "rules[1].allow[0] must be two texts"},
        {RULE("{'type':'expr'}"), "rules[1].expr is missing: it must be a text."},
        {RULE("{'type':'expr','expr':'a.foo > 1'}"),
         "rules[1].expr: at character 1: the pool has no attribute \"foo\"."},
        {RULE("{'type':'expr','expr':'1','missing':'any'}"),
         "rules[1] has \"missing\", but can only have: type, expr, scope."},
        {RULE("{'type':'team_near','attr':'mmr','max':5}"), "rules[1]: team_near needs teams, and the pool has none."},
        {STEPS("7"), "rules[1].expand[0] must be an object, not 7."},
        {STEPS("{'max':7}"), "rules[1].expand[0].after is missing: it must be a duration: "},
        {STEPS("{'after':10,'max':7}"),
         "rules[1].expand[0].after must be a duration: digits and ms, s, m or h, like \"10s\", not 10."},
        {STEPS("{'after':'10','max':7}"), "rules[1].expand[0].after must be a duration"},
        {STEPS("{'after':'s','max':7}"), "rules[1].expand[0].after must be a duration"},
        {STEPS("{'after':'10 s','max':7}"), "rules[1].expand[0].after must be a duration"},
        {STEPS("{'after':'8761h','max':7}"), "rules[1].expand[0].after must be at most 8760h, a year, not \"8761h\"."},
        {STEPS("{'after':'99999999999999999999999999s','max':7}"), "rules[1].expand[0].after must be at most 8760h"},
        {STEPS("{'after':'10s'}"), "rules[1].expand[0].max is missing"},
        {STEPS("{'after':'10s','min':3}"), "rules[1].expand[0] has \"min\", but can only have: after, max, off."},
        {STEPS("{'after':'10s','max':7,'off':true}"), "rules[1].expand[0].off must be true, and stand without max."},
        {STEPS("{'after':'10s','off':false}"), "rules[1].expand[0].off must be true, and stand without max."},
        {STEPS("{'after':'10s','max':7},{'after':'10000ms','max':8}"),
         "rules[1].expand[1].after must be later than the step before, not \"10000ms\"."},
        {RULE("{'type':'near','attr':'mmr','max':5,'expand':{}}"),
         "rules[1].expand must be a list of steps, not an object."},
        {STEPS("{'after':'1s','max':7},{'after':'2s','max':7},{'after':'3s','max':7},{'after':'4s','max':7},"
               "{'after':'5s','max':7},{'after':'6s','max':7},{'after':'7s','max':7},{'after':'8s','max':7},"
               "{'after':'9s','max':7}"),
         "rules[1].expand has 9 steps; there can be 8."},
        {"{'size':2,'teams':[]}", "size and teams can't stand together: the teams give the size."},
        {"{'size':201}", "size must be a whole number from 1 to 200, or 0 for any, not 201."},
        {"{'Size':2.5}", "Size must be a whole number from 1 to 200, or 0 for any, not 2.5."},
        {"{'size':'2'}", "size must be a whole number from 1 to 200, or 0 for any, not \"2\"."},
        {"{'size':-1}", "size must be a whole number"},
        {"{'teams':[]}", "teams has 0 teams; there can be 1 to 16."},
        {"{'teams':{}}", "teams must be a list of teams, not an object."},
        {"{'teams':[{'name':'red'}]}", "teams[0].size is missing: it must be a whole number from 1 to 200."},
        {"{'teams':[{'size':1}]}", "teams[0].name is missing: it must be a text of 1 to 80 bytes."},
        {"{'teams':[{'name':'x','size':1},{'name':'x','size':1}]}",
         "teams[1].name must be another than those before, not \"x\"."},
        {"{'teams':[{'name':'x','size':0}]}", "teams[0].size must be a whole number from 1 to 200, not 0."},
        {"{'teams':[{'name':'x','size':1,'colour':1}]}", "teams[0] has \"colour\", but can only have: name, size."},
        {"{'teams':[{'name':'x','size':120},{'name':'y','size':81}]}",
         "teams have a weight of 201 together; at most 200 is possible."},
        {"{'pick':'best'}", "pick must be oldest, first, nearest:ATTRIBUTE or score:EXPRESSION, not \"best\"."},
        {"{'pick':7}", "pick must be oldest"},
        {"{" ATTRIBUTES ",'pick':'nearest:mode'}", "pick: \"mode\" is a str; the rule needs a num."},
        {"{" ATTRIBUTES ",'pick':'nearest:'}", "pick: the pool has no attribute \"\"."},
        {"{" ATTRIBUTES ",'pick':'score:a.mmr > 1'}",
         "pick: at character 1: a score needs a number, but this is a truth."},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct failure failure = {.error = OK};
        struct rules *rules = rules_read(rows[i].text, &failure);
        if (rules != NULL)
            fail_msg("%s: taken", rows[i].text);
        assert_int_equal(failure.error, ERROR_INVALID_PARAMETER_VALUE);
        if (strncmp(failure.text, rows[i].fault, strlen(rows[i].fault)) != 0)
            fail_msg("%s: %s", rows[i].text, failure.text);
    }
}

static void a_text_beyond_the_limit_is_not_read(void **state)
{
    (void)state;
    struct failure failure = {.error = OK};
    char *text = malloc(RULES_TEXT_SIZE_MAX + 1);
    memset(text, ' ', RULES_TEXT_SIZE_MAX + 1);
    memcpy(text, "{}", 2);
    struct rules *rules = rules_create(bytes_make(text, RULES_TEXT_SIZE_MAX), &failure);
    assert_non_null(rules);
    rules_destroy(rules);
    assert_null(rules_create(bytes_make(text, RULES_TEXT_SIZE_MAX + 1), &failure));
    assert_string_equal(failure.text, "The rules have 65537 bytes; there can be 65536.");
    free(text);
}

static void lists_beyond_their_limit_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *before;
        const char *item; /* with a %zu that makes it distinct */
        const char *after;
        size_t limit;
    } rows[] = {
        {"{'attrs':{", "'x%zu':'num'", "}}", RULES_ATTRIBUTES_MAX},
        {"{'attrs':{'x':'num'},'rules':[", "{'type':'near','attr':'x','max':%zu}", "]}", RULES_MAX},
        {"{'teams':[", "{'name':'%zu','size':1}", "]}", RULES_TEAMS_MAX},
        {"{'attrs':{'x':'str'},'rules':[{'type':'pairs','attr':'x','allow':[", "['%zu','b']", "]}]}", RULES_PAIRS_MAX},
        {"{'attrs':{'x':'num'},'rules':[", "{'type':'near','attr':'x','max':1,'expand':[{'after':'%zus','max':2}]}",
         "]}", RULES_LEVELS_MAX - 1},
    };
    for (size_t row = 0; row < ARRAY_LENGTH(rows); row++) {
        for (size_t extra = 0; extra < 2; extra++) {
            char text[20000];
            size_t size = (size_t)snprintf(text, sizeof(text), "%s", rows[row].before);
            for (size_t i = 0; i < rows[row].limit + extra; i++) {
                char item[200], *mark;
                snprintf(item, sizeof(item), "%s", rows[row].item);
                mark = strstr(item, "%zu");
                size += (size_t)snprintf(text + size, sizeof(text) - size, "%s%.*s%zu%s", i == 0 ? "" : ",",
                                         (int)(mark - item), item, i + 1, mark + 3);
            }
            snprintf(text + size, sizeof(text) - size, "%s", rows[row].after);
            struct failure failure = {.error = OK};
            struct rules *rules = rules_read(text, &failure);
            if ((rules != NULL) != (extra == 0))
                fail_msg("%s and %zu more: %s", rows[row].item, extra, failure.text);
            rules_destroy(rules);
        }
    }
}

/* --- what is taken ------------------------------------------------------------------------------------------------ */

static void an_empty_text_is_a_pool_of_pairs(void **state)
{
    (void)state;
    struct rules *rules = rules_of("{'pool':'x','result':'y','ttl':7}");
    assert_int_equal(rules->weight, 2);
    assert_int_equal(rules->party_max, 2);
    assert_int_equal(rules->team_count, 1);
    assert_int_equal(rules->teams[0].size, 2);
    assert_false(rules->has_teams);
    assert_int_equal(rules->pick, PICK_OLDEST);
    assert_int_equal(rules->level_count, 1);
    assert_int_equal(rules->rule_count, 0);
    rules_destroy(rules);
}

static void size_and_teams_give_the_weights(void **state)
{
    (void)state;
    struct rules *rules = rules_of("{'Size':200}");
    assert_int_equal(rules->weight, 200);
    assert_int_equal(rules->party_max, 200);
    rules_destroy(rules);
    rules = rules_of("{'size':0}");
    assert_int_equal(rules->weight, 0);
    assert_int_equal(rules->party_max, RULES_WEIGHT_MAX);
    rules_destroy(rules);
    rules = rules_of("{'Teams':[{'name':'red','size':2},{'size':3,'name':'bl\\u00fce'}]}");
    assert_int_equal(rules->weight, 5);
    assert_int_equal(rules->party_max, 3);
    assert_int_equal(rules->team_count, 2);
    assert_true(rules->has_teams);
    assert_true(bytes_equal(rules->teams[1].name, BYTES("blüe")));
    rules_destroy(rules);
}

static void pick_names_an_attribute_or_an_expression(void **state)
{
    (void)state;
    struct rules *rules = rules_of("{" ATTRIBUTES ",'pick':'nearest:mmr'}");
    assert_int_equal(rules->pick, PICK_NEAREST);
    assert_int_equal(rules->pick_attribute, 1);
    rules_destroy(rules);
    rules = rules_of("{" ATTRIBUTES ",'Pick':'score:b.mmr - a.mmr'}");
    assert_int_equal(rules->pick, PICK_SCORE);
    assert_non_null(rules->pick_score_owned);
    rules_destroy(rules);
    rules = rules_of("{'pick':'first'}");
    assert_int_equal(rules->pick, PICK_FIRST);
    rules_destroy(rules);
}

static void labels_say_which_rule_it_is(void **state)
{
    (void)state;
    struct rules *rules = rules_of("{" ATTRIBUTES ",'rules':[{'type':'near','attr':'mmr','max':1},"
                                   "{'type':'expr','expr':'a.mmr < 7 or b.mmr < 7'}]}");
    assert_true(bytes_equal(rules->rules[0].label, BYTES("near(mmr)")));
    assert_true(bytes_equal(rules->rules[1].label, BYTES("expr(a.mmr < 7 or b.mmr < 7)")));
    rules_destroy(rules);
}

/* --- levels ------------------------------------------------------------------------------------------------------- */

static void the_steps_of_all_rules_make_the_levels(void **state)
{
    (void)state;
    struct rules *rules = rules_of(
        "{" ATTRIBUTES ",'rules':["
        "{'type':'near','attr':'mmr','max':50,'expand':[{'after':'10s','max':100},{'after':'1m','off':true}]},"
        "{'type':'share','attr':'maps','min':3,'expand':[{'after':'500ms','min':2},{'after':'10000ms','min':1}]},"
        "{'type':'near','attr':'mmr','max':900}]}");
    static const uint64_t after_ms[] = {0, 500, 10000, 60000};
    static const double near[] = {50, 50, 100, RULE_OFF}, share[] = {3, 2, 1, 1};
    assert_int_equal(rules->level_count, 4);
    for (uint32_t level = 0; level < 4; level++) {
        assert_int_equal(rules->after_ms[level], after_ms[level]);
        assert_true(rules->rules[0].bound[level] == near[level]);
        assert_true(rules->rules[1].bound[level] == share[level]);
        assert_true(rules->rules[2].bound[level] == 900);
    }
    static const struct {
        uint64_t age_ms;
        uint32_t level;
    } rows[] = {{0, 0}, {499, 0}, {500, 1}, {9999, 1}, {10000, 2}, {59999, 2}, {60000, 3}, {UINT64_MAX, 3}};
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
        assert_int_equal(rules_level(rules, rows[i].age_ms), rows[i].level);
    assert_int_equal(rules_step_ms(rules, 0), 500);
    assert_int_equal(rules_step_ms(rules, 2), 60000);
    assert_true(rules_step_ms(rules, 3) == UINT64_MAX);
    rules_destroy(rules);
}

static void a_step_at_nought_is_the_value_from_the_start(void **state)
{
    (void)state;
    struct rules *rules = rules_of("{" ATTRIBUTES ",'rules':[{'type':'near','attr':'mmr','max':50,'expand':["
                                   "{'after':'0s','max':60},{'after':'1h','max':70}]}]}");
    assert_int_equal(rules->level_count, 2);
    assert_true(rules->rules[0].bound[0] == 60 && rules->rules[0].bound[1] == 70);
    assert_int_equal(rules_step_ms(rules, 0), 3600000);
    rules_destroy(rules);
}

/* --- extending, plan, warning ------------------------------------------------------------------------------------- */

static void rules_extend_others_whose_attributes_they_keep(void **state)
{
    (void)state;
    struct rules *old = rules_of("{'attrs':{'x':'num','y':'str'}}");
    static const struct {
        const char *attributes;
        bool does_extend;
    } rows[] = {
        {"'x':'num','y':'str'", true},  {"'x':'num','y':'str','z':'set'", true}, {"'x':'num'", false},
        {"'x':'num','y':'num'", false}, {"'y':'str','x':'num'", false},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct rules *rules = rules_of("{'attrs':{%s}}", rows[i].attributes);
        assert_true(rules_extend(rules, old) == rows[i].does_extend);
        rules_destroy(rules);
    }
    rules_destroy(old);
}

static void the_plan_says_how_partners_are_looked_up(void **state)
{
    (void)state;
    static const struct {
        const char *rules;
        const char *plan;
        bool has_warning;
    } rows[] = {
        {"{'type':'equal','attr':'mode'},{'type':'differ','attr':'user'},{'type':'near','attr':'mmr','max':50},"
         "{'type':'share','attr':'maps','min':1},{'type':'expr','expr':'a.mmr < b.mmr + 1'}",
         "bucket(mode) -> lists(maps) -> window(mmr) -> filter(user, expr)", false},
        {"{'type':'differ','attr':'user'}", "all -> filter(user)", true},
        {"", "all", true},
        {"{'type':'equal','attr':'mode','missing':'any'}", "all -> filter(mode)", true},
        {"{'type':'pairs','attr':'user','allow':[['A','B']]}", "bucket(user)", false},
        {"{'type':'share','attr':'maps','min':0}", "all -> filter(maps)", true},
        {"{'type':'share','attr':'maps','min':1,'expand':[{'after':'1s','off':true}]}", "lists(maps)", false},
        {"{'type':'near','attr':'mmr','max':1,'expand':[{'after':'1s','off':true}]}", "window(mmr)", false},
        {"{'type':'near','attr':'mmr','max':1,'expand':[{'after':'1s','off':true}]},{'type':'near','attr':'age','max':"
         "1}",
         "window(age) -> filter(mmr)", false},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct rules *rules = rules_of(
            "{'attrs':{'mode':'str','user':'str','mmr':'num','age':'num','maps':'set'},'rules':[%s]}", rows[i].rules);
        struct buffer out;
        buffer_init(&out);
        rules_plan(rules, &out);
        if (!bytes_equal(buffer_bytes(&out), bytes_from_string(rows[i].plan)))
            fail_msg("%s: %.*s", rows[i].rules, BYTES_FORMAT(buffer_bytes(&out)));
        buffer_truncate(&out, 0);
        assert_true(rules_warning(rules, &out) == rows[i].has_warning);
        assert_true((out.size != 0) == rows[i].has_warning);
        buffer_deinit(&out);
        rules_destroy(rules);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_name_place_and_value),
        cmocka_unit_test(a_text_beyond_the_limit_is_not_read),
        cmocka_unit_test(lists_beyond_their_limit_are_refused),
        cmocka_unit_test(an_empty_text_is_a_pool_of_pairs),
        cmocka_unit_test(size_and_teams_give_the_weights),
        cmocka_unit_test(pick_names_an_attribute_or_an_expression),
        cmocka_unit_test(labels_say_which_rule_it_is),
        cmocka_unit_test(the_steps_of_all_rules_make_the_levels),
        cmocka_unit_test(a_step_at_nought_is_the_value_from_the_start),
        cmocka_unit_test(rules_extend_others_whose_attributes_they_keep),
        cmocka_unit_test(the_plan_says_how_partners_are_looked_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
