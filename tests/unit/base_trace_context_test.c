/* The form of traceparent and tracestate, as W3C Trace Context has it. */
#include "base/assert.h"
#include "base/trace_context.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define TRACE_ID "0af7651916cd43dd8448eb211c80319c"
#define PARENT_ID "b7ad6b7169203331"

static void the_three_names_are_known_as_they_are_written(void **state)
{
    (void)state;
    assert_true(trace_context_is_name(BYTES("traceparent")));
    assert_true(trace_context_is_name(BYTES("tracestate")));
    assert_true(trace_context_is_name(BYTES("baggage")));
    static const char *const others[] = {"", "Traceparent", "traceparent2", "traceparen", "trace", "Baggage", "state"};
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++)
        assert_false(trace_context_is_name(bytes_from_string(others[i])));
}

static void a_traceparent_has_a_version_two_ids_and_flags(void **state)
{
    (void)state;
    static const char *const good[] = {
        "00-" TRACE_ID "-" PARENT_ID "-01",  "00-" TRACE_ID "-" PARENT_ID "-00",
        "00-" TRACE_ID "-" PARENT_ID "-ff",  "00-00000000000000000000000000000001-0000000000000001-01",
        "01-" TRACE_ID "-" PARENT_ID "-01",  "fe-" TRACE_ID "-" PARENT_ID "-01-what comes later",
        "01-" TRACE_ID "-" PARENT_ID "-01-",
    };
    static const char *const bad[] = {
        "",
        "00",
        "00-" TRACE_ID "-" PARENT_ID "-0",
        "00-" TRACE_ID "-" PARENT_ID "-01-",
        "00-" TRACE_ID "-" PARENT_ID "-01-more",
        "01-" TRACE_ID "-" PARENT_ID "-01more",
        "01-" TRACE_ID "-" PARENT_ID "-01-\x01",
        "01-" TRACE_ID "-" PARENT_ID "-01-\xc3\xbc",
        "ff-" TRACE_ID "-" PARENT_ID "-01",
        "0g-" TRACE_ID "-" PARENT_ID "-01",
        "00-00000000000000000000000000000000-" PARENT_ID "-01",
        "00-" TRACE_ID "-0000000000000000-01",
        "00-0AF7651916CD43DD8448EB211C80319C-" PARENT_ID "-01",
        "00-" TRACE_ID "-B7AD6B7169203331-01",
        "00-" TRACE_ID "-" PARENT_ID "-0G",
        "00_" TRACE_ID "-" PARENT_ID "-01",
        "00-" TRACE_ID "_" PARENT_ID "-01",
        "00-" TRACE_ID "-" PARENT_ID "_01",
        " 00-" TRACE_ID "-" PARENT_ID "-01",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++)
        if (!trace_context_is_parent(bytes_from_string(good[i])))
            fail_msg("%s is one", good[i]);
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++)
        if (trace_context_is_parent(bytes_from_string(bad[i])))
            fail_msg("%s is none", bad[i]);
}

static void a_later_traceparent_may_be_as_long_as_a_value_that_is_taken(void **state)
{
    char text[TRACE_VALUE_SIZE_MAX + 2];
    (void)state;
    memset(text, 'x', sizeof(text));
    memcpy(text, "01-" TRACE_ID "-" PARENT_ID "-01-", 56);
    assert_true(trace_context_is_parent(bytes_make(text, TRACE_VALUE_SIZE_MAX)));
    assert_false(trace_context_is_parent(bytes_make(text, TRACE_VALUE_SIZE_MAX + 1)));
}

static void a_tracestate_is_a_list_of_keys_and_values(void **state)
{
    (void)state;
    static const char *const good[] = {
        "rojo=00f067aa0ba902b7",
        "congo=t61rcWkgMzE,rojo=1",
        "congo=t61rcWkgMzE , \trojo=1",
        "fw529a3039@dt=FfAx5h",
        "0tenant@vendor=x y;z:!~",
        "a_b-c*d/e=1",
        ",a=1,,",
        "a= 1",
    };
    static const char *const bad[] = {
        "",      ",",     " , ",     "a",          "a=",      "a= ",     "=1",  "A=1",
        "a=b=c", "a=1,b", "a=1,b=,", "a=\xc3\xbc", "a=1\x7f", "a=1\x01", "ü=1", "-a=1",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++)
        if (!trace_context_is_state(bytes_from_string(good[i])))
            fail_msg("%s is one", good[i]);
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++)
        if (trace_context_is_state(bytes_from_string(bad[i])))
            fail_msg("%s is none", bad[i]);
}

/* "a=1," as often as that, and then a value of `size` bytes. */
static bool is_state_of(unsigned members, size_t key_size, size_t size)
{
    char text[2 * TRACE_VALUE_SIZE_MAX];
    size_t at = 0;
    for (unsigned i = 1; i < members; i++, at += 4)
        memcpy(text + at, "a=1,", 4);
    memset(text + at, 'k', key_size);
    at += key_size;
    text[at++] = '=';
    memset(text + at, 'v', size);
    return trace_context_is_state(bytes_make(text, at + size));
}

static void a_tracestate_has_bounds(void **state)
{
    (void)state;
    assert_true(is_state_of(32, 1, 1));
    assert_false(is_state_of(33, 1, 1));
    assert_true(is_state_of(1, 1, 256));
    assert_false(is_state_of(1, 1, 257));
    assert_true(is_state_of(1, 256, 1));
    assert_false(is_state_of(1, 257, 1));
    assert_true(is_state_of(1, 255, 256)); /* 512 bytes */
    assert_false(is_state_of(1, 256, 256));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_three_names_are_known_as_they_are_written),
        cmocka_unit_test(a_traceparent_has_a_version_two_ids_and_flags),
        cmocka_unit_test(a_later_traceparent_may_be_as_long_as_a_value_that_is_taken),
        cmocka_unit_test(a_tracestate_is_a_list_of_keys_and_values),
        cmocka_unit_test(a_tracestate_has_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
