/* tally commit: deletes a message and sends others, in one step. */
#include "base/assert.h"
#include "tally/assignment.h"
#include "tally/input.h"
#include "tally/sent.h"
#include <stdlib.h>
#include <string.h>

#define BODY_SIZE_MAX (2u << 20) /* the server's limit is half of this, and it says so better */
#define ATTRIBUTES_MAX 10

struct settings {
    const char *queue;
    const char *receipt_handle;
    const char *group;
    const char *deduplication;
    const char *batch;
    struct option_list attributes;
};

static const struct option_row options[] = {
    {"queue", "QUEUE", "where the message to delete is; else TALLY_QUEUE, as `tally work` sets it", OPTION_TEXT,
     offsetof(struct settings, queue), 0, 0, NULL},
    {"receipt-handle", "HANDLE", "which one that is; else TALLY_RECEIPT_HANDLE", OPTION_TEXT,
     offsetof(struct settings, receipt_handle), 0, 0, NULL},
    {"group", "ID", "MessageGroupId of what is sent; a FIFO queue needs one", OPTION_TEXT,
     offsetof(struct settings, group), 0, 0, NULL},
    {"deduplication-id", "ID", "MessageDeduplicationId, where one message is sent", OPTION_TEXT,
     offsetof(struct settings, deduplication), 0, 0, NULL},
    {"batch", "ID", "make what is sent units of this batch", OPTION_TEXT, offsetof(struct settings, batch), 0, 0, NULL},
    {"attribute", "NAME=VALUE[:TYPE]", "message attribute; TYPE String (default), Number or Binary (base64); up to 10",
     OPTION_LIST, offsetof(struct settings, attributes), 0, 0, NULL},
};

/* The message to delete: that of the options, or else the one whose command we are. */
static int find_delete(const struct invocation *invocation, struct tally_commit_delete *delete)
{
    const struct settings *settings = invocation->settings;
    const char *queue = getenv("TALLY_QUEUE"), *handle = getenv("TALLY_RECEIPT_HANDLE");
    if ((settings->queue != NULL) != (settings->receipt_handle != NULL))
        return complain_usage(invocation, "--queue and --receipt-handle go together");
    if (settings->queue != NULL) {
        queue = settings->queue;
        handle = settings->receipt_handle;
    }
    if (queue == NULL || *queue == '\0' || handle == NULL || *handle == '\0')
        return complain_usage(invocation,
                              "there is no message to delete: let `tally work` run this, or give --queue and "
                              "--receipt-handle");
    *delete = (struct tally_commit_delete){.queue = queue, .receipt_handle = handle};
    return EXIT_DONE;
}

static int read_attributes(const struct invocation *invocation, struct tally_attribute *attributes)
{
    const struct option_list *given = &((const struct settings *)invocation->settings)->attributes;
    if (given->count > ATTRIBUTES_MAX)
        return complain_usage(invocation, "a message has at most %d attributes", ATTRIBUTES_MAX);
    for (size_t i = 0; i < given->count; i++) {
        char *text = (char *)(uintptr_t)given->items[i]; /* words of main() may be written to */
        if (!assignment_attribute(text, &attributes[i]))
            return complain_usage(invocation, "--attribute takes Name=Value, not \"%s\"", text);
    }
    return EXIT_DONE;
}

/* The messages that the arguments name; `input` keeps the body that comes from standard input. */
static int make_sends(const struct invocation *invocation, const struct tally_attribute *attributes,
                      struct buffer *input, struct tally_commit_send *sends, size_t count)
{
    const struct settings *settings = invocation->settings;
    for (size_t i = 0; i < count; i++) {
        const char *body = invocation->arguments[2 * i + 1];
        if (strcmp(body, "-") == 0 && input->size > 0)
            return complain_usage(invocation, "standard input can be one body only");
        if (strcmp(body, "-") == 0) {
            if (!input_read(input, BODY_SIZE_MAX))
                return EXIT_LOCAL;
            body = (const char *)input->data_owned;
        }
        sends[i] = (struct tally_commit_send){
            .queue = invocation->arguments[2 * i],
            .message = {.body = body,
                        .attributes = attributes,
                        .attribute_count = settings->attributes.count,
                        .group_id = settings->group,
                        .deduplication_id = settings->deduplication,
                        .batch_id = settings->batch},
        };
    }
    return EXIT_DONE;
}

static int commit(struct invocation *invocation, const struct tally_commit *commit)
{
    struct tally_sent sent[TALLY_COMMIT_SENDS_MAX];
    int status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    if (tally_commit(invocation->client, commit, sent, NULL) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    for (size_t i = 0; i < commit->send_count; i++)
        sent_print(invocation, &sent[i], &commit->sends[i].message);
    return EXIT_DONE;
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    size_t count = (size_t)invocation->argument_count / 2;
    struct tally_attribute attributes[ATTRIBUTES_MAX];
    struct tally_commit_send sends[TALLY_COMMIT_SENDS_MAX];
    struct tally_commit_delete delete;
    struct buffer input;

    if (invocation->argument_count % 2 != 0)
        return complain_usage(invocation, "each message needs a queue and a body; behind %s stands none",
                              invocation->arguments[invocation->argument_count - 1]);
    if (count > TALLY_COMMIT_SENDS_MAX)
        return complain_usage(invocation, "one commit sends at most %d messages", TALLY_COMMIT_SENDS_MAX);
    if (settings->deduplication != NULL && count > 1)
        return complain_usage(invocation, "--deduplication-id goes with one message");
    buffer_init(&input);
    int status = find_delete(invocation, &delete);
    if (status == EXIT_DONE)
        status = read_attributes(invocation, attributes);
    if (status == EXIT_DONE)
        status = make_sends(invocation, attributes, &input, sends, count);
    if (status == EXIT_DONE)
        status =
            commit(invocation,
                   &(struct tally_commit){.deletes = &delete, .delete_count = 1, .sends = sends, .send_count = count});
    buffer_deinit(&input);
    return status;
}

const struct command command_commit = {
    .arguments = "[QUEUE BODY|-]...",
    .text =
        "Deletes a message and sends others, at most ten, in one step: all of it or nothing. As the COMMAND of `tally "
        "work`\n"
        "it deletes the message that the worker has in hand, which the worker finds out and is content with. If "
        "another\n"
        "worker has got the message meanwhile, or it has ended, nothing is done: ReceiptHandleIsInvalid.\n"
        "\n"
        "BODY is text in UTF-8, whatever it says; - takes one of them from standard input, byte for byte. Put -- "
        "before\n"
        "bodies that may begin with a hyphen. Prints the ids of the messages sent. What else a commit can do, `tally "
        "call\n"
        "Tally.Commit` can.\n",
    .examples = "  tally work --queue payments -- sh -c 'tally commit mails \"paid: $(cat)\"'\n"
                "  tally work --queue raw -- sh -c 'text=$(./refine) && tally commit -- refined \"$text\"'\n"
                "  tally commit --queue payments --receipt-handle \"$handle\" mails paid audit.fifo paid --group 17\n",
    .options = options,
    .option_count = ARRAY_LENGTH(options),
    .settings_size = sizeof(struct settings),
    .arguments_max = -1,
    .run = run,
};
