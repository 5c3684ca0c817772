#include "server/held_replies.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct fixture {
    struct pending_request_cache pool;
    struct held_replies held;
};

static void fixture_init(struct fixture *fixture)
{
    pending_request_cache_init(&fixture->pool);
    held_replies_init(&fixture->held);
}

static struct pending_request *held_turn(struct fixture *fixture, uint64_t sequence)
{
    struct pending_request *pending = pending_request_take(&fixture->pool, NULL);
    pending->exchange.state = EXCHANGE_FINISHED;
    pending->exchange.hold_sequence = sequence;
    held_replies_add(&fixture->held, pending);
    assert_int_equal(pending->state, PENDING_HELD);
    return pending;
}

static void a_reply_is_released_by_its_frame_and_not_before(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    struct pending_request *first = held_turn(&fixture, 5);
    struct pending_request *second = held_turn(&fixture, 5);
    struct pending_request *third = held_turn(&fixture, 6);
    assert_null(held_replies_take(&fixture.held, 4));
    assert_ptr_equal(held_replies_take(&fixture.held, 5), first);
    assert_int_equal(first->state, PENDING_IN_API);
    assert_ptr_equal(held_replies_take(&fixture.held, 5), second);
    assert_null(held_replies_take(&fixture.held, 5));
    assert_int_equal(fixture.held.count, 1);
    assert_ptr_equal(held_replies_take(&fixture.held, 9), third);
    assert_null(held_replies_take(&fixture.held, 9));
    pending_request_give_back(&fixture.pool, first);
    pending_request_give_back(&fixture.pool, second);
    pending_request_give_back(&fixture.pool, third);
    pending_request_cache_deinit(&fixture.pool);
}

static void a_reply_never_overtakes_the_one_held_before_it(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    struct pending_request *first = held_turn(&fixture, 8);
    struct pending_request *second = held_turn(&fixture, 7);
    assert_null(held_replies_take(&fixture.held, 7));
    assert_ptr_equal(held_replies_take(&fixture.held, 8), first);
    assert_ptr_equal(held_replies_take(&fixture.held, 8), second);
    pending_request_give_back(&fixture.pool, first);
    pending_request_give_back(&fixture.pool, second);
    pending_request_cache_deinit(&fixture.pool);
}

static void a_reply_whose_client_is_gone_is_forgotten(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    struct pending_request *first = held_turn(&fixture, 1);
    struct pending_request *second = held_turn(&fixture, 1);
    held_replies_remove(first);
    pending_request_give_back(&fixture.pool, first);
    assert_ptr_equal(held_replies_take(&fixture.held, 1), second);
    assert_int_equal(fixture.held.count, 0);
    pending_request_give_back(&fixture.pool, second);
    pending_request_cache_deinit(&fixture.pool);
}

static void a_turn_comes_back_from_the_pool_as_new_with_its_memory(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    struct pending_request *pending = held_turn(&fixture, 3);
    buffer_append(&pending->exchange.reply.body, "text", 4);
    pending->exchange.reply.error = ERROR_OVER_LIMIT;
    pending->is_last = pending->is_head = pending->is_http_1_0 = true;
    held_replies_remove(pending);
    pending_request_give_back(&fixture.pool, pending);
    struct pending_request *again = pending_request_take(&fixture.pool, NULL);
    assert_ptr_equal(again, pending);
    assert_int_equal(again->exchange.state, EXCHANGE_NEW);
    assert_int_equal(again->exchange.hold_sequence, 0);
    assert_int_equal(again->exchange.reply.error, OK);
    assert_int_equal(again->exchange.reply.body.size, 0);
    assert_true(again->exchange.reply.body.capacity > 0);
    assert_false(again->is_last || again->is_head || again->is_http_1_0);
    pending_request_give_back(&fixture.pool, again);
    pending_request_cache_deinit(&fixture.pool);
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
