/* The fields of an AWS Query request, taken apart. */
#include "api/form.h"

#include "base/assert.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct parsed {
    struct arena arena;
    struct failure failure;
    struct form form;
    enum error error;
};

static struct parsed parse(struct bytes query, struct bytes body)
{
    struct parsed parsed = {.failure = {.error = OK}};
    arena_init(&parsed.arena);
    parsed.error = form_parse(query, body, &parsed.arena, &parsed.failure, &parsed.form);
    return parsed;
}

/* Expects the fields "name=value|name=value" of the request. */
static void expect(const char *query, const char *body, const char *expected)
{
    struct parsed parsed = parse(bytes_from_string(query), bytes_from_string(body));
    assert_int_equal(parsed.error, OK);
    struct bytes text = BYTES("");
    for (size_t i = 0; i < parsed.form.count; i++)
        text = arena_format(&parsed.arena, "%.*s%s%.*s=%.*s", BYTES_FORMAT(text), i == 0 ? "" : "|",
                            BYTES_FORMAT(parsed.form.fields[i].name), BYTES_FORMAT(parsed.form.fields[i].value));
    if (!bytes_equal(text, bytes_from_string(expected)))
        fail_msg("'%s' and '%s' gave '%.*s', not '%s'", query, body, BYTES_FORMAT(text), expected);
    arena_deinit(&parsed.arena);
}

static void query_and_body_are_one_set_in_their_order(void **state)
{
    (void)state;
    expect("", "", "");
    expect("Action=A", "", "Action=A");
    expect("", "Action=A&b=c", "Action=A|b=c");
    expect("Action=A&b=1", "b=2&c=3", "Action=A|b=1|b=2|c=3");
}

static void what_stands_between_separators_may_be_missing(void **state)
{
    (void)state;
    expect("&&", "&", "");
    expect("a", "b=", "a=|b=");
    expect("=x&a=b=c", "", "a=b=c"); /* a field needs a name; what follows the first sign is value */
    expect("a=1&", "&b=2&&", "a=1|b=2");
}

static void escapes_are_undone_in_names_and_values(void **state)
{
    (void)state;
    expect("", "a+b=c+d", "a b=c d");
    expect("", "%41%2e1=%3d%26%2B%25", "A.1==&+%");
    expect("", "u=%C3%BC%f0%9f%8e%89", "u=\xc3\xbc\xf0\x9f\x8e\x89");
    expect("", "raw=\xc3\xbc", "raw=\xc3\xbc");
    struct parsed parsed = parse(BYTES(""), BYTES("z=%00a"));
    assert_true(bytes_equal(parsed.form.fields[0].value, BYTES("\0a")));
    arena_deinit(&parsed.arena);
}

static void every_byte_can_be_escaped(void **state)
{
    (void)state;
    for (unsigned byte = 0; byte < 256; byte++) {
        char body[8];
        uint8_t expected = (uint8_t)byte;
        snprintf(body, sizeof(body), byte % 2 == 0 ? "a=%%%02x" : "a=%%%02X", byte);
        struct parsed parsed = parse(BYTES(""), bytes_from_string(body));
        assert_int_equal(parsed.error, OK);
        assert_true(bytes_equal(parsed.form.fields[0].value, bytes_make(&expected, 1)));
        arena_deinit(&parsed.arena);
    }
}

static void a_percent_sign_without_two_digits_is_refused_and_named(void **state)
{
    (void)state;
    static const char *const bad[] = {"a=b&c=%", "a=b&c=%4",    "a=b&c=%4g",   "a=b&c=%g4",
                                      "a=b&%=c", "a=b&c=x%%20", "a=b&c=%4&1=x"}; /* an escape ends with its field */
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        struct parsed parsed = parse(BYTES(""), bytes_from_string(bad[i]));
        assert_int_equal(parsed.error, ERROR_SERIALIZATION);
        assert_non_null(strstr(parsed.failure.text, "Field 2 of the request"));
        arena_deinit(&parsed.arena);
    }
}

static void a_thousand_fields_are_the_most(void **state)
{
    (void)state;
    char text[2 * FORM_FIELDS_MAX + 4];
    for (unsigned i = 0; i <= FORM_FIELDS_MAX; i++)
        memcpy(text + 2 * (size_t)i, "a&", 2);
    struct parsed parsed = parse(BYTES(""), bytes_make(text, 2 * FORM_FIELDS_MAX));
    assert_int_equal(parsed.error, OK);
    assert_int_equal(parsed.form.count, FORM_FIELDS_MAX);
    arena_deinit(&parsed.arena);
    const struct {
        struct bytes query, body;
    } too_many[] = {{BYTES(""), bytes_make(text, 2 * FORM_FIELDS_MAX + 1)},
                    {BYTES("Action=A"), bytes_make(text, 2 * FORM_FIELDS_MAX)},
                    {bytes_make(text, 2 * FORM_FIELDS_MAX), BYTES("a")}};
    for (size_t i = 0; i < ARRAY_LENGTH(too_many); i++) {
        parsed = parse(too_many[i].query, too_many[i].body);
        assert_int_equal(parsed.error, ERROR_SERIALIZATION);
        assert_string_equal(parsed.failure.text, "The request has more than 1000 fields.");
        arena_deinit(&parsed.arena);
    }
    /* Separators alone are no fields, however many. */
    memset(text, '&', sizeof(text));
    parsed = parse(bytes_make(text, sizeof(text)), BYTES("a=b"));
    assert_int_equal(parsed.error, OK);
    assert_int_equal(parsed.form.count, 1);
    arena_deinit(&parsed.arena);
}

static void the_first_field_of_a_name_is_found(void **state)
{
    (void)state;
    struct parsed parsed = parse(BYTES("Action=A&empty="), BYTES("Action=B"));
    assert_true(bytes_equal(form_find(&parsed.form, BYTES("Action")), BYTES("A")));
    assert_true(form_find(&parsed.form, BYTES("empty")).ptr != NULL);
    assert_int_equal(form_find(&parsed.form, BYTES("empty")).size, 0);
    assert_null(form_find(&parsed.form, BYTES("action")).ptr);
    arena_deinit(&parsed.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(query_and_body_are_one_set_in_their_order),
        cmocka_unit_test(what_stands_between_separators_may_be_missing),
        cmocka_unit_test(escapes_are_undone_in_names_and_values),
        cmocka_unit_test(every_byte_can_be_escaped),
        cmocka_unit_test(a_percent_sign_without_two_digits_is_refused_and_named),
        cmocka_unit_test(a_thousand_fields_are_the_most),
        cmocka_unit_test(the_first_field_of_a_name_is_found),
    };
    return cmocka_run_group_tests_name("api form", tests, NULL, NULL);
}
