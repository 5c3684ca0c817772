/* The log of one folder: joins recovery, the writing end and the table of segments. See log.h.
 *
 * Who owns what: `recovery` until the replay is done; then `writer` belongs to the thread that calls log_write(),
 * `table` and `point` to the loop's thread; the rest never changes. Nothing is shared, so nothing is locked. A segment
 * enters the table when the loop decides that a frame goes there, which is before it exists; it is mapped when
 * something in it is read, which is after a frame in it was written. */
#include "log/log.h"

#include "base/assert.h"
#include "base/memory.h"
#include "log/log_writer.h"
#include "log/recovery.h"
#include "log/reserve.h"
#include "log/segment.h"
#include "log/segment_draft.h"
#include "log/segment_table.h"
#include "log/snapshot.h"
#include <inttypes.h>
#include <stdlib.h>

struct log {
    struct disk *disk;
    uint64_t segment_size;
    uint64_t frame_size_max;
    uint64_t epoch;             /* of this owner; 0 until the replay is done */
    uint64_t snapshot_position; /* see log_snapshot_position() */
    uint64_t replay_size;       /* see log_replay_size() */
    struct segment_table table;
    struct recovery recovery;
    struct reserve reserve;
    struct log_writer writer;
    struct log_point point;   /* behind the last frame that was taken */
    struct frame_view peeked; /* the first frame, read by log_open() to know whether the log is new */
    bool is_peeked;
    bool is_tight; /* log_set_tight() */
};

static bool log_is_replayed(const struct log *log)
{
    return log->epoch != 0;
}

/* The replay is done: from here on the log can be written. */
static enum error writing_begin(struct log *log, struct failure *failure)
{
    ASSERT(!log_is_replayed(log) && log->recovery.is_done);
    struct recovery *recovery = &log->recovery;
    const struct log_writer_start start = {
        .file = recovery->file,
        .reserve = &log->reserve,
        .segment_size = log->segment_size,
        .frame_size_max = log->frame_size_max,
        .ordinal = recovery->ordinal,
        .offset = recovery->offset,
        .epoch = recovery->epoch + 1,
        .sequence = recovery->sequence,
        .time_ms = recovery->time_ms,
    };
    recovery->file = NULL;
    /* Counts the spare segments that reading the folder made; nobody takes one yet. */
    (void)reserve_recount(&log->reserve);
    const enum error error = log_writer_init(&log->writer, log->disk, &start, failure);
    if (error != OK)
        return error;
    if (!segment_table_has(&log->table, start.ordinal))
        segment_table_add(&log->table, start.ordinal);
    log->point = (struct log_point){
        .sequence = start.sequence + 1,
        .position = start.ordinal * log->segment_size + start.offset,
    };
    log->epoch = start.epoch;
    return OK;
}

enum error log_open(struct disk *disk, const struct log_options *options, struct log **log, struct buffer *snapshot,
                    bool *is_new, struct failure *failure)
{
    ASSERT(options->segment_size >= SEGMENT_SIZE_MIN && options->segment_size <= SEGMENT_SIZE_MAX &&
           options->segment_size % SEGMENT_SIZE_MIN == 0);
    ASSERT(options->frame_size_max % FRAME_SECTOR_SIZE == 0 && options->frame_size_max > 0);
    ASSERT(options->frame_size_max + 2 * FRAME_SECTOR_SIZE <= options->segment_size / 2);
    ASSERT(snapshot->size == 0);
    enum error error = disk->operations->lock(disk, failure);
    if (error != OK)
        return error;
    struct log *opened = memory_allocate_zeroed(sizeof(*opened));
    opened->disk = disk;
    segment_table_init(&opened->table, disk);
    reserve_init(&opened->reserve, disk);
    struct snapshot_point point = {0};
    bool has_snapshot = false;
    error = reserve_restore(disk, failure);
    if (error == OK)
        error = snapshot_load(disk, &point, snapshot, &has_snapshot, failure);
    if (error == OK)
        error = recovery_init(&opened->recovery, disk, &opened->table, &point, options->segment_size, failure);
    if (error != OK)
        goto failed;
    opened->segment_size = opened->recovery.segment_size;
    opened->snapshot_position = point.position;
    const uint64_t frame_size_limit = opened->segment_size / 2 - 2 * FRAME_SECTOR_SIZE;
    opened->frame_size_max = options->frame_size_max < frame_size_limit ? options->frame_size_max : frame_size_limit;
    if (opened->table.count > 0)
        opened->replay_size =
            (opened->table.entries_owned[opened->table.count - 1].ordinal + 1) * opened->segment_size - point.position;
    bool is_empty = false;
    if (!has_snapshot) {
        error = log_replay_next(opened, &opened->peeked, &is_empty, failure);
        if (error != OK)
            goto failed;
        opened->is_peeked = !is_empty;
    }
    *is_new = is_empty;
    *log = opened;
    return OK;
failed:
    log_close(opened);
    buffer_truncate(snapshot, 0);
    return error;
}

void log_close(struct log *log)
{
    ASSERT(log != NULL);
    if (log_is_replayed(log))
        log_writer_deinit(&log->writer);
    else
        recovery_deinit(&log->recovery);
    segment_table_deinit(&log->table);
    reserve_deinit(&log->reserve);
    free(log);
}

enum error log_make(struct disk *disk, uint64_t segment_size, uint64_t sequence, uint64_t epoch, uint64_t position,
                    struct failure *failure)
{
    ASSERT(position % segment_size == SEGMENT_HEADER_SIZE);
    struct segment_draft draft;
    segment_draft_init(&draft, disk, NULL);
    enum error error = disk->operations->lock(disk, failure);
    if (error == OK)
        error = segment_draft_begin(&draft, position - SEGMENT_HEADER_SIZE, segment_size, SEGMENT_SIZE_MIN, failure);
    if (error == OK)
        error = segment_draft_finish(&draft, failure);
    const struct segment_header header = {
        .version = SEGMENT_VERSION,
        .ordinal = position / segment_size,
        .segment_size = segment_size,
        .sequence = sequence + 1,
        .epoch = epoch,
    };
    uint8_t sector[SEGMENT_HEADER_SIZE];
    segment_header_encode(&header, sector);
    if (error == OK)
        error = disk_write_synced(disk, draft.file, 0, bytes_make(sector, sizeof(sector)), failure);
    segment_draft_deinit(&draft);
    return error;
}

enum error log_replay_next(struct log *log, struct frame_view *frame, bool *is_end, struct failure *failure)
{
    if (log->is_peeked) {
        log->is_peeked = false;
        *frame = log->peeked;
        *is_end = false;
        return OK;
    }
    if (log_is_replayed(log)) {
        *is_end = true;
        return OK;
    }
    struct frame_view next;
    bool is_last = false;
    enum error error = recovery_next(&log->recovery, &next, &is_last, failure);
    if (error == OK && is_last)
        error = writing_begin(log, failure);
    if (error != OK)
        return error;
    if (!is_last)
        *frame = next;
    *is_end = is_last;
    return OK;
}

uint64_t log_snapshot_position(const struct log *log)
{
    return log->snapshot_position;
}

uint64_t log_replay_size(const struct log *log)
{
    return log->replay_size;
}

bool log_has_segment(const struct log *log, uint64_t position)
{
    return segment_table_has(&log->table, position / log->segment_size);
}

void log_visit_segments(const struct log *log, void (*visit)(void *context, uint64_t ordinal), void *context)
{
    for (size_t i = 0; i < log->table.count; i++)
        visit(context, log->table.entries_owned[i].ordinal);
}

uint64_t log_segment_size(const struct log *log)
{
    return log->segment_size;
}

uint64_t log_frame_size_max(const struct log *log)
{
    return log->frame_size_max;
}

uint64_t log_epoch(const struct log *log)
{
    ASSERT(log_is_replayed(log));
    return log->epoch;
}

static bool has_hole(const struct log *log)
{
    return segment_room(log->segment_size, log->frame_size_max) < log->segment_size;
}

uint64_t log_tight_frame_size(const struct log *log)
{
    return has_hole(log) ? log->frame_size_max / LOG_TIGHT_FRAMES * LOG_TIGHT_SHARE : log->frame_size_max;
}

/* Up to which offset of a segment a frame may begin. */
static uint64_t begin_max(const struct log *log, bool is_tight)
{
    const uint64_t anyhow = log->segment_size - log->frame_size_max - FRAME_SECTOR_SIZE;
    const uint64_t tight =
        segment_room(log->segment_size, log->frame_size_max) - log_tight_frame_size(log) - FRAME_SECTOR_SIZE;
    return is_tight && tight < anyhow ? tight : anyhow;
}

uint64_t log_usable_bytes(const struct log *log)
{
    return begin_max(log, true) - SEGMENT_HEADER_SIZE;
}

void log_set_tight(struct log *log, bool is_tight)
{
    log->is_tight = is_tight;
}

struct log_point log_next_point(const struct log *log)
{
    ASSERT(log_is_replayed(log));
    struct log_point point = log->point;
    if (point.position % log->segment_size > begin_max(log, log->is_tight))
        point.position = (point.position / log->segment_size + 1) * log->segment_size + SEGMENT_HEADER_SIZE;
    return point;
}

uint64_t log_usable_left(const struct log *log)
{
    const uint64_t end = begin_max(log, true), offset = log_next_point(log).position % log->segment_size;
    return offset < end ? end - offset : 0;
}

void log_point_taken(struct log *log, uint64_t frame_size)
{
    ASSERT(frame_size > 0 && frame_size % FRAME_SECTOR_SIZE == 0 && frame_size <= log->frame_size_max);
    const struct log_point point = log_next_point(log);
    const uint64_t ordinal = point.position / log->segment_size;
    if (!segment_table_has(&log->table, ordinal))
        segment_table_add(&log->table, ordinal);
    log->point.sequence = point.sequence + 1;
    log->point.position = point.position + frame_size;
    ASSERT(log->point.position / log->segment_size == ordinal);
    const uint64_t end = log->point.position - ordinal * log->segment_size;
    const uint64_t room = segment_room(log->segment_size, log->frame_size_max);
    if (end > room)
        segment_table_set_overhang(&log->table, end - room);
}

struct log_usage log_usage(const struct log *log)
{
    ASSERT(log_is_replayed(log));
    const uint64_t room = segment_room(log->segment_size, log->frame_size_max);
    return (struct log_usage){
        .segment_count = log->table.count,
        .segment_bytes = room,
        .bytes = (log->table.count + 1) * room + log->table.overhang,
        .newest = log->table.entries_owned[log->table.count - 1].ordinal,
    };
}

int64_t log_segments_ahead(const struct log *log)
{
    ASSERT(log_is_replayed(log));
    /* In this order: whoever makes one takes it from the reserve first. */
    const uint64_t made = atomic_load_explicit(&log->writer.made, memory_order_acquire);
    const uint64_t reserved = reserve_segments(&log->reserve);
    return (int64_t)(made + reserved) - (int64_t)(log_next_point(log).position / log->segment_size);
}

bool log_recount_reserve(struct log *log)
{
    return reserve_recount(&log->reserve);
}

enum error log_make_reserve(struct log *log, uint64_t room, bool *is_made, struct failure *failure)
{
    return reserve_make_segment(&log->reserve, room, is_made, failure);
}

unsigned log_reserve_segments(const struct log *log)
{
    return reserve_segments(&log->reserve);
}

enum error log_write(struct log *log, struct bytes frame, struct failure *failure)
{
    ASSERT(log_is_replayed(log));
    return log_writer_write(&log->writer, frame, failure);
}

enum error log_confirm(struct log *log, struct failure *failure)
{
    ASSERT(log_is_replayed(log));
    return log_writer_confirm(&log->writer, 0, failure);
}

bool log_prepare(struct log *log)
{
    ASSERT(log_is_replayed(log));
    return log_writer_prepare(&log->writer);
}

/* Must not be read before the disk has said that they are readable. */
static const uint8_t *mapped_bytes(struct log *log, uint64_t position, size_t size)
{
    const uint64_t offset = position % log->segment_size;
    ASSERT(offset >= SEGMENT_HEADER_SIZE);
    ASSERT(size <= log->segment_size - offset);
    const uint8_t *memory = segment_table_memory(&log->table, position / log->segment_size);
    return memory == NULL ? NULL : memory + offset;
}

const uint8_t *log_read(struct log *log, uint64_t position, size_t size)
{
    const uint8_t *bytes = mapped_bytes(log, position, size);
    return bytes != NULL && log->disk->operations->is_readable(log->disk, bytes, size) ? bytes : NULL;
}

bool log_is_resident(struct log *log, uint64_t position, size_t size)
{
    const uint8_t *bytes = mapped_bytes(log, position, size);
    return bytes == NULL || log->disk->operations->is_resident(log->disk, bytes, size);
}

/* May the segment at this index of the table be removed? */
static bool is_cut_off(const struct log *log, const struct log_cut *cut, size_t index)
{
    const uint64_t ordinal = log->table.entries_owned[index].ordinal;
    return ordinal < cut->replay_position / log->segment_size && !cut->is_needed(cut->context, ordinal);
}

enum error log_trim(struct log *log, const struct log_cut *cut, struct failure *failure)
{
    ASSERT(log_is_replayed(log));
    ASSERT(cut->replay_position <= log->point.position);
    enum error first = OK;
    for (size_t i = 0; i < log->table.count; i++) {
        if (!is_cut_off(log, cut, i))
            continue;
        char name[SEGMENT_NAME_SIZE];
        segment_name(log->table.entries_owned[i].ordinal * log->segment_size, name);
        segment_table_unmap(&log->table, i);
        const enum error error = reserve_retire(log->disk, RESERVE_SEGMENT, name, first == OK ? failure : NULL);
        if (error == OK)
            segment_table_drop(&log->table, i);
        else if (first == OK) /* it stays in the table, and is tried again with the next snapshot */
            first = error;
    }
    segment_table_pack(&log->table);
    return first;
}

void log_forget(struct log *log, const struct log_cut *cut)
{
    for (size_t i = 0; i < log->table.count; i++)
        if (is_cut_off(log, cut, i))
            segment_table_drop(&log->table, i);
    segment_table_pack(&log->table);
}

bool log_release(struct log *log, const struct log_cut *cut)
{
    for (size_t i = 0; i < log->table.count; i++)
        if (log->table.entries_owned[i].memory != NULL && is_cut_off(log, cut, i)) {
            segment_table_unmap(&log->table, i);
            return true;
        }
    return false;
}

void log_name_position(const struct log *log, uint64_t position, struct buffer *text)
{
    char name[SEGMENT_NAME_SIZE];
    segment_name(position / log->segment_size * log->segment_size, name);
    buffer_append_format(text, "%s, offset %" PRIu64, name, position % log->segment_size);
}
