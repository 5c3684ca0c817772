/* How old something is that was noted before clocks were set. */
#include "relay/machine_time.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define HERE "01234567-89ab-4def-8123-456789abcdef"
#define ELSEWHERE "fedcba98-7654-4321-8fed-cba987654321"
#define SECOND_MS 1000
#define DAY_MS 86400000

static const struct machine_time now = {.boot = HERE, .since_boot_ms = 10 * DAY_MS, .wall_ms = 20000ull * DAY_MS};

/* Of something that was noted so long ago by each of the clocks. */
static uint64_t age(const char *boot, int64_t since_boot_ms, int64_t wall_ms, int64_t source_ms)
{
    struct machine_time then = {.since_boot_ms = now.since_boot_ms - (uint64_t)since_boot_ms,
                                .wall_ms = now.wall_ms - (uint64_t)wall_ms};
    char text[MACHINE_TIME_TEXT_SIZE];
    memcpy(then.boot, boot, strlen(boot));
    machine_time_to_text(&then, text);
    return machine_time_age_ms(&now, bytes_from_string(text), source_ms);
}

static void in_one_boot_nobody_can_make_it_younger(void **state)
{
    (void)state;
    assert_int_equal(age(HERE, SECOND_MS, SECOND_MS, SECOND_MS), SECOND_MS);
    assert_int_equal(age(HERE, 360 * SECOND_MS, SECOND_MS, SECOND_MS), 360 * SECOND_MS);
    assert_int_equal(age(HERE, 360 * SECOND_MS, -DAY_MS, -DAY_MS), 360 * SECOND_MS);
    assert_int_equal(age(HERE, SECOND_MS, -DAY_MS, DAY_MS), DAY_MS); /* it may be: a mark is harmless */
}

static void of_two_wall_clocks_the_one_that_was_not_set_back_counts(void **state)
{
    (void)state;
    assert_int_equal(age(ELSEWHERE, 0, 360 * SECOND_MS, 60 * SECOND_MS), 360 * SECOND_MS);
    assert_int_equal(age(ELSEWHERE, DAY_MS, 60 * SECOND_MS, 360 * SECOND_MS), 360 * SECOND_MS);
    assert_int_equal(age(ELSEWHERE, 0, -DAY_MS, SECOND_MS), SECOND_MS);
}

static void what_happens_later_than_now_was_nobody_knows_when(void **state)
{
    (void)state;
    assert_int_equal(age(ELSEWHERE, 0, SECOND_MS, -1), AGE_UNKNOWN_MS);
    assert_int_equal(age(HERE, -1, SECOND_MS, SECOND_MS), AGE_UNKNOWN_MS);
}

static void without_a_note_the_source_decides(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "x", HERE " 1", HERE " 1 x",
                                        "a line that is longer than anything that a relay would ever have written into "
                                        "this column 1 2"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_int_equal(machine_time_age_ms(&now, bytes_from_string(texts[i]), SECOND_MS), SECOND_MS);
        assert_int_equal(machine_time_age_ms(&now, bytes_from_string(texts[i]), -1), AGE_UNKNOWN_MS);
    }
}

static void a_machine_that_names_no_boot_has_wall_clocks_only(void **state)
{
    (void)state;
    struct machine_time nameless = now;
    char text[MACHINE_TIME_TEXT_SIZE];
    nameless.boot[0] = '\0';
    machine_time_to_text(&nameless, text);
    nameless.since_boot_ms += DAY_MS;
    nameless.wall_ms += SECOND_MS;
    assert_int_equal(machine_time_age_ms(&nameless, bytes_from_string(text), 0), SECOND_MS);
}

static void this_machine_tells_a_moment_that_it_can_read_again(void **state)
{
    (void)state;
    struct machine_time first, second;
    char text[MACHINE_TIME_TEXT_SIZE];
    machine_time_read(&first);
    machine_time_to_text(&first, text);
    machine_time_read(&second);
    assert_true(machine_time_age_ms(&second, bytes_from_string(text), -DAY_MS) < 60 * SECOND_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_one_boot_nobody_can_make_it_younger),
        cmocka_unit_test(of_two_wall_clocks_the_one_that_was_not_set_back_counts),
        cmocka_unit_test(what_happens_later_than_now_was_nobody_knows_when),
        cmocka_unit_test(without_a_note_the_source_decides),
        cmocka_unit_test(a_machine_that_names_no_boot_has_wall_clocks_only),
        cmocka_unit_test(this_machine_tells_a_moment_that_it_can_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
