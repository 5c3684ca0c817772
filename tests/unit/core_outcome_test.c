/* The memory of outcomes at its limits: a million of them, two weeks, and the same key again. */
#include "core/order/outcome.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "core/snapshot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct digest_tag key_of(uint64_t number)
{
    return (struct digest_tag){.low = number, .high = 7};
}

static void remember(struct outcomes *outcomes, uint64_t key, uint64_t number, uint64_t now_ms)
{
    outcomes_remember(outcomes, key_of(key), number, UNIT_FAILED, now_ms);
}

/* The number of the newest one under the key after `more` others, and what is forgotten then. */
static void expect_after(const struct outcomes *outcomes, uint64_t key, uint32_t more, uint64_t number,
                         uint64_t forgotten)
{
    uint64_t forgotten_number;
    const struct outcome *found = outcomes_find_after(outcomes, key_of(key), more, &forgotten_number);
    assert_int_equal(found == NULL ? 0 : found->number, number);
    assert_int_equal(forgotten_number, forgotten);
}

static void one_more_than_a_million_forgets_the_oldest(void **state)
{
    (void)state;
    struct outcomes outcomes;
    outcomes_init(&outcomes);
    remember(&outcomes, 1, 50, 0); /* the oldest has the higher number */
    for (uint64_t key = 2; key < OUTCOMES_MAX; key++)
        remember(&outcomes, key, key == 2 ? 40 : key + 100, 0);
    expect_after(&outcomes, 1, 1, 50, 0);
    expect_after(&outcomes, 1, 2, 0, 50);
    expect_after(&outcomes, 2, 2, 40, 50);
    expect_after(&outcomes, 2, 3, 0, 50);
    expect_after(&outcomes, 3, 3, 103, 50);
    expect_after(&outcomes, 3, 4, 0, 103);
    remember(&outcomes, OUTCOMES_MAX, OUTCOMES_MAX + 100, 0);
    assert_int_equal(outcomes.records.used, OUTCOMES_MAX);
    assert_int_equal(outcomes_find(&outcomes, key_of(1))->number, 50);
    for (unsigned more = 1; more <= 3; more++) {
        const uint64_t forgotten[] = {50, 50, 103};
        remember(&outcomes, OUTCOMES_MAX + more, OUTCOMES_MAX + 100 + more, 0);
        assert_int_equal(outcomes.records.used, OUTCOMES_MAX);
        assert_int_equal(outcomes.forgotten_number, forgotten[more - 1]);
        assert_null(outcomes_find(&outcomes, key_of(more)));
        assert_non_null(outcomes_find(&outcomes, key_of(more + 1)));
    }
    expect_after(&outcomes, 4, OUTCOMES_MAX + 1, 0, OUTCOMES_MAX + 103); /* more than there are */
    outcomes_check(&outcomes, 0);
    outcomes_deinit(&outcomes);
}

static void after_two_weeks_an_outcome_is_forgotten_and_not_a_millisecond_before(void **state)
{
    (void)state;
    struct outcomes outcomes;
    outcomes_init(&outcomes);
    remember(&outcomes, 1, 9, 1000);
    remember(&outcomes, 2, 3, 1000);
    remember(&outcomes, 3, 5, 1001);
    outcomes_forget(&outcomes, 1000 + OUTCOME_WINDOW_MS - 1);
    assert_int_equal(outcomes.records.used, 3);
    outcomes_forget(&outcomes, 1000 + OUTCOME_WINDOW_MS);
    assert_int_equal(outcomes.records.used, 1);
    assert_int_equal(outcomes.forgotten_number, 9);
    assert_int_equal(outcomes_find(&outcomes, key_of(3))->number, 5);
    outcomes_forget(&outcomes, 1001 + OUTCOME_WINDOW_MS);
    assert_int_equal(outcomes.records.used, 0);
    assert_int_equal(outcomes.forgotten_number, 9);
    remember(&outcomes, 1, 10, 1001 + OUTCOME_WINDOW_MS);
    assert_int_equal(outcomes_find(&outcomes, key_of(1))->number, 10);
    outcomes_check(&outcomes, 1001 + OUTCOME_WINDOW_MS);
    outcomes_deinit(&outcomes);
}

static void the_highest_number_under_a_key_counts(void **state)
{
    (void)state;
    const struct {
        uint64_t numbers[3];
        uint64_t found;
    } tries[] = {{{1, 2, 3}, 3}, {{3, 2, 1}, 3}, {{2, 3, 1}, 3}, {{2, 1, 3}, 3}};
    for (unsigned i = 0; i < ARRAY_LENGTH(tries); i++) {
        struct outcomes outcomes;
        outcomes_init(&outcomes);
        for (unsigned k = 0; k < 3; k++) {
            remember(&outcomes, 1, tries[i].numbers[k], k);
            outcomes_check(&outcomes, k);
        }
        assert_int_equal(outcomes_find(&outcomes, key_of(1))->number, tries[i].found);
        assert_int_equal(table_count(&outcomes.by_key), 1);
        assert_int_equal(outcomes.records.used, 3);
        outcomes_forget(&outcomes, 2 + OUTCOME_WINDOW_MS);
        assert_null(outcomes_find(&outcomes, key_of(1)));
        assert_int_equal(outcomes.forgotten_number, 3);
        outcomes_deinit(&outcomes);
    }
}

struct record {
    uint64_t key, number, ended_at_ms;
    uint8_t state;
};

/* Two records as a snapshot would have them; both limits are 100. */
static void only_what_could_have_been_written_is_read(void **state)
{
    (void)state;
    const uint64_t now_ms = OUTCOME_WINDOW_MS + 100;
    const struct {
        bool is_good;
        uint64_t forgotten;
        struct record records[2];
    } tries[] = {
        {true, 100, {{1, 1, 101, UNIT_SUCCEEDED}, {2, 100, now_ms, UNIT_CANCELLED}}},
        {false, 101, {{1, 1, 101, UNIT_SUCCEEDED}, {2, 100, now_ms, UNIT_CANCELLED}}},
        {false, 0, {{1, 1, 100, UNIT_SUCCEEDED}, {2, 100, now_ms, UNIT_CANCELLED}}}, /* is over */
        {false, 0, {{1, 1, 101, UNIT_SUCCEEDED}, {2, 100, now_ms + 1, UNIT_CANCELLED}}},
        {false, 0, {{1, 1, 101, UNIT_SUCCEEDED}, {2, 101, now_ms, UNIT_CANCELLED}}},
        {false, 0, {{1, 0, 101, UNIT_SUCCEEDED}, {2, 100, now_ms, UNIT_CANCELLED}}},
        {false, 0, {{1, 1, 101, UNIT_OUTSTANDING}, {2, 100, now_ms, UNIT_CANCELLED}}},
        {false, 0, {{1, 1, 101, UNIT_SUCCEEDED}, {2, 100, now_ms, UNIT_CANCELLED + 1}}},
        {true, 0, {{1, 1, 101, UNIT_FAILED}, {2, 2, 101, UNIT_FAILED}}},
        {false, 0, {{1, 1, 102, UNIT_FAILED}, {2, 2, 101, UNIT_FAILED}}}, /* ended earlier */
        {true, 0, {{1, 1, 101, UNIT_FAILED}, {1, 2, 101, UNIT_FAILED}}},
        {false, 0, {{1, 2, 101, UNIT_FAILED}, {1, 2, 101, UNIT_FAILED}}},
        {false, 0, {{1, 2, 101, UNIT_FAILED}, {1, 1, 101, UNIT_FAILED}}},
    };
    for (unsigned i = 0; i < ARRAY_LENGTH(tries); i++) {
        struct buffer encoded;
        buffer_init(&encoded);
        buffer_append_u64(&encoded, tries[i].forgotten);
        buffer_append_u32(&encoded, 2);
        for (unsigned k = 0; k < 2; k++) {
            const struct record *record = &tries[i].records[k];
            buffer_append_u64(&encoded, record->key);
            buffer_append_u64(&encoded, 7);
            buffer_append_u64(&encoded, record->number);
            buffer_append_u64(&encoded, record->ended_at_ms);
            buffer_append_u8(&encoded, record->state);
        }
        struct outcomes outcomes;
        outcomes_init(&outcomes);
        struct cursor cursor = cursor_make(buffer_bytes(&encoded));
        const bool is_good = outcomes_decode(&outcomes, &cursor, 100, now_ms);
        if (is_good != tries[i].is_good)
            fail_msg("%u: %s", i, is_good ? "read" : "refused");
        if (is_good) {
            assert_true(cursor_is_done(&cursor));
            outcomes_check(&outcomes, now_ms);
            const uint64_t last = tries[i].records[1].key;
            assert_int_equal(outcomes_find(&outcomes, key_of(last))->number, tries[i].records[1].number);
            struct core_writer writer = {.sink = NULL};
            buffer_init(&writer.piece);
            outcomes_encode(&outcomes, &writer);
            assert_true(bytes_equal(buffer_bytes(&writer.piece), buffer_bytes(&encoded)));
            buffer_deinit(&writer.piece);
        }
        outcomes_deinit(&outcomes);
        buffer_deinit(&encoded);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_more_than_a_million_forgets_the_oldest),
        cmocka_unit_test(after_two_weeks_an_outcome_is_forgotten_and_not_a_millisecond_before),
        cmocka_unit_test(the_highest_number_under_a_key_counts),
        cmocka_unit_test(only_what_could_have_been_written_is_read),
    };
    return cmocka_run_group_tests_name("core outcome", tests, NULL, NULL);
}
