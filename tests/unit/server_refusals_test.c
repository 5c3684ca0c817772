/* What was refused is said once for each kind, and then once a minute with how often. */
#include "server/refusals.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct lines {
    char newest[256];
    unsigned count;
};

static void take(void *context, const char *text)
{
    struct lines *lines = context;
    snprintf(lines->newest, sizeof(lines->newest), "%s", text);
    lines->count++;
}

static void the_first_is_told_at_once_and_the_others_within_a_minute(void **state)
{
    (void)state;
    struct lines lines = {0};
    const struct server_options options = {.report = take, .report_context = &lines};
    struct refusals refusals = {0};
    refusals_tell(&refusals, 0, &options);
    assert_int_equal(lines.count, 0);
    refusals_note(&refusals, REFUSAL_BY_MEMORY, 0);
    refusals_tell(&refusals, 500, &options);
    assert_int_equal(lines.count, 1);
    assert_string_equal(lines.newest, "refused within 1 s: 1 requests, because the state takes as much memory as it "
                                      "may (MemoryIsFull, --memory-max).");
    for (uint64_t now_ms = 1000; now_ms < 60000; now_ms += 1000) {
        refusals_note(&refusals, REFUSAL_BY_MEMORY, now_ms);
        refusals_note(&refusals, REFUSAL_BY_MEMORY, now_ms);
        refusals_tell(&refusals, now_ms, &options);
    }
    assert_int_equal(lines.count, 1);
    refusals_tell(&refusals, 60500, &options);
    assert_int_equal(lines.count, 2);
    assert_non_null(strstr(lines.newest, "refused within 60 s: 118 requests,"));
    refusals_tell(&refusals, 200000, &options);
    assert_int_equal(lines.count, 2);
}

static void kinds_keep_each_other_back_in_nothing(void **state)
{
    (void)state;
    struct lines lines = {0};
    const struct server_options options = {.report = take, .report_context = &lines};
    struct refusals refusals = {0};
    refusals_note_error(&refusals, ERROR_INVALID_SIGNATURE, 1);
    refusals_note_error(&refusals, ERROR_INCOMPLETE_SIGNATURE, 1);
    refusals_note_error(&refusals, OK, 1);
    refusals_note_error(&refusals, ERROR_QUEUE_DOES_NOT_EXIST, 1);
    refusals_tell(&refusals, 10, &options);
    assert_int_equal(lines.count, 1);
    assert_non_null(strstr(lines.newest, "2 requests, because their signature is wrong"));
    for (enum refusal kind = 0; kind < REFUSAL_COUNT; kind++)
        refusals_note(&refusals, kind, 20);
    refusals_tell(&refusals, 20, &options);
    assert_int_equal(lines.count, REFUSAL_COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_is_told_at_once_and_the_others_within_a_minute),
        cmocka_unit_test(kinds_keep_each_other_back_in_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
