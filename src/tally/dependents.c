/* tally dependents: what waits for a message or a batch. */
#include "base/assert.h"
#include "tally/pages.h"

#include <stdio.h>
#include <string.h>

struct settings {
    const char *batch;
    struct option_number limit;
};

static const struct setting settings_table[] = {
    {"batch", offsetof(struct settings, batch)},
    {"limit", offsetof(struct settings, limit)},
};

static void print_line(yyjson_val *message)
{
    const char *url = output_text_of(message, "QueueUrl"), *slash = strrchr(url, '/');
    printf("%-9s  %s", output_text_of(message, "State"), output_text_of(message, "MessageId"));
    output_in_line("  ", slash == NULL ? url : slash + 1);
    puts("");
}

static void ask(void *context, struct json_body *body)
{
    const struct invocation *invocation = context;
    const struct settings *settings = invocation->settings;
    json_add_text(body, body->root, "MessageId", invocation->argument_count == 0 ? NULL : invocation->arguments[0]);
    json_add_text(body, body->root, "BatchId", settings->batch);
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    if ((settings->batch != NULL) == (invocation->argument_count > 0))
        return complain_usage(invocation, "give either a MessageId or --batch");
    const int status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    return pages_run(&(struct pages){.invocation = invocation,
                                     .action = "Tally.ListDependents",
                                     .list = "Dependents",
                                     .limit = settings->limit.value,
                                     .ask = ask,
                                     .print = print_line,
                                     .context = invocation});
}

const struct command command_dependents = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run,
};
