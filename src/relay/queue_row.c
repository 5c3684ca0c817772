#include "relay/queue_row.h"

#include "base/assert.h"
#include "client/json.h"
#include "relay/machine_time.h"
#include <stdlib.h>
#include <time.h>

/* As far as two clocks that nobody has set may differ; small beside the margin of sinks that forget. */
#define CLOCKS_APART_MS_MAX 30000u

/* What the receive itself adds, and what it says of a message that was parked. */
static bool is_of_the_receive(const char *name)
{
    return strcmp(name, "Tally.FencingToken") == 0 || strcmp(name, "Tally.FailureReason") == 0;
}

/* What a send does with them has been done when the message was sent that is now passed on. */
static bool is_of_the_send(const char *name)
{
    static const char *const names[] = {"Tally.Batch",          "Tally.Producer",       "Tally.Sequence",
                                        "Tally.After",          "Tally.AfterFailure",   "Tally.Type",
                                        PARKED_ERROR_ATTRIBUTE, PARKED_DOUBT_ATTRIBUTE, PARKED_SOURCE_ATTRIBUTE,
                                        PARKED_PACKED_ATTRIBUTE};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* --- from a message ----------------------------------------------------------------------------------------------- */

/* An attribute; all of it is borrowed until end_copies(). */
static void add_copy(yyjson_mut_doc *doc, const char *name, const char *type, const char *text)
{
    yyjson_mut_val *value = yyjson_mut_obj_add_obj(doc, yyjson_mut_doc_get_root(doc), name);
    yyjson_mut_obj_add_str(doc, value, "DataType", type);
    yyjson_mut_obj_add_str(doc, value, strncmp(type, "Binary", 6) == 0 ? "BinaryValue" : "StringValue", text);
}

static yyjson_mut_doc *begin_copies(void)
{
    yyjson_mut_doc *doc = json_document();
    yyjson_mut_doc_set_root(doc, yyjson_mut_obj(doc));
    return doc;
}

/* NULL: there are none. */
static struct bytes end_copies(yyjson_mut_doc *doc, struct arena *arena)
{
    struct bytes copied = bytes_make(NULL, 0);
    if (yyjson_mut_obj_size(yyjson_mut_doc_get_root(doc)) > 0) {
        size_t size;
        char *text = json_write(doc, YYJSON_WRITE_NOFLAG, &size);
        ASSERT(text != NULL); /* it came as JSON, so it is UTF-8 */
        copied = arena_copy(arena, bytes_make(text, size));
        free(text);
    }
    yyjson_mut_doc_free(doc);
    return copied;
}

static struct bytes make_attributes(const struct tally_message *message, struct arena *arena)
{
    yyjson_mut_doc *doc = begin_copies();
    for (size_t i = 0; i < message->attribute_count; i++) {
        const struct tally_attribute *attribute = &message->attributes[i];
        if (!is_of_the_receive(attribute->name) && attribute->type != NULL && attribute->value != NULL)
            add_copy(doc, attribute->name, attribute->type, attribute->value);
    }
    return end_copies(doc, arena);
}

bool queue_row_copy_attributes(yyjson_val *map, struct arena *arena, struct bytes *attributes, const char **name)
{
    yyjson_mut_doc *doc = begin_copies();
    bool is_whole = true;
    size_t i, max;
    yyjson_val *key, *value;
    yyjson_obj_foreach(map, i, max, key, value)
    {
        const char *type = json_text(value, "DataType");
        const char *text = json_text(value, "StringValue");
        text =
            text == NULL || (type != NULL && strncmp(type, "Binary", 6) == 0) ? json_text(value, "BinaryValue") : text;
        if (is_of_the_receive(yyjson_get_str(key)))
            continue;
        if (type == NULL || text == NULL || strlen(yyjson_get_str(key)) != yyjson_get_len(key)) {
            *name = yyjson_get_str(key);
            is_whole = false;
            break;
        }
        add_copy(doc, yyjson_get_str(key), type, text);
    }
    struct bytes copied = end_copies(doc, arena);
    if (is_whole)
        *attributes = copied;
    return is_whole;
}

static struct bytes optional(const char *text)
{
    return text == NULL ? bytes_make(NULL, 0) : bytes_from_string(text);
}

/* By two clocks, the queue's and this machine's. What was sent later than now, and by more than they differ anyway,
 * shows that one of them was set: then nobody knows, and what may have been delivered must not be taken for young
 * (P17). */
uint64_t queue_row_age_ms(uint64_t sent_at_ms)
{
    uint64_t now_ms = (uint64_t)time(NULL) * 1000;
    if (sent_at_ms == 0)
        return AGE_UNKNOWN_MS;
    if (now_ms >= sent_at_ms)
        return now_ms - sent_at_ms;
    return sent_at_ms - now_ms < CLOCKS_APART_MS_MAX ? 0 : AGE_UNKNOWN_MS;
}

bool queue_row_read(const struct tally_message *message, struct arena *arena, struct row *row, struct uid *message_id)
{
    const char *uid = tally_message_attribute(message, ROW_UID_ATTRIBUTE);
    if (message->fencing_token == 0 || !uid_from_text(bytes_from_string(message->id), message_id))
        return false;
    *row = (struct row){
        .id = message->fencing_token,
        .uid = *message_id,
        .kind = ROW_SEND,
        .group = optional(message->group_id),
        .deduplication_id = optional(message->deduplication_id),
        .attributes = make_attributes(message, arena),
        .body = bytes_make(message->body, message->body_size),
        .receive_count = (uint32_t)message->receive_count,
        .handle = bytes_from_string(message->receipt_handle),
    };
    row->age_ms = queue_row_age_ms(message->sent_at_ms);
    if (uid != NULL)
        uid_from_text(bytes_from_string(uid), &row->uid);
    return true;
}

/* --- to a message ------------------------------------------------------------------------------------------------- */

void queue_row_add_attribute(struct json_body *body, yyjson_mut_val *attributes, const char *name, const char *text)
{
    yyjson_mut_doc *doc = body->doc_owned;
    yyjson_mut_val *value = yyjson_mut_obj(doc);
    yyjson_mut_obj_add_str(doc, value, "DataType", "String");
    yyjson_mut_obj_add_strcpy(doc, value, "StringValue", text);
    yyjson_mut_obj_put(attributes, yyjson_mut_strcpy(doc, name), value);
}

static void add_attributes(struct json_body *body, yyjson_mut_val *attributes, struct bytes text)
{
    yyjson_doc *doc = text.size == 0 ? NULL : json_read(text.ptr, text.size);
    yyjson_obj_iter iter = yyjson_obj_iter_with(yyjson_doc_get_root(doc));
    for (yyjson_val *name; (name = yyjson_obj_iter_next(&iter)) != NULL;) {
        yyjson_val *value = yyjson_obj_iter_get_val(name);
        if (!is_of_the_send(yyjson_get_str(name)))
            yyjson_mut_obj_put(attributes, yyjson_val_mut_copy(body->doc_owned, name),
                               yyjson_val_mut_copy(body->doc_owned, value));
    }
    yyjson_doc_free(doc);
}

yyjson_mut_val *queue_row_add(struct json_body *body, yyjson_mut_val *send, const char *queue, const struct row *row)
{
    yyjson_mut_doc *doc = body->doc_owned;
    json_add_text(body, send, "QueueUrl", queue);
    yyjson_mut_obj_add_strncpy(doc, send, "MessageBody", (const char *)row->body.ptr, row->body.size);
    if (row->group.size > 0)
        yyjson_mut_obj_add_strncpy(doc, send, "MessageGroupId", (const char *)row->group.ptr, row->group.size);
    if (row->trace_header.size > 0) {
        yyjson_mut_val *system = json_add_object(body, send, "MessageSystemAttributes");
        yyjson_mut_val *header = json_add_object(body, system, "AWSTraceHeader");
        json_add_text(body, header, "DataType", "String");
        yyjson_mut_obj_add_strncpy(doc, header, "StringValue", (const char *)row->trace_header.ptr,
                                   row->trace_header.size);
    }
    yyjson_mut_val *attributes = json_add_object(body, send, "MessageAttributes");
    add_attributes(body, attributes, row->attributes);
    return attributes;
}
