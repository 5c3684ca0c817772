/* tally group list: the groups of a queue, and why some of them wait. */
#include "base/assert.h"
#include "tally/pages.h"
#include <stdio.h>
#include <string.h>

struct settings {
    const char *state;
};

static const struct option_row options[] = {
    {"state", "STATE", "only groups that are held, busy, ready or paused", OPTION_TEXT,
     offsetof(struct settings, state), 0, 0, NULL},
};

static void print_text(yyjson_val *group)
{
    const char *id = json_text(group, "MessageGroupId");
    const char *state = json_text(group, "State");
    const char *reason = json_text(group, "Reason");

    printf("%-6s %8llu  %s", state == NULL ? "" : state, (unsigned long long)json_number(group, "Messages"),
           id == NULL ? "" : id);
    if (json_is_true(group, "Paused") && state != NULL && strcmp(state, "paused") != 0)
        printf("  (paused)");
    if (reason != NULL && strcmp(reason, "paused") != 0)
        printf("  %s", reason);
    puts("");
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    const char *const parameters[][2] = {{"QueueUrl", invocation->arguments[0]}, {"State", settings->state}};
    return pages_print(invocation, &(struct pages){
                                       .target = "Tally.ListGroups",
                                       .list = "Groups",
                                       .parameters = parameters,
                                       .parameter_count = ARRAY_LENGTH(parameters),
                                       .print = print_text,
                                   });
}

const struct command command_group_list = {
    .arguments = "QUEUE",
    .text = "Lists the groups of a queue, one a line: state, number of messages, MessageGroupId, and why it is not "
            "ready, which\n"
            "speaks of the message whose turn it is.\n"
            "  ready   its next message can be received\n"
            "  busy    its next message is in flight, delayed or waits for something else\n"
            "  held    a message of it failed for good; `tally group release` lets it go on\n"
            "  paused  `tally group resume` lets it go on\n"
            "With --json each group is one line of JSON.\n",
    .examples = "  tally group list comments.fifo\n"
                "  tally group list comments.fifo --state held\n",
    .options = options,
    .option_count = ARRAY_LENGTH(options),
    .settings_size = sizeof(struct settings),
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};
