/* Simulations: what a recorded ticket may look like, and in which order things happen. That the matcher finds what it
 * must is tests/match's. */
#include "matcher/simulation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* What happened, as text. */
struct story {
    char text[1024];
    size_t size;
};

static void record(struct story *story, const char *what, uint64_t at_ms, uint64_t first, uint64_t second)
{
    story->size +=
        (size_t)snprintf(story->text + story->size, sizeof(story->text) - story->size, "%s@%llu:%llu,%llu ", what,
                         (unsigned long long)at_ms, (unsigned long long)first, (unsigned long long)second);
}

static uint64_t number_of(const struct simulation *simulation, uint32_t slot)
{
    return simulation_ticket(simulation, slot)->entry.number;
}

static void on_match(void *context, const struct simulation *simulation, const struct matcher_group *group)
{
    record(context, "match", simulation->now_ms, number_of(simulation, group->slots[0]),
           number_of(simulation, group->slots[1]));
}

static void on_end(void *context, const struct simulation *simulation, uint32_t slot, enum simulation_end end)
{
    record(context, end == SIMULATION_EXPIRED ? "expired" : "cancelled", simulation->now_ms,
           number_of(simulation, slot), 0);
}

/* Offers the lines to a pool with these rules; the story to its end. */
static struct story play(const char *json, uint64_t ttl_ms, const char *const lines[], size_t count)
{
    struct story story = {.size = 0};
    struct simulation_watcher watcher = {.context = &story, .matched = on_match, .ended = on_end};
    struct failure failure = {.text = ""};
    struct simulation simulation;
    struct rules *rules = rules_create(bytes_from_string(json), &failure);
    assert_non_null(rules);
    simulation_init(&simulation, rules, 0, ttl_ms, 4096, &watcher);
    for (size_t i = 0; i < count; i++) {
        yyjson_doc *doc = yyjson_read(lines[i], strlen(lines[i]), 0);
        struct simulation_offer offer;
        assert_true(simulation_read(yyjson_doc_get_root(doc), &offer, &failure));
        assert_true(simulation_offer(&simulation, &offer, &failure));
        yyjson_doc_free(doc);
    }
    simulation_advance(&simulation, UINT64_MAX);
    simulation_deinit(&simulation);
    rules_destroy(rules);
    return story;
}

static void durations_have_a_unit(void **state)
{
    (void)state;
    uint64_t ms = 7;
    assert_true(simulation_duration(BYTES("500ms"), &ms) && ms == 500);
    assert_true(simulation_duration(BYTES("90s"), &ms) && ms == 90000);
    assert_true(simulation_duration(BYTES("2h"), &ms) && ms == 7200000);
    assert_false(simulation_duration(BYTES("10"), &ms));
    assert_false(simulation_duration(BYTES("s"), &ms));
    assert_false(simulation_duration(BYTES("-1s"), &ms));
    assert_int_equal(ms, 7200000);
}

static bool reads(const char *line, struct simulation_offer *offer, struct failure *failure)
{
    yyjson_doc *doc = yyjson_read(line, strlen(line), 0);
    bool is_read = simulation_read(yyjson_doc_get_root(doc), offer, failure);
    yyjson_doc_free(doc);
    return is_read;
}

static void a_line_of_a_file_and_an_offer_of_a_feed_say_the_same(void **state)
{
    (void)state;
    struct simulation_offer file = {.weight = 0}, feed = {.weight = 0};
    struct failure failure = {.text = ""};
    assert_true(reads("{\"key\": \"a\", \"t\": 1.5, \"n\": 2, \"prio\": 9, \"ttl\": \"3s\"}", &file, &failure));
    assert_true(reads("{\"TicketId\": \"a\", \"OfferedAt\": 1.5, \"Weight\": 2, \"Priority\": 9, \"ExpiresAt\": 4.5}",
                      &feed, &failure));
    assert_int_equal(file.at_ms, 1500);
    assert_int_equal(feed.at_ms, file.at_ms);
    assert_int_equal(feed.weight, file.weight);
    assert_int_equal(feed.priority, file.priority);
    assert_int_equal(file.ttl_ms, 3000);
    assert_int_equal(feed.ttl_ms, file.ttl_ms);
    assert_false(reads("{\"key\": \"a\"}", &file, &failure));
    assert_non_null(strstr(failure.text, "t must be"));
    assert_false(reads("[1]", &file, &failure));
}

/* At one instant arrivals come first, then steps, then expiries: who would expire at his own step may still be
 * matched. */
static void a_ticket_whose_ttl_ends_at_its_own_step_is_still_matched(void **state)
{
    (void)state;
    static const char rules[] = "{\"attrs\": {\"x\": \"num\"}, \"rules\": [{\"type\": \"near\", \"attr\": \"x\", "
                                "\"max\": 1, \"agree\": \"either\", \"expand\": [{\"after\": \"10s\", \"max\": 9}]}]}";
    static const char *const lines[] = {"{\"t\": 0, \"attrs\": {\"x\": 0}, \"ttl\": \"10s\"}",
                                        "{\"t\": 3, \"attrs\": {\"x\": 5}}", "{\"t\": 10, \"attrs\": {\"x\": 50}}"};
    assert_string_equal(play(rules, 0, lines, 3).text, "match@10000:1,2 ");
    assert_string_equal(play(rules, 4000, lines, 3).text, "expired@7000:2,0 expired@10000:1,0 expired@14000:3,0 ");
}

/* MR26, of a simulation. */
static void a_match_ends_the_others_of_its_members_sets(void **state)
{
    (void)state;
    static const char rules[] = "{\"attrs\": {\"x\": \"num\"}, \"rules\": [{\"type\": \"near\", \"attr\": \"x\", "
                                "\"max\": 1}]}";
    static const char *const lines[] = {"{\"t\": 0, \"attrs\": {\"x\": 0}, \"xid\": \"me\"}",
                                        "{\"t\": 1, \"attrs\": {\"x\": 0}, \"xid\": \"me\"}",
                                        "{\"t\": 2, \"attrs\": {\"x\": 1}}", "{\"t\": 3, \"attrs\": {\"x\": 0}}"};
    assert_string_equal(play(rules, 0, lines, 4).text, "match@2000:3,1 cancelled@2000:2,0 ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_have_a_unit),
        cmocka_unit_test(a_line_of_a_file_and_an_offer_of_a_feed_say_the_same),
        cmocka_unit_test(a_ticket_whose_ttl_ends_at_its_own_step_is_still_matched),
        cmocka_unit_test(a_match_ends_the_others_of_its_members_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
