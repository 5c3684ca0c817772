/* What texts of requests may be made of. */
#include "api/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct bytes one(uint8_t *byte)
{
    return bytes_make(byte, 1);
}

/* A word of eight bytes is looked at as a whole, so each byte stands at each place of several words. */
static void control_characters_are_not_allowed_wherever_they_stand(void **state)
{
    (void)state;
    static const uint8_t fillings[] = {0x20, 'a', 0x7f, 0xee, 0xff};
    uint8_t text[27];
    for (size_t k = 0; k < sizeof(fillings); k++) {
        memset(text, fillings[k], sizeof(text));
        for (size_t size = 0; size < sizeof(text); size++)
            for (size_t at = 0; at < size; at++) {
                for (unsigned byte = 0; byte <= 0xff; byte++) {
                    text[at] = (uint8_t)byte;
                    bool is_allowed = byte >= 0x20 || byte == '\t' || byte == '\n' || byte == '\r';
                    if (text_is_allowed(bytes_make(text, size)) != is_allowed)
                        fail_msg("%#x at %zu of %zu", byte, at, size);
                }
                text[at] = fillings[k];
            }
    }
}

static void the_two_code_points_that_xml_lacks_are_not_allowed(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_allowed;
    } rows[] = {
        {"\xef\xbf\xbd", true}, {"\xef\xbf\xbe", false}, {"\xef\xbf\xbf", false},
        {"\xef\xbe\xbe", true}, {"\xee\xbf\xbf", true},  {"\xef\xbf", true},
        {"\xef", true},         {"\xf0\xbf\xbf", true},  {"\xef\xc0\xbf", true},
    };
    char text[40];
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        for (int before = 0; before < 18; before++)
            for (int behind = 0; behind < 12; behind += 11) {
                snprintf(text, sizeof(text), "%.*s%s%.*s", before, "abcdefghijklmnopqr", rows[i].text, behind,
                         "stuvwxyzabc");
                assert_int_equal(text_is_allowed(bytes_from_string(text)), rows[i].is_allowed);
            }
}

static void each_byte_is_of_an_identifier_a_word_a_name_or_not(void **state)
{
    (void)state;
    for (unsigned i = 0; i <= 0xff; i++) {
        uint8_t byte = (uint8_t)i;
        const bool is_ascii = byte > ' ' && byte < 0x7f;
        const bool is_digit = byte >= '0' && byte <= '9';
        const bool is_letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
        const bool is_word = is_digit || is_letter || byte == '-' || byte == '_';
        const bool is_tag = is_digit || is_letter || (byte != 0 && byte < 0x80 && strchr(" _.:/=+-@", byte) != NULL);
        assert_int_equal(text_is_identifier(one(&byte), 1), is_ascii);
        assert_int_equal(text_is_printable(one(&byte)), is_ascii || byte == ' ');
        assert_int_equal(text_shown(one(&byte)).size, is_ascii || byte == ' ');
        assert_int_equal(text_is_word(one(&byte), 1), is_word);
        assert_int_equal(text_is_attribute_name(one(&byte)), is_word || byte == '.');
        if (byte < 0x80)
            assert_int_equal(text_is_tag(one(&byte)), is_tag);
    }
    assert_true(text_is_identifier(BYTES("a~!"), 3) && text_is_word(BYTES("a-_"), 3));
    assert_false(text_is_identifier(BYTES("abc"), 2) || text_is_word(BYTES("abc"), 2));
    assert_false(text_is_identifier(BYTES(""), 2) || text_is_word(BYTES(""), 2));
    assert_false(text_is_identifier(BYTES("ab c"), 9) || text_is_word(BYTES("ab.c"), 9));
    assert_false(text_is_attribute_name(BYTES("ab:c")) || text_is_printable(BYTES("ab\n")));
    assert_true(text_is_printable(BYTES("")) && text_is_attribute_name(BYTES("")) && text_is_tag(BYTES("")));
}

static void of_a_long_text_eighty_characters_are_shown(void **state)
{
    (void)state;
    char text[100];
    memset(text, 'x', sizeof(text));
    for (size_t size = 78; size < 83; size++) {
        assert_int_equal(text_shown(bytes_make(text, size)).size, size < 80 ? size : 80);
        assert_ptr_equal(text_shown(bytes_make(text, size)).ptr, text);
    }
    text[82] = '\n';
    assert_int_equal(text_shown(bytes_make(text, 83)).size, 0);
}

static size_t encode(uint32_t code_point, uint8_t *out)
{
    size_t size = code_point < 0x80 ? 1 : code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
    static const uint8_t first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = size - 1; i > 0; i--, code_point >>= 6)
        out[i] = (uint8_t)(0x80 | (code_point & 0x3f));
    out[0] = (uint8_t)(first[size] | code_point);
    return size;
}

/* The blocks of Unicode without letters, and the code points around each. */
static void letters_of_any_language_are_of_a_tag(void **state)
{
    (void)state;
    static const uint32_t blocks[][2] = {{0x80, 0xa9},       {0xab, 0xb4},       {0xb6, 0xb9},       {0xbb, 0xbf},
                                         {0xd7, 0xd7},       {0xf7, 0xf7},       {0x2000, 0x206f},   {0x20a0, 0x20cf},
                                         {0x2190, 0x245f},   {0x2500, 0x2bff},   {0x2e00, 0x2e7f},   {0x3000, 0x3004},
                                         {0x3008, 0x3020},   {0xd800, 0xf8ff},   {0xfe10, 0xfe6f},   {0xff00, 0xff0f},
                                         {0xff1a, 0xff20},   {0xff3b, 0xff40},   {0xff5b, 0xff65},   {0xffe0, 0xffff},
                                         {0x1d000, 0x1d24f}, {0x1f000, 0x1faff}, {0xe0000, 0x10ffff}};
    uint8_t text[16] = {'a'};
    for (size_t i = 0; i < sizeof(blocks) / sizeof(*blocks); i++) {
        const uint32_t around[] = {blocks[i][0] - 1, blocks[i][0], blocks[i][1], blocks[i][1] + 1};
        for (size_t k = 0; k < 4; k++) {
            size_t size = 1 + encode(around[k], text + 1);
            text[size] = 'z';
            bool is_inside = k == 1 || k == 2 || around[k] < 0x80;
            if (around[k] <= 0x10ffff && text_is_tag(bytes_make(text, size + 1)) == is_inside)
                fail_msg("U+%04X", around[k]);
        }
    }
    assert_false(text_is_tag(bytes_make("a\0b", 3)));
}

static void the_length_of_a_text_is_in_code_points(void **state)
{
    (void)state;
    static const uint32_t points[] = {1,      0x7f,   0x80,   0x7ff,   0x800,   0xfff,   0x1000,
                                      0xd7ff, 0xe000, 0xffff, 0x10000, 0x3ffff, 0x40000, 0x10ffff};
    uint8_t text[80];
    size_t size = 0;
    assert_int_equal(text_length(BYTES("")), 0);
    for (size_t i = 0; i < sizeof(points) / sizeof(*points); i++) {
        size += encode(points[i], text + size);
        assert_int_equal(text_length(bytes_make(text, size)), i + 1);
    }
}

static void base64_may_lack_its_padding_but_has_no_more_than_that(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *value; /* NULL: it is none */
    } rows[] = {
        {"", ""},      {"QUJD", "ABC"},          {"QUI=", "AB"},       {"QUI", "AB"},   {"QQ==", "A"},  {"QQ=", "A"},
        {"QQ", "A"},   {"QUJDQQ", "ABCA"},       {"QUJDQQ==", "ABCA"}, {"Q", NULL},     {"=", NULL},    {"==", NULL},
        {"Q=", NULL},  {"QUJD=", NULL},          {"QUJDQ", NULL},      {"QU=JD", NULL}, {"Q=Q=", NULL}, {"QUJ*", NULL},
        {"QR==", "A"}, {"+/+/", "\xfb\xff\xbf"}, {"-_-_", NULL},
    };
    struct arena arena;
    arena_init(&arena);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct bytes value;
        bool is_read = text_from_base64(bytes_from_string(rows[i].text), &arena, &value);
        if (is_read != (rows[i].value != NULL))
            fail_msg("'%s' %s", rows[i].text, is_read ? "was read" : "was not read");
        if (is_read && !bytes_equal(value, bytes_from_string(rows[i].value)))
            fail_msg("'%s' is '%.*s'", rows[i].text, BYTES_FORMAT(value));
    }
    arena_deinit(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_characters_are_not_allowed_wherever_they_stand),
        cmocka_unit_test(the_two_code_points_that_xml_lacks_are_not_allowed),
        cmocka_unit_test(each_byte_is_of_an_identifier_a_word_a_name_or_not),
        cmocka_unit_test(of_a_long_text_eighty_characters_are_shown),
        cmocka_unit_test(letters_of_any_language_are_of_a_tag),
        cmocka_unit_test(the_length_of_a_text_is_in_code_points),
        cmocka_unit_test(base64_may_lack_its_padding_but_has_no_more_than_that),
    };
    return cmocka_run_group_tests_name("texts of requests", tests, NULL, NULL);
}
