#include "base/assert.h"
#include "base/buffer.h"
#include "base/cursor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void what_is_appended_is_read_back(void **state)
{
    (void)state;
    struct buffer buffer;
    buffer_init(&buffer);
    buffer_append_u8(&buffer, 0xfe);
    buffer_append_u16(&buffer, 0xfedc);
    buffer_append_u32(&buffer, UINT32_C(0xfedcba98));
    buffer_append_u64(&buffer, UINT64_C(0xfedcba9876543210));
    buffer_append_sized(&buffer, BYTES("a group"));
    buffer_append_sized(&buffer, bytes_make(NULL, 0));
    buffer_append_bytes(&buffer, BYTES("tail"));
    assert_int_equal(buffer.size, 1 + 2 + 4 + 8 + 4 + 7 + 4 + 4);

    struct cursor cursor = cursor_make(buffer_bytes(&buffer));
    assert_int_equal(cursor_u8(&cursor), 0xfe);
    assert_int_equal(cursor_u16(&cursor), 0xfedc);
    assert_true(cursor_u32(&cursor) == UINT32_C(0xfedcba98));
    assert_true(cursor_u64(&cursor) == UINT64_C(0xfedcba9876543210));
    assert_true(bytes_equal(cursor_sized(&cursor), BYTES("a group")));
    assert_int_equal(cursor_sized(&cursor).size, 0);
    assert_false(cursor_is_done(&cursor));
    char tail[4];
    cursor_copy(&cursor, tail, 4);
    assert_memory_equal(tail, "tail", 4);
    assert_true(cursor_is_done(&cursor));
    buffer_deinit(&buffer);
}

static void a_buffer_keeps_its_content_while_it_grows(void **state)
{
    (void)state;
    struct buffer buffer;
    buffer_init(&buffer);
    assert_null(buffer.data_owned);
    for (uint32_t i = 0; i < 5000; i++)
        buffer_append_u32(&buffer, i);
    for (uint32_t i = 0; i < 5000; i++)
        assert_int_equal(bytes_get_u32(buffer.data_owned + 4 * i), i);
    size_t capacity = buffer.capacity;
    buffer_truncate(&buffer, 8);
    assert_int_equal(buffer.size, 8);
    assert_int_equal(buffer.capacity, capacity);
    buffer_append_u8(&buffer, 9);
    assert_int_equal(bytes_get_u32(buffer.data_owned + 4), 1);
    assert_int_equal(buffer.data_owned[8], 9);
    buffer_deinit(&buffer);
    assert_int_equal(buffer.size, 0);
}

static void reserved_room_is_not_counted_until_it_is_extended(void **state)
{
    (void)state;
    struct buffer buffer;
    buffer_init(&buffer);
    assert_non_null(buffer_reserve(&buffer, 0));
    uint8_t *at = buffer_reserve(&buffer, 100000);
    memset(at, 'x', 100000);
    assert_int_equal(buffer.size, 0);
    assert_ptr_equal(buffer_extend(&buffer, 100000), at);
    assert_int_equal(buffer.size, 100000);
    assert_int_equal(buffer.data_owned[99999], 'x');
    buffer_deinit(&buffer);
}

static void decimals_and_formatted_text_are_appended_without_a_nul(void **state)
{
    (void)state;
    struct buffer buffer;
    buffer_init(&buffer);
    buffer_append_decimal(&buffer, 0);
    buffer_append_decimal(&buffer, 1024);
    buffer_append_decimal(&buffer, UINT64_MAX);
    buffer_append_format(&buffer, "<%s %d>", "queue", -5);
    assert_true(bytes_equal(buffer_bytes(&buffer), BYTES("0102418446744073709551615<queue -5>")));
    buffer_deinit(&buffer);
}

static void formatted_text_of_every_length_around_the_capacity_is_whole(void **state)
{
    (void)state;
    char text[600];
    memset(text, 'y', sizeof(text));
    for (int length = 240; length < 600; length++) {
        struct buffer buffer;
        buffer_init(&buffer);
        buffer_append_format(&buffer, "%.*s", length, text);
        buffer_append_u8(&buffer, '!');
        assert_int_equal(buffer.size, length + 1);
        assert_memory_equal(buffer.data_owned, text, (size_t)length);
        assert_int_equal(buffer.data_owned[length], '!');
        buffer_deinit(&buffer);
    }
}

static void a_read_past_the_end_yields_zeros_and_stays_failed(void **state)
{
    (void)state;
    const uint8_t raw[] = {1, 2, 3};
    struct cursor cursor = cursor_make(bytes_make(raw, 3));
    assert_int_equal(cursor_u8(&cursor), 1);
    assert_int_equal(cursor_u32(&cursor), 0);
    assert_true(cursor.is_failed);
    /* Two bytes were left, but after a failure nothing is read. */
    assert_int_equal(cursor_u8(&cursor), 0);
    assert_int_equal(cursor_u16(&cursor), 0);
    assert_true(cursor_u64(&cursor) == 0);
    assert_int_equal(cursor_bytes(&cursor, 1).size, 0);
    assert_int_equal(cursor_bytes(&cursor, 0).size, 0);
    uint8_t out[2] = {7, 7};
    cursor_copy(&cursor, out, 2);
    assert_int_equal(out[0] | out[1], 0);
    assert_false(cursor_is_done(&cursor));
}

static void every_read_fails_when_one_byte_is_missing(void **state)
{
    (void)state;
    const uint8_t raw[8] = {0};
    struct cursor cursor = cursor_make(bytes_make(raw, 0));
    assert_int_equal(cursor_u8(&cursor), 0);
    assert_true(cursor.is_failed);
    cursor = cursor_make(bytes_make(raw, 1));
    assert_int_equal(cursor_u16(&cursor), 0);
    assert_true(cursor.is_failed);
    cursor = cursor_make(bytes_make(raw, 3));
    assert_int_equal(cursor_u32(&cursor), 0);
    assert_true(cursor.is_failed);
    cursor = cursor_make(bytes_make(raw, 7));
    assert_true(cursor_u64(&cursor) == 0);
    assert_true(cursor.is_failed);
    cursor = cursor_make(bytes_make(raw, 7));
    assert_int_equal(cursor_bytes(&cursor, SIZE_MAX).size, 0);
    assert_true(cursor.is_failed);
}

static void what_fits_keeps_its_content_and_can_grow_again(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 1000, 100000};
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        struct buffer buffer;
        buffer_init(&buffer);
        memset(buffer_extend(&buffer, sizes[i] + 50000), 'x', sizes[i] + 50000);
        buffer_truncate(&buffer, sizes[i]);
        buffer_fit(&buffer);
        assert_int_equal(buffer.size, sizes[i]);
        assert_int_equal(buffer.capacity, sizes[i] == 0 ? 0 : sizes[i] + 1);
        buffer_append_u8(&buffer, 'y');
        for (size_t at = 0; at < sizes[i]; at++)
            assert_int_equal(buffer.data_owned[at], 'x');
        assert_int_equal(buffer.data_owned[sizes[i]], 'y');
        buffer_deinit(&buffer);
    }
}

static void a_size_that_claims_more_than_is_left_fails(void **state)
{
    (void)state;
    const uint8_t raw[] = {4, 0, 0, 0, 'a', 'b', 'c'};
    struct cursor cursor = cursor_make(bytes_make(raw, sizeof(raw)));
    assert_int_equal(cursor_sized(&cursor).size, 0);
    assert_true(cursor.is_failed);
    const uint8_t huge[] = {0xff, 0xff, 0xff, 0xff, 'a'};
    cursor = cursor_make(bytes_make(huge, sizeof(huge)));
    assert_int_equal(cursor_sized(&cursor).size, 0);
    assert_true(cursor.is_failed);
}

static void nothing_can_be_read_from_nothing(void **state)
{
    (void)state;
    struct cursor cursor = cursor_make(bytes_make(NULL, 0));
    assert_true(cursor_is_done(&cursor));
    assert_int_equal(cursor_bytes(&cursor, 0).size, 0);
    cursor_copy(&cursor, NULL, 0);
    assert_true(cursor_is_done(&cursor));
}

static void a_decoder_can_fail_the_cursor_itself(void **state)
{
    (void)state;
    struct cursor cursor = cursor_make(BYTES("rest"));
    cursor_fail(&cursor);
    assert_int_equal(cursor_u8(&cursor), 0);
    assert_false(cursor_is_done(&cursor));
}

static void note_end(void *context, const uint8_t *end)
{
    *(const uint8_t **)context = end;
}

static void a_cursor_says_where_it_stands_when_it_lets_go(void **state)
{
    (void)state;
    struct bytes text = BYTES("one record, another");
    const uint8_t *end = NULL;
    struct cursor cursor = cursor_make(text);
    cursor_release(&cursor); /* to nobody */
    cursor.release = note_end;
    cursor.context = &end;
    assert_true(bytes_equal(cursor_bytes(&cursor, 10), BYTES("one record")));
    assert_null(end);
    cursor_release(&cursor);
    assert_ptr_equal(end, text.ptr + 10);
    cursor_fail(&cursor);
    cursor_release(&cursor);
    assert_ptr_equal(end, text.ptr + 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_appended_is_read_back),
        cmocka_unit_test(a_buffer_keeps_its_content_while_it_grows),
        cmocka_unit_test(reserved_room_is_not_counted_until_it_is_extended),
        cmocka_unit_test(decimals_and_formatted_text_are_appended_without_a_nul),
        cmocka_unit_test(formatted_text_of_every_length_around_the_capacity_is_whole),
        cmocka_unit_test(a_read_past_the_end_yields_zeros_and_stays_failed),
        cmocka_unit_test(every_read_fails_when_one_byte_is_missing),
        cmocka_unit_test(what_fits_keeps_its_content_and_can_grow_again),
        cmocka_unit_test(a_size_that_claims_more_than_is_left_fails),
        cmocka_unit_test(nothing_can_be_read_from_nothing),
        cmocka_unit_test(a_decoder_can_fail_the_cursor_itself),
        cmocka_unit_test(a_cursor_says_where_it_stands_when_it_lets_go),
    };
    return cmocka_run_group_tests_name("buffer and cursor", tests, NULL, NULL);
}
