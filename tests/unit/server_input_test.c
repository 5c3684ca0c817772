#include "server/input.h"

#include "base/assert.h"
#include "base/bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void put(struct input *input, struct input_cache *cache, size_t count, size_t wanted, bool is_bounded)
{
    while (count > 0) {
        size_t room;
        uint8_t *at = input_room(input, cache, wanted, is_bounded, &room);
        assert_true(room > 0);
        size_t now = room < count ? room : count;
        for (size_t i = 0; i < now; i++)
            at[i] = (uint8_t)(input->end + i - input->begin);
        input->end += now;
        count -= now;
    }
}

static void assert_content(const struct input *input, size_t size)
{
    assert_int_equal(input_size(input), size);
    for (size_t i = 0; i < size; i++)
        assert_int_equal(input->memory_owned[input->begin + i], (uint8_t)i);
}

static void a_block_is_used_again_by_the_next_connection(void **state)
{
    (void)state;
    struct input_cache cache;
    struct input one = {0}, other = {0};
    input_cache_init(&cache);
    put(&one, &cache, 10, 0, false);
    uint8_t *memory = one.memory_owned;
    input_release(&one, &cache);
    assert_null(one.memory_owned);
    assert_int_equal(cache.memory, 0);
    put(&other, &cache, 10, 0, false);
    assert_ptr_equal(other.memory_owned, memory);
    input_release(&other, &cache);
    input_release(&other, &cache);
    input_cache_deinit(&cache);
}

static void what_is_there_stays_when_it_grows_or_moves(void **state)
{
    (void)state;
    struct input_cache cache;
    struct input input = {0};
    input_cache_init(&cache);
    put(&input, &cache, 3 * INPUT_BLOCK_SIZE + 5, 0, false);
    assert_content(&input, 3 * INPUT_BLOCK_SIZE + 5);
    assert_int_equal(cache.memory, input.capacity - INPUT_BLOCK_SIZE);
    input.begin += 256 * 100; /* keeps the pattern */
    put(&input, &cache, 2 * INPUT_BLOCK_SIZE, 0, false);
    assert_content(&input, 5 * INPUT_BLOCK_SIZE + 5 - 256 * 100);
    input_release(&input, &cache);
    assert_int_equal(cache.memory, 0);
    input_cache_deinit(&cache);
}

static void a_request_that_says_its_size_gets_its_memory_at_once(void **state)
{
    (void)state;
    struct input_cache cache;
    struct input input = {0};
    size_t room;
    input_cache_init(&cache);
    put(&input, &cache, 500, 0, false);
    input_room(&input, &cache, 300000, false, &room);
    assert_int_equal(room, 300000 - 500);
    assert_int_equal(input.capacity, 300001);
    assert_content(&input, 500);
    input_release(&input, &cache);
    input_cache_deinit(&cache);
}

static void memory_is_not_given_for_promises(void **state)
{
    (void)state;
    struct input_cache cache;
    struct input input = {0};
    size_t room;
    input_cache_init(&cache);
    put(&input, &cache, 500, 0, false);
    input_room(&input, &cache, (size_t)1 << 30, false, &room);
    assert_true(input.capacity <= (size_t)1 << 20);
    input_release(&input, &cache);
    input_cache_deinit(&cache);
}

static void behind_a_request_that_waits_there_is_a_block_and_no_more(void **state)
{
    (void)state;
    struct input_cache cache;
    struct input input = {0};
    size_t room;
    input_cache_init(&cache);
    assert_true(input_has_room(&input));
    put(&input, &cache, 100, 0, true);
    while (input_has_room(&input)) {
        input_room(&input, &cache, 50000, true, &room);
        assert_true(room > 0);
        for (size_t i = 0; i < room; i++)
            input.memory_owned[input.end + i] = (uint8_t)(input.end + i);
        input.end += room;
    }
    assert_content(&input, INPUT_BLOCK_SIZE);
    assert_int_equal(cache.memory, 0);
    input_room(&input, &cache, 50000, true, &room);
    assert_int_equal(room, 0);
    input.begin = 256; /* that was begun, so there is room again */
    assert_true(input_has_room(&input));
    input_room(&input, &cache, 50000, true, &room);
    assert_int_equal(room, 256);
    assert_content(&input, INPUT_BLOCK_SIZE - 256);
    input_release(&input, &cache);
    input_cache_deinit(&cache);
}

static void what_stays_takes_no_more_memory_than_it_needs(void **state)
{
    (void)state;
    struct input_cache cache;
    struct input input = {0};
    input_cache_init(&cache);
    put(&input, &cache, 3000, 0, false);
    const uint8_t *block = input.memory_owned;
    input_fit(&input, &cache);
    assert_int_equal(input.capacity, 3000);
    assert_int_equal(cache.free_count, 1);
    assert_true(input_has_room(&input));
    put(&input, &cache, 100, 0, true); /* what comes is read into a block again */
    assert_ptr_equal(input.memory_owned, block);
    put(&input, &cache, 5900, 0, false);
    input_fit(&input, &cache); /* more than half is full */
    assert_ptr_equal(input.memory_owned, block);
    put(&input, &cache, 291000, 300000, false);
    assert_content(&input, 300000);
    input.begin = 256 * 1000;
    input_fit(&input, &cache);
    assert_int_equal(input.capacity, 44000);
    assert_int_equal(cache.memory, 44000 - INPUT_BLOCK_SIZE);
    assert_content(&input, 44000);
    input_release(&input, &cache);
    assert_int_equal(cache.memory, 0);
    input_cache_deinit(&cache);
}

/* Or nobody would hear that the client of a request that is put off has gone. */
static void behind_a_whole_request_there_is_room_when_it_is_put_off(void **state)
{
    (void)state;
    static const size_t sizes[] = {INPUT_BLOCK_SIZE - 1, INPUT_BLOCK_SIZE, INPUT_BLOCK_SIZE + 1, 300000};
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        struct input_cache cache;
        struct input input = {0};
        size_t room;
        input_cache_init(&cache);
        put(&input, &cache, 500, 0, false);
        put(&input, &cache, sizes[i] - 500, sizes[i], false);
        assert_content(&input, sizes[i]);
        assert_non_null(input_room(&input, &cache, sizes[i], true, &room));
        assert_true(room > 0);
        input.end += room; /* that, too, is used up; then it goes on as before */
        put(&input, &cache, 10, 0, false);
        input_release(&input, &cache);
        input_cache_deinit(&cache);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_is_used_again_by_the_next_connection),
        cmocka_unit_test(what_is_there_stays_when_it_grows_or_moves),
        cmocka_unit_test(a_request_that_says_its_size_gets_its_memory_at_once),
        cmocka_unit_test(memory_is_not_given_for_promises),
        cmocka_unit_test(behind_a_request_that_waits_there_is_a_block_and_no_more),
        cmocka_unit_test(what_stays_takes_no_more_memory_than_it_needs),
        cmocka_unit_test(behind_a_whole_request_there_is_room_when_it_is_put_off),
    };
    return cmocka_run_group_tests_name("input", tests, NULL, NULL);
}
