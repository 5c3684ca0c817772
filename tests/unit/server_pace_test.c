#include "server/pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define US UINT64_C(1000)

static void nothing_is_known_before_the_first_measure_is_over(void **state)
{
    (void)state;
    struct pace pace = {0};
    pace_note(&pace, 10 * US, 0, 5);
    assert_int_equal(pace.request_ns, 0);
    pace_note(&pace, 20 * US, 0, 5 + PACE_REQUESTS_MIN - 1);
    assert_int_equal(pace.request_ns, 0);
}

static void a_request_costs_its_share_of_the_time_in_which_the_loop_did_not_wait(void **state)
{
    (void)state;
    struct pace pace = {0};
    pace_note(&pace, 1000 * US, 400 * US, 7);
    pace_note(&pace, 3000 * US, 1400 * US, 107);
    assert_int_equal(pace.request_ns, 10 * US);
}

static void one_odd_measure_changes_little(void **state)
{
    (void)state;
    struct pace pace = {0};
    pace_note(&pace, 1 * US, 0, 0);
    pace_note(&pace, 1001 * US, 0, 100);
    assert_int_equal(pace.request_ns, 10 * US);
    pace_note(&pace, 10001 * US, 0, 200); /* 90 us each */
    assert_int_equal(pace.request_ns, 20 * US);
}

static void a_clock_of_waiting_that_runs_ahead_is_no_negative_work(void **state)
{
    (void)state;
    struct pace pace = {0};
    pace_note(&pace, 1 * US, 0, 0);
    pace_note(&pace, 101 * US, 102 * US, 100);
    assert_int_equal(pace.request_ns, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_known_before_the_first_measure_is_over),
        cmocka_unit_test(a_request_costs_its_share_of_the_time_in_which_the_loop_did_not_wait),
        cmocka_unit_test(one_odd_measure_changes_little),
        cmocka_unit_test(a_clock_of_waiting_that_runs_ahead_is_no_negative_work),
    };
    return cmocka_run_group_tests_name("pace", tests, NULL, NULL);
}
