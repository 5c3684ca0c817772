/* Ids that are gone: ranges that grow together, the floor that goes up over them, and random lives of them against a
 * naive model. */
#include "relay/tombstones.h"

#include "random.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void add(struct tombstones *tombstones, uint64_t first, uint64_t last)
{
    tombstones_add(tombstones, (struct id_range){first, last});
}

static struct tombstones *make(void)
{
    struct tombstones *tombstones = malloc(sizeof(*tombstones));
    assert_non_null(tombstones);
    tombstones_clear(tombstones);
    return tombstones;
}

static void neighbours_become_one_range_and_an_id_that_is_missing_stays_between_two(void **state)
{
    (void)state;
    struct tombstones *tombstones = make();
    add(tombstones, 11, 20);
    add(tombstones, 22, 30);
    assert_int_equal(tombstones->count, 2);
    assert_int_equal(tombstones_count_in(tombstones, (struct id_range){21, 21}), 0);
    assert_int_equal(tombstones_count_in(tombstones, (struct id_range){20, 22}), 2);
    add(tombstones, 21, 21);
    assert_int_equal(tombstones->count, 1);
    assert_int_equal(tombstones->id_count, 20);
    add(tombstones, 5, 40);
    assert_int_equal(tombstones->count, 1);
    assert_int_equal(tombstones->ranges[0].first, 5);
    assert_int_equal(tombstones->ranges[0].last, 40);
    free(tombstones);
}

static void the_floor_goes_up_over_what_stands_right_above_it_and_no_further(void **state)
{
    (void)state;
    struct tombstones *tombstones = make();
    add(tombstones, 6, 9);
    add(tombstones, 11, 20);
    assert_int_equal(tombstones_raise(tombstones, 4), 4); /* 5 may still come */
    assert_int_equal(tombstones_raise(tombstones, 5), 9);
    assert_int_equal(tombstones->count, 1);
    assert_int_equal(tombstones_raise(tombstones, 15), 20); /* a floor from elsewhere, in the middle of a range */
    assert_int_equal(tombstones->id_count, 0);
    free(tombstones);
}

static void of_too_many_ranges_the_smallest_is_forgotten_and_never_what_is_missing(void **state)
{
    (void)state;
    struct tombstones *tombstones = make();
    for (uint64_t n = 0; n < 6001; n++) /* each thousandth id is missing, and of some ranges more */
        add(tombstones, n * 1000 + 1, n * 1000 + (n % 7 == 0 ? 10 : 999));
    assert_int_equal(tombstones->count, TOMBSTONES_RANGES_MAX);
    for (uint64_t n = 0; n < 6001; n++)
        assert_int_equal(tombstones_count_in(tombstones, (struct id_range){n * 1000, n * 1000}), 0);
    assert_true(tombstones->id_count > 990 * (uint64_t)TOMBSTONES_RANGES_MAX); /* the small ones went first */
    assert_int_equal(tombstones->ranges[tombstones->count - 1].last, 6000 * 1000 + 999);
    free(tombstones);
}

#define MODEL_IDS 400u

static void check_against(const struct tombstones *tombstones, const bool *is_gone, uint64_t floor)
{
    uint64_t count = 0;
    for (uint64_t id = floor + 1; id < MODEL_IDS; id++) {
        assert_int_equal(tombstones_count_in(tombstones, (struct id_range){id, id}), is_gone[id]);
        count += is_gone[id];
    }
    assert_int_equal(tombstones->id_count, count);
    for (size_t i = 1; i < tombstones->count; i++)
        assert_true(tombstones->ranges[i].first > tombstones->ranges[i - 1].last + 1);
}

static void random_ids_are_gone_as_in_a_naive_model(void **state)
{
    (void)state;
    struct tombstones *tombstones = make();
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct random random = {seed};
        bool is_gone[MODEL_IDS] = {false};
        uint64_t floor = 0;
        tombstones_clear(tombstones);
        for (int step = 0; step < 60; step++) {
            uint64_t first = floor + 1 + random_below(&random, (uint32_t)(MODEL_IDS - floor - 1));
            if (first + 10 >= MODEL_IDS)
                break;
            uint64_t last = first + random_below(&random, 8);
            add(tombstones, first, last);
            memset(&is_gone[first], true, last - first + 1);
            uint64_t raised = tombstones_raise(tombstones, floor + random_below(&random, 2) * random_below(&random, 6));
            while (raised + 1 < MODEL_IDS && is_gone[raised + 1])
                fail_msg("seed %llu: %llu is gone, too", (unsigned long long)seed, (unsigned long long)raised + 1);
            floor = raised;
            check_against(tombstones, is_gone, floor);
        }
    }
    free(tombstones);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_become_one_range_and_an_id_that_is_missing_stays_between_two),
        cmocka_unit_test(the_floor_goes_up_over_what_stands_right_above_it_and_no_further),
        cmocka_unit_test(of_too_many_ranges_the_smallest_is_forgotten_and_never_what_is_missing),
        cmocka_unit_test(random_ids_are_gone_as_in_a_naive_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
