/* What people are shown of texts that others wrote. */
#include "base/assert.h"
#include "base/buffer.h"
#include "base/shown.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static bool is_shown_as(const char *text, const char *shown)
{
    struct buffer out;
    struct bytes rest = bytes_from_string(text);
    buffer_init(&out);
    while (rest.size > 0)
        buffer_append_bytes(&out, shown_take(&rest));
    const bool is = bytes_equal(buffer_bytes(&out), bytes_from_string(shown));
    buffer_deinit(&out);
    return is;
}

static void what_can_be_read_is_shown_as_it_is(void **state)
{
    static const char *const texts[] = {"",
                                        "orders-17 ~",
                                        "Grüße, Жук, 注文, \xf0\x9f\x98\x80",
                                        "\xc2\xa0\xd8\x9b\xd8\x9d" /* U+00A0, U+061B, U+061D */,
                                        "\xe2\x80\x8d\xe2\x80\x90\xe2\x80\xa7\xe2\x80\xaf" /* U+200D 2010 2027 202F */,
                                        "\xe2\x81\xa5\xe2\x81\xaa\xf4\x8f\xbf\xbf" /* U+2065 206A 10FFFF */};
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++)
        assert_true(is_shown_as(texts[i], texts[i]));
}

static void what_speaks_to_a_terminal_or_ends_a_line_is_a_blank(void **state)
{
    (void)state;
    assert_true(is_shown_as("a\nb\tc\rd\x1b[2Je\x7f\x01", "a b c d [2Je  "));
    assert_true(is_shown_as("\xc2\x80\xc2\x85\xc2\x9b"
                            "31m\xc2\x9f",
                            "   31m "));                            /* C1: U+009B begins a sequence as ESC [ does */
    assert_true(is_shown_as("a\xe2\x80\xa8\xe2\x80\xa9z", "a  z")); /* U+2028 and U+2029 */
}

static void what_turns_the_direction_of_a_text_is_a_blank(void **state)
{
    static const char *const marks[] = {"\xd8\x9c",     "\xe2\x80\x8e", "\xe2\x80\x8f", "\xe2\x80\xaa",
                                        "\xe2\x80\xab", "\xe2\x80\xac", "\xe2\x80\xad", "\xe2\x80\xae",
                                        "\xe2\x81\xa6", "\xe2\x81\xa7", "\xe2\x81\xa8", "\xe2\x81\xa9"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(marks); i++)
        assert_true(is_shown_as(marks[i], " "));
}

static void what_is_no_utf8_is_a_question_mark_each_byte(void **state)
{
    (void)state;
    assert_true(is_shown_as("a\xff\xfe", "a??"));
    assert_true(is_shown_as("\x9b\xc3", "??"));                /* C1 of another encoding; a character that was cut */
    assert_true(is_shown_as("\xc0\x9b\xed\xa0\x80", "?????")); /* overlong; a surrogate */
}

static void lines_of_a_text_stay(void **state)
{
    char text[] = "a\n\tb\x1b[2J\xff\xe2\x80\xaez\r";
    (void)state;
    shown_clean_lines(text);
    assert_string_equal(text, "a\n\tb [2J? z ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_can_be_read_is_shown_as_it_is),
        cmocka_unit_test(what_speaks_to_a_terminal_or_ends_a_line_is_a_blank),
        cmocka_unit_test(what_turns_the_direction_of_a_text_is_a_blank),
        cmocka_unit_test(what_is_no_utf8_is_a_question_mark_each_byte),
        cmocka_unit_test(lines_of_a_text_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
