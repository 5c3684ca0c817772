#include "tally/import_message.h"

#include "auth/sha256.h"
#include "base/assert.h"
#include "base/buffer.h"

#include <stdio.h>
#include <string.h>

#define DELAY_MS_MAX 900000u   /* SQS's DelaySeconds */
#define NUMBER_MAX 1000000000u /* of a line; ids of other systems would each take a publisher, for ever */

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* All members that a line may have. Those that are only told to people are not looked at. */
static const struct member {
    const char *name;
    yyjson_type type; /* YYJSON_TYPE_NONE: any */
} members[] = {
    {"queue", YYJSON_TYPE_STR},           {"body", YYJSON_TYPE_STR},          {"group", YYJSON_TYPE_STR},
    {"deduplicationId", YYJSON_TYPE_STR}, {"idRepeated", YYJSON_TYPE_BOOL},   {"attributes", YYJSON_TYPE_OBJ},
    {"traceHeader", YYJSON_TYPE_STR},     {"delayedUntil", YYJSON_TYPE_NUM},  {"export", YYJSON_TYPE_STR},
    {"number", YYJSON_TYPE_NUM},          {"messageId", YYJSON_TYPE_STR},     {"state", YYJSON_TYPE_NONE},
    {"sentAt", YYJSON_TYPE_NONE},         {"receiveCount", YYJSON_TYPE_NONE}, {"senderId", YYJSON_TYPE_NONE},
    {"failureReason", YYJSON_TYPE_NONE},  {"batch", YYJSON_TYPE_NONE},        {"deadLetterSource", YYJSON_TYPE_NONE},
};

/* *seen has a bit for each member that stood before it. */
static bool check_member(yyjson_val *key, yyjson_val *value, uint32_t *seen, char fault[IMPORT_FAULT_SIZE])
{
    size_t i = 0;
    static_assert(ARRAY_LENGTH(members) < 32, "a bit for each");
    while (i < ARRAY_LENGTH(members) && !yyjson_equals_str(key, members[i].name))
        i++;
    if (i == ARRAY_LENGTH(members)) {
        snprintf(fault, IMPORT_FAULT_SIZE, "a line has no member \"%.80s\"", yyjson_get_str(key));
        return false;
    }
    const yyjson_type type = members[i].type;
    const bool is_twice = (*seen >> i & 1) != 0;
    *seen |= (uint32_t)1 << i;
    if (!is_twice && (type == YYJSON_TYPE_NONE || yyjson_get_type(value) == type))
        return true;
    snprintf(fault, IMPORT_FAULT_SIZE, "%s %s", members[i].name,
             is_twice                  ? "is given twice"
             : type == YYJSON_TYPE_STR ? "must be a text"
             : type == YYJSON_TYPE_NUM ? "must be a number"
             : type == YYJSON_TYPE_OBJ ? "must be an object"
                                       : "must be true or false");
    return false;
}

/* A text in which a NUL stands is no name: it would be cut there. */
static bool check_name(yyjson_val *root, const char *name, char fault[IMPORT_FAULT_SIZE])
{
    yyjson_val *value = yyjson_obj_get(root, name);
    if (value == NULL || strlen(yyjson_get_str(value)) == yyjson_get_len(value))
        return true;
    snprintf(fault, IMPORT_FAULT_SIZE, "%s holds a NUL", name);
    return false;
}

static bool check_members(yyjson_val *root, char fault[IMPORT_FAULT_SIZE])
{
    static const char *const names[] = {"queue", "export", "messageId", "deduplicationId"};
    size_t i, max;
    yyjson_val *key, *value;
    uint32_t seen = 0;
    yyjson_obj_foreach(root, i, max, key, value)
    {
        if (!check_member(key, value, &seen, fault))
            return false;
    }
    for (i = 0; i < ARRAY_LENGTH(names); i++)
        if (!check_name(root, names[i], fault))
            return false;
    return true;
}

static bool read_identity(yyjson_val *root, struct import_message *message, char fault[IMPORT_FAULT_SIZE])
{
    yyjson_val *number = yyjson_obj_get(root, "number");
    message->export = json_text(root, "export");
    message->number = yyjson_get_uint(number);
    if (message->export == NULL && number == NULL)
        return true;
    if (message->export == NULL || number == NULL)
        snprintf(fault, IMPORT_FAULT_SIZE, "export and number go together: the line has only %s",
                 number == NULL ? "export" : "number");
    else if (!yyjson_is_uint(number) || message->number == 0 || message->number > NUMBER_MAX)
        snprintf(fault, IMPORT_FAULT_SIZE, "number must be an integer from 1 to %u", NUMBER_MAX);
    else
        return true;
    return false;
}

static bool read_line(yyjson_val *root, struct import_message *message, char fault[IMPORT_FAULT_SIZE])
{
    if (!yyjson_is_obj(root)) {
        snprintf(fault, IMPORT_FAULT_SIZE, "it is not an object of JSON in UTF-8");
        return false;
    }
    if (!check_members(root, fault) || !read_identity(root, message, fault))
        return false;
    message->queue = json_text(root, "queue");
    message->message_id = json_text(root, "messageId");
    message->deduplication_id = json_text(root, "deduplicationId");
    message->is_id_repeated = json_is_true(root, "idRepeated");
    if (yyjson_obj_get(root, "body") != NULL)
        return true;
    snprintf(fault, IMPORT_FAULT_SIZE, "it has no body");
    return false;
}

bool import_message_init(struct import_message *message, struct bytes line, char fault[IMPORT_FAULT_SIZE])
{
    *message = (struct import_message){.line_owned = json_read(line.ptr, line.size)};
    if (read_line(yyjson_doc_get_root(message->line_owned), message, fault))
        return true;
    import_message_deinit(message);
    return false;
}

void import_message_deinit(struct import_message *message)
{
    yyjson_doc_free(message->line_owned);
    message->line_owned = NULL;
}

/* --- a send ------------------------------------------------------------------------------------------------------- */

/* What connects an exported message with others of its server. The ids mean nothing to another one, and a producer's
 * numbers would make duplicates of messages that are none. */
static bool is_left_out(yyjson_val *name)
{
    static const char *const names[] = {"Tally.Batch", "Tally.After", "Tally.AfterFailure", "Tally.Producer",
                                        "Tally.Sequence"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        if (yyjson_equals_str(name, names[i]))
            return true;
    return false;
}

static yyjson_mut_val *copy(struct json_body *body, yyjson_val *value)
{
    return yyjson_val_mut_copy(body->doc_owned, value);
}

/* The name of an attribute may be any text, so it is copied with its length. */
static bool add_attribute(struct json_body *body, yyjson_mut_val *map, yyjson_val *name, yyjson_val *value,
                          char fault[IMPORT_FAULT_SIZE])
{
    const bool is_text = yyjson_is_str(value);
    yyjson_val *type = yyjson_obj_get(value, "type"), *text = is_text ? value : yyjson_obj_get(value, "value");
    if (!is_text && (!yyjson_is_str(type) || !yyjson_is_str(text) || yyjson_obj_size(value) != 2)) {
        snprintf(
            fault, IMPORT_FAULT_SIZE,
            "attribute %.80s must be a text, or {\"type\", \"value\"} of two texts; the value of a Binary is base64",
            yyjson_get_str(name));
        return false;
    }
    const bool is_binary = !is_text && strncmp(yyjson_get_str(type), "Binary", 6) == 0;
    yyjson_mut_val *object = yyjson_mut_obj(body->doc_owned);
    yyjson_mut_obj_add(map, copy(body, name), object);
    yyjson_mut_obj_add_val(body->doc_owned, object, "DataType",
                           is_text ? yyjson_mut_str(body->doc_owned, "String") : copy(body, type));
    yyjson_mut_obj_add_val(body->doc_owned, object, is_binary ? "BinaryValue" : "StringValue", copy(body, text));
    return true;
}

static bool add_attributes(const struct import_message *message, yyjson_val *attributes, struct json_body *body,
                           yyjson_mut_val *object, char fault[IMPORT_FAULT_SIZE])
{
    size_t i, max;
    yyjson_val *name, *value;
    yyjson_mut_val *map = yyjson_mut_obj(body->doc_owned);
    yyjson_obj_foreach(attributes, i, max, name, value)
    {
        if (message->export != NULL && is_left_out(name))
            continue;
        if (!add_attribute(body, map, name, value, fault))
            return false;
    }
    if (yyjson_mut_obj_size(map) > 0)
        yyjson_mut_obj_add_val(body->doc_owned, object, "MessageAttributes", map);
    return true;
}

static void add_trace_header(yyjson_val *header, struct json_body *body, yyjson_mut_val *object)
{
    if (header == NULL)
        return;
    yyjson_mut_val *map = json_add_object(body, object, "MessageSystemAttributes");
    yyjson_mut_val *attribute = json_add_object(body, map, "AWSTraceHeader");
    json_add_text(body, attribute, "DataType", "String");
    yyjson_mut_obj_add_val(body->doc_owned, attribute, "StringValue", copy(body, header));
}

/* What is left of the delay. In a FIFO queue it is the queue's, and a send says nothing of it. */
static bool add_delay(yyjson_val *until, const char *queue, uint64_t now_ms, struct json_body *body,
                      yyjson_mut_val *object, char fault[IMPORT_FAULT_SIZE])
{
    const double left_ms = until == NULL ? 0 : yyjson_get_num(until) * 1000 - (double)now_ms;
    if (left_ms > DELAY_MS_MAX) {
        snprintf(fault, IMPORT_FAULT_SIZE,
                 "delayedUntil is more than 900 s ahead, and no message can be delayed for so long");
        return false;
    }
    if (left_ms > 0 && !bytes_ends_with(bytes_from_string(queue), BYTES(".fifo")))
        json_add_number(body, object, "DelaySeconds", ((uint64_t)left_ms + 999) / 1000);
    return true;
}

bool import_message_add(const struct import_message *message, bool keeps_id, uint64_t now_ms, struct json_body *body,
                        yyjson_mut_val *object, char fault[IMPORT_FAULT_SIZE])
{
    yyjson_val *root = yyjson_doc_get_root(message->line_owned), *group = yyjson_obj_get(root, "group");
    yyjson_mut_obj_add_val(body->doc_owned, object, "MessageBody", copy(body, yyjson_obj_get(root, "body")));
    if (group != NULL)
        yyjson_mut_obj_add_val(body->doc_owned, object, "MessageGroupId", copy(body, group));
    if (keeps_id)
        json_add_text(body, object, "MessageDeduplicationId", message->deduplication_id);
    add_trace_header(yyjson_obj_get(root, "traceHeader"), body, object);
    return add_delay(yyjson_obj_get(root, "delayedUntil"), message->queue, now_ms, body, object, fault) &&
           add_attributes(message, yyjson_obj_get(root, "attributes"), body, object, fault);
}

/* --- identity ----------------------------------------------------------------------------------------------------- */

void import_message_uid(const struct import_message *message, char uid[UUID_TEXT_SIZE + 1])
{
    uint8_t digest[SHA256_SIZE];
    struct sha256 sha256;
    struct buffer text;
    uid[UUID_TEXT_SIZE] = '\0';
    if (message->message_id != NULL && uuid_from_text(bytes_from_string(message->message_id), digest)) {
        uuid_to_text(digest, uid);
        return;
    }
    buffer_init(&text);
    sha256_init(&sha256);
    buffer_append_format(&text, "row %llu of %s", (unsigned long long)message->number, message->export);
    sha256_digest(&sha256, buffer_bytes(&text), digest);
    uuid_to_text(digest, uid);
    sha256_deinit(&sha256);
    buffer_deinit(&text);
}
