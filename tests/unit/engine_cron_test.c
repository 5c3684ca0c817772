/* Cron expressions: what is one, what is none and why, and which minutes of the calendar they name. */
#include "engine/cron.h"

#include "random.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

static struct cron parsed(const char *text)
{
    struct cron cron;
    char reason[CRON_REASON_SIZE] = "";
    if (!cron_parse(bytes_from_string(text), &cron, reason))
        fail_msg("%s: %s", text, reason);
    return cron;
}

static int64_t minute_of(int year, int month, int day, int hour, int minute)
{
    struct tm tm = {.tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day, .tm_hour = hour, .tm_min = minute};
    return timegm(&tm) / 60;
}

static void assert_next(const char *text, int64_t from, int64_t expected)
{
    struct cron cron = parsed(text);
    int64_t found = cron_next_minute(&cron, from, from + INT64_C(8) * 366 * 1440);
    if (found != expected)
        fail_msg("%s: %lld, not %lld", text, (long long)found, (long long)expected);
}

static void fields_take_lists_ranges_steps_and_names(void **state)
{
    (void)state;
    struct cron cron = parsed("0,30-32,40-58/9 */6 1,15 jan-MAR,Dec mon-fri");
    assert_true(cron.minutes ==
                (UINT64_C(1) << 0 | UINT64_C(7) << 30 | UINT64_C(1) << 40 | UINT64_C(1) << 49 | UINT64_C(1) << 58));
    assert_int_equal(cron.hours, 1u << 0 | 1u << 6 | 1u << 12 | 1u << 18);
    assert_int_equal(cron.days, 1u << 1 | 1u << 15);
    assert_int_equal(cron.months, 1u << 1 | 1u << 2 | 1u << 3 | 1u << 12);
    assert_int_equal(cron.weekdays, 0x3e);
    assert_true(cron.is_every_hour && cron.is_either_day);
    assert_int_equal(parsed("5 007 * * *").hours, 1u << 7);
    assert_false(parsed("0 0-23 * * *").is_every_hour);
}

static void sunday_is_0_and_7_and_may_end_a_range(void **state)
{
    (void)state;
    assert_int_equal(parsed("0 0 * * 0").weekdays, 1);
    assert_int_equal(parsed("0 0 * * 7").weekdays, 1);
    assert_int_equal(parsed("0 0 * * sun").weekdays, 1);
    assert_int_equal(parsed("0 0 * * fri-sun").weekdays, 1u << 5 | 1u << 6 | 1u);
    assert_int_equal(parsed("0 0 * * 5-7").weekdays, 1u << 5 | 1u << 6 | 1u);
    assert_int_equal(parsed("0 0 * * *").weekdays, 0x7f);
}

static void nicknames_stand_for_what_they_say(void **state)
{
    (void)state;
    int64_t from = minute_of(2026, 11, 20, 10, 20); /* a Friday */
    assert_next("@hourly", from, minute_of(2026, 11, 20, 11, 0));
    assert_next("@daily", from, minute_of(2026, 11, 21, 0, 0));
    assert_next("@midnight", from, minute_of(2026, 11, 21, 0, 0));
    assert_next("@weekly", from, minute_of(2026, 11, 22, 0, 0));
    assert_next("@monthly", from, minute_of(2026, 12, 1, 0, 0));
    assert_next("@yearly", from, minute_of(2027, 1, 1, 0, 0));
    assert_next("@annually", from, minute_of(2027, 1, 1, 0, 0));
}

static void what_is_no_expression_is_refused_with_the_field_and_the_reason(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *part;
    } bad[] = {
        {"", "0 fields"},
        {"* * * *", "4 fields"},
        {"* * * * * *", "6 fields"},
        {"60 * * * *", "The minute field: '60' is not from 0 to 59."},
        {"* 24 * * *", "The hour field: '24'"},
        {"* * 0 * *", "The day of the month field: '0' is not from 1 to 31."},
        {"* * * 13 *", "The month field: '13' is not from 1 to 12 nor a name."},
        {"* * * * 8", "The day of the week field: '8'"},
        {"* * * * L", "'L' is not"},
        {"* * * juli *", "'juli' is not"},
        {"30-10 * * * *", "'30-10' ends before it begins"},
        {"5/10 * * * *", "'5/10' has a step but is no range"},
        {"*/0 * * * *", "'*/0' has a step that is not"},
        {"*/ * * * *", "'*/' has a step that is not"},
        {"1,,2 * * * *", "The minute field: '' is not"},
        {"1-2-3 * * * *", "'2-3' is not"},
        {"-5 * * * *", "'' is not"},
        {"99999999999999999999999 * * * *", "is not from 0 to 59"},
        {"@reboot", "there are @hourly"},
        {"* * * * \xc3\xa4", "ASCII"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct cron cron;
        char reason[CRON_REASON_SIZE] = "";
        assert_false(cron_parse(bytes_from_string(bad[i].text), &cron, reason));
        if (strstr(reason, bad[i].part) == NULL)
            fail_msg("'%s': %s", bad[i].text, reason);
    }
}

static void month_ends_and_leap_days_are_met(void **state)
{
    (void)state;
    int64_t from = minute_of(2026, 11, 20, 10, 20);
    assert_next("0 0 31 * *", from, minute_of(2026, 12, 31, 0, 0));
    assert_next("0 0 31 * *", minute_of(2027, 1, 31, 0, 1), minute_of(2027, 3, 31, 0, 0));
    assert_next("0 0 29 2 *", from, minute_of(2028, 2, 29, 0, 0));
    assert_next("59 23 28 2 *", from, minute_of(2027, 2, 28, 23, 59));
    assert_next("0 0 29 2 *", minute_of(2096, 3, 1, 0, 0), minute_of(2104, 2, 29, 0, 0)); /* 2100 has none */
}

static void february_30_is_never(void **state)
{
    (void)state;
    int64_t from = minute_of(2026, 11, 20, 10, 20);
    assert_next("0 0 30 2 *", from, from + INT64_C(8) * 366 * 1440);
    assert_next("0 0 31 4,6,9,11 *", from, from + INT64_C(8) * 366 * 1440);
}

static void two_restricted_day_fields_mean_either(void **state)
{
    (void)state;
    int64_t from = minute_of(2026, 11, 20, 10, 20); /* a Friday */
    assert_next("0 12 13 * fri", from, minute_of(2026, 11, 20, 12, 0));
    assert_next("0 12 21 * mon", from, minute_of(2026, 11, 21, 12, 0));
    assert_next("0 12 */2 * mon", from, minute_of(2026, 11, 23, 12, 0)); /* begins with a *: both must fit */
    assert_next("0 12 * * mon", from, minute_of(2026, 11, 23, 12, 0));
}

/* Against the calendar of the C library, a minute at a time. */
static void next_minute_agrees_with_a_walk(void **state)
{
    (void)state;
    static const char *const texts[] = {"*/7 3-5 * * *",  "0 0 1 * 3",     "15,45 */5 28-31 * *", "0 12 29 2 *",
                                        "59 23 * 12 6,0", "30 4 31 */2 *", "* * 1-7 * 1"};
    struct random random = {7};
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        struct cron cron = parsed(texts[i]);
        for (unsigned round = 0; round < 5; round++) {
            int64_t minute = minute_of(2027, 1, 1, 0, 0) + random_below(&random, 600 * 1440), end = minute + 40 * 1440;
            int64_t found = cron_next_minute(&cron, minute, end);
            for (; minute < found; minute++) {
                struct tm tm;
                time_t seconds = minute * 60;
                gmtime_r(&seconds, &tm);
                bool fits_month = (cron.days >> tm.tm_mday & 1) != 0,
                     fits_week = (cron.weekdays >> tm.tm_wday & 1) != 0;
                bool fits = (cron.minutes >> tm.tm_min & 1) != 0 && (cron.hours >> tm.tm_hour & 1) != 0 &&
                            (cron.months >> (tm.tm_mon + 1) & 1) != 0 &&
                            (cron.is_either_day ? fits_month || fits_week : fits_month && fits_week);
                assert_false(fits);
            }
        }
    }
}

/* Random bytes, and expressions with a few bytes changed: whatever is taken names minutes that exist. */
static void any_bytes_are_read_or_refused(void **state)
{
    (void)state;
    static const char alphabet[] = "0123456789*/,-@ \tsunmonjandec\xff\x01LW#?";
    struct random random = {11};
    unsigned taken = 0;
    for (unsigned round = 0; round < 200000; round++) {
        char text[40] = "*/5 1-3,7 * jan-jun mon";
        size_t size = strlen(text);
        bool is_random = round % 2 == 0;
        if (is_random)
            size = random_below(&random, 24);
        for (unsigned i = 0; i < (is_random ? size : 1 + round % 4); i++)
            text[is_random ? i : random_below(&random, (uint32_t)size)] =
                alphabet[random_below(&random, sizeof(alphabet) - 1)];
        struct cron cron;
        char reason[CRON_REASON_SIZE];
        if (!cron_parse(bytes_make(text, size), &cron, reason)) {
            assert_non_null(memchr(reason, '\0', sizeof(reason)));
            continue;
        }
        taken++;
        assert_true(cron.minutes != 0 && cron.minutes >> 60 == 0 && cron.hours != 0 && cron.hours >> 24 == 0);
        assert_true(cron.days != 0 && (cron.days & 1) == 0 && cron.months >> 13 == 0 && (cron.months & 1) == 0);
        assert_true(cron.weekdays != 0 && cron.weekdays < 0x80);
    }
    assert_true(taken > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_take_lists_ranges_steps_and_names),
        cmocka_unit_test(sunday_is_0_and_7_and_may_end_a_range),
        cmocka_unit_test(nicknames_stand_for_what_they_say),
        cmocka_unit_test(what_is_no_expression_is_refused_with_the_field_and_the_reason),
        cmocka_unit_test(month_ends_and_leap_days_are_met),
        cmocka_unit_test(february_30_is_never),
        cmocka_unit_test(two_restricted_day_fields_mean_either),
        cmocka_unit_test(next_minute_agrees_with_a_walk),
        cmocka_unit_test(any_bytes_are_read_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
