#include "api/received_view.h"

#include "api/access.h"

/* The attributes that a receive adds to those sent. */
#define FENCING_TOKEN "Tally.FencingToken"
#define FAILURE_REASON "Tally.FailureReason"

/* Does one of the two lists ask for the system attribute? `all`: the word that asks for it besides its name, or
 * NULL. */
static bool is_asked(const struct received_view *view, const char *name, const char *all)
{
    if (view->look != NULL)
        return all != NULL;
    for (unsigned i = 0; i < ARRAY_LENGTH(view->command->attribute_names); i++) {
        size_t index, count;
        yyjson_val *item;
        yyjson_arr_foreach(view->command->attribute_names[i], index, count, item)
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

static void write_system(struct writer *writer, const struct received_view *view, bool *has_any, const char *name,
                         struct bytes value)
{
    if (value.size == 0 || !is_asked(view, name, "All"))
        return;
    write_system_value(writer, has_any, name, value);
}

static void write_look(struct call *call, const struct received_look *look, bool *has_any)
{
    if (look->shows_invisible)
        write_system_value(call->reply, has_any, "IsVisible", look->is_visible ? BYTES("true") : BYTES("false"));
    if (look->shows_delayed)
        write_system_value(call->reply, has_any, "IsDelayed", look->is_delayed ? BYTES("true") : BYTES("false"));
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

static void write_system_attributes(struct call *call, const struct received_view *view,
                                    const struct received_message *message, const struct content *content)
{
    const struct receive_command *command = view->command;
    if (view->look == NULL && command->attribute_names[0] == NULL && command->attribute_names[1] == NULL)
        return;
    bool has_any = false;
    struct bytes deduplication = deduplication_id(call, view->is_fifo, message, content);
    struct bytes origin = {NULL, 0};
    if (message->origin.size > 0 && access_covers(call, message->origin))
        origin = call_queue_arn(call, message->origin);
    write_system(call->reply, view, &has_any, "SenderId", content->sender);
    write_system(call->reply, view, &has_any, "SentTimestamp", decimal(call->arena, message->sent_at_ms));
    write_system(call->reply, view, &has_any, "ApproximateReceiveCount", decimal(call->arena, message->receive_count));
    write_system(call->reply, view, &has_any, "ApproximateFirstReceiveTimestamp",
                 decimal(call->arena, message->first_received_at_ms));
    write_system(call->reply, view, &has_any, "MessageGroupId", content->group);
    if (view->is_fifo)
        write_system(call->reply, view, &has_any, "SequenceNumber", call_sequence_number(call, message->sequence));
    write_system(call->reply, view, &has_any, "MessageDeduplicationId", deduplication);
    write_system(call->reply, view, &has_any, "AWSTraceHeader", content->trace);
    write_system(call->reply, view, &has_any, "DeadLetterQueueSourceArn", origin);
    if (is_asked(view, FENCING_TOKEN, NULL)) /* SQS has no such attribute, so All does not mean it */
        write_system_value(call->reply, &has_any, FENCING_TOKEN, decimal(call->arena, message->handle.delivery));
    if (view->look != NULL)
        write_look(call, view->look, &has_any);
    if (has_any)
        writer_object_end(call->reply);
}

/* The message's attributes, and the two that the receive adds if they were asked for: the fencing token, and the reason
 * of the newest failed attempt. */
static void write_message_attributes(struct call *call, const struct received_view *view,
                                     const struct received_message *message, const struct content *content)
{
    struct attributes own = {.count = 0};
    yyjson_val *names = view->command->message_attribute_names;
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

void received_view_write(struct call *call, const struct received_view *view, const struct received_message *message,
                         const struct content *content)
{
    struct writer *writer = call->reply;
    char id[IDENTITY_TEXT_SIZE];
    uint8_t raw_id[MESSAGE_ID_SIZE];
    content_id(content, message->handle.message, message->is_renamed, call_digest(call), raw_id);
    identity_to_text(raw_id, id);
    writer_object_begin(writer, NULL);
    writer_text(writer, "MessageId", bytes_make(id, sizeof(id)));
    writer_text(writer, "ReceiptHandle", view->handle);
    writer_hex(writer, "MD5OfBody", bytes_make(content->body_md5, sizeof(content->body_md5)));
    writer_text(writer, "Body", content->body);
    write_system_attributes(call, view, message, content);
    if (view->look != NULL)
        attributes_write_all(content->attributes, content->attributes_md5, writer);
    else if (view->command->message_attribute_names != NULL)
        write_message_attributes(call, view, message, content);
    writer_object_end(writer);
}
