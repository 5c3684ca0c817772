#include "base/crc32c.h"

#include "random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Both forms must give `expected`. */
static void assert_crc32c(struct bytes view, uint32_t expected)
{
    assert_int_equal(crc32c(0, view), expected);
    assert_int_equal(crc32c_portable(0, view), expected);
}

/* Source: RFC 3720, appendix B.4, read as little-endian words. */
static void crc32c_matches_the_vectors_of_rfc_3720(void **state)
{
    (void)state;
    uint8_t raw[32];
    memset(raw, 0, sizeof(raw));
    assert_crc32c(bytes_make(raw, 32), 0x8a9136aa);
    memset(raw, 0xff, sizeof(raw));
    assert_crc32c(bytes_make(raw, 32), 0x62a8ab43);
    for (uint8_t i = 0; i < 32; i++)
        raw[i] = i;
    assert_crc32c(bytes_make(raw, 32), 0x46dd794e);
    for (uint8_t i = 0; i < 32; i++)
        raw[i] = (uint8_t)(31 - i);
    assert_crc32c(bytes_make(raw, 32), 0x113fdb5c);
    const uint8_t command[48] = {
        [0] = 0x01, [1] = 0xc0, [16] = 0x14, [22] = 0x04, [27] = 0x14, [31] = 0x18, [32] = 0x28, [40] = 0x02,
    };
    assert_crc32c(bytes_make(command, 48), 0xd9963a56);
}

static void crc32c_matches_the_check_value_of_the_catalogue(void **state)
{
    (void)state;
    assert_crc32c(BYTES("123456789"), 0xe3069283);
    assert_crc32c(BYTES("a"), 0xc1d04330);
    assert_crc32c(bytes_make(NULL, 0), 0);
}

static void the_instruction_and_the_table_agree_at_any_length_and_alignment(void **state)
{
    (void)state;
    struct random random = {.state = 3720};
    uint8_t raw[700];
    random_fill(&random, raw, sizeof(raw));
    for (int i = 0; i < 5000; i++) {
        size_t start = random_below(&random, 64);
        size_t size = random_below(&random, i % 2 == 0 ? 40 : 600);
        uint32_t crc = (uint32_t)random_u64(&random);
        struct bytes view = bytes_make(raw + start, size);
        assert_int_equal(crc32c(crc, view), crc32c_portable(crc, view));
    }
}

static void the_checksum_of_parts_continues_to_that_of_the_whole(void **state)
{
    (void)state;
    struct random random = {.state = 11};
    uint8_t raw[100];
    random_fill(&random, raw, sizeof(raw));
    uint32_t whole = crc32c(0, bytes_make(raw, sizeof(raw)));
    for (size_t cut = 0; cut <= sizeof(raw); cut++) {
        uint32_t first = crc32c(0, bytes_make(raw, cut));
        assert_int_equal(crc32c(first, bytes_make(raw + cut, sizeof(raw) - cut)), whole);
    }
}

static void every_changed_bit_changes_the_checksum(void **state)
{
    (void)state;
    struct random random = {.state = 12};
    uint8_t raw[64];
    random_fill(&random, raw, sizeof(raw));
    uint32_t whole = crc32c(0, bytes_make(raw, sizeof(raw)));
    for (size_t bit = 0; bit < 8 * sizeof(raw); bit++) {
        raw[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_not_equal(crc32c(0, bytes_make(raw, sizeof(raw))), whole);
        raw[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32c_matches_the_vectors_of_rfc_3720),
        cmocka_unit_test(crc32c_matches_the_check_value_of_the_catalogue),
        cmocka_unit_test(the_instruction_and_the_table_agree_at_any_length_and_alignment),
        cmocka_unit_test(the_checksum_of_parts_continues_to_that_of_the_whole),
        cmocka_unit_test(every_changed_bit_changes_the_checksum),
    };
    return cmocka_run_group_tests_name("crc32c", tests, NULL, NULL);
}
