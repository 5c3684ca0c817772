#include "match/ordered.h"

#include "base/assert.h"
#include "random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* What the tree should hold: the same in a sorted array. */
#define MODEL_MAX 3000u

struct model {
    struct ordered ordered;
    struct ordered_key keys[MODEL_MAX];
    uint32_t slots[MODEL_MAX];
    uint32_t count;
    struct random random;
};

static int key_compare(const struct ordered_key *a, const struct ordered_key *b)
{
    if (a->bucket != b->bucket)
        return a->bucket < b->bucket ? -1 : 1;
    if (a->sort_key != b->sort_key)
        return a->sort_key < b->sort_key ? -1 : 1;
    return a->number == b->number ? 0 : a->number < b->number ? -1 : 1;
}

static uint32_t model_lower(const struct model *model, const struct ordered_key *key)
{
    uint32_t index = 0;
    while (index < model->count && key_compare(&model->keys[index], key) < 0)
        index++;
    return index;
}

static void expect_cursor(const struct model *model, struct ordered_cursor cursor, uint32_t index)
{
    if (index >= model->count) {
        assert_null(cursor.leaf);
        return;
    }
    assert_non_null(cursor.leaf);
    assert_int_equal(key_compare(ordered_key(cursor), &model->keys[index]), 0);
    assert_int_equal(ordered_slot(cursor), model->slots[index]);
}

/* Inserts the key if it is not there, and removes it if it is and `removes`. */
static void model_step(struct model *model, const struct ordered_key *key, bool removes)
{
    uint32_t index = model_lower(model, key);
    bool is_there = index < model->count && key_compare(&model->keys[index], key) == 0;
    uint32_t behind = model->count - index;
    if (is_there && removes) {
        memmove(&model->keys[index], &model->keys[index + 1], (behind - 1) * sizeof(model->keys[0]));
        memmove(&model->slots[index], &model->slots[index + 1], (behind - 1) * sizeof(model->slots[0]));
        model->count--;
        ordered_remove(&model->ordered, key);
    } else if (!is_there && model->count < MODEL_MAX) {
        memmove(&model->keys[index + 1], &model->keys[index], behind * sizeof(model->keys[0]));
        memmove(&model->slots[index + 1], &model->slots[index], behind * sizeof(model->slots[0]));
        model->keys[index] = *key;
        model->slots[index] = 1 + (uint32_t)random_below(&model->random, 1u << 30);
        model->count++;
        ordered_insert(&model->ordered, key, model->slots[index]);
    }
}

static struct ordered_key random_key(struct random *random)
{
    return (struct ordered_key){
        .bucket = random_below(random, 4) == 0 ? UINT64_MAX - random_below(random, 2) : random_below(random, 3),
        .sort_key = random_below(random, 40),
        .number = random_below(random, 60),
    };
}

/* Both seeks, and a step in both directions from each. */
static void expect_seeks(const struct model *model, const struct ordered_key *key)
{
    uint32_t index = model_lower(model, key);
    struct ordered_cursor at = ordered_seek(&model->ordered, key);
    struct ordered_cursor below = ordered_seek_below(&model->ordered, key);
    expect_cursor(model, at, index);
    expect_cursor(model, below, index == 0 ? MODEL_MAX : index - 1);
    if (at.leaf != NULL) {
        expect_cursor(model, ordered_next(at), index + 1);
        expect_cursor(model, ordered_previous(at), index == 0 ? MODEL_MAX : index - 1);
    }
    if (below.leaf != NULL)
        expect_cursor(model, ordered_next(below), index);
}

static void it_agrees_with_a_sorted_array_while_it_grows_and_shrinks(void **state)
{
    (void)state;
    struct model *model = calloc(1, sizeof(*model));
    model->random.state = 7;
    ordered_init(&model->ordered);
    for (unsigned step = 0; step < 24000; step++) {
        /* Phases of growing and of shrinking, down to nothing. */
        bool removes = step / 4000 % 2 == 1;
        struct ordered_key key = random_key(&model->random);
        if (removes && model->count > 0 && random_below(&model->random, 4) != 0)
            key = model->keys[random_below(&model->random, model->count)];
        model_step(model, &key, removes || random_below(&model->random, 8) == 0);
        key = random_key(&model->random);
        expect_seeks(model, &key);
        if (step % 8 == 0)
            ordered_check(&model->ordered);
    }
    while (model->count > 0) {
        struct ordered_key key = model->keys[random_below(&model->random, model->count)];
        model_step(model, &key, true);
        ordered_check(&model->ordered);
    }
    assert_null(model->ordered.root_owned);
    ordered_deinit(&model->ordered);
    free(model);
}

static void a_walk_meets_every_entry_in_both_directions(void **state)
{
    (void)state;
    struct model *model = calloc(1, sizeof(*model));
    model->random.state = 8;
    ordered_init(&model->ordered);
    while (model->count < 2000) {
        struct ordered_key key = random_key(&model->random);
        model_step(model, &key, false);
    }
    struct ordered_cursor cursor = ordered_seek(&model->ordered, &(struct ordered_key){0});
    for (uint32_t i = 0; i < model->count; i++, cursor = ordered_next(cursor))
        expect_cursor(model, cursor, i);
    assert_null(cursor.leaf);
    cursor = ordered_seek_below(&model->ordered, &(struct ordered_key){UINT64_MAX, UINT64_MAX, UINT64_MAX});
    for (uint32_t i = model->count; i-- > 0; cursor = ordered_previous(cursor))
        expect_cursor(model, cursor, i);
    assert_null(cursor.leaf);
    ordered_deinit(&model->ordered);
    free(model);
}

static void an_empty_set_has_no_first_and_no_last(void **state)
{
    (void)state;
    struct ordered ordered;
    ordered_init(&ordered);
    struct ordered_key key = {.bucket = 1};
    assert_null(ordered_seek(&ordered, &key).leaf);
    assert_null(ordered_seek_below(&ordered, &key).leaf);
    ordered_insert(&ordered, &key, 5);
    ordered_remove(&ordered, &key);
    assert_null(ordered_seek(&ordered, &key).leaf);
    ordered_check(&ordered);
    ordered_deinit(&ordered);
}

static void places_are_in_the_order_of_their_numbers(void **state)
{
    (void)state;
    static const double numbers[] = {-INFINITY, -1e308, -2, -1.5, -1, -1e-308, -5e-324, 0,
                                     5e-324,    1e-308, 1,  1.5,  2,  1e308,   INFINITY};
    for (size_t i = 0; i < ARRAY_LENGTH(numbers); i++) {
        assert_true(ordered_number(ordered_sort_key(numbers[i])) == numbers[i]);
        for (size_t j = 0; j < i; j++)
            assert_true(ordered_sort_key(numbers[j]) < ordered_sort_key(numbers[i]));
    }
    assert_true(ordered_sort_key(-0.0) == ordered_sort_key(0.0));
}

static double seconds_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static struct ordered_key spread_key(uint64_t index)
{
    struct random random = {.state = index};
    uint64_t mixed = random_u64(&random);
    return (struct ordered_key){.bucket = mixed % 8, .sort_key = mixed, .number = index};
}

/* What an insert, a seek and a removal cost, printed when TALLY_MEASURE is set. */
static void it_is_measured(void **state)
{
    (void)state;
    bool measures = getenv("TALLY_MEASURE") != NULL;
    for (uint64_t size = 1000; size <= (measures ? 1000000 : 10000); size *= 10) {
        struct ordered ordered;
        ordered_init(&ordered);
        for (uint64_t i = 0; i < size; i++) {
            struct ordered_key key = spread_key(i);
            ordered_insert(&ordered, &key, (uint32_t)i + 1);
        }
        const uint64_t rounds = 100000;
        double times[4] = {seconds_now()};
        for (uint64_t i = 0; i < rounds; i++) {
            struct ordered_key key = spread_key(size + i);
            ordered_insert(&ordered, &key, 1);
            if (i >= 100) { /* a hundred newcomers at a time, so that the size stays */
                key = spread_key(size + i - 100);
                ordered_remove(&ordered, &key);
            }
        }
        times[1] = seconds_now();
        uint64_t sum = 0;
        for (uint64_t i = 0; i < rounds; i++) {
            struct ordered_key key = spread_key(i * 7919 % size);
            sum += ordered_slot(ordered_seek(&ordered, &key));
        }
        times[2] = seconds_now();
        assert_true(sum > 0);
        if (measures)
            print_message("%8llu entries: insert and remove %.0f ns, seek %.0f ns\n", (unsigned long long)size,
                          (times[1] - times[0]) * 1e9 / (double)rounds, (times[2] - times[1]) * 1e9 / (double)rounds);
        ordered_check(&ordered);
        ordered_deinit(&ordered);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_agrees_with_a_sorted_array_while_it_grows_and_shrinks),
        cmocka_unit_test(a_walk_meets_every_entry_in_both_directions),
        cmocka_unit_test(an_empty_set_has_no_first_and_no_last),
        cmocka_unit_test(places_are_in_the_order_of_their_numbers),
        cmocka_unit_test(it_is_measured),
    };
    return cmocka_run_group_tests_name("ordered", tests, NULL, NULL);
}
