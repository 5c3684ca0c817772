/* tally commit: deletes a message and sends others, in one step. */
#include "base/assert.h"
#include "tally/assignment.h"
#include "tally/input.h"
#include "tally/sent.h"
#include <stdlib.h>
#include <string.h>

#define BODY_SIZE_MAX (2u << 20) /* the server's limit is half of this, and its error message is better */

struct settings {
    const char *queue;
    const char *receipt_handle;
    const char *group;
    const char *deduplication;
    const char *batch;
    struct option_list attributes;
};

static const struct setting settings_table[] = {
    {"queue", offsetof(struct settings, queue)}, {"receipt-handle", offsetof(struct settings, receipt_handle)},
    {"group", offsetof(struct settings, group)}, {"deduplication-id", offsetof(struct settings, deduplication)},
    {"batch", offsetof(struct settings, batch)}, {"attribute", offsetof(struct settings, attributes)},
};

/* The message to delete: the one in the options, or else the one for which this command was started. */
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

/* The messages that the arguments name; `input` keeps a body from standard input. */
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
    struct tally_attribute attributes[ASSIGNMENT_ATTRIBUTES_MAX];
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
        status = assignment_attributes(invocation, &settings->attributes, attributes);
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
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run,
};
