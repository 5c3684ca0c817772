/* The records against repeats in the core's snapshot: for each queue, in order of name, its ids by length of window and
 * age, and its producers by age; then the receive attempts by age. Expired records are left out, so the progress of the
 * sweep does not matter. */
#include "core/snapshot.h"
#include "core/state.h"

/* --- writing ------------------------------------------------------------------------------------------------------ */

static void write_tag(struct buffer *out, struct digest_tag tag)
{
    buffer_append_u64(out, tag.low);
    buffer_append_u64(out, tag.high);
}

/* u64 count (0: the window has expired, and nothing is written), length, then the entries. */
static void write_window(const struct core *core, const struct window *window, struct core_writer *writer)
{
    const struct slab *entries = &core->deduplication.entries;
    uint32_t slot = window->first;
    uint64_t count = window->count;
    for (; slot != 0; slot = ((const struct id_entry *)slab_at(entries, slot))->next) {
        if (((const struct id_entry *)slab_at(entries, slot))->expires_at_ms > core->now_ms)
            break;
        count--;
    }
    if (count == 0)
        return;
    buffer_append_u64(&writer->piece, count);
    buffer_append_u64(&writer->piece, window->window_ms);
    while (slot != 0) {
        const struct id_entry *entry = slab_at(entries, slot);
        write_tag(&writer->piece, entry->key);
        buffer_append_u64(&writer->piece, entry->number);
        buffer_append_u64(&writer->piece, entry->expires_at_ms);
        core_writer_pass_on(writer);
        slot = entry->next;
    }
}

static void write_producer(const struct producer *producer, struct core_writer *writer)
{
    buffer_append_u32(&writer->piece, producer->count);
    write_tag(&writer->piece, producer->key);
    for (uint32_t i = 0; i < producer->count; i++) {
        buffer_append_u64(&writer->piece, producer_at(producer, i)->sequence);
        buffer_append_u64(&writer->piece, producer_at(producer, i)->number);
    }
    core_writer_pass_on(writer);
}

static void write_queue(const struct core *core, const struct queue *queue, struct core_writer *writer)
{
    for (uint32_t slot = queue->first_window; slot != 0;) {
        const struct window *window = slab_at(&core->deduplication.windows, slot);
        write_window(core, window, writer);
        slot = window->next;
    }
    buffer_append_u64(&writer->piece, 0);
    for (uint32_t slot = queue->first_producer; slot != 0;) {
        const struct producer *producer = slab_at(&core->deduplication.producers, slot);
        write_producer(producer, writer);
        slot = producer->next;
    }
    buffer_append_u32(&writer->piece, 0);
}

static void write_attempt(const struct attempt *attempt, struct core_writer *writer)
{
    buffer_append_u32(&writer->piece, attempt->count);
    buffer_append_u32(&writer->piece, attempt->queue);
    write_tag(&writer->piece, attempt->key);
    buffer_append_u64(&writer->piece, attempt->expires_at_ms);
    buffer_append(&writer->piece, attempt->deliveries, attempt->count * ATTEMPT_DELIVERY_SIZE);
    core_writer_pass_on(writer);
}

void deduplication_encode(const struct core *core, struct core_writer *writer)
{
    const struct list *attempts = &core->deduplication.attempt_order;
    for (uint32_t i = 0; i < core->queues.order.count; i++)
        write_queue(core, core_queue(core, name_index_at(&core->queues.order, i)), writer);
    for (struct list_link *link = list_first(attempts); link != NULL; link = list_next(attempts, link)) {
        const struct attempt *attempt = CONTAINER_OF(link, struct attempt, link);
        if (attempt->expires_at_ms > core->now_ms && core_find_queue_by_id(core, attempt->queue) != NULL)
            write_attempt(attempt, writer);
    }
    buffer_append_u32(&writer->piece, 0);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static struct digest_tag read_tag(struct cursor *cursor)
{
    struct digest_tag tag;
    tag.low = cursor_u64(cursor);
    tag.high = cursor_u64(cursor);
    return tag;
}

/* Can that be the end of something accepted in a window of this length that has not expired? */
static bool end_fits_window(const struct core *core, uint64_t expires_at_ms, uint64_t window_ms)
{
    if (window_ms == WINDOW_EVER_MS || expires_at_ms == WINDOW_EVER_MS)
        return window_ms == expires_at_ms;
    return expires_at_ms > core->now_ms && expires_at_ms - core->now_ms <= window_ms;
}

static bool read_window(struct core *core, uint32_t queue, uint64_t count, uint64_t window_ms, struct cursor *cursor)
{
    uint64_t number = 1, expires_at_ms = 0;
    for (uint64_t i = 0; i < count; i++) {
        struct id_entry entry = {.key = read_tag(cursor)};
        entry.number = cursor_u64(cursor);
        entry.expires_at_ms = cursor_u64(cursor);
        if (cursor->is_failed || entry.number < number || entry.number > core->messages.message_number ||
            entry.expires_at_ms < expires_at_ms || !end_fits_window(core, entry.expires_at_ms, window_ms) ||
            deduplication_find_key(core, entry.key) != 0)
            return false;
        deduplication_add(core, queue, window_ms, &entry);
        cursor_release(cursor);
        number = entry.number;
        expires_at_ms = entry.expires_at_ms;
    }
    return true;
}

static bool read_windows(struct core *core, uint32_t queue, struct cursor *cursor)
{
    uint64_t newest_window_ms = 0;
    for (uint64_t count = cursor_u64(cursor); count != 0; count = cursor_u64(cursor)) {
        uint64_t window_ms = cursor_u64(cursor);
        if (window_ms <= newest_window_ms || !read_window(core, queue, count, window_ms, cursor))
            return false;
        newest_window_ms = window_ms;
    }
    return !cursor->is_failed;
}

static bool read_producer(struct core *core, struct queue *queue, uint32_t count, struct cursor *cursor)
{
    struct digest_tag key = read_tag(cursor);
    if (cursor->is_failed || count > PRODUCER_PAIRS || cursor->rest.size / sizeof(struct produced) < count ||
        deduplication_find_producer(core, key) != 0)
        return false;
    uint32_t slot = deduplication_add_producer(core, queue, key);
    struct producer *producer = slab_at(&core->deduplication.producers, slot);
    for (uint32_t i = 0; i < count; i++) {
        struct produced pair;
        pair.sequence = cursor_u64(cursor);
        pair.number = cursor_u64(cursor);
        const struct produced *newest = i == 0 ? NULL : producer_at(producer, i - 1);
        if (pair.number == 0 || pair.number > core->messages.message_number ||
            (newest != NULL && (pair.sequence <= newest->sequence || pair.number <= newest->number)))
            return false;
        producer_add(producer, pair);
    }
    return true;
}

static bool read_attempt(struct core *core, uint32_t count, struct cursor *cursor)
{
    struct attempt attempt = {.count = count};
    attempt.queue = cursor_u32(cursor);
    attempt.key = read_tag(cursor);
    attempt.expires_at_ms = cursor_u64(cursor);
    if (count > ATTEMPT_DELIVERIES_MAX)
        return false;
    cursor_copy(cursor, attempt.deliveries, count * ATTEMPT_DELIVERY_SIZE);
    if (cursor->is_failed || attempt.expires_at_ms <= core->now_ms ||
        core_find_queue_by_id(core, attempt.queue) == NULL || deduplication_find_attempt_key(core, attempt.key) != 0)
        return false;
    deduplication_add_attempt(core, &attempt);
    return true;
}

bool deduplication_decode(struct core *core, struct cursor *cursor)
{
    for (uint32_t i = 0; i < core->queues.order.count; i++) {
        uint32_t queue = name_index_at(&core->queues.order, i);
        if (!read_windows(core, queue, cursor))
            return false;
        for (uint32_t count = cursor_u32(cursor); count != 0; count = cursor_u32(cursor)) {
            if (!read_producer(core, core_queue(core, queue), count, cursor))
                return false;
            cursor_release(cursor);
        }
    }
    for (uint32_t count = cursor_u32(cursor); count != 0; count = cursor_u32(cursor)) {
        if (!read_attempt(core, count, cursor))
            return false;
        cursor_release(cursor);
    }
    return !cursor->is_failed;
}
