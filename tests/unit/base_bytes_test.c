#include "base/bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static void views_are_equal_by_content_and_size(void **state)
{
    (void)state;
    assert_true(bytes_equal(BYTES("abc"), bytes_from_string("abc")));
    assert_false(bytes_equal(BYTES("abc"), BYTES("abd")));
    assert_false(bytes_equal(BYTES("abc"), BYTES("ab")));
    assert_true(bytes_equal(bytes_make(NULL, 0), BYTES("")));
    assert_false(bytes_equal(BYTES("a\0b"), BYTES("a\0c")));
}

static void prefixes_and_suffixes_are_found(void **state)
{
    (void)state;
    struct bytes arn = BYTES("arn:aws:sqs:orders.fifo");
    assert_true(bytes_starts_with(arn, BYTES("arn:")));
    assert_false(bytes_starts_with(arn, BYTES("aws:")));
    assert_true(bytes_ends_with(arn, BYTES(".fifo")));
    assert_false(bytes_ends_with(arn, BYTES(".fif")));
    assert_true(bytes_starts_with(arn, bytes_make(NULL, 0)));
    assert_true(bytes_ends_with(bytes_make(NULL, 0), BYTES("")));
    assert_false(bytes_ends_with(BYTES("fo"), BYTES(".fifo")));
    assert_true(bytes_equal(bytes_skip(arn, 12), BYTES("orders.fifo")));
    assert_int_equal(bytes_skip(arn, arn.size).size, 0);
}

static void order_is_by_unsigned_byte_with_the_prefix_first(void **state)
{
    (void)state;
    assert_true(bytes_compare(BYTES("a"), BYTES("b")) < 0);
    assert_true(bytes_compare(BYTES("\xff"), BYTES("a")) > 0);
    assert_true(bytes_compare(BYTES("a"), BYTES("aa")) < 0);
    assert_true(bytes_compare(BYTES("b"), BYTES("aa")) > 0);
    assert_true(bytes_compare(BYTES("a\0b"), BYTES("a\0a")) > 0);
    assert_int_equal(bytes_compare(BYTES("ab"), BYTES("ab")), 0);
    assert_int_equal(bytes_compare(bytes_make(NULL, 0), BYTES("")), 0);
    assert_true(bytes_compare(bytes_make(NULL, 0), BYTES("a")) < 0);
}

static void constant_time_equality_agrees_with_the_plain_one(void **state)
{
    (void)state;
    assert_true(bytes_equal_constant_time(BYTES("0123"), BYTES("0123")));
    assert_false(bytes_equal_constant_time(BYTES("0123"), BYTES("0124")));
    assert_false(bytes_equal_constant_time(BYTES("1123"), BYTES("0123")));
    assert_false(bytes_equal_constant_time(BYTES("0123"), BYTES("012")));
    assert_true(bytes_equal_constant_time(BYTES(""), bytes_make(NULL, 0)));
}

static void canonical_decimals_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
    } rows[] = {
        {"0", 0},
        {"7", 7},
        {"10", 10},
        {"43200", 43200},
        {"18446744073709551609", UINT64_MAX - 6},
        {"18446744073709551615", UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t value = 1;
        assert_true(bytes_to_u64(bytes_from_string(rows[i].text), &value));
        assert_true(value == rows[i].value);
    }
}

static void anything_but_a_canonical_decimal_is_refused_and_leaves_the_value(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        " ",
        "00",
        "01",
        "-1",
        "+1",
        "1 ",
        " 1",
        "1.0",
        "1e3",
        "0x1",
        "ten",
        "1/",
        "1:",
        "\xb1",
        "18446744073709551616",
        "18446744073709551620",
        "28446744073709551615",
        "99999999999999999999",
        "100000000000000000000",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        uint64_t value = 42;
        assert_false(bytes_to_u64(bytes_from_string(texts[i]), &value));
        assert_int_equal(value, 42);
    }
    uint64_t value = 42;
    assert_false(bytes_to_u64(BYTES("1\0"), &value));
    assert_false(bytes_to_u64(bytes_make(NULL, 0), &value));
    assert_int_equal(value, 42);
}

static void hash_depends_on_content_only(void **state)
{
    (void)state;
    char copy[] = "xorders";
    assert_true(bytes_hash(BYTES("orders")) == bytes_hash(bytes_make(copy + 1, 6)));
    assert_true(bytes_hash(BYTES("orders")) != bytes_hash(BYTES("orders2")));
    assert_true(bytes_hash(bytes_make(NULL, 0)) == bytes_hash(BYTES("")));
    /* XXH3 of nothing with seed 0: the value of the reference implementation. */
    assert_true(bytes_hash(BYTES("")) == UINT64_C(0x2d06800538d394c2));
}

static void hexadecimal_goes_there_and_back(void **state)
{
    (void)state;
    const uint8_t raw[] = {0x00, 0x01, 0x7f, 0x80, 0xab, 0xff};
    char text[12];
    bytes_to_hex(bytes_make(raw, sizeof(raw)), text);
    assert_memory_equal(text, "00017f80abff", 12);

    uint8_t back[6] = {0};
    assert_true(bytes_from_hex(bytes_make(text, 12), back, 6));
    assert_memory_equal(back, raw, 6);
    assert_true(bytes_from_hex(BYTES("00017F80aBFf"), back, 6));
    assert_memory_equal(back, raw, 6);
    assert_true(bytes_from_hex(BYTES(""), back, 0));
}

static void every_byte_is_the_same_two_digits_wherever_it_stands(void **state)
{
    (void)state;
    uint8_t raw[256];
    char text[2 * sizeof(raw)];
    for (unsigned i = 0; i < sizeof(raw); i++)
        raw[i] = (uint8_t)i;
    for (unsigned first = 0; first < 8; first++) { /* in fours and alone */
        size_t size = sizeof(raw) - first;
        bytes_to_hex(bytes_make(raw + first, size), text);
        for (size_t i = 0; i < size; i++) {
            char two[3];
            snprintf(two, sizeof(two), "%02x", raw[first + i]);
            assert_memory_equal(text + 2 * i, two, 2);
        }
    }
}

static void text_that_is_not_hexadecimal_of_the_size_is_refused(void **state)
{
    (void)state;
    uint8_t out[2];
    assert_false(bytes_from_hex(BYTES("abc"), out, 1));
    assert_false(bytes_from_hex(BYTES("abc"), out, 2));
    assert_false(bytes_from_hex(BYTES("abcdef"), out, 2));
    assert_false(bytes_from_hex(BYTES("0g00"), out, 2));
    assert_false(bytes_from_hex(BYTES("/0:0"), out, 2));
    assert_false(bytes_from_hex(BYTES("@0`0"), out, 2));
    assert_false(bytes_from_hex(BYTES("0x00"), out, 2));
}

static void numbers_are_little_endian_at_any_alignment(void **state)
{
    (void)state;
    uint8_t raw[9] = {0};
    bytes_put_u64(raw + 1, UINT64_C(0xf1e2d3c4b5a69788));
    const uint8_t expected[] = {0x88, 0x97, 0xa6, 0xb5, 0xc4, 0xd3, 0xe2, 0xf1};
    assert_memory_equal(raw + 1, expected, 8);
    assert_true(bytes_get_u64(raw + 1) == UINT64_C(0xf1e2d3c4b5a69788));
    assert_true(bytes_get_u32(raw + 1) == UINT32_C(0xb5a69788));
    assert_int_equal(bytes_get_u16(raw + 1), 0x9788);
    bytes_put_u32(raw + 1, UINT32_C(0x80000001));
    bytes_put_u16(raw + 5, 0xfffe);
    assert_true(bytes_get_u64(raw + 1) == UINT64_C(0xf1e2fffe80000001));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_are_equal_by_content_and_size),
        cmocka_unit_test(prefixes_and_suffixes_are_found),
        cmocka_unit_test(order_is_by_unsigned_byte_with_the_prefix_first),
        cmocka_unit_test(constant_time_equality_agrees_with_the_plain_one),
        cmocka_unit_test(canonical_decimals_are_read),
        cmocka_unit_test(anything_but_a_canonical_decimal_is_refused_and_leaves_the_value),
        cmocka_unit_test(hash_depends_on_content_only),
        cmocka_unit_test(hexadecimal_goes_there_and_back),
        cmocka_unit_test(every_byte_is_the_same_two_digits_wherever_it_stands),
        cmocka_unit_test(text_that_is_not_hexadecimal_of_the_size_is_refused),
        cmocka_unit_test(numbers_are_little_endian_at_any_alignment),
    };
    return cmocka_run_group_tests_name("bytes", tests, NULL, NULL);
}
