/* Salvage of a namespace: writing the new folder. See salvage.h.
 *
 * First the snapshot of the state, as if it had been taken by the owner before; then, in the frames behind it, what the
 * salvage decides: messages without a content end, contents without a message are sent, and every other content moves
 * here. So nothing in the new folder refers to the old one, and recovery can read it like any other. Recovery refuses
 * an unfinished folder, because contents are missing. */
#include "engine/salvage_state.h"

#include "base/assert.h"
#include "base/memory.h"
#include "core/messages/decide_content.h"
#include "log/log.h"
#include "log/segment.h"
#include <stdlib.h>

#define FRAME_AMPLE_SIZE (1u << 20)

/* Epochs of owners whose starts are lost. */
#define EPOCH_MARGIN 1000u
#define SEQUENCE_MARGIN (UINT64_C(1) << 32)

struct log_end {
    struct log *log;
    struct core *core;
    struct buffer frame; /* the open one */
    struct log_point point;
    bool is_open;
};

/* --- the snapshot ------------------------------------------------------------------------------------------------- */

struct snapshot_sink {
    struct snapshot_writer *writer;
    struct failure *failure;
    enum error error;
};

static void on_piece(void *context, struct bytes piece)
{
    struct snapshot_sink *sink = context;
    if (sink->error == OK)
        sink->error = snapshot_append(sink->writer, piece, sink->failure);
}

static enum error write_snapshot(const struct salvage *salvage, struct disk *to, const struct snapshot_point *point,
                                 struct failure *failure)
{
    struct snapshot_sink sink = {.failure = failure};
    enum error error = snapshot_begin(to, point, &sink.writer, failure);
    if (error != OK)
        return error;
    core_encode(salvage->core, on_piece, &sink);
    error = snapshot_finish(sink.writer, failure);
    return error == OK ? snapshot_publish(to, point, failure) : error;
}

/* A point behind everything that the old folder may have held, so that no position of the log has two meanings. */
static struct snapshot_point choose_point(const struct salvage *salvage)
{
    const uint64_t segment_size = core_segment_size(salvage->core);
    uint64_t end = (salvage->survey.newest_ordinal + 1) * salvage->survey.segment_size;
    end = salvage->point.position > end ? salvage->point.position : end;
    const bool has_gap = core_salvage_has_gap(salvage->loose);
    uint64_t epoch = core_epoch(salvage->core);
    epoch = salvage->point.epoch > epoch ? salvage->point.epoch : epoch;
    epoch = salvage->survey.epoch > epoch ? salvage->survey.epoch : epoch;
    return (struct snapshot_point){
        .epoch = epoch + (has_gap ? EPOCH_MARGIN : 0),
        .sequence = salvage->sequence + (has_gap ? SEQUENCE_MARGIN : 0),
        .position = (end / segment_size + 1) * segment_size + SEGMENT_HEADER_SIZE,
        .time_ms = core_now_ms(salvage->core),
    };
}

/* --- frames ------------------------------------------------------------------------------------------------------- */

static enum error frame_end(struct log_end *end, struct failure *failure)
{
    if (!end->is_open)
        return OK;
    core_frame_close(end->core);
    end->is_open = false;
    enum error error = OK;
    if (end->frame.size > FRAME_HEADER_SIZE) {
        frame_seal(&end->frame, FRAME_EVENTS, log_epoch(end->log), end->point.sequence, end->point.position,
                   core_now_ms(end->core));
        ASSERT(end->frame.size <= log_frame_size_max(end->log));
        log_point_taken(end->log, end->frame.size);
        error = log_write(end->log, buffer_bytes(&end->frame), failure);
    }
    buffer_truncate(&end->frame, 0);
    return error;
}

/* Makes sure that a frame is open and has room for `size` bytes of events more. */
static enum error frame_need(struct log_end *end, uint64_t size, struct failure *failure)
{
    const uint64_t size_max = log_frame_size_max(end->log) - FRAME_SECTOR_SIZE;
    const uint64_t ample = FRAME_AMPLE_SIZE < size_max / 2 ? FRAME_AMPLE_SIZE : size_max / 2;
    if (end->is_open && (end->frame.size >= ample || end->frame.size + size > size_max)) {
        const enum error error = frame_end(end, failure);
        if (error != OK)
            return error;
    }
    if (end->is_open)
        return OK;
    end->point = log_next_point(end->log);
    frame_begin(&end->frame);
    core_frame_open(end->core, &end->frame, end->point.position + FRAME_HEADER_SIZE, core_now_ms(end->core), ample);
    end->is_open = true;
    return OK;
}

static enum error lose_messages(struct salvage *salvage, struct log_end *end, struct failure *failure)
{
    for (size_t i = 0; i < salvage->lost_count; i++) {
        /* The message may have ended already: messages that depend on a lost message can end with it. */
        if (!core_has_content(salvage->core, &salvage->lost_owned[i]))
            continue;
        const enum error error = frame_need(end, log_frame_size_max(end->log) / 2, failure);
        if (error != OK)
            return error;
        decide_lose_message(salvage->core, &salvage->lost_owned[i]);
    }
    return OK;
}

static int compare_orphans(const void *a, const void *b)
{
    const struct salvage_orphan *one = a, *other = b;
    return (one->number > other->number) - (one->number < other->number);
}

/* In the order in which they were sent first. */
static enum error send_orphans(struct salvage *salvage, struct log_end *end, struct failure *failure)
{
    const struct salvage_orphan *found;
    const size_t count = core_salvage_orphans(salvage->loose, &found);
    struct salvage_orphan *orphans = memory_allocate((count + 1) * sizeof(*orphans));
    for (size_t i = 0; i < count; i++)
        orphans[i] = found[i];
    qsort(orphans, count, sizeof(*orphans), compare_orphans);
    enum error error = OK;
    for (size_t i = 0; i < count && error == OK; i++) {
        struct bytes encoded;
        if (orphans[i].number == 0 ||
            !content_reader_read(&salvage->reader, orphans[i].position, orphans[i].size, &encoded))
            continue;
        error = frame_need(end, encoded.size + FRAME_SECTOR_SIZE, failure);
        if (error == OK)
            decide_send_orphan(salvage->core, encoded);
    }
    free(orphans);
    return error;
}

static enum error move_contents(struct salvage *salvage, struct log_end *end, uint64_t old_end, struct failure *failure)
{
    enum error error = OK;
    for (uint32_t slot = 1; error == OK && slot < core_salvage_slot_end(salvage->core); slot++) {
        struct live_content content;
        struct bytes encoded;
        if (!core_salvage_content(salvage->core, slot, &content) || content.position >= old_end)
            continue;
        if (!content_reader_read(&salvage->reader, content.position, content.size, &encoded))
            return failure_set(failure, ERROR_DISK_FAILED,
                               "%s: a body that could be read before can't be read any more: the disk gets worse. Copy "
                               "the folder to another disk with ddrescue, and salvage the copy.",
                               salvage->from->folder);
        error = frame_need(end, encoded.size + FRAME_SECTOR_SIZE, failure);
        if (error == OK)
            decide_move_content(salvage->core, &content, encoded);
    }
    return error;
}

static enum error write_frames(struct salvage *salvage, struct log *log, uint64_t old_end, struct failure *failure)
{
    struct log_end end = {.log = log, .core = salvage->core};
    buffer_init(&end.frame);
    enum error error = lose_messages(salvage, &end, failure);
    if (error == OK)
        error = send_orphans(salvage, &end, failure);
    if (error == OK)
        error = move_contents(salvage, &end, old_end, failure);
    if (error == OK)
        error = frame_end(&end, failure);
    else if (end.is_open)
        core_frame_close(salvage->core);
    buffer_deinit(&end.frame);
    return error;
}

enum error salvage_write(struct salvage *salvage, struct disk *to, struct failure *failure)
{
    ASSERT(salvage->core != NULL);
    const uint64_t segment_size = core_segment_size(salvage->core);
    const struct snapshot_point point = choose_point(salvage);
    enum error error = log_make(to, segment_size, point.sequence, point.epoch, point.position, failure);
    if (error == OK)
        error = write_snapshot(salvage, to, &point, failure);
    if (error != OK)
        return error;
    const uint64_t limit = segment_size / 2 - 2 * FRAME_SECTOR_SIZE;
    const struct log_options options = {.segment_size = segment_size,
                                        .frame_size_max = limit / FRAME_SECTOR_SIZE * FRAME_SECTOR_SIZE};
    struct log *log;
    struct buffer snapshot;
    buffer_init(&snapshot);
    bool is_new;
    error = log_open(to, &options, &log, &snapshot, &is_new, failure);
    buffer_deinit(&snapshot);
    if (error != OK)
        return error;
    struct frame_view frame;
    bool is_end = false;
    error = log_replay_next(log, &frame, &is_end, failure);
    ASSERT(error != OK || is_end);
    if (error == OK)
        error = write_frames(salvage, log, point.position, failure);
    log_close(log);
    return error;
}
