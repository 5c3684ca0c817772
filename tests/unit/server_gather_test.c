#include "server/gather.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define US UINT64_C(1000)
#define START (UINT64_C(7) * US) /* some time, and not the one that says "none" */

/* One that knows of a flush, and of so many replies that were held when its frame went. */
static struct gather gather_of(uint64_t flush_ns, size_t held_count)
{
    struct gather gather = {0};
    gather_note_frame(&gather, START, held_count);
    gather_note_flush(&gather, START + flush_ns);
    return gather;
}

static void a_frame_goes_when_the_sockets_have_nothing_more(void **state)
{
    (void)state;
    struct gather gather = gather_of(100 * US, 1);
    assert_true(gather_goes_on(&gather, START, false, US));
    assert_false(gather_goes_on(&gather, START, true, US));
}

static void a_frame_gathers_for_as_long_as_a_flush_takes(void **state)
{
    (void)state;
    struct gather gather = gather_of(100 * US, 1);
    assert_true(gather_goes_on(&gather, START, false, US));
    assert_true(gather_goes_on(&gather, START + 100 * US - 1, false, US));
    assert_false(gather_goes_on(&gather, START + 100 * US, false, US));
}

static void a_frame_gathers_for_a_millisecond_at_most(void **state)
{
    (void)state;
    struct gather gather = gather_of(50000 * US, 1);
    assert_true(gather_goes_on(&gather, START, false, US));
    assert_true(gather_goes_on(&gather, START + GATHER_NS_MAX - 1, false, US));
    assert_false(gather_goes_on(&gather, START + GATHER_NS_MAX, false, US));
}

static void before_a_flush_is_known_no_frame_waits(void **state)
{
    (void)state;
    struct gather gather = {0};
    assert_false(gather_goes_on(&gather, START, false, 0));
    gather_note_frame(&gather, START, 1);
    assert_false(gather_goes_on(&gather, START + 1, false, 0));
}

static void each_frame_has_its_own_time_from_when_it_could_first_go(void **state)
{
    (void)state;
    struct gather gather = gather_of(100 * US, 1);
    assert_true(gather_goes_on(&gather, START, false, US));
    gather_note_frame(&gather, START + 50 * US, 1);
    assert_true(gather_goes_on(&gather, START + 120 * US, false, US));
    assert_true(gather_goes_on(&gather, START + 219 * US, false, US));
    gather_stop(&gather); /* the log took on something else, and there is nothing that could go */
    assert_true(gather_goes_on(&gather, START + 500 * US, false, US));
    assert_false(gather_goes_on(&gather, START + 600 * US, false, US));
}

static void with_half_as_much_work_again_as_a_flush_takes_a_frame_goes_at_once(void **state)
{
    (void)state;
    struct gather gather = gather_of(100 * US, 15);
    assert_true(gather_goes_on(&gather, START, false, 10 * US));
    assert_false(gather_goes_on(&gather, START, false, 10 * US + 1));
    gather = gather_of(100 * US, 16);
    assert_false(gather_goes_on(&gather, START, false, 10 * US));
    gather = gather_of(107 * US, 16); /* a slower disk */
    assert_true(gather_goes_on(&gather, START, false, 10 * US));
}

static void what_a_request_costs_must_be_known_to_call_it_work(void **state)
{
    (void)state;
    struct gather gather = gather_of(100 * US, 10000);
    assert_true(gather_goes_on(&gather, START, false, 0));
}

static void the_most_replies_held_at_once_are_forgotten_slowly(void **state)
{
    (void)state;
    struct gather gather = gather_of(100 * US, 64);
    gather_note_frame(&gather, START, 1);
    assert_int_equal(gather.held_lately, 56);
    gather_note_frame(&gather, START, 50);
    assert_int_equal(gather.held_lately, 50);
    gather_note_frame(&gather, START, 80);
    assert_int_equal(gather.held_lately, 80);
}

static void one_odd_flush_changes_little(void **state)
{
    (void)state;
    struct gather gather = gather_of(100 * US, 1);
    gather_note_frame(&gather, START, 1);
    gather_note_flush(&gather, START + 900 * US);
    assert_int_equal(gather.flush_ns, 200 * US);
    assert_int_equal(gather.flush_begun_ns, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_goes_when_the_sockets_have_nothing_more),
        cmocka_unit_test(a_frame_gathers_for_as_long_as_a_flush_takes),
        cmocka_unit_test(a_frame_gathers_for_a_millisecond_at_most),
        cmocka_unit_test(before_a_flush_is_known_no_frame_waits),
        cmocka_unit_test(each_frame_has_its_own_time_from_when_it_could_first_go),
        cmocka_unit_test(with_half_as_much_work_again_as_a_flush_takes_a_frame_goes_at_once),
        cmocka_unit_test(what_a_request_costs_must_be_known_to_call_it_work),
        cmocka_unit_test(the_most_replies_held_at_once_are_forgotten_slowly),
        cmocka_unit_test(one_odd_flush_changes_little),
    };
    return cmocka_run_group_tests_name("gather", tests, NULL, NULL);
}
