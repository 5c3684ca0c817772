/* Expressions: values, errors, and what is refused when they are read. */
#include "base/assert.h"
#include "match/expression.h"

#include "match.h"

struct rig {
    struct rules *rules;
    struct facts *a;
    struct facts *b;
};

static void rig_init(struct rig *rig)
{
    rig->rules =
        rules_of("{'attrs':{'n':'num','m':'num','zero':'num','none':'num','t':'str','s':'set','größe':'num'}}");
    rig->a = facts_of(rig->rules, "{'n':3,'m':0.5,'zero':0,'t':'x','s':['x','y'],'größe':9}", NULL);
    rig->b = facts_of(rig->rules, "{'n':4,'m':-2,'zero':0,'t':'y','s':['y','x'],'größe':8}", NULL);
}

static void rig_deinit(struct rig *rig)
{
    facts_destroy(rig->a);
    facts_destroy(rig->b);
    rules_destroy(rig->rules);
}

static struct expression *read_it(const struct rig *rig, const char *text, bool is_score)
{
    struct failure failure = {.error = OK};
    struct expression *expression = expression_create(rig->rules, bytes_from_string(text), is_score, &failure);
    if (expression == NULL)
        fail_msg("%s: %s", text, failure.text);
    return expression;
}

static void truths_are_those_of_the_grammar(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum expression_result result;
    } rows[] = {
        {"a.n < b.n", EXPRESSION_TRUE},
        {"a.n > b.n", EXPRESSION_FALSE},
        {"a.n <= 3", EXPRESSION_TRUE},
        {"a.n >= 3.0", EXPRESSION_TRUE},
        {"a.n == 3e0", EXPRESSION_TRUE},
        {"a.n != 3", EXPRESSION_FALSE},
        {"a.n<b.n", EXPRESSION_TRUE},
        {"1 + 2 * 3 == 7", EXPRESSION_TRUE},
        {"(1 + 2) * 3 == 9", EXPRESSION_TRUE},
        {"7 - 4 - 2 == 1", EXPRESSION_TRUE},
        {"8 / 4 / 2 == 1", EXPRESSION_TRUE},
        {"8 / (4 / 2) == 4", EXPRESSION_TRUE},
        {"-a.n + 3 == 0", EXPRESSION_TRUE},
        {"-(1 + 2) == -3", EXPRESSION_TRUE},
        {"2 * -3 == -6", EXPRESSION_TRUE},
        {"1 - -1 == 2", EXPRESSION_TRUE},
        {"0.1 + 0.2 == 0.3", EXPRESSION_FALSE},
        {"a.t == 'x'", EXPRESSION_TRUE},
        {"a.t == \"x\"", EXPRESSION_TRUE},
        {"a.t != b.t", EXPRESSION_TRUE},
        {"a.t < b.t", EXPRESSION_TRUE},
        {"'a' < 'B'", EXPRESSION_FALSE},
        {"'a\\' == 'a\\'", EXPRESSION_TRUE},
        {"'' == ''", EXPRESSION_TRUE},
        {"a.t in b.s", EXPRESSION_TRUE},
        {"'z' in b.s", EXPRESSION_FALSE},
        {"not 'z' in b.s", EXPRESSION_TRUE},
        {"a.s == b.s", EXPRESSION_TRUE},
        {"a.s != b.s", EXPRESSION_FALSE},
        {"a.größe > b.größe", EXPRESSION_TRUE},
        {"1 == 1 and 2 == 2", EXPRESSION_TRUE},
        {"1 == 1 and 2 == 1", EXPRESSION_FALSE},
        {"1 == 2 or 2 == 2", EXPRESSION_TRUE},
        {"1 == 1 or 1 == 2 and 1 == 2", EXPRESSION_TRUE},
        {"(1 == 1 or 1 == 2) and 1 == 2", EXPRESSION_FALSE},
        {"not 1 == 1 or 1 == 1", EXPRESSION_TRUE},
        {"not (1 == 1 or 1 == 1)", EXPRESSION_FALSE},
        {"(1 == 1) == (2 == 2)", EXPRESSION_TRUE},
        {"(1 == 1) != (2 == 2)", EXPRESSION_FALSE},
        {"1 == 2 and 1 == 2 or 1 == 1 and 2 == 2", EXPRESSION_TRUE},
        {"\t1\n==\r1 ", EXPRESSION_TRUE},
        /* What goes wrong makes all of it false, but only if it is looked at. */
        {"a.none == 1", EXPRESSION_ERROR},
        {"not a.none == 1", EXPRESSION_ERROR},
        {"a.n / a.zero == 1", EXPRESSION_ERROR},
        {"0 / a.zero == 1", EXPRESSION_ERROR},
        {"1e308 * 10 > 1", EXPRESSION_ERROR},
        {"1 == 1 or a.none == 1", EXPRESSION_TRUE},
        {"a.none == 1 or 1 == 1", EXPRESSION_ERROR},
        {"1 == 2 and a.none == 1", EXPRESSION_FALSE},
        {"1 == 1 and a.none == 1", EXPRESSION_ERROR},
        {"(1 == 2 and a.none == 1) or 1 == 1", EXPRESSION_TRUE},
    };
    struct rig rig;
    rig_init(&rig);
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct expression *expression = read_it(&rig, rows[i].text, false);
        enum expression_result result = expression_holds(expression, rig.a, rig.b, &(uint64_t){0});
        if (result != rows[i].result)
            fail_msg("%s: %d", rows[i].text, (int)result);
        expression_destroy(expression);
    }
    rig_deinit(&rig);
}

static void a_score_is_a_number(void **state)
{
    (void)state;
    struct rig rig;
    double number = 77;
    rig_init(&rig);
    struct expression *expression = read_it(&rig, "-(a.n - b.n) * 10 + b.m", true);
    assert_true(expression_number(expression, rig.a, rig.b, &number, &(uint64_t){0}));
    assert_true(number == 8);
    expression_destroy(expression);
    expression = read_it(&rig, "a.n / a.none", true);
    assert_false(expression_number(expression, rig.a, rig.b, &number, &(uint64_t){0}));
    assert_true(number == 8);
    expression_destroy(expression);
    rig_deinit(&rig);
}

static void faults_name_the_character(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *fault;
    } rows[] = {
        {"", "at character 1: a value is missing at the end."},
        {"   ", "at character 4: a value is missing at the end."},
        {"a.n", "at character 1: a rule needs a truth, but this is a number."},
        {"a.n <", "at character 6: a value is missing at the end."},
        {"a.n < < 3", "at character 7: a value is missing before \"<\"."},
        {"a.n 3", "at character 5: an operator is missing before \"3\"."},
        {"a.q == 1", "at character 1: the pool has no attribute \"q\"."},
        {"'ü' == a.q", "at character 8: the pool has no attribute \"q\"."},
        {"c.n == 1", "at character 1: \"c\" is not known here; an attribute is a.name or b.name."},
        {"a == 1", "at character 1: \"a\" is not known here"},
        {"a. n == 1", "at character 1: \"a\" is not known here"},
        {"a.n.m == 1", "at character 4: there is something here that is no part of an expression."},
        {"true", "at character 1: \"true\" is not known here"},
        {"a.n = 1", "at character 5: \"=\" alone is nothing; equal is ==."},
        {"a.n ! 1", "at character 5: there is something here that is no part of an expression."},
        {"a.n % 2 == 1", "at character 5: there is something"},
        {"a.t == 'x", "at character 8: the text that begins here has no closing quote."},
        {"a.t == 'x\"", "at character 8: the text that begins here has no closing quote."},
        {"(a.n == 1", "at character 1: the parenthesis that opens here is not closed before character 10."},
        {"a.n == 1)", "at character 9: an operator is missing before \")\"."},
        {"()", "at character 2: a value is missing before \")\"."},
        {"1 < 2 < 3", "at character 7: comparisons can't stand in a row; join them by and."},
        {"1 == 1 and", "at character 11: a value is missing at the end."},
        {"1 and 1 == 1", "at character 1: and needs a truth, but this is a number."},
        {"1 == 1 or a.t", "at character 11: or needs a truth, but this is a text."},
        {"not 1", "at character 5: not needs a truth, but this is a number."},
        {"not not 1 == 1", "at character 5: a value is missing before \"not\"."},
        {"a.t + 1 == 2", "at character 1: + needs a number, but this is a text."},
        {"1 * a.s == 2", "at character 5: * needs a number, but this is a set."},
        {"-a.t == 'x'", "at character 2: - needs a number, but this is a text."},
        {"- - 1 == 1", "at character 3: a value is missing before \"-\"."},
        {"a.t == 1", "at character 1: == compares a text with a number."},
        {"a.s < b.s", "at character 1: < compares numbers or texts, but this is a set."},
        {"a.n in b.s", "at character 1: the left side of in needs a text, but this is a number."},
        {"a.t in b.t", "at character 8: the right side of in needs a set, but this is a text."},
        {"a.n == 007", "at character 8: \"007\" is no number."},
        {"a.n == 1.", "at character 8: \"1.\" is no number."},
        {"a.n == .5", "at character 8: there is something here that is no part of an expression."},
        {"a.n == 0x10", "at character 8: \"0x10\" is no number."},
        {"a.n == 1e999", "at character 8: \"1e999\" is no number."},
        {"a.n == 1 // 2", "at character 11: a value is missing before \"/\"."},
    };
    struct rig rig;
    rig_init(&rig);
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct failure failure = {.error = OK};
        struct expression *expression = expression_create(rig.rules, bytes_from_string(rows[i].text), false, &failure);
        if (expression != NULL)
            fail_msg("%s: taken", rows[i].text);
        assert_int_equal(failure.error, ERROR_INVALID_PARAMETER_VALUE);
        if (strncmp(failure.text, rows[i].fault, strlen(rows[i].fault)) != 0)
            fail_msg("%s: %s", rows[i].text, failure.text);
    }
    rig_deinit(&rig);
}

static bool is_taken(const struct rig *rig, const char *text)
{
    struct failure failure = {.error = OK};
    struct expression *expression = expression_create(rig->rules, bytes_from_string(text), false, &failure);
    expression_destroy(expression);
    return expression != NULL;
}

/* `count` times `before`, then the middle, then `count` times `after`. */
static char *around(const char *before, const char *middle, const char *after, size_t count)
{
    static char text[8192];
    text[0] = '\0';
    for (size_t i = 0; i < count; i++)
        strcat(text, before);
    strcat(text, middle);
    for (size_t i = 0; i < count; i++)
        strcat(text, after);
    return text;
}

/* MR34: an expression ends, however it is written. */
static void parts_depth_and_characters_are_limited(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    assert_true(is_taken(&rig, around("", "1 == 1", "+1", 98)));  /* 199 parts */
    assert_false(is_taken(&rig, around("", "1 == 1", "+1", 99))); /* 201 */
    assert_true(is_taken(&rig, around("(", "1 == 1", ")", 50)));
    assert_false(is_taken(&rig, around("(", "1 == 1", ")", 51)));
    assert_true(is_taken(&rig, around("", "1 == 1", " ", 1018)));
    assert_false(is_taken(&rig, around("", "1 == 1", " ", 1019)));
    /* The longest chain of operands that wait for their operators. */
    struct expression *expression = read_it(&rig, around("1+(", "1", ")", 49), true);
    double number;
    assert_true(expression_number(expression, rig.a, rig.b, &number, &(uint64_t){0}));
    assert_true(number == 50);
    expression_destroy(expression);
    rig_deinit(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(truths_are_those_of_the_grammar),
        cmocka_unit_test(a_score_is_a_number),
        cmocka_unit_test(faults_name_the_character),
        cmocka_unit_test(parts_depth_and_characters_are_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
