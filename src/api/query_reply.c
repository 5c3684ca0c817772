#include "api/query_reply.h"

#include "api/writer.h"
#include "auth/json_tree.h"
#include "base/assert.h"

#include <stdio.h>

#define NAME_SIZE_MAX 64u /* of an action, followed by "Response" */

/* Members that AWS always has (null if absent), or writes in another way than AWS JSON does. Members of an owner
 * without a row are written as they are, after the others. */
static const struct member_row {
    const char *owner; /* an action, or `items` of another row */
    const char *name;  /* in AWS JSON */
    const char *shown; /* NULL: the same */
    const char *key;   /* of a map: the name that a pair gives it; NULL: it is not a map */
    const char *items; /* owner of the members of what is in the list or map, or NULL */
} rows[] = {
    {"ListQueues", "NextToken", NULL, NULL, NULL},
    {"ListQueues", "QueueUrls", "queueUrls", NULL, NULL},
    {"ListDeadLetterSourceQueues", "NextToken", NULL, NULL, NULL},
    {"ListDeadLetterSourceQueues", "queueUrls", NULL, NULL, NULL},
    {"GetQueueAttributes", "Attributes", NULL, "Name", NULL},
    {"ListQueueTags", "Tags", NULL, "Key", NULL},
    {"SendMessage", "MD5OfMessageAttributes", NULL, NULL, NULL},
    {"SendMessage", "MD5OfMessageBody", NULL, NULL, NULL},
    {"SendMessage", "MD5OfMessageSystemAttributes", NULL, NULL, NULL},
    {"SendMessage", "MessageId", NULL, NULL, NULL},
    {"SendMessage", "SequenceNumber", NULL, NULL, NULL},
    {"SendMessageBatch", "Failed", NULL, NULL, NULL},
    {"SendMessageBatch", "Successful", NULL, NULL, "SendMessage"},
    {"DeleteMessageBatch", "Failed", NULL, NULL, NULL},
    {"DeleteMessageBatch", "Successful", NULL, NULL, NULL},
    {"ChangeMessageVisibilityBatch", "Failed", NULL, NULL, NULL},
    {"ChangeMessageVisibilityBatch", "Successful", NULL, NULL, NULL},
    {"ReceiveMessage", "Messages", "messages", NULL, "Message"},
    {"Message", "Attributes", NULL, "Name", NULL},
    {"Message", "Body", NULL, NULL, NULL},
    {"Message", "MD5OfBody", NULL, NULL, NULL},
    {"Message", "MD5OfMessageAttributes", NULL, NULL, NULL},
    {"Message", "MessageAttributes", NULL, "Name", "MessageAttributeValue"},
    {"Message", "MessageId", NULL, NULL, NULL},
    {"Message", "ReceiptHandle", NULL, NULL, NULL},
    {"MessageAttributeValue", "BinaryListValues", NULL, NULL, NULL},
    {"MessageAttributeValue", "BinaryValue", NULL, NULL, NULL},
    {"MessageAttributeValue", "DataType", NULL, NULL, NULL},
    {"MessageAttributeValue", "StringListValues", NULL, NULL, NULL},
    {"MessageAttributeValue", "StringValue", NULL, NULL, NULL},
    {"ListMessageMoveTasks", "Results", NULL, NULL, NULL},
    {"ListMessages", "Messages", "Message", NULL, "ListedMessage"},
    {"ListedMessage", "Attributes", "Attribute", "Name", NULL},
    {"ListedMessage", "MessageAttributes", "MessageAttribute", "Name", NULL},
};

struct wrapping {
    struct writer writer;
    struct arena *arena;
    bool
        is_from_xml; /* as if the XML had been turned into it: a list of one is its item, and what is absent stays so */
};

static bool has_row(const char *owner, const char *name)
{
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
        if (strcmp(rows[i].owner, owner) == 0 && strcmp(rows[i].name, name) == 0)
            return true;
    return false;
}

static void write_object(struct wrapping *wrapping, const char *name, const char *owner, yyjson_val *object);

/* A value as it is, or, if it has an owner, an object of such members. */
static void write_value(struct wrapping *wrapping, const char *name, const char *owner, yyjson_val *value)
{
    if (owner != NULL && yyjson_is_obj(value))
        write_object(wrapping, name, owner, value);
    else if (value == NULL)
        writer_json(&wrapping->writer, name, BYTES("null"));
    else
        writer_json(&wrapping->writer, name, json_tree_compact_value(value, wrapping->arena));
}

static void write_list(struct wrapping *wrapping, const struct member_row *row, const char *shown, yyjson_val *list)
{
    size_t index, count;
    yyjson_val *item;
    const bool is_alone = wrapping->is_from_xml && yyjson_arr_size(list) == 1;
    if (!is_alone)
        writer_list_begin(&wrapping->writer, shown);
    yyjson_arr_foreach(list, index, count, item)
    {
        write_value(wrapping, is_alone ? shown : NULL, row->items, item);
    }
    if (!is_alone)
        writer_list_end(&wrapping->writer);
}

static void write_pairs(struct wrapping *wrapping, const struct member_row *row, const char *shown, yyjson_val *map)
{
    size_t index, count;
    yyjson_val *key, *value;
    const bool is_alone = wrapping->is_from_xml && yyjson_obj_size(map) == 1;
    if (!is_alone)
        writer_list_begin(&wrapping->writer, shown);
    yyjson_obj_foreach(map, index, count, key, value)
    {
        writer_object_begin(&wrapping->writer, is_alone ? shown : NULL);
        writer_text(&wrapping->writer, row->key, json_tree_text(key));
        write_value(wrapping, "Value", row->items, value);
        writer_object_end(&wrapping->writer);
    }
    if (!is_alone)
        writer_list_end(&wrapping->writer);
}

static void write_member(struct wrapping *wrapping, const struct member_row *row, yyjson_val *value)
{
    const char *shown = row->shown == NULL ? row->name : row->shown;
    if (wrapping->is_from_xml && (value == NULL || (yyjson_is_ctn(value) && yyjson_get_len(value) == 0)))
        return;
    if (row->key != NULL && value != NULL)
        write_pairs(wrapping, row, shown, value);
    else if (row->items != NULL && yyjson_is_arr(value))
        write_list(wrapping, row, shown, value);
    else
        write_value(wrapping, shown, NULL, value);
}

static void write_object(struct wrapping *wrapping, const char *name, const char *owner, yyjson_val *object)
{
    size_t index, count;
    yyjson_val *key, *value;
    writer_object_begin(&wrapping->writer, name);
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
        if (strcmp(rows[i].owner, owner) == 0)
            write_member(wrapping, &rows[i], yyjson_obj_get(object, rows[i].name));
    yyjson_obj_foreach(object, index, count, key, value)
    {
        if (!has_row(owner, yyjson_get_str(key)))
            write_value(wrapping, yyjson_get_str(key), NULL, value);
    }
    writer_object_end(&wrapping->writer);
}

/* No member, or none that has anything in it: no element would be in the XML. */
static bool holds_nothing(yyjson_val *object)
{
    size_t index, count;
    yyjson_val *key, *value;
    yyjson_obj_foreach(object, index, count, key, value)
    {
        if (!yyjson_is_ctn(value) || yyjson_get_len(value) > 0)
            return false;
    }
    return true;
}

static void write_request_id(struct writer *writer, const struct exchange *exchange)
{
    writer_text(writer, "RequestId", bytes_make(exchange->request_id, sizeof(exchange->request_id)));
}

void query_reply_wrap(struct exchange *exchange, bool is_empty)
{
    struct buffer *body = &exchange->reply.body;
    struct bytes text = arena_copy(&exchange->arena, buffer_bytes(body));
    yyjson_doc *doc = json_tree_parse(text, &exchange->arena);
    ASSERT(doc != NULL); /* we wrote it */
    char name[NAME_SIZE_MAX];
    buffer_truncate(body, 0);
    struct wrapping wrapping = {
        .writer = writer_make(body), .arena = &exchange->arena, .is_from_xml = exchange->is_as_received};
    writer_object_begin(&wrapping.writer, NULL);
    (void)snprintf(name, sizeof(name), "%sResponse", exchange_shown_action(exchange));
    writer_object_begin(&wrapping.writer, name);
    if (!is_empty) {
        (void)snprintf(name, sizeof(name), "%sResult", exchange_shown_action(exchange));
        if (wrapping.is_from_xml && holds_nothing(yyjson_doc_get_root(doc)))
            writer_json(&wrapping.writer, name, BYTES("null"));
        else
            write_object(&wrapping, name, exchange->action, yyjson_doc_get_root(doc));
    }
    writer_object_begin(&wrapping.writer, "ResponseMetadata");
    write_request_id(&wrapping.writer, exchange);
    writer_object_end(&wrapping.writer);
    writer_object_end(&wrapping.writer);
    writer_object_end(&wrapping.writer);
}

void query_reply_fail(struct exchange *exchange, const struct error_row *row, const char *text)
{
    struct buffer *body = &exchange->reply.body;
    buffer_truncate(body, 0);
    struct writer writer = writer_make(body);
    writer_object_begin(&writer, NULL);
    if (exchange->is_as_received)
        writer_object_begin(&writer, "ErrorResponse");
    writer_object_begin(&writer, "Error");
    writer_string(&writer, "Code", row->query);
    writer_string(&writer, "Message", text);
    writer_string(&writer, "Type", row->status < 500 ? "Sender" : "Receiver");
    writer_object_end(&writer);
    write_request_id(&writer, exchange);
    if (exchange->is_as_received)
        writer_object_end(&writer);
    writer_object_end(&writer);
}
