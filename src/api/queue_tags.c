/* TagQueue, UntagQueue and ListQueueTags, and the tags of CreateQueue. */
#include "api/queue_tags.h"
#include "api/text.h"
#include "core/queues/decide_queue.h"
#include "core/queues/tags.h"
#include <stdlib.h>

#define KEY_LENGTH_MAX 128u
#define VALUE_LENGTH_MAX 256u

static enum error check_key(struct call *call, struct bytes key)
{
    size_t length = text_length(key);
    if (length < 1 || length > KEY_LENGTH_MAX)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "Tag keys must be between 1 and 128 characters in length.");
    return OK;
}

static enum error check_tag(struct call *call, struct bytes key, struct bytes value)
{
    enum error error = check_key(call, key);
    if (error != OK)
        return error;
    if (text_length(value) > VALUE_LENGTH_MAX)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "Tag values must be between 0 and 256 characters in length.");
    if (!text_is_tag(key) || !text_is_tag(value))
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "Tag keys and values can only include letters, digits, blanks and _ . : / = + - @");
    return OK;
}

struct tag {
    struct bytes key;
    struct bytes value;
};

static int tag_compare(const void *left, const void *right)
{
    const struct tag *a = left, *b = right;
    return bytes_compare(a->key, b->key);
}

/* A sorted run of the tags, in the api's scratch memory. */
static struct bytes run_of(struct call *call, struct tag *tags, size_t count)
{
    struct buffer *run = call_scratch(call);
    qsort(tags, count, sizeof(*tags), tag_compare);
    buffer_truncate(run, 0);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && bytes_equal(tags[i].key, tags[i - 1].key))
            continue;
        buffer_append_sized(run, tags[i].key);
        buffer_append_sized(run, tags[i].value);
    }
    return arena_copy(call->arena, buffer_bytes(run));
}

enum error queue_tags_read(struct call *call, const char *member, struct bytes queue_name, struct bytes *run)
{
    yyjson_val *map;
    enum error error = params_object(&call->params, member, &map);
    *run = bytes_make(NULL, 0);
    if (error != OK || yyjson_obj_size(map) == 0)
        return error;
    if (yyjson_obj_size(map) > TAGS_MAX)
        return queue_tags_refuse_many(call, queue_name);
    struct tag *tags = arena_allocate(call->arena, yyjson_obj_size(map) * sizeof(*tags));
    size_t index, count;
    yyjson_val *key, *value;
    yyjson_obj_foreach(map, index, count, key, value)
    {
        if (!yyjson_is_str(value))
            return call_fail(call, ERROR_SERIALIZATION, "The value of a tag must be a String.");
        tags[index] = (struct tag){params_bytes(key), params_bytes(value)};
        error = check_tag(call, tags[index].key, tags[index].value);
        if (error != OK)
            return error;
    }
    *run = run_of(call, tags, count);
    return OK;
}

enum error queue_tags_refuse_many(struct call *call, struct bytes queue_name)
{
    return call_fail(call, ERROR_INVALID_PARAMETER_VALUE, "Too many tags added for queue %.*s.",
                     BYTES_FORMAT(queue_name));
}

enum error action_tag_queue(struct call *call)
{
    struct queue *queue;
    struct bytes tags;
    enum error error = call_queue(call, &queue);
    if (error == OK)
        error = queue_tags_read(call, "Tags", queue->name_owned, &tags);
    if (error != OK)
        return error;
    if (tags.size == 0)
        return call_fail(call, ERROR_MISSING_PARAMETER, "The request must contain the parameter Tags.");
    error = decide_tag_queue(call->core, queue, tags);
    return error == OK ? OK : queue_tags_refuse_many(call, queue->name_owned);
}

enum error action_untag_queue(struct call *call)
{
    struct queue *queue;
    yyjson_val *names = NULL;
    enum error error = call_queue(call, &queue);
    if (error == OK)
        error = params_names(&call->params, "TagKeys", &names);
    if (error == OK && yyjson_arr_size(names) == 0)
        error = check_key(call, BYTES(""));
    if (error != OK)
        return error;
    if (yyjson_arr_size(names) > TAGS_MAX)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "Too many tag keys: %zu were found, maximum allowed is %u.", yyjson_arr_size(names), TAGS_MAX);
    struct buffer *keys = call_scratch(call);
    buffer_truncate(keys, 0);
    size_t index, count;
    yyjson_val *name;
    yyjson_arr_foreach(names, index, count, name)
    {
        if (error == OK)
            error = check_key(call, params_bytes(name));
        buffer_append_sized(keys, params_bytes(name));
    }
    if (error == OK)
        decide_untag_queue(call->core, queue, buffer_bytes(keys));
    return error;
}

enum error action_list_queue_tags(struct call *call)
{
    struct queue *queue;
    enum error error = call_queue(call, &queue);
    if (error != OK || queue->tags_owned.size == 0)
        return error;
    struct cursor run = cursor_make(queue->tags_owned);
    struct bytes key, value;
    writer_object_begin(call->reply, "Tags");
    while (tags_next(&run, &key, &value)) {
        writer_name(call->reply, key);
        writer_text(call->reply, NULL, value);
    }
    writer_object_end(call->reply);
    return OK;
}
