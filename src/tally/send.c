/* tally send: sends a message to a queue, or one for each line. */
#include "auth/sha256.h"
#include "base/assert.h"
#include "tally/assignment.h"
#include "tally/input.h"
#include "tally/sent.h"
#include <stdio.h>
#include <string.h>

#define BODY_SIZE_MAX (2u << 20) /* the server's limit is half of this, and its error message is better */
#define LINES_SIZE_MAX (1u << 30)
#define REQUEST_SIZE_MAX (1u << 20) /* of one SendMessageBatch, in sum */
#define NUMBERS_SIZE_MAX 64         /* Tally.Sequence and Tally.Priority, as attributes */
#define CONTENT_ID_SIZE (SHA256_HEX_SIZE + 1)

struct settings {
    const char *batch;
    const char *group;
    const char *deduplication;
    const char *producer;
    const char *type;
    const char *after;
    const char *after_failure;
    struct option_number sequence;
    struct option_number priority;
    struct option_number delay;
    struct option_list attributes;
    bool has_lines;
    bool is_from_unit;
    bool has_content_id;
};

static const struct setting settings_table[] = {
    {"batch", offsetof(struct settings, batch)},
    {"delay", offsetof(struct settings, delay)},
    {"attribute", offsetof(struct settings, attributes)},
    {"group", offsetof(struct settings, group)},
    {"deduplication-id", offsetof(struct settings, deduplication)},
    {"content-based-deduplication", offsetof(struct settings, has_content_id)},
    {"producer", offsetof(struct settings, producer)},
    {"sequence", offsetof(struct settings, sequence)},
    {"priority", offsetof(struct settings, priority)},
    {"type", offsetof(struct settings, type)},
    {"after", offsetof(struct settings, after)},
    {"after-failure", offsetof(struct settings, after_failure)},
    {"lines", offsetof(struct settings, has_lines)},
    {"from-unit", offsetof(struct settings, is_from_unit)},
};

/* What `tally work` puts into the environment about the message that a command works on. */
#define UNIT_QUEUE "TALLY_QUEUE"
#define UNIT_HANDLE "TALLY_RECEIPT_HANDLE"
#define UNIT_BATCH "TALLY_ATTRIBUTE_Tally_Batch"

/* The batch whose unit lets the messages join: that of --batch, else that of the message itself. */
static int find_unit_batch(const struct invocation *invocation, const char **batch)
{
    const struct settings *settings = invocation->settings;
    if (getenv(UNIT_QUEUE) == NULL || getenv(UNIT_HANDLE) == NULL)
        return complain_usage(invocation, "--from-unit works in a command that tally work runs: " UNIT_QUEUE
                                          " and " UNIT_HANDLE " say which message it holds, and are not set");
    *batch = settings->batch != NULL ? settings->batch : getenv(UNIT_BATCH);
    if (*batch == NULL || **batch == '\0')
        return complain_usage(invocation, "the message that is worked on is no unit of a batch (" UNIT_BATCH
                                          " is not set); for one that a batch has sent, name its parent with --batch");
    return EXIT_DONE;
}

/* Do the options say at most once how the server recognises a repeated message? */
static int check_recognition(const struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    if (settings->has_content_id && (settings->deduplication != NULL || settings->producer != NULL))
        return complain_usage(invocation,
                              "--content-based-deduplication goes without --deduplication-id and --producer");
    if (settings->has_lines && settings->deduplication != NULL)
        return complain_usage(invocation,
                              "with --lines --deduplication-id would make every line but the first a duplicate; "
                              "take --content-based-deduplication, or number them with --producer and --sequence");
    if (settings->has_lines && settings->is_from_unit && !settings->has_content_id && settings->producer == NULL)
        return complain_usage(invocation,
                              "a command that is run again would add its lines a second time: --lines --from-unit goes "
                              "with --content-based-deduplication, or with --producer and --sequence");
    return EXIT_DONE;
}

/* The message that the options describe, without a body. */
static int make_message(const struct invocation *invocation, struct tally_attribute *attributes,
                        struct tally_outgoing *message)
{
    struct settings *settings = invocation->settings;
    if ((settings->producer != NULL) != settings->sequence.is_given)
        return complain_usage(invocation, "--producer and --sequence go together");
    if (settings->after_failure != NULL && settings->after == NULL)
        return complain_usage(invocation, "--after-failure goes with --after");
    if (check_recognition(invocation) != EXIT_DONE)
        return EXIT_USAGE;
    if (assignment_attributes(invocation, &settings->attributes, attributes) != EXIT_DONE)
        return EXIT_USAGE;
    const char *batch = settings->batch;
    if (settings->is_from_unit && find_unit_batch(invocation, &batch) != EXIT_DONE)
        return EXIT_USAGE;
    *message = (struct tally_outgoing){
        .attributes = attributes,
        .attribute_count = settings->attributes.count,
        .batch_id = batch,
        .group_id = settings->group,
        .deduplication_id = settings->deduplication,
        .has_delay = settings->delay.is_given,
        .delay_s = (unsigned)settings->delay.value,
        .producer = settings->producer,
        .sequence = settings->sequence.value,
        .has_priority = settings->priority.is_given,
        .priority = (unsigned)settings->priority.value,
        .type = settings->type,
        .after = settings->after,
        .after_failure = settings->after_failure,
    };
    return EXIT_DONE;
}

/* Sends them in one Commit, which holds the lease of the message in work. */
static enum tally_status send_from_unit(struct invocation *invocation, const struct tally_outgoing *messages,
                                        size_t count, struct tally_sent *sent)
{
    const struct tally_commit_delete hold = {.queue = getenv(UNIT_QUEUE), .receipt_handle = getenv(UNIT_HANDLE)};
    struct tally_commit_send sends[TALLY_COMMIT_SENDS_MAX];
    for (size_t i = 0; i < count; i++)
        sends[i] = (struct tally_commit_send){.queue = invocation->arguments[0], .message = messages[i]};
    const struct tally_commit commit = {.sends = sends, .send_count = count, .holds = &hold, .hold_count = 1};
    return tally_commit(invocation->client, &commit, sent, NULL);
}

static_assert(TALLY_SEND_BATCH_MAX <= TALLY_COMMIT_SENDS_MAX, "what goes into one request goes into one Commit");

/* Gives each message the id that SQS's ContentBasedDeduplication would make from its body. The texts go to `ids`. */
static void make_content_ids(struct tally_outgoing *messages, size_t count, char ids[][CONTENT_ID_SIZE])
{
    struct sha256 sha256;
    sha256_init(&sha256);
    for (size_t i = 0; i < count; i++) {
        sha256_digest_hex(&sha256, bytes_make(messages[i].body, strlen(messages[i].body)), ids[i]);
        ids[i][SHA256_HEX_SIZE] = '\0';
        messages[i].deduplication_id = ids[i];
    }
    sha256_deinit(&sha256);
}

static int send_one(struct invocation *invocation, struct tally_outgoing *message, const char *body)
{
    const struct settings *settings = invocation->settings;
    struct tally_sent sent;
    char id[1][CONTENT_ID_SIZE];
    message->body = body;
    if (settings->has_content_id)
        make_content_ids(message, 1, id);
    enum tally_status status = settings->is_from_unit
                                   ? send_from_unit(invocation, message, 1, &sent)
                                   : tally_send_one(invocation->client, invocation->arguments[0], message, &sent);
    if (status != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    sent_print(invocation, &sent, message);
    return EXIT_DONE;
}

/* How many of the lines fit into one request: at most ten, and together at most the limit of a request. */
static size_t count_fitting(char *const *lines, size_t count, size_t overhead)
{
    size_t fitting = 0, size = 0;
    while (fitting < count && fitting < TALLY_SEND_BATCH_MAX) {
        size += strlen(lines[fitting]) + overhead;
        if (fitting > 0 && size > REQUEST_SIZE_MAX)
            break;
        fitting++;
    }
    return fitting;
}

static int send_some(struct invocation *invocation, const struct tally_outgoing *message, char *const *lines,
                     size_t count, size_t first_line)
{
    const struct settings *settings = invocation->settings;
    struct tally_outgoing messages[TALLY_SEND_BATCH_MAX] = {{.body = NULL}};
    struct tally_sent sent[TALLY_SEND_BATCH_MAX];
    char ids[TALLY_SEND_BATCH_MAX][CONTENT_ID_SIZE];
    int status = EXIT_DONE;

    for (size_t i = 0; i < count; i++) {
        messages[i] = *message;
        messages[i].body = lines[i];
        messages[i].sequence += first_line + i;
    }
    if (settings->has_content_id)
        make_content_ids(messages, count, ids);
    enum tally_status result =
        settings->is_from_unit ? send_from_unit(invocation, messages, count, sent)
                               : tally_send_batch(invocation->client, invocation->arguments[0], messages, count, sent);
    if (result != TALLY_OK) {
        if (tally_client_error(invocation->client)->is_outcome_unknown)
            complain("the messages %zu to %zu may be in the queue or not; those behind them were not sent",
                     first_line + 1, first_line + count);
        else
            complain("the messages from number %zu on were not sent", first_line + 1);
        return invocation_failed(invocation, invocation->client);
    }
    for (size_t i = 0; i < count; i++) {
        if (sent[i].is_sent) {
            sent_print(invocation, &sent[i], &messages[i]);
        } else {
            complain("message %zu: %s: %s", first_line + i + 1, sent[i].code, sent[i].message);
            status = EXIT_REFUSED;
        }
    }
    return status;
}

/* The size that one of Tally's own attributes adds. */
static size_t own_size(const char *name, const char *value)
{
    return value == NULL ? 0 : strlen(name) + strlen("String") + strlen(value);
}

static int send_lines(struct invocation *invocation, const struct tally_outgoing *message, char *text)
{
    struct lines lines;
    size_t overhead = 0;
    int status = EXIT_DONE;

    for (size_t i = 0; i < message->attribute_count; i++)
        overhead += strlen(message->attributes[i].name) + strlen(message->attributes[i].type) +
                    strlen(message->attributes[i].value);
    overhead += own_size("Tally.Batch", message->batch_id) + own_size("Tally.Producer", message->producer) +
                own_size("Tally.Type", message->type) + own_size("Tally.After", message->after) +
                own_size("Tally.AfterFailure", message->after_failure) + NUMBERS_SIZE_MAX;
    lines_init(&lines, text);
    for (size_t i = 0; i < lines.count;) {
        size_t count = count_fitting(lines.items_owned + i, lines.count - i, overhead);
        int some_status = send_some(invocation, message, lines.items_owned + i, count, i);
        if (some_status != EXIT_DONE)
            status = some_status;
        if (some_status > EXIT_REFUSED || tally_client_error(invocation->client)->status != TALLY_OK)
            break;
        i += count;
    }
    lines_deinit(&lines);
    return status;
}

static int send_input(struct invocation *invocation, struct tally_outgoing *message, bool has_lines)
{
    struct buffer input;
    int status = EXIT_LOCAL;
    buffer_init(&input);
    if (input_read(&input, has_lines ? LINES_SIZE_MAX : BODY_SIZE_MAX))
        status = has_lines ? send_lines(invocation, message, (char *)input.data_owned)
                           : send_one(invocation, message, (const char *)input.data_owned);
    buffer_deinit(&input);
    return status;
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    const char *body = invocation->arguments[1];
    struct tally_attribute attributes[ASSIGNMENT_ATTRIBUTES_MAX];
    struct tally_outgoing message;
    int status = make_message(invocation, attributes, &message);

    if (status == EXIT_DONE && settings->has_lines && strcmp(body, "-") != 0)
        status = complain_usage(invocation, "--lines goes with - as the body");
    if (status == EXIT_DONE)
        status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    return strcmp(body, "-") == 0 ? send_input(invocation, &message, settings->has_lines)
                                  : send_one(invocation, &message, body);
}

const struct command command_send = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run,
};
