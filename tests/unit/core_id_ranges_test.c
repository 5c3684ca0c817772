/* Ranges of ids by themselves: what is added is found, neighbours merge, and too many lose their lowest gap. */
#include "core/publishers/id_ranges.h"

#include "base/assert.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* As "1-3 5 9-10". */
static void expect(const struct id_ranges *ranges, const char *expected)
{
    char text[400] = "";
    size_t size = 0;
    for (uint32_t i = 0; i < ranges->count; i++) {
        const struct id_range *range = id_ranges_at(ranges, i);
        size += (size_t)snprintf(text + size, sizeof(text) - size, "%s%llu", i == 0 ? "" : " ",
                                 (unsigned long long)range->first);
        if (range->last != range->first)
            size += (size_t)snprintf(text + size, sizeof(text) - size, "-%llu", (unsigned long long)range->last);
    }
    assert_string_equal(text, expected);
}

static void neighbours_merge_and_the_lowest_gap_is_filled(void **state)
{
    (void)state;
    const struct {
        uint64_t id;
        const char *ranges; /* at most 4 */
    } steps[] = {
        {20, "20"},
        {10, "10 20"},
        {10, "10 20"},
        {11, "10-11 20"},
        {9, "9-11 20"},
        {19, "9-11 19-20"},
        {21, "9-11 19-21"},
        {13, "9-11 13 19-21"},
        {12, "9-13 19-21"},
        {17, "9-13 17 19-21"},
        {15, "9-13 15 17 19-21"},
        {23, "9-15 17 19-21 23"},
        {14, "9-15 17 19-21 23"}, /* nobody added it, and it is there */
        {1, "1-15 17 19-21 23"},
        {18, "1-15 17-21 23"},
        {16, "1-21 23"},
        {22, "1-23"},
        {25, "1-23 25"},
    };
    struct id_ranges ranges = {0};
    for (unsigned i = 0; i < ARRAY_LENGTH(steps); i++) {
        id_ranges_add(&ranges, steps[i].id, 4);
        id_ranges_check(&ranges, 4);
        expect(&ranges, steps[i].ranges);
    }
    id_ranges_deinit(&ranges);
}

/* Each is behind the last: what is freed at the front is used again, and the array does not grow with all of them. */
static void ids_that_rise_for_ever_need_no_more_room(void **state)
{
    (void)state;
    for (uint32_t most = 1; most < 40; most++) {
        struct id_ranges ranges = {0};
        for (uint64_t id = 1; id < 2000; id += 2) {
            id_ranges_add(&ranges, id, most);
            id_ranges_check(&ranges, most);
            assert_int_equal(id_ranges_at(&ranges, ranges.count - 1)->first, most == 1 ? 1 : id);
            assert_int_equal(id_ranges_at(&ranges, 0)->first, 1);
            assert_int_equal(ranges.count, (id + 1) / 2 < most ? (id + 1) / 2 : most);
            assert_true(id_ranges_contain(&ranges, id) && !id_ranges_contain(&ranges, id + 1));
            assert_false(id_ranges_contain(&ranges, 0));
        }
        assert_true(ranges.capacity <= 4 * (most + 1) + 4);
        for (uint64_t id = 2000 - 2 * most; id < 2000; id++) /* of the last ones each gap is still one */
            assert_int_equal(id_ranges_contain(&ranges, id), id % 2 == 1 || id < 2000 - 2 * most + 1);
        id_ranges_deinit(&ranges);
    }
}

static void a_range_is_appended_only_behind_a_gap(void **state)
{
    (void)state;
    struct id_ranges ranges = {0};
    assert_false(id_ranges_append(&ranges, (struct id_range){5, 4}));
    assert_true(id_ranges_append(&ranges, (struct id_range){5, 5}));
    assert_false(id_ranges_append(&ranges, (struct id_range){4, 9}));
    assert_false(id_ranges_append(&ranges, (struct id_range){5, 9}));
    assert_false(id_ranges_append(&ranges, (struct id_range){6, 9}));
    assert_true(id_ranges_append(&ranges, (struct id_range){7, UINT64_MAX}));
    assert_false(id_ranges_append(&ranges, (struct id_range){1, 1}));
    struct id_ranges copy;
    id_ranges_copy(&copy, &ranges);
    expect(&copy, "5 7-18446744073709551615");
    id_ranges_check(&copy, 2);
    id_ranges_deinit(&copy);
    id_ranges_deinit(&ranges);
    id_ranges_copy(&copy, &ranges);
    assert_true(copy.count == 0 && copy.items_owned == NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_merge_and_the_lowest_gap_is_filled),
        cmocka_unit_test(ids_that_rise_for_ever_need_no_more_room),
        cmocka_unit_test(a_range_is_appended_only_behind_a_gap),
    };
    return cmocka_run_group_tests_name("core id ranges", tests, NULL, NULL);
}
