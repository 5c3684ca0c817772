/* tally export: the messages of queues as lines of JSON, seen and not received; or the definitions of the namespace.
 *
 * A line says what import can give again, and what people want to know of the message. docs/how-to/export.md has its
 * members.
 * It carries the id of this export and a number: both together are the line's identity, by which an import that is
 * repeated knows it. */
#include "base/assert.h"
#include "base/buffer.h"
#include "platform/random.h"
#include "tally/definitions.h"
#include "tally/pages.h"
#include "tally/queue_arn.h"
#include "tally/repeated_ids.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct settings {
    bool has_all;
    bool has_definitions;
};

static const struct setting settings_table[] = {
    {"all", offsetof(struct settings, has_all)},
    {"definitions", offsetof(struct settings, has_definitions)},
};

/* --- what a line can't give again --------------------------------------------------------------------------------- */

static bool is_in_state(yyjson_val *message, const char *state)
{
    return strcmp(output_text_of(message, "State"), state) == 0;
}

static bool has_attribute(yyjson_val *message, const char *name)
{
    return yyjson_obj_get(yyjson_obj_get(message, "MessageAttributes"), name) != NULL;
}

static bool is_in_flight(yyjson_val *message, const char *ignored)
{
    (void)ignored;
    return is_in_state(message, "in-flight");
}

static bool backs_off(yyjson_val *message, const char *ignored)
{
    (void)ignored;
    return strcmp(output_text_of(yyjson_arr_get_first(yyjson_obj_get(message, "Why")), "Code"), "BackOff") == 0;
}

static bool has_member(yyjson_val *message, const char *name)
{
    return yyjson_obj_get(message, name) != NULL;
}

static const struct loss {
    bool (*concerns)(yyjson_val *message, const char *name);
    const char *name;
    const char *text;
} losses[] = {
    {is_in_flight, NULL, "in flight: somebody may be at work on it, and an import gives it to others"},
    {backs_off, NULL, "backing off after a failure: an import delivers it at once"},
    {has_member, "BatchId", "a unit of a batch: an import leaves the batch out"},
    {has_attribute, "Tally.After", "sent to wait for others: an import does not wait for them"},
    {has_attribute, "Tally.Producer", "numbered by its producer: an import leaves the number out"},
    {has_member, "DeadLetterQueueSource", "a dead letter: an import forgets in which queue it failed"},
};

/* --- a line ------------------------------------------------------------------------------------------------------- */

struct export
{
    struct invocation *invocation;
    char id[UUID_TEXT_SIZE + 1];
    const char *queue; /* its name or URL */
    struct repeated_ids ids;
    uint64_t count;
    uint64_t damaged_count;
    uint64_t loss_counts[ARRAY_LENGTH(losses)];
};

/* Members that are copied: called so in the answer, and so in the line. */
static const char *const members[][2] = {
    {"Body", "body"},
    {"MessageGroupId", "group"},
    {"MessageDeduplicationId", "deduplicationId"},
    {"AWSTraceHeader", "traceHeader"},
    {"MessageId", "messageId"},
    {"State", "state"},
    {"SentAt", "sentAt"},
    {"ReceiveCount", "receiveCount"},
    {"SenderId", "senderId"},
    {"FailureReason", "failureReason"},
    {"BatchId", "batch"},
    {"DeadLetterQueueSource", "deadLetterSource"},
};

static void add_copy(struct json_body *line, yyjson_mut_val *object, const char *name, yyjson_val *value)
{
    if (value != NULL)
        yyjson_mut_obj_add_val(line->doc_owned, object, name, yyjson_val_mut_copy(line->doc_owned, value));
}

/* A text for type String, which most have; else type and value. */
static void add_attributes(struct json_body *line, yyjson_val *attributes)
{
    size_t i, max;
    yyjson_val *name, *attribute;
    yyjson_mut_val *map = attributes == NULL ? NULL : json_add_object(line, line->root, "attributes");
    yyjson_obj_foreach(attributes, i, max, name, attribute)
    {
        yyjson_val *text = yyjson_obj_get(attribute, "StringValue");
        const char *type = output_text_of(attribute, "DataType"), *key = yyjson_get_str(name);
        if (text != NULL && strcmp(type, "String") == 0) {
            add_copy(line, map, key, text);
            continue;
        }
        yyjson_mut_val *object = json_add_object(line, map, key);
        json_add_text(line, object, "type", type);
        add_copy(line, object, "value", text != NULL ? text : yyjson_obj_get(attribute, "BinaryValue"));
    }
}

static void add_delay(struct json_body *line, yyjson_val *message)
{
    yyjson_val *why = yyjson_arr_get_first(yyjson_obj_get(message, "Why"));
    if (strcmp(output_text_of(why, "Code"), "Delayed") == 0)
        add_copy(line, line->root, "delayedUntil", yyjson_obj_get(why, "Until"));
}

static void print_line(struct export *export, yyjson_val *message)
{
    struct json_body line;
    const char *name = queue_name_in(export->queue), *id = json_text(message, "MessageDeduplicationId");
    json_body_init(&line);
    json_add_text(&line, line.root, "export", export->id);
    json_add_number(&line, line.root, "number", export->count);
    json_add_text(&line, line.root, "queue", name);
    for (size_t i = 0; i < ARRAY_LENGTH(members); i++)
        add_copy(&line, line.root, members[i][1], yyjson_obj_get(message, members[i][0]));
    add_attributes(&line, yyjson_obj_get(message, "MessageAttributes"));
    add_delay(&line, message);
    if (id != NULL && repeated_ids_note(&export->ids, name, id))
        yyjson_mut_obj_add_bool(line.doc_owned, line.root, "idRepeated", true);
    output_document(line.doc_owned);
    yyjson_mut_doc_free(line.doc_owned);
}

static void take_message(void *context, yyjson_val *message)
{
    struct export *export = context;
    if (json_is_true(message, "IsDamaged")) {
        complain("message %s of queue %s can't be read in the server's log, and is not exported "
                 "(docs/how-to/damage.md)",
                 output_text_of(message, "MessageId"), export->queue);
        export->damaged_count++;
        return;
    }
    export->count++;
    for (size_t i = 0; i < ARRAY_LENGTH(losses); i++)
        export->loss_counts[i] += losses[i].concerns(message, losses[i].name);
    print_line(export, message);
}

/* --- queues ------------------------------------------------------------------------------------------------------- */

static void ask_for_messages(void *context, struct json_body *body)
{
    const struct export *export = context;
    json_add_text(body, body->root, "QueueUrl", export->queue);
    json_add_text(body, body->root, "Body", "full");
}

static int export_queue(struct export *export, const char *queue)
{
    export->queue = queue;
    return pages_run(&(struct pages){.invocation = export->invocation,
                                     .action = "Tally.ListMessages",
                                     .list = "Messages",
                                     .ask = ask_for_messages,
                                     .take = take_message,
                                     .context = export});
}

/* The names are read first: messages take long, and queues may come and go meanwhile. One that goes is told of, and
 * the others follow. */
static int export_all(struct export *export)
{
    struct buffer names;
    buffer_init(&names);
    int status = definition_names(export->invocation, &definition_kinds[0], &names);
    for (size_t at = 0; at < names.size && status <= EXIT_REFUSED;) {
        const char *name = (const char *)names.data_owned + at;
        const int queue_status = export_queue(export, name);
        if (queue_status > status)
            status = queue_status;
        at += strlen(name) + 1;
    }
    buffer_deinit(&names);
    return status;
}

static int export_named(struct export *export)
{
    int status = EXIT_DONE;
    for (int i = 0; i < export->invocation->argument_count && status == EXIT_DONE; i++)
        status = export_queue(export, export->invocation->arguments[i]);
    return status;
}

/* --- the command -------------------------------------------------------------------------------------------------- */

static void complain_of_losses(const struct export *export)
{
    complain("%llu message%s exported", (unsigned long long)export->count, export->count == 1 ? "" : "s");
    for (size_t i = 0; i < ARRAY_LENGTH(losses); i++)
        if (export->loss_counts[i] > 0)
            complain("%llu of them: %s", (unsigned long long)export->loss_counts[i], losses[i].text);
}

static int check(const struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    const int ways = (invocation->argument_count > 0) + settings->has_all + settings->has_definitions;
    if (ways != 1)
        return complain_usage(invocation, "give either queues, or --all, or --definitions");
    return EXIT_DONE;
}

static int export_messages(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    struct export export = {.invocation = invocation};
    uint8_t id[UUID_SIZE];
    random_fill(id, sizeof id);
    uuid_to_text(id, export.id);
    int status = settings->has_all ? export_all(&export) : export_named(&export);
    complain_of_losses(&export);
    repeated_ids_deinit(&export.ids);
    if (status == EXIT_DONE && export.damaged_count > 0) /* each was told of */
        status = EXIT_REFUSED;
    return status;
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    int status = check(invocation);
    if (status == EXIT_DONE)
        status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    return settings->has_definitions ? definitions_print(invocation) : export_messages(invocation);
}

const struct command command_export = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run,
};
