/* The histogram of waits: where its buckets begin and end, and what is told of them. */
#include "core/pools/waits.h"

#include "base/assert.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define ALL RULES_LEVELS_MAX

static uint32_t bucket_of(uint64_t waited_ms)
{
    struct waits *waits = calloc(1, sizeof(*waits));
    waits_add(waits, 0, waited_ms);
    uint32_t bucket = 0;
    while (waits->counts[0][bucket] == 0)
        bucket++;
    free(waits);
    return bucket;
}

static void each_bucket_ends_where_the_next_begins(void **state)
{
    (void)state;
    for (uint32_t bucket = 0; bucket < WAITS_BUCKETS - 1; bucket++) {
        assert_int_equal(bucket_of(waits_bucket_end_ms(bucket)), bucket);
        assert_int_equal(bucket_of(waits_bucket_end_ms(bucket) + 1), bucket + 1);
    }
    assert_int_equal(bucket_of(UINT64_MAX), WAITS_BUCKETS - 1);
    const uint64_t ends[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 19};
    for (uint32_t bucket = 0; bucket < ARRAY_LENGTH(ends); bucket++)
        assert_int_equal(waits_bucket_end_ms(bucket), ends[bucket]);
}

static void waits_are_counted_by_their_level(void **state)
{
    (void)state;
    struct waits *waits = calloc(1, sizeof(*waits));
    assert_true(waits_count(waits, ALL) == 0 && waits_quantile_ms(waits, ALL, 1) == 0 && waits_max_ms(waits, ALL) == 0);
    const struct {
        uint32_t level;
        uint64_t ms;
    } added[] = {{0, 5}, {0, 16}, {1, 3}, {RULES_LEVELS_MAX - 1, 900}, {RULES_LEVELS_MAX, 7}, {UINT32_MAX, 1}};
    for (unsigned i = 0; i < ARRAY_LENGTH(added); i++)
        waits_add(waits, added[i].level, added[i].ms);
    const struct {
        uint32_t level;
        uint64_t count, max_ms, half_ms, most_ms;
    } told[] = {
        {0, 2, 16, 5, 16}, /* its bucket goes to 17, and nobody waited so long */
        {1, 1, 3, 3, 3},       {2, 0, 0, 0, 0}, {RULES_LEVELS_MAX - 1, 3, 900, 7, 900}, /* and all that are above it */
        {ALL, 6, 900, 5, 900},
    };
    for (unsigned i = 0; i < ARRAY_LENGTH(told); i++) {
        assert_int_equal(waits_count(waits, told[i].level), told[i].count);
        assert_int_equal(waits_max_ms(waits, told[i].level), told[i].max_ms);
        assert_int_equal(waits_quantile_ms(waits, told[i].level, 0.5), told[i].half_ms);
        assert_int_equal(waits_quantile_ms(waits, told[i].level, 1), told[i].most_ms);
    }
    assert_int_equal(waits->sum_ms[0], 21);
    assert_int_equal(waits->sum_ms[RULES_LEVELS_MAX - 1], 908);
    assert_int_equal(waits_quantile_ms(waits, ALL, 0), 1);
    free(waits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_bucket_ends_where_the_next_begins),
        cmocka_unit_test(waits_are_counted_by_their_level),
    };
    return cmocka_run_group_tests_name("core waits", tests, NULL, NULL);
}
