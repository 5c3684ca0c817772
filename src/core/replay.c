/* Applies an event of any kind; and replay: applies the events of the log's frames again.
 *
 * Events have no relation to the order of the index. So a replay of millions of them would spend most of its time
 * waiting for memory. Instead it reads some events ahead and begins to load what they will change, so that the waits
 * overlap. */
#include "core/apply.h"
#include "core/core.h"

#include "base/cursor.h"

#define SCAN_AHEAD_EVENTS 32u

bool core_apply(struct core *core, const struct event *event, uint64_t position)
{
    if (core->digest_owned == NULL && event->kind != EVENT_FOUNDED)
        return false;
    core->applying_at = position;
    switch (event->kind) {
#define APPLY_CASE(KIND, kind, number)                                                                                 \
    case EVENT_##KIND:                                                                                                 \
        return apply_##kind(core, &event->kind);
        EVENT_LIST(APPLY_CASE)
    }
    return false;
}

/* The number of the message that an event of this kind changes; 0: no older message. */
static uint64_t subject_of(unsigned kind, struct bytes fields)
{
    struct cursor cursor = cursor_make(fields);
    switch (kind) {
    case EVENT_RECEIVED:
    case EVENT_VISIBILITY_CHANGED:
    case EVENT_ENDED:
    case EVENT_DEAD_LETTERED:
    case EVENT_FAILED:
    case EVENT_CONTENT_MOVED:
    case EVENT_LEASE_RENEWED:
        return cursor_u64(&cursor); /* the first field of each of them */
    default:
        return 0;
    }
}

static void prefetch_message(const struct core *core, uint32_t slot)
{
    const struct message *message = core_message(core, slot);
    __builtin_prefetch(&message->number, 1);
    __builtin_prefetch(&message->extra, 1); /* it may be in two cache lines */
}

static void prefetch_timer(const struct core *core, uint32_t slot)
{
    unsigned state = core_message(core, slot)->state;
    if (state == MESSAGE_IN_FLIGHT || state == MESSAGE_DELAYED)
        heap_prefetch(&core->messages.timers, slot);
}

/* Begins to load what the next events will need, and returns the end of these events. Two rounds over the messages: the
 * second one needs what the first has loaded. */
static const uint8_t *scan_ahead(const struct core *core, struct bytes events)
{
    uint64_t numbers[SCAN_AHEAD_EVENTS];
    uint32_t slots[SCAN_AHEAD_EVENTS];
    size_t count = 0;
    struct cursor cursor = cursor_make(events);
    for (unsigned i = 0; i < SCAN_AHEAD_EVENTS && cursor.rest.size > 0; i++) {
        unsigned kind = cursor_u8(&cursor);
        uint64_t number = subject_of(kind, cursor_sized(&cursor));
        if (number != 0)
            numbers[count++] = number;
    }
    number_map_find_many(&core->messages.by_number, numbers, slots, count);
    for (size_t i = 0; i < count; i++)
        if (slots[i] != 0)
            prefetch_message(core, slots[i]);
    for (size_t i = 0; i < count; i++)
        if (slots[i] != 0)
            prefetch_timer(core, slots[i]);
    return cursor.rest.ptr;
}

bool core_replay(struct core *core, struct bytes payload, uint64_t position, uint64_t time_ms, struct failure *failure)
{
    ASSERT(core->frame.events == NULL);
    if (time_ms < core->now_ms) {
        failure_set(failure, ERROR_LOG_DAMAGED, "the frame's time %llu lies before that of the frame before it, %llu",
                    (unsigned long long)time_ms, (unsigned long long)core->now_ms);
        return false;
    }
    core_advance(core, time_ms);
    struct bytes rest = payload;
    const uint8_t *scanned_end = payload.ptr;
    while (rest.size > 0) {
        if (rest.ptr >= scanned_end)
            scanned_end = scan_ahead(core, rest);
        uint64_t at = position + (payload.size - rest.size);
        unsigned kind = rest.ptr[0];
        const char *name = event_kind_name(kind);
        struct event event;
        if (!event_decode(&rest, &event) || !core_apply(core, &event, at + EVENT_HEADER_SIZE)) {
            failure_set(failure, ERROR_LOG_DAMAGED,
                        "the event at log position %llu (kind %u, %s) does not fit what the log said before",
                        (unsigned long long)at, kind, name == NULL ? "unknown to this version" : name);
            return false;
        }
    }
    return true;
}
