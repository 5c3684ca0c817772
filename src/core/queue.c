#include "core/queue.h"

#include "base/assert.h"
#include "base/cursor.h"
#include "base/memory.h"
#include <stdlib.h>

struct bytes queue_name_of_arn(struct bytes arn)
{
    size_t start = arn.size;
    while (start > 0 && arn.ptr[start - 1] != ':')
        start--;
    return bytes_skip(arn, start);
}

void queue_settings_encode(const struct queue_settings *settings, struct buffer *out)
{
    buffer_append_u32(out, settings->delay_s);
    buffer_append_u32(out, settings->message_size_max);
    buffer_append_u32(out, settings->retention_s);
    buffer_append_u32(out, settings->wait_s);
    buffer_append_u32(out, settings->visibility_timeout_s);
    buffer_append_u32(out, settings->receive_count_max);
    buffer_append_sized(out, settings->dead_letter_arn);
}

bool queue_settings_decode(struct bytes encoded, struct queue_settings *settings)
{
    struct cursor cursor = cursor_make(encoded);
    struct queue_settings decoded = {
        .delay_s = cursor_u32(&cursor),
    };
    decoded.message_size_max = cursor_u32(&cursor);
    decoded.retention_s = cursor_u32(&cursor);
    decoded.wait_s = cursor_u32(&cursor);
    decoded.visibility_timeout_s = cursor_u32(&cursor);
    decoded.receive_count_max = cursor_u32(&cursor);
    decoded.dead_letter_arn = cursor_sized(&cursor);
    if (!cursor_is_done(&cursor))
        return false;
    *settings = decoded;
    return true;
}

void queue_adopt_settings(struct queue *queue, const struct queue_settings *settings)
{
    struct bytes arn = memory_duplicate(settings->dead_letter_arn);
    free((void *)queue->settings.dead_letter_arn.ptr);
    queue->settings = *settings;
    queue->settings.dead_letter_arn = arn;
}

void queue_init(struct queue *queue, uint32_t id, struct bytes name)
{
    ASSERT(id > 0 && name.size > 0 && name.size <= QUEUE_NAME_SIZE_MAX);
    *queue = (struct queue){.id = id, .name_owned = memory_duplicate(name)};
}

void queue_deinit(struct queue *queue)
{
    ASSERT(!list_is_linked(&queue->ready_link));
    free((void *)queue->name_owned.ptr);
    free((void *)queue->settings.dead_letter_arn.ptr);
}
