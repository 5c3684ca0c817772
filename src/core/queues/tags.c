#include "core/queues/tags.h"

bool tags_next(struct cursor *run, struct bytes *key, struct bytes *value)
{
    if (run->rest.size == 0)
        return false;
    *key = cursor_sized(run);
    *value = cursor_sized(run);
    return !run->is_failed;
}

bool tags_are_sound(struct bytes tags)
{
    struct cursor run = cursor_make(tags);
    struct bytes key, value, before = {NULL, 0};
    uint32_t count = 0;
    while (tags_next(&run, &key, &value)) {
        if (key.size == 0 || (count > 0 && bytes_compare(before, key) >= 0) || ++count > TAGS_MAX)
            return false;
        before = key;
    }
    return !run.is_failed;
}

uint32_t tags_count(struct bytes tags)
{
    struct cursor run = cursor_make(tags);
    struct bytes key, value;
    uint32_t count = 0;
    while (tags_next(&run, &key, &value))
        count++;
    return count;
}

static void append(struct buffer *out, struct bytes key, struct bytes value)
{
    buffer_append_sized(out, key);
    buffer_append_sized(out, value);
}

void tags_merge(struct bytes tags, struct bytes added, struct buffer *out)
{
    struct cursor old_run = cursor_make(tags), new_run = cursor_make(added);
    struct bytes old_key, old_value, new_key, new_value;
    bool has_old = tags_next(&old_run, &old_key, &old_value);
    bool has_new = tags_next(&new_run, &new_key, &new_value);
    while (has_old || has_new) {
        int order = !has_new ? -1 : !has_old ? 1 : bytes_compare(old_key, new_key);
        if (order < 0)
            append(out, old_key, old_value);
        else
            append(out, new_key, new_value);
        if (order <= 0)
            has_old = tags_next(&old_run, &old_key, &old_value);
        if (order >= 0)
            has_new = tags_next(&new_run, &new_key, &new_value);
    }
}

bool tags_names(struct bytes keys, struct bytes key)
{
    struct cursor run = cursor_make(keys);
    while (run.rest.size > 0)
        if (bytes_equal(cursor_sized(&run), key) && !run.is_failed)
            return true;
    return false;
}

void tags_remove(struct bytes tags, struct bytes keys, struct buffer *out)
{
    struct cursor run = cursor_make(tags);
    struct bytes key, value;
    while (tags_next(&run, &key, &value))
        if (!tags_names(keys, key))
            append(out, key, value);
}
