#include "relay/row.h"

#include "base/assert.h"
#include "base/memory.h"
#include "base/trace_context.h"
#include "client/json.h"
#include "platform/random.h"
#include <stdio.h>
#include <stdlib.h>

void rows_init(struct rows *rows)
{
    *rows = (struct rows){0};
    arena_init(&rows->arena);
}

void rows_deinit(struct rows *rows)
{
    arena_deinit(&rows->arena);
    free(rows->items_owned);
}

void rows_clear(struct rows *rows)
{
    arena_reset(&rows->arena);
    rows->count = 0;
    rows->size = 0;
    rows->is_cut_short = false;
}

static struct bytes copy(struct arena *arena, struct bytes view)
{
    return view.ptr == NULL ? view : arena_copy(arena, view);
}

struct row row_copy(struct arena *arena, const struct row *row)
{
    struct row copied = *row;
    copied.queue = copy(arena, row->queue);
    copied.group = copy(arena, row->group);
    copied.deduplication_id = copy(arena, row->deduplication_id);
    copied.attributes = copy(arena, row->attributes);
    copied.body = copy(arena, row->body);
    copied.trace_header = copy(arena, row->trace_header);
    copied.handle = copy(arena, row->handle);
    return copied;
}

struct row *rows_append(struct rows *rows, const struct row *row)
{
    ARRAY_GROW(rows->items_owned, rows->count, rows->capacity);
    struct row *added = &rows->items_owned[rows->count++];
    *added = row_copy(&rows->arena, row);
    rows->size += row->body.size + row->attributes.size;
    return added;
}

/* --- uids --------------------------------------------------------------------------------------------------------- */

void uid_to_text(const struct uid *uid, char text[UID_TEXT_SIZE])
{
    uuid_to_text(uid->bytes, text);
    text[UUID_TEXT_SIZE] = '\0';
}

bool uid_from_text(struct bytes text, struct uid *uid)
{
    return uuid_from_text(text, uid->bytes);
}

void uid_generate(struct uid *uid)
{
    random_fill(uid->bytes, UID_SIZE);
    uid->bytes[6] = (uint8_t)((uid->bytes[6] & 0x0f) | 0x40);
    uid->bytes[8] = (uint8_t)((uid->bytes[8] & 0x3f) | 0x80);
}

/* --- attributes --------------------------------------------------------------------------------------------------- */

/* A string, a number, or what SQS itself takes: {"DataType", "StringValue"|"BinaryValue"}. */
static bool add_attribute(yyjson_mut_doc *to, yyjson_mut_val *attributes, yyjson_val *name, yyjson_val *value,
                          char reason[ROW_REASON_SIZE])
{
    yyjson_mut_val *key = yyjson_val_mut_copy(to, name);
    if (yyjson_is_obj(value)) {
        yyjson_mut_obj_put(attributes, key, yyjson_val_mut_copy(to, value));
        return true;
    }
    if (!yyjson_is_str(value) && !yyjson_is_num(value)) {
        snprintf(reason, ROW_REASON_SIZE,
                 "attribute %.100s must be a string, a number, or an object with DataType and a value",
                 yyjson_get_str(name));
        return false;
    }
    yyjson_mut_val *attribute = yyjson_mut_obj(to);
    yyjson_mut_obj_add_str(to, attribute, "DataType", yyjson_is_num(value) ? "Number" : "String");
    char *number = yyjson_is_num(value) ? json_write_value(value, NULL) : NULL;
    yyjson_mut_obj_add_strcpy(to, attribute, "StringValue", number != NULL ? number : yyjson_get_str(value));
    free(number);
    yyjson_mut_obj_put(attributes, key, attribute);
    return true;
}

static bool add_all(yyjson_mut_doc *to, yyjson_mut_val *attributes, struct bytes text, char reason[ROW_REASON_SIZE])
{
    if (text.size == 0)
        return true;
    yyjson_doc *doc = json_read(text.ptr, text.size);
    yyjson_val *root = yyjson_doc_get_root(doc);
    bool is_sound = yyjson_is_obj(root) || yyjson_is_null(root);
    if (!is_sound)
        snprintf(reason, ROW_REASON_SIZE, "the attributes must be a JSON object");
    yyjson_obj_iter iter = yyjson_obj_iter_with(root);
    for (yyjson_val *name; is_sound && (name = yyjson_obj_iter_next(&iter)) != NULL;)
        is_sound = add_attribute(to, attributes, name, yyjson_obj_iter_get_val(name), reason);
    yyjson_doc_free(doc);
    return is_sound;
}

/* A sink counts the context of a trace as it counts any attribute. The message matters more. */
static void make_room(yyjson_mut_val *attributes, size_t max)
{
    static const char *const names[TRACE_NAMES] = {TRACE_BAGGAGE, TRACE_STATE, TRACE_PARENT};
    for (size_t i = 0; i < TRACE_NAMES && yyjson_mut_obj_size(attributes) > max; i++)
        yyjson_mut_obj_remove_key(attributes, names[i]);
}

bool row_write_attributes(const struct row *row, size_t max, struct buffer *json, char reason[ROW_REASON_SIZE])
{
    yyjson_mut_doc *doc = json_document();
    yyjson_mut_val *attributes = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, attributes);
    bool is_sound = add_all(doc, attributes, row->attributes, reason);
    if (is_sound) {
        char uid[UID_TEXT_SIZE];
        uid_to_text(&row->uid, uid);
        yyjson_mut_val *attribute = yyjson_mut_obj(doc);
        yyjson_mut_obj_add_str(doc, attribute, "DataType", "String");
        yyjson_mut_obj_add_str(doc, attribute, "StringValue", uid);
        yyjson_mut_obj_put(attributes, yyjson_mut_str(doc, ROW_UID_ATTRIBUTE), attribute);
        make_room(attributes, max);
        size_t size;
        char *text = json_write(doc, YYJSON_WRITE_NOFLAG, &size);
        ASSERT(text != NULL); /* it was read as UTF-8, and memory_* ends the process when there is none */
        buffer_append(json, text, size);
        free(text);
    }
    yyjson_mut_doc_free(doc);
    return is_sound;
}
