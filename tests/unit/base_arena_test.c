#include "base/arena.h"
#include "base/assert.h"

#include "random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static size_t arena_block_count(const struct arena *arena)
{
    /* The block is private to the arena; its first member is the next block. */
    size_t count = 0;
    for (const void *block = arena->blocks_owned; block != NULL; memcpy(&block, block, sizeof(block)))
        count++;
    return count;
}

static void allocations_are_aligned_and_do_not_overlap(void **state)
{
    (void)state;
    struct random random = {.state = 21};
    struct arena arena;
    arena_init(&arena);
    for (int round = 0; round < 5; round++) {
        struct {
            uint8_t *at;
            size_t size;
        } pieces[400];
        for (size_t i = 0; i < ARRAY_LENGTH(pieces); i++) {
            pieces[i].size = random_below(&random, i % 10 == 0 ? 40000 : 200);
            pieces[i].at = arena_allocate(&arena, pieces[i].size);
            assert_int_equal((uintptr_t)pieces[i].at % 16, 0);
            memset(pieces[i].at, (int)i & 0xff, pieces[i].size);
        }
        for (size_t i = 0; i < ARRAY_LENGTH(pieces); i++)
            for (size_t j = 0; j < pieces[i].size; j++)
                assert_int_equal(pieces[i].at[j], i & 0xff);
        arena_reset(&arena);
    }
    arena_deinit(&arena);
}

static void reset_keeps_one_ordinary_block_and_uses_it_again(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    assert_int_equal(arena_block_count(&arena), 0);
    void *first = arena_allocate(&arena, 10);
    for (int i = 0; i < 100; i++)
        arena_allocate(&arena, 1000);
    arena_allocate(&arena, 1000000);
    assert_true(arena_block_count(&arena) > 5);
    arena_reset(&arena);
    assert_int_equal(arena_block_count(&arena), 1);
    void *again = arena_allocate(&arena, 10);
    arena_reset(&arena);
    assert_ptr_equal(arena_allocate(&arena, 10), again);
    assert_int_equal(arena_block_count(&arena), 1);
    assert_non_null(first);
    arena_deinit(&arena);
}

static void reset_keeps_no_large_block(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    arena_allocate(&arena, 1000000);
    arena_reset(&arena);
    assert_int_equal(arena_block_count(&arena), 0);
    arena_reset(&arena);
    assert_non_null(arena_allocate(&arena, 1));
    arena_deinit(&arena);
}

static void a_large_allocation_leaves_the_current_block_in_use(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    char *before = arena_allocate(&arena, 16);
    arena_allocate(&arena, 100000);
    char *after = arena_allocate(&arena, 16);
    assert_ptr_equal(after, before + 16);
    arena_deinit(&arena);
}

static void arenas_that_share_a_stock_hold_nothing_when_they_are_empty(void **state)
{
    (void)state;
    struct arena_stock stock;
    struct arena one, other;
    arena_stock_init(&stock);
    arena_init(&one);
    arena_init(&other);
    arena_share(&one, &stock);
    arena_share(&other, &stock);
    void *first = arena_allocate(&one, 15000); /* as much as fits into a block; it is no block of its own */
    arena_allocate(&one, 100000);
    arena_reset(&one);
    assert_int_equal(arena_size(&one), 0);
    assert_int_equal(stock.count, 1);
    assert_ptr_equal(arena_allocate(&other, 10), first);
    assert_int_equal(stock.count, 0);
    arena_deinit(&other);
    arena_deinit(&one);
    arena_stock_deinit(&stock);
}

static void a_stock_keeps_so_many_blocks_and_no_more(void **state)
{
    (void)state;
    static struct arena arenas[100];
    struct arena_stock stock;
    arena_stock_init(&stock);
    for (size_t i = 0; i < ARRAY_LENGTH(arenas); i++) {
        arena_init(&arenas[i]);
        arena_share(&arenas[i], &stock);
        arena_allocate(&arenas[i], 1);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(arenas); i++)
        arena_reset(&arenas[i]);
    assert_int_equal(stock.count, ARENA_STOCK_MAX);
    arena_stock_deinit(&stock);
}

static void allocations_of_no_bytes_are_distinct(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    void *first = arena_allocate(&arena, 0);
    assert_ptr_not_equal(first, arena_allocate(&arena, 0));
    assert_int_equal(arena_copy(&arena, bytes_make(NULL, 0)).size, 0);
    arena_deinit(&arena);
}

static void copies_and_formatted_text_live_in_the_arena(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    char source[] = "orders";
    struct bytes copy = arena_copy(&arena, bytes_from_string(source));
    source[0] = 'x';
    assert_true(bytes_equal(copy, BYTES("orders")));
    struct bytes text = arena_format(&arena, "%.*s has %d", BYTES_FORMAT(copy), 12);
    assert_true(bytes_equal(text, BYTES("orders has 12")));
    struct bytes wide = arena_format(&arena, "%30000d", 5);
    assert_int_equal(wide.size, 30000);
    assert_int_equal(wide.ptr[29999], '5');
    assert_int_equal(arena_format(&arena, "%s", "").size, 0);
    arena_deinit(&arena);
}

static void what_grows_keeps_its_content_and_takes_its_memory_once(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    struct bytes small = arena_copy(&arena, BYTES("beside it"));
    size_t size = 20000;
    uint8_t *growing = arena_allocate(&arena, size);
    memset(growing, 7, size);
    size_t before = arena_size(&arena);
    while (size < 1000000) {
        growing = arena_resize(&arena, growing, size, size * 2);
        memset(growing + size, 7, size);
        size *= 2;
    }
    for (size_t i = 0; i < size; i++)
        assert_int_equal(growing[i], 7);
    assert_int_equal(arena_size(&arena), before + size - 20000);
    assert_true(bytes_equal(small, BYTES("beside it")));
    assert_true(bytes_equal(arena_copy(&arena, BYTES("and then")), BYTES("and then")));
    arena_deinit(&arena);
}

static void what_can_not_grow_in_place_is_copied(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    uint8_t *small = arena_allocate(&arena, 16); /* in a block with others */
    memcpy(small, "0123456789abcdef", 16);
    uint8_t *first = arena_allocate(&arena, 30000); /* not the last any more */
    memset(first, 1, 30000);
    uint8_t *second = arena_allocate(&arena, 30000);
    uint8_t *third = arena_allocate(&arena, 30000);
    memset(second, 2, 30000);
    memset(third, 3, 30000);
    assert_memory_equal(arena_resize(&arena, small, 16, 40000), "0123456789abcdef", 16);
    uint8_t *moved = arena_resize(&arena, first, 30000, 50000);
    assert_int_equal(moved[0] + moved[29999], 2);
    assert_memory_equal(arena_resize(&arena, moved, 50000, 4), "\1\1\1\1", 4);
    assert_int_equal(second[29999] + third[29999], 5);
    arena_deinit(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_are_aligned_and_do_not_overlap),
        cmocka_unit_test(reset_keeps_one_ordinary_block_and_uses_it_again),
        cmocka_unit_test(reset_keeps_no_large_block),
        cmocka_unit_test(a_large_allocation_leaves_the_current_block_in_use),
        cmocka_unit_test(arenas_that_share_a_stock_hold_nothing_when_they_are_empty),
        cmocka_unit_test(a_stock_keeps_so_many_blocks_and_no_more),
        cmocka_unit_test(allocations_of_no_bytes_are_distinct),
        cmocka_unit_test(copies_and_formatted_text_live_in_the_arena),
        cmocka_unit_test(what_grows_keeps_its_content_and_takes_its_memory_once),
        cmocka_unit_test(what_can_not_grow_in_place_is_copied),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
