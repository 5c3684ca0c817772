/* Judges a world: its live state against its log, and the log's events against the rules of batches and of matches. */
#include "support/world.h"

#include "base/assert.h"
#include "base/table.h"
#include "core/batches/batch.h"
#include "core/event.h"
#include "core/pools/made_match.h"
#include "log/log.h"
#include "support/core_bytes.h"
#include <stdio.h>

static void append_piece(void *context, struct bytes piece)
{
    buffer_append_bytes(context, piece);
}

void world_encode(const struct core *core, struct buffer *out)
{
    buffer_truncate(out, 0);
    core_encode(core, append_piece, out);
}

/* Which events were seen: batch number * 8 + event. */
struct seen {
    struct table fired;
    struct table sent;
};

static bool is_new(struct table *table, uint64_t batch, uint8_t event)
{
    const uint64_t hash = table_hash_u64(batch * 8 + event);
    ASSERT(batch < UINT32_MAX / 8);
    const uint32_t slot = (uint32_t)(batch * 8 + event);
    for (struct table_probe probe = table_probe_start(table, hash); table_probe_next(table, &probe);)
        if (probe.slot == slot)
            return false;
    table_insert(table, hash, slot);
    return true;
}

/* Which batch event's message an event sends; 0: none. */
static uint8_t completes_what(const struct event *event, uint64_t *batch)
{
    *batch = event->kind == EVENT_SENT            ? event->sent.batch
             : event->kind == EVENT_SENT_IN_GROUP ? event->sent_in_group.batch
                                                  : 0;
    if (event->kind == EVENT_SENT)
        return event->sent.completes;
    return event->kind == EVENT_SENT_IN_GROUP ? event->sent_in_group.completes : 0;
}

/* One frame: whatever fired is sent here, in the order complete, success, and each once in the whole log. */
static void judge_frame(const struct core *core, struct bytes payload, struct seen *seen)
{
    uint64_t awaited_batch = 0;
    uint8_t awaited_event = 0;
    struct event event;
    while (payload.size > 0) {
        bool is_event = event_decode(&payload, &event);
        ASSERT(is_event);
        uint64_t sent_batch;
        uint8_t sent_event = completes_what(&event, &sent_batch);
        if (awaited_event != 0) {
            ASSERT(sent_event == awaited_event && sent_batch == awaited_batch);
            awaited_event = 0;
        }
        if (sent_event != 0) {
            bool is_first = is_new(&seen->sent, sent_batch, sent_event);
            ASSERT(is_first); /* invariant B1 */
        }
        if (event.kind != EVENT_BATCH_FIRED)
            continue;
        bool is_first = is_new(&seen->fired, event.batch_fired.batch, event.batch_fired.event);
        ASSERT(is_first);
        /* What became of the batch by now says where its messages went; a batch that is gone can't be asked. */
        const struct batch *batch = core_next_batch(core, event.batch_fired.batch);
        if (batch == NULL || batch->number != event.batch_fired.batch ||
            batch->spec.targets[event.batch_fired.event - 1].queue == 0)
            continue;
        if (core_find_queue_by_id(core, batch->spec.targets[event.batch_fired.event - 1].queue) == NULL)
            continue;
        awaited_batch = event.batch_fired.batch;
        awaited_event = event.batch_fired.event;
    }
    ASSERT(awaited_event == 0); /* invariant B2: the message is in the frame of its event */
}

/* One frame: a match stands right behind its result, and what puts it back right behind the end of that (M3). */
static void judge_matches(struct bytes payload)
{
    struct event event, before = {0};
    while (payload.size > 0) {
        bool is_event = event_decode(&payload, &event);
        ASSERT(is_event);
        uint64_t message = event.kind == EVENT_MATCHED      ? event.matched.message
                           : event.kind == EVENT_MATCH_MADE ? event.match_made.message
                                                            : 0;
        ASSERT(message == 0 || (before.kind == EVENT_SENT && before.sent.number == message));
        ASSERT(event.kind != EVENT_MATCH_MADE || message != 0);
        bool is_put_back = event.kind == EVENT_MATCH_UNDONE && event.match_undone.reason == MATCH_UNDONE_PUT_BACK;
        ASSERT(before.kind != EVENT_ENDED || before.ended.reason != END_PUT_BACK || is_put_back);
        before = event;
    }
    ASSERT(before.kind != EVENT_ENDED || before.ended.reason != END_PUT_BACK);
}

static void replay_frames(struct log *log, const struct core *live, struct core *core)
{
    struct seen seen;
    table_init(&seen.fired);
    table_init(&seen.sent);
    for (;;) {
        struct frame_view frame;
        bool is_end = false;
        struct failure failure = {.error = OK};
        enum error error = log_replay_next(log, &frame, &is_end, &failure);
        ASSERT(error == OK);
        if (is_end)
            break;
        bool is_replayed =
            core_replay(core, frame.payload, frame.position + FRAME_HEADER_SIZE, frame.time_ms, &failure);
        if (!is_replayed)
            fprintf(stderr, "world: %s\n", failure.text);
        ASSERT(is_replayed);
        judge_frame(live, frame.payload, &seen);
        judge_matches(frame.payload);
    }
    table_deinit(&seen.fired);
    table_deinit(&seen.sent);
}

void world_audit(struct world *world)
{
    while (!world_flush(world)) {
    }
    const struct core *live = world_core(world);
    core_check(live);
    struct disk *copy = memory_disk_clone(world->disk, 1);
    const struct log_options options = {.segment_size = world->options.segment_size,
                                        .frame_size_max = world->options.frame_size_max};
    struct log *log;
    struct buffer snapshot, replayed_bytes, live_bytes;
    buffer_init(&snapshot);
    buffer_init(&replayed_bytes);
    buffer_init(&live_bytes);
    bool is_new_log;
    struct failure failure;
    enum error error = log_open(copy, &options, &log, &snapshot, &is_new_log, &failure);
    ASSERT(error == OK);
    struct core *core = core_create();
    if (snapshot.size > 0) {
        bool is_decoded = core_bytes_decode(core, buffer_bytes(&snapshot));
        ASSERT(is_decoded);
    }
    replay_frames(log, live, core);
    /* Time may have passed since the last frame. */
    struct buffer frame;
    buffer_init(&frame);
    core_frame_open(core, &frame, 0, core_now_ms(live), world->options.frame_size_max);
    core_frame_close(core);
    core_check(core);
    world_encode(core, &replayed_bytes);
    world_encode(live, &live_bytes);
    ASSERT(bytes_equal(buffer_bytes(&replayed_bytes), buffer_bytes(&live_bytes)));
    buffer_deinit(&frame);
    buffer_deinit(&snapshot);
    buffer_deinit(&replayed_bytes);
    buffer_deinit(&live_bytes);
    core_destroy(core);
    log_close(log);
    memory_disk_destroy(copy);
}
