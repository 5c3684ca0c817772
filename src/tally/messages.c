/* tally messages, peek and find: the messages of a queue, one message, and those of an id, seen without receiving
 * them. */
#include "base/assert.h"
#include "base/buffer.h"
#include "tally/pages.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

struct settings {
    const char *state;
    const char *group;
    const char *batch;
    const char *reason;
    const char *body;
    struct option_number older_than;
    struct option_number limit;
};

static const struct setting settings_table[] = {
    {"state", offsetof(struct settings, state)}, {"group", offsetof(struct settings, group)},
    {"batch", offsetof(struct settings, batch)}, {"reason", offsetof(struct settings, reason)},
    {"body", offsetof(struct settings, body)},   {"older-than", offsetof(struct settings, older_than)},
    {"limit", offsetof(struct settings, limit)},
};

/* Why it waits, or why it failed; "" if neither. */
static const char *why_of(yyjson_val *message)
{
    return output_text_of(yyjson_arr_get_first(yyjson_obj_get(message, "Why")), "Text");
}

static void print_line(yyjson_val *message)
{
    char age[OUTPUT_AGE_SIZE] = "-";
    const char *group = json_text(message, "MessageGroupId"), *body = json_text(message, "Body");
    const double age_s = (double)time(NULL) - json_real(message, "SentAt");
    if (yyjson_obj_get(message, "SentAt") != NULL)
        output_age(age_s > 0 ? (uint64_t)age_s : 0, age);
    printf("%-9s %6s  %s", output_text_of(message, "State"), age, output_text_of(message, "MessageId"));
    if (group != NULL)
        output_in_line("  ", group);
    if (why_of(message)[0] != '\0')
        output_in_line("  ", why_of(message));
    if (body != NULL)
        output_in_line("\n  ", body);
    puts("");
}

static void ask(void *context, struct json_body *body)
{
    const struct invocation *invocation = context;
    const struct settings *settings = invocation->settings;
    json_add_text(body, body->root, "QueueUrl", invocation->arguments[0]);
    json_add_text(body, body->root, "State", settings->state);
    json_add_text(body, body->root, "MessageGroupId", settings->group);
    json_add_text(body, body->root, "BatchId", settings->batch);
    json_add_text(body, body->root, "Reason", settings->reason);
    json_add_text(body, body->root, "Body", settings->body);
    if (settings->older_than.is_given)
        json_add_number(body, body->root, "OlderThan", settings->older_than.value);
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    const int status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    return pages_run(&(struct pages){.invocation = invocation,
                                     .action = "Tally.ListMessages",
                                     .list = "Messages",
                                     .limit = settings->limit.value,
                                     .ask = ask,
                                     .print = print_line,
                                     .context = invocation});
}

const struct command command_messages = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run,
};

/* --- one message -------------------------------------------------------------------------------------------------- */

static void print_attributes(yyjson_val *message)
{
    size_t i, max;
    yyjson_val *name, *value;
    struct buffer line;
    buffer_init(&line);
    yyjson_obj_foreach(yyjson_obj_get(message, "MessageAttributes"), i, max, name, value)
    {
        const char *text = json_text(value, "StringValue");
        buffer_truncate(&line, 0);
        buffer_append_format(&line, "%s = %s%c", yyjson_get_str(name), text == NULL ? "(binary)" : text, '\0');
        output_field(i == 0 ? "attributes" : "", (const char *)line.data_owned);
    }
    buffer_deinit(&line);
}

static void print_message(yyjson_val *message)
{
    static const char *const head[][2] = {{"queue", "QueueUrl"}, {"state", "State"}};
    static const char *const place[][2] = {{"group", "MessageGroupId"},
                                           {"batch", "BatchId"},
                                           {"came from", "DeadLetterQueueSource"},
                                           {"failed", "FailureReason"},
                                           {"received", "ReceiveCount"}};
    size_t i, max;
    yyjson_val *why;
    char holder[OUTPUT_HOLDER_SIZE];
    output_members(message, head, ARRAY_LENGTH(head));
    output_holder(message, holder);
    if (holder[0] != '\0')
        output_field("held by", holder);
    yyjson_arr_foreach(yyjson_obj_get(message, "Why"), i, max, why)
    {
        output_field(i == 0 ? "why" : "", output_text_of(why, "Text"));
    }
    output_time("sent", json_real(message, "SentAt"));
    output_time("last taken", json_real(message, "LastReceivedAt"));
    output_members(message, place, ARRAY_LENGTH(place));
    print_attributes(message);
    if (json_text(message, "Body") != NULL)
        output_block("body", json_text(message, "Body"));
}

const struct command command_peek = {.action = "Tally.GetMessage", .members = {"MessageId"}, .print = print_message};

/* --- the messages of an id, or with a text ------------------------------------------------------------------------ */

struct find_settings {
    const char *queue;
    const char *group;
    const char *deduplication;
    const char *outbox;
    const char *producer;
    struct option_number sequence;
    const char *text;
};

static const struct setting find_table[] = {
    {"queue", offsetof(struct find_settings, queue)},         {"group", offsetof(struct find_settings, group)},
    {"dedup", offsetof(struct find_settings, deduplication)}, {"outbox", offsetof(struct find_settings, outbox)},
    {"producer", offsetof(struct find_settings, producer)},   {"sequence", offsetof(struct find_settings, sequence)},
    {"text", offsetof(struct find_settings, text)},
};

#define TOKEN_SIZE 128u /* of a NextToken of FindMessage */

static int check_find(const struct invocation *invocation)
{
    const struct find_settings *settings = invocation->settings;
    const int ways = (invocation->argument_count > 0) + (settings->deduplication != NULL) + (settings->outbox != NULL) +
                     (settings->producer != NULL) + (settings->text != NULL);
    if (ways != 1)
        return complain_usage(invocation, "give either a MessageId, or --dedup, --outbox, --producer or --text");
    if (settings->queue == NULL && settings->producer != NULL)
        return complain_usage(invocation, "--producer wants --queue: a producer has numbers of its own in each queue");
    if ((settings->producer != NULL) != settings->sequence.is_given)
        return complain_usage(invocation, "--producer and --sequence go together");
    return EXIT_DONE;
}

static void find_body_init(const struct invocation *invocation, const char *token, struct json_body *body)
{
    const struct find_settings *settings = invocation->settings;
    json_body_init(body);
    json_add_text(body, body->root, "MessageId", invocation->argument_count > 0 ? invocation->arguments[0] : NULL);
    json_add_text(body, body->root, "MessageDeduplicationId", settings->deduplication);
    json_add_text(body, body->root, "OutboxId", settings->outbox);
    json_add_text(body, body->root, "Producer", settings->producer);
    if (settings->sequence.is_given)
        json_add_number(body, body->root, "Sequence", settings->sequence.value);
    json_add_text(body, body->root, "Text", settings->text);
    json_add_text(body, body->root, "QueueUrl", settings->queue);
    json_add_text(body, body->root, "MessageGroupId", settings->group);
    json_add_text(body, body->root, "NextToken", *token == '\0' ? NULL : token);
}

static void print_found(const struct invocation *invocation, yyjson_val *message)
{
    const char *url = output_text_of(message, "QueueUrl"), *slash = strrchr(url, '/');
    if (invocation->is_json) {
        output_value(message);
        return;
    }
    if (*url != '\0')
        printf("%s  ", slash == NULL ? url : slash + 1);
    print_line(message);
}

/* Prints what a page found, and says how much that was; the token of the next page, "" behind the last. */
static int find_page(struct invocation *invocation, char token[TOKEN_SIZE], size_t *count, bool *is_published)
{
    struct json_body body;
    struct tally_reply reply;
    size_t i;
    yyjson_val *message;
    find_body_init(invocation, token, &body);
    if (json_body_call(&body, invocation->client, "Tally.FindMessage", &reply) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    yyjson_arr_foreach(yyjson_obj_get(json_root(&reply), "Messages"), i, *count, message)
    {
        print_found(invocation, message);
    }
    *is_published = json_is_true(json_root(&reply), "IsPublished");
    json_copy(json_root(&reply), "NextToken", token, TOKEN_SIZE);
    tally_reply_deinit(&reply);
    return EXIT_DONE;
}

static void complain_of_nothing(const struct find_settings *settings, bool is_published)
{
    if (settings->text != NULL)
        complain("no message has that text: all of its words in the body, or in one attribute, as they were sent");
    else
        complain(is_published ? "no message has that id; but a publisher remembers the row, so its message has ended"
                              : "no message has that id, and nothing is remembered of one that had");
}

/* Of an id the first page that has something is all; a text may be in any message. */
static int run_find(struct invocation *invocation)
{
    const struct find_settings *settings = invocation->settings;
    char token[TOKEN_SIZE] = "";
    size_t count = 0, found = 0;
    bool is_published = false;
    int status = check_find(invocation);
    if (status == EXIT_DONE)
        status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    do {
        status = find_page(invocation, token, &count, &is_published);
        found += count;
    } while (status == EXIT_DONE && (found == 0 || settings->text != NULL) && *token != '\0');
    if (status == EXIT_DONE && found == 0)
        complain_of_nothing(settings, is_published);
    return status;
}

const struct command command_find = {
    .settings = find_table,
    .setting_count = ARRAY_LENGTH(find_table),
    .settings_size = sizeof(struct find_settings),
    .run = run_find,
};
