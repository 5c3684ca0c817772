/* tally schedule show, pause, resume and delete: one request each, about one schedule. */
#include "tally/output.h"
#include <stdio.h>

static void print_next(yyjson_val *schedule)
{
    if (json_real(schedule, "NextAt") > 0)
        output_time("next", json_real(schedule, "NextAt"));
    else
        output_field("next", "never");
}

static void print_text(yyjson_val *schedule)
{
    static const char *const fields[][2] = {
        {"schedule", "Name"},    {"cron", "Cron"},        {"time zone", "TimeZone"},
        {"queue", "QueueUrl"},   {"body", "MessageBody"}, {"group", "MessageGroupId"},
        {"catch-up", "CatchUp"}, {"warning", "Warning"},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const char *text = json_text(schedule, fields[i][1]);
        if (text != NULL)
            output_field(fields[i][0], text);
    }
    output_field("state", json_is_true(schedule, "Paused") ? "paused" : "active");
    print_next(schedule);
    output_time("last", json_real(schedule, "LastAt"));
    if (json_text(schedule, "LastMessageId") != NULL)
        output_field("message", json_text(schedule, "LastMessageId"));
}

static int run_show(struct invocation *invocation)
{
    return output_named(invocation, "Name", "Tally.DescribeSchedule", print_text);
}

static int run_pause(struct invocation *invocation)
{
    return output_named(invocation, "Name", "Tally.PauseSchedule", NULL);
}

static int run_resume(struct invocation *invocation)
{
    return output_named(invocation, "Name", "Tally.ResumeSchedule", print_next);
}

static int run_delete(struct invocation *invocation)
{
    return output_named(invocation, "Name", "Tally.DeleteSchedule", NULL);
}

const struct command command_schedule_show = {
    .arguments = "NAME",
    .text = "Prints what a schedule sends, when it is next due, and the time and message of its last firing.\n",
    .examples = "  tally schedule show nightly\n"
                "  tally schedule show nightly --json | jq .NextAt\n",
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run_show,
};

const struct command command_schedule_pause = {
    .arguments = "NAME",
    .text = "Stops a schedule until `tally schedule resume`.\n",
    .examples = "  tally schedule pause nightly\n",
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run_pause,
};

const struct command command_schedule_resume = {
    .arguments = "NAME",
    .text = "Lets a paused schedule go on, and prints when it is next due. What it would have sent meanwhile is not "
            "sent.\n",
    .examples = "  tally schedule resume nightly\n",
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run_resume,
};

const struct command command_schedule_delete = {
    .arguments = "NAME",
    .text = "Deletes a schedule. Messages that it has sent stay.\n",
    .examples = "  tally schedule delete nightly\n",
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run_delete,
};
