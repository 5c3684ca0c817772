/* Base64: the vectors of RFC 4648, section 10, without their padding; both alphabets; what no data gives. */
#include "base/base64.h"

#include "base/assert.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void the_vectors_of_the_rfc_go_both_ways(void **state)
{
    (void)state;
    static const struct {
        struct bytes data, text;
    } rows[] = {
        {BYTES(""), BYTES("")},
        {BYTES("f"), BYTES("Zg")},
        {BYTES("fo"), BYTES("Zm8")},
        {BYTES("foo"), BYTES("Zm9v")},
        {BYTES("foob"), BYTES("Zm9vYg")},
        {BYTES("fooba"), BYTES("Zm9vYmE")},
        {BYTES("foobar"), BYTES("Zm9vYmFy")},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        char text[16];
        uint8_t data[16];
        unsigned spare_bits = 1;
        assert_int_equal(rows[i].text.size, BASE64_TEXT_SIZE(rows[i].data.size));
        assert_int_equal(rows[i].data.size, BASE64_DATA_SIZE(rows[i].text.size));
        base64_encode(BASE64_STANDARD, rows[i].data, text);
        assert_memory_equal(text, rows[i].text.ptr, rows[i].text.size);
        assert_true(base64_decode(BASE64_STANDARD, rows[i].text, data, &spare_bits));
        assert_memory_equal(data, rows[i].data.ptr, rows[i].data.size);
        assert_int_equal(spare_bits, 0);
    }
}

static void the_alphabets_differ_in_two_digits(void **state)
{
    (void)state;
    const uint8_t ones[3] = {0xfb, 0xff, 0xbf};
    char text[4];
    uint8_t data[3];
    unsigned spare_bits;
    base64_encode(BASE64_STANDARD, bytes_make(ones, 3), text);
    assert_memory_equal(text, "+/+/", 4);
    assert_false(base64_decode(BASE64_URL, BYTES("+/+/"), data, &spare_bits));
    base64_encode(BASE64_URL, bytes_make(ones, 3), text);
    assert_memory_equal(text, "-_-_", 4);
    assert_false(base64_decode(BASE64_STANDARD, BYTES("-_-_"), data, &spare_bits));
    assert_true(base64_decode(BASE64_URL, BYTES("-_-_"), data, &spare_bits));
    assert_memory_equal(data, ones, 3);
}

static void what_no_data_gives_is_told(void **state)
{
    (void)state;
    uint8_t data[8];
    unsigned spare_bits;
    assert_false(base64_decode(BASE64_STANDARD, BYTES("A"), data, &spare_bits));
    assert_false(base64_decode(BASE64_STANDARD, BYTES("AAAAA"), data, &spare_bits));
    assert_false(base64_decode(BASE64_STANDARD, BYTES("Zg=="), data, &spare_bits));
    assert_false(base64_decode(BASE64_STANDARD, BYTES("Z g"), data, &spare_bits));
    assert_true(base64_decode(BASE64_STANDARD, BYTES("Zh"), data, &spare_bits));
    assert_int_equal(data[0], 'f');
    assert_int_equal(spare_bits, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vectors_of_the_rfc_go_both_ways),
        cmocka_unit_test(the_alphabets_differ_in_two_digits),
        cmocka_unit_test(what_no_data_gives_is_told),
    };
    return cmocka_run_group_tests_name("base64", tests, NULL, NULL);
}
