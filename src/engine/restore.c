#include "engine/restore.h"

#include "base/assert.h"
#include "core/decide_namespace.h"
#include "core/publishers/relay_record.h"
#include "engine/namespace.h"
#include "log/disk_copy.h"
#include "log/disk_merge.h"
#include "log/disk_view.h"
#include "log/log.h"
#include "log/segment.h"
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
        char name[SEGMENT_NAME_SIZE];
        segment_name(ordinal * size, name);
        if (until_ms == UINT64_MAX)
            return failure_set(failure, ERROR_LOG_DAMAGED,
                               "%s: %s is missing although waiting messages have their bodies in it.", from->folder,
                               name);
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                           "%s: bodies of messages that waited at that time had been removed: %s is missing. Give "
                           "--until a later time, take an older backup, or bring the file back into the archive.",
                           from->folder, name);
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

/* Where a replay stops: behind the last frame in which nothing is later than the one, and which stands before the
 * other. */
struct goal {
    uint64_t until_ms;
    uint64_t position;
};

/* Replays into `core` what happened until then; the frame behind that has been replayed, too, if it begins in time. */
static enum error replay(const struct disk *from, struct log *log, struct core *core, const struct goal *goal,
                         struct restore_end *end, struct failure *failure)
{
    const uint64_t until_ms = goal->until_ms;
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
        end->is_log_end = error == OK && is_last;
        if (error != OK || is_last)
            break;
        if ((end->position != 0 && frame.time_ms > until_ms) || frame.position >= goal->position)
            break;
        error = replay_frame(from, core, &frame, failure);
        if (error == OK && core_now_ms(core) <= until_ms)
            end->position = frame.position + frame_size(frame.payload.size);
    }
    return error;
}

static enum error find_end(struct disk *from, struct disk *view, const struct goal *goal, struct core *core,
                           struct restore_end *end, struct failure *failure)
{
    const uint64_t until_ms = goal->until_ms;
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
            error = replay(from, log, core, goal, end, failure);
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
    const struct goal goal = {.until_ms = until_ms, .position = UINT64_MAX};
    *end = (struct restore_end){0};
    const enum error error = find_end(from, view, &goal, core, end, failure);
    disk_view_destroy(view);
    core_destroy(core);
    return error;
}

/* --- with an archive ---------------------------------------------------------------------------------------------- */

static enum error refuse_missing(const struct disk *merge, uint64_t start, struct restore_end *end,
                                 struct failure *failure)
{
    end->is_missing = true;
    char name[SEGMENT_NAME_SIZE], text[RESTORE_TIME_SIZE] = "";
    segment_name(start, name);
    if (end->position != 0)
        restore_write_time(end->time_ms, text);
    return failure_set(failure, ERROR_LOG_DAMAGED,
                       "%s: %s is missing, there and in the archive, and the way to that time leads through it. Bring "
                       "it back into the archive%s%s.",
                       merge->folder, name, text[0] == '\0' ? "" : ", or give --until a time up to ", text);
}

static bool is_needed(void *context, uint64_t start)
{
    const struct core *core = context;
    const uint64_t ordinal = start / core_segment_size(core);
    return core_next_needed_segment(core, ordinal) == ordinal;
}

/* One attempt: from what `merge` shows. Afterwards it shows no more than a copy needs. */
static enum error try_end(struct disk *merge, const struct goal *goal, struct core *core, struct restore_end *end,
                          struct failure *failure)
{
    struct disk *view = disk_view_create(merge);
    *end = (struct restore_end){0};
    const enum error error = find_end(merge, view, goal, core, end, failure);
    disk_view_destroy(view);
    if (error == OK && core_now_ms(core) <= goal->until_ms)
        disk_merge_keep(merge, is_needed, core);
    return error;
}

/* The frame behind the end was replayed, too, and messages may have ended in it: so once more, without it. */
static enum error try_again(struct disk *merge, const struct restore_end *found, struct failure *failure)
{
    const struct goal goal = {.until_ms = UINT64_MAX, .position = found->position};
    struct core *core = core_create();
    struct restore_end end;
    const enum error error = try_end(merge, &goal, core, &end, failure);
    core_destroy(core);
    return error;
}

/* From the snapshot at `position`; 0: from the beginning. *is_too_early is true if its state is later, after all. */
static enum error find_from(struct disk *merge, uint64_t position, uint64_t until_ms, struct restore_end *end,
                            bool *is_too_early, struct failure *failure)
{
    const struct goal goal = {.until_ms = until_ms, .position = UINT64_MAX};
    struct core *core = core_create();
    const uint64_t missing = disk_merge_select(merge, position);
    enum error error = try_end(merge, &goal, core, end, failure);
    const bool is_beyond = core_now_ms(core) > until_ms;
    *is_too_early = is_beyond && end->position == 0 && position != 0;
    core_destroy(core);
    if (error == OK && is_beyond && end->position != 0)
        error = try_again(merge, end, failure);
    const uint64_t size = end->segment_size;
    const bool has_met_it =
        end->position == 0 ? position >= missing : size > 0 && (end->position - 1) / size + 1 == missing / size;
    return error == ERROR_LOG_DAMAGED && has_met_it ? refuse_missing(merge, missing, end, failure) : error;
}

static enum error refuse_old(const struct disk *merge, uint64_t oldest_ms, struct failure *failure)
{
    char text[RESTORE_TIME_SIZE];
    restore_write_time(oldest_ms, text);
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                       "%s: no snapshot is that old, there or in the archive: the oldest is of %s. Give --until that "
                       "time or a later one, or bring older files back into the archive.",
                       merge->folder, text);
}

enum error restore_find_end_archived(struct disk *merge, uint64_t until_ms, struct restore_end *end,
                                     struct failure *failure)
{
    struct snapshot_point point = {0};
    for (size_t i = 0; i < disk_merge_snapshot_count(merge); i++) {
        const uint64_t position = disk_merge_snapshot_at(merge, i);
        bool is_too_early = false;
        (void)disk_merge_select(merge, position);
        enum error error = snapshot_read_point(merge, position, &point, failure);
        if (error == OK && point.time_ms > until_ms)
            continue;
        if (error == OK)
            error = find_from(merge, position, until_ms, end, &is_too_early, failure);
        if (!is_too_early)
            return error;
    }
    *end = (struct restore_end){0};
    const uint64_t first = disk_merge_select(merge, 0);
    bool is_ignored;
    if (first == UINT64_MAX && disk_merge_snapshot_count(merge) == 0)
        return OK; /* no file at all */
    if (disk_merge_snapshot_count(merge) == 0 && first == 0)
        return refuse_missing(merge, first, end, failure);
    if (first == 0 || first == UINT64_MAX)
        return refuse_old(merge, point.time_ms, failure);
    return find_from(merge, 0, until_ms, end, &is_ignored, failure);
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
