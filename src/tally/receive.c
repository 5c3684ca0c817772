/* tally receive: takes messages out of a queue and prints them. */
#include "base/assert.h"
#include "tally/output.h"
#include <stdio.h>

struct settings {
    struct option_number max;
    struct option_number wait;
    struct option_number visibility;
    bool deletes;
};

static const struct option_row options[] = {
    {"max", "N", "take up to N messages, 1 to 10", OPTION_NUMBER, offsetof(struct settings, max), 1, 10, "1"},
    {"wait", "SECONDS", "wait up to so long for a message, 0 to 20; else as the queue says", OPTION_NUMBER,
     offsetof(struct settings, wait), 0, 20, NULL},
    {"visibility", "SECONDS", "hide them from others so long, 0 to 43200; else as the queue says", OPTION_NUMBER,
     offsetof(struct settings, visibility), 0, 43200, NULL},
    {"delete", NULL, "delete each message after it was printed", OPTION_FLAG, offsetof(struct settings, deletes), 0, 0,
     NULL},
};

static void print_json(const struct tally_messages *messages)
{
    size_t i, max;
    yyjson_val *value;
    yyjson_arr_foreach(yyjson_obj_get(json_root(&messages->reply_owned), "Messages"), i, max, value)
    {
        yyjson_mut_doc *doc = json_document();
        yyjson_mut_doc_set_root(doc, yyjson_val_mut_copy(doc, value));
        output_document(doc);
        yyjson_mut_doc_free(doc);
    }
}

static int print_and_delete(struct invocation *invocation, const struct tally_messages *messages, bool deletes)
{
    if (invocation->is_json)
        print_json(messages);
    for (size_t i = 0; i < messages->count && !invocation->is_json; i++)
        puts(messages->items_owned[i].body);
    /* What could not be printed must come back. */
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
    .arguments = "QUEUE",
    .text =
        "Takes messages out of a queue and prints their bodies, each closed by a line end. A message taken is hidden "
        "from\n"
        "others until its visibility timeout has passed; then it comes back, unless it was deleted meanwhile. With\n"
        "--json each message is one line of JSON, with MessageId, Body, Attributes, MessageAttributes and the\n"
        "ReceiptHandle that `tally delete` asks for. Prints nothing when there is no message; that is no error.\n",
    .examples = "  tally receive orders --delete\n"
                "  tally receive orders --max 10 --wait 20 --json\n",
    .options = options,
    .option_count = ARRAY_LENGTH(options),
    .settings_size = sizeof(struct settings),
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};
