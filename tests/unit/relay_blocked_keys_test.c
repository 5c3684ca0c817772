/* Rows that wait: blocked keys by group and by destination, their heads, and random lives of them against a naive
 * model. */
#include "relay/blocked_keys.h"

#include "random.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static struct row_name name(uint64_t id)
{
    return (struct row_name){.id = id, .uid = {.bytes = {(uint8_t)id, (uint8_t)(id >> 8), 1}}};
}

static struct row_keys way(uint64_t queue, uint64_t group)
{
    return (struct row_keys){.queue = table_hash_u64(queue), .group = table_hash_u64(1000 + queue * 100 + group)};
}

static void add(struct blocked_keys *keys, uint64_t id, struct row_keys to)
{
    struct row_name row = name(id);
    blocked_keys_add(keys, &row, &to);
}

static void drop(struct blocked_keys *keys, uint64_t id)
{
    struct row_name row = name(id);
    blocked_keys_remove(keys, &row);
}

/* Is the row among those that a scan must leave out? Forgets what waits for nothing. */
static bool is_left_out(struct blocked_keys *keys, uint64_t id, uint64_t now_ms)
{
    struct row_name names[64];
    size_t count = blocked_keys_list(keys, now_ms, names);
    for (size_t i = 0; i < count; i++)
        if (names[i].id == id)
            return true;
    return false;
}

static void head_alone_passes_a_gate_that_is_due(void **state)
{
    (void)state;
    struct blocked_keys keys;
    struct row_keys a = way(1, 1), b = way(1, 2);
    blocked_keys_init(&keys);
    add(&keys, 10, a);
    blocked_keys_close(&keys, a.group, 10)->due_ms = 500;
    add(&keys, 11, a);
    assert_false(blocked_keys_admits(&keys, &a, 10, 499));
    assert_true(blocked_keys_admits(&keys, &a, 10, 500));
    assert_false(blocked_keys_admits(&keys, &a, 11, 500));
    assert_true(blocked_keys_admits(&keys, &b, 12, 0)); /* another group of the same queue */
    assert_true(is_left_out(&keys, 11, 500));
    assert_false(is_left_out(&keys, 10, 500));
    drop(&keys, 10); /* delivered: the way is open */
    assert_true(blocked_keys_admits(&keys, &a, 11, 500));
    assert_false(is_left_out(&keys, 11, 500));
    assert_int_equal(keys.count, 0); /* and nothing is known of 11 that would have to be remembered */
    blocked_keys_deinit(&keys);
}

static void blocked_queue_holds_all_its_groups_and_no_other_queue(void **state)
{
    (void)state;
    struct blocked_keys keys;
    struct row_keys a = way(1, 1), b = way(1, 2), other = way(2, 1);
    blocked_keys_init(&keys);
    add(&keys, 1, a);
    blocked_keys_close(&keys, a.queue, 1)->is_blocked = true;
    blocked_keys_close(&keys, a.queue, 1)->due_ms = 100;
    assert_true(blocked_keys_have_blocked(&keys));
    assert_false(blocked_keys_admits(&keys, &b, 2, 100));
    assert_true(blocked_keys_admits(&keys, &a, 1, 100));
    assert_true(blocked_keys_admits(&keys, &other, 3, 0));
    blocked_keys_open(&keys, a.queue);
    assert_false(blocked_keys_have_blocked(&keys));
    assert_true(blocked_keys_admits(&keys, &b, 2, 0));
    blocked_keys_deinit(&keys);
}

static void what_is_in_doubt_is_remembered_without_a_gate(void **state)
{
    (void)state;
    struct blocked_keys keys;
    struct row_name row = name(5), again = {.id = 5, .uid = {.bytes = {9}}};
    struct row_keys to = way(1, 1);
    blocked_keys_init(&keys);
    blocked_keys_add(&keys, &row, &to)->is_doubted = true;
    assert_false(is_left_out(&keys, 5, 0));
    assert_non_null(blocked_keys_find(&keys, &row));
    assert_null(blocked_keys_find(&keys, &again)); /* the source has given the id to another row */
    assert_false(blocked_keys_add(&keys, &again, &to)->is_doubted);
    assert_null(blocked_keys_find(&keys, &row));
    blocked_keys_deinit(&keys);
}

static void row_that_vanished_from_the_source_is_noticed(void **state)
{
    (void)state;
    struct blocked_keys keys;
    struct row_keys to = way(1, 1);
    struct row_name names[2];
    blocked_keys_init(&keys);
    add(&keys, 7, to);
    blocked_keys_close(&keys, to.group, 7);
    add(&keys, 8, to);
    assert_int_equal(blocked_keys_list(&keys, 0, names), 1);
    assert_null(blocked_keys_find_deleted(&keys, 6)); /* the scan did not get so far */
    assert_int_equal(blocked_keys_find_deleted(&keys, 9)->name.id, 7);
    assert_int_equal(blocked_keys_find_deleted(&keys, 0)->name.id, 7);
    drop(&keys, 7);
    assert_null(blocked_keys_find_deleted(&keys, 0)); /* 8 was not offered */
    blocked_keys_deinit(&keys);
}

enum { ROWS = 40, WAYS = 6 };

struct model {
    bool is_held[ROWS];
    uint64_t head[WAYS]; /* of the gate of a group; 0: open */
};

static struct row_keys way_of_row(uint64_t id)
{
    return way(id % 2, id % WAYS);
}

static void random_lives_agree_with_a_naive_model(void **state)
{
    (void)state;
    struct random random = {7};
    for (unsigned life = 0; life < 200; life++) {
        struct blocked_keys keys;
        struct model model = {0};
        blocked_keys_init(&keys);
        for (unsigned i = 0; i < 200; i++) {
            uint64_t id = 1 + random_below(&random, ROWS - 1);
            struct row_keys to = way_of_row(id);
            if (random_below(&random, 3) > 0) {
                add(&keys, id, to);
                model.is_held[id] = true;
                blocked_keys_close(&keys, to.group, id);
                if (model.head[id % WAYS] == 0)
                    model.head[id % WAYS] = id;
            } else {
                drop(&keys, id);
                if (model.is_held[id] && model.head[id % WAYS] == id)
                    model.head[id % WAYS] = 0;
                model.is_held[id] = false;
            }
            for (uint64_t row = 1; row < ROWS; row++) {
                struct row_name named = name(row);
                struct row_keys its = way_of_row(row);
                uint64_t head = model.head[row % WAYS];
                assert_int_equal(blocked_keys_find(&keys, &named) != NULL, model.is_held[row]);
                assert_int_equal(blocked_keys_admits(&keys, &its, row, 0), head == 0 || head == row);
            }
        }
        blocked_keys_deinit(&keys);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(head_alone_passes_a_gate_that_is_due),
        cmocka_unit_test(blocked_queue_holds_all_its_groups_and_no_other_queue),
        cmocka_unit_test(what_is_in_doubt_is_remembered_without_a_gate),
        cmocka_unit_test(row_that_vanished_from_the_source_is_noticed),
        cmocka_unit_test(random_lives_agree_with_a_naive_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
