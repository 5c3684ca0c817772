#include "base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>

#define SIZE (8 * MEMORY_HUGE_PAGE_SIZE)
#define STEP 100000u
#define PAGE_SIZE_MIN 4096u

/* Small pages of the block, beginning at a multiple of MEMORY_HUGE_PAGE_SIZE, that have memory. */
static size_t count_present(uint8_t *begin, size_t size)
{
    unsigned char present[SIZE / PAGE_SIZE_MIN] = {0};
    assert_int_equal(mincore(begin, size, present), 0);
    size_t count = 0;
    for (size_t i = 0; i < size / PAGE_SIZE_MIN; i++)
        count += present[i] & 1;
    return count;
}

static void what_is_given_back_has_no_memory_and_the_rest_stays_as_it_is(void **state)
{
    (void)state;
    uint8_t *block = memory_allocate(SIZE + 16);
    memset(block, 0xa5, SIZE + 16);
    uint8_t *begin = block + 16, *end = block + SIZE + 16;
    for (uint8_t *read = begin; read + STEP <= end; read += STEP) {
        uint8_t *before = begin;
        begin = memory_give_back(begin, read);
        assert_true(begin >= before && begin <= read);
        assert_true(before == begin || (uintptr_t)begin % MEMORY_HUGE_PAGE_SIZE == 0);
        assert_true(read - begin < (ptrdiff_t)(2 * MEMORY_HUGE_PAGE_SIZE));
        for (uint8_t *at = begin; at < end; at += STEP)
            assert_int_equal(*at, 0xa5);
    }
    uint8_t *given = block + 16 + (-(uintptr_t)(block + 16) % MEMORY_HUGE_PAGE_SIZE);
    assert_true(begin >= given + 6 * MEMORY_HUGE_PAGE_SIZE);
    assert_int_equal(count_present(given, (size_t)(begin - given)), 0);
    assert_int_equal(block[0], 0xa5);
    for (uint8_t *at = block; at < given; at += STEP)
        assert_int_equal(*at, 0xa5);
    free(block);
}

static void less_than_a_huge_page_is_not_given_back(void **state)
{
    (void)state;
    uint8_t *block = memory_allocate_huge(2 * MEMORY_HUGE_PAGE_SIZE);
    memset(block, 0xa5, 2 * MEMORY_HUGE_PAGE_SIZE);
    uint8_t *end = block + 2 * MEMORY_HUGE_PAGE_SIZE;
    assert_ptr_equal(memory_give_back(block, block), block);
    assert_ptr_equal(memory_give_back(block, block + MEMORY_HUGE_PAGE_SIZE - 1), block);
    assert_ptr_equal(memory_give_back(block + 1, end - 1), block + 1);
    for (uint8_t *at = block; at < end; at++)
        assert_int_equal(*at, 0xa5);
    assert_ptr_equal(memory_give_back(block + 1, end), end);
    assert_int_equal(block[0], 0xa5);
    assert_int_equal(block[MEMORY_HUGE_PAGE_SIZE - 1], 0xa5);
    free(block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_given_back_has_no_memory_and_the_rest_stays_as_it_is),
        cmocka_unit_test(less_than_a_huge_page_is_not_given_back),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
