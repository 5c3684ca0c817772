#include "client/outgoing.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void add_attribute(struct json_body *body, yyjson_mut_val *map, const struct tally_attribute *attribute)
{
    const char *type = attribute->type == NULL ? "String" : attribute->type;
    yyjson_mut_val *value = json_add_object(body, map, attribute->name);
    json_add_text(body, value, "DataType", type);
    json_add_text(body, value, strncmp(type, "Binary", 6) == 0 ? "BinaryValue" : "StringValue", attribute->value);
}

/* One of Tally's own attributes; a NULL value adds nothing. */
static void add_own(struct json_body *body, yyjson_mut_val *map, const char *name, const char *value)
{
    if (value != NULL)
        add_attribute(body, map, &(struct tally_attribute){.name = name, .value = value});
}

static void add_own_number(struct json_body *body, yyjson_mut_val *map, const char *name, uint64_t number)
{
    char text[24];
    yyjson_mut_val *value = json_add_object(body, map, name);
    snprintf(text, sizeof text, "%" PRIu64, number);
    json_add_text(body, value, "DataType", "Number");
    yyjson_mut_obj_add_strcpy(body->doc_owned, value, "StringValue", text);
}

void outgoing_add(struct json_body *body, yyjson_mut_val *object, const struct tally_outgoing *message)
{
    yyjson_mut_val *map;
    json_add_text(body, object, "MessageBody", message->body);
    if (message->has_delay)
        json_add_number(body, object, "DelaySeconds", message->delay_s);
    json_add_text(body, object, "MessageGroupId", message->group_id);
    json_add_text(body, object, "MessageDeduplicationId", message->deduplication_id);
    map = json_add_object(body, object, "MessageAttributes");
    for (size_t i = 0; i < message->attribute_count; i++)
        add_attribute(body, map, &message->attributes[i]);
    add_own(body, map, "Tally.Batch", message->batch_id);
    add_own(body, map, "Tally.Producer", message->producer);
    if (message->producer != NULL)
        add_own_number(body, map, "Tally.Sequence", message->sequence);
    if (message->has_priority)
        add_own_number(body, map, "Tally.Priority", message->priority);
    add_own(body, map, "Tally.Type", message->type);
    add_own(body, map, "Tally.After", message->after);
    add_own(body, map, "Tally.AfterFailure", message->after_failure);
    if (yyjson_mut_obj_size(map) == 0)
        yyjson_mut_obj_remove_key(object, "MessageAttributes");
}

void outgoing_read_sent(yyjson_val *object, struct tally_sent *sent)
{
    sent->is_sent = true;
    json_copy(object, "MessageId", sent->id, sizeof sent->id);
    json_copy(object, "SequenceNumber", sent->sequence_number, sizeof sent->sequence_number);
    sent->is_duplicate = json_is_true(object, "Duplicate");
    sent->last_sequence = json_number(object, "LastSequence");
    sent->was_passed_over = json_is_true(object, "PassedOver");
}

bool outgoing_is_recognised(yyjson_val *object)
{
    return yyjson_obj_get(object, "MessageDeduplicationId") != NULL ||
           yyjson_obj_get(yyjson_obj_get(object, "MessageAttributes"), "Tally.Producer") != NULL;
}
