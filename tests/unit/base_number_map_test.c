#include "base/number_map.h"
#include "support/scale.h"

#include "base/assert.h"
#include "random.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void an_empty_map_finds_nothing(void **state)
{
    (void)state;
    struct number_map map;
    number_map_init(&map);
    assert_int_equal(number_map_find(&map, 0), 0);
    assert_int_equal(number_map_find(&map, UINT64_MAX), 0);
    number_map_check(&map);
    number_map_deinit(&map);
}

static void neighbours_of_a_number_that_is_there_are_not(void **state)
{
    (void)state;
    struct number_map map;
    number_map_init(&map);
    number_map_insert(&map, 1000, 7);
    number_map_insert(&map, UINT64_MAX, 8);
    assert_int_equal(number_map_find(&map, 1000), 7);
    assert_int_equal(number_map_find(&map, UINT64_MAX), 8);
    for (uint64_t number = 960; number < 1040; number++)
        assert_int_equal(number_map_find(&map, number), number == 1000 ? 7 : 0);
    number_map_check(&map);
    number_map_deinit(&map);
}

static void it_agrees_with_an_array_whatever_is_put_in_and_taken_out(void **state)
{
    (void)state;
    enum { COUNT = 4096 };
    static uint32_t slots[COUNT];
    for (uint64_t seed = 1; seed <= scaled(20); seed++) {
        memset(slots, 0, sizeof(slots));
        struct random random = {.state = seed};
        const uint64_t base = random_u64(&random) >> 1;
        struct number_map map;
        number_map_init(&map);
        for (uint32_t step = 1; step <= 20000; step++) {
            const uint32_t at = random_below(&random, COUNT);
            assert_int_equal(number_map_find(&map, base + at), slots[at]);
            if (slots[at] != 0)
                number_map_remove(&map, base + at);
            else
                number_map_insert(&map, base + at, step);
            slots[at] = slots[at] != 0 ? 0 : step;
        }
        number_map_check(&map);
        for (uint32_t at = 0; at < COUNT; at++)
            assert_int_equal(number_map_find(&map, base + at), slots[at]);
        number_map_deinit(&map);
    }
}

static void many_are_found_at_once_as_one_by_one(void **state)
{
    (void)state;
    enum { COUNT = 3000 };
    struct number_map map;
    number_map_init(&map);
    uint64_t numbers[COUNT];
    uint32_t slots[COUNT];
    struct random random = {.state = 5};
    for (size_t i = 0; i < COUNT; i++)
        numbers[i] = random_below(&random, 100000);
    number_map_find_many(&map, numbers, slots, COUNT); /* of a map that has nothing yet */
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(slots[i], 0);
    for (uint32_t number = 0; number < 100000; number += 1 + random_below(&random, 40))
        number_map_insert(&map, number, number + 1);
    number_map_find_many(&map, numbers, slots, COUNT);
    uint32_t found = 0;
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(slots[i], number_map_find(&map, numbers[i]));
        found += slots[i] != 0;
    }
    assert_in_range(found, 1, COUNT - 1);
    number_map_deinit(&map);
}

static void memory_stays_as_it_is_while_numbers_come_and_go(void **state)
{
    (void)state;
    struct number_map map;
    number_map_init(&map);
    for (uint64_t number = 1; number <= scaled(1000000); number++) {
        number_map_insert(&map, number, 1);
        if (number > 100)
            number_map_remove(&map, number - 100);
    }
    assert_int_equal(map.count, 100);
    assert_in_range(map.leaves.slot_end, 7, 12);
    number_map_check(&map);
    number_map_deinit(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_map_finds_nothing),
        cmocka_unit_test(neighbours_of_a_number_that_is_there_are_not),
        cmocka_unit_test(it_agrees_with_an_array_whatever_is_put_in_and_taken_out),
        cmocka_unit_test(many_are_found_at_once_as_one_by_one),
        cmocka_unit_test(memory_stays_as_it_is_while_numbers_come_and_go),
    };
    return cmocka_run_group_tests_name("base_number_map", tests, NULL, NULL);
}
