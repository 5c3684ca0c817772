#include "core/queues/queue.h"

#include "base/accounted.h"
#include "base/assert.h"
#include "base/cursor.h"
#include <stdlib.h>

struct bytes queue_name_of_arn(struct bytes arn)
{
    size_t start = arn.size;
    while (start > 0 && arn.ptr[start - 1] != ':')
        start--;
    return bytes_skip(arn, start);
}

struct queue_settings queue_settings_plain(void)
{
    return (struct queue_settings){
        .deduplication_window_s = DEDUPLICATION_WINDOW_DEFAULT_S,
        .kms_reuse_s = KMS_REUSE_DEFAULT_S,
        .is_sse_managed = true,
    };
}

static void encode_rate(const struct rate *rate, struct buffer *out)
{
    buffer_append_u64(out, rate->interval_us);
    buffer_append_u32(out, rate->burst);
}

static struct rate decode_rate(struct cursor *cursor)
{
    struct rate rate = {.interval_us = cursor_u64(cursor)};
    rate.burst = cursor_u32(cursor);
    return rate;
}

static void encode_order(const struct queue_settings *settings, struct buffer *out)
{
    buffer_append_u8(out, settings->is_fifo);
    buffer_append_u8(out, settings->is_content_deduplicated);
    buffer_append_u8(out, settings->deduplication_scope);
    buffer_append_u8(out, settings->is_limit_per_group);
    buffer_append_u8(out, settings->is_strict);
    buffer_append_u8(out, settings->group_failure);
    buffer_append_u8(out, settings->is_at_most_once);
    buffer_append_u8(out, settings->has_window);
    buffer_append_u32(out, settings->deduplication_window_s);
    buffer_append_u32(out, settings->group_concurrency);
    buffer_append_u8(out, settings->backoff.is_set);
    buffer_append_u32(out, settings->backoff.min_ms);
    buffer_append_u32(out, settings->backoff.max_ms);
    buffer_append_u32(out, settings->backoff.factor);
    buffer_append_u32(out, settings->backoff.jitter);
    encode_rate(&settings->queue_rate, out);
    encode_rate(&settings->group_rate, out);
}

/* What settings of the first version lack: they end before it. */
static void decode_order(struct cursor *cursor, struct queue_settings *settings)
{
    settings->is_fifo = cursor_u8(cursor) != 0;
    settings->is_content_deduplicated = cursor_u8(cursor) != 0;
    settings->deduplication_scope = cursor_u8(cursor);
    settings->is_limit_per_group = cursor_u8(cursor) != 0;
    settings->is_strict = cursor_u8(cursor) != 0;
    settings->group_failure = cursor_u8(cursor);
    settings->is_at_most_once = cursor_u8(cursor) != 0;
    settings->has_window = cursor_u8(cursor) != 0;
    settings->deduplication_window_s = cursor_u32(cursor);
    settings->group_concurrency = cursor_u32(cursor);
    settings->backoff.is_set = cursor_u8(cursor) != 0;
    settings->backoff.min_ms = cursor_u32(cursor);
    settings->backoff.max_ms = cursor_u32(cursor);
    settings->backoff.factor = cursor_u32(cursor);
    settings->backoff.jitter = cursor_u32(cursor);
    settings->queue_rate = decode_rate(cursor);
    settings->group_rate = decode_rate(cursor);
    if (settings->deduplication_scope > SCOPE_GROUP || settings->group_failure > GROUP_FAILURE_CANCEL_REST)
        cursor_fail(cursor);
}

static void encode_access(const struct queue_settings *settings, struct buffer *out)
{
    buffer_append_sized(out, settings->policy);
    buffer_append_sized(out, settings->redrive_allow_policy);
    buffer_append_sized(out, settings->kms_key);
    buffer_append_u32(out, settings->kms_reuse_s);
    buffer_append_u8(out, settings->is_sse_managed);
}

/* What settings of the second version lack. */
static void decode_access(struct cursor *cursor, struct queue_settings *settings)
{
    settings->policy = cursor_sized(cursor);
    settings->redrive_allow_policy = cursor_sized(cursor);
    settings->kms_key = cursor_sized(cursor);
    settings->kms_reuse_s = cursor_u32(cursor);
    settings->is_sse_managed = cursor_u8(cursor) != 0;
    if (settings->is_sse_managed && settings->kms_key.size > 0)
        cursor_fail(cursor);
}

void queue_settings_encode(const struct queue_settings *settings, struct buffer *out)
{
    ASSERT(!settings->is_sse_managed || settings->kms_key.size == 0);
    buffer_append_u32(out, settings->delay_s);
    buffer_append_u32(out, settings->message_size_max);
    buffer_append_u32(out, settings->retention_s);
    buffer_append_u32(out, settings->wait_s);
    buffer_append_u32(out, settings->visibility_timeout_s);
    buffer_append_u32(out, settings->receive_count_max);
    buffer_append_sized(out, settings->dead_letter_arn);
    encode_order(settings, out);
    encode_access(settings, out);
    if (settings->refuses_stale) /* what nobody set takes no byte, so that earlier versions read it */
        buffer_append_u8(out, true);
}

bool queue_settings_decode(struct bytes encoded, struct queue_settings *settings)
{
    struct cursor cursor = cursor_make(encoded);
    struct queue_settings decoded = queue_settings_plain();
    decoded.delay_s = cursor_u32(&cursor);
    decoded.message_size_max = cursor_u32(&cursor);
    decoded.retention_s = cursor_u32(&cursor);
    decoded.wait_s = cursor_u32(&cursor);
    decoded.visibility_timeout_s = cursor_u32(&cursor);
    decoded.receive_count_max = cursor_u32(&cursor);
    decoded.dead_letter_arn = cursor_sized(&cursor);
    if (cursor.rest.size > 0)
        decode_order(&cursor, &decoded);
    if (cursor.rest.size > 0)
        decode_access(&cursor, &decoded);
    if (cursor.rest.size > 0) {
        decoded.refuses_stale = cursor_u8(&cursor) != 0;
        if (!decoded.refuses_stale)
            cursor_fail(&cursor); /* it has one form only */
    }
    if (!cursor_is_done(&cursor))
        return false;
    *settings = decoded;
    return true;
}

uint64_t rate_allows_at_ms(const struct rate *rate, uint64_t tat_us)
{
    uint64_t tolerance_us = rate->interval_us * (rate->burst > 0 ? rate->burst - 1 : 0);
    return rate->interval_us == 0 || tat_us <= tolerance_us ? 0 : (tat_us - tolerance_us + 999) / 1000;
}

uint64_t rate_after_delivery(const struct rate *rate, uint64_t tat_us, uint64_t now_ms)
{
    uint64_t now_us = now_ms * 1000;
    return rate->interval_us == 0 ? 0 : (tat_us > now_us ? tat_us : now_us) + rate->interval_us;
}

uint64_t rate_after_change(const struct rate *rate, uint64_t tat_us, uint64_t now_ms)
{
    uint64_t empty_us = now_ms * 1000 + rate->interval_us * rate->burst;
    return tat_us < empty_us ? tat_us : empty_us;
}

bool queue_is_source_of(const struct queue *source, const struct queue *target)
{
    return source->settings.receive_count_max > 0 &&
           bytes_equal(queue_name_of_arn(source->settings.dead_letter_arn), target->name_owned);
}

void queue_adopt_settings(struct queue *queue, const struct queue_settings *settings)
{
    struct queue_settings adopted = *settings;
#define ADOPT(name)                                                                                                    \
    adopted.name = queue->settings.name;                                                                               \
    accounted_replace(&adopted.name, settings->name);
    QUEUE_SETTINGS_TEXTS(ADOPT)
#undef ADOPT
    queue->settings = adopted;
}

void queue_init(struct queue *queue, uint32_t id, struct bytes name)
{
    ASSERT(id > 0 && name.size > 0 && name.size <= QUEUE_NAME_SIZE_MAX);
    *queue = (struct queue){.id = id, .order = id, .name_owned = accounted_duplicate(name)};
    list_init(&queue->awaited);
}

void queue_deinit(struct queue *queue)
{
    ASSERT(!list_is_linked(&queue->ready_link) && !list_is_linked(&queue->counted_link));
    accounted_free((void *)queue->name_owned.ptr);
    accounted_free((void *)queue->tags_owned.ptr);
    queue_set_deinit(&queue->origins);
#define FREE(name) accounted_free((void *)queue->settings.name.ptr);
    QUEUE_SETTINGS_TEXTS(FREE)
#undef FREE
}
