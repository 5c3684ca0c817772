/* Commands about an existing schedule: tally schedule list, show, pause, resume, fire and delete. */
#include "base/assert.h"
#include "tally/output.h"
#include <stdio.h>
#include <time.h>

static void print_line(yyjson_val *schedule)
{
    static const char *const names[] = {"Name", "Cron", "TimeZone"};
    char next[32] = "never";
    time_t seconds = (time_t)json_real(schedule, "NextAt");
    struct tm tm;
    if (json_is_true(schedule, "Paused"))
        snprintf(next, sizeof next, "paused");
    else if (seconds > 0 && gmtime_r(&seconds, &tm) != NULL)
        strftime(next, sizeof next, "%Y-%m-%d %H:%M:%S UTC", &tm);
    printf("%-24s", next);
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        printf(" %s", output_text_of(schedule, names[i]));
    puts(json_text(schedule, "Warning") == NULL ? "" : " (its time zone can't be read)");
}

static void print_next(yyjson_val *schedule)
{
    if (json_real(schedule, "NextAt") > 0)
        output_time("next", json_real(schedule, "NextAt"));
    else
        output_field("next", "never");
}

static void print_fired(yyjson_val *reply)
{
    puts(output_text_of(reply, "MessageId"));
}

static void print_schedule(yyjson_val *schedule)
{
    static const char *const fields[][2] = {
        {"schedule", "Name"},    {"cron", "Cron"},        {"time zone", "TimeZone"},
        {"queue", "QueueUrl"},   {"body", "MessageBody"}, {"group", "MessageGroupId"},
        {"catch-up", "CatchUp"}, {"warning", "Warning"},
    };
    static const char *const message[][2] = {{"message", "LastMessageId"}};
    output_members(schedule, fields, ARRAY_LENGTH(fields));
    output_field("state", json_is_true(schedule, "Paused") ? "paused" : "active");
    print_next(schedule);
    output_time("last", json_real(schedule, "LastAt"));
    output_members(schedule, message, 1);
}

struct settings {
    const char *prefix;
};

static const struct setting settings_table[] = {
    {"prefix", offsetof(struct settings, prefix)},
};

const struct command command_schedule_list = {.settings = settings_table,
                                              .setting_count = ARRAY_LENGTH(settings_table),
                                              .settings_size = sizeof(struct settings),
                                              .action = "Tally.ListSchedules",
                                              .list = "Schedules",
                                              .print = print_line};
const struct command command_schedule_show = {
    .action = "Tally.DescribeSchedule", .members = {"Name"}, .print = print_schedule};
const struct command command_schedule_pause = {.action = "Tally.PauseSchedule", .members = {"Name"}};
const struct command command_schedule_resume = {
    .action = "Tally.ResumeSchedule", .members = {"Name"}, .print = print_next};
const struct command command_schedule_fire = {
    .action = "Tally.FireSchedule", .members = {"Name"}, .print = print_fired};
const struct command command_schedule_delete = {.action = "Tally.DeleteSchedule", .members = {"Name"}};
