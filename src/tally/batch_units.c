/* tally batch units: a line for each unit of a batch. */
#include "base/assert.h"
#include "tally/pages.h"
#include <stdio.h>

struct settings {
    const char *state;
};

static const struct option_row options[] = {
    {"state", "STATE", "only these: outstanding, succeeded, failed or cancelled", OPTION_TEXT,
     offsetof(struct settings, state), 0, 0, NULL},
};

static void print(yyjson_val *unit)
{
    const char *key = json_text(unit, "Unit");
    const char *state = json_text(unit, "State");
    const char *detail = json_text(unit, "Detail");
    printf("%-12s %s%s%s\n", state == NULL ? "" : state, key == NULL ? "" : key, detail == NULL ? "" : "  ",
           detail == NULL ? "" : detail);
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    const char *const parameters[][2] = {{"BatchId", invocation->arguments[0]}, {"State", settings->state}};
    const struct pages pages = {
        .target = "Tally.ListUnits",
        .list = "Units",
        .parameters = parameters,
        .parameter_count = ARRAY_LENGTH(parameters),
        .print = print,
    };
    return pages_print(invocation, &pages);
}

const struct command command_batch_units = {
    .arguments = "ID",
    .text =
        "Prints a line for each unit of a batch: its state, its key (of a message: the message id), and what was kept\n"
        "with it when it ended. With --json each unit is one line of JSON.\n",
    .examples = "  tally batch units night --state outstanding\n"
                "  tally batch units night --state failed --json\n",
    .options = options,
    .option_count = ARRAY_LENGTH(options),
    .settings_size = sizeof(struct settings),
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};
