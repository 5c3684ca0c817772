/* tally schedule list: a line for each schedule. */
#include "base/assert.h"
#include "tally/pages.h"
#include <stdio.h>
#include <time.h>

struct settings {
    const char *prefix;
};

static const struct option_row options[] = {
    {"prefix", "TEXT", "only schedules whose name begins so", OPTION_TEXT, offsetof(struct settings, prefix), 0, 0,
     NULL},
};

static void print(yyjson_val *schedule)
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
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        const char *text = json_text(schedule, names[i]);
        printf(" %s", text == NULL ? "" : text);
    }
    puts(json_text(schedule, "Warning") == NULL ? "" : " (its time zone can't be read)");
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    const char *const parameters[][2] = {{"Prefix", settings->prefix}};
    const struct pages pages = {
        .target = "Tally.ListSchedules",
        .list = "Schedules",
        .parameters = parameters,
        .parameter_count = ARRAY_LENGTH(parameters),
        .print = print,
    };
    return pages_print(invocation, &pages);
}

const struct command command_schedule_list = {
    .arguments = "",
    .text = "Prints a line for each schedule, in the order of their names: when it is next due, its name, its "
            "expression and\n"
            "time zone. With --json each schedule is one line of JSON.\n",
    .examples = "  tally schedule list\n"
                "  tally schedule list --prefix nightly- --json\n",
    .options = options,
    .option_count = ARRAY_LENGTH(options),
    .settings_size = sizeof(struct settings),
    .run = run,
};
