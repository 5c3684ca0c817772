#include "server/hold.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct fixture {
    struct turn_pool pool;
    struct hold hold;
};

static void fixture_init(struct fixture *fixture)
{
    turn_pool_init(&fixture->pool);
    hold_init(&fixture->hold);
}

static struct turn *held_turn(struct fixture *fixture, uint64_t sequence)
{
    struct turn *turn = turn_take(&fixture->pool, NULL);
    turn->exchange.state = EXCHANGE_FINISHED;
    turn->exchange.hold_sequence = sequence;
    hold_add(&fixture->hold, turn);
    assert_int_equal(turn->state, TURN_HELD);
    return turn;
}

static void a_reply_is_released_by_its_frame_and_not_before(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    struct turn *first = held_turn(&fixture, 5);
    struct turn *second = held_turn(&fixture, 5);
    struct turn *third = held_turn(&fixture, 6);
    assert_null(hold_take(&fixture.hold, 4));
    assert_ptr_equal(hold_take(&fixture.hold, 5), first);
    assert_int_equal(first->state, TURN_IN_API);
    assert_ptr_equal(hold_take(&fixture.hold, 5), second);
    assert_null(hold_take(&fixture.hold, 5));
    assert_int_equal(fixture.hold.count, 1);
    assert_ptr_equal(hold_take(&fixture.hold, 9), third);
    assert_null(hold_take(&fixture.hold, 9));
    turn_give_back(&fixture.pool, first);
    turn_give_back(&fixture.pool, second);
    turn_give_back(&fixture.pool, third);
    turn_pool_deinit(&fixture.pool);
}

static void a_reply_never_overtakes_the_one_held_before_it(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    struct turn *first = held_turn(&fixture, 8);
    struct turn *second = held_turn(&fixture, 7);
    assert_null(hold_take(&fixture.hold, 7));
    assert_ptr_equal(hold_take(&fixture.hold, 8), first);
    assert_ptr_equal(hold_take(&fixture.hold, 8), second);
    turn_give_back(&fixture.pool, first);
    turn_give_back(&fixture.pool, second);
    turn_pool_deinit(&fixture.pool);
}

static void a_reply_whose_client_is_gone_is_forgotten(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    struct turn *first = held_turn(&fixture, 1);
    struct turn *second = held_turn(&fixture, 1);
    hold_remove(first);
    turn_give_back(&fixture.pool, first);
    assert_ptr_equal(hold_take(&fixture.hold, 1), second);
    assert_int_equal(fixture.hold.count, 0);
    turn_give_back(&fixture.pool, second);
    turn_pool_deinit(&fixture.pool);
}

static void a_turn_comes_back_from_the_pool_as_new_with_its_memory(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    struct turn *turn = held_turn(&fixture, 3);
    buffer_append(&turn->exchange.reply.body, "text", 4);
    turn->exchange.reply.error = ERROR_OVER_LIMIT;
    turn->is_last = turn->is_head = turn->is_http_1_0 = true;
    hold_remove(turn);
    turn_give_back(&fixture.pool, turn);
    struct turn *again = turn_take(&fixture.pool, NULL);
    assert_ptr_equal(again, turn);
    assert_int_equal(again->exchange.state, EXCHANGE_NEW);
    assert_int_equal(again->exchange.hold_sequence, 0);
    assert_int_equal(again->exchange.reply.error, OK);
    assert_int_equal(again->exchange.reply.body.size, 0);
    assert_true(again->exchange.reply.body.capacity > 0);
    assert_false(again->is_last || again->is_head || again->is_http_1_0);
    turn_give_back(&fixture.pool, again);
    turn_pool_deinit(&fixture.pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_is_released_by_its_frame_and_not_before),
        cmocka_unit_test(a_reply_never_overtakes_the_one_held_before_it),
        cmocka_unit_test(a_reply_whose_client_is_gone_is_forgotten),
        cmocka_unit_test(a_turn_comes_back_from_the_pool_as_new_with_its_memory),
    };
    return cmocka_run_group_tests_name("hold", tests, NULL, NULL);
}
