/* tally receive and delete: receives messages and prints them, and deletes messages. */
#include "base/assert.h"
#include "tally/output.h"
#include <stdio.h>
#include <unistd.h>

struct settings {
    struct option_number max;
    struct option_number wait;
    struct option_number visibility;
    bool deletes;
};

static const struct setting settings_table[] = {
    {"max", offsetof(struct settings, max)},
    {"wait", offsetof(struct settings, wait)},
    {"visibility", offsetof(struct settings, visibility)},
    {"delete", offsetof(struct settings, deletes)},
};

static void print_json(const struct tally_messages *messages)
{
    size_t i, max;
    yyjson_val *value;
    yyjson_arr_foreach(yyjson_obj_get(json_root(&messages->reply_owned), "Messages"), i, max, value)
    {
        output_value(value);
    }
}

/* Programs get it byte for byte; to a terminal it must not speak. */
static void print_body(const char *body)
{
    if (!isatty(STDOUT_FILENO))
        fputs(body, stdout);
    else
        output_in_lines("", body);
    puts("");
}

static int print_and_delete(struct invocation *invocation, const struct tally_messages *messages, bool deletes)
{
    if (invocation->is_json)
        print_json(messages);
    for (size_t i = 0; i < messages->count && !invocation->is_json; i++)
        print_body(messages->items_owned[i].body);
    /* A message that could not be printed must come back. */
    if (fflush(stdout) != 0 || ferror(stdout)) {
        complain("standard output took less than all: nothing was deleted");
        return EXIT_LOCAL;
    }
    for (size_t i = 0; i < messages->count && deletes; i++)
        if (tally_delete(invocation->client, invocation->arguments[0], messages->items_owned[i].receipt_handle) !=
            TALLY_OK)
            return invocation_failed(invocation, invocation->client);
    return EXIT_DONE;
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    struct tally_receive_options receive = {
        .max = (unsigned)settings->max.value,
        .has_wait = settings->wait.is_given,
        .wait_s = (unsigned)settings->wait.value,
        .has_visibility = settings->visibility.is_given,
        .visibility_s = (unsigned)settings->visibility.value,
    };
    struct tally_messages messages;
    int status = invocation_connect(invocation);

    if (status != EXIT_DONE)
        return status;
    if (tally_receive(invocation->client, invocation->arguments[0], &receive, &messages) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    status = print_and_delete(invocation, &messages, settings->deletes);
    tally_messages_deinit(&messages);
    return status;
}

const struct command command_receive = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run,
};

const struct command command_delete = {.action = "AmazonSQS.DeleteMessage", .members = {"QueueUrl", "ReceiptHandle"}};
