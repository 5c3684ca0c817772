#include "platform/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Eight bytes are the same twice once in 2^64 times. */
static void all_of_the_bytes_are_filled_and_no_more(void **state)
{
    (void)state;
    uint8_t one[RANDOM_SIZE_MAX + 1] = {0}, other[RANDOM_SIZE_MAX + 1] = {0};
    random_fill(one, RANDOM_SIZE_MAX);
    random_fill(other, RANDOM_SIZE_MAX);
    for (size_t piece = 0; piece < RANDOM_SIZE_MAX; piece += 8)
        assert_memory_not_equal(one + piece, other + piece, 8);
    assert_int_equal(one[RANDOM_SIZE_MAX], 0);
    assert_int_equal(other[RANDOM_SIZE_MAX], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_the_bytes_are_filled_and_no_more),
    };
    return cmocka_run_group_tests_name("random", tests, NULL, NULL);
}
