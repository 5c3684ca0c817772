/* Help texts as parts of manual pages. What mandoc says of whole pages: tests/house/manual. */
#include "manual/mdoc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_written(struct buffer *page, const char *wanted)
{
    buffer_append_u8(page, '\0');
    assert_string_equal((const char *)page->data_owned, wanted);
    buffer_deinit(page);
}

#define ASSERT_PROSE(text, wanted)                                                                                     \
    do {                                                                                                               \
        struct buffer page;                                                                                            \
        buffer_init(&page);                                                                                            \
        mdoc_prose(&page, text);                                                                                       \
        assert_written(&page, wanted);                                                                                 \
    } while (0)

static void each_sentence_begins_a_line(void **state)
{
    (void)state;
    ASSERT_PROSE("One. Two! Three? Four: five, 1.5 six.\n", "One.\nTwo!\nThree?\nFour:\nfive, 1.5 six.\n");
    ASSERT_PROSE("no end", "no end\n");
}

static void nothing_in_a_text_is_markup(void **state)
{
    (void)state;
    ASSERT_PROSE(".Sh a\n'Sh b\nc\\d --e\n", "\\&.Sh a\n\\(aqSh b\nc\\ed \\-\\-e\n");
    ASSERT_PROSE("Sentence. .Dd is none\n", "Sentence.\n\\&.Dd is none\n");
    struct buffer page;
    buffer_init(&page);
    mdoc_flag(&page, "max", "A \"b\"");
    assert_written(&page, ".It Fl \\-max Ar \"A \\(dqb\\(dq\"\n");
}

static void empty_lines_part_paragraphs_and_indented_ones_are_shown(void **state)
{
    (void)state;
    ASSERT_PROSE("a\n\nb\n", "a\n.Pp\nb\n");
    ASSERT_PROSE("a:\n  x  y. Z\n  .w\nb\n\nc\n\n  z\n",
                 "a:\n.Bd -literal\n  x  y. Z\n  .w\n.Ed\nb\n.Pp\nc\n.Bd -literal\n  z\n.Ed\n");
}

static void backquotes_are_bold_also_over_the_end_of_a_line(void **state)
{
    (void)state;
    ASSERT_PROSE("see `a. b\nc` too\n", "see \\fBa. b\nc\\fR too\n");
}

static void capitals_of_a_usage_line_are_placeholders(void **state)
{
    (void)state;
    struct buffer page;
    buffer_init(&page);
    mdoc_usage(&page, "[OPTIONS] QUEUE RECEIPT-HANDLE a-B -- N");
    assert_written(&page, "[\\fIOPTIONS\\fR] \\fIQUEUE\\fR \\fIRECEIPT\\-HANDLE\\fR a\\-\\fIB\\fR \\-\\- \\fIN\\fR\n");
}

static void a_page_has_a_head_with_the_date_of_the_build(void **state)
{
    (void)state;
    char date[MDOC_DATE_SIZE];
    assert_int_equal(setenv("SOURCE_DATE_EPOCH", "86400", 1), 0);
    mdoc_date(date);
    assert_string_equal(date, "January 2, 1970");
    struct buffer page;
    buffer_init(&page);
    mdoc_begin(&page, date, "tally-send", 1, "put it");
    assert_written(&page, ".Dd January 2, 1970\n.Dt TALLY-SEND 1\n.Os \"Tally " TALLY_VERSION
                          "\"\n.Sh NAME\n.Nm tally\\-send\n.Nd put it\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_sentence_begins_a_line),
        cmocka_unit_test(nothing_in_a_text_is_markup),
        cmocka_unit_test(empty_lines_part_paragraphs_and_indented_ones_are_shown),
        cmocka_unit_test(backquotes_are_bold_also_over_the_end_of_a_line),
        cmocka_unit_test(capitals_of_a_usage_line_are_placeholders),
        cmocka_unit_test(a_page_has_a_head_with_the_date_of_the_build),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
