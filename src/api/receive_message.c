/* ReceiveMessage, at once or after a wait. */
#include "api/access.h"
#include "api/activity.h"
#include "api/growth.h"
#include "api/holder_view.h"
#include "api/state.h"
#include "api/text.h"
#include "api/wait.h"
#include "core/deduplication/deduplication.h"
#include "core/messages/decide_receive.h"
#include "engine/grant.h"
#include "log/log.h"

#include <stdio.h>

#define ATTEMPT_SIZE_MAX 128u

/* The attributes that a receive adds to those sent. */
#define FENCING_TOKEN "Tally.FencingToken"
#define FAILURE_REASON "Tally.FailureReason"

/* --- writing a message -------------------------------------------------------------------------------------------- */

/* Does one of the two lists ask for the system attribute? `all`: the word that asks for it besides its name, or
 * NULL. */
static bool is_asked(const struct receive_command *command, const char *name, const char *all)
{
    for (unsigned i = 0; i < ARRAY_LENGTH(command->attribute_names); i++) {
        size_t index, count;
        yyjson_val *item;
        yyjson_arr_foreach(command->attribute_names[i], index, count, item)
        {
            if (yyjson_equals_str(item, name) || (all != NULL && yyjson_equals_str(item, all)))
                return true;
        }
    }
    return false;
}

/* Writes one system attribute, as text. Begins the object before the first one. */
static void write_system_value(struct writer *writer, bool *has_any, const char *name, struct bytes value)
{
    if (!*has_any)
        writer_object_begin(writer, "Attributes");
    *has_any = true;
    writer_text(writer, name, value);
}

static void write_system(struct writer *writer, const struct receive_command *command, bool *has_any, const char *name,
                         struct bytes value)
{
    if (value.size == 0 || !is_asked(command, name, "All"))
        return;
    write_system_value(writer, has_any, name, value);
}

static struct bytes decimal(struct arena *arena, uint64_t value)
{
    return arena_format(arena, "%llu", (unsigned long long)value);
}

/* As sent. A message may come to a FIFO queue in another way: from a queue where it failed, by a move task, or from a
 * batch. Then its id is the MessageId of its first send. */
static struct bytes deduplication_id(struct call *call, bool is_fifo, const struct received_message *message,
                                     const struct content *content)
{
    if (!is_fifo || (message->origin.size == 0 && !message->is_renamed && content->deduplication.size > 0))
        return content->deduplication;
    char *id = arena_allocate(call->arena, IDENTITY_TEXT_SIZE);
    identity_to_text(content->id, id);
    return bytes_make(id, IDENTITY_TEXT_SIZE);
}

static void write_system_attributes(struct call *call, const struct receive_command *command, bool is_fifo,
                                    const struct received_message *message, const struct content *content)
{
    if (command->attribute_names[0] == NULL && command->attribute_names[1] == NULL)
        return;
    bool has_any = false;
    struct bytes deduplication = deduplication_id(call, is_fifo, message, content);
    struct bytes origin = {NULL, 0};
    if (message->origin.size > 0 && access_covers(call, message->origin))
        origin = call_queue_arn(call, message->origin);
    write_system(call->reply, command, &has_any, "SenderId", content->sender);
    write_system(call->reply, command, &has_any, "SentTimestamp", decimal(call->arena, message->sent_at_ms));
    write_system(call->reply, command, &has_any, "ApproximateReceiveCount",
                 decimal(call->arena, message->receive_count));
    write_system(call->reply, command, &has_any, "ApproximateFirstReceiveTimestamp",
                 decimal(call->arena, message->first_received_at_ms));
    write_system(call->reply, command, &has_any, "MessageGroupId", content->group);
    if (is_fifo)
        write_system(call->reply, command, &has_any, "SequenceNumber", call_sequence_number(call, message->sequence));
    write_system(call->reply, command, &has_any, "MessageDeduplicationId", deduplication);
    write_system(call->reply, command, &has_any, "AWSTraceHeader", content->trace);
    write_system(call->reply, command, &has_any, "DeadLetterQueueSourceArn", origin);
    if (is_asked(command, FENCING_TOKEN, NULL)) /* SQS has no such attribute, so All does not mean it */
        write_system_value(call->reply, &has_any, FENCING_TOKEN, decimal(call->arena, message->handle.delivery));
    if (has_any)
        writer_object_end(call->reply);
}

/* The message's attributes, and the two that the receive adds if they were asked for: the fencing token, and the reason
 * of the newest failed attempt. */
static void write_message_attributes(struct call *call, const struct receive_command *command,
                                     const struct received_message *message, const struct content *content)
{
    struct attributes own = {.count = 0};
    yyjson_val *names = command->message_attribute_names;
    if (message->reason.size > 0 && attributes_ask_for_own(names, FAILURE_REASON))
        attributes_add(&own, BYTES(FAILURE_REASON), message->reason);
    if (attributes_ask_for_own(names, FENCING_TOKEN)) {
        attributes_add(&own, BYTES(FENCING_TOKEN), decimal(call->arena, message->handle.delivery));
        own.items[own.count - 1].type = BYTES("Number");
    }
    attributes_sort(&own);
    attributes_write(content->attributes, content->attributes_md5, &own, names, call_digest(call), call_scratch(call),
                     call->reply);
}

static void write_message(struct call *call, const struct receive_command *command, bool is_fifo,
                          const struct received_message *message, const struct content *content)
{
    struct writer *writer = call->reply;
    char id[IDENTITY_TEXT_SIZE], handle[HANDLE_TEXT_SIZE];
    uint8_t raw_id[MESSAGE_ID_SIZE];
    content_id(content, message->handle.message, message->is_renamed, call_digest(call), raw_id);
    identity_to_text(raw_id, id);
    handle_to_text(call_digest(call), &message->handle, handle);
    writer_object_begin(writer, NULL);
    writer_text(writer, "MessageId", bytes_make(id, sizeof(id)));
    writer_text(writer, "ReceiptHandle", bytes_make(handle, sizeof(handle)));
    writer_hex(writer, "MD5OfBody", bytes_make(content->body_md5, sizeof(content->body_md5)));
    writer_text(writer, "Body", content->body);
    write_system_attributes(call, command, is_fifo, message, content);
    if (command->message_attribute_names != NULL)
        write_message_attributes(call, command, message, content);
    writer_object_end(writer);
}

/* For FeedEvents: the first, the second, the fourth and so on, because receivers try again and again. */
static void note_damage(struct call *call)
{
    const uint64_t count = ++call->api->damaged_count;
    char text[160];
    if ((count & (count - 1)) != 0)
        return;
    (void)snprintf(text, sizeof(text),
                   "The log can't be read where a message of this queue stands. Failed reads since the start: %llu.",
                   (unsigned long long)count);
    activity_add(call->api, call->now_ms,
                 &(struct activity_note){.kind = ACTIVITY_SERVER,
                                         .action = "ContentDamaged",
                                         .queue = call->queue_asked,
                                         .text = bytes_from_string(text)});
}

/* Reads a message's content back from the log. */
static bool read_content(struct call *call, const struct received_message *message, struct content *content)
{
    const uint8_t *bytes = namespace_read(call->ns, message->position, message->content_size);
    if (bytes != NULL && content_decode(bytes_make(bytes, message->content_size), content))
        return true;
    note_damage(call);
    return false;
}

/* None of the received messages could be read back. */
static enum error fail_damaged(struct call *call, const struct received_message *messages, unsigned count)
{
    struct buffer *scratch = call_scratch(call);
    buffer_truncate(scratch, 0);
    log_name_position(namespace_log(call->ns), messages[0].position, scratch);
    return call_fail(
        call, ERROR_INTERNAL_FAILURE,
        "The bodies of %u messages could not be read back: the log is damaged at %.*s in the data folder; put the "
        "file back from a backup.",
        count, BYTES_FORMAT(buffer_bytes(scratch)));
}

/* The reply gives the leases of these deliveries. */
static void grant_leases(struct call *call, const struct queue *queue, const struct receive_command *command,
                         const struct received_message *messages, unsigned count)
{
    if (count == 0 || command->timeout_ms == 0 || queue->settings.is_at_most_once)
        return;
    struct granted_lease *leases = grants_add(namespace_grants(call->ns), &call->exchange->grant_owned, count,
                                              command->timeout_ms, core_now_ms(call->core));
    for (unsigned i = 0; i < count; i++) {
        leases[i].message = messages[i].handle.message;
        leases[i].delivery = messages[i].handle.delivery;
    }
    call->exchange->grant_owned->is_unrepeatable = command->attempt.size == 0; /* else a repeat gets them */
}

/* Takes messages, or repeats those of an earlier receive with the same attempt id. */
static enum error take(struct call *call, struct queue *queue, const struct receive_command *command,
                       struct received_message messages[RECEIVE_MAX], unsigned *count)
{
    bool has_attempt = queue->settings.is_fifo && command->attempt.size > 0;
    enum error error = OK;
    *count = 0;
    if (has_attempt)
        error = decide_receive_again(call->core, queue, command->attempt, command->timeout_ms, messages, count);
    if (error != OK)
        return params_invalid(&(struct params){.failure = call->failure}, "ReceiveRequestAttemptId", command->attempt,
                              "The receiveRequestAttemptId is not valid anymore since the receive call is not "
                              "retryable.");
    if (*count > 0)
        return OK;
    uint32_t in_flight_max = namespace_in_flight_max(call->ns);
    error = decide_receive(call->core, queue, command->count_max, command->timeout_ms, in_flight_max, messages, count);
    if (error == ERROR_OVER_LIMIT)
        return call_fail(call, error, "The queue has %u messages in flight, its limit; delete some first.",
                         in_flight_max);
    /* A receive ends something and is never refused, but remembering its attempt id would add state. Without that, a
     * repeat is a new receive. */
    if (has_attempt && *count > 0 && !growth_is_held(call->api))
        decide_remember_attempt(call->core, queue, command->attempt, messages, *count);
    return error;
}

/* The caller has these messages now; of one that has waited, only who it was is left. */
static void note_holder(struct call *call, const struct receive_command *command,
                        const struct received_message *messages, unsigned count)
{
    const uint32_t holder = command->has_waited ? command->holder : holder_view_use(call);
    for (unsigned i = 0; i < count; i++)
        if (messages[i].slot != 0)
            holder_note(call->core, messages[i].slot, holder);
    if (!command->has_waited)
        holder_release(call->core, holder);
}

enum error receive_now(struct call *call, struct queue *queue, const struct receive_command *command, unsigned *count)
{
    struct received_message messages[RECEIVE_MAX];
    unsigned received;
    queue_counters_note_receive(&queue->counters, core_now_ms(call->core), false);
    enum error error = take(call, queue, command, messages, &received);
    if (error != OK)
        return error;
    *count = 0;
    if (received > 0)
        note_holder(call, command, messages, received);
    for (unsigned i = 0; i < received; i++) {
        struct content content;
        if (!read_content(call, &messages[i], &content))
            continue; /* it stays in flight, and in the end goes to the dead-letter queue, if there is one */
        if (*count == 0)
            writer_list_begin(call->reply, "Messages");
        write_message(call, command, queue->settings.is_fifo, &messages[i], &content);
        if (*count < i)
            messages[*count] = messages[i];
        (*count)++;
    }
    if (*count > 0)
        writer_list_end(call->reply);
    grant_leases(call, queue, command, messages, *count);
    return *count == 0 && received > 0 ? fail_damaged(call, messages, received) : OK;
}

/* --- the action --------------------------------------------------------------------------------------------------- */

static enum error read_attempt(const struct params *params, struct receive_command *command)
{
    enum error error = params_text(params, "ReceiveRequestAttemptId", &command->attempt);
    if (error == OK && command->attempt.ptr != NULL && !text_is_identifier(command->attempt, ATTEMPT_SIZE_MAX))
        return params_invalid(
            params, "ReceiveRequestAttemptId", command->attempt,
            "ReceiveRequestAttemptId can only include alphanumeric and punctuation characters. 1 to 128 in length.");
    return error;
}

static enum error read_command(struct call *call, const struct queue *queue, struct receive_command *command,
                               int64_t *wait_s)
{
    int64_t count_max = 1, timeout_s = queue->settings.visibility_timeout_s;
    *wait_s = queue->settings.wait_s;
    *command = (struct receive_command){0};
    const struct params *params = &call->params;
    enum error error = params_integer_in(params, "MaxNumberOfMessages", 1, RECEIVE_MAX,
                                         "Must be between 1 and 10, if provided.", &count_max);
    if (error == OK)
        error = params_integer_in(params, "WaitTimeSeconds", 0, 20, "Must be >= 0 and <= 20, if provided.", wait_s);
    if (error == OK)
        error = params_integer_in(params, "VisibilityTimeout", 0, 43200, "Must be >= 0 and <= 43200, if provided.",
                                  &timeout_s);
    if (error == OK)
        error = params_names(params, "MessageSystemAttributeNames", &command->attribute_names[0]);
    if (error == OK)
        error = params_names(params, "AttributeNames", &command->attribute_names[1]);
    if (error == OK)
        error = params_names(params, "MessageAttributeNames", &command->message_attribute_names);
    if (error == OK && queue->settings.is_fifo)
        error = read_attempt(params, command);
    command->count_max = (unsigned)count_max;
    command->timeout_ms = (uint32_t)timeout_s * 1000;
    return error;
}

/* A receive that waits keeps its names. The limit is many times what makes sense. */
#define REQUEST_SIZE_MAX 65536u

enum error action_receive_message(struct call *call)
{
    if (call->exchange->request.body.size > REQUEST_SIZE_MAX)
        return call_fail(call, ERROR_REQUEST_TOO_LARGE, "A ReceiveMessage request has %zu bytes; the limit is %u.",
                         call->exchange->request.body.size, REQUEST_SIZE_MAX);
    struct queue *queue;
    struct receive_command command;
    int64_t wait_s;
    enum error error = call_queue(call, &queue);
    if (error == OK)
        error = read_command(call, queue, &command, &wait_s);
    if (error != OK)
        return error;
    unsigned count = 0;
    /* Those who already wait come first, but not before a repeat of an answered receive. */
    bool is_repeat =
        command.attempt.size > 0 && deduplication_find_attempt(call->core, queue, command.attempt).size > 0;
    if (!wait_receive_is_awaited(call->api, queue) || wait_s == 0 || is_repeat)
        error = receive_now(call, queue, &command, &count);
    if (error != OK || count > 0)
        return error;
    /* If there is no room for what it would keep, it is answered at once with no messages, as at the end of its
     * time. */
    if (wait_s > 0 && wait_receive_has_room(call, &command))
        wait_receive(call, queue, &command, call->now_ms + (uint64_t)wait_s * 1000);
    else
        queue_counters_note_receive(&queue->counters, core_now_ms(call->core), true);
    return OK;
}
