/* Schedules: each firing once, whatever is interrupted, and what becomes of those that were missed. */
#include "scenario.h"

#include "core/schedules/schedule.h"
#include "support/zones.h"

/* WORLD_START_MS is 2023-11-14 22:13:20 UTC. */
#define START_S UINT64_C(1700000000)
#define MINUTE_S 60u
#define FIRST_MINUTE_S (START_S + 40)

static void put(struct world *world, const char *name, const char *cron, const char *queue, const char *more)
{
    struct answer answer =
        world_call(world, "Tally.PutSchedule", "{'Name':'%s','Cron':'%s','QueueUrl':'%s','MessageBody':'tick'%s}", name,
                   cron, queue, more);
    EXPECT(world, answer.error == NULL && strcmp(answer_text(answer, "Name"), name) == 0);
}

static void delete_schedule(struct world *world, const char *name)
{
    struct answer answer = world_call(world, "Tally.DeleteSchedule", "{'Name':'%s'}", name);
    EXPECT(world, answer.error == NULL || (answer.is_repeat && answer_fails(answer, "ScheduleDoesNotExist")));
}

static uint64_t seconds_of(struct answer answer, const char *name)
{
    return (uint64_t)yyjson_get_num(yyjson_obj_get(answer.root, name));
}

static struct answer describe(struct world *world, const char *name)
{
    struct answer answer = world_call(world, "Tally.DescribeSchedule", "{'Name':'%s'}", name);
    EXPECT(world, answer.error == NULL);
    return answer;
}

/* The queue holds one message for each of these times, and nothing else. No schedule may be left: receiving takes
 * time. */
static void expect_firings(struct world *world, const char *queue, const char *name, const uint64_t *times_s,
                           unsigned count)
{
    EXPECT(world, world_count_messages(world, queue) == count);
    struct taken held[64];
    ASSERT(count <= sizeof(held) / sizeof(*held));
    world_hold(world, queue, 60, count, held);
    for (unsigned i = 0; i < count; i++) {
        char id[128];
        unsigned found = 0;
        snprintf(id, sizeof(id), "%s/%llu", name, (unsigned long long)times_s[i]);
        for (unsigned j = 0; j < count; j++)
            found += strcmp(held[j].deduplication, id) == 0;
        EXPECT(world, found == 1 && strcmp(held[i].body, "tick") == 0);
    }
    for (unsigned i = 0; i < count; i++)
        world_delete(world, queue, held[i].handle);
}

/* The server is away for `away_s`, and then there again. */
static void stay_away(struct world *world, unsigned away_s)
{
    world_pass_time(world, 0);
    world_stop(world, true);
    world->now_ms += (uint64_t)away_s * 1000;
    world_start(world);
    world_pass_time(world, 0);
}

static void T50_each_firing_happens_once_across_restarts(struct world *world)
{
    uint64_t often_s[12], once_s[] = {START_S + 400 + 600};
    for (unsigned i = 0; i < 12; i++)
        often_s[i] = START_S + 100 + i * 5 * MINUTE_S;
    world_create_queue(world, "often", "");
    world_create_queue(world, "once", "");
    put(world, "often", "*/5 * * * *", "often", "");
    put(world, "once", "30 22 14 nov *", "once", "");
    EXPECT(world, seconds_of(describe(world, "often"), "NextAt") == often_s[0]);
    for (unsigned i = 0; i < 6; i++)
        world_pass_time(world, 10 * MINUTE_S * 1000);
    struct answer answer = describe(world, "often");
    EXPECT(world, seconds_of(answer, "LastAt") == often_s[11]);
    EXPECT(world, seconds_of(answer, "NextAt") == often_s[11] + 5 * MINUTE_S);
    EXPECT(world, seconds_of(describe(world, "once"), "NextAt") == once_s[0] + UINT64_C(366) * 86400);
    delete_schedule(world, "often");
    delete_schedule(world, "once");
    expect_firings(world, "often", "often", often_s, 12);
    expect_firings(world, "once", "once", once_s, 1);
}

static void T50_schedules_resume_as_their_catch_up_rule_says(struct world *world)
{
    /* Away from 22:13:30 to 22:18:30: what was due from 22:17:30 on is not missed yet. */
    uint64_t all_s[6];
    for (unsigned i = 0; i < 6; i++)
        all_s[i] = FIRST_MINUTE_S + i * MINUTE_S;
    world_create_queue(world, "one", "");
    world_create_queue(world, "none", "");
    world_create_queue(world, "all", "");
    put(world, "one", "* * * * *", "one", "");
    put(world, "none", "* * * * *", "none", ",'CatchUp':'none'");
    put(world, "all", "* * * * *", "all", ",'CatchUp':'all'");
    world_pass_time(world, 10000);
    stay_away(world, 300);
    EXPECT(world, world_count_messages(world, "all") == 5);
    world_pass_time(world, 30000);
    delete_schedule(world, "one");
    delete_schedule(world, "none");
    delete_schedule(world, "all");
    expect_firings(world, "one", "one", (uint64_t[]){all_s[0], all_s[4], all_s[5]}, 3);
    expect_firings(world, "none", "none", (uint64_t[]){all_s[4], all_s[5]}, 2);
    expect_firings(world, "all", "all", all_s, 6);
}

static void firing_that_is_less_than_a_minute_late_is_not_missed(struct world *world)
{
    world_create_queue(world, "q", "");
    put(world, "hourly", "14 * * * *", "q", ",'CatchUp':'none'");
    stay_away(world, 40 + 60);
    delete_schedule(world, "hourly");
    expect_firings(world, "q", "hourly", (uint64_t[]){FIRST_MINUTE_S}, 1);
    put(world, "later", "20 * * * *", "q", ",'CatchUp':'none'");
    stay_away(world, (6 * MINUTE_S + 1) + 60); /* 22:15:00 at least, so more than a minute after 22:20 */
    EXPECT(world, !answer_has(describe(world, "later"), "LastAt"));
    EXPECT(world, seconds_of(describe(world, "later"), "NextAt") == FIRST_MINUTE_S + 6 * MINUTE_S + 3600);
    delete_schedule(world, "later");
    EXPECT(world, world_count_messages(world, "q") == 0);
}

static void putting_again_replaces_and_loses_no_firing_that_is_due(struct world *world)
{
    world_create_queue(world, "q", "");
    put(world, "s", "14 * * * *", "q", "");
    world_pass_time(world, 0);
    world_stop(world, true);
    world->now_ms += 50000;
    world_start(world);
    put(world, "s", "14 * * * *", "q", ",'CatchUp':'none'"); /* before the server has looked at what is due */
    world_pass_time(world, 0);
    EXPECT(world, world_count_messages(world, "q") == 1);
    put(world, "s", "0 0 * * *", "q", ",'TimeZone':'Asia/Kathmandu'");
    EXPECT(world, seconds_of(describe(world, "s"), "NextAt") == UINT64_C(1700072100)); /* 18:15 UTC of the next day */
    delete_schedule(world, "s");
    expect_firings(world, "q", "s", (uint64_t[]){FIRST_MINUTE_S}, 1);
}

static void paused_schedule_fires_nothing_and_goes_on_from_now(struct world *world)
{
    world_create_queue(world, "q", "");
    put(world, "s", "* * * * *", "q", ",'CatchUp':'all'");
    EXPECT(world, world_call(world, "Tally.PauseSchedule", "{'Name':'s'}").error == NULL);
    world_pass_time(world, 5 * MINUTE_S * 1000);
    put(world, "s", "* * * * *", "q", ",'CatchUp':'all'"); /* stays paused */
    EXPECT(world, !answer_has(describe(world, "s"), "NextAt") && answer_is_true(describe(world, "s"), "Paused"));
    EXPECT(world, world_call(world, "Tally.ResumeSchedule", "{'Name':'s'}").error == NULL);
    world_pass_time(world, MINUTE_S * 1000);
    delete_schedule(world, "s");
    expect_firings(world, "q", "s", (uint64_t[]){FIRST_MINUTE_S + 5 * MINUTE_S}, 1);
}

static void fifo_queue_gets_firings_in_their_group(struct world *world)
{
    world_create_queue(world, "q.fifo", "'FifoQueue':'true'");
    EXPECT(world, answer_fails(world_call(world, "Tally.PutSchedule",
                                          "{'Name':'s','Cron':'* * * * *','QueueUrl':'q.fifo','MessageBody':'tick'}"),
                               "MissingRequiredParameterException"));
    put(world, "s", "* * * * *", "q.fifo", ",'MessageGroupId':'g'");
    stay_away(world, 40);
    world_pass_time(world, MINUTE_S * 1000);
    EXPECT(world, strcmp(answer_text(describe(world, "s"), "MessageGroupId"), "g") == 0);
    delete_schedule(world, "s");
    expect_firings(world, "q.fifo", "s", (uint64_t[]){FIRST_MINUTE_S, FIRST_MINUTE_S + MINUTE_S}, 2);
}

static void queue_of_a_schedule_stays_until_the_schedule_goes(struct world *world)
{
    world_create_queue(world, "q", "");
    put(world, "s", "@daily", "q", "");
    put(world, "s", "@daily", "q", "");
    EXPECT(world, answer_fails(world_call(world, "DeleteQueue", "{'QueueUrl':'q'}"), "QueueInUse"));
    world_create_queue(world, "r", "");
    put(world, "s", "@daily", "r", "");
    EXPECT(world, answer_fails(world_call(world, "DeleteQueue", "{'QueueUrl':'r'}"), "QueueInUse"));
    delete_schedule(world, "s");
    struct answer answer = world_call(world, "DeleteQueue", "{'QueueUrl':'r'}");
    EXPECT(world, answer.error == NULL || answer.is_repeat);
    EXPECT(world, answer_fails(world_call(world, "Tally.DescribeSchedule", "{'Name':'s'}"), "ScheduleDoesNotExist"));
}

static void schedules_are_listed_by_name_in_pages(struct world *world)
{
    static const char *const names[] = {"a.1", "b", "a-2", "a_3"};
    world_create_queue(world, "q", "");
    for (unsigned i = 0; i < 4; i++)
        put(world, names[i], "@hourly", "q", "");
    struct answer answer = world_call(world, "Tally.ListSchedules", "{'Prefix':'a','MaxResults':2}");
    yyjson_val *list = yyjson_obj_get(answer.root, "Schedules");
    EXPECT(world, yyjson_arr_size(list) == 2);
    EXPECT(world, strcmp(yyjson_get_str(yyjson_obj_get(yyjson_arr_get(list, 0), "Name")), "a-2") == 0);
    answer = world_call(world, "Tally.ListSchedules", "{'Prefix':'a','MaxResults':2,'NextToken':'%s'}",
                        answer_text(answer, "NextToken"));
    list = yyjson_obj_get(answer.root, "Schedules");
    EXPECT(world, yyjson_arr_size(list) == 1 && !answer_has(answer, "NextToken"));
    EXPECT(world, strcmp(yyjson_get_str(yyjson_obj_get(yyjson_arr_get(list, 0), "Name")), "a_3") == 0);
}

static void what_makes_no_schedule_is_refused(struct world *world)
{
    static const struct {
        const char *members;
        const char *error;
    } bad[] = {
        {"'Name':'a b','Cron':'@daily'", "InvalidParameterValueException"},
        {"'Name':'','Cron':'@daily'", "MissingRequiredParameterException"},
        {"'Name':'s'", "MissingRequiredParameterException"},
        {"'Name':'s','Cron':'0 0 * *'", "InvalidParameterValueException"},
        {"'Name':'s','Cron':'@daily','TimeZone':'Berlin'", "InvalidParameterValueException"},
        {"'Name':'s','Cron':'@daily','TimeZone':''", "InvalidParameterValueException"},
        {"'Name':'s','Cron':'@daily','CatchUp':'some'", "InvalidParameterValueException"},
        {"'Name':'s','Cron':'@daily','MessageGroupId':'a b'", "InvalidParameterValueException"},
        {"'Name':'s','Cron':'@daily','MessageAttributes':{'Tally.Batch':{'DataType':'String','StringValue':'b'}}",
         "InvalidParameterValueException"},
    };
    world_create_queue(world, "q", "");
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct answer answer =
            world_call(world, "Tally.PutSchedule", "{%s,'QueueUrl':'q','MessageBody':'b'}", bad[i].members);
        if (!answer_fails(answer, bad[i].error))
            fail_msg("{%s}: %s", bad[i].members, answer.error);
    }
    EXPECT(world, answer_fails(world_call(world, "Tally.PutSchedule",
                                          "{'Name':'s','Cron':'@daily','QueueUrl':'none','MessageBody':'b'}"),
                               "QueueDoesNotExist"));
    /* A time that never comes is no fault: there is just no next one. */
    put(world, "never", "0 0 30 2 *", "q", "");
    EXPECT(world, !answer_has(describe(world, "never"), "NextAt"));
}

/* Away for 30 hours: 1,000 firings are made up for, the oldest first, then it goes on with what was not missed. */
static void at_most_a_thousand_firings_are_made_up_for(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.way = WORLD_PLAIN, .seed = 9});
    world_create_queue(world, "q", "");
    put(world, "s", "* * * * *", "q", ",'CatchUp':'all'");
    stay_away(world, 30 * 3600);
    EXPECT(world, world_count_messages(world, "q") == SCHEDULE_CATCH_UP_MAX + 1);
    uint64_t now_s = START_S + 30 * 3600;
    EXPECT(world, seconds_of(describe(world, "s"), "LastAt") == now_s - 20);
    EXPECT(world, seconds_of(describe(world, "s"), "NextAt") == now_s + 40);
    world_audit(world);
    world_destroy(world);
}

/* Through a year of Berlin's clocks: one message each day. */
static void a_daily_schedule_fires_once_a_day_over_both_changes(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.way = WORLD_PLAIN, .seed = 10});
    world_create_queue(world, "q", "'MessageRetentionPeriod':'60'");
    put(world, "s", "30 2 * * *", "q", ",'TimeZone':'Europe/Berlin'");
    uint64_t expected_s = UINT64_C(1700011800); /* 2023-11-15 02:30 +01:00 */
    for (unsigned day = 0; day < 400; day++) {
        struct answer answer = describe(world, "s");
        uint64_t next_s = seconds_of(answer, "NextAt");
        bool is_summer = expected_s >= UINT64_C(1711846800) && expected_s < UINT64_C(1729994400);
        bool is_first_day = expected_s / 86400 == UINT64_C(1711846800) / 86400; /* 2024-03-31 has no 02:30 */
        EXPECT(world, next_s == expected_s - (is_first_day ? 1800 : is_summer ? 3600 : 0));
        world_pass_time(world, next_s * 1000 - world->now_ms);
        EXPECT(world, world_count_messages(world, "q") == 1);
        expected_s += 86400;
        world_forget(world);
    }
    world_destroy(world);
}

/* --- a time zone that can't be read ------------------------------------------------------------------------------- */

static bool metrics_say(struct world *world, const char *line)
{
    struct arena arena;
    struct buffer text;
    arena_init(&arena);
    buffer_init(&text);
    front_metrics_write(world->front, &arena, &text);
    buffer_append_u8(&text, 0);
    bool is_there = strstr((const char *)text.data_owned, line) != NULL;
    arena_deinit(&arena);
    buffer_deinit(&text);
    return is_there;
}

/* A server with a schedule each ten minutes whose time-zone data is gone since its last start. It is 22:13:20 UTC,
 * the schedule is due at 22:20. */
static struct world *open_without_zone(struct zones *zones, const char *rule)
{
    char more[80];
    zones_create(zones);
    zones_put(zones);
    struct world *world =
        world_create(&(struct world_options){.way = WORLD_PLAIN, .seed = 11, .zones_folder = zones->folder});
    world_create_queue(world, "q", "");
    snprintf(more, sizeof(more), ",'TimeZone':'Somewhere','CatchUp':'%s'", rule);
    put(world, "s", "*/10 * * * *", "q", more);
    zones_take_away(zones);
    world_kill(world);
    return world;
}

static void close_without_zone(struct world *world, struct zones *zones)
{
    world_audit(world);
    world_destroy(world);
    zones_destroy(zones);
}

#define DUE_S (START_S + 400) /* 22:20 */

static void a_schedule_whose_time_zone_is_gone_waits_and_fires_once_when_it_is_back(void **state)
{
    (void)state;
    struct zones zones;
    struct world *world = open_without_zone(&zones, "one");
    for (unsigned i = 0; i < 4; i++) {
        world_pass_time(world, 5 * MINUTE_S * 1000);
        EXPECT(world, world_count_messages(world, "q") == 0);
        EXPECT(world, seconds_of(describe(world, "s"), "NextAt") == DUE_S);
        if (i % 2 == 1)
            world_kill(world); /* nothing of it is written down */
    }
    zones_put(&zones);
    world_pass_time(world, MINUTE_S * 1000);
    EXPECT(world, world_count_messages(world, "q") == 1);
    struct answer answer = describe(world, "s");
    EXPECT(world, seconds_of(answer, "LastAt") == DUE_S);
    EXPECT(world, seconds_of(answer, "NextAt") == DUE_S + 1200); /* 22:40; 22:30 was missed with the first */
    world_pass_time(world, 10 * MINUTE_S * 1000);
    delete_schedule(world, "s");
    expect_firings(world, "q", "s", (uint64_t[]){DUE_S, DUE_S + 1200}, 2);
    close_without_zone(world, &zones);
}

static void what_becomes_of_firings_that_a_time_zone_kept_is_for_the_catch_up_rule(void **state)
{
    (void)state;
    struct zones zones;
    struct world *world = open_without_zone(&zones, "all");
    world_pass_time(world, 30 * MINUTE_S * 1000);
    zones_put(&zones);
    world_pass_time(world, MINUTE_S * 1000);
    delete_schedule(world, "s");
    expect_firings(world, "q", "s", (uint64_t[]){DUE_S, DUE_S + 600, DUE_S + 1200}, 3);
    close_without_zone(world, &zones);
    world = open_without_zone(&zones, "none");
    world_pass_time(world, 30 * MINUTE_S * 1000);
    zones_put(&zones);
    world_pass_time(world, MINUTE_S * 1000);
    EXPECT(world, seconds_of(describe(world, "s"), "NextAt") == DUE_S + 1800);
    delete_schedule(world, "s");
    EXPECT(world, world_count_messages(world, "q") == 0);
    close_without_zone(world, &zones);
}

static void a_time_zone_that_is_gone_is_told_in_replies_metrics_and_once_in_the_log(void **state)
{
    (void)state;
    struct zones zones;
    struct failure trouble;
    struct world *world = open_without_zone(&zones, "one");
    EXPECT(world, strstr(answer_text(describe(world, "s"), "Warning"), "Somewhere can't be read from /tmp/") != NULL);
    EXPECT(world, !api_take_warning(world->api, &trouble)); /* it is not due yet */
    EXPECT(world, metrics_say(world, "\ntally_schedules_waiting_for_zone 0\n"));
    for (unsigned i = 0; i < 60; i++) {
        world_pass_time(world, MINUTE_S * 1000);
        bool is_first = world->now_ms >= DUE_S * 1000 && world->now_ms < (DUE_S + MINUTE_S) * 1000;
        EXPECT(world, api_take_warning(world->api, &trouble) == is_first);
    }
    EXPECT(world, strstr(trouble.text, "schedule 's' is due and waits: its time zone Somewhere can't be read") != NULL);
    EXPECT(world, metrics_say(world, "\ntally_schedules_waiting_for_zone 1\n"));
    struct answer list = world_call(world, "Tally.ListSchedules", "{}");
    EXPECT(world,
           yyjson_is_str(yyjson_obj_get(yyjson_arr_get_first(yyjson_obj_get(list.root, "Schedules")), "Warning")));
    zones_put(&zones);
    world_pass_time(world, MINUTE_S * 1000);
    EXPECT(world, !answer_has(describe(world, "s"), "Warning"));
    EXPECT(world, metrics_say(world, "\ntally_schedules_waiting_for_zone 0\n"));
    EXPECT(world, !api_take_warning(world->api, &trouble));
    close_without_zone(world, &zones);
}

static void without_its_time_zone_no_schedule_is_put_or_resumed_and_any_is_paused_or_deleted(void **state)
{
    (void)state;
    struct zones zones;
    struct world *world = open_without_zone(&zones, "one");
    EXPECT(world, answer_fails(world_call(world, "Tally.PutSchedule",
                                          "{'Name':'t','Cron':'@daily','TimeZone':'Somewhere','QueueUrl':'q',"
                                          "'MessageBody':'b'}"),
                               "InvalidParameterValueException"));
    EXPECT(world, world_call(world, "Tally.PauseSchedule", "{'Name':'s'}").error == NULL);
    EXPECT(world, !answer_has(describe(world, "s"), "NextAt") && !answer_has(describe(world, "s"), "Warning"));
    struct answer answer = world_call(world, "Tally.ResumeSchedule", "{'Name':'s'}");
    EXPECT(world, answer_fails(answer, "ServiceUnavailable"));
    EXPECT(world, strstr(answer_text(answer, "message"), "stays paused: its time zone Somewhere") != NULL);
    EXPECT(world, answer_is_true(describe(world, "s"), "Paused"));
    zones_put(&zones);
    answer = world_call(world, "Tally.ResumeSchedule", "{'Name':'s'}");
    EXPECT(world, answer.error == NULL && seconds_of(answer, "NextAt") == DUE_S);
    delete_schedule(world, "s");
    close_without_zone(world, &zones);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(T50_each_firing_happens_once_across_restarts),
        SCENARIO(T50_schedules_resume_as_their_catch_up_rule_says),
        SCENARIO(firing_that_is_less_than_a_minute_late_is_not_missed),
        SCENARIO(putting_again_replaces_and_loses_no_firing_that_is_due),
        SCENARIO(paused_schedule_fires_nothing_and_goes_on_from_now),
        SCENARIO(fifo_queue_gets_firings_in_their_group),
        SCENARIO(queue_of_a_schedule_stays_until_the_schedule_goes),
        SCENARIO(schedules_are_listed_by_name_in_pages),
        SCENARIO(what_makes_no_schedule_is_refused),
        cmocka_unit_test(at_most_a_thousand_firings_are_made_up_for),
        cmocka_unit_test(a_daily_schedule_fires_once_a_day_over_both_changes),
        cmocka_unit_test(a_schedule_whose_time_zone_is_gone_waits_and_fires_once_when_it_is_back),
        cmocka_unit_test(what_becomes_of_firings_that_a_time_zone_kept_is_for_the_catch_up_rule),
        cmocka_unit_test(a_time_zone_that_is_gone_is_told_in_replies_metrics_and_once_in_the_log),
        cmocka_unit_test(without_its_time_zone_no_schedule_is_put_or_resumed_and_any_is_paused_or_deleted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
