#include "server/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

static uint64_t wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void log_time_begins_at_the_wall_clock(void **state)
{
    (void)state;
    struct clock clock;
    uint64_t before_ms = wall_ms();
    clock_init(&clock);
    uint64_t now_ms = clock_now_ms(&clock);
    /* The two clocks tick at different moments within a millisecond. */
    assert_in_range(now_ms, before_ms, wall_ms() + 1);
}

static void log_time_begins_behind_the_newest_frame(void **state)
{
    (void)state;
    struct clock clock;
    clock_init(&clock);
    uint64_t newest_frame_ms = clock_now_ms(&clock) + 3600000;
    clock_raise(&clock, newest_frame_ms);
    uint64_t now_ms = clock_now_ms(&clock);
    assert_in_range(now_ms, newest_frame_ms, newest_frame_ms + 60000);
    clock_raise(&clock, 5);
    assert_true(clock_now_ms(&clock) >= now_ms);
}

static void log_time_never_goes_back(void **state)
{
    (void)state;
    struct clock clock;
    clock_init(&clock);
    uint64_t last_ms = 0;
    for (int i = 0; i < 100000; i++) {
        uint64_t now_ms = clock_now_ms(&clock);
        assert_true(now_ms >= last_ms);
        last_ms = now_ms;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log_time_begins_at_the_wall_clock),
        cmocka_unit_test(log_time_begins_behind_the_newest_frame),
        cmocka_unit_test(log_time_never_goes_back),
    };
    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
