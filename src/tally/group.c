/* The groups of a queue: tally group list, pause, resume and release. */
#include "base/assert.h"
#include "tally/pages.h"
#include "tally/selection.h"
#include <stdio.h>
#include <string.h>

static void print_group(yyjson_val *group)
{
    const char *state = output_text_of(group, "State"), *reason = json_text(group, "Reason");
    printf("%-6s %8llu  %s", state, (unsigned long long)json_number(group, "Messages"),
           output_text_of(group, "MessageGroupId"));
    if (json_is_true(group, "Paused") && strcmp(state, "paused") != 0)
        printf("  (paused)");
    if (reason != NULL && strcmp(reason, "paused") != 0)
        output_in_line("  ", reason);
    puts("");
}

struct list_settings {
    const char *state;
    const char *group;
};

static const struct setting list_table[] = {
    {"state", offsetof(struct list_settings, state)},
    {"group", offsetof(struct list_settings, group)},
};

static void ask(void *context, struct json_body *body)
{
    const struct invocation *invocation = context;
    const struct list_settings *settings = invocation->settings;
    json_add_text(body, body->root, "QueueUrl", invocation->arguments[0]);
    json_add_text(body, body->root, "State", settings->state);
    json_add_text(body, body->root, "MessageGroupId", settings->group);
}

static int run_list(struct invocation *invocation)
{
    const int status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    return pages_run(&(struct pages){.invocation = invocation,
                                     .action = "Tally.ListGroups",
                                     .list = "Groups",
                                     .ask = ask,
                                     .print = print_group,
                                     .context = invocation});
}

struct release_settings {
    bool retries;
    bool skips;
    bool cancels_rest;
    bool is_dry_run;
};

static const struct setting release_table[] = {
    {"retry", offsetof(struct release_settings, retries)},
    {"skip", offsetof(struct release_settings, skips)},
    {"cancel-rest", offsetof(struct release_settings, cancels_rest)},
    {"dry-run", offsetof(struct release_settings, is_dry_run)},
};

static int run_release(struct invocation *invocation)
{
    const struct release_settings *settings = invocation->settings;
    struct json_body body;
    if (settings->retries + settings->skips + settings->cancels_rest != 1)
        return complain_usage(invocation,
                              "say what becomes of the failed message: one of --retry, --skip, --cancel-rest");
    int status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    json_body_init(&body);
    json_add_text(&body, body.root, "QueueUrl", invocation->arguments[0]);
    json_add_text(&body, body.root, "MessageGroupId", invocation->arguments[1]);
    json_add_text(&body, body.root, "Action", settings->retries ? "retry" : settings->skips ? "skip" : "cancel-rest");
    return selection_call(invocation, &body, "Tally.ReleaseGroup", settings->is_dry_run);
}

const struct command command_group_list = {.settings = list_table,
                                           .setting_count = ARRAY_LENGTH(list_table),
                                           .settings_size = sizeof(struct list_settings),
                                           .run = run_list};
const struct command command_group_pause = {.action = "Tally.PauseGroup", .members = {"QueueUrl", "MessageGroupId"}};
const struct command command_group_resume = {.action = "Tally.ResumeGroup", .members = {"QueueUrl", "MessageGroupId"}};
const struct command command_group_release = {.settings = release_table,
                                              .setting_count = ARRAY_LENGTH(release_table),
                                              .settings_size = sizeof(struct release_settings),
                                              .run = run_release};
