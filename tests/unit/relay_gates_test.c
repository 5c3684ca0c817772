/* Rows that wait: gates by group and by destination, their heads, and random lives of them against a naive model. */
#include "relay/gates.h"

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

static struct way way(uint64_t queue, uint64_t group)
{
    return (struct way){.queue = table_hash_u64(queue), .group = table_hash_u64(1000 + queue * 100 + group)};
}

static void add(struct gates *gates, uint64_t id, struct way to)
{
    struct row_name row = name(id);
    gates_add(gates, &row, &to);
}

static void drop(struct gates *gates, uint64_t id)
{
    struct row_name row = name(id);
    gates_remove(gates, &row);
}

/* Is the row among those that a scan must leave out? Forgets what waits for nothing. */
static bool is_left_out(struct gates *gates, uint64_t id, uint64_t now_ms)
{
    struct row_name names[64];
    size_t count = gates_list(gates, now_ms, names);
    for (size_t i = 0; i < count; i++)
        if (names[i].id == id)
            return true;
    return false;
}

static void head_alone_passes_a_gate_that_is_due(void **state)
{
    (void)state;
    struct gates gates;
    struct way a = way(1, 1), b = way(1, 2);
    gates_init(&gates);
    add(&gates, 10, a);
    gates_close(&gates, a.group, 10)->due_ms = 500;
    add(&gates, 11, a);
    assert_false(gates_admits(&gates, &a, 10, 499));
    assert_true(gates_admits(&gates, &a, 10, 500));
    assert_false(gates_admits(&gates, &a, 11, 500));
    assert_true(gates_admits(&gates, &b, 12, 0)); /* another group of the same queue */
    assert_true(is_left_out(&gates, 11, 500));
    assert_false(is_left_out(&gates, 10, 500));
    drop(&gates, 10); /* delivered: the way is open */
    assert_true(gates_admits(&gates, &a, 11, 500));
    assert_false(is_left_out(&gates, 11, 500));
    assert_int_equal(gates.count, 0); /* and nothing is known of 11 that would have to be remembered */
    gates_deinit(&gates);
}

static void blocked_queue_holds_all_its_groups_and_no_other_queue(void **state)
{
    (void)state;
    struct gates gates;
    struct way a = way(1, 1), b = way(1, 2), other = way(2, 1);
    gates_init(&gates);
    add(&gates, 1, a);
    gates_close(&gates, a.queue, 1)->is_blocked = true;
    gates_close(&gates, a.queue, 1)->due_ms = 100;
    assert_true(gates_have_blocked(&gates));
    assert_false(gates_admits(&gates, &b, 2, 100));
    assert_true(gates_admits(&gates, &a, 1, 100));
    assert_true(gates_admits(&gates, &other, 3, 0));
    gates_open(&gates, a.queue);
    assert_false(gates_have_blocked(&gates));
    assert_true(gates_admits(&gates, &b, 2, 0));
    gates_deinit(&gates);
}

static void what_is_in_doubt_is_remembered_without_a_gate(void **state)
{
    (void)state;
    struct gates gates;
    struct row_name row = name(5), again = {.id = 5, .uid = {.bytes = {9}}};
    struct way to = way(1, 1);
    gates_init(&gates);
    gates_add(&gates, &row, &to)->is_doubted = true;
    assert_false(is_left_out(&gates, 5, 0));
    assert_non_null(gates_find(&gates, &row));
    assert_null(gates_find(&gates, &again)); /* the source has given the id to another row */
    assert_false(gates_add(&gates, &again, &to)->is_doubted);
    assert_null(gates_find(&gates, &row));
    gates_deinit(&gates);
}

static void row_that_vanished_from_the_source_is_noticed(void **state)
{
    (void)state;
    struct gates gates;
    struct way to = way(1, 1);
    struct row_name names[2];
    gates_init(&gates);
    add(&gates, 7, to);
    gates_close(&gates, to.group, 7);
    add(&gates, 8, to);
    assert_int_equal(gates_list(&gates, 0, names), 1);
    assert_null(gates_find_gone(&gates, 6)); /* the scan did not get so far */
    assert_int_equal(gates_find_gone(&gates, 9)->name.id, 7);
    assert_int_equal(gates_find_gone(&gates, 0)->name.id, 7);
    drop(&gates, 7);
    assert_null(gates_find_gone(&gates, 0)); /* 8 was not offered */
    gates_deinit(&gates);
}

enum { ROWS = 40, WAYS = 6 };

struct model {
    bool is_held[ROWS];
    uint64_t head[WAYS]; /* of the gate of a group; 0: open */
};

static struct way way_of_row(uint64_t id)
{
    return way(id % 2, id % WAYS);
}

static void random_lives_agree_with_a_naive_model(void **state)
{
    (void)state;
    struct random random = {7};
    for (unsigned life = 0; life < 200; life++) {
        struct gates gates;
        struct model model = {0};
        gates_init(&gates);
        for (unsigned i = 0; i < 200; i++) {
            uint64_t id = 1 + random_below(&random, ROWS - 1);
            struct way to = way_of_row(id);
            if (random_below(&random, 3) > 0) {
                add(&gates, id, to);
                model.is_held[id] = true;
                gates_close(&gates, to.group, id);
                if (model.head[id % WAYS] == 0)
                    model.head[id % WAYS] = id;
            } else {
                drop(&gates, id);
                if (model.is_held[id] && model.head[id % WAYS] == id)
                    model.head[id % WAYS] = 0;
                model.is_held[id] = false;
            }
            for (uint64_t row = 1; row < ROWS; row++) {
                struct row_name named = name(row);
                struct way its = way_of_row(row);
                uint64_t head = model.head[row % WAYS];
                assert_int_equal(gates_find(&gates, &named) != NULL, model.is_held[row]);
                assert_int_equal(gates_admits(&gates, &its, row, 0), head == 0 || head == row);
            }
        }
        gates_deinit(&gates);
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
