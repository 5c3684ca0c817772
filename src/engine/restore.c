#include "engine/restore.h"

#include "base/assert.h"
#include "core/decide_namespace.h"
#include "core/publishers/relay_record.h"
#include "engine/namespace.h"
#include "log/disk_copy.h"
#include "log/disk_view.h"
#include "log/log.h"
#include "log/snapshot.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

/* The folder's own sizes count. */
#define SEGMENT_SIZE_ANY (UINT64_C(44) * 1024 * 1024)
#define FRAME_SIZE_ANY (SEGMENT_SIZE_ANY / 2 - 4096)

static const struct log_options any_sizes = {.segment_size = SEGMENT_SIZE_ANY, .frame_size_max = FRAME_SIZE_ANY};

/* --- the end ------------------------------------------------------------------------------------------------------ */

void restore_write_time(uint64_t time_ms, char text[RESTORE_TIME_SIZE])
{
    const time_t seconds = (time_t)(time_ms / 1000);
    struct tm parts;
    char day[RESTORE_TIME_SIZE];
    (void)gmtime_r(&seconds, &parts);
    (void)strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &parts);
    (void)snprintf(text, RESTORE_TIME_SIZE, "%.20s.%03uZ", day, (unsigned)(time_ms % 1000));
}

static enum error refuse_early(const struct disk *from, const struct core *core, struct failure *failure)
{
    char text[RESTORE_TIME_SIZE];
    restore_write_time(core_now_ms(core), text);
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                       "%s: this backup reaches back to %s: give --until that time or a later one, or take an older "
                       "backup.",
                       from->folder, text);
}

/* Is there a segment for the body of each message? Those of messages that ended before the backup may have gone. */
static enum error check_contents(const struct disk *from, const struct log *log, const struct core *core,
                                 uint64_t until_ms, struct failure *failure)
{
    const uint64_t size = core_segment_size(core);
    for (uint64_t ordinal = core_next_needed_segment(core, 0); ordinal != UINT64_MAX;
         ordinal = core_next_needed_segment(core, ordinal + 1)) {
        if (log_has_segment(log, ordinal * size))
            continue;
        if (until_ms == UINT64_MAX)
            return failure_set(failure, ERROR_LOG_DAMAGED,
                               "%s: a segment is missing although waiting messages have their bodies in it.",
                               from->folder);
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                           "%s: bodies of messages that waited at that time had been removed when the backup was "
                           "taken: give --until a later time, or take an older backup.",
                           from->folder);
    }
    return OK;
}

static enum error decode(const struct disk *from, struct core *core, struct bytes snapshot, struct failure *failure)
{
    if (snapshot.size == 0 || core_decode(core, snapshot, NULL, NULL))
        return OK;
    return failure_set(failure, ERROR_LOG_DAMAGED,
                       "%s: the snapshot's checksums are right but this version can't read it: use the newer version "
                       "of tallyd that wrote it.",
                       from->folder);
}

static enum error replay_frame(const struct disk *from, struct core *core, const struct frame_view *frame,
                               struct failure *failure)
{
    struct failure found;
    failure_init(&found);
    if (core_replay(core, frame->payload, frame->position + FRAME_HEADER_SIZE, frame->time_ms, &found))
        return OK;
    return failure_set(failure, ERROR_LOG_DAMAGED,
                       "%s: frame %" PRIu64 ": %s. Its checksum is right, so a newer version of tallyd wrote it: use "
                       "that one.",
                       from->folder, frame->sequence, found.text);
}

/* Replays into `core` what happened until then; the frame behind that has been replayed, too, if there is one. */
static enum error replay(const struct disk *from, struct log *log, struct core *core, uint64_t until_ms,
                         struct restore_end *end, struct failure *failure)
{
    struct frame_view frame;
    bool is_last = false;
    enum error error = OK;
    end->position = log_snapshot_position(log);
    end->time_ms = core_now_ms(core);
    while (error == OK && core_now_ms(core) <= until_ms) {
        end->time_ms = core_now_ms(core);
        end->queues = core_queue_count(core);
        end->messages = core_metrics(core).messages;
        error = log_replay_next(log, &frame, &is_last, failure);
        if (error != OK || is_last)
            break;
        if (end->position != 0 && frame.time_ms > until_ms)
            break;
        error = replay_frame(from, core, &frame, failure);
        if (error == OK && core_now_ms(core) <= until_ms)
            end->position = frame.position + frame_size(frame.payload.size);
    }
    return error;
}

static enum error find_end(struct disk *from, struct disk *view, uint64_t until_ms, struct core *core,
                           struct restore_end *end, struct failure *failure)
{
    struct log *log;
    struct buffer snapshot;
    bool is_new;
    buffer_init(&snapshot);
    enum error error = log_open(view, &any_sizes, &log, &snapshot, &is_new, failure);
    if (error == OK) {
        error = decode(from, core, buffer_bytes(&snapshot), failure);
        if (error == OK && snapshot.size > 0 && core_now_ms(core) > until_ms)
            error = refuse_early(from, core, failure);
        if (error == OK)
            error = replay(from, log, core, until_ms, end, failure);
        if (error == OK && is_new)
            error = failure_set(failure, ERROR_LOG_DAMAGED, "%s: the log is empty.", from->folder);
        end->segment_size = log_segment_size(log);
        if (error == OK && end->position != 0)
            error = check_contents(from, log, core, until_ms, failure);
        log_close(log);
    }
    buffer_deinit(&snapshot);
    return error;
}

enum error restore_find_end(struct disk *from, uint64_t until_ms, struct restore_end *end, struct failure *failure)
{
    struct core *core = core_create();
    struct disk *view = disk_view_create(from);
    *end = (struct restore_end){0};
    const enum error error = find_end(from, view, until_ms, core, end, failure);
    disk_view_destroy(view);
    core_destroy(core);
    return error;
}

/* --- the new folder ----------------------------------------------------------------------------------------------- */

static enum error note_restore(struct namespace *ns, uint64_t now_ms, struct restore_result *result,
                               struct failure *failure)
{
    struct core *core = namespace_begin(ns, namespace_time(ns));
    if (!decide_restore(core, now_ms))
        return failure_set(failure, ERROR_OVER_LIMIT,
                           "the log has been restored so often that its numbers can't be raised any more.");
    result->relays = relay_record_count(core);
    result->publishers = core_metrics(core).publishers;
    return namespace_flush(ns, failure);
}

enum error restore_write(struct disk *from, struct disk *to, const struct restore_end *end, uint64_t now_ms,
                         struct restore_result *result, struct failure *failure)
{
    static const uint8_t no_key[CORE_KEY_SIZE];
    const struct disk_copy_end cut = {.position = end->position, .segment_size = end->segment_size};
    const struct namespace_options options = {
        .name = "", .segment_size = SEGMENT_SIZE_ANY, .frame_size_max = FRAME_SIZE_ANY, .in_flight_max = 1};
    struct disk_copied copied;
    struct namespace *ns;
    ASSERT(end->position > 0);
    enum error error = disk_copy_until(from, to, &cut, &copied, failure);
    if (error == OK)
        error = namespace_open(to, &options, now_ms, no_key, &ns, failure);
    if (error != OK)
        return error;
    error = note_restore(ns, now_ms, result, failure);
    namespace_close(ns);
    return error;
}
