/* What `tally match` makes of a feed: levels, numbers, and who looks for partners. */
#include "matcher/pool_copy.h"
#include "support/scale.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define BUDGET 4096u

/* Two whose numbers differ by at most 1, after ten seconds by at most 5. */
#define WIDENING                                                                                                       \
    "{\"attrs\": {\"x\": \"num\"}, \"size\": 2, \"rules\": [{\"type\": \"near\", \"attr\": \"x\", \"max\": 1, "        \
    "\"expand\": [{\"after\": \"10s\", \"max\": 5}]}]}"

static void begin(struct pool_copy *copy, const char *rules, bool has_own_rules, uint32_t parts)
{
    struct failure failure = {.text = ""};
    struct rules *made = rules_create(bytes_from_string(rules), &failure);
    assert_non_null(made);
    pool_copy_init(copy, made, has_own_rules, parts);
}

static void apply(struct pool_copy *copy, const char *event, uint64_t now_ms)
{
    yyjson_doc *doc = yyjson_read(event, strlen(event), YYJSON_READ_NOFLAG);
    assert_non_null(doc);
    pool_copy_apply(copy, yyjson_doc_get_root(doc), now_ms);
    yyjson_doc_free(doc);
}

/* Of version 1 and part 1. */
static void offer(struct pool_copy *copy, const char *key, int x, const char *offered_at, uint64_t now_ms)
{
    char event[300];
    snprintf(event, sizeof(event),
             "{\"Type\": \"offer\", \"TicketId\": \"%s\", \"Version\": 1, \"Part\": 1, \"Attributes\": {\"x\": %d}, "
             "\"Weight\": 1, \"Priority\": 0, \"OfferedAt\": %s, \"ExpiresAt\": 200, \"Level\": 0}",
             key, x, offered_at);
    apply(copy, event, now_ms);
}

static const struct entry *entry_of(const struct pool_copy *copy, const char *key)
{
    uint32_t slot = pool_copy_find_ticket(copy, bytes_from_string(key));
    assert_int_not_equal(slot, 0);
    return &pool_copy_ticket(copy, slot)->entry;
}

static enum matcher_outcome find(struct pool_copy *copy, uint64_t now_ms)
{
    struct matcher_group group;
    uint32_t budget = BUDGET;
    return pool_copy_find(copy, now_ms, &budget, &group);
}

static void a_search_stops_when_its_budget_is_used_up(void **state)
{
    struct pool_copy copy;
    struct matcher_group group;
    uint32_t budget = 20;
    (void)state;
    begin(&copy, WIDENING, false, 0);
    for (int i = 0; i < 100; i++) {
        char key[16];
        snprintf(key, sizeof(key), "t%d", i);
        offer(&copy, key, 10 * i, "100.5", 100500);
    }
    assert_int_equal(pool_copy_find(&copy, 100500, &budget, &group), MATCHER_TIRED);
    assert_true(matcher_seed_count(&copy.matcher) > 0);
    assert_int_equal(find(&copy, 100500), MATCHER_IDLE);
    pool_copy_deinit(&copy);
}

static void a_ticket_from_the_future_has_no_age(void **state)
{
    struct pool_copy copy;
    (void)state;
    begin(&copy, WIDENING, true, 0);
    offer(&copy, "a", 0, "100.5", 99000);
    offer(&copy, "b", 3, "100.5", 99000);
    assert_int_equal(entry_of(&copy, "a")->level, 0);
    assert_int_equal(find(&copy, 99000), MATCHER_IDLE);
    assert_int_equal(find(&copy, 110499), MATCHER_IDLE);
    assert_int_equal(find(&copy, 110500), MATCHER_FOUND);
    pool_copy_deinit(&copy);
}

static void tickets_of_one_millisecond_have_numbers_of_their_own(void **state)
{
    struct pool_copy copy;
    (void)state;
    if (is_scaled_down())
        skip();
    begin(&copy, WIDENING, false, 0);
    offer(&copy, "a", 0, "100.5", 100500);
    for (uint64_t i = 1; i < UINT64_C(1) << 20; i++) { /* all that the bits of the order can say: others come and go */
        offer(&copy, "other", 50, "99.5", 100500);
        apply(&copy, "{\"Type\": \"retire\", \"TicketId\": \"other\"}", 100500);
    }
    offer(&copy, "b", 0, "100.5", 100500);
    offer(&copy, "c", 20, "100.499", 100500);
    assert_true(entry_of(&copy, "a")->number != entry_of(&copy, "b")->number);
    assert_true(entry_of(&copy, "c")->number < entry_of(&copy, "a")->number);
    assert_int_equal(find(&copy, 100500), MATCHER_FOUND);
    matcher_check(&copy.matcher);
    pool_copy_deinit(&copy);
}

static bool takes_parts(struct pool_copy *copy, const char *parts)
{
    yyjson_doc *doc = yyjson_read(parts, strlen(parts), YYJSON_READ_NOFLAG);
    bool is_taken = pool_copy_set_parts(copy, yyjson_doc_get_root(doc));
    yyjson_doc_free(doc);
    return is_taken;
}

static void mine_is(struct pool_copy *copy, const char *parts)
{
    assert_true(takes_parts(copy, parts));
}

static void a_step_of_a_ticket_that_is_not_mine_lets_nobody_look(void **state)
{
    struct pool_copy copy;
    (void)state;
    begin(&copy, WIDENING, true, 2);
    mine_is(&copy, "[0]");
    offer(&copy, "a", 0, "100.5", 100500);
    offer(&copy, "b", 3, "100.5", 100500);
    assert_int_equal(find(&copy, 110500), MATCHER_IDLE); /* wider */
    assert_int_equal(entry_of(&copy, "a")->level, 1);
    assert_int_equal(find(&copy, 199000), MATCHER_IDLE); /* urgent */
    assert_int_equal(matcher_seed_count(&copy.matcher), 0);
    assert_true(entry_of(&copy, "a")->is_urgent);
    mine_is(&copy, "[0, 1]");
    assert_int_equal(find(&copy, 199000), MATCHER_FOUND);
    pool_copy_deinit(&copy);
}

static void a_step_of_my_ticket_lets_it_look(void **state)
{
    struct pool_copy copy;
    (void)state;
    begin(&copy, WIDENING, true, 2);
    mine_is(&copy, "[1]");
    offer(&copy, "a", 0, "100.5", 100500);
    offer(&copy, "b", 3, "100.5", 100500);
    assert_int_equal(find(&copy, 110499), MATCHER_IDLE);
    assert_int_equal(find(&copy, 110500), MATCHER_FOUND);
    pool_copy_deinit(&copy);
}

static void a_part_that_there_is_not_is_refused(void **state)
{
    static const char *const wrong[] = {"[0, 2]", "[64]", "[-1]", "[0.5]", "[\"0\"]", "{}"};
    struct pool_copy copy;
    (void)state;
    begin(&copy, WIDENING, true, 2);
    mine_is(&copy, "[1]");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(takes_parts(&copy, wrong[i]));
    assert_true(!copy.is_mine[0] && copy.is_mine[1]);
    apply(&copy,
          "{\"Type\": \"offer\", \"TicketId\": \"a\", \"Version\": 1, \"Part\": 65, \"Attributes\": {\"x\": 1}, "
          "\"Weight\": 1, \"Priority\": 0, \"OfferedAt\": 100, \"ExpiresAt\": 200, \"Level\": 0}",
          100500);
    assert_int_equal(pool_copy_find_ticket(&copy, BYTES("a")), 0);
    assert_int_equal(copy.not_understood, 1);
    pool_copy_deinit(&copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_search_stops_when_its_budget_is_used_up),
        cmocka_unit_test(a_ticket_from_the_future_has_no_age),
        cmocka_unit_test(tickets_of_one_millisecond_have_numbers_of_their_own),
        cmocka_unit_test(a_step_of_a_ticket_that_is_not_mine_lets_nobody_look),
        cmocka_unit_test(a_step_of_my_ticket_lets_it_look),
        cmocka_unit_test(a_part_that_there_is_not_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
