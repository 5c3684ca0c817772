#include "ui/ui.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

/* What a person waits for over a slow line, and what src/server/reply_head.c has room for. */
#define ZIPPED_SIZE_MAX ((size_t)72 * 1024)
#define FIELDS_SIZE_MAX 768u

static bool has(struct bytes text, const char *part)
{
    return memmem(text.ptr, text.size, part, strlen(part)) != NULL;
}

static void the_page_and_what_it_names_are_there(void **state)
{
    (void)state;
    const struct ui_file *page = ui_find(BYTES(""));
    assert_non_null(page);
    assert_string_equal(page->content_type, "text/html; charset=utf-8");
    for (size_t i = 0; i < ui_file_count; i++)
        assert_ptr_equal(ui_find(ui_files[i].name), &ui_files[i]);
    assert_true(has(page->plain.content, "main.js") && ui_find(BYTES("main.js")) != NULL);
    assert_true(has(page->plain.content, "tally.css") && ui_find(BYTES("tally.css")) != NULL);
    assert_null(ui_find(BYTES("index.html")));
    assert_null(ui_find(BYTES("main.j")));
    assert_null(ui_find(BYTES("../ui/main.js")));
}

static void each_form_has_a_strong_tag_of_its_own_and_the_policy(void **state)
{
    (void)state;
    for (size_t i = 0; i < ui_file_count; i++) {
        const struct ui_form *forms[] = {&ui_files[i].plain, &ui_files[i].zipped};
        assert_false(bytes_equal(forms[0]->etag, forms[1]->etag));
        for (size_t j = 0; j < 2; j++) {
            const struct bytes fields = bytes_from_string(forms[j]->fields);
            char line[128];
            assert_true(fields.size <= FIELDS_SIZE_MAX);
            (void)snprintf(line, sizeof(line), "ETag: %.*s\r\n", BYTES_FORMAT(forms[j]->etag));
            assert_true(bytes_starts_with(fields, bytes_from_string(line)));
            assert_true(bytes_starts_with(forms[j]->etag, BYTES("\"")) && bytes_ends_with(forms[j]->etag, BYTES("\"")));
            assert_true(has(fields, "\r\nContent-Security-Policy: default-src 'none'; "));
            assert_true(bytes_ends_with(fields, BYTES("\r\n")));
            assert_int_equal(has(fields, "Content-Encoding: gzip\r\n"), j == 1);
        }
    }
}

static void the_zipped_files_are_small(void **state)
{
    (void)state;
    size_t size = 0;
    for (size_t i = 0; i < ui_file_count; i++) {
        size += ui_files[i].zipped.content.size;
        assert_true(bytes_starts_with(ui_files[i].zipped.content, BYTES("\x1f\x8b")));
        assert_false(bytes_starts_with(ui_files[i].plain.content, BYTES("\x1f\x8b")));
    }
    assert_true(size > 0 && size <= ZIPPED_SIZE_MAX);
}

/* The browser's policy forbids these, too; but only when they are met. */
static void no_file_makes_markup_of_text(void **state)
{
    (void)state;
    static const char *const forbidden[] = {"innerHTML =", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
                                            "Function(\"", "style=\"",  "https://",           "javascript:"};
    for (size_t i = 0; i < ui_file_count; i++)
        for (size_t j = 0; j < sizeof(forbidden) / sizeof(forbidden[0]); j++)
            if (has(ui_files[i].plain.content, forbidden[j]) && !bytes_equal(ui_files[i].name, BYTES("signin.js")))
                fail_msg("%.*s has %s", BYTES_FORMAT(ui_files[i].name), forbidden[j]);
}

static void a_mode_has_one_word(void **state)
{
    (void)state;
    enum ui_mode mode = UI_OFF;
    assert_true(ui_mode_find("read-only", &mode));
    assert_int_equal(mode, UI_READ_ONLY);
    assert_true(ui_mode_find("on", &mode));
    assert_int_equal(mode, UI_ON);
    assert_false(ui_mode_find("yes", &mode) || ui_mode_find("", &mode) || ui_mode_find("ON", &mode));
    assert_int_equal(mode, UI_ON);
    assert_string_equal(ui_mode_name(UI_OFF), "off");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_and_what_it_names_are_there),
        cmocka_unit_test(each_form_has_a_strong_tag_of_its_own_and_the_policy),
        cmocka_unit_test(the_zipped_files_are_small),
        cmocka_unit_test(no_file_makes_markup_of_text),
        cmocka_unit_test(a_mode_has_one_word),
    };
    return cmocka_run_group_tests_name("ui", tests, NULL, NULL);
}
