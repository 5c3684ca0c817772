/* Texts as JSON has them. What is escaped and how is tested with the writer of replies (api_writer_test). */
#include "base/quote.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void a_text_stands_in_quotes(void **state)
{
    struct buffer out;
    (void)state;
    buffer_init(&out);
    quote_append(&out, BYTES("twelve bytes\n\"\\\x1f\xc3\xa4"));
    assert_true(bytes_equal(buffer_bytes(&out), BYTES("\"twelve bytes\\n\\\"\\\\\\u001f\xc3\xa4\"")));
    buffer_truncate(&out, 0);
    quote_append(&out, BYTES(""));
    assert_true(bytes_equal(buffer_bytes(&out), BYTES("\"\"")));
    buffer_deinit(&out);
}

/* At every place of a text of plain letters, since eight bytes are looked at together. */
static bool is_utf8_anywhere(const char *sequence)
{
    size_t size = strlen(sequence), sound = 0, places = 24;
    for (size_t index = 0; index < places; index++) {
        uint8_t text[40];
        memset(text, 'a', sizeof text);
        memcpy(text + index, sequence, size);
        sound += quote_is_utf8(bytes_make(text, sizeof text));
        sound += quote_is_utf8(bytes_make(text, index + size));
    }
    assert_true(sound == 0 || sound == 2 * places);
    return sound > 0;
}

static void utf8_is_told_from_other_bytes(void **state)
{
    static const char *const good[] = {"\x7f",         "\xc2\x80",     "\xdf\xbf",         "\xe0\xa0\x80",
                                       "\xed\x9f\xbf", "\xee\x80\x80", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] = {"\x80",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xc2",
                                      "\xc2\xc2",
                                      "\xe0\x9f\xbf",
                                      "\xed\xa0\x80",
                                      "\xe2\x82",
                                      "\xff",
                                      "\xe2\x82\x41",
                                      "\xf0\x8f\xbf",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80"};
    (void)state;
    assert_true(quote_is_utf8(BYTES("")));
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(is_utf8_anywhere(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(is_utf8_anywhere(bad[i]));
}

static void the_size_of_a_text_in_quotes_is_known_before(void **state)
{
    (void)state;
    uint8_t text[64];
    uint64_t random = 7;
    struct buffer out;
    buffer_init(&out);
    for (unsigned i = 0; i < 20000; i++) {
        size_t size = i % (sizeof(text) + 1);
        for (size_t k = 0; k < size; k++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
            text[k] = (uint8_t)(random >> 60 == 0 ? "\"\\\n\t\x01\x1f\x7f\xff"[random >> 40 & 7] : 'a');
        }
        buffer_truncate(&out, 0);
        quote_append(&out, bytes_make(text, size));
        assert_int_equal(quote_size(bytes_make(text, size)), out.size - 2);
    }
    buffer_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_stands_in_quotes),
        cmocka_unit_test(the_size_of_a_text_in_quotes_is_known_before),
        cmocka_unit_test(utf8_is_told_from_other_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
