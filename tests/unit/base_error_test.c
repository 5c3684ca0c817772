#include "base/error.h"

#include "base/assert.h"
#include "base/quote.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void every_error_has_a_whole_row(void **state)
{
    (void)state;
    for (int error = OK + 1; error < ERROR_COUNT; error++) {
        const struct error_row *row = error_row((enum error)error);
        assert_true(row->name[0] >= 'A' && row->name[0] <= 'Z');
        assert_null(strchr(row->name, '#'));
        assert_int_equal(row->name[-1], '#');
        size_t prefix = strlen(row->type) - strlen(row->name);
        assert_string_equal(row->type + prefix, row->name);
        assert_true(strlen(row->query) > 0);
        assert_true(row->status >= 400 && row->status <= 599);
        assert_true(strlen(row->text) > 0 && strlen(row->text) < sizeof(((struct failure *)NULL)->text));
    }
}

static void a_row_is_found_by_its_error(void **state)
{
    (void)state;
    const struct error_row *row = error_row(ERROR_QUEUE_DOES_NOT_EXIST);
    assert_string_equal(row->name, "QueueDoesNotExist");
    assert_string_equal(row->type, "com.amazonaws.sqs#QueueDoesNotExist");
    assert_string_equal(row->query, "AWS.SimpleQueueService.NonExistentQueue");
    assert_int_equal(row->status, 400);
    assert_string_equal(error_row(ERROR_DISK_FAILED)->name, "DiskFailed");
}

static void no_two_errors_share_a_type(void **state)
{
    (void)state;
    for (int a = OK + 1; a < ERROR_COUNT; a++)
        for (int b = a + 1; b < ERROR_COUNT; b++)
            assert_string_not_equal(error_row((enum error)a)->type, error_row((enum error)b)->type);
}

static void a_failure_keeps_the_error_and_the_text(void **state)
{
    (void)state;
    struct failure failure = {0};
    assert_int_equal(failure_set(&failure, ERROR_DISK_FULL, "%s: %d bytes", "segment", 7), ERROR_DISK_FULL);
    assert_int_equal(failure.error, ERROR_DISK_FULL);
    assert_string_equal(failure.text, "segment: 7 bytes");
    assert_int_equal(failure_set(&failure, ERROR_NOT_FOUND, NULL), ERROR_NOT_FOUND);
    assert_string_equal(failure.text, "");
    assert_int_equal(failure_set(NULL, ERROR_NOT_FOUND, "nobody %s", "listens"), ERROR_NOT_FOUND);
}

static void a_value_cut_by_its_precision_is_cut_at_a_whole_character(void **state)
{
    (void)state;
    struct failure failure;
    failure_set(&failure, ERROR_LOG_DAMAGED, "%.3s%.1s%.2s%.4s end",
                "a\xc3\xa4"
                "b",
                "\xe2\x82\xac", "\xf0\x9f\x8e\x89", "\xf0\x9f\x8e\x89");
    assert_string_equal(failure.text, "a\xc3\xa4\xf0\x9f\x8e\x89 end");
    failure_set(&failure, ERROR_LOG_DAMAGED, "\x80\xbf\xc3");
    assert_string_equal(failure.text, "");
}

/* A text may repeat bytes of a request, and stands in JSON and XML. */
static void a_text_keeps_nothing_that_is_no_utf8(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"a\xff\x80\x80\x80z", "az"},
        {"a\xf8\x88\x80\x80\x80z", "az"},
        {"a\xc0\x80z", "az"},
        {"a\xe0\x9f\xbfz", "az"},
        {"a\xed\xa0\x80z", "az"},
        {"a\xf4\x90\x80\x80z", "az"},
        {"a\xc3\xffz", "az"},
        {"\xf0\x9f\x8e", ""},
        {"a\xef\xbf\xbfz", "a\xef\xbf\xbfz"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct failure failure;
        failure_set(&failure, ERROR_LOG_DAMAGED, "%s", cases[i][0]);
        assert_string_equal(failure.text, cases[i][1]);
        assert_true(quote_is_utf8(bytes_from_string(failure.text)));
    }
}

static void a_text_too_long_is_cut_at_a_whole_character(void **state)
{
    (void)state;
    static const char *const characters[] = {"z", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    for (size_t width = 1; width <= ARRAY_LENGTH(characters); width++) {
        for (size_t start = 0; start < width; start++) {
            char text[sizeof(((struct failure *)0)->text) + 200];
            size_t size = 0;
            while (size < start)
                text[size++] = '.';
            while (size < sizeof(text) - 100) {
                memcpy(text + size, characters[width - 1], width);
                size += width;
            }
            text[size] = '\0';

            struct failure failure;
            const size_t size_max = sizeof(failure.text) - 1;
            failure_set(&failure, ERROR_SERIALIZATION, "%s", text);
            size_t kept = strlen(failure.text);
            assert_int_equal(kept, start + (size_max - start) / width * width);
            assert_memory_equal(failure.text, text, kept);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_error_has_a_whole_row),
        cmocka_unit_test(a_row_is_found_by_its_error),
        cmocka_unit_test(no_two_errors_share_a_type),
        cmocka_unit_test(a_failure_keeps_the_error_and_the_text),
        cmocka_unit_test(a_value_cut_by_its_precision_is_cut_at_a_whole_character),
        cmocka_unit_test(a_text_keeps_nothing_that_is_no_utf8),
        cmocka_unit_test(a_text_too_long_is_cut_at_a_whole_character),
    };
    return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
