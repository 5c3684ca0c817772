/* tally release: takes a message in flight away from whoever has it. */
#include "base/assert.h"
#include "tally/queue_arn.h"
#include "tally/selection.h"
#include <stdio.h>
#include <string.h>

struct settings {
    bool is_dry_run;
};

static const struct setting settings_table[] = {
    {"dry-run", offsetof(struct settings, is_dry_run)},
};

static void print_attempt(yyjson_val *answer)
{
    char text[64];
    const unsigned long long attempt = json_number(answer, "Attempt"), max = json_number(answer, "MaxAttempts");
    if (max == 0)
        snprintf(text, sizeof(text), "%llu", attempt);
    else
        snprintf(text, sizeof(text), "%llu of %llu", attempt, max);
    output_field("attempt", text);
}

static const char *words_of(const char *outcome)
{
    if (strcmp(outcome, "returned") == 0)
        return "delivers it again";
    return strcmp(outcome, "held") == 0 ? "holds its group: it has no attempts left"
                                        : "gives it up to the dead-letter queue: it has no attempts left";
}

static void print(yyjson_val *answer)
{
    char holder[OUTPUT_HOLDER_SIZE];
    const char *dead_letters = json_text(answer, "DeadLetterQueueUrl");
    output_field("queue", queue_name_in(output_text_of(answer, "QueueUrl")));
    output_holder(answer, holder);
    if (holder[0] != '\0')
        output_field("held by", holder);
    print_attempt(answer);
    output_field("next", words_of(output_text_of(answer, "Outcome")));
    if (dead_letters != NULL)
        output_field("goes to", queue_name_in(dead_letters));
}

static void print_foreseen(yyjson_val *answer)
{
    print(answer);
    selection_print(answer);
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    struct json_body body;
    const int status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    json_body_init(&body);
    json_add_text(&body, body.root, "MessageId", invocation->arguments[0]);
    if (settings->is_dry_run)
        yyjson_mut_obj_add_bool(body.doc_owned, body.root, "DryRun", true);
    return output_call(invocation, &body, "Tally.ReleaseMessage", settings->is_dry_run ? print_foreseen : print);
}

const struct command command_release = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run,
};
