/* What `tally match` makes of a feed: levels, numbers, and who looks for partners. */
#include "matcher/replica.h"

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

static void begin(struct replica *replica, const char *rules, bool has_own_rules, uint32_t parts)
{
    struct failure failure = {.text = ""};
    struct rules *made = rules_create(bytes_from_string(rules), &failure);
    assert_non_null(made);
    replica_init(replica, made, has_own_rules, parts);
}

static void apply(struct replica *replica, const char *event, uint64_t now_ms)
{
    yyjson_doc *doc = yyjson_read(event, strlen(event), YYJSON_READ_NOFLAG);
    assert_non_null(doc);
    replica_apply(replica, yyjson_doc_get_root(doc), now_ms);
    yyjson_doc_free(doc);
}

/* Of version 1 and part 1. */
static void offer(struct replica *replica, const char *key, int x, const char *offered_at, uint64_t now_ms)
{
    char event[300];
    snprintf(event, sizeof(event),
             "{\"Type\": \"offer\", \"TicketId\": \"%s\", \"Version\": 1, \"Part\": 1, \"Attributes\": {\"x\": %d}, "
             "\"Weight\": 1, \"Priority\": 0, \"OfferedAt\": %s, \"ExpiresAt\": 200, \"Level\": 0}",
             key, x, offered_at);
    apply(replica, event, now_ms);
}

static const struct entry *entry_of(const struct replica *replica, const char *key)
{
    uint32_t slot = replica_find_ticket(replica, bytes_from_string(key));
    assert_int_not_equal(slot, 0);
    return &replica_ticket(replica, slot)->entry;
}

static enum matcher_outcome find(struct replica *replica, uint64_t now_ms)
{
    struct matcher_group group;
    uint32_t budget = BUDGET;
    return replica_find(replica, now_ms, &budget, &group);
}

static void a_search_stops_when_its_budget_is_used_up(void **state)
{
    struct replica replica;
    struct matcher_group group;
    uint32_t budget = 20;
    (void)state;
    begin(&replica, WIDENING, false, 0);
    for (int i = 0; i < 100; i++) {
        char key[16];
        snprintf(key, sizeof(key), "t%d", i);
        offer(&replica, key, 10 * i, "100.5", 100500);
    }
    assert_int_equal(replica_find(&replica, 100500, &budget, &group), MATCHER_TIRED);
    assert_true(matcher_seed_count(&replica.matcher) > 0);
    assert_int_equal(find(&replica, 100500), MATCHER_IDLE);
    replica_deinit(&replica);
}

static void a_ticket_from_the_future_has_no_age(void **state)
{
    struct replica replica;
    (void)state;
    begin(&replica, WIDENING, true, 0);
    offer(&replica, "a", 0, "100.5", 99000);
    offer(&replica, "b", 3, "100.5", 99000);
    assert_int_equal(entry_of(&replica, "a")->level, 0);
    assert_int_equal(find(&replica, 99000), MATCHER_IDLE);
    assert_int_equal(find(&replica, 110499), MATCHER_IDLE);
    assert_int_equal(find(&replica, 110500), MATCHER_FOUND);
    replica_deinit(&replica);
}

static void tickets_of_one_millisecond_have_numbers_of_their_own(void **state)
{
    struct replica replica;
    (void)state;
    begin(&replica, WIDENING, false, 0);
    offer(&replica, "a", 0, "100.5", 100500);
    for (uint64_t i = 1; i < UINT64_C(1) << 20; i++) { /* all that the bits of the order can say: others come and go */
        offer(&replica, "other", 50, "99.5", 100500);
        apply(&replica, "{\"Type\": \"retire\", \"TicketId\": \"other\"}", 100500);
    }
    offer(&replica, "b", 0, "100.5", 100500);
    offer(&replica, "c", 20, "100.499", 100500);
    assert_true(entry_of(&replica, "a")->number != entry_of(&replica, "b")->number);
    assert_true(entry_of(&replica, "c")->number < entry_of(&replica, "a")->number);
    assert_int_equal(find(&replica, 100500), MATCHER_FOUND);
    matcher_check(&replica.matcher);
    replica_deinit(&replica);
}

static bool takes_parts(struct replica *replica, const char *parts)
{
    yyjson_doc *doc = yyjson_read(parts, strlen(parts), YYJSON_READ_NOFLAG);
    bool is_taken = replica_set_parts(replica, yyjson_doc_get_root(doc));
    yyjson_doc_free(doc);
    return is_taken;
}

static void mine_is(struct replica *replica, const char *parts)
{
    assert_true(takes_parts(replica, parts));
}

static void a_step_of_a_ticket_that_is_not_mine_lets_nobody_look(void **state)
{
    struct replica replica;
    (void)state;
    begin(&replica, WIDENING, true, 2);
    mine_is(&replica, "[0]");
    offer(&replica, "a", 0, "100.5", 100500);
    offer(&replica, "b", 3, "100.5", 100500);
    assert_int_equal(find(&replica, 110500), MATCHER_IDLE); /* wider */
    assert_int_equal(entry_of(&replica, "a")->level, 1);
    assert_int_equal(find(&replica, 199000), MATCHER_IDLE); /* urgent */
    assert_int_equal(matcher_seed_count(&replica.matcher), 0);
    assert_true(entry_of(&replica, "a")->is_urgent);
    mine_is(&replica, "[0, 1]");
    assert_int_equal(find(&replica, 199000), MATCHER_FOUND);
    replica_deinit(&replica);
}

static void a_step_of_my_ticket_lets_it_look(void **state)
{
    struct replica replica;
    (void)state;
    begin(&replica, WIDENING, true, 2);
    mine_is(&replica, "[1]");
    offer(&replica, "a", 0, "100.5", 100500);
    offer(&replica, "b", 3, "100.5", 100500);
    assert_int_equal(find(&replica, 110499), MATCHER_IDLE);
    assert_int_equal(find(&replica, 110500), MATCHER_FOUND);
    replica_deinit(&replica);
}

static void a_part_that_there_is_not_is_refused(void **state)
{
    static const char *const wrong[] = {"[0, 2]", "[64]", "[-1]", "[0.5]", "[\"0\"]", "{}"};
    struct replica replica;
    (void)state;
    begin(&replica, WIDENING, true, 2);
    mine_is(&replica, "[1]");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(takes_parts(&replica, wrong[i]));
    assert_true(!replica.is_mine[0] && replica.is_mine[1]);
    apply(&replica,
          "{\"Type\": \"offer\", \"TicketId\": \"a\", \"Version\": 1, \"Part\": 65, \"Attributes\": {\"x\": 1}, "
          "\"Weight\": 1, \"Priority\": 0, \"OfferedAt\": 100, \"ExpiresAt\": 200, \"Level\": 0}",
          100500);
    assert_int_equal(replica_find_ticket(&replica, BYTES("a")), 0);
    assert_int_equal(replica.not_understood, 1);
    replica_deinit(&replica);
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
